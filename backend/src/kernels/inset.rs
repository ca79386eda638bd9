//! A part of a tensor written anew: shaders `copy`, `binary` and `set_rows` where the part is whole texels, else `scatter` and
//! `scatter_rows`.

use super::{
    Access, Arg, Call, Dispatch, Lowered, Operand, Refusal, Scratch, StorageKind, copy, elementwise, generate,
};
use crate::graph::{Binary, DType, Inset, Op};
use crate::layout::Layout;

/// Parameters of `scatter`: four strides, then these.
const STRIDES: u32 = 16;
const OFFSET: u32 = 20;
const ADD: u32 = 21;
/// Rows that an id can name.
const ROWS: u32 = 22;

/// What is done with the part.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Replace,
    Add,
}

pub(super) fn set(call: Call<'_>, inset: Inset) -> Result<Lowered, Refusal> {
    let Some(window) = window(call.output, inset) else { return scatter(call, inset, "scatter", How::Replace) };
    let part = &call.inputs[1..];
    let mut lowered = copy::copy(Call { inputs: part, output: &window, ..call })?;
    lowered.rename(|i| Arg::Input(i + 1));
    Ok(lowered)
}

/// Zeros in every texel of the output, whatever its type.
pub(super) fn cleared(call: Call<'_>) -> Result<Lowered, Refusal> {
    let (_, texels) = texels(call.output, DType::F32)?;
    generate::line(Call { inputs: &[], output: &texels, ..call }, 0.0, 0.0)
}

/// Blocks of operand `number` of an op, the only one in `call`, as a part of its output.
pub(super) fn part(call: Call<'_>, number: usize, inset: Inset) -> Result<Lowered, Refusal> {
    let inputs = [call.output.clone(), call.inputs[0].clone()];
    let mut lowered = scatter(Call { inputs: &inputs, ..call }, inset, "scatter", How::Replace)?;
    lowered.rename(|_| Arg::Input(number));
    Ok(lowered)
}

pub(super) fn acc(call: Call<'_>, inset: Inset) -> Result<Lowered, Refusal> {
    let Some(window) = window(call.output, inset) else { return scatter(call, inset, "scatter", How::Add) };
    let inputs = [window.clone(), call.inputs[1].clone()];
    let mut lowered =
        elementwise::elementwise(Call { inputs: &inputs, output: &window, ..call }, &Op::Binary(Binary::Add))?;
    lowered.rename(|i| if i == 0 { Arg::Output } else { Arg::Input(i) });
    Ok(lowered)
}

pub(super) fn set_rows(call: Call<'_>, inset: Inset) -> Result<Lowered, Refusal> {
    // A piece has some of the rows that ids name.
    let window = match call.span.is_part(call.output.shape()) {
        true => Some(call.output.clone()),
        false => window(call.output, inset),
    };
    let Some(window) = window else { return scatter(call, inset, "scatter_rows", How::Replace) };
    let [_, rows, ids] = call.inputs else { return Err(Refusal("SET_ROWS has 3 operands".into())) };
    let [n0, n1, n2, n3] = rows.shape();
    let dispatch = call
        .builder("set_rows")?
        .operand(Arg::Input(1), rows, Access::Read)?
        .operand(Arg::Input(2), ids, Access::Read)?
        .operand(Arg::Output, &window, Access::Write)?
        .set(copy::WRAP, 0)
        .set(copy::RENUMBER, 0)
        .set(copy::FIRST_ROW, call.span.first[1])
        .positions([n0.div_ceil(window.dtype.lanes()), n1, n2, n3])?;
    Ok(dispatch.into())
}

/// The inset as an operand of whole texels that a kernel can write without touching others; nothing where it has none.
pub(super) fn window(base: &Operand, Inset { shape, strides, offset }: Inset) -> Option<Operand> {
    let view = base.view.strided(&shape, &strides.map(u64::from), offset.into()).ok()?;
    let window = Operand { view, ..base.clone() };
    let exact = window.padded() == shape || (window.padded() == base.padded() && shape == base.shape());
    (exact && window.check_writable(Arg::Output).is_ok() && super::takes(&window).is_ok()).then_some(window)
}

/// Element by element, as words of a buffer: an image goes through one that has its layout.
fn scatter(call: Call<'_>, inset: Inset, shader: &'static str, how: How) -> Result<Lowered, Refusal> {
    let output = call.output;
    if output.storage == StorageKind::Buffer {
        return Ok(scattered(call, inset, shader, how, Arg::Output, output)?.into());
    }
    let (layout, image) = texels(output, DType::I32)?;
    let buffer = Operand { storage: StorageKind::Buffer, ..output.clone() };
    let words = Operand { storage: StorageKind::Buffer, ..image.clone() };
    let moved = |from: Arg, of: &Operand, to: Arg, into: &Operand| -> Result<Dispatch, Refusal> {
        call.builder("copy")?
            .operand(from, of, Access::Read)?
            .operand(to, into, Access::Write)?
            .set(copy::WRAP, 0)
            .set(copy::RENUMBER, 0)
            .texels(into)
    };
    let scratch = Arg::Scratch(0);
    let dispatches = vec![
        moved(Arg::Output, &image, scratch, &words)?,
        scattered(call, inset, shader, how, scratch, &buffer)?,
        moved(scratch, &words, Arg::Output, &image)?,
    ];
    Ok(Lowered { dispatches, scratch: vec![Scratch { dtype: DType::I32, layout }] })
}

/// The rows of texels that an operand's elements are in, as elements of a type of four bytes.
fn texels(operand: &Operand, dtype: DType) -> Result<(Layout, Operand), Refusal> {
    let words = operand.pitch.checked_mul(4).ok_or_else(|| Refusal("output: rows beyond 32 bits".into()))?;
    let shape = [words, operand.view.reach().y + 1, 1, 1];
    let layout = Layout::rtile(&shape, dtype.lanes(), 1, 1, u32::MAX, u32::MAX);
    let layout = layout.map_err(|e| Refusal(e.to_string()))?;
    let texels = Operand { dtype, view: layout.view(), flat: false, ..operand.clone() };
    Ok((layout, texels))
}

fn scattered(
    call: Call<'_>,
    inset: Inset,
    shader: &'static str,
    how: How,
    base: Arg,
    buffer: &Operand,
) -> Result<Dispatch, Refusal> {
    let mut builder = call.builder(shader)?;
    for (i, operand) in call.inputs.iter().enumerate().skip(1) {
        builder = builder.operand(Arg::Input(i), operand, Access::Read)?;
    }
    builder = builder.updated(base, buffer)?;
    for (id, stride) in (STRIDES..).zip(inset.strides) {
        builder = builder.set(id, stride);
    }
    let part = &call.inputs[1];
    let [n0, n1, n2, n3] = part.shape();
    builder.set(OFFSET, inset.offset).set(ADD, u32::from(how == How::Add)).set(ROWS, inset.shape[1]).positions([
        n0.div_ceil(part.dtype.block().max(4)),
        n1,
        n2,
        n3,
    ])
}
