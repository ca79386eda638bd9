//! One case of every op, printed by kind of kernel: for drivers and subgroup sizes beside those that `ops.rs` runs on, and for drivers
//! that are too slow for it (`docs/conformance.md`). `FBL_CASE` narrows it to groups and cases by a part of their names.

use std::collections::BTreeMap;
use std::env;
use std::time::Instant;

use fblayout::plan::{StorageChoice, supports};
use fblayout_spirv_tests::{Case, Failure, FusedCase, VulkanDevice, cases, check};

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

/// What a run of the sample did.
#[derive(Default)]
struct Tally {
    cases: usize,
    failures: Vec<String>,
}

impl Tally {
    /// Runs what a group has and prints how much of it passes.
    fn run<T>(&mut self, group: &str, refused: usize, cases: &[T], check: impl Fn(&T) -> Result<(), Failure>) {
        if cases.is_empty() && refused == 0 {
            return;
        }
        let start = Instant::now();
        let failed: Vec<String> = cases.iter().filter_map(|c| Some(format!("{group} {}", check(c).err()?))).collect();
        let passed = cases.len() - failed.len();
        println!("{group}: {passed} of {} pass, {refused} refused, {:.1?}", cases.len(), start.elapsed());
        self.cases += cases.len();
        self.failures.extend(failed);
    }
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
    let part = env::var("FBL_CASE").unwrap_or_default();
    let families = cases::families().map(|family| (format!("{family:?}"), cases::of(family)));
    let types = [("Stored".to_owned(), cases::stored()), ("Encoded".to_owned(), cases::encoded())];
    let mut tally = Tally::default();
    for (group, cases) in families.chain(types) {
        let wanted = |case: &Case| format!("{group} {}", case.name).contains(&part);
        let cases: Vec<Case> = one_of_each_op(cases).into_iter().filter(wanted).collect();
        let (cases, refused): (Vec<Case>, Vec<Case>) = cases
            .into_iter()
            .partition(|case| supports(&case.graph, device.engine().limits(), device.options()).is_ok());
        tally.run(&format!("{storage:?} {group}"), refused.len(), &cases, |case| check(&device, case));
    }
    let fused = cases::fused().into_iter().step_by(FUSED_STEP);
    let fused: Vec<FusedCase> = fused.filter(|case| format!("Fused {}", case.name).contains(&part)).collect();
    tally.run(&format!("{storage:?} Fused"), 0, &fused, |case| case.check(&device));
    assert!(tally.cases > 0, "no case of the sample that the device takes has '{part}' in its name");
    let failures = tally.failures;
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
