//! Limits of a device that decide what a plan may do.

use serde::{Deserialize, Serialize};

use super::{MatrixUnit, Products};

/// Dot products of four signed bytes packed in a word each (VK_KHR_shader_integer_dot_product), the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ByteDots {
    /// Not there.
    None,
    /// Made of other instructions: right, and no faster than these.
    Emulated,
    /// Faster than other instructions.
    Accelerated,
}

/// Limits of a device, read once; any of them can be clamped so that one machine stands in for a smaller one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Largest width and height of a 2D image, texels.
    pub max_image_2d: u32,
    /// Largest range of one storage buffer binding, bytes.
    pub max_storage_buffer_range: u64,
    /// Largest sum of the storage buffer ranges one dispatch may bind, bytes; `u64::MAX` where no such cap is known.
    pub max_bound_bytes: u64,
    /// Alignment of a storage buffer binding's offset, bytes.
    pub storage_buffer_alignment: u64,
    /// Largest single memory allocation, bytes.
    pub max_allocation: u64,
    /// Most invocations of a workgroup.
    pub max_workgroup_invocations: u32,
    /// Largest workgroup size per dimension.
    pub max_workgroup_size: [u32; 3],
    /// Most workgroups of a dispatch per dimension.
    pub max_workgroup_count: [u32; 3],
    /// Shared memory of a workgroup, bytes.
    pub max_shared_memory: u32,
    /// Storage buffers and storage images a shader stage may bind, each.
    pub max_storage_bindings: u32,
    /// Invocations of a subgroup. A hint for schedules: no kernel may need it for correct results.
    pub subgroup_size: u32,
    /// Invocations of a subgroup that can exchange registers by shuffles in a compute shader; 0 where they cannot. Unlike
    /// `subgroup_size` a fact: kernels rely on it.
    pub shuffle_width: u32,
    /// Products that subgroups compute together, sorted; empty where there are none, or where a kernel could not use them.
    pub matrix_units: Vec<MatrixUnit>,
    /// Whether sums in these units become factors there, and units tell the greatest of a row of them (VK_NV_cooperative_matrix2).
    pub matrix_sums: bool,
    /// Dot products of packed bytes, which kernels choose where they are accelerated.
    pub byte_dots: ByteDots,
    /// Bytes of device memory this process may take.
    pub heap_bytes: u64,
    /// How matrix products are to be computed. A hint as well.
    pub products: Products,
}

impl Limits {
    /// Values that drivers of recent GPUs report or exceed: what a plan for a preset assumes where nobody publishes a limit.
    pub const USUAL: Self = Self {
        max_image_2d: 16384,
        max_storage_buffer_range: 128 << 20,
        max_bound_bytes: u64::MAX,
        storage_buffer_alignment: 256,
        max_allocation: 4 << 30,
        max_workgroup_invocations: 256,
        max_workgroup_size: [256, 256, 64],
        max_workgroup_count: [65535; 3],
        max_shared_memory: 32 << 10,
        max_storage_bindings: 16,
        subgroup_size: 32,
        shuffle_width: 32,
        matrix_units: Vec::new(),
        matrix_sums: false,
        byte_dots: ByteDots::None,
        heap_bytes: 16 << 30,
        products: Products::NONE,
    };

    /// Most invocations of a workgroup that is one row of them.
    pub fn largest_group(&self) -> u32 {
        self.max_workgroup_invocations.min(self.max_workgroup_size[0])
    }

    /// Bytes of the allocations that an arena is cut into: whole MiB where the device allows one, so that offsets aligned in the
    /// arena are aligned in their block.
    pub fn arena_block_bytes(&self) -> u64 {
        const UNIT: u64 = 1 << 20;
        if self.max_allocation < UNIT { self.max_allocation } else { self.max_allocation / UNIT * UNIT }
    }
}

#[cfg(test)]
impl Limits {
    /// A plain device, as Mesa's CPU driver describes itself.
    pub(crate) fn for_tests() -> Self {
        Self {
            max_image_2d: 16384,
            max_storage_buffer_range: 128 << 20,
            max_bound_bytes: u64::MAX,
            storage_buffer_alignment: 16,
            max_allocation: 2 << 30,
            max_workgroup_invocations: 1024,
            max_workgroup_size: [1024; 3],
            max_workgroup_count: [65535; 3],
            max_shared_memory: 32 << 10,
            max_storage_bindings: 32,
            subgroup_size: 8,
            shuffle_width: 8,
            matrix_units: Vec::new(),
            matrix_sums: false,
            byte_dots: ByteDots::Emulated,
            heap_bytes: 4 << 30,
            products: Products::default(),
        }
    }
}
