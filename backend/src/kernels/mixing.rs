//! Weighted sums over heads and over residual streams: shaders `lightning_indexer`, `hc_comb`, `hc_pre`, `hc_post`.

use super::{Call, Lowered, Refusal};

const EPS: u32 = 16;
const ITERATIONS: u32 = 17;
const SCALE: u32 = 16;
const GATED: u32 = 17;

pub(super) fn lightning_indexer(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("lightning_indexer")?.texels(call.output)?.into())
}

pub(super) fn hc_comb(call: Call<'_>, eps: f32, iterations: u32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("hc_comb")?.set_f32(EPS, eps).set(ITERATIONS, iterations);
    Ok(builder.texels(call.output)?.into())
}

pub(super) fn hc_pre(call: Call<'_>, scale: f32, gated: bool) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("hc_pre")?.set_f32(SCALE, scale).set(GATED, u32::from(gated));
    Ok(builder.texels(call.output)?.into())
}

pub(super) fn hc_post(call: Call<'_>) -> Result<Lowered, Refusal> {
    let shader = if call.inputs.len() == 4 { "hc_post_mixed" } else { "hc_post" };
    Ok(call.dispatch(shader)?.texels(call.output)?.into())
}
