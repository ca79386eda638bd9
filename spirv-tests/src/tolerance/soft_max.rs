//! Softmax with everything that its logits can be made of.

use fblayout::graph::{Array, Op, soft_max_slope};

use super::{DIVIDE, FLUSH, U, exp, numerator, running_sum};

/// A numerator's own error, the mean of all numerators' in the sum, the sum's chain and the division. Operands are x, a mask if there is
/// one, sinks if the op has them.
pub(super) fn soft_max(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let &Op::SoftMax { scale, max_bias, sinks } = op else { unreachable!("the tolerance of SoftMax") };
    let (x, scale) = (&inputs[0], f64::from(scale));
    let masked = inputs.len() > 1 + usize::from(sinks);
    let heads = x.shape[2];
    // A slope is a power of two: its exponent has two roundings, the power its own error, and the product one more.
    let bias = |i: [u32; 4]| {
        let exponent = soft_max_slope(max_bias, i[2], heads);
        let error = if max_bias == 0.0 { 0.0 } else { 2.0 * U * exponent.abs() + exp(exponent) + U };
        let bias = if masked { exponent.exp2() * inputs[1].wrapped(i) } else { 0.0 };
        (bias, bias.abs() * (1.0 + error / (2.0 * U)))
    };
    let z = Array::from_fn(x.shape, |i| x.at(i) * scale + bias(i).0);
    let added = Array::from_fn(x.shape, |i| (x.at(i) * scale).abs() + bias(i).1);
    let mut bound = out.clone();
    for (at, ((p, z), added)) in bound.rows_mut().zip(z.rows()).zip(added.rows()).enumerate() {
        let head = at / x.shape[1] as usize % heads as usize;
        let sink = if sinks { inputs[inputs.len() - 1].data[head] } else { f64::NEG_INFINITY };
        let max = z.iter().copied().fold(sink, f64::max);
        let error = |z: f64, added: f64| if z == f64::NEG_INFINITY { 0.0 } else { numerator(added, z - max) };
        let errors: Vec<f64> = z.iter().zip(added).map(|(&z, &added)| error(z, added)).collect();
        // What is not the row's share of the sum is the sink's.
        let share = if sinks { 1.0 - p.iter().sum::<f64>() } else { 0.0 };
        let mean: f64 = errors.iter().zip(p.iter()).map(|(e, p)| e * p).sum::<f64>() + share * error(sink, 0.0);
        for (p, (error, z)) in p.iter_mut().zip(errors.iter().zip(z)) {
            let relative = error + mean + running_sum(added.len() + 1) + DIVIDE + U;
            *p = if *z == f64::NEG_INFINITY { 0.0 } else { relative * *p + FLUSH };
        }
    }
    bound
}
