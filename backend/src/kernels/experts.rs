//! MUL_MAT_ID: products with matrices that ids pick, shader `experts`.
//!
//! Every pair of an id and a token is a column of its own: whatever the ids are, the dispatch is the same, and no matrix is
//! touched that no id names. On a GPU neighbouring invocations share a sum over k, so that they read neighbouring texels of a row
//! of tiles; processors sum alone.

use super::{Call, Lowered, Refusal, is_processor};

const LANES: u32 = 9;

/// Invocations of a GPU that share a sum.
const GPU_LANES: u32 = 16;

pub(super) fn mul_mat_id(call: Call<'_>) -> Result<Lowered, Refusal> {
    let quads = call.inputs[0].shape()[0].div_ceil(4);
    let most = call.limits.largest_group().max(1);
    let of_gpu = GPU_LANES.min(quads.next_power_of_two()).min(1 << most.ilog2());
    let lanes = if is_processor(call.limits) { 1 } else { of_gpu };
    Ok(call.dispatch("experts")?.picking(&call).set(LANES, lanes).shared_texels(call.output, lanes)?.into())
}
