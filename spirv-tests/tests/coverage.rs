//! Every shader module serves some case, but for those that compute nothing: those of the micro-benchmarks (`fblayout probe`), and what
//! repacks transfers (`backend/tests/vulkan_repack.rs`).

use std::collections::BTreeSet;

use fblayout::device::{Limits, LimitsClamp, MatrixType, MatrixUnit, ProductSchedule, Products};
use fblayout::graph::Family;
use fblayout::plan::{PlanOptions, UpperBound, plan};
use fblayout_shaders::SHADERS;
use fblayout_spirv_tests::{STORAGES, VulkanDevice, cases};

#[test]
fn every_shader_is_run_by_a_case() {
    let mut run = BTreeSet::new();
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let copied = cases::copied_blocks().into_iter().map(|(case, _)| case);
        let special = cases::stored().into_iter().chain(cases::encoded()).chain(copied);
        for case in cases::families().flat_map(cases::of).chain(special) {
            let plan = device.engine().plan(&case.graph).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            run.extend(plan.steps.iter().map(|step| step.shader));
        }
        for case in cases::fused() {
            let plan =
                case.plan(device.engine().limits(), device.options()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            run.extend(plan.steps.iter().map(|step| step.shader));
        }
    }
    // Steps of optimizers in as few operands as Vulkan promises, and attention in parts that fill a wide device.
    let device = VulkanDevice::open(STORAGES[0]).expect("a Vulkan device");
    for (preset, family) in [("vulkan-minimum", Family::Optimizer), ("amd-wave64", Family::Attention)] {
        let limits = LimitsClamp::parse(preset).expect("a preset").apply(device.engine().limits());
        for case in cases::of(family) {
            let plan = plan(&case.graph, &limits, PlanOptions::default(), &UpperBound(&limits));
            run.extend(plan.unwrap_or_else(|e| panic!("{}: {e}", case.name)).steps.iter().map(|step| step.shader));
        }
    }
    // Products through shared memory, of bytes and by matrix units (tests/gemm.rs, tests/attention.rs), which a processor has only where it is asked.
    let unit = |factors| MatrixUnit { factors, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
    for (schedule, matrix_units, matrix_sums) in [
        (ProductSchedule::Staged, Vec::new(), false),
        (ProductSchedule::Across, Vec::new(), false),
        (ProductSchedule::Matrix, vec![unit(MatrixType::F16)], false),
        (ProductSchedule::Matrix, vec![unit(MatrixType::F16)], true),
        (ProductSchedule::Matrix, vec![unit(MatrixType::Bf16)], false),
    ] {
        let products = Products { schedule: Some(schedule), dots: Some(true), ..Products::default() };
        let limits = Limits { products, matrix_units, matrix_sums, ..device.engine().limits().clone() };
        let products = [Family::Gemm, Family::Attention].into_iter().flat_map(cases::of);
        for case in products.chain(cases::stored()) {
            let plan = plan(&case.graph, &limits, PlanOptions::default(), &UpperBound(&limits));
            run.extend(plan.unwrap_or_else(|e| panic!("{}: {e}", case.name)).steps.iter().map(|step| step.shader));
        }
        for case in cases::fused() {
            // What a schedule refuses is refused where cases are run, too.
            let plan = case.plan(&limits, device.options());
            run.extend(plan.iter().flat_map(|plan| plan.steps.iter().map(|step| step.shader)));
        }
    }
    // Products of few columns, with norms and twins, and with right factors as bytes (tests/gemm.rs).
    for dots in [None, Some(true)] {
        let products = Products { schedule: Some(ProductSchedule::Across), dots, ..Products::default() };
        let limits = Limits { products, ..device.engine().limits().clone() };
        for case in cases::normed().iter().chain(&cases::fused()) {
            let plan = case.plan(&limits, device.options());
            run.extend(plan.iter().flat_map(|plan| plan.steps.iter().map(|step| step.shader)));
        }
        for case in cases::dots() {
            let plan = plan(&case.graph, &limits, PlanOptions::default(), &UpperBound(&limits));
            run.extend(plan.unwrap_or_else(|e| panic!("{}: {e}", case.name)).steps.iter().map(|step| step.shader));
        }
    }
    run.extend(["probe", "probe_matrix", "probe_matrix_bf16", "repack_in", "repack_out"]);
    let idle: Vec<_> = SHADERS.iter().map(|s| s.name).filter(|name| !run.contains(name)).collect();
    assert!(idle.is_empty(), "no case runs {idle:?}");
}
