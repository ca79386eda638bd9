//! Values moved, repeated, picked, and summed back.

use crate::graph::array::indices;
use crate::graph::{Array, Op, Shape};

pub(crate) fn copy(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    vec![Array { shape: output, data: inputs[0].data.clone() }]
}

pub(crate) fn repeat(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    vec![Array::from_fn(output, |i| inputs[0].wrapped(i))]
}

pub(crate) fn repeat_back(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let mut sum = Array::zeros(output);
    for (i, x) in indices(&inputs[0].shape).zip(&inputs[0].data) {
        let at = sum.position(std::array::from_fn(|axis| i[axis] % output[axis]));
        sum.data[at] += x;
    }
    vec![sum]
}

pub(crate) fn pad(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::Pad { before } = op else { unreachable!("the row belongs to Pad") };
    let mut y = Array::zeros(output);
    for (i, x) in indices(&inputs[0].shape).zip(&inputs[0].data) {
        let at = y.position(std::array::from_fn(|axis| before[axis] + i[axis]));
        y.data[at] = *x;
    }
    vec![y]
}

/// Operands table, ids.
pub(crate) fn get_rows(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let row = |[_, i1, i2, i3]: [u32; 4]| inputs[1].at([i1, i2, i3, 0]) as u32;
    vec![Array::from_fn(output, |i| inputs[0].at([i[0], row(i), i[2], i[3]]))]
}

/// Operands dy, ids.
pub(crate) fn get_rows_back(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let mut sum = Array::zeros(output);
    for (row, &id) in inputs[0].rows().zip(&inputs[1].data) {
        let at = sum.position([0, id as u32, 0, 0]);
        sum.data[at..at + row.len()].iter_mut().zip(row).for_each(|(s, dy)| *s += dy);
    }
    vec![sum]
}
