//! Qualcomm Adreno. Caches of the 7xx and 8xx generations are not public: ranges from the ones that were measured (Adreno 640 by
//! ArchProbe: texture L1 1 KiB, L2 128 KiB at 85 GB/s, images 194 GB/s and buffers 96 GB/s from L1; Adreno 660: L1 2 KiB) to the
//! X1-85 as chips and cheese describe it (L2 1 MiB). Nor are rates of dispatches: those are wide guesses.

use super::{FROM_CACHES, KIB, MIB, MORTON, NONE, Preset};
use crate::device::profile::{Estimate, IntegerCosts};
use crate::device::{LimitsClamp, Profile};

/// Measured on the Adreno 660, an addition taking 1: shifts and masks 1, products 4, a whole division of unsigned words 24. The high
/// half of a product was not measured; it is built of products of 16 bits, and less than that division.
const INTEGERS: IntegerCosts =
    IntegerCosts { simple: Estimate::known(1.0), mul: Estimate::known(4.0), mul_high: Estimate::range(4.0, 8.0, 24.0) };

/// Image size and the 128 MiB binding range as the driver reports them; field reports of LoRA training on this chip found that
/// the *sum* of a dispatch's buffers is capped at 128 MiB too, so the preset takes the strict reading. 32 KiB of shared memory and
/// waves of 64 as in Mesa's freedreno tables; 1024 invocations. Newer drivers of the 830
/// list matrix units, which engines switched off again as wrong: none until they were measured.
const LIMITS: LimitsClamp = LimitsClamp {
    max_image_2d: Some(16384),
    max_storage_buffer_range: Some(128 * MIB),
    max_bound_bytes: Some(128 * MIB),
    max_workgroup_invocations: Some(1024),
    max_workgroup_count: Some([65535; 3]),
    max_shared_memory: Some(32 * KIB),
    subgroup_size: Some(64),
    matrix_units: Some(Vec::new()),
    products: FROM_CACHES,
    ..NONE
};

/// Adreno 830 (Snapdragon 8 Elite).
pub(super) const ADRENO_830: Preset = Preset {
    name: "adreno-830",
    limits: LIMITS,
    profile: Some(Profile {
        // Half and full waves: Mesa freedreno_devices.py, ArchProbe.
        subgroups: [64, 128],
        line_bytes: 64,
        image_lines: MORTON,
        l1_bytes: Estimate::range(1024.0, 2048.0, 8192.0),
        l2_bytes: Estimate::range(1048576.0, 1572864.0, 2097152.0),
        // At most 16 waves are resident, fewer with many registers (LiteRT gpu_info.cc); how many interleave is not public.
        interleaved_subgroups: Estimate::range(2.0, 4.0, 16.0),
        invocations: Estimate::range(6144.0, 12288.0, 24576.0),
        // Three slices at 1.1 GHz (public device data), 1024 to 1536 lanes of one multiply-add.
        flops_f32: Estimate::range(2.25e12, 2.8e12, 3.38e12),
        // Twice in f16: measurements of the Adreno 660.
        flops_f16: Estimate::range(4.5e12, 5.6e12, 6.76e12),
        matrix_f16: None,
        matrix_bf16: None,
        integers: INTEGERS,
        // The Adreno 640's 194 GB/s, times 1 to 4 for units and clock.
        texels: Estimate::range(12.5e9, 25e9, 50e9),
        // Half of the image path, as on the Adreno 640.
        buffer_bytes: Estimate::range(1e11, 2e11, 4e11),
        l2_rate: Estimate::range(1.5e11, 2.5e11, 4e11),
        // LPDDR5X-5300, 64 bits: 84.8 GB/s at most.
        memory_rate: Estimate::range(6e10, 7e10, 8.48e10),
        copy_rate: Estimate::range(5e10, 6e10, 8e10),
        launch: Estimate::range(3e-6, 8e-6, 20e-6),
        barrier: Estimate::range(2e-6, 5e-6, 15e-6),
    }),
};

/// Adreno 730 (Snapdragon 8 Gen 1). Limits as those of the 830: the Adreno 750's driver reports the same 2^27 bytes.
pub(super) const ADRENO_730: Preset = Preset {
    name: "adreno-730",
    limits: LIMITS,
    profile: Some(Profile {
        subgroups: [64, 128],
        line_bytes: 64,
        image_lines: MORTON,
        l1_bytes: Estimate::range(1024.0, 2048.0, 4096.0),
        l2_bytes: Estimate::range(524288.0, 786432.0, 1048576.0),
        interleaved_subgroups: Estimate::range(2.0, 4.0, 16.0),
        // Four units (Mesa) of 16 waves.
        invocations: Estimate::range(4096.0, 8192.0, 16384.0),
        // Four units at 0.9 GHz (chips and cheese), 768 to 1024 lanes.
        flops_f32: Estimate::range(1.38e12, 1.6e12, 1.84e12),
        flops_f16: Estimate::range(2.76e12, 3.2e12, 3.68e12),
        matrix_f16: None,
        matrix_bf16: None,
        integers: INTEGERS,
        texels: Estimate::range(12.5e9, 18e9, 30e9),
        buffer_bytes: Estimate::range(1e11, 1.5e11, 2.4e11),
        l2_rate: Estimate::range(8.5e10, 1.5e11, 2.5e11),
        // LPDDR5-6400, 64 bits: 51.2 GB/s at most.
        memory_rate: Estimate::range(3.2e10, 4.2e10, 5.12e10),
        copy_rate: Estimate::range(3e10, 3.8e10, 4.8e10),
        launch: Estimate::range(3e-6, 8e-6, 20e-6),
        barrier: Estimate::range(2e-6, 5e-6, 15e-6),
    }),
};
