//! The rule of attention.

use super::{Call, DType, Desc, Op, Shape, ShapeError, Site};
use crate::graph::FlashAttn;

/// What keys and values may be stored as: the types that caches come in.
const KEYS_VALUES: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::IQ4_NL,
];

/// What a mask may be stored as.
const MASKS: &[DType] = &[DType::F16, DType::BF16, DType::F32];

pub(in crate::graph) fn flash_attn(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::FlashAttn(attention) = call.op else { return call.refuse(Site::Operands, "are not those of attention") };
    let wanted = 3 + usize::from(attention.mask) + usize::from(attention.sinks);
    if call.inputs.len() != wanted {
        return call.refuse(Site::Operands, format!("{} given, {wanted} wanted", call.inputs.len()));
    }
    if attention.max_bias > 0.0 && !attention.mask {
        return call.refuse(Site::Operands, "have no mask, which the slopes of the heads scale");
    }
    call.dtype(0, &[DType::F32])?;
    (1..3).try_for_each(|i| call.dtype(i, KEYS_VALUES))?;
    let (q, k, v) = (call.shape(0), call.shape(1), call.shape(2));
    call.extent(1, 0, q[0], "as the rows of operand 0, which it is multiplied with")?;
    call.extent(2, 1, k[1], "as that of operand 1: every key has a value")?;
    (1..3).try_for_each(|i| call.repeats(i, 2..=3, q))?;
    if attention.mask {
        masked(call, q, k)?;
    }
    if attention.sinks {
        let sinks = wanted - 1;
        call.vector(sinks, DType::F32)?;
        call.extent(sinks, 0, q[2], "for each head has one")?;
    }
    let heads = if attention.logs { with_logs(call, v[0], q[2], 2)? } else { q[2] };
    Ok(Desc::f32([v[0], heads, q[1], q[3]]))
}

/// Heads with those behind them that hold a quad for each: rows of `size` elements, operand `i`'s, are quads.
fn with_logs(call: &Call<'_>, size: u32, heads: u32, i: usize) -> Result<u32, ShapeError> {
    if !size.is_multiple_of(4) {
        return call
            .refuse(Site::Operand(i), format!("rows of {size} elements are no whole quads, which logs are kept in"));
    }
    call.counted(u64::from(heads) + u64::from(FlashAttn::log_heads(size, heads)))
}

pub(in crate::graph) fn flash_attn_back_q(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::FlashAttnBackQ(attention) = call.op else {
        return call.refuse(Site::Operands, "are not those of attention");
    };
    let v = call.shape(2);
    let [size, heads, n, b] = back(call, &attention, v[0])?;
    Ok(Desc::f32([size, with_logs(call, size, heads, 0)?, n, b]))
}

pub(in crate::graph) fn flash_attn_back_kv(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::FlashAttnBackKv(attention) = call.op else {
        return call.refuse(Site::Operands, "are not those of attention");
    };
    let (q, k) = (call.shape(0), call.shape(1));
    back(call, &attention, q[0])?;
    Ok(Desc::f32([k[0], call.counted(2 * u64::from(k[2]))?, k[1], k[3]]))
}

/// What both gradients ask of their operands, of which the last but one has rows of `kept` elements; the shape of the queries, heads before
/// queries.
fn back(call: &Call<'_>, attention: &FlashAttn, kept: u32) -> Result<Shape, ShapeError> {
    let before = 3 + usize::from(attention.mask);
    if call.inputs.len() != before + 2 {
        return call.refuse(Site::Operands, format!("{} given, {} wanted", call.inputs.len(), before + 2));
    }
    if attention.max_bias > 0.0 && !attention.mask {
        return call.refuse(Site::Operands, "have no mask, which the slopes of the heads scale");
    }
    [0, 1, 2, before, before + 1].into_iter().try_for_each(|i| call.dtype(i, &[DType::F32]))?;
    let (q, k, v) = (call.shape(0), call.shape(1), call.shape(2));
    call.extent(2, 0, q[0], "as the rows of operand 0, for both gradients have them")?;
    call.extent(1, 0, q[0], "as the rows of operand 0, which it is multiplied with")?;
    (1..4).try_for_each(|axis| call.extent(2, axis, k[axis], "as that of operand 1: every key has a value"))?;
    call.repeats(1, 2..=2, q)?;
    call.extent(1, 3, q[3], "as that of operand 0")?;
    if attention.mask {
        masked(call, q, k)?;
    }
    let shape = [q[0], q[2], q[1], q[3]];
    let logs = [kept, with_logs(call, kept, q[2], 0)?, q[1], q[3]];
    let dy = [v[0], q[2], q[1], q[3]];
    for (i, wanted) in [(before, logs), (before + 1, dy)] {
        (0..4).try_for_each(|axis| call.extent(i, axis, wanted[axis], "as the result of the attention has it"))?;
    }
    Ok(shape)
}

/// That the mask, operand 3, has a place for every key and query.
fn masked(call: &Call<'_>, q: Shape, k: Shape) -> Result<(), ShapeError> {
    call.dtype(3, MASKS)?;
    let mask = call.shape(3);
    if mask[0] < k[1] || mask[1] < q[1] {
        let rule = format!("{mask:?} has no place for each of the {} keys and {} queries", k[1], q[1]);
        return call.refuse(Site::Operand(3), rule);
    }
    call.repeats(3, 2..=3, q)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::infer;

    /// Heads, with those that hold logs or with those of the values, may be more than 32 bits count.
    #[test]
    fn heads_beyond_32_bits_are_refused() {
        let plain = FlashAttn { scale: 1.0, max_bias: 0.0, softcap: 0.0, mask: false, sinks: false, logs: true };
        let [one, all] = [1, 1 << 31].map(|heads| Desc::f32([4, 1, heads, 1]));
        let refused = |op: Op, inputs: &[Desc]| infer(&op, inputs, None).unwrap_err().to_string();
        let rule = "output: an axis of 4294967296 elements is beyond 32 bits";
        assert_eq!(refused(Op::FlashAttn(plain), &[all, one, one]), format!("FLASH_ATTN_EXT: {rule}"));
        let back = refused(Op::FlashAttnBackQ(plain), &[all, one, one, all, all]);
        assert!(back.ends_with(rule), "{back}");
        // Rows of a thousand quads hold the logs of as many heads.
        let wide = |heads| Desc::f32([4096, 1, heads, 1]);
        let by_head = |heads| Desc::f32([4096, heads, 1, 1]);
        let (q, y) = (wide(1 << 31), by_head((1 << 31) + (1 << 21)));
        let back = refused(Op::FlashAttnBackKv(plain), &[q, q, q, y, by_head(1 << 31)]);
        assert!(back.ends_with(rule), "{back}");
    }
}
