//! Sums of rows and of all, means, running sums.

use crate::graph::{Array, Op, Shape};

pub(crate) fn sum(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    vec![Array { shape: output, data: vec![inputs[0].data.iter().sum()] }]
}

pub(crate) fn sum_rows(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    vec![Array { shape: output, data: inputs[0].rows().map(|row| row.iter().sum()).collect() }]
}

pub(crate) fn mean(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let n = f64::from(inputs[0].shape[0]);
    sum_rows(op, inputs, output).iter().map(|sums| sums.map(|sum| sum / n)).collect()
}

pub(crate) fn cumsum(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let mut y = inputs[0].clone();
    for row in y.rows_mut() {
        let mut sum = 0.0;
        for x in row {
            sum += *x;
            *x = sum;
        }
    }
    vec![y]
}

pub(crate) fn count_equal(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let equal = inputs[0].data.iter().zip(&inputs[1].data).filter(|(a, b)| a == b).count();
    vec![Array { shape: output, data: vec![equal as f64] }]
}
