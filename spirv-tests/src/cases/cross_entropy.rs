//! Cross-entropy and its gradient.

use fblayout::graph::{Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for n in [1, 2, 3, 5, 17, 33, 65, 300] {
        cases.extend(both([n, 5, 1, 1], Fill::Floats(6.0), Fill::OneHot));
    }
    cases.extend(both([33, 3, 2, 2], Fill::Floats(6.0), Fill::Probabilities));
    cases.extend(both([300, 65, 1, 1], Fill::Peaks, Fill::OneHot));
    cases.extend(both([49152, 3, 1, 1], Fill::Peaks, Fill::OneHot));
    cases
}

fn both(shape: Shape, logits: Fill, labels: Fill) -> [Case; 2] {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, logits.clone()), s.f32(shape, labels.clone())];
    let loss = s.case(format!("{shape:?}"), Op::CrossEntropyLoss, inputs);
    let mut s = Setup::new();
    let inputs = vec![s.f32([1; 4], Fill::Given(vec![1.5])), s.f32(shape, logits), s.f32(shape, labels)];
    [loss, s.case(format!("{shape:?}"), Op::CrossEntropyLossBack, inputs)]
}
