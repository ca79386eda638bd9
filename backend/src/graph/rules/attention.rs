//! The rule of attention.

use super::{Call, DType, Desc, Op, ShapeError, Site};

/// What keys and values may be stored as.
const KEYS_VALUES: &[DType] = &[DType::F32, DType::F16, DType::Q8_0, DType::Q4_1];

/// What a mask may be stored as.
const MASKS: &[DType] = &[DType::F16, DType::F32];

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
        call.dtype(3, MASKS)?;
        let mask = call.shape(3);
        if mask[0] < k[1] || mask[1] < q[1] {
            let rule = format!("{mask:?} has no place for each of the {} keys and {} queries", k[1], q[1]);
            return call.refuse(Site::Operand(3), rule);
        }
        call.repeats(3, 2..=3, q)?;
    }
    if attention.sinks {
        let sinks = wanted - 1;
        call.vector(sinks, DType::F32)?;
        call.extent(sinks, 0, q[2], "for each head has one")?;
    }
    Ok(Desc::f32([v[0], q[2], q[1], q[3]]))
}
