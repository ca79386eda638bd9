//! A tensor with a part of it written anew.

use crate::graph::array::indices;
use crate::graph::{Array, Op, Shape};

/// Operands base, part.
pub(crate) fn set(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (Op::Set(inset) | Op::Acc(inset)) = op else { unreachable!("the rows belong to Set and Acc") };
    let mut y = Array { shape: output, data: inputs[0].data.clone() };
    for (i, x) in indices(&inputs[1].shape).zip(&inputs[1].data) {
        let at = inset.element(i) as usize;
        y.data[at] = if matches!(op, Op::Acc(_)) { y.data[at] + x } else { *x };
    }
    vec![y]
}

/// Operands base, rows, ids.
pub(crate) fn set_rows(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::SetRows(inset) = op else { unreachable!("the row belongs to SetRows") };
    let mut y = Array { shape: output, data: inputs[0].data.clone() };
    for (i, x) in indices(&inputs[1].shape).zip(&inputs[1].data) {
        let id = inputs[2].wrapped([i[1], i[2], i[3], 0]);
        if id >= 0.0 && id < f64::from(inset.shape[1]) {
            y.data[inset.element([i[0], id as u32, i[2], i[3]]) as usize] = *x;
        }
    }
    vec![y]
}
