//! Limits of named devices, as far as public sources give them; a value nobody publishes is left to the device at hand.

use super::LimitsClamp;

const KIB: u32 = 1 << 10;
const MIB: u64 = 1 << 20;

const NONE: LimitsClamp = LimitsClamp {
    max_image_2d: None,
    max_storage_buffer_range: None,
    max_bound_bytes: None,
    storage_buffer_alignment: None,
    max_allocation: None,
    max_workgroup_invocations: None,
    max_workgroup_size: None,
    max_workgroup_count: None,
    max_shared_memory: None,
    max_storage_bindings: None,
    subgroup_size: None,
    shuffle_width: None,
    heap_bytes: None,
};

/// The presets by name.
pub(super) const PRESETS: [(&str, LimitsClamp); 4] = [
    ("vulkan-minimum", VULKAN_MINIMUM),
    ("adreno-830", ADRENO_830),
    ("mali-g715", MALI_G715),
    ("amd-wave64", AMD_WAVE64),
];

/// The preset of that name.
pub(super) fn find(name: &str) -> Option<LimitsClamp> {
    PRESETS.into_iter().find(|(known, _)| *known == name).map(|(_, clamp)| clamp)
}

/// What every Vulkan 1.1 device must offer: table "Required Limits" of the specification; the allocation size is the
/// least `maxMemoryAllocationSize` of maintenance3. The subgroup size has no useful minimum.
const VULKAN_MINIMUM: LimitsClamp = LimitsClamp {
    max_image_2d: Some(4096),
    max_storage_buffer_range: Some(128 * MIB),
    storage_buffer_alignment: Some(256),
    max_allocation: Some(1024 * MIB),
    max_workgroup_invocations: Some(128),
    max_workgroup_size: Some([128, 128, 64]),
    max_workgroup_count: Some([65535; 3]),
    max_shared_memory: Some(16 * KIB),
    max_storage_bindings: Some(4),
    shuffle_width: Some(0),
    ..NONE
};

/// Adreno 830. Image size and the 128 MiB binding range as the driver reports them; field reports of LoRA training on
/// this chip found that the *sum* of a dispatch's buffers is capped at 128 MiB too, so the preset takes the strict
/// reading. 32 KiB of shared memory and waves of 64 as in Mesa's freedreno tables; 1024 invocations.
const ADRENO_830: LimitsClamp = LimitsClamp {
    max_image_2d: Some(16384),
    max_storage_buffer_range: Some(128 * MIB),
    max_bound_bytes: Some(128 * MIB),
    max_workgroup_invocations: Some(1024),
    max_workgroup_count: Some([65535; 3]),
    max_shared_memory: Some(32 * KIB),
    subgroup_size: Some(64),
    ..NONE
};

/// Mali-G715: warps of 16, and shared memory that lives in the 32 KiB load/store cache (Arm's GPU data sheet).
const MALI_G715: LimitsClamp = LimitsClamp { max_shared_memory: Some(32 * KIB), subgroup_size: Some(16), ..NONE };

/// AMD in wave64 mode (GCN, and RDNA by request): 64 lanes, images of 16384 texels, 1024 invocations, and the 32 KiB of
/// shared memory that all of its drivers grant.
const AMD_WAVE64: LimitsClamp = LimitsClamp {
    max_image_2d: Some(16384),
    max_workgroup_invocations: Some(1024),
    max_shared_memory: Some(32 * KIB),
    subgroup_size: Some(64),
    ..NONE
};
