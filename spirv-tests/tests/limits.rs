//! A sample of all cases on the device made smaller than it is: folded images, other tiles, small workgroups.

use fblayout::device::LimitsClamp;
use fblayout::plan::{PlanOptions, StorageChoice};
use fblayout_spirv_tests::{VulkanDevice, cases, check_all};

/// Every `step`-th case of each family, on a device clamped as the JSON says.
fn assert_sample(storage: StorageChoice, clamp: &str, step: usize) {
    let clamp = LimitsClamp::parse(clamp).expect("a clamp");
    let device = VulkanDevice::open_with(PlanOptions { storage, ..PlanOptions::default() }, Some(clamp))
        .expect("a Vulkan device");
    for family in cases::families() {
        let failures = check_all(&device, cases::of(family).iter().step_by(step));
        let lines: Vec<String> = failures.iter().map(|f| format!("{storage:?} {f}")).collect();
        assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
    }
    device.assert_valid();
}

/// Rows of more than 64 texels fold onto further rows of texels; what does not fit an image goes to a buffer.
#[test]
fn images_of_64_texels() {
    assert_sample(StorageChoice::Image, r#"{"max_image_2d": 64}"#, 4);
}

/// Tiles are chosen for the subgroup; a narrow machine runs small workgroups.
#[test]
fn small_workgroups_and_wide_subgroups() {
    let clamp = r#"{"max_workgroup_invocations": 64, "max_workgroup_size": [64, 64, 64], "subgroup_size": 64}"#;
    assert_sample(StorageChoice::Buffer, clamp, 3);
}
