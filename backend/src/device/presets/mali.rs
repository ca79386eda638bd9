//! Arm Mali and Immortalis, per core and cycle as Arm's GPU data sheet has it: 256 operations in f32 and 512 in f16, one 64-byte
//! line of the 32 KiB load/store cache for a warp of 16, a texture cache of 32 KiB; 2048 threads, half of them above 32
//! registers. Second-level caches are the integrator's choice, clocks those of shipped chips.

use super::{FROM_CACHES, KIB, MORTON, NONE, Preset};
use crate::device::profile::{Estimate, IntegerCosts};
use crate::device::{LimitsClamp, Profile};

/// Not public: as fast as additions at best, a quarter of their rate as on other GPUs at worst.
const INTEGERS: IntegerCosts = IntegerCosts {
    simple: Estimate::known(1.0),
    mul: Estimate::range(1.0, 2.0, 4.0),
    mul_high: Estimate::range(1.0, 4.0, 8.0),
};

/// Warps of 16, and shared memory that lives in the load/store cache. No report of either chip lists matrix units.
const LIMITS: LimitsClamp = LimitsClamp {
    max_shared_memory: Some(32 * KIB),
    subgroup_size: Some(16),
    matrix_units: Some(Vec::new()),
    products: FROM_CACHES,
    ..NONE
};

/// Mali-G715 with 7 cores near 0.9 GHz (Tensor G3, G4).
pub(super) const G715: Preset = Preset {
    name: "mali-g715",
    limits: LIMITS,
    profile: Some(Profile {
        subgroups: [16, 16],
        line_bytes: 64,
        image_lines: MORTON,
        l1_bytes: Estimate::known(32768.0),
        // The G710 may have 512 KiB to 2 MiB.
        l2_bytes: Estimate::range(524288.0, 1048576.0, 2097152.0),
        // 64 to 128 warps are resident.
        interleaved_subgroups: Estimate::range(8.0, 16.0, 64.0),
        invocations: Estimate::range(7168.0, 7168.0, 14336.0),
        flops_f32: Estimate::range(1.5e12, 1.6e12, 1.7e12),
        flops_f16: Estimate::range(3.0e12, 3.2e12, 3.4e12),
        matrix_f16: None,
        matrix_bf16: None,
        integers: INTEGERS,
        // 8 texels a cycle, half of that beyond 32 bits, which makes 32 bytes; a quarter at 128 bits is the careful reading.
        texels: Estimate::range(6.2e9, 12.5e9, 12.5e9),
        buffer_bytes: Estimate::range(2e11, 4e11, 4e11),
        // Beats of 16 bytes to each core's texture unit (G925 counter guide), and as much to its load/store unit.
        l2_rate: Estimate::range(1e11, 2e11, 4e11),
        // LPDDR5X-8533, 64 bits: 68 GB/s at most.
        memory_rate: Estimate::range(3.5e10, 5e10, 6.8e10),
        copy_rate: Estimate::range(3e10, 4.5e10, 6.4e10),
        // Not public.
        launch: Estimate::range(3e-6, 10e-6, 25e-6),
        barrier: Estimate::range(2e-6, 6e-6, 15e-6),
    }),
};

/// Immortalis-G925 with 12 cores at 1.3 to 1.6 GHz (Dimensity 9400, 9400+).
pub(super) const G925: Preset = Preset {
    name: "mali-g925",
    limits: LIMITS,
    profile: Some(Profile {
        subgroups: [16, 16],
        line_bytes: 64,
        image_lines: MORTON,
        l1_bytes: Estimate::known(32768.0),
        l2_bytes: Estimate::range(1048576.0, 2097152.0, 4194304.0),
        // 64 to 128 warps are resident.
        interleaved_subgroups: Estimate::range(8.0, 16.0, 64.0),
        invocations: Estimate::range(12288.0, 12288.0, 24576.0),
        flops_f32: Estimate::range(4.0e12, 4.5e12, 4.9e12),
        flops_f16: Estimate::range(8.0e12, 9.0e12, 9.8e12),
        matrix_f16: None,
        matrix_bf16: None,
        integers: INTEGERS,
        // 8 texels a cycle in f16, half of that in f32: 64 bytes; half of it again is the careful reading.
        texels: Estimate::range(31e9, 70e9, 76e9),
        buffer_bytes: Estimate::range(5e11, 1.1e12, 1.2e12),
        l2_rate: Estimate::range(2.5e11, 5e11, 8e11),
        // LPDDR5X-10667, 64 bits: 85 GB/s at most.
        memory_rate: Estimate::range(5e10, 6.5e10, 8.5e10),
        copy_rate: Estimate::range(4.5e10, 6e10, 8e10),
        launch: Estimate::range(3e-6, 8e-6, 20e-6),
        barrier: Estimate::range(2e-6, 5e-6, 12e-6),
    }),
};
