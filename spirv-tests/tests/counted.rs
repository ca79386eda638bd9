//! What dispatches load and store, counted on the device, against what the cost model reads off their constants.
//!
//! Ignored unless asked for: the modules that count are compiled by `./x counted`, which runs these tests.

use fblayout::device::LimitsClamp;
use fblayout::graph::Family;
use fblayout::plan::{PlanOptions, Policy, StorageChoice};
use fblayout_spirv_tests::{Case, CountedDevice, CountingDevice, FusedCase, STORAGES, cases, check_all};

/// Bytes of operands up to which a case is small.
const SMALL: usize = 1 << 18;

/// Every `step`-th small case of a family.
fn sample(family: Family, step: usize) -> impl Iterator<Item = Case> {
    let small = |case: &Case| case.data.iter().map(|(_, bytes)| bytes.len()).sum::<usize>() <= SMALL;
    cases::of(family).into_iter().filter(small).step_by(step)
}

/// Every `step`-th of the fused dispatches.
fn assert_fused(device: &CountedDevice, options: PlanOptions, step: usize) {
    assert_counts_of_fused(cases::fused().iter().step_by(step), device, options);
}

/// Counts agree with the model; what the dispatches compute is another test's concern.
fn assert_counts_of_fused<'a>(
    cases: impl Iterator<Item = &'a FusedCase>,
    device: &CountedDevice,
    options: PlanOptions,
) {
    let mut failures = Vec::new();
    for case in cases {
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

/// Counts agree with the model and results with the oracle, in every `step`-th small case of each family that is counted.
fn assert_counts(device: &CountedDevice, options: PlanOptions, step: usize) {
    let cases: Vec<Case> = cases::COUNTED.iter().flat_map(|&family| sample(family, step)).collect();
    assert_counts_of(&cases, device, options);
}

fn assert_counts_of(cases: &[Case], device: &CountedDevice, options: PlanOptions) {
    let failures = check_all(&CountingDevice { device, options }, cases);
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

/// The subgroups of a GPU, and workgroups of as many invocations.
fn wide_subgroups(products: &str) -> CountedDevice {
    let clamp = format!(
        r#"{{"products": {products}, "max_workgroup_invocations": 64, "max_workgroup_size": [64, 64, 64], "subgroup_size": 64}}"#
    );
    CountedDevice::open(Some(LimitsClamp::parse(&clamp).expect("a clamp"))).expect("a device and modules")
}

/// Workgroups spread along n, sums in parts, no shuffles.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn schedules_of_wide_subgroups() {
    let device = wide_subgroups(r#"{"schedule": "direct"}"#);
    for storage in STORAGES {
        let options = PlanOptions { storage, ..PlanOptions::default() };
        assert_counts(&device, options, 5);
        assert_fused(&device, options, 7);
    }
}

/// Tiles in shared memory, workgroups across k. Few: such shaders take a processor seconds to compile.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn products_of_wide_subgroups() {
    let options = PlanOptions { storage: StorageChoice::Image, ..PlanOptions::default() };
    for (products, step) in [("{}", 5), (r#"{"schedule": "staged"}"#, 11), (r#"{"schedule": "across"}"#, 7)] {
        let device = wide_subgroups(products);
        let cases: Vec<Case> = sample(Family::Gemm, step).collect();
        assert_counts_of(&cases, &device, options);
    }
    assert_fused(&wide_subgroups("{}"), options, 17);
}

/// Norms before products of few columns, and twins, from both storages.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn norms_before_products() {
    let device = wide_subgroups(r#"{"schedule": "across"}"#);
    // Few rows of a long k want more invocations than a workgroup of this device has.
    let cases: Vec<FusedCase> = cases::normed()
        .into_iter()
        .filter(|case| !["k 2048", "F16, 2 heads"].iter().any(|long| case.name.contains(long)))
        .collect();
    for (storage, first) in STORAGES.into_iter().zip([0, 1]) {
        let options = PlanOptions { storage, ..PlanOptions::default() };
        assert_counts_of_fused(cases.iter().skip(first).step_by(6), &device, options);
    }
}

/// Right factors as bytes: a step takes whole blocks.
#[test]
#[ignore = "needs the counting modules: ./x counted"]
fn right_factors_as_bytes() {
    let device = wide_subgroups(r#"{"schedule": "across", "dots": true}"#);
    let cases: Vec<Case> = cases::dots().into_iter().filter(|case| case.name.contains("m 33")).collect();
    for storage in STORAGES {
        assert_counts_of(&cases, &device, PlanOptions { storage, ..PlanOptions::default() });
    }
}
