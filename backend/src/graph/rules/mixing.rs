//! Rules of weighted sums over heads and over residual streams.

use super::{Call, ShapeError, Site, WEIGHTS};
use crate::graph::{DType, Desc, Op};

/// Residual streams that mixing matrices are made for.
const STREAMS: u32 = 4;

/// Operands q `[e, heads, t, n]`, k `[e, 1, keys, n]` in any of the dtypes of weights, weights `[heads, t, 1, n]`, mask (F32, F16)
/// `[keys, t, 1, n or a divisor]`.
pub(crate) fn lightning_indexer(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[DType::F32])?;
    call.dtype(1, WEIGHTS)?;
    call.dtype(2, &[DType::F32])?;
    call.dtype(3, &[DType::F32, DType::F16])?;
    let ([size, heads, tokens, n], keys) = (call.shape(0), call.shape(1)[2]);
    call.shaped(1, [size, 1, keys, n], "for it is [size, 1, keys, n]")?;
    call.shaped(2, [heads, tokens, 1, n], "for it is [heads, tokens, 1, n]")?;
    call.shaped(3, [keys, tokens, 1, call.shape(3)[3]], "for it is [keys, tokens, 1, n]")?;
    call.repeats(3, 3..=3, [1, 1, 1, n])?;
    Ok(Desc::f32([keys, tokens, 1, n]))
}

/// Operands mixes `[(2 + h) h, t]`, scales `[3 or more]`, base `[(2 + h) h]`.
pub(crate) fn dsv4_hc_comb(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let (logits, tokens) = ((2 + STREAMS) * STREAMS, call.shape(0)[1]);
    call.shaped(0, [logits, tokens, 1, 1], "for there are four residual streams")?;
    call.shaped(2, [logits, 1, 1, 1], "as axis 0 of operand 0")?;
    if call.vector(1, DType::F32)? < 3 {
        return call.refuse(Site::Operand(1), "must have three scales");
    }
    Ok(Desc::f32([STREAMS, STREAMS, tokens, 1]))
}

/// Operands streams `[n, h, t]`, weights `[h, t]` or gates `[n, h, t]`.
pub(crate) fn dsv4_hc_pre(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Dsv4HcPre { gated, .. } = *call.op else {
        return call.refuse(Site::Operands, "are not those of residual streams");
    };
    call.floats()?;
    let [n, streams, tokens, _] = call.shape(0);
    call.extent(0, 3, 1, "for its axes are element, stream, token")?;
    let weights = if gated { [n, streams, tokens, 1] } else { [streams, tokens, 1, 1] };
    call.shaped(1, weights, "by the streams of operand 0")?;
    Ok(Desc::f32([n, tokens, 1, 1]))
}

/// Operands x `[n, t]`, streams `[n, h, t]`, weights `[h, t]`, optional mixing `[h, h, t]`.
pub(crate) fn dsv4_hc_post(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let [n, streams, tokens, _] = call.shape(1);
    call.extent(1, 3, 1, "for its axes are element, stream, token")?;
    call.shaped(0, [n, tokens, 1, 1], "by the streams of operand 1")?;
    call.shaped(2, [streams, tokens, 1, 1], "by the streams of operand 1")?;
    if call.inputs.len() == 4 {
        call.shaped(3, [streams, streams, tokens, 1], "by the streams of operand 1")?;
    }
    Ok(Desc::f32(call.shape(1)))
}
