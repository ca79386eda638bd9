//! Rotary embedding with YaRN.

use crate::graph::{Array, Op, Rope, RopeMode, Shape};

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
        let extrapolated = base.powf(-2.0 * f64::from(i) / n);
        if mix == 0.0 {
            return extrapolated * scale;
        }
        let ramp = ((f64::from(i) - low) / (high - low).max(0.001)).clamp(0.0, 1.0);
        let share = (1.0 - ramp) * mix;
        extrapolated * (scale * (1.0 - share) + share)
    };
    let stretch = if mix == 0.0 { 1.0 } else { 1.0 - 0.1 * scale.ln() };
    ((0..rope.n_dims / 2).map(frequency).collect(), f64::from(rope.attn_factor) * stretch)
}

/// Operands x, positions and, optionally, divisors of the frequencies.
pub(crate) fn rope(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let Op::Rope(rope) = op else { unreachable!("the row belongs to Rope") };
    let (x, positions, factors) = (&inputs[0], &inputs[1], inputs.get(2));
    let (frequencies, magnitude) = rope_frequencies(rope);
    let [_, heads, tokens, _] = x.shape;
    let mut y = x.clone();
    for (row, data) in y.rows_mut().enumerate() {
        let token = row / heads as usize % tokens as usize;
        for (i, frequency) in frequencies.iter().enumerate() {
            let angle = positions.data[token] / factors.map_or(1.0, |f| f.data[i]) * frequency;
            let (first, second) = match rope.mode {
                RopeMode::Normal => (2 * i, 2 * i + 1),
                RopeMode::Neox => (i, i + frequencies.len()),
            };
            let (sin, cos) = (if rope.back { -angle.sin() } else { angle.sin() }, angle.cos());
            let (a, b) = (data[first], data[second]);
            data[first] = magnitude * (a * cos - b * sin);
            data[second] = magnitude * (a * sin + b * cos);
        }
    }
    vec![y]
}
