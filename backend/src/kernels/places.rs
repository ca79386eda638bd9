//! Values at other places, or left out: shaders `concat` (blocks by `scatter`), `move`, `band`.

use super::{Arg, Call, Lowered, Refusal, inset};
use crate::graph::{Inset, Op, Triangle, linear_strides};

const AXIS: u32 = 16;
const FIRST: u32 = 17;

const SHIFT: u32 = 16;
const MIRRORED: u32 = 20;

const LOW: u32 = 16;
const HIGH: u32 = 17;
const OTHER: u32 = 18;
const WRAP: u32 = 19;

pub(super) fn concat(call: Call<'_>, axis: u32) -> Result<Lowered, Refusal> {
    if call.output.dtype.is_quantized() {
        return concat_blocks(call, axis as usize);
    }
    let first = call.inputs[0].shape()[axis as usize];
    Ok(call.dispatch("concat")?.set(AXIS, axis).set(FIRST, first).texels(call.output)?.into())
}

/// Blocks of one operand after the other, each as a part of the output.
fn concat_blocks(call: Call<'_>, axis: usize) -> Result<Lowered, Refusal> {
    let strides = linear_strides(&call.output.shape());
    // Rows need not end where a texel does.
    let mut both = inset::cleared(call)?;
    let mut offset = 0;
    for (i, part) in call.inputs.iter().enumerate() {
        let shape = part.shape();
        let word =
            |n: u64| u32::try_from(n).map_err(|_| Refusal(format!("{}: element {n} is beyond 32 bits", Arg::Output)));
        let mut steps = [0; 4];
        for (step, stride) in steps.iter_mut().zip(strides) {
            *step = word(stride)?;
        }
        let inset = Inset { shape, strides: steps, offset: word(offset)? };
        both.append(inset::part(Call { inputs: std::slice::from_ref(part), ..call }, i, inset)?);
        offset += u64::from(shape[axis]) * strides[axis];
    }
    Ok(both)
}

/// Element i of the output is element `i - before` of the input, round its ends.
pub(super) fn circular(call: Call<'_>, before: [i64; 4]) -> Result<Lowered, Refusal> {
    let mut builder = call.dispatch("move")?.set(MIRRORED, 0);
    for ((id, before), extent) in (SHIFT..).zip(before).zip(call.inputs[0].shape()) {
        builder = builder.set(id, (-before).rem_euclid(extent.into()) as u32);
    }
    Ok(builder.texels(call.output)?.into())
}

/// The same along axis 0 with the input mirrored at its ends.
pub(super) fn reflected(call: Call<'_>, before: u32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("move")?.set(MIRRORED, 1).set(SHIFT, before);
    let builder = (SHIFT + 1..MIRRORED).fold(builder, |builder, id| builder.set(id, 0));
    Ok(builder.texels(call.output)?.into())
}

/// Elements whose index on axis 0, less that on axis 1, lies between two bounds; another value elsewhere.
pub(super) fn band(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let (low, high, other) = match *op {
        Op::Diag => (0, 0, 0.0),
        Op::DiagMaskInf { past } => (i32::MIN, past.try_into().unwrap_or(i32::MAX), f32::NEG_INFINITY),
        Op::DiagMaskZero { past } => (i32::MIN, past.try_into().unwrap_or(i32::MAX), 0.0),
        Op::Tri(Triangle::UpperDiagonal) => (0, i32::MAX, 0.0),
        Op::Tri(Triangle::Upper) => (1, i32::MAX, 0.0),
        Op::Tri(Triangle::LowerDiagonal) => (i32::MIN, 0, 0.0),
        Op::Tri(Triangle::Lower) => (i32::MIN, -1, 0.0),
        _ => return Err(Refusal(format!("{}: keeps no band", op.row().name))),
    };
    let wrap = call.inputs[0].repeats_to(call.output);
    let [across, down, ..] = call.span.first.map(i64::from);
    // The same bounds where a piece counts from its own first element.
    let bound = |bound: i32| match bound {
        i32::MIN | i32::MAX => bound,
        _ => (i64::from(bound) + down - across).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32,
    };
    let builder = call.dispatch("band")?.set(LOW, bound(low) as u32).set(HIGH, bound(high) as u32);
    Ok(builder.set_f32(OTHER, other).set(WRAP, wrap).texels(call.output)?.into())
}
