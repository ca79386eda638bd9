//! The bound of attention.

use fblayout::device::MatrixType;
use fblayout::graph::{Array, DType, FlashAttn};

use super::{DIVIDE, FLUSH, HALF_STEP, U, exp, magnitude, relative_error};

/// Fewest keys between two rescalings of the sums, most parts of the keys whose sums are rescaled once more, and the same for what the
/// teams of a workgroup have summed.
const TILE: f64 = 8.0;
const PARTS: f64 = 64.0;
const TEAMS: f64 = 1.0;

/// What matrix units do to factors and sums; nothing where there are none.
#[derive(Clone, Copy)]
pub(super) struct Rounding {
    /// Relative error of a factor, and the least step between two.
    pub relative: f64,
    pub step: f64,
    /// Units add as they like.
    pub sums: f64,
}

impl Rounding {
    pub fn of(rounded: Option<MatrixType>) -> Self {
        match rounded {
            Some(factors) => Self { relative: relative_error(factors), step: HALF_STEP, sums: 4.0 },
            None => Self { relative: 0.0, step: 0.0, sums: 1.0 },
        }
    }

    /// The largest that a factor of this magnitude may become.
    pub fn grown(&self, x: f64) -> f64 {
        x * (1.0 + self.relative) + self.step
    }
}

/// The weight that shaders of matrix units give the greatest score: F16's steps are that much smaller beside it.
pub(super) const ONE: f64 = 16384.0;

/// A score and what it may be off by.
#[derive(Clone, Copy)]
pub(super) struct Score {
    pub value: f64,
    pub error: f64,
    /// The same before the mask.
    pub unmasked: f64,
    pub unmasked_error: f64,
}

/// A weight is off by its score's error and that of its exponential, relative to itself; the sum of weights by the mean of these.
/// Both sums take the keys one by one and are rescaled by an exponential now and then, which costs less than 10 U of what is left,
/// see the running sum of a softmax. A logarithm of the sum has the mean's error, and that of the function, see the module.
///
/// Matrix units round queries, keys, weights and values.
pub(super) fn flash_attn(
    attention: &FlashAttn,
    inputs: &[Array],
    dtypes: &[DType],
    out: &Array,
    rounded: Option<MatrixType>,
) -> Array {
    let rounding = Rounding::of(rounded);
    let (q, v) = (inputs[0].map(f64::abs), magnitude(&inputs[2], dtypes[2]));
    let k = [inputs[1].clone(), magnitude(&inputs[1], dtypes[1])];
    let keys = k[0].shape[1];
    let rescaled = f64::from(keys) / TILE + PARTS.min(f64::from(keys)) + TEAMS;
    let sums = (f64::from(keys) + 10.0 * rescaled) * rounding.sums * U;
    let mut bound = out.clone();
    let [hsv, heads, queries, _] = out.shape.map(|n| n as usize);
    let mut logs = Vec::new();
    for (row, bound) in bound.data.chunks_exact_mut(hsv).enumerate() {
        let [head, query, batch] = [row % heads, row / heads % queries, row / (heads * queries)].map(|i| i as u32);
        if head >= inputs[0].shape[2] {
            bound.fill(0.0);
            continue;
        }
        let at = Place { head, query, batch };
        let scores: Vec<Score> =
            (0..keys).map(|key| score(attention, inputs, [&q, &k[1]], at, key, rounding)).collect();
        let sink = if attention.sinks { inputs[inputs.len() - 1].data[head as usize] } else { f64::NEG_INFINITY };
        let max = scores.iter().map(|s| s.value).fold(sink, f64::max);
        if max == f64::NEG_INFINITY {
            bound.fill(FLUSH);
            continue;
        }
        let weights: Vec<f64> = scores.iter().map(|s| (s.value - max).exp()).collect();
        let total = weights.iter().sum::<f64>() + (sink - max).exp();
        let relative = |score: &Score, weight: f64| match weight {
            0.0 => 0.0,
            _ => score.error.exp_m1() + U * (score.value - max).abs() + exp(score.value - max),
        };
        let errors: Vec<f64> = scores.iter().zip(&weights).map(|(s, &w)| relative(s, w)).collect();
        let of_sink = if sink == f64::NEG_INFINITY { 0.0 } else { exp(sink - max) * (sink - max).exp() };
        let mean = (errors.iter().zip(&weights).map(|(e, w)| e * w).sum::<f64>() + of_sink) / total;
        if attention.logs {
            let log = total.ln();
            let of_log = 6.0 * U * log.abs() + 1.0 / f64::from(1 << 21);
            let error = mean + sums + of_log + 2.0 * U * (max.abs() + (max + log).abs());
            logs.push((FlashAttn::log_place(out.shape[0], inputs[0].shape[2], head), query, batch, error));
        }
        for (i, bound) in (0..).zip(bound.iter_mut()) {
            let term = |key: u32| {
                let (error, weight) = (errors[key as usize], weights[key as usize]);
                let value = at.shared(&v, &inputs[0], key, i);
                let heavy = rounding.grown(weight * (1.0 + error) * ONE) / ONE;
                let grown = heavy * rounding.grown(value) / (1.0 - mean.min(0.5));
                grown - weight * value + weight * value * (2.0 * sums + DIVIDE + 4.0 * U)
            };
            // What is hidden may be anything.
            *bound = (0..keys).filter(|&key| weights[key as usize] > 0.0).map(term).sum::<f64>() / total + FLUSH;
        }
    }
    for ([element, behind], query, batch, error) in logs {
        let at = bound.position([element, behind, query, batch]);
        bound.data[at] = error;
    }
    bound
}

/// Where a row of the result is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub head: u32,
    pub query: u32,
    pub batch: u32,
}

impl Place {
    /// Element i of a key or a value that is shared by heads and batches of the queries.
    pub fn shared(&self, x: &Array, q: &Array, key: u32, i: u32) -> f64 {
        let (share, share_batch) = (q.shape[2] / x.shape[2], q.shape[3] / x.shape[3]);
        x.at([i, key, self.head / share, self.batch / share_batch])
    }
}

/// A sum of products with scaled queries, bounded to the cap and added to the scaled mask. Near zero the hyperbolic tangent has the
/// relative error of its series, elsewhere some roundings next to 1.
pub(super) fn score(
    attention: &FlashAttn,
    inputs: &[Array],
    absolute: [&Array; 2],
    at: Place,
    key: u32,
    rounding: Rounding,
) -> Score {
    let Place { head, query, batch } = at;
    let mask = if attention.mask { inputs[3].wrapped([key, query, head, batch]) } else { 0.0 };
    if mask == f64::NEG_INFINITY {
        return Score { value: mask, error: 0.0, unmasked: 0.0, unmasked_error: 0.0 };
    }
    let q = &inputs[0];
    let n = q.shape[0];
    let dot =
        |q: &Array, k: &Array| -> f64 { (0..n).map(|i| q.at([i, query, head, batch]) * at.shared(k, q, key, i)).sum() };
    let (scale, cap) = (f64::from(attention.scale), f64::from(attention.softcap));
    let scaled = scale * dot(q, &inputs[1]);
    let size = dot(absolute[0], absolute[1]);
    let terms = (0..n).map(|i| {
        let (q, k) = (absolute[0].at([i, query, head, batch]), at.shared(absolute[1], q, key, i));
        rounding.grown(q) * rounding.grown(k)
    });
    let grown = if rounding.relative > 0.0 { terms.sum::<f64>() - size } else { 0.0 };
    let mut error = scale.abs() * (grown + (f64::from(n) + 5.0) * rounding.sums * U * size) + FLUSH * f64::from(n);
    let capped = if cap == 0.0 {
        scaled
    } else {
        let tanh = (scaled / cap).tanh();
        error +=
            cap.abs() * (exp(2.0 * scaled / cap) + DIVIDE + 4.0 * U) * tanh.abs().max((scaled / cap).abs().min(1.0));
        cap * tanh
    };
    let slope = attention.slope(head, q.shape[2]);
    let of_slope = if attention.max_bias > 0.0 { exp(slope.log2()) + 2.0 * U * slope.log2().abs() } else { 0.0 };
    let (value, unmasked_error) = (capped + slope * mask, error);
    let error = error + (of_slope + U) * (slope * mask).abs() + U * value.abs();
    Score { value, error, unmasked: capped, unmasked_error }
}
