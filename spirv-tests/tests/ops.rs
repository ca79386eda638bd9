//! Every case on the device, in buffers and in images, with the adjoint pairs; no validation message.

use fblayout::graph::Family;
use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{Case, Device, STORAGES, VulkanDevice, adjoints, cases, check_all};

fn assert_family(family: Family) {
    STORAGES.into_iter().for_each(|storage| assert_family_in(family, storage));
}

fn assert_family_in(family: Family, storage: StorageChoice) {
    assert_cases(&cases::of(family), storage);
}

fn assert_cases(cases: &[Case], storage: StorageChoice) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    let failures = check_all(&device, cases);
    let lines: Vec<String> = failures.iter().map(|f| format!("{storage:?} {f}")).collect();
    assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
    device.assert_valid();
}

#[test]
fn gemm_in_buffers() {
    assert_family_in(Family::Gemm, StorageChoice::Buffer);
}

#[test]
fn gemm_in_images() {
    assert_family_in(Family::Gemm, StorageChoice::Image);
}

#[test]
fn attention() {
    assert_family(Family::Attention);
}

#[test]
fn experts() {
    assert_family(Family::Experts);
}

#[test]
fn elementwise() {
    assert_family(Family::Elementwise);
}

#[test]
fn functions() {
    assert_family(Family::Function);
}

#[test]
fn copy_and_repeat() {
    assert_family(Family::Copy);
}

/// Types that the cost model only estimates.
#[test]
fn stored_types() {
    for storage in STORAGES {
        assert_cases(&cases::stored(), storage);
    }
}

/// Types that numbers are encoded in.
#[test]
fn encoded_types() {
    for storage in STORAGES {
        assert_cases(&cases::encoded(), storage);
    }
}

#[test]
fn copies_of_blocks_are_exact() {
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        for (case, expected) in cases::copied_blocks() {
            let outcome =
                device.run(&case.graph, &case.data, &case.outputs()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            assert!(outcome.bytes[0] == expected, "{storage:?} {}", case.name);
        }
        device.assert_valid();
    }
}

#[test]
fn rows() {
    assert_family(Family::Rows);
}

#[test]
fn rope() {
    assert_family(Family::Rope);
}

#[test]
fn moves() {
    assert_family(Family::Move);
}

#[test]
fn samples() {
    assert_family(Family::Sample);
}

#[test]
fn generated() {
    assert_family(Family::Generate);
}

#[test]
fn gather() {
    assert_family(Family::Gather);
}

#[test]
fn repeat_back() {
    assert_family(Family::RepeatBack);
}

#[test]
fn cross_entropy() {
    assert_family(Family::CrossEntropy);
}

#[test]
fn optimizer() {
    assert_family(Family::Optimizer);
}

#[test]
fn convolution() {
    assert_family(Family::Convolution);
}

#[test]
fn pool() {
    assert_family(Family::Pool);
}

#[test]
fn reduce() {
    assert_family(Family::Reduce);
}

#[test]
fn sort() {
    assert_family(Family::Sort);
}

#[test]
fn insets() {
    assert_family(Family::Inset);
}

#[test]
fn recurrences() {
    assert_family(Family::Recurrent);
}

#[test]
fn mixing() {
    assert_family(Family::Mixing);
}

#[test]
fn adjoint_pairs() {
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let failures = adjoints().into_iter().filter_map(|pair| pair.check(&device).err());
        let lines: Vec<String> = failures.map(|f| format!("{storage:?} {f}")).collect();
        assert!(lines.is_empty(), "{} pairs fail\n{}", lines.len(), lines.join("\n"));
        device.assert_valid();
    }
}
