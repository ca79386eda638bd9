//! Each row of the output from its own row: shaders `rms_norm`, `softmax`, their gradients, `layer_norm`, `l2_norm`, and `argmax`.

use super::{Call, Lowered, Refusal};

const EPS: u32 = 16;
const SCALE: u32 = 16;
const WRAP: u32 = 17;
/// ALiBi: heads of the first series of slopes, and the exponent from each of them to the next.
const HEADS: u32 = 18;
const DECAY: u32 = 19;
/// The head of the whole that head 0 of a piece is.
const FIRST_HEAD: u32 = 20;

pub(super) fn rms_norm(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("rms_norm")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn rms_norm_back(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("rms_norm_back")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn layer_norm(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("layer_norm")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn l2_norm(call: Call<'_>, eps: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("l2_norm")?.set_f32(EPS, eps);
    Ok(builder.rows(call.output, call.output.shape()[0])?.into())
}

pub(super) fn softmax(call: Call<'_>, scale: f32, max_bias: f32, sinks: bool) -> Result<Lowered, Refusal> {
    let masked = call.inputs.len() > 1 + usize::from(sinks);
    let mut builder = call.dispatch(match (masked, sinks) {
        (false, false) => "softmax",
        (true, false) => "softmax_masked",
        (false, true) => "softmax_sinks",
        (true, true) => "softmax_masked_sinks",
    })?;
    if masked {
        let heads = 1 << call.span.whole[2].ilog2();
        // The mask may have more rows than x; it repeats over axes 2 and 3 alone.
        let wrap = call.inputs[1].repeats_to(call.output) & !0b11;
        builder = builder.set(WRAP, wrap).set(HEADS, heads).set_f32(DECAY, -max_bias / heads as f32);
        builder = builder.set(FIRST_HEAD, call.span.first[2]);
    }
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
