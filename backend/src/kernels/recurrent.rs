//! Recurrences over tokens whose state is a matrix, a block of it per invocation: shaders `wkv6`, `gated_linear_attn`, `wkv7`,
//! `gated_delta_net`, `ssm_scan`; and `pack`, `ssm_conv`, `solve_tri`.

use super::dispatch::Builder;
use super::{Access, Arg, Call, Lowered, Operand, Refusal, Scratch, StorageKind};
use crate::graph::{DType, Op};
use crate::layout::{Axis, Digit, Layout};

/// First constant id of `block.glsl`, and the factor of the shaders that have one.
const BLOCK: u32 = 16;
const SCALE: u32 = 20;
/// First constant id of `pack`.
const ROWS: u32 = 16;

/// What a recurrence goes through.
struct Blocks {
    /// Elements of a row of the state.
    size: u32,
    /// Of a sequence.
    tokens: u32,
    sequences: u32,
    heads: u32,
    /// Elements of a result of a head and token.
    results: u32,
    /// Rows of the state of a sequence.
    rows: u32,
    snapshots: u32,
}

pub(super) fn recurrence(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let shape = |i: usize| call.inputs.get(i).map_or([1; 4], Operand::shape);
    let square = |states: usize| {
        let ([size, heads, tokens, _], sequences) = (shape(0), shape(states)[1]);
        let rows = heads * size;
        Blocks { size, tokens: tokens / sequences, sequences, heads, results: size, rows, snapshots: 1 }
    };
    match *op {
        Op::RwkvWkv6 => blocks(call, "wkv6", &square(5), None),
        Op::RwkvWkv7 => blocks(call, "wkv7", &square(6), None),
        Op::GatedLinearAttn { scale } => blocks(call, "gated_linear_attn", &square(4), Some(scale)),
        Op::GatedDeltaNet { snapshots } => {
            let [size, heads, tokens, sequences] = shape(2);
            let of = Blocks { size, tokens, sequences, heads, results: size, rows: heads * size, snapshots };
            blocks(call, "gated_delta_net", &of, Some(1.0 / (size as f32).sqrt()))
        }
        Op::SsmScan { snapshots } => {
            let (size, [dim, heads, tokens, sequences]) = (shape(0)[0], shape(1));
            let channels = dim * heads;
            let of = Blocks { size, tokens, sequences, heads: 1, results: channels, rows: channels, snapshots };
            blocks(call, "ssm_scan", &of, None)
        }
        _ => Err(Refusal(format!("{} is no recurrence", op.row().name))),
    }
}

/// A workgroup for four lines of a state. Results and states are written in whole texels: to the output where its rows are whole
/// texels too, else to a temporary that is packed without their gaps.
fn blocks(call: Call<'_>, shader: &'static str, of: &Blocks, scale: Option<f32>) -> Result<Lowered, Refusal> {
    let (lines, quads) = (of.results.div_ceil(4), of.size.div_ceil(4));
    let product = |factors: [u32; 4]| factors.iter().try_fold(1_u32, |product, &n| product.checked_mul(n));
    let texels = product([of.sequences, of.tokens, of.heads, lines])
        .zip(product([of.snapshots, of.sequences, of.rows, quads]))
        .and_then(|(results, states)| results.checked_add(states)?.checked_mul(4));
    let Some(elements) = texels else {
        return Err(Refusal(format!("{}: results and states in whole texels exceed 32 bits", Arg::Output)));
    };
    let shape = call.output.shape();
    let whole = [of.results, of.size, shape[0]].iter().all(|n| n.is_multiple_of(4));
    let direct = whole && call.output.padded() == shape;
    let layout = vector(elements);
    let unpacked = Operand {
        dtype: DType::F32,
        view: layout.view(),
        flat: false,
        storage: StorageKind::Buffer,
        pitch: layout.width(),
    };

    let mut builder = call.builder(shader)?;
    for (i, input) in call.inputs.iter().enumerate() {
        builder = builder.operand(Arg::Input(i), input, Access::Read)?;
    }
    builder = match direct {
        true => builder.operand(Arg::Output, call.output, Access::Write)?,
        false => builder.operand(Arg::Scratch(0), &unpacked, Access::Write)?,
    };
    let constants = [of.size, of.tokens, of.rows, of.snapshots];
    builder = (BLOCK..).zip(constants).fold(builder, |builder, (id, value)| builder.set(id, value));
    if let Some(scale) = scale {
        builder = builder.set_f32(SCALE, scale);
    }
    let block = builder.blocks(quads.next_power_of_two(), [lines, of.heads, of.sequences, 1])?;
    if direct {
        return Ok(block.into());
    }
    let constants = [of.results * of.heads * of.tokens * of.sequences, of.results, of.size];
    let pack = Builder::new("pack", call.limits).operand(Arg::Scratch(0), &unpacked, Access::Read)?.operand(
        Arg::Output,
        call.output,
        Access::Write,
    )?;
    let pack = (ROWS..).zip(constants).fold(pack, |pack, (id, value)| pack.set(id, value)).texels(call.output)?;
    Ok(Lowered { dispatches: vec![block, pack], scratch: vec![Scratch { dtype: DType::F32, layout }] })
}

/// A vector of whole texels.
fn vector(elements: u32) -> Layout {
    let lanes = DType::F32.lanes();
    let layout = Layout {
        axes: vec![Axis { extent: elements, padded: elements }],
        lane: vec![Digit { axis: 0, stride: 1, radix: lanes }],
        x: vec![Digit { axis: 0, stride: lanes, radix: elements / lanes }],
        y: Vec::new(),
    };
    layout.normalize()
}

pub(super) fn ssm_conv(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("ssm_conv")?.texels(call.output)?.into())
}

/// An invocation goes down four columns, the padding below included.
pub(super) fn solve_tri(call: Call<'_>) -> Result<Lowered, Refusal> {
    let [p0, _, p2, p3] = call.output.padded();
    let mut builder = call.builder("solve_tri")?;
    for (i, input) in call.inputs.iter().enumerate() {
        builder = builder.operand(Arg::Input(i), input, Access::Read)?;
    }
    let builder = builder.operand(Arg::Output, call.output, Access::ReadWrite)?;
    Ok(builder.positions([p0 / 4, 1, p2, p3])?.into())
}
