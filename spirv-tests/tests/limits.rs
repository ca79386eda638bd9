//! A sample of all cases on the device made smaller than it is: presets, folded images, other tiles, small workgroups, ops in pieces.

use std::collections::BTreeSet;

use fblayout::device::{Limits, LimitsClamp};
use fblayout::graph::{Binary, DType, Desc, Family, Op, Shape, Unary};
use fblayout::kernels::Source;
use fblayout::plan::{PlanOptions, StorageChoice, supports};
use fblayout_spirv_tests::{Case, Fill, FusedSetup, STORAGES, Setup, VulkanDevice, cases, check, check_all};

/// Limits of devices that the bounded suite stands in for.
const PRESETS: [&str; 4] = ["vulkan-minimum", "adreno-830", "mali-g715", "amd-wave64"];

/// Ops whose shaders bind more than the four operands that Vulkan promises, and cannot do with fewer.
const MANY_OPERANDS: [&str; 10] = [
    "DSV4_HC_POST",
    "FLASH_ATTN_BACK_KV",
    "FLASH_ATTN_BACK_Q",
    "FLASH_ATTN_EXT",
    "GATED_DELTA_NET",
    "GATED_LINEAR_ATTN",
    "LIGHTNING_INDEXER",
    "RWKV_WKV6",
    "RWKV_WKV7",
    "SSM_SCAN",
];

fn clamped(storage: StorageChoice, clamp: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(clamp).expect("a clamp");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device")
}

/// Every `step`-th case of each family, on a device clamped as the text says.
fn assert_sample(storage: StorageChoice, clamp: &str, step: usize) {
    let device = clamped(storage, clamp);
    for family in cases::families() {
        let failures = check_all(&device, cases::of(family).iter().step_by(step));
        let lines: Vec<String> = failures.iter().map(|f| format!("{storage:?} {f}")).collect();
        assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
    }
    device.assert_valid();
}

/// Rows of more than 64 texels fold onto further rows of texels; what does not fit an image goes to a buffer.
#[test]
fn images_of_64_texels() {
    assert_sample(StorageChoice::Image, r#"{"max_image_2d": 64}"#, 15);
}

/// Tiles are chosen for the subgroup; a narrow machine runs small workgroups.
#[test]
fn small_workgroups_and_wide_subgroups() {
    let clamp = r#"{"max_workgroup_invocations": 64, "max_workgroup_size": [64, 64, 64], "subgroup_size": 64}"#;
    assert_sample(StorageChoice::Buffer, clamp, 13);
}

/// Attention as a GPU computes it, which fetches several quads before it waits and has teams of invocations: of tiles that are short, of
/// rows that are no multiple of these, of keys that nobody sees, of parts.
#[test]
fn attention_on_a_gpu() {
    let is_forward = |case: &Case| matches!(case.node().op, Op::FlashAttn(_));
    let cases: Vec<Case> = cases::of(Family::Attention).into_iter().filter(is_forward).collect();
    let gpu = r#"{"subgroup_size": 32}"#;
    let small = r#"{"subgroup_size": 32, "max_shared_memory": 16384}"#;
    let narrow = r#"{"subgroup_size": 32, "max_workgroup_invocations": 4}"#;
    // A processor takes the longer to compile such a shader, the more teams there are and the longer the rows.
    let teams = r#"{"subgroup_size": 32, "max_workgroup_invocations": 32}"#;
    for (storage, clamp, names) in [
        (StorageChoice::Buffer, teams, &["hidden", "all at once, of one query", "quantized", "many keys"][..]),
        (StorageChoice::Image, teams, &["all at once, of one query: ", "one query, hidden"]),
        (StorageChoice::Buffer, gpu, &["odd heads", "no quads", "of three heads"]),
        (StorageChoice::Buffer, small, &["one query, long heads"]),
        (StorageChoice::Buffer, narrow, &["hidden", "odd heads", "four heads"]),
    ] {
        let cases: Vec<&Case> = cases.iter().filter(|case| names.iter().any(|name| case.name.contains(name))).collect();
        assert!(cases.len() >= names.len());
        let device = clamped(storage, clamp);
        let failures = check_all(&device, cases.iter().copied());
        let lines: Vec<String> = failures.iter().map(|f| format!("{storage:?} {clamp} {f}")).collect();
        assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
        device.assert_valid();
    }
}

/// Long rows and sums over repeats as a large GPU shares them: 1024 invocations for a tile of rows, up to 256 for a sum.
#[test]
fn long_rows_and_repeats_on_a_large_gpu() {
    let long = |op: Op, shape: Shape, inputs: usize| {
        let mut s = Setup::new();
        let inputs = (0..inputs).map(|_| s.f32(shape, Fill::Floats(2.0))).collect();
        s.case(format!("long rows {shape:?}"), op, inputs)
    };
    let sum = |from: Shape, to: Shape| {
        let mut s = Setup::new();
        let inputs = vec![s.f32(from, Fill::Integers)];
        s.case_as(format!("sum {from:?} to {to:?}"), Op::RepeatBack, inputs, Desc::f32(to))
    };
    let cases = [
        long(Op::RmsNorm { eps: 1e-5 }, [4099, 3, 1, 1], 1),
        long(Op::SoftMaxBack { scale: 0.5 }, [2051, 5, 2, 1], 2),
        long(Op::CrossEntropyLoss, [4100, 3, 1, 1], 2),
        long(Op::ArgMax, [4099, 6, 1, 1], 1),
        sum([65, 133, 1, 1], [65, 1, 1, 1]),
        sum([9, 5, 60, 2], [3, 1, 1, 1]),
        sum([8, 12, 7, 40], [8, 3, 7, 1]),
        sum([1, 1100, 1, 1], [1, 1, 1, 1]),
    ];
    let mut s = Setup::new();
    let inputs = vec![s.f32([36, 60, 3, 1], Fill::Integers)];
    let mut s = FusedSetup::new_as(s, Op::RepeatBack, inputs, [36, 5, 1, 1]);
    let bias = s.extra_f32([36, 1, 1, 1], Fill::Integers);
    s.step(Op::Binary(Binary::Add), &[Source::Result(0), bias]);
    let biased = s.case("with a bias");
    for storage in STORAGES {
        let device = clamped(storage, r#"{"subgroup_size": 32}"#);
        for case in &cases {
            check(&device, case).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
        }
        biased.check(&device).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
        device.assert_valid();
    }
}

/// Every case has a plan under every preset, but for ops that bind more than the smallest device does.
#[test]
fn presets_refuse_only_what_binds_too_much() {
    for preset in PRESETS {
        let limits = LimitsClamp::parse(preset).expect("a preset").complete(&Limits::USUAL);
        for storage in [StorageChoice::Auto, StorageChoice::Buffer, StorageChoice::Image] {
            let options = PlanOptions { storage, ..PlanOptions::default() };
            let mut refused = BTreeSet::new();
            for case in cases::families().flat_map(cases::of).chain(cases::stored()) {
                if let Err(error) = supports(&case.graph, &limits, options) {
                    let text = error.to_string();
                    assert!(text.contains("binds more than 4 operands"), "{preset} {storage:?} {}: {text}", case.name);
                    refused.insert(case.node().op.row().name);
                }
            }
            let expected = if preset == "vulkan-minimum" { MANY_OPERANDS.into() } else { BTreeSet::new() };
            assert_eq!(refused, expected, "{preset} {storage:?}");
        }
    }
}

/// A few cases of each family under a preset, in the storage that it prefers.
fn assert_preset(preset: &str) {
    let device = clamped(StorageChoice::Auto, preset);
    let mut lines = Vec::new();
    for family in cases::families() {
        let supported = |case: &Case| supports(&case.graph, device.engine().limits(), device.options()).is_ok();
        let cases: Vec<Case> = cases::of(family).into_iter().filter(supported).collect();
        let few = cases.iter().step_by(cases.len().div_ceil(PRESET_CASES).max(1));
        lines.extend(check_all(&device, few).iter().map(|f| format!("{preset} {f}")));
    }
    assert!(lines.is_empty(), "{} cases fail\n{}", lines.len(), lines.join("\n"));
    device.assert_valid();
}

/// Cases of each family under a preset.
const PRESET_CASES: usize = 2;

#[test]
fn vulkan_minimum() {
    assert_preset("vulkan-minimum");
}

#[test]
fn adreno_830() {
    assert_preset("adreno-830");
}

#[test]
fn mali_g715() {
    assert_preset("mali-g715");
}

#[test]
fn amd_wave64() {
    assert_preset("amd-wave64");
}

/// Runs cases in more dispatches than they have where nothing is clamped.
fn assert_in_pieces(storage: StorageChoice, clamp: &str, cases: &[Case]) {
    let (small, whole) = (clamped(storage, clamp), clamped(storage, "{}"));
    for case in cases {
        let [pieces, one] = [&small, &whole].map(|device| {
            let plan = device.engine().plan(&case.graph).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            plan.steps.len()
        });
        assert!(pieces > one, "{}: {pieces} dispatches, {one} of the whole", case.name);
        check(&small, case).unwrap_or_else(|failure| panic!("{failure}"));
    }
    small.assert_valid();
}

fn product(name: &str, op: Op, a: (DType, Shape), b: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(a.0, a.1, Fill::Floats(1.0)), s.f32(b, Fill::Floats(1.0))];
    s.case(format!("{name} {a:?} {b:?}"), op, inputs)
}

/// The head of a model and its input gradient, whose weights are several times what one binding or one dispatch holds.
#[test]
fn heads_beyond_the_range_of_a_buffer() {
    let heads = |dtype| {
        let (d, vocab, tokens) = (256, 1500, 5);
        let mut s = Setup::new();
        let w = s.input(dtype, [d, vocab, 1, 1], Fill::Floats(1.0));
        let dlogits = s.f32([vocab, tokens, 1, 1], Fill::Floats(1.0));
        let gradient = dlogits.permute([1, 0, 2, 3]).expect("a permutation");
        let back = s.case(format!("head's gradient {dtype:?}"), Op::OutProd, vec![w, gradient]);
        [product("head", Op::MulMat, (dtype, [d, vocab, 1, 1]), [d, tokens, 1, 1]), back]
    };
    let cases: Vec<Case> = [DType::Q8_0, DType::Q4_K, DType::F32].into_iter().flat_map(heads).collect();
    let range = r#"{"max_storage_buffer_range": 131072, "storage_buffer_alignment": 256}"#;
    let sum = r#"{"max_storage_buffer_range": 131072, "max_bound_bytes": 131072, "storage_buffer_alignment": 256}"#;
    for clamp in [range, sum] {
        assert_in_pieces(StorageChoice::Buffer, clamp, &cases);
    }
}

/// Sums along rows that no binding holds.
#[test]
fn long_sums_are_cut() {
    let cases = [product("along rows", Op::OutProd, (DType::F32, [36, 900, 1, 1]), [12, 900, 1, 1])];
    assert_in_pieces(StorageChoice::Buffer, r#"{"max_storage_buffer_range": 32768}"#, &cases);
}

/// Ops on whole tensors, and on rows, beyond what a dispatch binds or counts.
#[test]
fn elementwise_ops_and_rows_in_pieces() {
    let one = |op: Op, shape| {
        let mut s = Setup::new();
        let inputs = vec![s.f32(shape, Fill::Floats(1.0))];
        s.case(format!("{shape:?}"), op, inputs)
    };
    let odd = [101, 37, 3, 2];
    let cases = [
        one(Op::Unary(Unary::Neg), odd),
        one(Op::RmsNorm { eps: 1e-5 }, odd),
        one(Op::soft_max(0.5), [33, 300, 1, 1]),
        product("many rows", Op::MulMat, (DType::F32, [8, 704, 1, 1]), [8, 33, 1, 1]),
    ];
    assert_in_pieces(
        StorageChoice::Buffer,
        r#"{"max_storage_buffer_range": 32768, "storage_buffer_alignment": 256}"#,
        &cases,
    );
    for storage in STORAGES {
        assert_in_pieces(storage, r#"{"max_workgroup_count": [5, 4, 2]}"#, &cases);
    }
}
