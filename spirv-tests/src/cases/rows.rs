//! Norms, softmax, argmax and the gradients.

use fblayout::graph::{Op, Shape};

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
    s.case(format!("{shape:?}"), Op::SoftMax { scale: 0.7 }, inputs)
}

fn masked_soft_max(x: Shape, mask: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(x, Fill::Floats(6.0)), s.f32(mask, Fill::CausalMask)];
    s.case(format!("{x:?} with a mask {mask:?}"), Op::SoftMax { scale: 0.125 }, inputs)
}

/// The second row sees nothing and becomes zero.
fn masked_row() -> Case {
    let mask = (0..27).map(|i| if i / 9 == 1 { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 3, 2, 1], Fill::Floats(6.0)), s.f32([9, 3, 1, 1], Fill::Given(mask))];
    s.case("with a row that is masked as a whole", Op::SoftMax { scale: 1.0 }, inputs)
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
