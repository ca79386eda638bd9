//! FLASH_ATTN_EXT: attention in one sweep over the keys, shaders `attention`, `attention_masked`, the same by matrix units as
//! `attention_matrix*`, `attention_join` and `attention_join_sinks`.
//!
//! A row is a pair (query, head). Heads that share keys and values are rows of one workgroup, so that a key is read once for all
//! of them: with one query these are all the rows there are. An invocation works for four rows; `lanes` of them share the keys
//! of a tile, then the quads of a value. No more than a tile's weights exist at a time, in shared memory.
//!
//! Few rows leave a GPU idle: the keys are then cut into parts, whose sums a second dispatch joins in a fixed order. It also takes
//! the sinks, which are logits like any other.
//!
//! Rows enough go to matrix units, where a device has them ([`Units`]).

use super::attention_units::{Pass, Units};
use super::dispatch::{Builder, PROCESSOR_SUBGROUP, is_processor};
use super::{Access, Arg, Call, Dispatch, Lowered, Operand, Refusal, Scratch, gemm};
use crate::device::Limits;
use crate::graph::{FlashAttn, Form};

const LANES: u32 = 3;
const FOURS: u32 = 4;
const KEYS: u32 = 5;
const SLOTS: u32 = 6;
const PARTS: u32 = 7;
const TILES: u32 = 8;
const HEADS: u32 = 9;
const AHEAD: u32 = 10;
const SCALE: u32 = 16;
const SOFTCAP: u32 = 17;
const SLOPE_STEP: u32 = 18;
const SLOPE_HEADS: u32 = 19;
/// The head of the whole that head 0 of a piece is.
const FIRST_HEAD: u32 = 20;
const JOINED_PARTS: u32 = 16;

/// Most invocations of a workgroup.
const GROUP: u32 = 128;

/// Quads of a value's row that an invocation sums, where there are invocations enough.
const FEW_SLOTS: u32 = 4;

/// Invocations that fill a GPU.
const GPU_INVOCATIONS: u64 = 32 << 10;

/// Rows of a workgroup that are few: one query's, as when a text is continued. Their tiles are short, since the values of a tile are
/// waited for one by one.
const FEW_ROWS: u64 = 16;

/// Quads of keys, and of values, that an invocation of a GPU has on their way: loads that nothing else hides.
const QUADS_AHEAD: u32 = 8;

/// Most parts, and most bytes of all their sums.
const MOST_PARTS: u32 = 64;
const MOST_PART_BYTES: u64 = 16 << 20;

/// Fewest rows that matrix units are given unasked: half of a workgroup's.
const LEAST_ROWS: u64 = 32;

/// Bytes of four rows' values, as shared memory holds them.
const FOUR_BYTES: u64 = 16;

/// Extents of an attention.
#[derive(Clone, Copy, Debug)]
struct Size {
    /// Quads of a row of queries and keys, and of a row of the output as it is padded.
    quads_k: u32,
    quads_v: u32,
    keys: u32,
    /// Heads that share keys and values.
    heads: u32,
    /// Padded queries, groups of such heads, and batches.
    queries: u32,
    groups: u32,
    batches: u32,
    /// Whether there must be a second dispatch.
    joined: bool,
}

/// How it is spread over invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schedule {
    by: By,
    /// 0 for no second dispatch.
    parts: u32,
    tiles: u32,
}

/// What sums products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Invocations { lanes: u32, fours: u32, keys: u32, slots: u32, ahead: u32 },
    Units(Units),
}

impl By {
    fn choose(size: Size, limits: &Limits) -> Result<Self, Refusal> {
        let processor = is_processor(limits);
        let most = GROUP.min(limits.largest_group()).max(1);
        let most = 1 << most.ilog2();
        let (least, keys) =
            if processor { (PROCESSOR_SUBGROUP, 1) } else { (32, if size.rows() <= FEW_ROWS { 1 } else { 2 }) };
        let lanes = size.quads_v.div_ceil(FEW_SLOTS).next_power_of_two().max(least).min(most);
        let wanted = if processor { 1 } else { size.rows().div_ceil(4).min((most / lanes).into()) };
        // Queries, a tile's weights, and one value of each invocation.
        let of_four = FOUR_BYTES * (4 * u64::from(size.quads_k) + u64::from(lanes * keys) + u64::from(lanes));
        let fours = wanted.min(u64::from(limits.max_shared_memory) / of_four) as u32;
        if fours == 0 {
            let rule = format!("four rows take {of_four} bytes of shared memory, of {}", limits.max_shared_memory);
            return Err(Refusal(format!("{}: {rule}", Arg::Input(0))));
        }
        let slots = size.quads_v.div_ceil(lanes);
        let ahead = if processor { 1 } else { 1 << (QUADS_AHEAD / slots.max(keys)).clamp(1, lanes).ilog2() };
        Ok(Self::Invocations { lanes, fours, keys, slots, ahead })
    }

    /// Rows of a workgroup.
    fn rows(&self) -> u32 {
        match self {
            Self::Invocations { fours, .. } => 4 * fours,
            Self::Units(units) => units.own(),
        }
    }

    /// Keys of a tile.
    fn tile(&self) -> u32 {
        match self {
            Self::Invocations { lanes, keys, .. } => lanes * keys,
            Self::Units(units) => units.others(),
        }
    }

    fn invocations(&self) -> u32 {
        match self {
            Self::Invocations { lanes, fours, .. } => lanes * fours,
            Self::Units(units) => units.invocations(),
        }
    }

    fn shader(&self, mask: bool) -> &'static str {
        match (self, mask) {
            (Self::Invocations { .. }, false) => "attention",
            (Self::Invocations { .. }, true) => "attention_masked",
            (Self::Units(_), false) => "attention_matrix",
            (Self::Units(_), true) => "attention_matrix_masked",
        }
    }
}

impl Size {
    /// Rows that share keys and values.
    fn rows(&self) -> u64 {
        u64::from(self.queries) * u64::from(self.heads)
    }

    /// Matrix units, if a device has them, for rows enough of types that are not decoded from blocks.
    fn units(&self, kv: [&Operand; 2], limits: &Limits) -> Option<Units> {
        let plain = kv.iter().all(|operand| operand.dtype.form() != Form::Block);
        let enough = limits.products.schedule.is_some() || self.rows() >= LEAST_ROWS;
        let pass = Pass::Forward([self.quads_k, self.quads_v].map(|quads| quads.saturating_mul(4)));
        Units::choose(pass, limits).filter(|_| plain && enough)
    }
}

impl Schedule {
    fn choose(size: Size, kv: [&Operand; 2], limits: &Limits) -> Result<Self, Refusal> {
        let by = match size.units(kv, limits) {
            Some(units) => By::Units(units),
            None => By::choose(size, limits)?,
        };
        let processor = is_processor(limits);
        let blocks = size.rows().div_ceil(by.rows().into());
        let workgroups = blocks * u64::from(size.groups) * u64::from(size.batches);
        let all = size.keys.div_ceil(by.tile());
        let alone = processor && matches!(by, By::Invocations { .. });
        let invocations = workgroups * u64::from(by.invocations());
        let parts = if alone { 1 } else { Self::parts(size, invocations, all) };
        let tiles = all.div_ceil(parts);
        let parts = all.div_ceil(tiles);
        let parts = if parts > 1 || size.joined { parts } else { 0 };
        Ok(Self { by, parts, tiles })
    }

    /// Parts of so many tiles of keys that a GPU is filled.
    fn parts(size: Size, invocations: u64, tiles: u32) -> u32 {
        let by_device = GPU_INVOCATIONS.div_ceil(invocations.max(1)).min(MOST_PARTS.into()) as u32;
        let rows = size.rows() * u64::from(size.groups) * u64::from(size.batches);
        let by_memory = MOST_PART_BYTES / (16 * rows * u64::from(size.quads_v + 1)).max(1);
        by_device.min(tiles).min(by_memory.min(MOST_PARTS.into()) as u32).max(1)
    }
}

pub(super) fn flash_attn(call: Call<'_>, attention: &FlashAttn) -> Result<Lowered, Refusal> {
    let [q, k, v] = [0, 1, 2].map(|i| call.inputs[i].shape());
    let [p0, p1, p2, p3] = call.output.padded();
    let heads = common_divisor(q[2] / k[2], q[2] / v[2]);
    let size = Size {
        quads_k: q[0].div_ceil(4),
        quads_v: if call.span.partial { v[0] } else { p0 }.div_ceil(4),
        keys: k[1],
        heads,
        queries: p2,
        groups: p1.div_ceil(heads),
        batches: p3,
        joined: attention.sinks,
    };
    let mut schedule = Schedule::choose(size, [&call.inputs[1], &call.inputs[2]], call.limits)?;
    if call.span.partial {
        // One part of several that pieces are, with all of the keys that it has.
        schedule = Schedule { tiles: schedule.tiles * schedule.parts.max(1), parts: 1, ..schedule };
    }
    if schedule.parts == 0 || call.span.partial {
        return Ok(sweep(&call, attention, schedule, heads, Arg::Output, call.output)?.into());
    }
    let (scratch, sums) = part_sums(call.inputs, schedule.parts)?;
    let parts = sweep(&call, attention, schedule, heads, Arg::Scratch(0), &sums)?;
    let join = join(&call, attention, (Arg::Scratch(0), &sums), schedule.parts)?;
    Ok(Lowered { dispatches: vec![parts, join], scratch: vec![scratch] })
}

/// Where parts of the keys leave their sums: a part has as many batches as the queries on axis 3.
pub(super) fn part_sums(inputs: &[Operand], parts: u32) -> Result<(Scratch, Operand), Refusal> {
    let [q, v] = [0, 2].map(|i| inputs[i].shape());
    let extents =
        v[0].checked_next_multiple_of(4).and_then(|size| Some((size.checked_add(4)?, q[3].checked_mul(parts)?)));
    let Some((size, batches)) = extents else {
        return Err(Refusal(format!("{}: sums of {parts} parts exceed 32 bits", Arg::Output)));
    };
    gemm::part_sums([size, q[2], q[1], batches], 1)
}

/// The dispatch that makes the result of the sums of parts.
pub(super) fn join(
    call: &Call<'_>,
    attention: &FlashAttn,
    (arg, sums): (Arg, &Operand),
    parts: u32,
) -> Result<Dispatch, Refusal> {
    let shader = if attention.sinks { "attention_join_sinks" } else { "attention_join" };
    let mut join = Builder::new(shader, call.limits).operand(arg, sums, Access::Read)?;
    if attention.sinks {
        let last = call.inputs.len() - 1;
        join = join.operand(Arg::Input(last), &call.inputs[last], Access::Read)?;
    }
    let join = join.operand(Arg::Output, call.output, Access::Write)?.set(JOINED_PARTS, parts);
    join.texels(call.output)
}

/// The dispatch that goes over the keys, and writes the result or the sums of the parts.
fn sweep(
    call: &Call<'_>,
    attention: &FlashAttn,
    schedule: Schedule,
    heads: u32,
    arg: Arg,
    output: &Operand,
) -> Result<Dispatch, Refusal> {
    let Schedule { by, parts, tiles } = schedule;
    let mut builder = Builder::new(by.shader(attention.mask), call.limits);
    for i in 0..if attention.mask { 4 } else { 3 } {
        builder = builder.operand(Arg::Input(i), &call.inputs[i], Access::Read)?;
    }
    let builder = builder.operand(arg, output, Access::Write)?.set(PARTS, parts).set(TILES, tiles).set(HEADS, heads);
    let builder = match by {
        By::Invocations { lanes, fours, keys, slots, ahead } => {
            builder.set(LANES, lanes).set(FOURS, fours).set(KEYS, keys).set(SLOTS, slots).set(AHEAD, ahead)
        }
        By::Units(units) => units.set(builder),
    };
    // Logarithms lie behind the heads, which pieces then have all of.
    let (of_whole, first) = match attention.logs {
        true => (call.inputs[0].shape()[2], 0),
        false => (call.span.whole[1], call.span.first[1]),
    };
    let mut builder = scores(builder, attention, of_whole);
    if attention.mask {
        builder = builder.set(FIRST_HEAD, first);
    }
    let [_, p1, p2, p3] = output.padded();
    let rows = u64::from(p2) * u64::from(heads);
    let blocks = u32::try_from(rows.div_ceil(by.rows().into()));
    let blocks = blocks.map_err(|_| Refusal(format!("{}: {rows} rows are too many", Arg::Input(0))))?;
    builder.workgroups(by.invocations(), [blocks, p1.div_ceil(heads), p3])
}

/// What scores are made of, by the constants that all shaders of attention have in common.
pub(super) fn scores<'a>(builder: Builder<'a>, attention: &FlashAttn, heads: u32) -> Builder<'a> {
    let FlashAttn { scale, softcap, max_bias, mask, .. } = *attention;
    let builder =
        builder.set_f32(SCALE, if softcap == 0.0 { scale } else { scale / softcap }).set_f32(SOFTCAP, softcap);
    if !mask {
        return builder;
    }
    let half = 1 << heads.ilog2();
    builder.set_f32(SLOPE_STEP, -max_bias.max(0.0) / half as f32).set(SLOPE_HEADS, half)
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}
