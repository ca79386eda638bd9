//! Weighted sums over heads and residual streams.

use fblayout::graph::{DType, Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        indexer(DType::F32, 9, 1),
        indexer(DType::F16, 16, 2),
        indexer(DType::Q8_0, 32, 1),
        indexer(DType::Q4_1, 32, 2),
        indexer(DType::Q5_0, 32, 1),
    ];
    for iterations in [1, 3] {
        let op = Op::Dsv4HcComb { eps: 1e-3, iterations };
        cases.push(case(format!("{iterations} rounds"), op, &[[24, 5, 1, 1], [3, 1, 1, 1], [24, 1, 1, 1]]));
    }
    let (streams, weights) = ([9, 4, 5, 1], [4, 5, 1, 1]);
    cases.push(case("weights".into(), Op::Dsv4HcPre { scale: 1.0, gated: false }, &[streams, weights]));
    cases.push(case("gates".into(), Op::Dsv4HcPre { scale: 0.5, gated: true }, &[streams, streams]));
    let layer = [9, 5, 1, 1];
    cases.push(case("kept".into(), Op::Dsv4HcPost, &[layer, streams, weights]));
    cases.push(case("mixed".into(), Op::Dsv4HcPost, &[layer, streams, weights, [4, 4, 5, 1]]));
    cases
}

fn case(name: String, op: Op, inputs: &[Shape]) -> Case {
    let mut s = Setup::new();
    let inputs = inputs.iter().map(|&shape| s.f32(shape, Fill::Floats(1.5))).collect();
    s.case(name, op, inputs)
}

/// Seven keys and three queries, the mask of one stream for all.
fn indexer(dtype: DType, size: u32, streams: u32) -> Case {
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([size, 5, 3, streams], Fill::Floats(1.0)),
        s.input(dtype, [size, 1, 7, streams], Fill::Floats(1.0)),
        s.f32([5, 3, 1, streams], Fill::Floats(1.0)),
        s.input(DType::F16, [7, 3, 1, 1], Fill::CausalMask),
    ];
    s.case(format!("{dtype:?} keys of {size}, {streams} streams"), Op::LightningIndexer, inputs)
}
