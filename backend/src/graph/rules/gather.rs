//! Rules of rows and matrices picked by ids.

use super::{Call, DType, Desc, ShapeError, Site, WEIGHTS};

/// Tables that hold numbers give F32, tables of integers give integers.
pub(in crate::graph) fn get_rows(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[WEIGHTS, &[DType::I32]].concat())?;
    call.dtype(1, &[DType::I32])?;
    let (table, ids) = (call.shape(0), call.shape(1));
    call.extent(1, 1, table[2], "as axis 2 of operand 0: each table has ids of its own")?;
    call.extent(1, 2, table[3], "as axis 3 of operand 0: each table has ids of its own")?;
    call.extent(1, 3, 1, "for ids have three axes")?;
    let dtype = if call.inputs[0].dtype == DType::I32 { DType::I32 } else { DType::F32 };
    Ok(Desc { dtype, shape: [table[0], ids[0], table[2], table[3]] })
}

pub(in crate::graph) fn get_rows_back(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, &[DType::F32])?;
    call.matrix(0)?;
    let (dy, output) = (call.shape(0), call.asked()?.shape);
    if call.vector(1, DType::I32)? > dy[1] {
        return call.refuse(Site::Operand(1), format!("must have no more ids than operand 0 has rows, {}", dy[1]));
    }
    Ok(Desc::f32([dy[0], output[1], 1, 1]))
}

/// Operands a `[k, m, experts]`, b `[k, used or a part of it, tokens]`, ids `[used, tokens]`.
pub(in crate::graph) fn mul_mat_id(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, WEIGHTS)?;
    call.dtype(1, &[DType::F32])?;
    call.dtype(2, &[DType::I32])?;
    let (a, b, ids) = (call.shape(0), call.shape(1), call.shape(2));
    call.extent(0, 3, 1, "for there is one matrix per expert")?;
    call.extent(1, 0, a[0], "as axis 0 of operand 0, which it is summed with")?;
    call.extent(1, 3, 1, "for its columns have two axes")?;
    (2..4).try_for_each(|axis| call.extent(2, axis, 1, "for ids have two axes"))?;
    call.extent(2, 1, b[2], "as axis 2 of operand 1: each token has ids of its own")?;
    call.repeats(1, 1..=1, [b[0], ids[0], b[2], 1])?;
    Ok(Desc::f32([a[1], ids[0], b[2], 1]))
}
