//! Each row from its own row.

use crate::graph::{Array, Op, Shape};

/// Softmax of a row in place. A row of -inf alone, all of it masked, becomes zero.
pub(super) fn soft_max_row(row: &mut [f64]) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max == f64::NEG_INFINITY {
        return row.fill(0.0);
    }
    let mut sum = 0.0;
    for x in row.iter_mut() {
        *x = (*x - max).exp();
        sum += *x;
    }
    row.iter_mut().for_each(|x| *x /= sum);
}

pub(crate) fn rms_norm(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::RmsNorm { eps } = op else { unreachable!("the row belongs to RmsNorm") };
    let mut y = inputs[0].clone();
    for row in y.rows_mut() {
        let mean = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
        let factor = 1.0 / (mean + f64::from(eps)).sqrt();
        row.iter_mut().for_each(|x| *x *= factor);
    }
    vec![y]
}

/// Operands dy, x. With s = mean(x^2) + eps: `dx = (dy - x * mean(x dy) / s) / sqrt(s)`.
pub(crate) fn rms_norm_back(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let ([dy, x], &Op::RmsNormBack { eps }) = (inputs, op) else { unreachable!("the rule asks for two operands") };
    let mut dx = dy.clone();
    for (dx, x) in dx.rows_mut().zip(x.rows()) {
        let n = x.len() as f64;
        let square = x.iter().map(|x| x * x).sum::<f64>() / n + f64::from(eps);
        let product = x.iter().zip(dx.iter()).map(|(x, dy)| x * dy).sum::<f64>() / n;
        for (dx, x) in dx.iter_mut().zip(x) {
            *dx = (*dx - x * product / square) / square.sqrt();
        }
    }
    vec![dx]
}

/// Operands x and, optionally, a mask that repeats over axes 2 and 3.
pub(crate) fn soft_max(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::SoftMax { scale } = op else { unreachable!("the row belongs to SoftMax") };
    let mut y = Array::from_fn(output, |i| {
        inputs[0].at(i) * f64::from(scale) + inputs.get(1).map_or(0.0, |mask| mask.wrapped(i))
    });
    y.rows_mut().for_each(soft_max_row);
    vec![y]
}

/// Operands dy, y: `dx = scale * y * (dy - sum(y dy))`.
pub(crate) fn soft_max_back(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let ([dy, y], &Op::SoftMaxBack { scale }) = (inputs, op) else { unreachable!("the rule asks for two operands") };
    let mut dx = dy.clone();
    for (dx, y) in dx.rows_mut().zip(y.rows()) {
        let product: f64 = dx.iter().zip(y).map(|(dy, y)| dy * y).sum();
        dx.iter_mut().zip(y).for_each(|(dx, y)| *dx = f64::from(scale) * y * (*dx - product));
    }
    vec![dx]
}

/// Index of the first greatest element.
pub(crate) fn arg_max(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let first = |row: &[f64]| (0..row.len()).reduce(|best, i| if row[i] > row[best] { i } else { best });
    vec![Array { shape: output, data: inputs[0].rows().map(|row| first(row).unwrap_or(0) as f64).collect() }]
}
