//! Every fused case on the device, in buffers and in images; no validation message.

use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{VulkanDevice, cases};

fn assert_fused(storage: StorageChoice) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    let failures: Vec<String> =
        cases::fused().iter().filter_map(|case| Some(format!("{storage:?} {}", case.check(&device).err()?))).collect();
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
    device.assert_valid();
}

#[test]
fn fused_in_buffers() {
    assert_fused(StorageChoice::Buffer);
}

#[test]
fn fused_in_images() {
    assert_fused(StorageChoice::Image);
}
