//! How a product is spread over invocations: plain data, and the one place that chooses it from shape and device.
//!
//! | schedule | for | what a workgroup does |
//! |---|---|---|
//! | direct | processors, phones, what fits no other | each invocation fetches the fragments of its sums, caches do the sharing |
//! | across ([`across`](mod@across)) | few sums: up to 8 columns or 16 rows, 32 of either for two factors of F32 | its invocations go over k side by side and add up their sums in shared memory |
//! | matrix | on a device with matrix units: weights of 16 bits or quantized, and two factors of F32 over 64 k or more | brings tiles to shared memory as the units take them, rounded or in parts; its subgroups hold matrices of sums ([`matrix`]) |
//! | staged | everything else on a GPU | brings tiles of both operands to shared memory, decoded once, while it sums over the tiles before |
//!
//! # Direct
//!
//! * **Processors** (subgroups of vector registers, up to 8 wide): the subgroup lies along m, so that all of it wants the same
//!   values of b, and with `gemm_subgroup` each invocation fetches one texel of b and hands it around. With few m the rest of
//!   the subgroup goes along n.
//! * **GPUs**: workgroups of 32 or 64, up to 16 along m and the rest along n; the caches do the sharing.
//! * **Along n**: where the texels of b run along k, neighbouring invocations take neighbouring n: in an R-Tile these are
//!   neighbouring texels, for loads and for stores.
//!
//! # Why a GPU wants the others
//!
//! 2048 x 128 x 2048 in f16, direct: 8192 invocations of 4 x 8 sums; in 4 parts they are 1024 subgroups, 8 on each of 132 cores
//! that hold 64. For every 8 k an invocation waits for 4 texels of a, then twice for 8 of b, and has 256 multiplications to do in
//! the meantime: 13 for each load of 16 bytes. Loads take hundreds of cycles and nothing hides them, so that the time is that of
//! the chain of loads, whatever n is. Staged, an invocation has 8 x 8 sums, loads 2 + 2 fragments for 1024 multiplications, and
//! loads the next while it sums.
//!
//! # Parts of k
//!
//! A long k is cut so that the slab of a that one part reads by columns stays in a cache, and on a GPU so that a small product
//! fills the device. Parts are summed by a second dispatch, in a fixed order.

use super::super::addressing::constant;
use super::super::dispatch::{PROCESSOR_SUBGROUP, is_processor};
use super::across;
use super::matrix;
use super::{
    BAND, BUFFERS, LANES_K, LANES_M, LANES_N, LOCAL_SIZE, MATRIX_BUFFERS, MATRIX_K, MATRIX_M, MATRIX_N, PARTS, QUADS_K,
    SHARE, STEP_N, TILE_M, TILE_N,
};
use crate::device::{AcrossTile, Limits, MatrixTile, MatrixType, ProductSchedule, StagedTile, TestedSchedule};
use crate::graph::DType;

/// Elements of k in a part: at 576 columns, a slab of Q8_0 or Q4_1 weights is 1.5 to 2.7 MB.
const PART_K: u32 = 4096;

/// Fewest elements of k that pay for a part on a GPU.
const LEAST_PART_K: u32 = 128;

/// Invocations that fill a GPU.
const GPU_INVOCATIONS: u32 = 1 << 15;

/// Invocations from which a GPU is better off with fewer of them that hold more.
const GPU_INVOCATIONS_PER_TILE: u64 = 1 << 14;

/// Most parts, and most bytes of all their sums.
const MOST_PARTS: u32 = 64;
const MOST_PART_BYTES: u64 = 16 << 20;

/// Multiplications from which the compile time of a larger tile pays on a processor.
const LARGE: u64 = 1 << 24;

/// Columns of a product of few sums, and quads of its rows; more of both where matrix units may not multiply.
pub(super) const FEW_N: u32 = 8;
const FEW_QUADS_M: u32 = 4;
const FEW_N_WHOLE: u32 = 32;
const FEW_QUADS_M_WHOLE: u32 = 8;

/// Rows of tiles that run together.
pub(super) const BAND_ROWS: u32 = 8;

/// What the tiles of the staged schedule are chosen from.
const TILES: [StagedTile; 10] = [
    tile(2, 2, 16, 16, 4),
    tile(2, 2, 16, 8, 4),
    tile(2, 2, 8, 16, 4),
    tile(2, 2, 8, 8, 4),
    StagedTile { buffers: 1, ..tile(2, 2, 32, 4, 4) },
    tile(1, 2, 16, 8, 4),
    tile(1, 1, 16, 8, 4),
    tile(1, 1, 8, 8, 8),
    tile(1, 1, 16, 4, 8),
    tile(1, 1, 4, 16, 8),
];

/// The shaders of matrix units, of F16, of BF16 and of F32 in parts; others that do more have names that start alike.
const MATRIX: &str = "gemm_matrix";
const MATRIX_BF16: &str = "gemm_matrix_bf16";
const MATRIX_PARTED: &str = "gemm_matrix_parted";

/// The shader that multiplies bytes.
const DOTS: &str = "gemm_dots";

const fn tile(quads_m: u32, quads_n: u32, lanes_m: u32, lanes_n: u32, quads_k: u32) -> StagedTile {
    StagedTile { quads_m, quads_n, lanes_m, lanes_n, quads_k, buffers: 2 }
}

/// What of a product decides how it is spread: m padded to whole texels, n padded as the output is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub quads_m: u32,
    pub n: u32,
    pub k: u32,
    /// Matrices along axes 2 and 3.
    pub batches: [u32; 2],
    /// Whether the texels of a run along k, and the elements of k that a step reads.
    pub a_along_k: bool,
    pub step_k: u32,
    /// Whether the texels of b run along k.
    pub b_along_k: bool,
    /// The steps where the right factor is rounded to bytes, if weights and views let it be.
    pub dots: Option<Dots>,
    /// Quads between two that an invocation must both have.
    pub halves: Option<u32>,
    /// What matrix units may round the factors to.
    pub factors: Factors,
    /// What the kernel does beside it.
    pub kind: Kind,
    /// Whether a has to be decoded first.
    pub quantized: bool,
}

/// What a kernel does beside a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Single,
    /// It adds another one.
    Pair,
    /// It normalises the right factor.
    Normed,
    /// The same, and it multiplies another left factor with it.
    Twin,
}

impl Kind {
    /// Whether the right factor has a gain, and squares of its own that are summed.
    pub fn is_normed(self) -> bool {
        matches!(self, Self::Normed | Self::Twin)
    }

    /// Left factors that are read side by side.
    pub fn left(self) -> u32 {
        if self == Self::Twin { 2 } else { 1 }
    }

    /// Sums of an invocation, as `ACROSS_OWN` in `gemm_across.glsl` counts them: quads of m, and squares.
    pub fn sums(self, quads_m: u32, columns: u32) -> u32 {
        self.left() * quads_m * columns + if self.is_normed() { columns.div_ceil(4) } else { 0 }
    }
}

/// What matrix units may round the factors of a product to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factors {
    /// The type.
    Rounded(MatrixType),
    /// Nothing: units multiply parts of them. Of a pair of products they cannot; where that schedule is asked for, these are rounded to this.
    Whole(MatrixType),
}

impl Factors {
    /// Of weights of a type: products are of weights, outer products of gradients.
    pub fn of(reduce: u32, weights: DType) -> Self {
        let to = if reduce == 0 { MatrixType::F16 } else { MatrixType::Bf16 };
        if weights == DType::F32 { Self::Whole(to) } else { Self::Rounded(to) }
    }
}

impl Size {
    pub fn matrices(&self) -> u64 {
        self.batches.iter().map(|&b| u64::from(b)).product()
    }

    /// Workgroups of so many elements of m and of n, for one part of k.
    pub(super) fn workgroups(&self, [m, n]: [u32; 2]) -> u64 {
        u64::from(self.quads_m.div_ceil(m / 4)) * u64::from(self.n.div_ceil(n)) * self.matrices()
    }

    /// Parts of k that an output has room for, and memory for their sums.
    pub fn most_parts(&self) -> u32 {
        // Parts are written along axis 3.
        let [b2, b3] = self.batches;
        if b3 > 1 {
            return 1;
        }
        let sums = 16 * u64::from(self.quads_m) * u64::from(self.n) * u64::from(b2);
        (MOST_PART_BYTES / sums.max(1)).clamp(1, MOST_PARTS.into()) as u32
    }
}

/// A step of a product whose right factor is rounded to bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dots {
    /// Elements of k.
    pub k: u32,
    /// Texels that a row takes.
    pub texels: u32,
}

/// How a product is spread over invocations; all of it becomes specialization constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Schedule {
    /// Quads of m of an invocation; by matrix units, matrices along m of a subgroup.
    pub tile_m: u32,
    /// Values of n of an invocation; by matrix units, matrices along n of a subgroup.
    pub tile_n: u32,
    /// Invocations of a workgroup along m; by matrix units, subgroups.
    pub lanes_m: u32,
    /// The same along n.
    pub lanes_n: u32,
    /// Invocations of a workgroup along k, a power of two.
    pub lanes_k: u32,
    /// Parts that k is summed in.
    pub parts: u32,
    /// Invocations that share fetches of b by shuffles; 1 for none.
    pub share: u32,
    /// Distance of an invocation's values of n: 1, or `lanes_n`.
    pub step_n: u32,
    /// Whether the right factor is rounded to bytes, as it is read.
    pub dots: bool,
    /// What passes through shared memory.
    pub stage: Option<Stage>,
}

/// Tiles in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Stage {
    /// Quads of k of a tile.
    pub quads_k: u32,
    /// Tiles of each operand.
    pub buffers: u32,
    /// Rows of tiles that run together.
    pub band: u32,
    /// What multiplies them, if not every invocation its own.
    pub unit: Option<Unit>,
}

/// What a shader knows of a matrix unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Unit {
    pub factors: MatrixType,
    /// Parts of 16 bits that a factor is the sum of: two of F32, else one, which it is rounded to.
    pub pieces: u32,
    /// Extents along m, n and k.
    pub shape: [u32; 3],
    /// Invocations of a subgroup.
    pub subgroup: u32,
}

impl Schedule {
    /// The schedule of a dispatch, read back from its constants.
    pub fn of(shader: &str, constants: &[(u32, u32)]) -> Option<Self> {
        let get = |id| constant(constants, id);
        let [lanes_m, lanes_n] = [get(LANES_M)?, get(LANES_N)?];
        let factors = if shader.starts_with(MATRIX_BF16) { MatrixType::Bf16 } else { MatrixType::F16 };
        let pieces = if shader.starts_with(MATRIX_PARTED) { 2 } else { 1 };
        let unit = if shader.starts_with(MATRIX) {
            let subgroup = get(LOCAL_SIZE)? / (lanes_m * lanes_n);
            Some(Unit { factors, pieces, shape: [get(MATRIX_M)?, get(MATRIX_N)?, get(MATRIX_K)?], subgroup })
        } else {
            None
        };
        let buffers = get(if unit.is_some() { MATRIX_BUFFERS } else { BUFFERS });
        let stage = match get(QUADS_K) {
            Some(quads_k) => Some(Stage { quads_k, buffers: buffers?, band: get(BAND)?, unit }),
            None => None,
        };
        let staged = stage.is_some();
        Some(Self {
            tile_m: get(TILE_M)?,
            tile_n: get(TILE_N)?,
            lanes_m,
            lanes_n,
            lanes_k: if staged { 1 } else { get(LANES_K).unwrap_or(1) },
            parts: get(PARTS)?,
            share: if staged { 1 } else { get(SHARE).unwrap_or(1) },
            step_n: if staged { 1 } else { get(STEP_N)? },
            dots: shader.starts_with(DOTS),
            stage,
        })
    }

    /// Texels of shared memory that matrix units are given; 0 without them.
    pub fn shared_texels(&self) -> u32 {
        let Self { tile_m, tile_n, lanes_m, lanes_n, stage, .. } = *self;
        let Some(Stage { quads_k, buffers, unit: Some(unit), .. }) = stage else { return 0 };
        let [m, n, _] = unit.shape;
        MatrixTile { tile_m, tile_n, lanes_m, lanes_n, quads_k, buffers }.shared_texels([m, n], unit.pieces)
    }

    fn unit(&self) -> Option<Unit> {
        self.stage.and_then(|stage| stage.unit)
    }

    /// Whether matrix units multiply what both factors are rounded to.
    pub(super) fn rounds(&self) -> bool {
        self.unit().is_some_and(|unit| unit.pieces == 1)
    }

    pub(super) fn shader(&self, kind: Kind) -> &'static str {
        let pair = kind == Kind::Pair;
        if let Some(unit) = self.unit() {
            return match (unit.factors, pair) {
                (MatrixType::F16, false) if unit.pieces > 1 => MATRIX_PARTED,
                (MatrixType::F16, false) => MATRIX,
                (MatrixType::F16, true) => "gemm_matrix_pair",
                (MatrixType::Bf16, false) => MATRIX_BF16,
                (MatrixType::Bf16, true) => "gemm_matrix_bf16_pair",
            };
        }
        match (self.dots, kind) {
            (false, Kind::Normed) => return "gemm_normed",
            (false, Kind::Twin) => return "gemm_twin",
            (true, Kind::Single | Kind::Pair) => return DOTS,
            (true, Kind::Normed) => return "gemm_dots_normed",
            (true, Kind::Twin) => return "gemm_dots_twin",
            (false, Kind::Single | Kind::Pair) => {}
        }
        match (self.stage.is_some(), self.share > 1, pair) {
            (true, _, false) => "gemm_staged",
            (true, _, true) => "gemm_staged_pair",
            (false, false, false) => "gemm",
            (false, true, false) => "gemm_subgroup",
            (false, false, true) => "gemm_pair",
            (false, true, true) => "gemm_subgroup_pair",
        }
    }

    /// What is tested of it on a device.
    pub fn tested(&self) -> TestedSchedule {
        match (self.stage, self.unit()) {
            (_, Some(Unit { pieces: 2.., .. })) => TestedSchedule::MatrixParts,
            (_, Some(Unit { factors: MatrixType::F16, .. })) => TestedSchedule::MatrixF16,
            (_, Some(Unit { factors: MatrixType::Bf16, .. })) => TestedSchedule::MatrixBf16,
            (Some(_), None) => TestedSchedule::Staged,
            (None, None) if self.dots => TestedSchedule::Dots,
            (None, None) if self.lanes_k > 1 => TestedSchedule::Across,
            (None, None) => TestedSchedule::Direct,
        }
    }

    /// Invocations of a workgroup.
    pub fn invocations(&self) -> u32 {
        self.lanes_m * self.lanes_n * self.lanes_k * self.unit().map_or(1, |unit| unit.subgroup)
    }

    /// Elements of m and of n of a workgroup.
    pub fn extents(&self) -> [u32; 2] {
        let [m, n] = self.unit().map_or([4, 1], |unit| [unit.shape[0], unit.shape[1]]);
        [m * self.tile_m * self.lanes_m, n * self.tile_n * self.lanes_n]
    }

    /// The schedule of a product on a device: the one that is asked for and not off, else by shape; direct where that has no room.
    ///
    /// # Errors
    /// Invocations of a workgroup that the halves of a head need and the device does not have.
    pub(super) fn choose(size: Size, limits: &Limits) -> Result<Self, String> {
        let asked = limits.products.schedule.filter(|&schedule| !limits.products.off.has(schedule));
        let chosen = match asked.unwrap_or_else(|| by_shape(&size, limits)) {
            ProductSchedule::Direct => None,
            ProductSchedule::Across => Self::across(&size, limits),
            ProductSchedule::Staged => Self::staged(&size, limits),
            ProductSchedule::Matrix => matrix::by_units(&size, limits).or_else(|| Self::staged(&size, limits)),
        };
        let schedule = match (chosen, size.halves) {
            (Some(chosen), _) => chosen,
            (None, None) => Self::direct(&size, limits),
            (None, Some(halves)) => Self::direct(&size, limits).by_halves(halves, limits)?,
        };
        let most = limits.products.parts.unwrap_or(u32::MAX).max(1);
        Ok(Self { parts: schedule.parts.min(most), ..schedule })
    }

    fn direct(size: &Size, limits: &Limits) -> Self {
        let processor = is_processor(limits);
        let wanted = if processor { PROCESSOR_SUBGROUP } else { limits.subgroup_size.clamp(32, 64) };
        let group = 1 << wanted.min(most_invocations(limits)).ilog2();
        let along_m = if processor { group } else { group.min(16) };
        let few_m = along_m.min(size.quads_m.next_power_of_two());
        let tile_n = if processor { Self::processor_tile(size, few_m < group) } else { size.n.clamp(4, 8) / 4 * 4 };
        let lanes_n = (group / few_m).min(size.n.div_ceil(tile_n).next_power_of_two());
        let lanes_m = group / lanes_n;
        let share = if processor && lanes_n == 1 { limits.shuffle_width.min(group) } else { 0 };
        let share = share.checked_ilog2().map_or(1, |log| 1 << log);
        let tiles = u64::from(size.quads_m) * u64::from(size.n.div_ceil(tile_n));
        let tile_m = if processor { 1 } else { Self::gpu_tile(size, lanes_m, tiles) };
        let parts = Self::parts(size, if processor { None } else { Some(tiles / u64::from(tile_m)) });
        Self { tile_m, tile_n, lanes_m, lanes_n, lanes_k: 1, parts, share, step_n: 1, dots: false, stage: None }
    }

    /// Quads of m for an invocation of a GPU: two halve what it fetches of b for each sum, where enough invocations are left.
    fn gpu_tile(size: &Size, lanes_m: u32, tiles: u64) -> u32 {
        let invocations = tiles * size.matrices();
        if size.quads_m.is_multiple_of(2 * lanes_m) && invocations >= 2 * GPU_INVOCATIONS_PER_TILE { 2 } else { 1 }
    }

    /// The direct schedule that leaves two quads half a head apart to an invocation, and whole heads to a workgroup.
    fn by_halves(self, lanes_m: u32, limits: &Limits) -> Result<Self, String> {
        let most = most_invocations(limits);
        if lanes_m > most {
            return Err(format!("heads of {} take {lanes_m} invocations of {most}", 8 * lanes_m));
        }
        let lanes_n = (self.lanes_m * self.lanes_n / lanes_m).max(1).min(self.lanes_n.max(1));
        let tile_n = (self.tile_n / 8 * 4).max(4);
        // Those that share must be there: in the last subgroup, too.
        let share = if lanes_n == 1 { self.share.min(1 << lanes_m.trailing_zeros()) } else { 1 };
        Ok(Self { tile_m: 2, tile_n, lanes_m, lanes_n, share, ..self })
    }

    /// Values of n for an invocation: 8, or what of 12, 16, 20 pads a large product's n least.
    fn processor_tile(size: &Size, spread_along_n: bool) -> u32 {
        let [b2, b3] = size.batches;
        let work = [4, size.quads_m, size.n, size.k, b2, b3].iter().fold(1u64, |w, &x| w.saturating_mul(x.into()));
        if spread_along_n || size.n <= 4 {
            4
        } else if work < LARGE {
            8
        } else {
            [16, 20, 12, 8].into_iter().min_by_key(|&tile| size.n.div_ceil(tile) * tile).unwrap_or(8)
        }
    }

    /// Parts of k; `tiles` is the number of invocations a GPU would run, if the device is one.
    fn parts(size: &Size, tiles: Option<u64>) -> u32 {
        let by_cache = if size.k >= 2 * PART_K { size.k / PART_K } else { 1 };
        let invocations = tiles.map(|tiles| (tiles * u64::from(size.batches[0])).max(1));
        let by_device = invocations.map_or(1, |have| u64::from(GPU_INVOCATIONS).div_ceil(have));
        let by_device = by_device.min(u64::from(size.k / LEAST_PART_K)) as u32;
        by_cache.max(by_device).min(size.most_parts()).max(1)
    }

    /// The tile that is asked for, else the one that [`across::time`] likes best of those that fit; see [`across`](mod@across).
    fn across(size: &Size, limits: &Limits) -> Option<Self> {
        let size = &across::stepped(size, limits);
        let asked = limits.products.across.filter(|tile| across::fits(size, tile, limits));
        let tile = asked.or_else(|| across::by_time(size, limits))?;
        let AcrossTile { quads_m, columns, lanes_m, lanes_n, lanes_k } = tile;
        let parts = across::parts(size, &tile);
        let (tile_m, tile_n) = (quads_m, columns);
        let dots = size.dots.is_some();
        Some(Self { tile_m, tile_n, lanes_m, lanes_n, lanes_k, parts, share: 1, step_n: 1, dots, stage: None })
    }

    /// The tile that [`cost`] likes best of those that fit; none where the schedule is off.
    fn staged(size: &Size, limits: &Limits) -> Option<Self> {
        if limits.products.off.staged {
            return None;
        }
        let keeps_halves = |tile: &StagedTile| size.halves.is_none_or(|h| tile.quads_m == 2 && tile.lanes_m == h);
        let fits = |tile: &StagedTile| tile.fits(limits) && keeps_halves(tile);
        let candidates = || TILES.iter().filter(|tile| fits(tile)).map(|&tile| (tile, staged_parts(size, &tile)));
        let by_cost = || candidates().min_by(|a, b| cost(size, a.0, a.1).total_cmp(&cost(size, b.0, b.1)));
        let asked = limits.products.tile.filter(fits).map(|tile| (tile, staged_parts(size, &tile)));
        let (tile, parts) = asked.or_else(by_cost)?;
        let StagedTile { quads_m, quads_n, lanes_m, lanes_n, quads_k, buffers } = tile;
        let [m, n] = tile.extents();
        let narrow = size.n <= BAND_ROWS * n || 4 * size.quads_m <= m;
        let stage = Some(Stage { quads_k, buffers, band: if narrow { 1 } else { BAND_ROWS }, unit: None });
        let (tile_m, tile_n) = (quads_m, 4 * quads_n);
        Some(Self { tile_m, tile_n, lanes_m, lanes_n, lanes_k: 1, parts, share: 1, step_n: 1, dots: false, stage })
    }
}

/// The schedule for a shape where none is asked for.
fn by_shape(size: &Size, limits: &Limits) -> ProductSchedule {
    // There, texels that neighbours share come from a cache at the price of shared memory, and barriers are dear.
    if is_processor(limits) {
        ProductSchedule::Direct
    } else if is_of_few_sums(size) && !limits.products.off.across {
        ProductSchedule::Across
    } else if limits.products.from_caches {
        ProductSchedule::Direct
    } else {
        // Staged where there are no matrix units, or none that round as the product lets them.
        ProductSchedule::Matrix
    }
}

fn is_of_few_sums(size: &Size) -> bool {
    let [few_n, few_quads] = match size.factors {
        Factors::Rounded(_) => [FEW_N, FEW_QUADS_M],
        Factors::Whole(_) => [FEW_N_WHOLE, FEW_QUADS_M_WHOLE],
    };
    size.n <= few_n || size.quads_m <= few_quads
}

pub(super) fn most_invocations(limits: &Limits) -> u32 {
    limits.largest_group().max(1)
}

/// Parts of k that fill a GPU with workgroups of this tile.
fn staged_parts(size: &Size, tile: &StagedTile) -> u32 {
    let invocations = size.workgroups(tile.extents()) * u64::from(tile.invocations());
    let by_device = (u64::from(GPU_INVOCATIONS) / invocations.max(1)) as u32;
    by_device.min(size.k / LEAST_PART_K).min(size.most_parts()).max(1)
}

/// What a staged product takes, about, in multiplications of one invocation.
///
/// A step of a sum is a multiplication, its share of the reads of shared memory (16 bytes take as long as 8), and its share of
/// what is fetched into the tile (16 to an element). Invocations up to what fills a GPU run side by side. Sums of parts are written
/// and read again.
fn cost(size: &Size, tile: StagedTile, parts: u32) -> f64 {
    let [m, n] = tile.extents().map(f64::from);
    let own = f64::from(16 * tile.quads_m * tile.quads_n);
    let step = 1.0 + 8.0 * f64::from(tile.quads_m + tile.quads_n) / own + 16.0 * (1.0 / m + 1.0 / n);
    let tile_k = 4 * tile.quads_k;
    let k = f64::from(size.k.div_ceil(parts).next_multiple_of(tile_k)) * f64::from(parts);
    let groups = size.workgroups(tile.extents()) as f64;
    let beside = (groups * f64::from(parts * tile.invocations())).min(GPU_INVOCATIONS.into());
    let sums = 4.0 * f64::from(size.quads_m) * f64::from(size.n) * size.matrices() as f64;
    let joined = if parts > 1 { 16.0 * f64::from(parts) * sums / f64::from(GPU_INVOCATIONS) } else { 0.0 };
    groups * m * n * k * step / beside + joined
}
