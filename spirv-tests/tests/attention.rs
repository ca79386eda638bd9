//! Attention by matrix units, forward and backward, whatever the shape would choose: masks, caps, slopes, sinks, heads that share, types of
//! keys and values, rows that nobody sees.

use fblayout::device::LimitsClamp;
use fblayout::graph::{Family, Form};
use fblayout::plan::{PlanOptions, StorageChoice, UpperBound, plan};
use fblayout_spirv_tests::{Case, STORAGES, VulkanDevice, cases, check_all};

fn device(storage: StorageChoice, more: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(&format!(r#"{{"products": {{"schedule": "matrix"}}{more}}}"#)).expect("a clamp");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device");
    assert!(!device.engine().limits().matrix_units.is_empty(), "the device has no matrix units");
    device
}

/// Not rows that are too long for shared memory, nor types that are decoded from blocks.
fn is_for_units(case: &Case) -> bool {
    let plain = case.dtypes().iter().all(|dtype| dtype.form() != Form::Block);
    plain && !["long heads", "long rows"].iter().any(|long| case.name.contains(long))
}

fn assert_cases(storage: StorageChoice, cases: &[Case], more: &str) {
    let device = device(storage, more);
    let limits = device.engine().limits();
    let by_units = |case: &&Case| {
        let plan = plan(&case.graph, limits, device.options(), &UpperBound(limits)).expect("a plan");
        plan.steps.iter().any(|step| step.shader.contains("_matrix"))
    };
    let others: Vec<_> = cases.iter().filter(|case| !by_units(case)).map(|case| &case.name).collect();
    assert!(others.is_empty(), "not by matrix units: {others:#?}");
    let lines: Vec<String> = check_all(&device, cases).iter().map(|f| format!("{storage:?} {f}")).collect();
    assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
    device.assert_valid();
}

fn all() -> Vec<Case> {
    cases::of(Family::Attention).into_iter().filter(is_for_units).collect()
}

/// Each case in one of both storages.
#[test]
#[ignore = "needs a device with matrix units"]
fn attention_by_matrix_units() {
    let (even, odd): (Vec<_>, Vec<_>) = all().into_iter().enumerate().partition(|(i, _)| i % 2 == 0);
    for (storage, cases) in STORAGES.into_iter().zip([even, odd]) {
        let cases: Vec<Case> = cases.into_iter().map(|(_, case)| case).collect();
        assert_cases(storage, &cases, "");
    }
}
