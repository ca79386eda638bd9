//! Values of a formula: shaders `generate`, `timestep`.

use super::{Call, Lowered, Refusal};

const START: u32 = 16;
const STEP: u32 = 17;

const HALF: u32 = 16;
const RATE: u32 = 17;

/// `start + i step` along axis 0.
pub(super) fn line(call: Call<'_>, start: f32, step: f32) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("generate")?.set_f32(START, start).set_f32(STEP, step).texels(call.output)?.into())
}

pub(super) fn timestep(call: Call<'_>, max_period: u32) -> Result<Lowered, Refusal> {
    let half = call.output.shape()[0] / 2;
    let rate = -f64::from(max_period).ln() / f64::from(half.max(1));
    Ok(call.dispatch("timestep")?.set(HALF, half).set_f32(RATE, rate as f32).texels(call.output)?.into())
}
