//! Pools and their gradient: shaders `pool`, `pool_back`.

use super::{Call, Lowered, Refusal};
use crate::graph::{Pool, PoolKind};

/// First constant id of the window, see `pool.glsl`.
const WINDOW: u32 = 16;

pub(super) fn pool(call: Call<'_>, shader: &'static str, pool: &Pool) -> Result<Lowered, Refusal> {
    let Pool { kind, extent, stride, pad } = *pool;
    let kind = match kind {
        PoolKind::Max => 0,
        PoolKind::Average => 1,
        PoolKind::AverageInside => 2,
    };
    let words = [kind].into_iter().chain(extent).chain(stride).chain(pad);
    let builder = (WINDOW..).zip(words).fold(call.dispatch(shader)?, |builder, (id, word)| builder.set(id, word));
    Ok(builder.texels(call.output)?.into())
}
