//! Values moved, repeated, converted to another dtype, set among zeros, and summed back over their repeats: shaders `copy`,
//! `copy_bits`, `encode`, `pad`, `repeat_back`.

use super::dispatch::{GPU_ROOM, is_processor};
use super::operand::constants;
use super::{Access, Arg, Call, Lowered, Operand, Refusal};
use crate::graph::{Form, Shape, TILE_SLOTS, elements};

pub(super) const WRAP: u32 = 16;
pub(super) const RENUMBER: u32 = 17;
/// Of a write by ids, the row that the output begins with.
pub(super) const FIRST_ROW: u32 = 18;
const BEFORE: u32 = 16;
const BLOCKS_RENUMBER: u32 = 16;

/// Invocations that share a sum over repeats.
const LANES: u32 = 9;
const MOST_LANES: u32 = 256;
/// Least repeats that each of them adds up.
const LANE_REPEATS: u64 = 4;

/// A copy between shapes reads the input in the output's shape where its digits allow, else element by element by number.
pub(super) fn copy(call: Call<'_>) -> Result<Lowered, Refusal> {
    let output = call.output;
    if call.inputs[0].dtype == output.dtype && output.dtype.is_quantized() {
        return copy_blocks(call);
    }
    let reshaped = in_shape_of(&call.inputs[0], output);
    let count = elements(&output.shape());
    if reshaped.is_none() && count > u64::from(u32::MAX) {
        let rule = "another shape, which its view cannot take; elements are numbered in 32 bits";
        return Err(Refusal(format!("{}: {count} elements in {rule}", Arg::Input(0))));
    }
    if output.dtype.is_quantized() {
        return by_blocks(call, "encode", reshaped);
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

/// Blocks of one type to blocks of the same type, bit by bit.
fn copy_blocks(call: Call<'_>) -> Result<Lowered, Refusal> {
    let (input, output) = (&call.inputs[0], call.output);
    let lanes = output.dtype.lanes();
    let along_rows = |operand: &Operand| matches!(operand.view.lane_axis(lanes), Ok(Some(0)));
    let reshaped = in_shape_of(input, output).filter(along_rows);
    if reshaped.is_none() && !along_rows(input) {
        return Err(Refusal(format!("{}: its blocks run along another axis than those of the output", Arg::Input(0))));
    }
    by_blocks(call, "copy_bits", reshaped)
}

/// One invocation per texel of a row of blocks, or of a row of tiles; `reshaped` is the input in the output's shape.
fn by_blocks(call: Call<'_>, shader: &'static str, reshaped: Option<Operand>) -> Result<Lowered, Refusal> {
    let output = call.output;
    let lanes = output.dtype.lanes();
    let [p0, p1, p2, p3] = output.padded();
    let extents = match output.dtype.form() {
        Form::Tile { .. } => [output.dtype.row_texels(p0 / lanes * TILE_SLOTS), p1 / TILE_SLOTS, p2, p3],
        Form::Block | Form::Texel => [output.dtype.row_texels(p0 / lanes), p1, p2, p3],
    };
    let dispatch = call
        .builder(shader)?
        .operand(Arg::Input(0), reshaped.as_ref().unwrap_or(&call.inputs[0]), Access::Read)?
        .written_blocks(Arg::Output, output)?
        .set(BLOCKS_RENUMBER, u32::from(reshaped.is_none()))
        .positions(extents)?;
    Ok(dispatch.into())
}

/// The input as a view of the output's shape that a kernel takes.
pub(super) fn in_shape_of(input: &Operand, output: &Operand) -> Option<Operand> {
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
    let lanes = lanes(&call);
    Ok(call.dispatch("repeat_back")?.set(LANES, lanes).shared_texels(call.output, lanes)?.into())
}

/// A power of two. The gradient of a bias has few texels, with a repeat for every token: on a GPU several invocations share one, until the
/// device is busy or they have little left to do. Processors sum alone.
fn lanes(call: &Call<'_>) -> u32 {
    let limits = call.limits;
    if is_processor(limits) {
        return 1;
    }
    let most = MOST_LANES.min(limits.largest_group());
    let quads = elements(&call.output.padded()).div_ceil(4);
    let repeats = elements(&call.inputs[0].shape()) / elements(&call.output.shape()).max(1);
    let mut lanes = 1;
    while 2 * lanes <= most && quads * u64::from(lanes) < GPU_ROOM && repeats >= u64::from(2 * lanes) * LANE_REPEATS {
        lanes *= 2;
    }
    lanes
}
