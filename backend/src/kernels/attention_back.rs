//! The gradients of FLASH_ATTN_EXT, shaders `attention_back_q` and `attention_back_kv`, each also `_masked`.
//!
//! A workgroup owns rows of one side, queries or keys, and goes over tiles of the other; no more than a tile's weights exist at a time.
//! Both products under a tile are matrix products of staged quads, and what a tile adds to the owned rows is summed in registers:
//! 4 x 4 scores and 8 rows of a quad an invocation, 16 on machines of small workgroups. Each row is summed by one workgroup in a fixed order.

use super::dispatch::{Builder, PROCESSOR_SUBGROUP, most_operands};
use super::{Access, Arg, Call, Lowered, Refusal, attention};
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
        let processor = (1..=PROCESSOR_SUBGROUP).contains(&limits.subgroup_size);
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
    Schedule::choose(size.div_ceil(4).max(1), limits).map(drop)
}

pub(super) fn queries(call: Call<'_>, attention: &FlashAttn) -> Result<Lowered, Refusal> {
    let heads = call.inputs[0].shape()[2] / call.inputs[1].shape()[2];
    let [_, p1, p2, p3] = call.output.padded();
    let shader = if attention.mask { "attention_back_q_masked" } else { "attention_back_q" };
    lower(call, attention, shader, [u64::from(p2) * u64::from(heads), p1.div_ceil(heads).into(), p3.into()])
}

pub(super) fn keys_values(call: Call<'_>, attention: &FlashAttn) -> Result<Lowered, Refusal> {
    let kv_heads = call.inputs[1].shape()[2];
    let [_, p1, p2, p3] = call.output.padded();
    let shader = if attention.mask { "attention_back_kv_masked" } else { "attention_back_kv" };
    // Heads of padding follow those of the values.
    lower(call, attention, shader, [p2, p1 - kv_heads, p3].map(u64::from))
}

/// `covered`: own rows, heads of keys and batches, with those of padding.
fn lower(
    call: Call<'_>,
    attention: &FlashAttn,
    shader: &'static str,
    [rows, heads, batches]: [u64; 3],
) -> Result<Lowered, Refusal> {
    let [q, k] = [0, 1].map(|i| call.inputs[i].shape());
    let schedule = Schedule::choose(q[0] / 4, call.limits)?;
    let Schedule { size, own, tile, chunk, lanes, slots, pool } = schedule;
    let mut builder = Builder::new(shader, call.limits);
    for (i, input) in call.inputs.iter().enumerate() {
        builder = builder.operand(Arg::Input(i), input, Access::Read)?;
    }
    let builder = builder
        .operand(Arg::Output, call.output, Access::Write)?
        .set(OWN, own)
        .set(TILE, tile)
        .set(CHUNK, chunk)
        .set(LANES, lanes)
        .set(SLOTS, slots)
        .set(HEADS, q[2] / k[2])
        .set(POOL, pool)
        .set_f32(SLOPE, attention.scale);
    let groups = [rows.div_ceil(own.into()), heads, batches].map(u32::try_from);
    let [Ok(x), Ok(y), Ok(z)] = groups else {
        return Err(Refusal(format!("{}: {rows} rows are too many", Arg::Input(0))));
    };
    Ok(attention::scores(builder, attention, q[2]).workgroups(size, [x, y, z])?.into())
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
