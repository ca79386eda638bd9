//! Norms, softmax, argmax and the gradients.

use fblayout::graph::{DType, Op, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

const ROW_LENGTHS: &[u32] = &[1, 2, 3, 5, 17, 33, 65, 300];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &n in ROW_LENGTHS {
        cases.push(norm([n, 3, 1, 1]));
        cases.push(norm_back([n, 3, 1, 1]));
        cases.push(plain_soft_max([n, 5, 1, 1], Fill::Floats(6.0)));
        cases.push(soft_max_back([n, 5, 1, 1]));
        cases.push(arg_max([n, 9, 1, 1], Fill::Floats(3.0)));
    }
    for shape in [[576, 33, 1, 1], [64, 3, 5, 2]] {
        cases.push(norm(shape));
        cases.push(norm_back(shape));
    }
    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32([64, 3, 7, 1], Fill::Floats(2.0)))];
    cases.push(s.case("by head", Op::RmsNorm { eps: 1e-5 }, inputs));
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 2, 1, 1], Fill::Given(vec![0.0; 18]))];
    cases.push(s.case("zeros", Op::RmsNorm { eps: 1e-5 }, inputs));

    cases.push(plain_soft_max([49152, 2, 1, 1], Fill::Peaks));
    cases.push(soft_max_back([33, 17, 3, 2]));
    for (x, mask) in [
        ([5, 5, 1, 1], [5, 5, 1, 1]),
        ([33, 33, 9, 1], [33, 33, 1, 1]),
        ([33, 17, 4, 2], [33, 17, 2, 1]),
        ([65, 3, 2, 1], [65, 8, 1, 1]),
    ] {
        cases.push(masked_soft_max(x, mask));
    }
    cases.push(masked_row());
    for (mask, max_bias, sinks) in [
        (None, 0.0, true),
        (Some(DType::F16), 0.0, false),
        (Some(DType::F16), 8.0, false),
        (Some(DType::F32), 8.0, true),
    ] {
        cases.push(attention([33, 5, 6, 2], mask, max_bias, sinks));
    }
    cases.push(attention([65, 3, 1, 1], Some(DType::F32), 1.5, true));
    for shape in [[1, 3, 1, 1], [5, 9, 1, 1], [300, 3, 2, 1]] {
        cases.extend(norms(shape));
    }
    let mut s = Setup::new();
    let inputs = vec![s.f32([5, 33, 2, 1], Fill::Floats(2.0)).transpose()];
    cases.push(s.case("transposed", Op::Norm { eps: 1e-5 }, inputs));
    cases.push(arg_max([49152, 3, 1, 1], Fill::Peaks));
    cases.push(arg_max([300, 33, 1, 1], Fill::Integers));
    cases.push(arg_max([7, 3, 1, 1], Fill::Given(vec![-3.0; 21])));
    cases
}

fn norm(shape: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(2.0))];
    s.case(format!("{shape:?}"), Op::RmsNorm { eps: 1e-5 }, inputs)
}

fn norm_back(shape: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(1.0)), s.f32(shape, Fill::Floats(2.0))];
    s.case(format!("{shape:?}"), Op::RmsNormBack { eps: 1e-5 }, inputs)
}

fn plain_soft_max(shape: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, fill)];
    s.case(format!("{shape:?}"), Op::soft_max(0.7), inputs)
}

fn masked_soft_max(x: Shape, mask: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(x, Fill::Floats(6.0)), s.f32(mask, Fill::CausalMask)];
    s.case(format!("{x:?} with a mask {mask:?}"), Op::soft_max(0.125), inputs)
}

/// With a mask that several samples and heads share, ALiBi and sinks.
fn attention(x: Shape, mask: Option<DType>, max_bias: f32, sinks: bool) -> Case {
    let mut s = Setup::new();
    let mut inputs = vec![s.f32(x, Fill::Floats(6.0))];
    inputs.extend(mask.map(|dtype| s.input(dtype, [x[0], x[1] + 1, x[2].div_ceil(2), 1], Fill::Floats(4.0))));
    if sinks {
        inputs.push(s.f32([x[2], 1, 1, 1], Fill::Floats(6.0)));
    }
    let op = Op::SoftMax { scale: 0.5, max_bias, sinks };
    s.case(format!("{x:?}, mask {mask:?}, bias {max_bias}, sinks {sinks}"), op, inputs)
}

fn norms(shape: Shape) -> [Case; 2] {
    [Op::Norm { eps: 1e-5 }, Op::L2Norm { eps: 1e-3 }].map(|op| {
        let mut s = Setup::new();
        let inputs = vec![s.f32(shape, Fill::Floats(2.0))];
        s.case(format!("{shape:?}"), op, inputs)
    })
}

/// The second row sees nothing and becomes zero.
fn masked_row() -> Case {
    let mask = (0..27).map(|i| if i / 9 == 1 { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 3, 2, 1], Fill::Floats(6.0)), s.f32([9, 3, 1, 1], Fill::Given(mask))];
    s.case("with a row that is masked as a whole", Op::soft_max(1.0), inputs)
}

fn soft_max_back(shape: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(1.0)), s.f32(shape, Fill::Probabilities)];
    s.case(format!("{shape:?}"), Op::SoftMaxBack { scale: 0.7 }, inputs)
}

fn arg_max(shape: Shape, fill: Fill) -> Case {
    let what = match fill {
        Fill::Integers => "with ties",
        Fill::Given(_) => "all equal and negative",
        _ => "",
    };
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, fill)];
    s.case(format!("{shape:?} {what}"), Op::ArgMax, inputs)
}
