//! Softmax, reductions, norms of groups, sorting.

use super::super::{DType, Desc, Op};
use super::{Call, ShapeError, Site, same_shape};

/// Operands x, then a mask and sinks, each if there is one.
pub(crate) fn soft_max(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::SoftMax { max_bias, sinks, .. } = call.op else {
        return call.refuse(Site::Operands, "are not those of a softmax");
    };
    call.dtype(0, &[DType::F32])?;
    let x = call.shape(0);
    let last = call.inputs.len() - 1;
    let masked = match (last, sinks) {
        (0, true) => return call.refuse(Site::Operands, "lack the sinks"),
        (2, false) => return call.refuse(Site::Operands, "are three without sinks"),
        _ => last > usize::from(sinks),
    };
    if !(0.0..=f32::MAX).contains(&max_bias) {
        return call
            .refuse(Site::Operand(0), format!("has a greatest bias of {max_bias}, must be finite and not negative"));
    }
    if masked {
        call.dtype(1, &[DType::F32, DType::F16])?;
        let mask = call.shape(1);
        call.extent(1, 0, x[0], "as the rows of operand 0")?;
        if mask[1] < x[1] {
            return call.refuse(Site::Operand(1), format!("{mask:?} has fewer rows than operand 0's {x:?}"));
        }
        call.repeats(1, 2..=3, x)?;
    }
    if sinks && call.vector(last, DType::F32)? != x[2] {
        return call.refuse(Site::Operand(last), format!("must have one logit for each of the {} of axis 2", x[2]));
    }
    Ok(Desc::f32(x))
}

pub(crate) fn arg_max(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.matrix(0)?;
    Ok(Desc { dtype: DType::I32, shape: [call.shape(0)[1], 1, 1, 1] })
}

pub(crate) fn sum(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    Ok(Desc::f32([1; 4]))
}

pub(crate) fn count_equal(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[DType::I32])?;
    call.dtype(1, &[DType::I32])?;
    let shape = call.shape(0);
    (0..4).try_for_each(|axis| call.extent(1, axis, shape[axis], "as that of operand 0"))?;
    Ok(Desc { dtype: DType::I64, shape: [1; 4] })
}

/// One element for each row.
pub(crate) fn sum_rows(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let [_, n1, n2, n3] = call.shape(0);
    Ok(Desc::f32([1, n1, n2, n3]))
}

pub(crate) fn group_norm(call: &Call<'_>) -> Result<Desc, ShapeError> {
    match *call.op {
        Op::GroupNorm { groups, .. } if groups > 0 => same_shape(call),
        _ => call.refuse(Site::Operands, "must be cut into one group or more"),
    }
}

pub(crate) fn add_id(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[DType::F32])?;
    call.dtype(1, &[DType::F32])?;
    call.dtype(2, &[DType::I32])?;
    let x = call.shape(0);
    call.matrix(1)?;
    call.extent(1, 0, x[0], "as the rows of operand 0")?;
    call.matrix(2)?;
    (0..2).try_for_each(|axis| call.extent(2, axis, x[axis + 1], "for an id of each row of operand 0"))?;
    Ok(Desc::f32(x))
}

/// An index for each element.
pub(crate) fn arg_sort(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    Ok(Desc { dtype: DType::I32, shape: call.shape(0) })
}

/// As many indices for each row as are asked for.
pub(crate) fn top_k(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let [n0, n1, n2, n3] = call.shape(0);
    match call.asked()?.shape[0] {
        k if k <= n0 => Ok(Desc { dtype: DType::I32, shape: [k, n1, n2, n3] }),
        k => call.refuse(Site::Operand(0), format!("has rows of {n0} elements, {k} are to be picked")),
    }
}

pub(crate) fn sgd(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let w = call.shape(0);
    (0..4).try_for_each(|axis| call.extent(1, axis, w[axis], "as that of operand 0"))?;
    if call.vector(2, DType::F32)? != 2 {
        return call.refuse(Site::Operand(2), "must have the 2 parameters");
    }
    Ok(Desc::f32(w))
}
