//! Each row of the output from its own row: shaders `rms_norm`, `softmax`, their gradients, and `argmax`.

use super::{Call, Lowered, Refusal};

const EPS: u32 = 16;
const SCALE: u32 = 16;
const WRAP: u32 = 17;

pub(super) fn rms_norm(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("rms_norm")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn rms_norm_back(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("rms_norm_back")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn softmax(call: Call<'_>, scale: f32) -> Result<Lowered, Refusal> {
    let builder = match call.inputs.get(1) {
        // The mask may have more rows than x; it repeats over axes 2 and 3 alone.
        Some(mask) => call.dispatch("softmax_masked")?.set(WRAP, mask.repeats_to(call.output) & !0b11),
        None => call.dispatch("softmax")?,
    };
    Ok(builder.set_f32(SCALE, scale).rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn softmax_back(call: Call<'_>, scale: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("softmax_back")?.set_f32(SCALE, scale);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn arg_max(call: Call<'_>) -> Result<Lowered, Refusal> {
    let elements = call.inputs[0].shape()[0];
    Ok(call.dispatch("argmax")?.rows_of_texel(call.output, elements)?.into())
}
