//! The gradients of FLASH_ATTN_EXT, shaders `attention_back_q` and `attention_back_kv`, each also `_masked`, and the same by matrix units as
//! `attention_back_matrix_*` and, masked, `attention_back_matrix2_*`.
//!
//! A workgroup owns rows of one side, queries or keys, and goes over tiles of the other; no more than a tile's weights exist at a time.
//! Both products under a tile are matrix products of staged quads, and what a tile adds to the owned rows is summed in registers:
//! 4 x 4 scores and 8 rows of a quad an invocation, 16 on machines of small workgroups. Each row is summed by one workgroup in a fixed order,
//! or by some, for a part of the queries each, whose sums one more dispatch adds up in order.

use super::attention_units::{Pass, Units};
use super::dispatch::{Builder, is_processor, most_operands};
use super::{Access, Arg, Call, Dispatch, Lowered, Operand, Refusal, attention, copy, gemm};
use crate::device::Limits;
use crate::graph::FlashAttn;

const OWN: u32 = 3;
const TILE: u32 = 4;
const CHUNK: u32 = 5;
const LANES: u32 = 6;
const SLOTS: u32 = 7;
const HEADS: u32 = 8;
const POOL: u32 = 9;
const SLOPE: u32 = 20;
// Of matrix units.
const PARTS: u32 = 7;
const TILES: u32 = 8;
const UNITS_HEADS: u32 = 9;
const UNITS_SLOPE: u32 = 22;

/// Most invocations of a workgroup, and fewest that a tile makes sense for.
const GROUP: u32 = 128;
const LEAST_GROUP: u32 = 64;

/// Quads of a row up to which a workgroup owns 32 rows instead of 16: an invocation sums no more than 8 rows of a quad.
const FEW_QUADS: u32 = 32;

/// Quads along the rows that are staged at once: more spare a processor barriers, which it pays for dearly.
const STAGED: u32 = 4;
const STAGED_BY_PROCESSORS: u32 = 8;

/// Bytes of a quad, and of what shared memory holds beside quads: two numbers for each row of queries, and flags.
const QUAD_BYTES: u32 = 16;
const OTHER_BYTES: u32 = 8 * 64 + 16;

/// Workgroups of matrix units that fill a GPU, fewest tiles of queries that pay for a part of them, and most bytes of the parts' sums.
const GPU_WORKGROUPS: u64 = 256;
const LEAST_TILES: u32 = 4;
const MOST_PART_BYTES: u64 = 64 << 20;

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
struct Schedule {
    /// Invocations.
    size: u32,
    own: u32,
    tile: u32,
    chunk: u32,
    lanes: u32,
    slots: u32,
    pool: u32,
}

impl Schedule {
    /// For rows of so many quads.
    fn choose(quads: u32, limits: &Limits) -> Result<Self, Refusal> {
        let refused = |rule: String| Err(Refusal(format!("{}: {rule}", Arg::Input(0))));
        let most = GROUP.min(limits.largest_group());
        if most < LEAST_GROUP {
            return refused(format!("gradients take {LEAST_GROUP} invocations, a workgroup has at most {most}"));
        }
        let size = 1 << most.ilog2();
        if quads > size {
            return refused(format!("rows of {quads} quads are longer than the {size} invocations of a workgroup"));
        }
        let own = if quads <= FEW_QUADS && size == GROUP { 32 } else { 16 };
        let tile = 8 * size / own;
        let lanes = quads.next_power_of_two().max(4 * size / own);
        let slots = own / 4 * lanes / size;
        let processor = is_processor(limits);
        let wanted = if processor { STAGED_BY_PROCESSORS } else { STAGED }.min(quads);
        let weights = tile * own / 2;
        // Quads of both products for every row of the tile, and one row more.
        let staged = 2 * (own + tile + 1);
        let held = limits.max_shared_memory.saturating_sub(OTHER_BYTES) / QUAD_BYTES;
        // The greatest that divides a row.
        let chunk = (1..=wanted.min(held / staged)).rev().find(|&chunk| quads.is_multiple_of(chunk)).unwrap_or(0);
        if chunk == 0 || weights > held {
            let needed = QUAD_BYTES * weights.max(staged) + OTHER_BYTES;
            return refused(format!("gradients take {needed} bytes of shared memory, of {}", limits.max_shared_memory));
        }
        Ok(Self { size, own, tile, chunk, lanes, slots, pool: weights.max(chunk * staged).max(size) })
    }
}

/// Whether attention over rows of so many elements, with a mask or without, has its gradients on a device.
///
/// # Errors
/// The limit.
pub(crate) fn trains(size: u32, mask: bool, limits: &Limits) -> Result<(), Refusal> {
    let (operands, most) = (6 + usize::from(mask), most_operands(limits));
    if operands > most {
        return Err(Refusal(format!("its gradients bind {operands} operands, a dispatch at most {most}")));
    }
    if by_units(size, limits) {
        return Ok(());
    }
    Schedule::choose(size.div_ceil(4).max(1), limits).map(drop)
}

/// Whether matrix units compute these gradients, and the attention that they are of.
pub(crate) fn by_units(size: u32, limits: &Limits) -> bool {
    [Pass::Forward([size; 2]), Pass::Back(size)].into_iter().all(|pass| Units::choose(pass, limits).is_some())
}

pub(super) fn queries(call: Call<'_>, attention: &FlashAttn) -> Result<Lowered, Refusal> {
    let [q, k] = [0, 1].map(|i| call.inputs[i].shape());
    let heads = q[2] / k[2];
    let [_, p1, p2, p3] = call.output.padded();
    let covered = [u64::from(p2) * u64::from(heads), p1.div_ceil(heads).into(), p3.into()];
    let Some(units) = Units::choose(Pass::Back(q[0]), call.limits) else {
        let shader = if attention.mask { "attention_back_q_masked" } else { "attention_back_q" };
        return lower(call, attention, shader, covered);
    };
    let shader = match attention.mask {
        true => units.masked(["attention_back_matrix2_q_masked", "attention_back_matrix_q_masked"]),
        false => "attention_back_matrix_q",
    };
    let passing = Passing { parts: 1, tiles: k[1].div_ceil(units.others()) };
    Ok(dispatch(&call, attention, shader, (Arg::Output, call.output), (units, passing), covered)?.into())
}

pub(super) fn keys_values(call: Call<'_>, attention: &FlashAttn) -> Result<Lowered, Refusal> {
    let [q, k] = [0, 1].map(|i| call.inputs[i].shape());
    // Heads of padding follow those of the values.
    let covered = |output: &Operand| {
        let [_, p1, p2, p3] = output.padded();
        [p2, p1 - k[2], p3].map(u64::from)
    };
    let Some(units) = Units::choose(Pass::Back(q[0]), call.limits) else {
        let shader = if attention.mask { "attention_back_kv_masked" } else { "attention_back_kv" };
        return lower(call, attention, shader, covered(call.output));
    };
    let shader = match attention.mask {
        true => units.masked(["attention_back_matrix2_kv_masked", "attention_back_matrix_kv_masked"]),
        false => "attention_back_matrix_kv",
    };
    let passing = Passing::choose(&units, q, call.output);
    let bind = |arg: Arg, output: &Operand| {
        dispatch(&call, attention, shader, (arg, output), (units, passing), covered(output))
    };
    if passing.parts == 1 {
        return Ok(bind(Arg::Output, call.output)?.into());
    }
    let [n0, n1, n2, n3] = call.output.shape();
    let (scratch, sums) = gemm::part_sums([n0, n1, n2, n3 * passing.parts], 4)?;
    let parts = bind(Arg::Scratch(0), &sums)?;
    let mut lowered = copy::repeat_back(Call { inputs: &[sums], ..call })?;
    lowered.rename(|_| Arg::Scratch(0));
    lowered.dispatches.insert(0, parts);
    lowered.scratch.push(scratch);
    Ok(lowered)
}

/// What passes by the rows of a workgroup: parts of it, each of so many tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Passing {
    parts: u32,
    tiles: u32,
}

impl Passing {
    /// Parts of the rows of queries that fill a GPU; `q` is the shape of the queries.
    fn choose(units: &Units, q: [u32; 4], output: &Operand) -> Self {
        let [_, heads, keys, batches] = output.shape();
        let (kv_heads, row_bytes) = (heads / 2, 4 * u64::from(q[0]));
        let share = q[2] / kv_heads;
        let tiles = (u64::from(q[1]) * u64::from(share)).div_ceil(units.others().into());
        let tiles = u32::try_from(tiles).unwrap_or(u32::MAX);
        let workgroups = u64::from(keys.div_ceil(units.own())) * u64::from(kv_heads) * u64::from(batches);
        let by_device = GPU_WORKGROUPS / workgroups.max(1);
        let bytes = row_bytes * u64::from(heads) * u64::from(keys) * u64::from(batches);
        let by_memory = MOST_PART_BYTES / bytes.max(1);
        let most = u64::from(tiles / LEAST_TILES);
        let parts = by_device.min(by_memory).min(most).max(1) as u32;
        let tiles_of_part = tiles.div_ceil(parts);
        Self { parts: tiles.div_ceil(tiles_of_part), tiles: tiles_of_part }
    }
}

/// Binds all operands.
fn operands<'a>(call: &Call<'a>, shader: &'static str, (arg, output): (Arg, &Operand)) -> Result<Builder<'a>, Refusal> {
    let mut builder = Builder::new(shader, call.limits);
    for (i, input) in call.inputs.iter().enumerate() {
        builder = builder.operand(Arg::Input(i), input, Access::Read)?;
    }
    builder.operand(arg, output, Access::Write)
}

/// Workgroups of `own` rows for so many rows, heads of keys and batches, with those of padding.
fn workgroups([rows, heads, batches]: [u64; 3], own: u32) -> Result<[u32; 3], Refusal> {
    match [rows.div_ceil(own.into()), heads, batches].map(u32::try_from) {
        [Ok(x), Ok(y), Ok(z)] => Ok([x, y, z]),
        _ => Err(Refusal(format!("{}: {rows} rows are too many", Arg::Input(0)))),
    }
}

/// By matrix units.
fn dispatch(
    call: &Call<'_>,
    attention: &FlashAttn,
    shader: &'static str,
    output: (Arg, &Operand),
    (units, passing): (Units, Passing),
    covered: [u64; 3],
) -> Result<Dispatch, Refusal> {
    let [q, k] = [0, 1].map(|i| call.inputs[i].shape());
    let builder = units
        .set(operands(call, shader, output)?)
        .set(PARTS, passing.parts)
        .set(TILES, passing.tiles)
        .set(UNITS_HEADS, q[2] / k[2])
        .set_f32(UNITS_SLOPE, attention.scale);
    let groups = workgroups(covered, units.own())?;
    attention::scores(builder, attention, q[2]).workgroups(units.invocations(), groups)
}

/// By invocations alone.
fn lower(call: Call<'_>, attention: &FlashAttn, shader: &'static str, covered: [u64; 3]) -> Result<Lowered, Refusal> {
    let [q, k] = [0, 1].map(|i| call.inputs[i].shape());
    let schedule = Schedule::choose(q[0] / 4, call.limits)?;
    let Schedule { size, own, tile, chunk, lanes, slots, pool } = schedule;
    let builder = operands(&call, shader, (Arg::Output, call.output))?
        .set(OWN, own)
        .set(TILE, tile)
        .set(CHUNK, chunk)
        .set(LANES, lanes)
        .set(SLOTS, slots)
        .set(HEADS, q[2] / k[2])
        .set(POOL, pool)
        .set_f32(SLOPE, attention.scale);
    let groups = workgroups(covered, own)?;
    Ok(attention::scores(builder, attention, q[2]).workgroups(size, groups)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the shader counts on, whatever the rows and the device; and that no invocation sums more than 8 rows.
    #[test]
    fn schedules_share_out_all_rows() {
        for size in [64, 100, 128, 1024] {
            for shared in [16 << 10, 32 << 10, 48 << 10] {
                for quads in 1..=64 {
                    let limits = Limits {
                        max_workgroup_invocations: size,
                        max_workgroup_size: [size; 3],
                        max_shared_memory: shared,
                        ..Limits::for_tests()
                    };
                    let s = Schedule::choose(quads, &limits).unwrap();
                    assert_eq!(s.own * s.tile, 8 * s.size, "{s:?}");
                    assert_eq!(s.size / s.lanes * s.slots * 4, s.own, "{s:?}");
                    assert!(s.lanes >= quads && s.slots <= 4 && s.size <= size && s.tile.is_multiple_of(4), "{s:?}");
                    assert_eq!(quads % s.chunk, 0, "{s:?}");
                    assert!(s.pool * QUAD_BYTES + OTHER_BYTES <= shared && s.own.max(s.tile) <= 64, "{s:?}");
                }
            }
        }
    }

    #[test]
    fn small_machines_and_long_rows_are_refused() {
        let limits = Limits { max_workgroup_invocations: 32, ..Limits::for_tests() };
        assert!(Schedule::choose(8, &limits).unwrap_err().to_string().contains("64 invocations"));
        assert!(Schedule::choose(129, &Limits::for_tests()).unwrap_err().to_string().contains("129 quads"));
        let limits = Limits { max_shared_memory: 4096, ..Limits::for_tests() };
        assert!(Schedule::choose(8, &limits).unwrap_err().to_string().contains("bytes of shared memory, of 4096"));
    }
}
