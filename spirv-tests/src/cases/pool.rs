//! Pools and their gradient.

use fblayout::graph::{Desc, Op, Pool, PoolKind, Shape};

use crate::{Case, Fill, Setup};

/// Windows that overlap on axis 0, leave gaps on axis 1, and start outside.
const UNEVEN: Pool = Pool { kind: PoolKind::Max, extent: [3, 2], stride: [2, 3], pad: [1, 1] };

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for kind in [PoolKind::Max, PoolKind::Average] {
        let pool = Pool { kind, ..UNEVEN };
        let (x, y) = ([11, 8, 3, 2], [6, 3, 3, 2]);
        cases.push(case(format!("{kind:?}"), Op::Pool2d(pool), &[x], y));
        cases.push(case(format!("{kind:?}"), Op::Pool2dBack(pool), &[y, x], x));
        // The last window lies wholly outside, as paddings by halves leave it.
        cases.push(case(format!("{kind:?} beyond"), Op::Pool2d(pool), &[[4, 2, 1, 1]], [4, 2, 1, 1]));
    }
    for kind in [PoolKind::Max, PoolKind::AverageInside] {
        let pool = Pool { kind, extent: [4, 1], stride: [3, 1], pad: [2, 0] };
        cases.push(case(format!("{kind:?}"), Op::Pool1d(pool), &[[17, 5, 2, 1]], [6, 5, 2, 1]));
    }
    cases
}

fn case(name: String, op: Op, inputs: &[Shape], output: Shape) -> Case {
    let mut s = Setup::new();
    // Small integers, so that many maxima are shared.
    let inputs = inputs.iter().map(|&shape| s.f32(shape, Fill::Integers)).collect();
    s.case_as(name, op, inputs, Desc::f32(output))
}
