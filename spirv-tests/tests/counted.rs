//! What dispatches load and store, counted on the device, against what the cost model reads off their constants.
//!
//! Ignored unless asked for: the modules that count are compiled by `./x counted`, which runs these tests.

use fblayout::device::LimitsClamp;
use fblayout::plan::{PlanOptions, Policy, StorageChoice};
use fblayout_spirv_tests::{Case, CountedDevice, CountingDevice, STORAGES, cases, check_all};

/// Bytes of operands up to which a case is small.
const SMALL: usize = 1 << 18;

/// Every `step`-th small case of each family that is counted.
fn sample(step: usize) -> impl Iterator<Item = Case> {
    let small = |case: &Case| case.data.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= SMALL;
    cases::COUNTED.iter().flat_map(move |&family| cases::of(family).into_iter().filter(small).step_by(step))
}

/// Every `step`-th of the fused dispatches; what they compute is another test's concern.
fn assert_fused(device: &CountedDevice, options: PlanOptions, step: usize) {
    let mut failures = Vec::new();
    for case in cases::fused().iter().step_by(step) {
        let plan = case.plan(device.gpu().limits(), options);
        // A product in parts of k takes no rotation, and the schedules of some devices have such parts.
        if plan.as_ref().is_err_and(|why| why.contains("parts of k takes none")) {
            continue;
        }
        let run = plan.and_then(|plan| device.run(plan, &case.data, case.written()));
        let differences = run.map_or_else(|e| vec![e], |run| run.differences());
        failures.extend(differences.into_iter().map(|what| format!("{}: {what}", case.name)));
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
    assert_eq!(device.gpu().validation_messages(), Vec::<String>::new());
}

/// Counts agree with the model and results with the oracle.
fn assert_counts(device: &CountedDevice, options: PlanOptions, step: usize) {
    let cases: Vec<Case> = sample(step).collect();
    let failures = check_all(&CountingDevice { device, options }, &cases);
    let lines: Vec<String> = failures.iter().map(|f| format!("{:?} {f}", options.storage)).collect();
    assert!(lines.is_empty(), "{} of {} cases fail\n{}", lines.len(), cases.len(), lines.join("\n"));
    assert_eq!(device.gpu().validation_messages(), Vec::<String>::new());
}

#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn every_small_case_in_buffers() {
    let device = CountedDevice::open(None).expect("a device and modules");
    assert_counts(&device, PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() }, 1);
}

#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn every_small_case_in_images() {
    let device = CountedDevice::open(None).expect("a device and modules");
    assert_counts(&device, PlanOptions { storage: StorageChoice::Image, ..PlanOptions::default() }, 1);
}

/// With epilogues, and two products in one dispatch.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn fused_dispatches() {
    let device = CountedDevice::open(None).expect("a device and modules");
    for policy in [Policy::Full, Policy::FusedElementwise] {
        assert_fused(&device, PlanOptions { storage: StorageChoice::Image, policy, ..PlanOptions::default() }, 2);
    }
}

/// Rows that lie by themselves: no padding rows, and other ways for products to read.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn row_major_homes() {
    let device = CountedDevice::open(None).expect("a device and modules");
    let options =
        PlanOptions { storage: StorageChoice::Image, policy: Policy::HonestRowmajor, ..PlanOptions::default() };
    assert_counts(&device, options, 3);
}

/// The schedules of a GPU: tiles in shared memory, workgroups across k or along n, sums in parts, no shuffles.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn schedules_of_wide_subgroups() {
    let narrow = r#""max_workgroup_invocations": 64, "max_workgroup_size": [64, 64, 64], "subgroup_size": 64"#;
    for (products, step) in [("{}", 5), (r#"{"schedule": "direct"}"#, 7)] {
        let clamp = LimitsClamp::parse(&format!(r#"{{"products": {products}, {narrow}}}"#)).expect("a clamp");
        let device = CountedDevice::open(Some(clamp)).expect("a device and modules");
        for storage in STORAGES {
            let options = PlanOptions { storage, ..PlanOptions::default() };
            assert_counts(&device, options, step);
            assert_fused(&device, options, step + 2);
        }
    }
}
