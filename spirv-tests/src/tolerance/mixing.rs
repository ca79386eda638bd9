//! Weighted sums over heads and residual streams.

use fblayout::graph::{Array, DType, Op, oracle};

use super::{DIVIDE, FLUSH, U, exp, magnitude, sigmoid_error};

/// A sum over heads of products over elements: cutting off negative ones makes no error grow.
pub fn indexer(op: &Op, inputs: &[Array], dtypes: &[DType], out: &Array) -> Array {
    let [q, k, weights, mask] = inputs else { unreachable!("the rule asks for four operands") };
    let operands = [q.map(f64::abs), magnitude(k, dtypes[1]), weights.map(f64::abs), mask.map(f64::abs)];
    let terms = f64::from(q.shape[0] + q.shape[1]);
    oracle(op, &operands, out.shape).remove(0).map(|m| (terms + 6.0) * U * m + FLUSH * terms)
}

/// The relative error of a softmax, at most doubled by each division by a sum of such numbers.
pub fn comb(inputs: &[Array], iterations: u32, out: &Array) -> Array {
    let [mixes, scales, base] = inputs else { unreachable!("the rule asks for three operands") };
    let greatest = |of: &Array| of.data.iter().fold(0.0_f64, |greatest, x| greatest.max(x.abs()));
    let logit = greatest(mixes) * scales.data[2].abs() + greatest(base);
    let softmax = 2.0 * (6.0 * U * logit + exp(2.0 * logit)) + DIVIDE + 6.0 * U;
    let relative = (1..2 * iterations).fold(softmax, |error, _| 2.0 * error + DIVIDE + 6.0 * U);
    out.map(|y| relative * y + FLUSH)
}

/// A product per stream, with a sigmoid where there are gates, one of the layer, and a factor.
pub fn streams(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let gated = matches!(op, Op::Dsv4HcPre { gated: true, .. });
    let magnitudes = |(i, input): (usize, &Array)| if gated && i == 1 { input.clone() } else { input.map(f64::abs) };
    let operands: Vec<Array> = inputs.iter().enumerate().map(magnitudes).collect();
    let gate = if gated { inputs[1].data.iter().map(|&g| sigmoid_error(g)).fold(0.0, f64::max) } else { 0.0 };
    let streams = inputs.iter().map(|input| input.shape[1]).max().unwrap_or(1);
    let relative = (f64::from(streams) + 4.0) * U + gate;
    let magnitude = oracle(op, &operands, out.shape).remove(0);
    magnitude.map(|m| relative * m.abs() + FLUSH * f64::from(streams))
}
