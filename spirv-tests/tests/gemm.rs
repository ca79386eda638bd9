//! Products in every schedule, whatever the shape would choose: the four directions, types of weights, batches, parts of k, epilogues.

use fblayout::device::LimitsClamp;
use fblayout::graph::{Family, Op};
use fblayout::plan::{PlanOptions, StorageChoice};
use fblayout_spirv_tests::{Case, STORAGES, VulkanDevice, cases, check_all};

/// Schedules asked for: the tile that shapes choose most, one that is narrow along m with a single buffer, one that is long
/// along k, and sums across a workgroup.
const SCHEDULES: [&str; 4] = [
    r#"{"schedule": "staged"}"#,
    r#"{"schedule": "staged", "tile": {"quads_m": 1, "quads_n": 2, "lanes_m": 2, "lanes_n": 4, "quads_k": 8, "buffers": 1}}"#,
    r#"{"schedule": "staged", "tile": {"quads_m": 2, "quads_n": 1, "lanes_m": 8, "lanes_n": 2, "quads_k": 2}}"#,
    r#"{"schedule": "across"}"#,
];

/// The rotation of heads of 64, which asks for a tile of its own, and everything else in what fits 16 KiB.
const SMALL: &str =
    r#", "max_shared_memory": 16384, "max_workgroup_invocations": 128, "max_workgroup_size": [128, 128, 64]"#;

fn device(storage: StorageChoice, schedule: &str, more: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(&format!(r#"{{"products": {schedule}{more}}}"#)).expect("a clamp");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device")
}

/// Whether a case has something that no other of the sample has for schedules: shapes that are edges of every tile, all
/// directions at once, weights in both of theirs.
fn tells(case: &Case) -> bool {
    let tells = [
        "k 33 m 65 n 3",
        "k 130 m 50 n 13",
        "k 33 m 17 n 9,",
        "k 96 m 33 n 2",
        "floats",
        "shared heads",
        "Q4_1 heads",
        "lanes along",
        "long k",
    ];
    !case.name.contains("tokens") && tells.iter().any(|part| case.name.contains(part))
}

fn assert_cases(cases: &[Case], schedule: &str, more: &str) {
    for storage in STORAGES {
        let device = device(storage, schedule, more);
        let lines: Vec<String> = check_all(&device, cases).iter().map(|f| format!("{storage:?} {f}")).collect();
        assert!(lines.is_empty(), "{schedule}: {} cases fail\n{}", lines.len(), lines.join("\n"));
        device.assert_valid();
    }
}

fn products() -> Vec<Case> {
    let of_gemm = |case: &Case| matches!(case.node().op, Op::MulMat | Op::OutProd) && tells(case);
    cases::of(Family::Gemm).into_iter().filter(of_gemm).collect()
}

#[test]
fn staged() {
    let few: Vec<Case> = products().into_iter().step_by(4).collect();
    assert_cases(&few, SCHEDULES[0], "");
}

#[test]
fn staged_narrow_in_one_buffer() {
    let few: Vec<Case> = products().into_iter().step_by(2).collect();
    assert_cases(&few, SCHEDULES[1], "");
}

#[test]
fn staged_in_little_memory() {
    let few: Vec<Case> = products().into_iter().step_by(3).collect();
    assert_cases(&few, SCHEDULES[2], SMALL);
}

#[test]
fn across() {
    assert_cases(&products(), SCHEDULES[3], "");
}

/// Blocks as the host has them are decoded by other modules.
#[test]
fn blocks_in_every_schedule() {
    let of_blocks = |case: &Case| {
        matches!(case.node().op, Op::MulMat | Op::OutProd)
            && case.dtypes()[0].is_quantized()
            && !case.name.contains("long k")
            && !case.name.contains("large")
    };
    let cases: Vec<Case> = cases::stored().into_iter().filter(of_blocks).collect();
    let few: Vec<Case> = cases.into_iter().step_by(7).collect();
    for schedule in [SCHEDULES[1], SCHEDULES[3]] {
        assert_cases(&few, schedule, "");
    }
}

/// Epilogues, second products and rotations.
#[test]
fn fused_in_every_schedule() {
    for (schedule, storage) in SCHEDULES.into_iter().zip(STORAGES.into_iter().cycle()) {
        let device = device(storage, schedule, "");
        let of_products = |op: &Op| matches!(op, Op::MulMat | Op::OutProd);
        let cases = cases::fused().into_iter().filter(|case| of_products(&case.fused.op)).step_by(11);
        let fails = |error: String| (!error.contains("parts of k takes none")).then_some(error);
        let lines: Vec<String> =
            cases.filter_map(|case| fails(format!("{storage:?} {}", case.check(&device).err()?))).collect();
        assert!(lines.is_empty(), "{schedule}: {} cases fail\n{}", lines.len(), lines.join("\n"));
        device.assert_valid();
    }
}
