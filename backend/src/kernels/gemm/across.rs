//! Few sums, a long k: the schedule whose workgroups go over k side by side. Which tile, how many parts, what is in flight.
//!
//! Such products are bound by how long loads take, not by how many there are: a workgroup for every core, each invocation with
//! all that it multiplies next on its way, and as few passes as registers hold. Sums are added up in three steps in shared memory
//! (`gemm_across.glsl`), so that invocations along k cost little and parts, which a second dispatch joins, are the last resort.
//!
//! An R-Tile has four rows (or four k) in 64 bytes, and an invocation reads all four: side by side, invocations that start with the
//! same one meet in two of the eight places that a cache reads at a time. Each starts with another one (`turn` in `gemm.comp`).
//!
//! What [`time`] expects of 128 cores at 1.8 GHz, beside the 3 us that any dispatch takes on an H200, or what the memory takes at
//! 4.3 TB/s where that is longer; what an H200 measured in all; and what tiles chosen by numbers of invocations took there, with their
//! joins. Quants are further from the memory than F16 is:
//!
//! | m x n x k | operands | sums of an invocation | invocations along m, n, k | workgroups | expected | measured | was |
//! |---|---|---|---|---|---|---|---|
//! | 2048 x 8 x 512 | F32 along m and n | 4 x 8 | 4, 1, 64 | 128 | 2 us | 6.3 us | 15 us |
//! | 8 x 512 x 2048 | F32 along k | 4 x 8 | 1, 1, 128 | 128 | 3 us | 6.6 us | 11 us |
//! | 8 x 512 x 2048 | F32 along m and k | 8 x 4 | 1, 1, 128 | 128 | 3 us | 8.6 us | 12 us |
//! | 8 x 512 x 8192 | F32 along k | 4 x 8 | 1, 1, 256 | 128 | 9 us | | 18 us |
//! | 8 x 8192 x 512 | F32 along m and n | 8 x 8 | 1, 4, 32 | 256 | 5 us | | 18 us |
//! | 8 x 2048 x 512 | F32 along m and n | 8 x 4 | 1, 4, 64 | 128 | 2 us | | 9 us |
//! | 4096 x 1 x 14336 | F16 | 4 x 1 | 1, 1, 64 | 1024 | 27 us (memory) | 31 us | 34 us |
//! | 4096 x 1 x 14336 | Q8_0 | 4 x 1 | 1, 1, 64 | 1024 | 15 us (memory) | 28 us | 34 us |
//! | 4096 x 1 x 14336 | Q4_0 | 4 x 1 | 1, 1, 64 | 1024 | 9 us | 31 us | 54 us |
//! | 4096 x 8 x 14336 | F16 | 8 x 8 | 2, 1, 64 | 256 | 50 us | 81 us | 144 us |
//! | 4096 x 8 x 14336 | Q8_0 | 8 x 8 | 2, 1, 64 | 256 | 43 us | 85 us | 138 us |

use super::schedule::{Dots, FEW_N, Kind, Schedule, Size, most_invocations};
use crate::device::{AcrossTile, ByteDots, Limits};
use crate::graph::DType;

/// Cores of a GPU, about: one workgroup each is what a product should have at least.
const CORES: u64 = 128;

/// Invocations of a workgroup at most.
const MOST_INVOCATIONS: u32 = 256;

/// Invocations that share the rows of a of a product with a vector: at least, and so many that all workgroups have this many.
const DECODE_LANES: u32 = 64;
const DECODE_INVOCATIONS: u32 = 128 << 10;

/// Invocations along k from which parts of it pay.
const LANES_OF_PARTS: u32 = 64;

/// Texels that an invocation has on their way at most, and those of b before any are multiplied.
const TEXELS_AHEAD: u32 = 24;
const TEXELS_OF_B: u32 = 8;

/// Cycles of a core: a load of 16 bytes by each of 32 invocations, bytes that come from the cache of the device in one, a load that
/// is waited for, the steps in which sums are added up, and the dispatch that joins parts. Bytes that its own cache keeps, and
/// invocations that it runs at a time.
const LOAD: f64 = 5.0;
const BYTES: f64 = 40.0;
const LATENCY: f64 = 1000.0;
const ADDING: f64 = 600.0;
const JOIN: f64 = 6500.0;
const OWN_CACHE: f64 = 98304.0;
const BESIDE: f64 = 1024.0;

/// Whether 16 bytes side by side of a type's blocks are the nibbles of 32 elements, and all of their quants: see `gemm_runs.glsl`.
pub(in super::super) fn has_runs(dtype: DType) -> bool {
    matches!(dtype, DType::Q4_0 | DType::IQ4_NL | DType::MXFP4 | DType::Q4_K | DType::IQ4_XS)
}

/// Instructions of an invocation, about, where the right factor is rounded to bytes: to round 32 k of a column, to take apart the
/// quants of a row's 32, and to multiply them with a column.
const ROUNDING: f64 = 170.0;
const TAKING_APART: f64 = 30.0;
const MULTIPLYING: f64 = 14.0;

/// Rows, in quads, from which an invocation has eight of them: it rounds once for all.
const QUADS_OF_EIGHT_ROWS: u32 = 512;

/// The steps of types of which dot products of bytes are made, as `gemm_dots.glsl` reads them.
pub(super) fn dots(dtype: DType) -> Option<Dots> {
    match dtype {
        DType::Q4_1 => Some(Dots { k: 32, texels: 1 }),
        DType::Q8_0 | DType::Q4_0 | DType::IQ4_NL => Some(Dots { k: 32, texels: 2 }),
        DType::Q4_K => Some(Dots { k: 64, texels: 3 }),
        // Word by word.
        DType::Q5_0 | DType::Q5_1 | DType::Q5_K | DType::Q6_K => Some(Dots { k: 32, texels: 16 }),
        _ => None,
    }
}

/// A product with the steps that it has: of bytes where the device has dot products of them, or other ones.
pub(super) fn stepped(size: &Size, limits: &Limits) -> Size {
    let asked = limits.products.dots.unwrap_or(limits.byte_dots == ByteDots::Accelerated);
    let rounded =
        asked && limits.byte_dots != ByteDots::None && size.n <= FEW_N && size.kind != Kind::Pair && size.b_along_k;
    let dots = size.dots.filter(|_| rounded);
    Size { dots, step_k: dots.map_or(size.step_k, |dots| dots.k), ..*size }
}

/// What an invocation fetches before it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fetches {
    /// Steps along k whose texels of a are on their way together.
    pub ahead: u32,
    /// Quads of k of a step whose texels of b are.
    pub group_b: u32,
}

impl Fetches {
    /// As much as registers hold; one step for invocations that do not go over k together, of which there are many.
    pub fn of(size: &Size, schedule: &Schedule, limits: &Limits) -> Self {
        if schedule.lanes_k == 1 {
            return Self { ahead: 1, group_b: 1 };
        }
        let texels_n = texels_of_columns(size, schedule.tile_n);
        let quads = size.step_k / 4;
        let group_b = if quads * texels_n <= TEXELS_OF_B { quads } else { 1 };
        let gains = u32::from(size.kind.is_normed());
        let room = TEXELS_AHEAD / (size.kind.left() * 4 * schedule.tile_m + group_b * (texels_n + gains));
        let most = limits.products.ahead.unwrap_or(room).clamp(1, 8);
        let steps = size.k.div_ceil(size.step_k);
        // Where all invocations have the same number of steps, none is compared with the end.
        let whole = |ahead: &u32| steps.is_multiple_of(schedule.parts * schedule.lanes_k * ahead);
        let ahead = (1..=most).rev().find(whole).unwrap_or(1);
        Self { ahead, group_b }
    }
}

/// Texels of b that a quad of k takes.
fn texels_of_columns(size: &Size, columns: u32) -> u32 {
    if size.b_along_k { columns } else { columns.next_multiple_of(4) }
}

/// Whether a device has room for a tile, and a product something for each of its invocations.
pub(super) fn fits(size: &Size, tile: &AcrossTile, limits: &Limits) -> bool {
    let AcrossTile { quads_m, columns, lanes_m, lanes_n, lanes_k } = *tile;
    let invocations = lanes_m * lanes_n * lanes_k;
    let shared = 16 * u64::from(invocations) * u64::from(size.kind.sums(quads_m, columns));
    let keeps_halves = size.halves.is_none_or(|halves| quads_m == 2 && lanes_m == halves);
    tile.is_sound()
        && lanes_k > 1
        && keeps_halves
        && (columns.is_multiple_of(4) || columns >= size.n && lanes_n == 1)
        && invocations <= most_invocations(limits)
        && shared <= limits.max_shared_memory.into()
}

/// Whether the rows of a are all that there is to read: four of them are a workgroup's, of a subgroup or two, and many of these run
/// beside each other.
fn is_decode(size: &Size) -> bool {
    size.a_along_k && size.n == 1 && size.halves.is_none()
}

/// Invocations along k of such a workgroup: the fewer rows there are, the more.
fn decode_lanes(size: &Size) -> u32 {
    let workgroups = size.quads_m.max(1);
    (DECODE_INVOCATIONS / workgroups).max(1).next_power_of_two().clamp(DECODE_LANES, MOST_INVOCATIONS)
}

/// The tile that takes least time.
pub(super) fn by_time(size: &Size, limits: &Limits) -> Option<AcrossTile> {
    let powers = |most: u32| (0..=most.max(1).ilog2()).map(|log| 1 << log);
    let columns: &[u32] = if size.n <= 4 { &[size.n] } else { &[4, 8] };
    let steps = size.k.div_ceil(size.step_k).next_power_of_two();
    let mut best: Option<(f64, AcrossTile)> = None;
    let decode = is_decode(size);
    let quads: &[u32] = match (decode, size.dots) {
        (true, Some(_)) if size.quads_m >= QUADS_OF_EIGHT_ROWS => &[2],
        (true, _) => &[1],
        (false, _) => &[1, 2],
    };
    for &quads_m in quads {
        let rows = size.quads_m.div_ceil(quads_m).next_power_of_two().min(16);
        for &columns in columns {
            let tiles_n = size.n.div_ceil(columns).next_power_of_two().min(32);
            // Where texels do not run along k, neighbours read whole lines side by side.
            let least_m = if size.a_along_k { 1 } else { rows.min(4) };
            let least_n = if size.b_along_k { 1 } else { tiles_n.min(4) };
            let along_m: Vec<u32> = size.halves.map_or_else(|| powers(rows).collect(), |halves| vec![halves]);
            for lanes_m in along_m.into_iter().filter(|&lanes| size.halves.is_some() || lanes >= least_m) {
                let along_n = if size.b_along_k { 1 } else { tiles_n };
                for lanes_n in powers(along_n).filter(|&lanes| lanes >= least_n) {
                    for lanes_k in powers((MOST_INVOCATIONS / (lanes_m * lanes_n)).min(steps)) {
                        let by_rows = lanes_k == steps.min(decode_lanes(size)) && (lanes_m == 1 || lanes_k == steps);
                        if decode && !by_rows {
                            continue;
                        }
                        let tile = AcrossTile { quads_m, columns, lanes_m, lanes_n, lanes_k };
                        let takes = time(size, &tile, parts(size, &tile));
                        if fits(size, &tile, limits) && best.is_none_or(|(least, _)| takes < least) {
                            best = Some((takes, tile));
                        }
                    }
                }
            }
        }
    }
    best.map(|(_, tile)| tile)
}

/// Parts of k: two dispatches where one would leave most cores idle for long.
pub(super) fn parts(size: &Size, tile: &AcrossTile) -> u32 {
    let steps = size.k.div_ceil(size.step_k);
    let most = (steps / (8 * tile.lanes_k)).min(size.most_parts()).max(1);
    let whole = size.halves.is_some() || size.kind.is_normed() || tile.lanes_k < LANES_OF_PARTS;
    let candidates = (0..=most.ilog2()).map(|log| 1 << log).filter(|&parts| parts == 1 || !whole);
    let takes = |&parts: &u32| time(size, tile, parts);
    candidates.min_by(|a, b| takes(a).total_cmp(&takes(b))).unwrap_or(1)
}

/// Cycles that a product takes, about: what a core loads and multiplies, the bytes that come to it, and what it waits for. The
/// longest of these hides most of the others.
pub(super) fn time(size: &Size, tile: &AcrossTile, parts: u32) -> f64 {
    let AcrossTile { quads_m, columns, lanes_m, lanes_n, lanes_k } = *tile;
    let along_m = u64::from(size.quads_m.div_ceil(quads_m * lanes_m));
    let along_n = u64::from(size.n.div_ceil(columns * lanes_n));
    let groups = along_m * along_n * size.matrices() * u64::from(parts);
    let per_core = groups.div_ceil(CORES) as f64;
    let invocations = f64::from(lanes_m * lanes_n * lanes_k);
    let left = f64::from(size.kind.left());
    let sums = f64::from(size.kind.sums(quads_m, columns));
    let steps = f64::from(size.k.div_ceil(size.step_k * lanes_k * parts));
    let quads = f64::from(size.step_k / 4);
    let texels_n = texels_of_columns(size, columns);
    let texels_m = 4 * quads_m * size.dots.map_or(1, |dots| dots.texels);
    let texels_b = f64::from(texels_n + u32::from(size.kind.is_normed()));
    let loads = left * f64::from(texels_m) + quads * texels_b;
    // A core issues four instructions in a cycle.
    let multiplying = match size.dots {
        Some(Dots { k, .. }) => {
            let [rows, columns] = [4 * quads_m, columns].map(f64::from);
            let of_rows = left * rows * (TAKING_APART + MULTIPLYING * columns);
            f64::from(k / 32) * (ROUNDING * columns + of_rows) / 4.0
        }
        None => 4.0 * sums * quads,
    };
    let work = per_core * (invocations / 32.0).ceil() * steps * (LOAD * loads + multiplying);
    let [rows, columns] = [quads_m * lanes_m, columns * lanes_n].map(f64::from);
    let k = f64::from(size.k.div_ceil(parts));
    let of_step = left * 64.0 * f64::from(texels_m / (4 * quads_m));
    let [of_a, of_b] = [of_step * k * rows / f64::from(size.step_k), 4.0 * k * columns];
    // Once where all workgroups want the same.
    let often = |bytes: f64, others: u64| if others == 1 && bytes <= OWN_CACHE { 1.0 } else { per_core };
    let bytes = (often(of_a, along_m) * of_a + often(of_b, along_n) * of_b) / BYTES;
    let ahead = f64::from((TEXELS_AHEAD / (texels_m + texels_n)).max(1));
    let rounds = (per_core * invocations / BESIDE).ceil();
    let waits = LATENCY * (steps / ahead).ceil() * rounds;
    let adding = per_core * sums * invocations / 4.0 + ADDING * rounds;
    let joined = 8.0 * f64::from(parts) * 4.0 * f64::from(size.quads_m) * f64::from(size.n) * size.matrices() as f64;
    let join = if parts > 1 { JOIN + joined / (BYTES * CORES as f64) } else { 0.0 };
    work.max(bytes).max(waits) + (work + bytes + waits) / 4.0 + adding + join
}
