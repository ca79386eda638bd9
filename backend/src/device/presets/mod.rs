//! Named devices: their limits and their profiles, as far as public sources or measurements of this project give them. A limit that
//! nobody publishes is left to the device at hand; a figure that nobody publishes is a range.

mod adreno;
mod desktop;
mod mali;
mod software;

use super::profile::ImageLines;
use super::{ByteDots, LimitsClamp, Products, Profile};

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
    matrix_units: None,
    matrix_sums: None,
    byte_dots: None,
    heap_bytes: None,
    products: None,
};

/// Products of phones, whose texture caches are beside the arithmetic, and whose shared memory is not faster.
const FROM_CACHES: Option<Products> = Some(Products { from_caches: true, ..Products::NONE });

/// A named device.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name, as options take it.
    pub name: &'static str,
    /// What it cannot do.
    pub limits: LimitsClamp,
    /// What it does; none for a name that is no machine.
    pub profile: Option<Profile>,
}

/// Every preset.
pub static PRESETS: [Preset; 9] = [
    Preset { name: "vulkan-minimum", limits: VULKAN_MINIMUM, profile: None },
    adreno::ADRENO_830,
    adreno::ADRENO_730,
    mali::G715,
    mali::G925,
    desktop::AMD_WAVE64,
    desktop::INTEL_XE,
    desktop::H200,
    software::LAVAPIPE,
];

impl Preset {
    /// The preset of that name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Those that are machines, with what each does.
    pub fn machines() -> impl Iterator<Item = (&'static Self, &'static Profile)> {
        PRESETS.iter().filter_map(|preset| Some((preset, preset.profile.as_ref()?)))
    }
}

/// Lines of 64 bytes in the order of Morton: blocks of 16 by 16 texels on Mali (docs.mesa3d.org, drivers/panfrost/tiling), of
/// 256 bytes on Adreno 6xx and 7xx (Mesa, src/freedreno/fdl).
const MORTON: ImageLines = ImageLines { texel4: [4, 4], texel8: [4, 2], texel16: [2, 2] };

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
    matrix_units: Some(Vec::new()),
    byte_dots: Some(ByteDots::None),
    ..NONE
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Case, Estimate};

    #[test]
    fn ranges_are_in_order_and_positive() {
        for preset in &PRESETS {
            let Some(p) = &preset.profile else { continue };
            let estimates: [Estimate; 13] = [
                p.l1_bytes,
                p.l2_bytes,
                p.interleaved_subgroups,
                p.invocations,
                p.flops_f32,
                p.flops_f16,
                p.texels,
                p.buffer_bytes,
                p.l2_rate,
                p.memory_rate,
                p.copy_rate,
                p.launch,
                p.barrier,
            ];
            for e in estimates {
                assert!(0.0 < e.lo && e.lo <= e.mid && e.mid <= e.hi, "{}: {e:?}", preset.name);
                assert!(Case::Slow.more(e) <= Case::Fast.more(e) && Case::Fast.less(e) <= Case::Slow.less(e));
            }
            for e in [p.integers.simple, p.integers.mul, p.integers.mul_high] {
                assert!(0.0 <= e.lo && e.lo <= e.mid && e.mid <= e.hi, "{}: {e:?}", preset.name);
            }
            for bytes in [4, 8, 16] {
                let [width, height] = p.image_line(bytes).unwrap();
                assert_eq!(width * height * bytes, p.line_bytes, "{}: a line is a whole rectangle", preset.name);
            }
            assert_eq!(p.image_line(12), None);
            let subgroup = preset.limits.subgroup_size.unwrap();
            assert!(p.subgroups[0] <= subgroup && subgroup <= p.subgroups[1], "{}", preset.name);
        }
    }

    #[test]
    fn profiles_survive_json() {
        for profile in PRESETS.iter().filter_map(|p| p.profile.as_ref()) {
            let json = serde_json::to_string(profile).unwrap();
            assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), *profile);
        }
    }
}
