//! Rotary embedding and its gradient: shaders `rope`, `rope_factors`.

use super::dispatch::Builder;
use super::{Arg, Call, Lowered, Refusal};
use crate::graph::{Rope, RopeMode};

/// First constant id of the angles.
const ANGLES: u32 = 16;
pub(super) const N_DIMS: u32 = ANGLES + 1;

/// Bits of a pair's number that the shader takes.
const POWER_BITS: u32 = 10;

pub(super) fn rope(call: Call<'_>, rope: &Rope) -> Result<Lowered, Refusal> {
    check_pairs(rope).map_err(|rule| Refusal(format!("{}: {rule}", Arg::Input(0))))?;
    let shader = if call.inputs.len() == 3 { "rope_factors" } else { "rope" };
    Ok(angles(call.dispatch(shader)?, ANGLES, rope).texels(call.output)?.into())
}

/// That the shader can number the pairs.
pub(super) fn check_pairs(rope: &Rope) -> Result<(), String> {
    match rope.n_dims / 2 {
        pairs if pairs > 1 << POWER_BITS => Err(format!("{pairs} rotated pairs, the kernel takes {}", 1 << POWER_BITS)),
        _ => Ok(()),
    }
}

/// Sets the constants of `rope.glsl`, in its order, from id `first` on.
pub(super) fn angles<'a>(builder: Builder<'a>, first: u32, rope: &Rope) -> Builder<'a> {
    let ramp = Ramp::new(rope);
    let sign = if rope.back { -1.0 } else { 1.0 };
    let power = |bit: u32| {
        let exponent = -2.0 * f64::from(1_u32 << bit) / f64::from(rope.n_dims);
        f64::from(rope.freq_base).powf(exponent) as f32
    };
    let floats = [rope.freq_scale, rope.ext_factor, ramp.low, ramp.length, ramp.magnitude, sign * ramp.magnitude];
    let floats = floats.into_iter().chain((0..POWER_BITS).map(power));
    let builder = builder.set(first, u32::from(rope.mode == RopeMode::Neox)).set(first + 1, rope.n_dims);
    (first + 2..).zip(floats).fold(builder, |builder, (id, value)| builder.set_f32(id, value))
}

/// YaRN: from pair `low` on, over `length` pairs, the angle goes over from the extrapolated to the interpolated one, and the
/// result is scaled by `magnitude`.
struct Ramp {
    low: f32,
    length: f32,
    magnitude: f32,
}

impl Ramp {
    fn new(rope: &Rope) -> Self {
        if rope.ext_factor == 0.0 {
            return Self { low: 0.0, length: 1.0, magnitude: rope.attn_factor };
        }
        let n = f64::from(rope.n_dims);
        // The pair that turns `rotations` times within the training context.
        let pair = |rotations: f32| {
            let turns = f64::from(rope.n_ctx_orig) / (f64::from(rotations) * std::f64::consts::TAU);
            n * turns.ln() / (2.0 * f64::from(rope.freq_base).ln())
        };
        let low = pair(rope.beta_fast).floor().max(0.0);
        let high = pair(rope.beta_slow).ceil().min(n - 1.0);
        let magnitude = f64::from(rope.attn_factor) * (1.0 - 0.1 * f64::from(rope.freq_scale).ln());
        Self { low: low as f32, length: (high - low).max(0.001) as f32, magnitude: magnitude as f32 }
    }
}
