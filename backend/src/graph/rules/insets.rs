//! Rules of the ops that write a part of a tensor.

use super::{Call, Desc, Op, ShapeError, Site};
use crate::graph::{DType, Inset, elements};

/// Element types that a part may be given in for a base of type `base`.
fn parts(base: DType) -> Vec<DType> {
    match base {
        DType::F32 | DType::F16 | DType::BF16 => vec![DType::F32, DType::F16, DType::BF16],
        other => vec![other],
    }
}

/// The base, whose elements hold the inset.
fn base(call: &Call<'_>) -> Result<(Desc, Inset), ShapeError> {
    let (Op::Set(inset) | Op::Acc(inset) | Op::SetRows(inset)) = *call.op else {
        return call.refuse(Site::Operands, "are not those of a write to a part");
    };
    let base = call.inputs[0];
    let count = elements(&base.shape);
    if inset.last().is_none_or(|last| last >= count) || count > u64::from(u32::MAX) {
        let Inset { shape, strides, offset } = inset;
        let rule = format!("{count} elements do not hold {shape:?} with strides {strides:?} from element {offset}");
        return call.refuse(Site::Operand(0), rule);
    }
    let block = base.dtype.block();
    let aligned = inset.shape[0].is_multiple_of(block)
        && inset.offset.is_multiple_of(block)
        && (1..4).all(|axis| inset.shape[axis] == 1 || inset.strides[axis].is_multiple_of(block));
    if block > 1 && !(inset.strides[0] == 1 && aligned) {
        return call.refuse(Site::Operand(0), format!("is written across its blocks of {block}"));
    }
    Ok((base, inset))
}

pub(crate) fn set(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let (base, inset) = base(call)?;
    call.dtype(1, &parts(base.dtype))?;
    (0..4).try_for_each(|axis| call.extent(1, axis, inset.shape[axis], "as the inset has it"))?;
    Ok(base)
}

pub(crate) fn acc(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[DType::F32])?;
    call.dtype(1, &[DType::F32])?;
    set(call)
}

pub(crate) fn set_rows(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let (base, inset) = base(call)?;
    call.dtype(1, &parts(base.dtype))?;
    call.dtype(2, &[DType::I32, DType::I64])?;
    for axis in [0, 2, 3] {
        call.extent(1, axis, inset.shape[axis], "as the inset has it")?;
    }
    let [rows, ids] = [call.shape(1), call.shape(2)];
    call.extent(2, 0, rows[1], "an id for each row of operand 1")?;
    for (axis, of) in [(1, 2), (2, 3)] {
        if !rows[of].is_multiple_of(ids[axis]) {
            return call.refuse(Site::Operand(2), format!("axis {axis} of {ids:?} must divide axis {of} of {rows:?}"));
        }
    }
    call.extent(2, 3, 1, "for axes 0 to 2 are those of the rows")?;
    Ok(base)
}
