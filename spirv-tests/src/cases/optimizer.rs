//! AdamW and SGD.

use fblayout::graph::{Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases =
        [[1, 1, 1, 1], [3, 5, 1, 1], [65, 9, 1, 1], [9, 3, 2, 2], [8, 576, 1, 1], [576, 8, 1, 1]].map(adamw).to_vec();
    cases.extend([[5, 3, 1, 1], [33, 3, 2, 2]].map(sgd));
    cases
}

fn sgd(shape: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![
        s.f32(shape, Fill::Floats(1.0)),
        s.f32(shape, Fill::Floats(0.5)),
        s.f32([2, 1, 1, 1], Fill::Given(vec![1e-2, 0.1])),
    ];
    let w = inputs[0].value;
    s.case_into(format!("{shape:?}"), Op::Sgd, inputs, w)
}

fn adamw(shape: Shape) -> Case {
    // Rate 1e-2, decay 0.1, third step.
    let parameters = vec![1e-2, 0.9, 0.999, 1e-8, 0.1, 1.0 / (1.0 - 0.729), 1.0 / (1.0 - 0.997_003)];
    let mut s = Setup::new();
    let inputs = vec![
        s.f32(shape, Fill::Floats(1.0)),
        s.f32(shape, Fill::Floats(0.5)),
        s.f32(shape, Fill::Floats(0.5)),
        s.f32(shape, Fill::Positive),
        s.f32([7, 1, 1, 1], Fill::Given(parameters)),
    ];
    let w = inputs[0].value;
    s.case_into(format!("{shape:?}"), Op::AdamW, inputs, w)
}
