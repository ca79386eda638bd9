//! Values of a formula.

use fblayout::graph::{Desc, Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (value, shape) in [(-152.0, [9, 5, 3, 2]), (f32::NEG_INFINITY, [1, 1, 1, 1])] {
        cases.push(without_operands(Op::Fill { value }, shape));
    }
    for (start, step, count) in [(0.0, 1.0, 10), (-3.5, 0.3, 65)] {
        cases.push(without_operands(Op::Arange { start, step }, [count, 1, 1, 1]));
    }
    for (dim, max_period, largest) in [(320, 10000, 7.0), (33, 100, 1000.0)] {
        let mut s = Setup::new();
        let inputs = vec![s.f32([3, 1, 1, 1], Fill::Floats(largest))];
        let op = Op::TimestepEmbedding { max_period };
        cases.push(s.case_as(format!("{dim} of {largest}"), op, inputs, Desc::f32([dim, 3, 1, 1])));
    }
    cases
}

fn without_operands(op: Op, shape: Shape) -> Case {
    Setup::new().case_as(format!("{op:?} {shape:?}"), op, Vec::new(), Desc::f32(shape))
}
