//! FLASH_ATTN_EXT: attention in one sweep over the keys, shaders `attention`, `attention_masked`, the same by matrix units as
//! `attention_matrix*` and `attention_matrix2_masked`, with sinks `attention_masked_sinks`, `attention_join` and `attention_join_sinks`.
//!
//! A row is a pair (query, head). Heads that share keys and values are rows of one workgroup, so that a key is read once for all
//! of them: with one query these are all the rows there are. An invocation works for four rows; `lanes` of them share the keys
//! of a tile, then the quads of a value. No more than a tile's weights exist at a time, in shared memory.
//!
//! Few rows are waiting rather than work: an invocation waits for keys, then for values, tile after tile. A workgroup of a GPU then has several
//! teams, which take tiles in turns and join what they have summed in shared memory, in a fixed order. Where waits in a row still take longer
//! than another dispatch, the keys are cut into parts, whose sums that dispatch joins, in a fixed order too.
//!
//! Sinks are logits like any other: the sweep begins with them where it has all keys, else the dispatch that joins takes them.
//!
//! Rows enough go to matrix units, where a device has them ([`Units`]).

use super::attention_units::{Pass, Units};
use super::dispatch::{Builder, PROCESSOR_SUBGROUP, is_processor, most_operands};
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
const TEAMS: u32 = 11;
const EARLY: u32 = 12;
const SCALE: u32 = 16;
const SOFTCAP: u32 = 17;
const SLOPE_STEP: u32 = 18;
const SLOPE_HEADS: u32 = 19;
/// The head of the whole that head 0 of a piece is.
const FIRST_HEAD: u32 = 20;
const JOINED_PARTS: u32 = 16;

/// Most invocations of a workgroup, and of one of teams.
const GROUP: u32 = 128;
const TEAMS_GROUP: u32 = 256;

/// Least lanes of a team: sums are rescaled with every tile.
const TEAM_LANES: u32 = 8;

/// Quads of a value's row that an invocation sums, where there are invocations enough.
const FEW_SLOTS: u32 = 4;

/// Invocations that fill a GPU.
const GPU_INVOCATIONS: u64 = 32 << 10;

/// Rows of a workgroup that are few: one query's, as when a text is continued. Their tiles are short and taken by teams.
const FEW_ROWS: u64 = 16;

/// Quads of keys, and of values, that an invocation of a GPU has on their way: loads that nothing else hides.
const QUADS_AHEAD: u32 = 8;

/// The same of few rows, whose values are fetched along with the keys: of texels, for what is decoded takes a driver long to compile so often.
const FEW_QUADS_AHEAD: u32 = 16;

/// Waits for memory, one after the other, that take as long as one more dispatch does: an H200 takes 10.4 us for 256 keys of heads of 64, 3 us
/// for each wait more, and 4 us for a dispatch.
const DISPATCH_WAITS: u32 = 1;

/// Most parts, and most bytes of all their sums.
const MOST_PARTS: u32 = 64;
const MOST_PART_BYTES: u64 = 16 << 20;

/// Fewest rows that matrix units are given unasked: half of a workgroup's.
const LEAST_ROWS: u64 = 32;

/// Operands of a masked sweep with sinks.
const SINKS_OPERANDS: usize = 6;

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
}

/// How it is spread over invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Schedule {
    by: By,
    /// 0 for no second dispatch.
    parts: u32,
    /// Tiles of a part, those that teams take side by side counted once.
    tiles: u32,
}

/// What sums products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Invocations(Lanes),
    Units(Units),
}

/// How invocations share rows, keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lanes {
    /// Invocations of a team that share four rows, and fours of rows.
    lanes: u32,
    fours: u32,
    teams: u32,
    /// Keys of an invocation in a tile, and quads of its values.
    keys: u32,
    slots: u32,
    /// Quads fetched at a time, and whether the first of the values are fetched with the keys.
    ahead: u32,
    early: bool,
}

impl Lanes {
    fn choose(size: Size, kv: [&Operand; 2], limits: &Limits) -> Result<Self, Refusal> {
        let processor = is_processor(limits);
        let few = !processor && size.rows() <= FEW_ROWS;
        let group = |most: u32| 1 << most.min(limits.largest_group()).max(1).ilog2();
        let most: u32 = group(GROUP);
        let least = match (processor, few) {
            (true, _) => PROCESSOR_SUBGROUP,
            (false, true) => size.quads_v.next_power_of_two().clamp(TEAM_LANES, 32),
            (false, false) => 32,
        };
        let lanes = size.quads_v.div_ceil(FEW_SLOTS).next_power_of_two().max(least).min(most);
        let keys = if processor || few { 1 } else { 2 };
        let slots = size.quads_v.div_ceil(lanes);
        let texels = kv.iter().all(|operand| operand.dtype.form() == Form::Texel);
        let early = few && texels;
        let quads = if early { FEW_QUADS_AHEAD } else { QUADS_AHEAD };
        let ahead = if processor { 1 } else { 1 << (quads / slots.max(keys)).clamp(1, lanes).ilog2() };
        let one = Self { lanes, fours: 1, teams: 1, keys, slots, ahead, early };
        let fits = |lanes: &Self| lanes.shared_bytes(size) <= limits.max_shared_memory.into();
        if !fits(&one) {
            let rule = format!(
                "four rows take {} bytes of shared memory, of {}",
                one.shared_bytes(size),
                limits.max_shared_memory
            );
            return Err(Refusal(format!("{}: {rule}", Arg::Input(0))));
        }
        let wanted = if processor { 1 } else { size.rows().div_ceil(4).min((most / lanes).into()) as u32 };
        let fours = (1..=wanted).rev().map(|fours| Self { fours, ..one }).find(fits).unwrap_or(one);
        if !few {
            return Ok(fours);
        }
        let room = group(TEAMS_GROUP) / fours.invocations();
        let wanted = room.min(size.keys.div_ceil(fours.tile()).next_power_of_two()).max(1);
        let teams = (0..=wanted.ilog2()).rev().map(|log| Self { teams: 1 << log, ..fours }).find(fits);
        Ok(teams.unwrap_or(fours))
    }

    /// Keys of a team's tile.
    fn tile(&self) -> u32 {
        self.lanes * self.keys
    }

    fn invocations(&self) -> u32 {
        self.lanes * self.fours * self.teams
    }

    /// Queries; the weights and greatest scores of each invocation; what teams saw and have to join.
    fn shared_bytes(&self, size: Size) -> u64 {
        let of_team = if self.teams > 1 { 4 * u64::from(self.slots) } else { 0 };
        let of_invocation = u64::from(self.keys) + 1 + of_team;
        let (fours, teams) = (u64::from(self.fours), u64::from(self.teams));
        let texels = 4 * fours * u64::from(size.quads_k) + u64::from(self.invocations()) * of_invocation;
        FOUR_BYTES * (texels + fours * teams + 1) + 4 * fours * teams
    }

    /// Waits for memory, one after the other, of a tile.
    fn waits(&self, size: Size) -> u32 {
        let [of_keys, of_values] = [size.quads_k, self.tile()].map(|n| n.div_ceil(self.ahead));
        of_keys + of_values - u32::from(self.early)
    }
}

impl By {
    /// Rows of a workgroup.
    fn rows(&self) -> u32 {
        match self {
            Self::Invocations(lanes) => 4 * lanes.fours,
            Self::Units(units) => units.own(),
        }
    }

    /// Keys of a tile of each team.
    fn tiles(&self) -> u32 {
        match self {
            Self::Invocations(lanes) => lanes.tile() * lanes.teams,
            Self::Units(units) => units.others(),
        }
    }

    fn invocations(&self) -> u32 {
        match self {
            Self::Invocations(lanes) => lanes.invocations(),
            Self::Units(units) => units.invocations(),
        }
    }

    /// Of a sweep that begins with the sinks, or leaves them to another dispatch.
    fn shader(&self, mask: bool, sinks: bool) -> &'static str {
        match (self, mask) {
            (Self::Invocations(_), false) => "attention",
            (Self::Invocations(_), true) if sinks => "attention_masked_sinks",
            (Self::Invocations(_), true) => "attention_masked",
            (Self::Units(_), false) => "attention_matrix",
            (Self::Units(units), true) => units.masked(["attention_matrix2_masked", "attention_matrix_masked"]),
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

/// Whether a sweep over all keys takes the sinks itself: beside a mask, and with no blocks to decode.
fn begins_with_sinks(by: By, attention: &FlashAttn, kv: [&Operand; 2], limits: &Limits) -> bool {
    let plain = kv.iter().all(|operand| operand.dtype.form() != Form::Block);
    let bound = most_operands(limits) >= SINKS_OPERANDS;
    attention.sinks && attention.mask && plain && bound && matches!(by, By::Invocations(_))
}

impl Schedule {
    fn choose(size: Size, attention: &FlashAttn, kv: [&Operand; 2], limits: &Limits) -> Result<Self, Refusal> {
        let by = match size.units(kv, limits) {
            Some(units) => By::Units(units),
            None => By::Invocations(Lanes::choose(size, kv, limits)?),
        };
        let blocks = size.rows().div_ceil(by.rows().into());
        let workgroups = blocks * u64::from(size.groups) * u64::from(size.batches);
        let all = size.keys.div_ceil(by.tiles());
        let joined = attention.sinks && !begins_with_sinks(by, attention, kv, limits);
        let mut parts = Self::parts(size, workgroups * u64::from(by.invocations()), all);
        if let By::Invocations(lanes) = by {
            let saved = (all - all.div_ceil(parts)).saturating_mul(lanes.waits(size));
            if is_processor(limits) || (!joined && saved <= DISPATCH_WAITS) {
                parts = 1;
            }
        }
        let tiles = all.div_ceil(parts);
        let parts = all.div_ceil(tiles);
        let parts = if parts > 1 || joined { parts } else { 0 };
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
    };
    let mut schedule = Schedule::choose(size, attention, [&call.inputs[1], &call.inputs[2]], call.limits)?;
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
    // Parts leave them to the dispatch that joins.
    let sinks = attention.sinks && parts == 0;
    let mut builder = Builder::new(by.shader(attention.mask, sinks), call.limits);
    for i in 0..3 + usize::from(attention.mask) + usize::from(sinks) {
        builder = builder.operand(Arg::Input(i), &call.inputs[i], Access::Read)?;
    }
    let builder = builder.operand(arg, output, Access::Write)?.set(PARTS, parts).set(TILES, tiles).set(HEADS, heads);
    let builder = match by {
        By::Invocations(Lanes { lanes, fours, teams, keys, slots, ahead, early }) => {
            let builder = builder.set(LANES, lanes).set(FOURS, fours).set(TEAMS, teams);
            builder.set(KEYS, keys).set(SLOTS, slots).set(AHEAD, ahead).set(EARLY, early.into())
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
