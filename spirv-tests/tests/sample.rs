//! The sample of every op, printed by kind of kernel. `FBL_CASE` narrows it to groups and cases by a part of their names.

use std::env;

use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{VulkanDevice, sample};

/// Width of the vectors that lavapipe was asked for: a lane of 32 bits for each invocation of a subgroup.
fn vector_bits() -> Option<u32> {
    env::var("LP_NATIVE_VECTOR_WIDTH").ok().map(|bits| bits.parse().expect("LP_NATIVE_VECTOR_WIDTH is a number"))
}

/// Runs every `step`-th case of the sample from number `first` on, and says what every group of them takes.
fn assert_sample(storage: StorageChoice, first: usize, step: usize) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    let adapter = device.engine().gpu().adapter();
    println!("{}, {}, subgroups of {}", adapter.name, adapter.driver, adapter.limits.subgroup_size);
    if let Some(bits) = vector_bits().filter(|_| adapter.name.starts_with("llvmpipe")) {
        assert_eq!(adapter.limits.subgroup_size, bits / 32, "lavapipe has another subgroup size than it was asked for");
    }
    let part = env::var("FBL_CASE").unwrap_or_default();
    let mut numbers = 0..;
    let mut wanted = |name: &str| name.contains(&part) && numbers.next().is_some_and(|number| number % step == first);
    let groups = sample(&device, &mut wanted, |group| println!("{storage:?} {group}"));
    assert!(groups.iter().any(|g| g.run > 0), "no case of the sample that the device takes has '{part}' in its name");
    let failures: Vec<String> = groups.into_iter().flat_map(|group| group.failures).collect();
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
    device.assert_valid();
}

#[test]
#[ignore = "a part of ops.rs and fused.rs"]
fn one_case_of_every_op_in_buffers() {
    assert_sample(StorageChoice::Buffer, 0, 1);
}

#[test]
#[ignore = "a part of ops.rs and fused.rs"]
fn one_case_of_every_op_in_images() {
    assert_sample(StorageChoice::Image, 0, 1);
}

// Half of the ops in each storage, for where compiling takes long.

#[test]
#[ignore = "a part of what is above"]
fn half_of_the_ops_in_buffers() {
    assert_sample(StorageChoice::Buffer, 0, 2);
}

#[test]
#[ignore = "a part of what is above"]
fn the_other_half_in_images() {
    assert_sample(StorageChoice::Image, 1, 2);
}
