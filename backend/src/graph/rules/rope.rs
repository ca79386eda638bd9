//! Rotary embedding.

use super::super::{DType, Desc, Op, RopeMode};
use super::{Call, ShapeError, Site};

pub(crate) fn rope(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Rope(rope) = call.op else { return call.refuse(Site::Operands, "are not those of a rotary embedding") };
    call.dtype(0, &[DType::F32])?;
    let x = call.shape(0);
    let rotated = rope.rotated();
    let end = u64::from(rope.offset) + u64::from(rotated);
    if !rope.n_dims.is_multiple_of(2) || rope.n_dims == 0 || end > u64::from(x[0]) {
        let rule = format!("rotates {rotated} elements of rows of {}; must be even and within the row", x[0]);
        return call.refuse(Site::Operand(0), rule);
    }
    if !rope.offset.is_multiple_of(2) {
        let rule = format!("rotates from element {} on, which must be even", rope.offset);
        return call.refuse(Site::Operand(0), rule);
    }
    if rope.mode == RopeMode::Vision && rotated != x[0] {
        return call.refuse(Site::Operand(0), format!("rotates {rotated} elements of rows of {}, must be all", x[0]));
    }
    if rope.mode.has_sections() {
        sections(call, rope.sections, rope.mode)?;
    }
    let positions = if rope.mode.has_sections() { 4 } else { 1 };
    if u64::from(call.vector(1, DType::I32)?) != positions * u64::from(x[2]) {
        let many = if positions == 1 { "one position" } else { "four positions" };
        let rule = format!("must have {many} for each of the {} of axis 2", x[2]);
        return call.refuse(Site::Operand(1), rule);
    }
    if call.inputs.len() == 3 && call.vector(2, DType::F32)? < rotated / 2 {
        return call.refuse(Site::Operand(2), format!("must have a factor for each of the {} pairs", rotated / 2));
    }
    Ok(Desc::f32(x))
}

/// That there are pairs to deal out, and that no empty section stands before one that counts its pairs from 0.
fn sections(call: &Call<'_>, sections: [u32; 4], mode: RopeMode) -> Result<(), ShapeError> {
    let sum: u64 = sections.iter().copied().map(u64::from).sum();
    if sum == 0 || sum > u64::from(call.shape(0)[0]) {
        let rule =
            format!("has sections of {sections:?} pairs, must be at least one and no more than the row has elements");
        return call.refuse(Site::Operand(0), rule);
    }
    let used = sections.iter().rposition(|&n| n > 0).unwrap_or(0);
    if mode == RopeMode::Vision && sections[..used].contains(&0) {
        return call.refuse(Site::Operand(0), format!("has an empty section before another in {sections:?}"));
    }
    Ok(())
}
