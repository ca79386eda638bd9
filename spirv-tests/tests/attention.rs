//! Attention by matrix units, forward and backward, whatever the shape would choose: masks, caps, slopes, sinks, heads that share, types of
//! keys and values, rows that nobody sees. And, however it is computed, values and their gradient as adjoints.

use fblayout::device::LimitsClamp;
use fblayout::graph::{Array, Family, Form, Op, decode};
use fblayout::plan::{PlanOptions, StorageChoice, UpperBound, plan};
use fblayout_spirv_tests::{Case, Device, STORAGES, VulkanDevice, cases, check_all, tolerance};

fn device(storage: StorageChoice, more: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(&format!(r#"{{"products": {{"schedule": "matrix"}}{more}}}"#)).expect("a clamp");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device");
    assert!(!device.engine().limits().matrix_units.is_empty(), "the device has no matrix units");
    device
}

/// Ways that the device's units compute it, as more of a clamp: those that take sums by way of shared memory as well.
fn ways() -> Vec<&'static str> {
    let takes_sums = device(STORAGES[0], "").engine().limits().matrix_sums;
    [""].into_iter().chain(takes_sums.then_some(r#", "matrix_sums": false"#)).collect()
}

/// Not rows that are too long for shared memory, nor types that are decoded from blocks; nor what other cases tell as well, since a processor
/// takes seconds to compile such a shader.
fn is_for_units(case: &Case) -> bool {
    let plain = case.dtypes().iter().all(|dtype| dtype.form() != Form::Block);
    let others = ["long heads", "long rows", "one key", "one token", "Q4_1 and F16", "BF16"];
    plain && !others.iter().any(|part| case.name.contains(part))
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
        ways().iter().for_each(|way| assert_cases(storage, &cases, way));
    }
}

/// Gradients in workgroups of fewer rows.
#[test]
#[ignore = "needs a device with matrix units"]
fn attention_by_matrix_units_in_little_memory() {
    let gradients = |case: &Case| case.name.contains("BACK") && case.name.contains("masked: 33 queries");
    let cases: Vec<Case> = all().into_iter().filter(gradients).collect();
    for way in ways() {
        assert_cases(STORAGES[0], &cases, &format!(r#"{way}, "max_shared_memory": 10240"#));
    }
}

/// What a case gives, and what it may be off by.
fn run(device: &VulkanDevice, case: &Case) -> [Array; 2] {
    let id = case.node().output;
    let desc = case.desc(id);
    let outcome = device.run(&case.graph, &case.data, &[id]).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let data = decode(desc.dtype, &outcome.bytes[0]).expect("whole elements");
    let inputs = case.inputs();
    let bounds = tolerance(&case.node().op, &inputs, &case.dtypes(), &case.expected(&inputs), outcome.rounded);
    [Array { shape: desc.shape, data }, bounds.into_iter().next().expect("one result")]
}

/// The result is linear in the values, and their gradient its adjoint: `<P v, dy> = <v, P^T dy>`, both sides from the device.
fn assert_adjoint(device: &VulkanDevice, name: &str) {
    let all = cases::of(Family::Attention);
    let named = |is: fn(&Op) -> bool| all.iter().find(|case| case.name.contains(name) && is(&case.node().op));
    let forward = named(|op| matches!(op, Op::FlashAttn(attention) if attention.logs)).expect("a result");
    let back = named(|op| matches!(op, Op::FlashAttnBackKv(_))).expect("its gradients");
    let [y, y_bound] = run(device, forward);
    let [gradient, gradient_bound] = run(device, back);
    let inputs = back.inputs();
    let (v, dy) = (&inputs[2], &inputs[inputs.len() - 1]);
    let of_result = |y: &Array, size: fn(f64) -> f64| sum_over(dy.shape, |at| y.at(at) * size(dy.at(at)));
    let of_values = |gradient: &Array, size: fn(f64) -> f64| {
        sum_over(v.shape, |[i, key, head, batch]| {
            gradient.at([i, v.shape[2] + head, key, batch]) * size(v.at([i, key, head, batch]))
        })
    };
    let (left, right) = (of_result(&y, |x| x), of_values(&gradient, |x| x));
    let bound = of_result(&y_bound, f64::abs) + of_values(&gradient_bound, f64::abs);
    assert!((left - right).abs() <= bound, "{name}: {left:e} and {right:e} +- {bound:e}");
}

fn sum_over(shape: [u32; 4], term: impl Fn([u32; 4]) -> f64) -> f64 {
    let mut sum = 0.0;
    for (b, head) in (0..shape[3]).flat_map(|b| (0..shape[2]).map(move |head| (b, head))) {
        for (row, i) in (0..shape[1]).flat_map(|row| (0..shape[0]).map(move |i| (row, i))) {
            sum += term([i, row, head, b]);
        }
    }
    sum
}

#[test]
fn values_and_their_gradient_are_adjoint() {
    let device = VulkanDevice::open(STORAGES[0]).expect("a Vulkan device");
    assert_adjoint(&device, "masked: 33 queries");
    device.assert_valid();
}

#[test]
#[ignore = "needs a device with matrix units"]
fn values_and_their_gradient_are_adjoint_by_matrix_units() {
    for way in ways() {
        let device = device(STORAGES[0], way);
        assert_adjoint(&device, "masked: 33 queries");
        device.assert_valid();
    }
}
