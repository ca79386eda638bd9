//! One case of every op, printed by kind of kernel: for drivers and subgroup sizes beside those that `ops.rs` runs on, and for drivers
//! that are too slow for it (`docs/conformance.md`).

use std::collections::BTreeMap;
use std::env;
use std::time::Instant;

use fblayout::plan::{StorageChoice, supports};
use fblayout_spirv_tests::{Case, Failure, VulkanDevice, cases, check};

/// Fused cases that are left out between two that run.
const FUSED_STEP: usize = 12;

/// Of the cases of each op the one in the middle, since the outer ones are the smallest and the odd ones.
fn one_of_each_op(cases: Vec<Case>) -> Vec<Case> {
    let mut ops: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for case in cases {
        ops.entry(case.node().op.row().name).or_default().push(case);
    }
    ops.into_values().map(|mut cases| cases.swap_remove(cases.len() / 2)).collect()
}

/// Prints how many cases of a group pass, and returns those that do not.
fn report(group: &str, refused: usize, start: Instant, outcomes: Vec<Result<(), Failure>>) -> Vec<String> {
    let count = outcomes.len();
    let failed: Vec<String> = outcomes.into_iter().filter_map(|o| Some(format!("{group} {}", o.err()?))).collect();
    println!("{group}: {} of {count} pass, {refused} refused, {:.1?}", count - failed.len(), start.elapsed());
    failed
}

/// Width of the vectors that lavapipe was asked for: a lane of 32 bits for each invocation of a subgroup.
fn vector_bits() -> Option<u32> {
    env::var("LP_NATIVE_VECTOR_WIDTH").ok().map(|bits| bits.parse().expect("LP_NATIVE_VECTOR_WIDTH is a number"))
}

/// Runs the sample, and says what every group of cases takes.
fn assert_sample(storage: StorageChoice) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    let adapter = device.engine().gpu().adapter();
    println!("{}, {}, subgroups of {}", adapter.name, adapter.driver, adapter.limits.subgroup_size);
    if let Some(bits) = vector_bits().filter(|_| adapter.name.starts_with("llvmpipe")) {
        assert_eq!(adapter.limits.subgroup_size, bits / 32, "lavapipe has another subgroup size than it was asked for");
    }
    let families = cases::families().map(|family| (format!("{storage:?} {family:?}"), cases::of(family)));
    let types = [("stored", cases::stored()), ("encoded", cases::encoded())];
    let types = types.map(|(name, cases)| (format!("{storage:?} {name}"), cases));
    let mut failures = Vec::new();
    for (group, cases) in families.chain(types) {
        let start = Instant::now();
        let (cases, refused): (Vec<Case>, Vec<Case>) = one_of_each_op(cases)
            .into_iter()
            .partition(|case| supports(&case.graph, device.engine().limits(), device.options()).is_ok());
        let outcomes = cases.iter().map(|case| check(&device, case)).collect();
        failures.extend(report(&group, refused.len(), start, outcomes));
    }
    let start = Instant::now();
    let outcomes = cases::fused().iter().step_by(FUSED_STEP).map(|case| case.check(&device)).collect();
    failures.extend(report(&format!("{storage:?} fused"), 0, start, outcomes));
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
    device.assert_valid();
}

#[test]
#[ignore = "a part of ops.rs and fused.rs"]
fn one_case_of_every_op_in_buffers() {
    assert_sample(StorageChoice::Buffer);
}

#[test]
#[ignore = "a part of ops.rs and fused.rs"]
fn one_case_of_every_op_in_images() {
    assert_sample(StorageChoice::Image);
}
