//! Products by matrix units: which unit, which tile, how many parts.
//!
//! Factors are rounded to 16 bits, sums are f32. MUL_MAT takes F16, as ggml's CPU does with the right factor of such weights. What
//! OUT_PROD multiplies are gradients, often below the 6e-8 that F16 ends at: it takes BF16, and another schedule where a device has no
//! units of that type.
//!
//! Two factors of F32 are not rounded: each is a power of two times the sum of two numbers of F16, of 11 bits each, and units multiply
//! three pairs of these. What is left out, the product of both lesser parts and what is beyond 22 bits, is some 2^-22 of a product. The
//! powers of two follow from the greatest numbers of the tiles, see `gemm_parts.glsl`: next to one of them, another that is less than 2^-18
//! of it loses bits, up to 2^-37 of the greatest. BF16 needs no powers, but three parts and six products.

use super::schedule::{BAND_ROWS, Factors, Kind, Schedule, Size, Stage, Unit};
use crate::device::{Limits, MatrixTile, MatrixType, MatrixUnit, ProductSchedule};

/// Fewest elements of k that pay for a part.
const LEAST_PART_K: u32 = 256;

/// What tiles are chosen from. Measured on an H200, 16 x 16 x 16, F16, TFLOP/s of 512 x 4096 x 4096, along k and
/// across, with as many parts as fill it:
///
/// | tile | m x n x k, buffers | |
/// |---|---|---|
/// | 4 x 4 of 4 x 2 | 256 x 128 x 32, 1 | 217, 194 |
/// | 4 x 4 of 2 x 4 | 128 x 256 x 32, 1 | 190, 185 |
/// | 2 x 4 of 4 x 2 | 128 x 128 x 64, 1 | 191, 167 |
/// | 2 x 2 of 4 x 4 | 128 x 128 x 64, 1; 128 x 128 x 32, 2 | 183, 161; 159, 160 |
/// | 4 x 4 of 2 x 2 | 128 x 128 x 32, 2 | 130, 121 |
///
/// What a tile takes for every k, in nanoseconds of 512 x 1536 x 8960 where it has a core for itself, along k and across: 256 x 128 37, 42;
/// 128 x 128 22, 26; 128 x 64 14, 15; 64 x 128 17, 19.
///
/// Of Q8_0, the first takes 181 us, the second 122, 2 x 2 of 4 x 4 132: decoding is shared by what is summed with it.
const TILES: [MatrixTile; 9] = [
    matrices(4, 4, 4, 2, 8),
    matrices(4, 4, 2, 4, 8),
    matrices(3, 4, 3, 4, 8),
    matrices(2, 2, 4, 4, 16),
    matrices(2, 2, 4, 2, 16),
    matrices(2, 2, 2, 4, 16),
    matrices(2, 2, 2, 2, 16),
    matrices(1, 2, 2, 2, 16),
    matrices(2, 2, 2, 2, 8),
];

/// The same for factors in parts, which take twice the room in registers and in shared memory.
const TILES_OF_PARTS: [MatrixTile; 7] = [
    matrices(2, 4, 4, 2, 8),
    matrices(4, 4, 2, 4, 4),
    matrices(4, 4, 4, 2, 4),
    matrices(2, 2, 4, 4, 8),
    matrices(2, 2, 2, 4, 8),
    matrices(2, 2, 2, 2, 8),
    matrices(1, 2, 2, 2, 8),
];

/// Least elements of k for which taking factors apart pays.
const LEAST_K_OF_PARTS: u32 = 64;

/// Workgroups that a large GPU runs at a time.
const GROUPS: u32 = 128;

const fn matrices(tile_m: u32, tile_n: u32, lanes_m: u32, lanes_n: u32, quads_k: u32) -> MatrixTile {
    MatrixTile { tile_m, tile_n, lanes_m, lanes_n, quads_k, buffers: 1 }
}

/// By the unit of most multiplications, the tile that takes least of those that fit.
pub(super) fn by_units(size: &Size, limits: &Limits) -> Option<Schedule> {
    let asked = limits.products.schedule == Some(ProductSchedule::Matrix);
    let (wanted, any, pieces) = match size.factors {
        Factors::Rounded(factors) => (factors, asked, 1),
        // Where parts are off they are not rounded instead.
        Factors::Whole(_) if size.kind == Kind::Single => {
            if limits.products.off.parts || !(asked || size.k >= LEAST_K_OF_PARTS) {
                return None;
            }
            (MatrixType::F16, false, 2)
        }
        Factors::Whole(factors) if asked => (factors, true, 1),
        Factors::Whole(_) => return None,
    };
    let of_type = |unit: &&MatrixUnit| unit.factors == wanted;
    let work = |unit: &&MatrixUnit| (of_type(unit), unit.m * unit.n * unit.k);
    let unit = limits.matrix_units.iter().filter(|unit| any || of_type(unit)).max_by_key(work)?;
    let matrix = [unit.m, unit.n];
    // Rotated halves of a head are in one tile.
    let whole_heads = |tile: &MatrixTile| size.halves.is_none_or(|h| tile.extents(matrix)[0].is_multiple_of(8 * h));
    // Blocks may lie along m, where 32 elements share a scale.
    let whole_blocks = |tile: &MatrixTile| !size.quantized || tile.extents(matrix)[0].is_multiple_of(32);
    let fits = |tile: &MatrixTile| tile.fits(unit, pieces, limits) && whole_heads(tile) && whole_blocks(tile);
    let in_parts = |tile: MatrixTile| (tile, parts_of(size, tile.extents(matrix)));
    let time = |(tile, parts): &(MatrixTile, u32)| {
        let decoded =
            if size.quantized { f64::from(tile.extents(matrix)[0]) / f64::from(tile.invocations(unit)) } else { 0.0 };
        time_of(size, tile.extents(matrix), *parts, pieces, decoded)
    };
    let tiles: &[MatrixTile] = if pieces > 1 { &TILES_OF_PARTS } else { &TILES };
    let candidates = || tiles.iter().copied().filter(fits).map(in_parts);
    let by_time = || candidates().min_by(|a, b| time(a).total_cmp(&time(b)));
    let (tile, parts) = limits.products.matrices.filter(fits).map(in_parts).or_else(by_time)?;
    let MatrixTile { tile_m, tile_n, lanes_m, lanes_n, quads_k, buffers } = tile;
    let [m, n] = tile.extents(matrix);
    let narrow = size.n <= n || 4 * size.quads_m <= m;
    let band = if narrow { 1 } else { BAND_ROWS };
    let unit = Unit { factors: unit.factors, pieces, shape: [unit.m, unit.n, unit.k], subgroup: unit.subgroup };
    let stage = Some(Stage { quads_k, buffers, band, unit: Some(unit) });
    Some(Schedule { tile_m, tile_n, lanes_m, lanes_n, lanes_k: 1, parts, share: 1, step_n: 1, dots: false, stage })
}

/// Parts of k that fill a GPU with workgroups of a tile of these elements.
fn parts_of(size: &Size, tile: [u32; 2]) -> u32 {
    let by_device = (u64::from(GROUPS) / size.workgroups(tile).max(1)) as u32;
    by_device.min(size.k / LEAST_PART_K).min(size.most_parts()).max(1)
}

/// What a product takes, about, in picoseconds of the H200: rounds of workgroups, each of which takes so long for every
/// k as it has sums and a little more, for columns of F32 beyond its rows of 16 bits, and for elements of a that each invocation has to
/// decode. Sums of parts are written and read again, by a dispatch of its own.
fn time_of(size: &Size, [m, n]: [u32; 2], parts: u32, pieces: u32, decoded: f64) -> f64 {
    let rounds = (size.workgroups([m, n]) * u64::from(parts)).div_ceil(GROUPS.into()) as f64;
    let step = match pieces {
        1 => f64::from(m * n) + 6e3 + 50.0 * f64::from(n.saturating_sub(m)) + 42e3 * decoded,
        _ => 2.5 * f64::from(m * n) + 12e3,
    };
    let sums = 4.0 * f64::from(size.quads_m) * f64::from(size.n) * size.matrices() as f64;
    let joined = if parts > 1 { 3e6 + 1.3 * f64::from(parts) * sums } else { 0.0 };
    rounds * f64::from(size.k.div_ceil(parts)) * step + joined
}
