//! How far a correct f32 kernel may be from the oracle, per element, derived from the arithmetic of each op.
//!
//! `U` is the unit roundoff of f32: a rounded operation has a relative error of at most `U`, and a sum of n products in any
//! order one of `n U` relative to the sum of their magnitudes. Where Vulkan allows a builtin more, its bound is used (Vulkan
//! specification, "Precision and Operation of SPIR-V Instructions"; an ULP is 2 U): division 2.5 ULP, inversesqrt 2 ULP, sqrt
//! as `1 / inversesqrt`, exp `3 + 2 |x|` ULP, log 3 ULP or 2^-21 between 0.5 and 2. Subnormal results may be flushed.

mod attention;
mod attention_back;
mod blocks;
mod functions;
mod mixing;
mod recurrent;
mod reduce;
mod samples;
mod soft_max;
mod windows;

use fblayout::device::MatrixType;
use fblayout::graph::{Array, Binary, DType, Op, Rope, Unary, oracle, rope_frequencies, rope_pairs};

use crate::Rounded;
use soft_max::soft_max;

const U: f64 = 1.0 / (1 << 24) as f64;
const DIVIDE: f64 = 5.0 * U;
const RSQRT: f64 = 4.0 * U;
const SQRT: f64 = RSQRT + DIVIDE;
/// What flushing subnormals costs.
const FLUSH: f64 = f32::MIN_POSITIVE as f64;

fn exp(x: f64) -> f64 {
    2.0 * U * (3.0 + 2.0 * x.abs())
}

/// Relative error of `1 / (1 + exp(-x))`.
fn sigmoid_error(x: f64) -> f64 {
    exp(x) + U + DIVIDE
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// GELU's approximation is `x sigmoid(z)`: z and its derivative.
fn gelu_argument(x: f64) -> (f64, f64) {
    let (slope, cubic) = (2.0 * (2.0 / std::f64::consts::PI).sqrt(), 0.044715);
    (slope * x * (1.0 + cubic * x * x), slope * (1.0 + 3.0 * cubic * x * x))
}

/// Relative error of `sigmoid(z)`: z has two rounded constants and five rounded operations; its error and that of the exponential
/// reach the result by their share `sigmoid(-z)` of the sum `1 + exp(-z)`.
fn gelu_gate_error(x: f64) -> f64 {
    let (z, _) = gelu_argument(x);
    (7.0 * U * z.abs() + exp(z)) * sigmoid(-z) + U + DIVIDE
}

/// `1 - q` with `q = 2 / (1 + exp(2 x))`, which passes on `(1 + y) / 2` of the exponential's error; below 1/4 a series whose
/// operations round three times next to 1 and leave out less than half an ulp.
fn tanh(x: f64, y: f64) -> f64 {
    if x.abs() < 0.25 {
        return 4.0 * U * y.abs() + FLUSH;
    }
    (1.0 - y) * (exp(2.0 * x) * (1.0 + y) / 2.0 + U + DIVIDE) + U * y.abs() + FLUSH
}

/// Longest chain of additions when a row kernel sums n elements: four at a time, in as little as one invocation, and up to ten
/// rounds that join the invocations of a row.
fn chain(n: usize) -> f64 {
    (n as f64).min(n as f64 / 4.0 + 14.0)
}

/// Tolerances of the op's written values. `dtypes` are those of the operands and of the output.
///
/// Products may have `rounded` their factors for matrix units or as bytes.
pub fn tolerance(
    op: &Op,
    inputs: &[Array],
    dtypes: &[DType],
    outputs: &[Array],
    rounded: Option<Rounded>,
) -> Vec<Array> {
    let [out, ..] = outputs else { return Vec::new() };
    // Attention takes no factors apart.
    let to = match rounded {
        Some(Rounded::To(factors)) => Some(factors),
        Some(Rounded::Parts | Rounded::Bytes) | None => None,
    };
    let one = match op {
        Op::MulMat => products(op, inputs, dtypes[0], out, inputs[0].shape[0], rounded),
        Op::OutProd => products(op, inputs, dtypes[0], out, inputs[0].shape[1], rounded),
        Op::MulMatId => products(op, inputs, dtypes[0], out, inputs[0].shape[0], None),
        Op::FlashAttn(attention) => attention::flash_attn(attention, inputs, dtypes, out, to),
        Op::FlashAttnBackQ(attention) => attention_back::queries(attention, inputs, out, to),
        Op::FlashAttnBackKv(attention) => attention_back::keys_values(attention, inputs, out, to),
        Op::Binary(kind) => binary(*kind, inputs, out),
        &Op::Scale { scale, bias } => {
            inputs[0].map(|x| 2.0 * U * ((x * f64::from(scale)).abs() + f64::from(bias).abs()))
        }
        Op::Unary(Unary::Silu) => inputs[0].zip(out, |x, y| (sigmoid_error(x) + U) * y.abs() + FLUSH * (1.0 + x.abs())),
        Op::Unary(Unary::Neg) => out.map(|_| 0.0),
        Op::Unary(Unary::Sqr) => exact_or(out, |y| U * y),
        Op::Unary(Unary::Sqrt) => out.map(|y| SQRT * y),
        Op::Unary(Unary::Tanh) => inputs[0].zip(out, tanh),
        Op::Unary(Unary::Gelu) => {
            inputs[0].zip(out, |x, y| (gelu_gate_error(x) + 2.0 * U) * y.abs() + FLUSH * (1.0 + x.abs()))
        }
        &Op::Unary(kind) => inputs[0].zip(out, |x, y| functions::value(kind, x, y)),
        &Op::Gated(gate) => functions::gated(gate, inputs, out),
        Op::SiluBack => silu_back(inputs),
        Op::TanhBack => {
            // The square's rounding is relative to the square; the difference and the product round once each.
            inputs[0].zip(&inputs[1], |dy, y| dy.abs() * (U * y * y + 2.0 * U * (1.0 - y * y).abs()) + FLUSH)
        }
        Op::GeluBack => gelu_back(inputs),
        Op::SwiGlu => {
            let flush = inputs[0].zip(&inputs[1], |gate, up| FLUSH * (1.0 + gate.abs()) * (1.0 + up.abs()));
            let relative = inputs[0].zip(out, |gate, y| (sigmoid_error(gate) + 2.0 * U) * y.abs());
            relative.zip(&flush, |a, b| a + b)
        }
        Op::GeGlu => {
            let flush = inputs[0].zip(&inputs[1], |gate, up| FLUSH * (1.0 + gate.abs()) * (1.0 + up.abs()));
            let relative = inputs[0].zip(out, |gate, y| (gelu_gate_error(gate) + 3.0 * U) * y.abs());
            relative.zip(&flush, |a, b| a + b)
        }
        Op::RmsNorm { .. } => {
            // Half the relative error of the mean of squares, then the root, its inverse and the product.
            let mean = (chain(out.shape[0] as usize) + 2.0) * U + DIVIDE;
            let relative = mean / 2.0 + SQRT + DIVIDE + U;
            out.map(|y| relative * y.abs() + FLUSH)
        }
        &Op::RmsNormBack { eps } => rms_norm_back(inputs, f64::from(eps)),
        Op::Rope(rope) => rotation(rope, inputs),
        Op::SoftMax { .. } => soft_max(op, inputs, out),
        &Op::SoftMaxBack { scale } => soft_max_back(inputs, f64::from(scale)),
        Op::ArgMax | Op::ArgSort { .. } | Op::TopK | Op::CountEqual => out.map(|_| 0.0),
        Op::Sum | Op::SumRows | Op::Mean | Op::CumSum => reduce::sums(op, &inputs[0], out),
        &Op::Norm { eps } => reduce::norm(&inputs[0], eps),
        &Op::GroupNorm { groups, eps } => reduce::group_norm(&inputs[0], groups, eps),
        Op::L2Norm { .. } => {
            let relative = (chain(out.shape[0] as usize) + 2.0) * U / 2.0 + SQRT + DIVIDE + U;
            out.map(|y| relative * y.abs() + FLUSH)
        }
        Op::AddId => exact_or(out, |y| U * y.abs()),
        Op::Sgd => sgd(inputs),
        Op::Acc(_) => out.map(|y| U * y.abs() + FLUSH),
        Op::Set(_) | Op::SetRows(_) | Op::Repeat | Op::Pad { .. } => out.map(|_| 0.0),
        Op::Concat { .. } | Op::PadCircular { .. } | Op::PadReflect { .. } | Op::Roll { .. } => out.map(|_| 0.0),
        Op::Diag | Op::DiagMaskInf { .. } | Op::DiagMaskZero { .. } | Op::Tri(_) | Op::Fill { .. } => out.map(|_| 0.0),
        &Op::Upscale { sampling, .. } => samples::upscale(sampling, &inputs[0], out),
        // One product, one sum.
        &Op::Arange { start, .. } => out.map(|y| U * (2.0 * y.abs() + f64::from(start).abs())),
        &Op::TimestepEmbedding { max_period } => samples::timestep(max_period, &inputs[0], out),
        Op::RepeatBack | Op::GetRowsBack => sums(op, inputs, out),
        Op::Copy if dtypes[1].is_quantized() && integers(out) => out.map(|_| 0.0),
        Op::Copy if dtypes[1].is_quantized() => blocks::encoded(dtypes[1], &inputs[0], out),
        // A product of scales and quant has no more than 24 bits (Q6_K: 11 + 8 + 5, IQ4_XS: 11 + 5 + 7 and signs) and is exact; a minimum
        // is added with one rounding.
        Op::Copy | Op::GetRows if has_minimum(dtypes[0]) => exact_or(out, |y| U * y.abs()),
        Op::Copy | Op::GetRows => out.map(|_| 0.0),
        Op::CrossEntropyLoss => cross_entropy(inputs, out),
        Op::CrossEntropyLossBack => cross_entropy_back(inputs),
        Op::AdamW => return adamw(inputs, outputs),
        Op::Im2Col { .. } | Op::Im2Col3d { .. } => out.map(|_| 0.0),
        Op::Im2ColBack { .. } | Op::Col2Im1d { .. } => sums(op, inputs, out),
        Op::Conv2d(_)
        | Op::Conv2dDw(_)
        | Op::Conv3d { .. }
        | Op::ConvTranspose1d { .. }
        | Op::ConvTranspose2d { .. }
        | Op::SsmConv => windows::convolution(op, inputs, out),
        Op::RwkvWkv6 | Op::RwkvWkv7 | Op::GatedLinearAttn { .. } => recurrent::square_states(op, inputs, out),
        Op::GatedDeltaNet { .. } => recurrent::delta_net(op, inputs, out),
        Op::SsmScan { .. } => recurrent::scan(op, inputs, out),
        Op::SolveTri => recurrent::solve_tri(inputs, out),
        Op::LightningIndexer => mixing::indexer(op, inputs, dtypes, out),
        &Op::Dsv4HcComb { iterations, .. } => mixing::comb(inputs, iterations, out),
        Op::Dsv4HcPre { .. } | Op::Dsv4HcPost => mixing::streams(op, inputs, out),
        Op::Pool1d(pool) | Op::Pool2d(pool) => windows::pool(op, pool, inputs, out),
        Op::Pool2dBack(pool) => windows::pool_back(op, pool, inputs, out),
    };
    vec![one]
}

/// No tolerance where every value is an integer that f32 holds, else `f` of the value.
fn exact_or(out: &Array, f: impl Fn(f64) -> f64) -> Array {
    if integers(out) { out.map(|_| 0.0) } else { out.map(f) }
}

fn integers(array: &Array) -> bool {
    array.data.iter().all(|x| x.fract() == 0.0 && x.abs() < 1.0 / U)
}

/// Sums of products: `(k + 2) U` relative to the sum of magnitudes, with two roundings for decoding. Sums of integers are exact
/// as long as the magnitudes stay below 2^24, and the factors are what matrix units can hold.
///
/// Matrix units round factors that are not of their type, and add as they like: four times `U`, and what rounding adds to magnitudes.
///
/// Of factors in parts, the first part is the nearest number of 11 bits and leaves at most 2^-11 of the factor; the second leaves at most
/// 2^-10 of that, or 2^-24 each where a part, next to a greatest number of at least 2^14, is no normal number of F16: 2^-21 of the factor and
/// 2^-37 of the greatest. The product of the second parts, which is left out, is at most 2^-22 of the product. Of a
/// greatest number that is below the least power of two, 2^-112, steps are those of F32.
///
/// Bytes are the nearest of 32 k to multiples of a 127th of their greatest magnitude, half of which, a 254th, is what they are off by at most.
/// The scale and its inverse have four roundings before that, of a number of up to 127: less than 2^-15 of a multiple. A
/// greatest magnitude below 2^-119 counts as zero. Whole numbers are summed without an error, what they are scaled to as other terms are.
fn products(op: &Op, inputs: &[Array], dtype: DType, out: &Array, k: u32, rounded: Option<Rounded>) -> Array {
    let mut absolute = inputs.to_vec();
    absolute[0] = magnitude(&inputs[0], dtype);
    absolute[1] = inputs[1].map(f64::abs);
    let bound = oracle(op, &absolute, out.shape).remove(0);
    let in_bytes = dtype.is_quantized() && matches!(op, Op::MulMat);
    // Of one operand, and of the other: two parts hold integers of 21 bits, but not both times two.
    let (largest, other) = match rounded {
        Some(Rounded::Bytes) if in_bytes => (0, 0),
        Some(Rounded::To(factors)) => (bits(factors), bits(factors)),
        Some(Rounded::Parts) => (21, bits(MatrixType::F16)),
        Some(Rounded::Bytes) | None => (24, 24),
    };
    let held = |array: &Array, bits: u32| integers(array) && array.data.iter().all(|x| x.abs() <= f64::from(1 << bits));
    let all_held = |a: &Array, b: &Array| held(a, largest) && held(b, other);
    let [a, b] = [&inputs[0], &inputs[1]];
    if (all_held(a, b) || all_held(b, a)) && bound.data.iter().all(|&b| b < 1.0 / U) {
        return out.map(|_| 0.0);
    }
    let terms = f64::from(k) + 2.0;
    let factors = match rounded {
        Some(Rounded::To(factors)) => factors,
        Some(Rounded::Parts) => {
            for factor in &mut absolute[..2] {
                let greatest = factor.data.iter().copied().filter(|x| x.is_finite()).fold(0.0, f64::max);
                *factor = factor.map(|x| x * (1.0 + 8.0 * U) + U / f64::from(1 << 13) * greatest + FLUSH);
            }
            let most = oracle(op, &absolute, out.shape).remove(0);
            return most.zip(&bound, |most, b| most - b + (4.0 * terms + 4.0) * U * b + FLUSH * f64::from(k));
        }
        Some(Rounded::Bytes) if in_bytes => {
            let off = steps_of_bytes(&inputs[1]);
            absolute[1] = absolute[1].zip(&off, |x, off| x + off);
            let most = oracle(op, &absolute, out.shape).remove(0);
            return most.zip(&bound, |most, b| most - b + terms * U * most + FLUSH * f64::from(k));
        }
        Some(Rounded::Bytes) | None => return bound.map(|b| terms * U * b + FLUSH * f64::from(k)),
    };
    let least = if factors == MatrixType::F16 { HALF_STEP } else { FLUSH };
    let grown = |array: &Array| array.map(|x| x * (1.0 + relative_error(factors)) + least);
    if dtype != stored_as(factors) {
        absolute[0] = grown(&absolute[0]);
    }
    absolute[1] = grown(&absolute[1]);
    let most = oracle(op, &absolute, out.shape).remove(0);
    most.zip(&bound, |most, b| most - b + 4.0 * terms * U * b + FLUSH * f64::from(k))
}

/// How far the elements of a right factor are from the bytes that 32 of a column are rounded to.
fn steps_of_bytes(b: &Array) -> Array {
    let mut off = b.clone();
    for block in off.rows_mut().flat_map(|column| column.chunks_mut(32)) {
        let greatest = block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        block.fill(greatest / 254.0 * (1.0 + 1.0 / f64::from(1 << 14)) + 2.0_f64.powi(-119));
    }
    off
}

/// Steps of F16 below its least normal number.
const HALF_STEP: f64 = 1.0 / (1 << 24) as f64;

/// Bits of the significand.
fn bits(factors: MatrixType) -> u32 {
    match factors {
        MatrixType::F16 => 11,
        MatrixType::Bf16 => 8,
    }
}

/// F16 is cut or rounded as the driver likes, BF16 rounded to nearest.
fn relative_error(factors: MatrixType) -> f64 {
    match factors {
        MatrixType::F16 => 2.0 / f64::from(1 << bits(factors)),
        MatrixType::Bf16 => 1.0 / f64::from(1 << bits(factors)),
    }
}

fn stored_as(factors: MatrixType) -> DType {
    match factors {
        MatrixType::F16 => DType::F16,
        MatrixType::Bf16 => DType::BF16,
    }
}

fn has_minimum(dtype: DType) -> bool {
    matches!(dtype, DType::Q4_1 | DType::Q5_1 | DType::Q2_K | DType::Q4_K | DType::Q5_K)
}

/// `|d q| + |m|` of a type with minima is at most `|x| + 2 |m|`, and m is an element of a block that was converted; the others have
/// integers in every case. Other dtypes have one term.
fn magnitude(a: &Array, dtype: DType) -> Array {
    let mut magnitude = a.map(f64::abs);
    if has_minimum(dtype) && a.shape[0].is_multiple_of(dtype.block()) {
        for block in magnitude.data.chunks_exact_mut(dtype.block() as usize) {
            let max = block.iter().copied().fold(0.0, f64::max);
            block.iter_mut().for_each(|x| *x += 2.0 * max);
        }
    }
    magnitude
}

fn binary(kind: Binary, inputs: &[Array], out: &Array) -> Array {
    match kind {
        Binary::Add | Binary::Sub | Binary::Mul if inputs.iter().all(integers) => exact_or(out, |y| U * y.abs()),
        Binary::Add | Binary::Sub => out.map(|y| U * y.abs()),
        Binary::Mul => out.map(|y| U * y.abs() + FLUSH),
        Binary::Div => out.map(|y| DIVIDE * y.abs() + FLUSH),
    }
}

/// `dy s (1 + x (1 - s))`: the error of s enters three times, each at most `(1 + |x|)` of `dy s`.
fn silu_back(inputs: &[Array]) -> Array {
    inputs[0].zip(&inputs[1], |dy, x| {
        let relative = 2.0 * (sigmoid_error(x) + 4.0 * U);
        dy.abs() * (1.0 + x.abs()) * (sigmoid(x) * relative + FLUSH)
    })
}

/// `dy (s + x s (1 - s) z')` where s and 1 - s are 1 and `exp(-|z|)` over their sum: errors relative to both terms.
fn gelu_back(inputs: &[Array]) -> Array {
    inputs[0].zip(&inputs[1], |dy, x| {
        let (z, slope) = gelu_argument(x);
        let (first, weight) = (sigmoid(z), x.abs() * slope);
        let second = weight * first * sigmoid(-z);
        let second_error = 7.0 * U * z.abs() + exp(z) + 2.0 * DIVIDE + 14.0 * U;
        let error = first * (gelu_gate_error(x) + 3.0 * U) + second * (second_error + 2.0 * U);
        dy.abs() * error + FLUSH * (1.0 + dy.abs()) * (1.0 + weight)
    })
}

/// `(dy - x P / s) / sqrt(s)` with P the mean of x dy and s that of x^2: errors relative to the magnitudes of both terms.
fn rms_norm_back(inputs: &[Array], eps: f64) -> Array {
    let mut bound = inputs[0].map(f64::abs);
    for (row, x) in bound.rows_mut().zip(inputs[1].rows()) {
        let n = x.len() as f64;
        let square = x.iter().map(|x| x * x).sum::<f64>() / n + eps;
        let product = x.iter().zip(row.iter()).map(|(x, dy)| x.abs() * dy).sum::<f64>() / n;
        let relative = 2.5 * (chain(x.len()) + 4.0) * U + SQRT + 3.0 * DIVIDE;
        for (dy, x) in row.iter_mut().zip(x) {
            *dy = relative * (*dy + x.abs() * product / square) / square.sqrt() + FLUSH;
        }
    }
    bound
}

/// The angle is a product of position, frequency and factor: 4 roundings, and 8 ULP for a frequency from a power. Sine and cosine
/// are taken as good to 4 ULP of 1 after the angle's own error; a driver that is worse needs its own range reduction.
fn rotation(rope: &Rope, inputs: &[Array]) -> Array {
    let (x, positions, factors) = (&inputs[0], &inputs[1], inputs.get(2));
    let ((frequencies, magnitude), pairs) = (rope_frequencies(rope), rope_pairs(rope));
    let mut bound = x.map(|_| 0.0);
    let (heads, tokens) = (x.shape[1] as usize, x.shape[2] as usize);
    for (row, (bound, x)) in bound.rows_mut().zip(x.rows()).enumerate() {
        for (i, (frequency, pair)) in frequencies.iter().zip(&pairs).enumerate() {
            let position = positions.data[row / heads % tokens + pair.axis * tokens];
            let angle = (position / factors.map_or(1.0, |f| f.data[i]) * frequency).abs();
            let size: f64 = pair.elements.iter().map(|&at| x[at].abs()).sum();
            let error = magnitude.abs() * size * (20.0 * U * angle + 8.0 * U + 4.0 * U);
            pair.elements.iter().for_each(|&at| bound[at] = error);
        }
    }
    bound
}

/// Relative error of a sum of exponentials beyond that of its terms. The maximum runs along with the sum: every addition may first
/// rescale what was summed, by one product and one exponential. An exponent of -d has an error of `2 U (3 + 2 d)`, but what it
/// scales is only `exp(-d)` of the new sum, which leaves less than 8 U.
fn running_sum(n: usize) -> f64 {
    10.0 * chain(n) * U
}

/// Relative error of each numerator of a softmax, given what was added up to its exponent and the exponent itself.
fn numerator(added: f64, exponent: f64) -> f64 {
    2.0 * U * added + U * exponent.abs() + exp(exponent)
}

/// `scale y (dy - sum(y dy))`
fn soft_max_back(inputs: &[Array], scale: f64) -> Array {
    let mut bound = inputs[0].clone();
    for (dx, y) in bound.rows_mut().zip(inputs[1].rows()) {
        let sum: f64 = dx.iter().zip(y).map(|(dy, y)| (dy * y).abs()).sum();
        let relative = (chain(y.len()) + 5.0) * U;
        dx.iter_mut().zip(y).for_each(|(dx, y)| *dx = (scale * y).abs() * relative * (dx.abs() + sum) + FLUSH);
    }
    bound
}

/// Sums over repeats or duplicates: at most as many terms as operand elements reach one output element.
fn sums(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let mut absolute = inputs.to_vec();
    absolute[0] = inputs[0].map(f64::abs);
    let bound = oracle(op, &absolute, out.shape).remove(0);
    if integers(&inputs[0]) && bound.data.iter().all(|&b| b < 1.0 / U) {
        return out.map(|_| 0.0);
    }
    absolute[0] = inputs[0].map(|_| 1.0);
    oracle(op, &absolute, out.shape).remove(0).zip(&bound, |terms, bound| terms * U * bound)
}

/// Per label: the logarithm of a sum of exponentials, minus x; then a mean over all labels.
fn cross_entropy(inputs: &[Array], out: &Array) -> Array {
    let [x, labels] = inputs else { unreachable!("the rule asks for two operands") };
    let rows = x.data.len() / x.shape[0] as usize;
    let mut error = 0.0;
    let mut magnitude = 0.0;
    for (x, labels) in x.rows().zip(labels.rows()) {
        let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = x.iter().map(|x| (x - max).exp()).sum();
        let numerators: f64 = x.iter().map(|x| (x - max).exp() / sum * numerator(0.0, x - max)).sum();
        let log = 6.0 * U * sum.ln().abs() + 1.0 / f64::from(1 << 21);
        for (&x, &label) in x.iter().zip(labels).filter(|&(_, &label)| label != 0.0) {
            let roundings = 3.0 * U * (x.abs() + max.abs() + sum.ln().abs());
            error += label.abs() * (numerators + running_sum(labels.len()) + log + roundings);
            magnitude += (label * (sum.ln() + max - x)).abs();
        }
    }
    // Zero labels add nothing, so that the chain is that of the rows' sums.
    let mean = (chain(x.shape[0] as usize) + rows as f64 + DIVIDE / U + 2.0) * U * magnitude;
    Array { shape: out.shape, data: vec![(error + mean) / rows as f64 + FLUSH] }
}

/// `(softmax(x) - labels) g / rows`
fn cross_entropy_back(inputs: &[Array]) -> Array {
    let [g, x, labels] = inputs else { unreachable!("the rule asks for three operands") };
    let rows = x.data.len() / x.shape[0] as usize;
    let (plain, logits) = (Op::soft_max(1.0), std::slice::from_ref(x));
    let p = oracle(&plain, logits, x.shape).remove(0);
    let factor = (g.data[0] / rows as f64).abs();
    let error = soft_max(&plain, logits, &p);
    let rest = p.zip(labels, |p, label| (p + label.abs()) * (DIVIDE + 3.0 * U));
    error.zip(&rest, |error, rest| factor * (error + rest) + FLUSH)
}

fn adamw(inputs: &[Array], outputs: &[Array]) -> Vec<Array> {
    let ([w, g, m, v, p], [_, new_m, new_v]) = (inputs, outputs) else { unreachable!("AdamW has five operands") };
    let [alpha, beta1, beta2, eps, wd, beta1h, beta2h] = p.data[..] else { unreachable!("AdamW has 7 parameters") };
    let error_m = m.zip(g, |m, g| 3.0 * U * ((m * beta1).abs() + (g * (1.0 - beta1)).abs()) + FLUSH);
    let error_v = v.zip(g, |v, g| 4.0 * U * ((v * beta2).abs() + g * g * (1.0 - beta2)) + FLUSH);
    // The step is alpha m / (sqrt(v) + eps) with corrected moments; v is a sum of positive terms, and the root halves its error.
    let step_error = {
        let root = new_v.map(|v| (v * beta2h).sqrt() + eps);
        let from_m = error_m.zip(&root, |error, root| alpha * error * beta1h / root);
        let rest = new_m.zip(&root, |m, root| alpha * (m * beta1h).abs() / root * (3.0 * U + SQRT + DIVIDE + 4.0 * U));
        from_m.zip(&rest, |a, b| a + b)
    };
    let error_w = w.zip(&step_error, |w, step| 4.0 * U * w.abs() * (1.0 + (alpha * wd).abs()) + step);
    vec![error_w, error_m, error_v]
}

/// Three roundings of the decay, one of the step and one of the difference.
fn sgd(inputs: &[Array]) -> Array {
    let [w, g, p] = inputs else { unreachable!("SGD has three operands") };
    let [alpha, wd] = p.data[..] else { unreachable!("SGD has 2 parameters") };
    w.zip(g, |w, g| 4.0 * U * w.abs() * (1.0 + (alpha * wd).abs()) + 2.0 * U * (alpha * g).abs() + FLUSH)
}
