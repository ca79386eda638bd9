//! Each row from its own row.

use crate::graph::{Array, Op, Shape};

/// Softmax of a row in place. A row of -inf alone, all of it masked, becomes zero.
pub(super) fn soft_max_row(row: &mut [f64]) {
    soft_max_beside(row, f64::NEG_INFINITY);
}

/// The same with one more logit in the sum.
fn soft_max_beside(row: &mut [f64], sink: f64) {
    let max = row.iter().copied().fold(sink, f64::max);
    if max == f64::NEG_INFINITY {
        return row.fill(0.0);
    }
    let mut sum = (sink - max).exp();
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

/// ALiBi's factor on the mask of a head among `heads`: 2 to the power that is returned.
pub fn soft_max_slope(max_bias: f32, head: u32, heads: u32) -> f64 {
    let n = 1_u32 << heads.max(1).ilog2();
    let steps = if head < n { f64::from(head + 1) } else { f64::from(head - n) + 0.5 };
    -f64::from(max_bias) / f64::from(n) * steps
}

/// Operands x, optionally a mask that repeats over axes 2 and 3, and sinks if the op has them.
pub(crate) fn soft_max(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::SoftMax { scale, max_bias, sinks } = op else { unreachable!("the row belongs to SoftMax") };
    let (x, others) = inputs.split_first().expect("the rule asks for an operand");
    let (sinks, masks) =
        if sinks { others.split_last().map_or((None, others), |(s, m)| (Some(s), m)) } else { (None, others) };
    let heads = output[2];
    let bias =
        |i: [u32; 4]| masks.first().map_or(0.0, |mask| soft_max_slope(max_bias, i[2], heads).exp2() * mask.wrapped(i));
    let mut y = Array::from_fn(output, |i| x.at(i) * f64::from(scale) + bias(i));
    for (row, data) in y.rows_mut().enumerate() {
        let head = row / output[1] as usize % heads as usize;
        soft_max_beside(data, sinks.map_or(f64::NEG_INFINITY, |sinks| sinks.data[head]));
    }
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

/// Index of the last greatest element, as ggml's CPU gives it.
pub(crate) fn arg_max(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let last = |row: &[f64]| (0..row.len()).reduce(|best, i| if row[i] >= row[best] { i } else { best });
    vec![Array { shape: output, data: inputs[0].rows().map(|row| last(row).unwrap_or(0) as f64).collect() }]
}
