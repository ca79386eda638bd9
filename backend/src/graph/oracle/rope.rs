//! Rotary embedding with YaRN.

use crate::graph::{Array, Op, Rope, RopeMode, Shape};

/// A pair of elements that are rotated with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RopePair {
    /// The elements of the row.
    pub elements: [usize; 2],
    /// Which of a token's positions turns it.
    pub axis: usize,
}

/// The pairs of a row, in order.
pub fn rope_pairs(rope: &Rope) -> Vec<RopePair> {
    let pairs = rope.rotated() / 2;
    let first = rope.offset as usize;
    let pair = |i: u32| {
        let at = i as usize;
        let elements = match rope.mode {
            RopeMode::Normal => [first + 2 * at, first + 2 * at + 1],
            _ => [first + at, first + at + pairs as usize],
        };
        RopePair { elements, axis: section(rope, i).0 }
    };
    (0..pairs).map(pair).collect()
}

/// The section that a pair belongs to, which names its position, and the number whose frequency it has.
fn section(rope: &Rope, pair: u32) -> (usize, u32) {
    let [s0, s1, s2, _] = rope.sections;
    if !rope.mode.has_sections() {
        return (0, pair);
    }
    let at = pair % rope.sections.iter().sum::<u32>();
    if rope.mode == RopeMode::Interleaved {
        let axis = (at % 3) as usize;
        return (if at < 3 * rope.sections[axis] { axis } else { 3 }, pair);
    }
    let starts = [0, s0, s0 + s1, s0 + s1 + s2];
    let axis = (0..4).rev().find(|&axis| at >= starts[axis]).unwrap_or(0);
    (axis, if rope.mode == RopeMode::Vision { at - starts[axis] } else { pair })
}

/// What turns a position into the angle of each pair: `(base, interpolated share)` and the magnitude of the rotation.
///
/// The angle of pair i at position p is `p / factor_i * frequency_i`, for the frequencies returned; the second result scales
/// sine and cosine. YaRN mixes the scaled and the unscaled frequency of a pair by a ramp over the pairs.
pub fn rope_frequencies(rope: &Rope) -> (Vec<f64>, f64) {
    let (n, base) = (f64::from(rope.n_dims), f64::from(rope.freq_base));
    let (scale, mix) = (f64::from(rope.freq_scale), f64::from(rope.ext_factor));
    // The pair (as a real number) that turns `rotations` times within the training context.
    let pair = |rotations: f32| {
        let turns = f64::from(rope.n_ctx_orig) / (f64::from(rotations) * std::f64::consts::TAU);
        n * turns.ln() / (2.0 * base.ln())
    };
    let low = pair(rope.beta_fast).floor().max(0.0);
    let high = pair(rope.beta_slow).ceil().min(n - 1.0);
    let frequency = |i: u32| {
        let extrapolated = base.powf(-2.0 * f64::from(section(rope, i).1) / n);
        if mix == 0.0 {
            return extrapolated * scale;
        }
        let ramp = ((f64::from(i) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        let share = (1.0 - ramp) * mix;
        extrapolated * (scale * (1.0 - share) + share)
    };
    let stretch = if mix == 0.0 { 1.0 } else { 1.0 - 0.1 * scale.ln() };
    ((0..rope.rotated() / 2).map(frequency).collect(), f64::from(rope.attn_factor) * stretch)
}

/// Operands x, positions and, optionally, divisors of the frequencies.
pub(crate) fn rope(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let Op::Rope(rope) = op else { unreachable!("the row belongs to Rope") };
    let (x, positions, factors) = (&inputs[0], &inputs[1], inputs.get(2));
    let ((frequencies, magnitude), pairs) = (rope_frequencies(rope), rope_pairs(rope));
    let [_, heads, tokens, _] = x.shape;
    let mut y = x.clone();
    for (row, data) in y.rows_mut().enumerate() {
        let token = row / heads as usize % tokens as usize;
        for (i, (frequency, pair)) in frequencies.iter().zip(&pairs).enumerate() {
            let position = positions.data[token + pair.axis * tokens as usize];
            let angle = position / factors.map_or(1.0, |f| f.data[i]) * frequency;
            let [first, second] = pair.elements;
            let (sin, cos) = (if rope.back { -angle.sin() } else { angle.sin() }, angle.cos());
            let (a, b) = (data[first], data[second]);
            data[first] = magnitude * (a * cos - b * sin);
            data[second] = magnitude * (a * sin + b * cos);
        }
    }
    vec![y]
}
