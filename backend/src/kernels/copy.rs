//! Values moved, repeated, converted to another dtype, set among zeros, and summed back over their repeats: shaders `copy`,
//! `pad`, `repeat_back`.

use super::operand::constants;
use super::{Access, Arg, Call, Lowered, Operand, Refusal};
use crate::graph::{Shape, elements};

pub(super) const WRAP: u32 = 16;
pub(super) const RENUMBER: u32 = 17;
const BEFORE: u32 = 16;

/// A copy between shapes reads the input in the output's shape where its digits allow, else element by element by number.
pub(super) fn copy(call: Call<'_>) -> Result<Lowered, Refusal> {
    let output = call.output;
    let reshaped = in_shape_of(&call.inputs[0], output);
    let count = elements(&output.shape());
    if reshaped.is_none() && count > u64::from(u32::MAX) {
        let rule = "another shape, which its view cannot take; elements are numbered in 32 bits";
        return Err(Refusal(format!("{}: {count} elements in {rule}", Arg::Input(0))));
    }
    let dispatch = call
        .builder("copy")?
        .operand(Arg::Input(0), reshaped.as_ref().unwrap_or(&call.inputs[0]), Access::Read)?
        .operand(Arg::Output, output, Access::Write)?
        .set(WRAP, 0)
        .set(RENUMBER, u32::from(reshaped.is_none()))
        .texels(output)?;
    Ok(dispatch.into())
}

/// The input as a view of the output's shape that a kernel takes.
fn in_shape_of(input: &Operand, output: &Operand) -> Option<Operand> {
    let view = match input.shape() == output.shape() {
        true => input.view.clone(),
        false => input.view.reshape(&output.shape()).ok()?,
    };
    let reshaped = Operand { view, ..input.clone() };
    constants(0, Arg::Input(0), &reshaped).is_ok().then_some(reshaped)
}

pub(super) fn repeat(call: Call<'_>) -> Result<Lowered, Refusal> {
    let wrap = call.inputs[0].repeats_to(call.output);
    Ok(call.dispatch("copy")?.set(WRAP, wrap).set(RENUMBER, 0).texels(call.output)?.into())
}

pub(super) fn pad(call: Call<'_>, before: Shape) -> Result<Lowered, Refusal> {
    let mut builder = call.dispatch("pad")?;
    for (axis, elements) in (BEFORE..).zip(before) {
        builder = builder.set(axis, elements);
    }
    Ok(builder.texels(call.output)?.into())
}

pub(super) fn repeat_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("repeat_back")?.texels(call.output)?.into())
}
