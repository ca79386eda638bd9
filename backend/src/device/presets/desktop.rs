//! Discrete and integrated GPUs of desktops, and a data centre's. AMD and Intel are families: their ranges go from an integrated
//! part to the largest card, by the vendors' product pages.

use super::{KIB, MORTON, NONE, Preset};
use crate::device::profile::{Estimate, ImageLines, IntegerCosts};
use crate::device::{ByteDots, LimitsClamp, Profile};

/// Products of 32-bit words, either half, at a quarter of the rate (AMD's instruction set guides of GCN and RDNA).
const AMD_INTEGERS: IntegerCosts =
    IntegerCosts { simple: Estimate::known(1.0), mul: Estimate::known(4.0), mul_high: Estimate::known(4.0) };

/// Products of 32-bit words take several passes of 16 bits; how many differs between generations.
const XE_INTEGERS: IntegerCosts = IntegerCosts {
    simple: Estimate::known(1.0),
    mul: Estimate::range(1.0, 2.0, 4.0),
    mul_high: Estimate::range(2.0, 4.0, 8.0),
};

/// 64 additions, shifts or products a cycle to 128 multiply-adds on f32 (CUDA programming guide, arithmetic throughput, 9.0).
const H200_INTEGERS: IntegerCosts =
    IntegerCosts { simple: Estimate::known(2.0), mul: Estimate::known(2.0), mul_high: Estimate::range(2.0, 4.0, 4.0) };

/// AMD in wave64 mode (GCN, and RDNA by request): 64 lanes, images of 16384 texels, 1024 invocations, and the 32 KiB of
/// shared memory that all of its drivers grant. From Vega 8 over RX 5700 XT to RX 7900 XTX.
pub(super) const AMD_WAVE64: Preset = Preset {
    name: "amd-wave64",
    limits: LimitsClamp {
        max_image_2d: Some(16384),
        max_workgroup_invocations: Some(1024),
        max_shared_memory: Some(32 * KIB),
        subgroup_size: Some(64),
        ..NONE
    },
    profile: Some(Profile {
        subgroups: [64, 64],
        // Of GCN; RDNA has lines of 128 bytes.
        line_bytes: 64,
        // Quarters of the 256-byte blocks of its swizzle modes.
        image_lines: MORTON,
        // 16 KiB a compute unit, 32 KiB from RDNA 3 on.
        l1_bytes: Estimate::range(16384.0, 16384.0, 32768.0),
        l2_bytes: Estimate::range(1048576.0, 4194304.0, 6291456.0),
        interleaved_subgroups: Estimate::range(4.0, 10.0, 40.0),
        invocations: Estimate::range(8192.0, 40960.0, 98304.0),
        flops_f32: Estimate::range(1.2e12, 9.7e12, 6.1e13),
        flops_f16: Estimate::range(2.4e12, 1.94e13, 1.22e14),
        matrix_f16: None,
        matrix_bf16: None,
        integers: AMD_INTEGERS,
        // A quarter of the rate of texels of 4 bytes.
        texels: Estimate::range(9.6e9, 7.6e10, 2.4e11),
        // 64 bytes a cycle and compute unit.
        buffer_bytes: Estimate::range(6.1e11, 4.9e12, 1.5e13),
        l2_rate: Estimate::range(3e11, 1.9e12, 6e12),
        memory_rate: Estimate::range(3.8e10, 4.48e11, 9.6e11),
        copy_rate: Estimate::range(3.4e10, 4e11, 8.6e11),
        // Not public.
        launch: Estimate::range(1e-6, 3e-6, 6e-6),
        barrier: Estimate::range(1e-6, 3e-6, 6e-6),
    }),
};

/// Intel Xe, from Iris Xe with 96 units over Arc A380 to Arc A770. Subgroups of 8 to 32; 16384 texels and 1024 invocations as Mesa's
/// driver reports them.
pub(super) const INTEL_XE: Preset = Preset {
    name: "intel-xe",
    limits: LimitsClamp {
        max_image_2d: Some(16384),
        max_workgroup_invocations: Some(1024),
        max_shared_memory: Some(64 * KIB),
        byte_dots: Some(ByteDots::Accelerated),
        subgroup_size: Some(32),
        ..NONE
    },
    profile: Some(Profile {
        subgroups: [8, 32],
        line_bytes: 64,
        // Tile 4 and Tile Y put 16 bytes by 4 rows into 64 bytes: Linux, include/uapi/drm/drm_fourcc.h.
        image_lines: ImageLines { texel4: [4, 4], texel8: [2, 4], texel16: [1, 4] },
        l1_bytes: Estimate::range(65536.0, 131072.0, 196608.0),
        l2_bytes: Estimate::range(3932160.0, 4194304.0, 16777216.0),
        interleaved_subgroups: Estimate::range(8.0, 16.0, 64.0),
        invocations: Estimate::range(8192.0, 16384.0, 65536.0),
        flops_f32: Estimate::range(2.07e12, 4.2e12, 1.72e13),
        flops_f16: Estimate::range(4.14e12, 8.4e12, 3.44e13),
        matrix_f16: None,
        matrix_bf16: None,
        integers: XE_INTEGERS,
        texels: Estimate::range(1.6e10, 3.2e10, 1.3e11),
        buffer_bytes: Estimate::range(5e11, 1e12, 4e12),
        l2_rate: Estimate::range(3e11, 5e11, 2e12),
        memory_rate: Estimate::range(5.1e10, 1.86e11, 5.6e11),
        copy_rate: Estimate::range(4.5e10, 1.6e11, 5e11),
        launch: Estimate::range(2e-6, 4e-6, 10e-6),
        barrier: Estimate::range(1e-6, 3e-6, 8e-6),
    }),
};

/// NVIDIA H200. Limits as the vendor's driver reports them for its recent GPUs.
pub(super) const H200: Preset = Preset {
    name: "h200",
    limits: LimitsClamp {
        max_image_2d: Some(32768),
        max_storage_buffer_range: Some(u32::MAX as u64),
        max_workgroup_invocations: Some(1024),
        max_shared_memory: Some(48 * KIB),
        subgroup_size: Some(32),
        shuffle_width: Some(32),
        ..NONE
    },
    profile: Some(Profile {
        subgroups: [32, 32],
        // Two of the 32-byte sectors that memory is fetched by.
        line_bytes: 64,
        // Block linear: 64 bytes by 8 rows, in sectors of 16 bytes by 2 rows (Mesa, src/nouveau/nil; inferred for this generation).
        image_lines: ImageLines { texel4: [4, 4], texel8: [2, 4], texel16: [1, 4] },
        // Of 256 KiB per multiprocessor, what shared memory leaves.
        l1_bytes: Estimate::range(131072.0, 196608.0, 262144.0),
        l2_bytes: Estimate::range(5.2e7, 6e7, 6.3e7),
        interleaved_subgroups: Estimate::range(8.0, 16.0, 64.0),
        // 132 multiprocessors of 512 to 2048 threads.
        invocations: Estimate::range(67584.0, 135168.0, 270336.0),
        // 67 TFLOP/s by the data sheet, without matrix units.
        flops_f32: Estimate::range(4.5e13, 6e13, 6.7e13),
        flops_f16: Estimate::range(9e13, 1.2e14, 1.34e14),
        matrix_f16: None,
        matrix_bf16: None,
        integers: H200_INTEGERS,
        // Four units per multiprocessor, a quarter of their rate at 16 bytes; walks of images reached 2.2 to 3.9 TB/s.
        texels: Estimate::range(1.4e11, 2.3e11, 2.6e11),
        // 128 bytes a cycle and multiprocessor.
        buffer_bytes: Estimate::range(1.5e13, 2.9e13, 3.3e13),
        l2_rate: Estimate::range(5e12, 6e12, 1e13),
        // Measured: a row walk of a buffer reads 4.1 TB/s, a copy moves 4.3.
        memory_rate: Estimate::range(3.8e12, 4.1e12, 4.8e12),
        copy_rate: Estimate::range(4.1e12, 4.3e12, 4.5e12),
        // Measured on an engine that submits each token: 2 to 3 microseconds for a dispatch and its barrier.
        launch: Estimate::range(0.7e-6, 1.2e-6, 2e-6),
        barrier: Estimate::range(0.5e-6, 1.2e-6, 2e-6),
    }),
};
