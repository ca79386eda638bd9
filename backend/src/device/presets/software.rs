//! Vulkan on a processor.

use super::{KIB, MIB, NONE, Preset};
use crate::device::profile::{Estimate, ImageLines, IntegerCosts};
use crate::device::{LimitsClamp, Profile};

/// The rates below are those of whole kernels, index arithmetic included.
const INTEGERS: IntegerCosts =
    IntegerCosts { simple: Estimate::known(0.0), mul: Estimate::known(0.0), mul_high: Estimate::known(0.0) };

/// Mesa's lavapipe 25 on two cores with vectors of 256 bits. Limits as it reports them.
pub(super) const LAVAPIPE: Preset = Preset {
    name: "lavapipe",
    limits: LimitsClamp {
        max_image_2d: Some(16384),
        max_storage_buffer_range: Some(128 * MIB),
        max_allocation: Some(2048 * MIB),
        max_workgroup_invocations: Some(1024),
        max_workgroup_count: Some([65535; 3]),
        max_shared_memory: Some(32 * KIB),
        subgroup_size: Some(8),
        shuffle_width: Some(8),
        ..NONE
    },
    profile: Some(Profile {
        subgroups: [8, 8],
        line_bytes: 64,
        // Images are stored linearly.
        image_lines: ImageLines { texel4: [16, 1], texel8: [8, 1], texel16: [4, 1] },
        l1_bytes: Estimate::range(32768.0, 32768.0, 49152.0),
        l2_bytes: Estimate::range(1048576.0, 2097152.0, 8388608.0),
        interleaved_subgroups: Estimate::known(1.0),
        // Two threads of eight lanes.
        invocations: Estimate::known(16.0),
        // Products reach 56 to 67 GFLOP/s from images, which are not what bounds them.
        flops_f32: Estimate::range(5.5e10, 6.7e10, 9e10),
        // No arithmetic in f16: it is converted.
        flops_f16: Estimate::range(5.5e10, 6.7e10, 9e10),
        matrix_f16: None,
        matrix_bf16: None,
        integers: INTEGERS,
        // Those products load 0.7e9 to 1.6e9 texels a second.
        texels: Estimate::range(7e8, 1.5e9, 2.5e9),
        // From buffers 0.3e9, with weights beyond the caches, to 0.9e9, each in a line of its own.
        buffer_bytes: Estimate::range(1.2e10, 3e10, 6e10),
        // Of the processor; not measured.
        l2_rate: Estimate::range(2e10, 4e10, 8e10),
        memory_rate: Estimate::range(5e9, 1e10, 2e10),
        copy_rate: Estimate::range(3e9, 6e9, 1.2e10),
        // Products of 0.9 MFLOP take 34 to 80 microseconds, launch included.
        launch: Estimate::range(5e-6, 1.5e-5, 5e-5),
        barrier: Estimate::range(1e-6, 5e-6, 2e-5),
    }),
};
