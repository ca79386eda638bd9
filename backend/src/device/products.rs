//! How matrix products are to be computed: hints for schedules, each of which is right on any device.

use serde::{Deserialize, Serialize};

use super::{Limits, MatrixUnit};

/// What a device, or whoever measures on it, asks of the schedules of matrix products.
///
/// In `FBL_LIMITS`: `{"products": {"schedule": "staged", "tile": {"quads_m": 2, "quads_n": 2, "lanes_m": 8, "lanes_n": 8}}}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Products {
    /// Schedule of every product that can have it; chosen by shape where nothing is said.
    pub schedule: Option<ProductSchedule>,
    /// Tile of every staged product that fits the device, instead of one chosen by shape.
    pub tile: Option<StagedTile>,
    /// Tile of every product by matrix units that has room for it, instead of one chosen by shape.
    pub matrices: Option<MatrixTile>,
    /// Tile of every product of few sums that has room for it, instead of one chosen by shape.
    pub across: Option<AcrossTile>,
    /// Steps along k that an invocation of these fetches at most before it multiplies, instead of what registers hold.
    pub ahead: Option<u32>,
    /// Whether such products round their right factor to bytes wherever the weights let them and the device has
    /// [`super::Limits::byte_dots`]; where nothing is said, wherever these are accelerated.
    pub dots: Option<bool>,
    /// Parts that k is summed in at most.
    pub parts: Option<u32>,
    /// The choice by shape leaves shared memory alone: where it is the memory that caches are, or a slow one, texels come as fast
    /// from caches, and registers hold what invocations share.
    pub from_caches: bool,
    /// Schedules that no product has, whatever is asked for.
    pub off: SchedulesOff,
}

impl Products {
    /// Everything is chosen by shape.
    pub const NONE: Self = Self {
        schedule: None,
        tile: None,
        matrices: None,
        across: None,
        ahead: None,
        dots: None,
        parts: None,
        from_caches: false,
        off: SchedulesOff { across: false, staged: false, parts: false },
    };
}

/// Schedules that are not to be used; products have the next one that suits them. Direct ones stay, and what else is not to be used a device is
/// without: [`Limits::byte_dots`], [`Limits::matrix_units`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulesOff {
    /// [`ProductSchedule::Across`].
    pub across: bool,
    /// [`ProductSchedule::Staged`].
    pub staged: bool,
    /// [`ProductSchedule::Matrix`] of F32 in parts.
    pub parts: bool,
}

impl SchedulesOff {
    /// Whether all of a schedule is off.
    pub fn has(self, schedule: ProductSchedule) -> bool {
        match schedule {
            ProductSchedule::Across => self.across,
            ProductSchedule::Staged => self.staged,
            ProductSchedule::Direct | ProductSchedule::Matrix => false,
        }
    }
}

/// How a product is spread over invocations and memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProductSchedule {
    /// Every invocation fetches what its own sums need.
    Direct,
    /// Workgroups bring tiles of both operands to shared memory.
    Staged,
    /// The invocations of a workgroup go over k together, for few sums.
    Across,
    /// Workgroups bring tiles to shared memory as matrix units take them: rounded to 16 bits, or two factors of F32 in parts of 16 bits;
    /// sums in f32. Asked for, gradients are rounded to F16 where there are no units of BF16, and factors of F32, where there are
    /// two products, to what other factors of their op are.
    Matrix,
}

/// What a workgroup sums whose invocations go over k together. `lanes_k` is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AcrossTile {
    /// Quads of m of an invocation.
    pub quads_m: u32,
    /// Values of n of an invocation: a multiple of 4, or all.
    pub columns: u32,
    /// Invocations along m.
    pub lanes_m: u32,
    /// Invocations along n.
    pub lanes_n: u32,
    /// Invocations along k.
    pub lanes_k: u32,
}

impl AcrossTile {
    /// Whether the numbers are what a shader takes.
    pub fn is_sound(&self) -> bool {
        let Self { quads_m, columns, lanes_m, lanes_n, lanes_k } = *self;
        // Products of numbers beyond this would not be numbers of invocations, bytes or registers.
        let lanes = [lanes_m, lanes_n, lanes_k];
        lanes.iter().all(|n| (1..=1024).contains(n))
            && lanes_k.is_power_of_two()
            && (1..=2).contains(&quads_m)
            && (1..=16).contains(&columns)
    }
}

/// What a workgroup of a staged product sums at a time. All numbers are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StagedTile {
    /// Quads of m of an invocation.
    pub quads_m: u32,
    /// Quads of n of an invocation.
    pub quads_n: u32,
    /// Invocations along m.
    pub lanes_m: u32,
    /// Invocations along n.
    pub lanes_n: u32,
    /// Quads of k.
    pub quads_k: u32,
    /// Tiles of each operand in shared memory: 2, or 1 where they are not loaded while the ones before are summed.
    pub buffers: u32,
}

impl Default for StagedTile {
    fn default() -> Self {
        Self { quads_m: 1, quads_n: 2, lanes_m: 16, lanes_n: 8, quads_k: 4, buffers: 2 }
    }
}

impl StagedTile {
    /// Whether the numbers are what a shader takes.
    pub fn is_sound(&self) -> bool {
        let Self { quads_m, quads_n, lanes_m, lanes_n, quads_k, buffers } = *self;
        let all = [quads_m, quads_n, lanes_m, lanes_n, quads_k, buffers];
        // Products of numbers beyond this would not be numbers of invocations, bytes or registers.
        let small = |n: &u32| n.is_power_of_two() && *n <= 1024;
        all.iter().all(small) && quads_m <= 8 && quads_n <= 8 && buffers <= 2 && quads_k <= self.invocations()
    }

    /// Invocations of a workgroup.
    pub fn invocations(&self) -> u32 {
        self.lanes_m * self.lanes_n
    }

    /// Elements of m and of n.
    pub fn extents(&self) -> [u32; 2] {
        [4 * self.quads_m * self.lanes_m, 4 * self.quads_n * self.lanes_n]
    }

    /// Bytes of shared memory.
    pub fn shared_bytes(&self) -> u64 {
        let [m, n] = self.extents().map(u64::from);
        16 * u64::from(self.buffers) * u64::from(self.quads_k) * (m + n)
    }

    /// Whether a device has room for it.
    pub fn fits(&self, limits: &Limits) -> bool {
        self.invocations() <= limits.largest_group() && self.shared_bytes() <= limits.max_shared_memory.into()
    }
}

/// What a workgroup sums at a time by matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MatrixTile {
    /// Matrices of sums that a subgroup holds along m.
    pub tile_m: u32,
    /// The same along n.
    pub tile_n: u32,
    /// Subgroups along m.
    pub lanes_m: u32,
    /// Subgroups along n.
    pub lanes_n: u32,
    /// Quads of k.
    pub quads_k: u32,
    /// Tiles of each operand in shared memory: 2, or 1 where they are not loaded while the ones before are summed.
    pub buffers: u32,
}

impl Default for MatrixTile {
    fn default() -> Self {
        Self { tile_m: 2, tile_n: 2, lanes_m: 2, lanes_n: 2, quads_k: 8, buffers: 2 }
    }
}

impl MatrixTile {
    /// Whether the numbers are what a shader takes.
    pub fn is_sound(&self) -> bool {
        let Self { tile_m, tile_n, lanes_m, lanes_n, quads_k, buffers } = *self;
        let some = |n: u32, most: u32| (1..=most).contains(&n);
        let whole_steps = quads_k.is_power_of_two() && some(quads_k, 64) && quads_k >= 2;
        let sums = some(tile_m, 8) && some(tile_n, 8) && some(lanes_m, 64) && some(lanes_n, 64);
        whole_steps && sums && some(buffers, 2)
    }

    /// Elements of m and of n, with matrices of this size.
    pub fn extents(&self, [m, n]: [u32; 2]) -> [u32; 2] {
        [m * self.tile_m * self.lanes_m, n * self.tile_n * self.lanes_n]
    }

    /// Invocations of a workgroup.
    pub fn invocations(&self, unit: &MatrixUnit) -> u32 {
        unit.subgroup * self.lanes_m * self.lanes_n
    }

    /// Texels of shared memory: tiles of 16 bits an element, or of each of its parts, a texel more for every row of them, whichever way
    /// rows run; or one matrix of f32 of every subgroup's row, a texel more for every column.
    pub fn shared_texels(&self, matrix: [u32; 2], parts: u32) -> u32 {
        let [m, n] = self.extents(matrix);
        let k = 4 * self.quads_k;
        let tiles = self.buffers * parts * ((m + n) * k / 8 + m.max(k) + n.max(k));
        let sums = (m / 4 + 1) * matrix[1] * self.lanes_n;
        tiles.max(sums)
    }

    /// Whether a device has room for it, with elements in so many parts, and the unit divides it.
    pub fn fits(&self, unit: &MatrixUnit, parts: u32, limits: &Limits) -> bool {
        let most = unit.max_invocations.min(limits.largest_group());
        // Of parts, what the invocations tell each other besides.
        let told = if parts > 1 { 1 } else { 0 };
        let shared = 16 * u64::from(self.shared_texels([unit.m, unit.n], parts) + told);
        let whole = [unit.m, unit.n, unit.k].iter().all(|n| n % 8 == 0) && (4 * self.quads_k).is_multiple_of(unit.k);
        whole && self.invocations(unit) <= most && shared <= limits.max_shared_memory.into()
    }
}
