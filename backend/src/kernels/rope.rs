//! Rotary embedding and its gradient: shaders `rope`, `rope_factors`, `rope_multi`.

use super::dispatch::Builder;
use super::{Access, Arg, Call, Lowered, Refusal};
use crate::graph::{Rope, RopeMode};

/// First constant id of the angles.
const ANGLES: u32 = 16;
pub(super) const N_DIMS: u32 = ANGLES + 1;

const OFFSET: u32 = 34;
/// Constants of `rope_multi`.
pub(super) const MULTI_FACTORS: u32 = 36;
const SECTIONS: u32 = 37;
const INTERLEAVED: u32 = 41;
const RESTARTED: u32 = 42;

/// Bits of a pair's number whose powers of the base are constants.
const POWER_BITS: u32 = 10;

/// Pairs that the shader numbers: it squares the last power for two more bits.
const MOST_PAIRS: u32 = 1 << (POWER_BITS + 2);

pub(super) fn rope(call: Call<'_>, rope: &Rope) -> Result<Lowered, Refusal> {
    check_pairs(rope).map_err(|rule| Refusal(format!("{}: {rule}", Arg::Input(0))))?;
    let builder = match call.inputs.len() {
        _ if rope.mode.has_sections() => sections(call, rope)?,
        3 => call.dispatch("rope_factors")?,
        _ => call.dispatch("rope")?,
    };
    Ok(angles(builder, ANGLES, rope).set(OFFSET, rope.offset).texels(call.output)?.into())
}

/// Binds what a rotation with sections needs. Where there are no factors the positions hold their place.
fn sections<'a>(call: Call<'a>, rope: &Rope) -> Result<Builder<'a>, Refusal> {
    let given = call.inputs.len();
    let input = |builder: Builder<'a>, i: usize| builder.operand(Arg::Input(i), &call.inputs[i], Access::Read);
    let builder = input(input(input(call.builder("rope_multi")?, 0)?, 1)?, given - 1)?;
    let builder = call.store(builder, Arg::Output, call.output)?.set(MULTI_FACTORS, u32::from(given == 3));
    let builder = (SECTIONS..).zip(rope.sections).fold(builder, |builder, (id, pairs)| builder.set(id, pairs));
    Ok(builder
        .set(INTERLEAVED, u32::from(rope.mode == RopeMode::Interleaved))
        .set(RESTARTED, u32::from(rope.mode == RopeMode::Vision)))
}

/// That the shader can number the pairs.
pub(super) fn check_pairs(rope: &Rope) -> Result<(), String> {
    match rope.rotated() / 2 {
        pairs if pairs > MOST_PAIRS => Err(format!("{pairs} rotated pairs, the kernel takes {MOST_PAIRS}")),
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
    let builder = builder.set(first, u32::from(rope.mode != RopeMode::Normal)).set(first + 1, rope.rotated());
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
