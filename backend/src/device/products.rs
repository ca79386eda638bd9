//! How matrix products are to be computed: hints for schedules, each of which is right on any device.

use serde::{Deserialize, Serialize};

use super::Limits;

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
    /// Parts that k is summed in at most.
    pub parts: Option<u32>,
    /// The choice by shape leaves shared memory alone: where it is the memory that caches are, or a slow one, texels come as fast
    /// from caches, and registers hold what invocations share.
    pub from_caches: bool,
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
        self.invocations() <= limits.max_workgroup_invocations.min(limits.max_workgroup_size[0])
            && self.shared_bytes() <= limits.max_shared_memory.into()
    }
}
