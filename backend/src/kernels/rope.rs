//! Rotary embedding and its gradient: shaders `rope`, `rope_factors`.

use super::{Arg, Call, Lowered, Refusal};
use crate::graph::{Rope, RopeMode};

const NEOX: u32 = 16;
pub(super) const N_DIMS: u32 = 17;
const FREQ_SCALE: u32 = 18;
const EXT_FACTOR: u32 = 19;
const RAMP_LOW: u32 = 20;
const RAMP_LENGTH: u32 = 21;
const COS_SCALE: u32 = 22;
const SIN_SCALE: u32 = 23;
const POWERS: u32 = 24;

/// Bits of a pair's number that the shader takes.
const POWER_BITS: u32 = 10;

pub(super) fn rope(call: Call<'_>, rope: &Rope) -> Result<Lowered, Refusal> {
    let pairs = rope.n_dims / 2;
    if pairs > 1 << POWER_BITS {
        return Err(Refusal(format!("{}: {pairs} rotated pairs, the kernel takes {}", Arg::Input(0), 1 << POWER_BITS)));
    }
    let shader = if call.inputs.len() == 3 { "rope_factors" } else { "rope" };
    let ramp = Ramp::new(rope);
    let sign = if rope.back { -1.0 } else { 1.0 };
    let mut builder = call
        .dispatch(shader)?
        .set(NEOX, u32::from(rope.mode == RopeMode::Neox))
        .set(N_DIMS, rope.n_dims)
        .set_f32(FREQ_SCALE, rope.freq_scale)
        .set_f32(EXT_FACTOR, rope.ext_factor)
        .set_f32(RAMP_LOW, ramp.low)
        .set_f32(RAMP_LENGTH, ramp.length)
        .set_f32(COS_SCALE, ramp.magnitude)
        .set_f32(SIN_SCALE, sign * ramp.magnitude);
    for bit in 0..POWER_BITS {
        let exponent = -2.0 * f64::from(1_u32 << bit) / f64::from(rope.n_dims);
        builder = builder.set_f32(POWERS + bit, f64::from(rope.freq_base).powf(exponent) as f32);
    }
    Ok(builder.texels(call.output)?.into())
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
