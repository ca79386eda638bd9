//! Every family of ops in pieces: on a device of which a binding holds a part of an operand, in buffers.

use std::collections::BTreeSet;

use fblayout::device::LimitsClamp;
use fblayout::graph::{
    DType, Desc, FlashAttn, Inset, Op, Operand, Pool, PoolKind, Rope, RopeMode, Sampling, Shape, Triangle, Window,
};
use fblayout::plan::{PlanOptions, StorageChoice, supports};
use fblayout_spirv_tests::{Case, Fill, Setup, VulkanDevice, cases, check};

/// Bytes of a binding, which has whole rows of texels; operands that are cut have several times as many.
const RANGE: &str = r#"{"max_storage_buffer_range": 16384, "storage_buffer_alignment": 64}"#;
/// Bytes of all that a dispatch binds.
const SUM: &str = r#"{"max_storage_buffer_range": 16384, "max_bound_bytes": 32768, "storage_buffer_alignment": 64}"#;
const GROUPS: &str = r#"{"max_workgroup_count": [4, 3, 2]}"#;

/// Ops whose result is one vector of two kinds of elements, or which add to elements from anywhere, or count from the first one.
const UNCUT: [&str; 7] =
    ["ARANGE", "COL2IM_1D", "GATED_DELTA_NET", "GATED_LINEAR_ATTN", "RWKV_WKV6", "RWKV_WKV7", "SSM_SCAN"];

fn clamped(clamp: &str) -> VulkanDevice {
    let clamp = LimitsClamp::parse(clamp).expect("a clamp");
    let options = PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() };
    VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device")
}

/// Runs cases in more dispatches than they have where nothing is clamped.
fn assert_in_pieces(clamp: &str, cases: impl IntoIterator<Item = Case>) {
    let (small, whole) = (clamped(clamp), clamped("{}"));
    let failures: Vec<String> = cases
        .into_iter()
        .filter_map(|case| {
            let steps = |device: &VulkanDevice| device.engine().plan(&case.graph).map(|plan| plan.steps.len());
            let one = steps(&whole).expect("a plan of the whole");
            match steps(&small) {
                Ok(pieces) if pieces > one => check(&small, &case).err().map(|failure| failure.to_string()),
                Ok(pieces) => Some(format!("{}: {pieces} dispatches, {one} of the whole", case.name)),
                Err(error) => Some(format!("{}: {error}", case.name)),
            }
        })
        .collect();
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
    small.assert_valid();
}

/// F32 operands, and the output that follows from them.
fn of(op: Op, fill: &Fill, inputs: &[Shape]) -> Case {
    let mut s = Setup::new();
    let operands = inputs.iter().map(|&shape| s.f32(shape, fill.clone())).collect();
    s.case(format!("{inputs:?}"), op, operands)
}

/// The same with a stated output.
fn to(op: Op, inputs: &[Shape], output: Shape) -> Case {
    let mut s = Setup::new();
    let operands = inputs.iter().map(|&shape| s.f32(shape, Fill::Integers)).collect();
    s.case_as(format!("{inputs:?} to {output:?}"), op, operands, Desc::f32(output))
}

fn floats(op: Op, inputs: &[Shape]) -> Case {
    of(op, &Fill::Floats(1.5), inputs)
}

fn integers(op: Op, inputs: &[Shape]) -> Case {
    of(op, &Fill::Integers, inputs)
}

#[test]
fn tables_and_matrices_that_ids_pick() {
    let gather = |dtype, table: Shape, ids: Shape| {
        let mut s = Setup::new();
        let inputs = vec![s.input(dtype, table, Fill::Floats(3.0)), s.input(DType::I32, ids, Fill::Ids(table[1]))];
        s.case(format!("{dtype:?} {table:?} by {ids:?}"), Op::GetRows, inputs)
    };
    let mut all = vec![
        gather(DType::F32, [39, 507, 1, 1], [33, 1, 1, 1]),
        gather(DType::Q8_0, [64, 507, 1, 1], [33, 1, 1, 1]),
        gather(DType::Q4_K, [256, 150, 1, 1], [7, 1, 1, 1]),
        gather(DType::F32, [16, 50, 3, 9], [5, 3, 9, 1]),
    ];
    let mut s = Setup::new();
    let inputs = vec![s.f32([36, 20, 1, 1], Fill::Integers), s.input(DType::I32, [20, 1, 1, 1], Fill::Ids(501))];
    all.push(s.case_as("rows", Op::GetRowsBack, inputs, Desc::f32([36, 501, 1, 1])));
    let strange = vec![11.0, 12.0, -1.0, 0.0, 1e9, 1.0, 5.0, -7.0];
    for (dtype, a, ids) in
        [(DType::F32, [36, 21, 12, 1], Fill::Given(strange)), (DType::Q8_0, [64, 24, 13, 1], Fill::Ids(13))]
    {
        let mut s = Setup::new();
        let inputs = vec![
            s.input(dtype, a, Fill::Integers),
            s.f32([a[0], 1, 4, 1], Fill::Integers),
            s.input(DType::I32, [2, 4, 1, 1], ids),
        ];
        all.push(s.case(format!("{dtype:?} {a:?}"), Op::MulMatId, inputs));
    }
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([33, 3, 60, 1], Fill::Floats(2.0)),
        s.f32([33, 4, 1, 1], Fill::Floats(2.0)),
        s.input(DType::I32, [3, 60, 1, 1], Fill::Ids(4)),
    ];
    all.push(s.case("tokens", Op::AddId, inputs));
    assert_in_pieces(RANGE, all);
}

/// Queries and keys of a cache of rows, where only ranges of keys are fewer rows, and by head.
fn attentions() -> Vec<Case> {
    const MASKED: FlashAttn =
        FlashAttn { scale: 0.125, max_bias: 0.0, softcap: 0.0, mask: true, sinks: false, logs: false };
    let (n, heads, keys, queries) = (64, 2, 203, 3);
    let mask = |keys: u32, queries: u32| {
        let row = move |row: u32| (0..keys).map(move |key| if key > row * 50 + 20 { f32::NEG_INFINITY } else { -0.5 });
        Fill::Given((0..queries).flat_map(row).collect())
    };
    let of_rows = |attention: FlashAttn| {
        let mut s = Setup::new();
        let mut inputs = vec![s.f32([n, queries, 2 * heads, 1], Fill::Floats(2.0))];
        for dtype in [DType::F16, DType::Q8_0] {
            let cache = s.input(dtype, [n * heads, keys + 5, 1, 1], Fill::Floats(2.0));
            let strides = [1, n * heads, n, 0].map(u64::from);
            inputs.push(Operand { shape: [n, keys, heads, 1], strides, ..cache });
        }
        inputs.push(s.input(DType::F16, [keys, queries, 1, 1], mask(keys, queries)));
        inputs.extend(attention.sinks.then(|| s.f32([2 * heads, 1, 1, 1], Fill::Floats(3.0))));
        s.case(format!("of a cache of rows, sinks {}", attention.sinks), Op::FlashAttn(attention), inputs)
    };
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([32, 9, 24, 1], Fill::Floats(2.0)),
        s.f32([32, 21, 3, 1], Fill::Floats(2.0)),
        s.f32([24, 21, 6, 1], Fill::Floats(2.0)),
        s.input(DType::F16, [21, 11, 2, 1], mask(21, 22)),
        s.f32([24, 1, 1, 1], Fill::Floats(3.0)),
    ];
    let sloped = FlashAttn { max_bias: 8.0, sinks: true, ..MASKED };
    let by_head = s.case("slopes of 24 heads", Op::FlashAttn(sloped), inputs);
    vec![of_rows(MASKED), of_rows(FlashAttn { sinks: true, ..MASKED }), by_head]
}

#[test]
fn attention_by_heads_and_keys() {
    assert_in_pieces(RANGE, attentions());
}

fn inset(op: fn(Inset) -> Op, base: (DType, Shape), inset: Inset, ids: Option<Vec<f32>>, in_place: bool) -> Case {
    let mut s = Setup::new();
    let [n0, n1, ..] = inset.shape;
    let rows = ids.as_ref().map_or(n1, |ids| ids.len() as u32);
    let mut inputs = vec![s.input(base.0, base.1, Fill::Floats(2.0)), s.f32([n0, rows, 1, 1], Fill::Floats(2.0))];
    inputs.extend(ids.map(|ids| s.input(DType::I32, [rows, 1, 1, 1], Fill::Given(ids))));
    let (name, value) = (format!("{base:?} in place {in_place}"), inputs[0].value);
    if in_place { s.case_into(name, op(inset), inputs, value) } else { s.case(name, op(inset), inputs) }
}

#[test]
fn parts_of_large_tensors() {
    let of_rows = |n: u32, from: u32, rows: u32, all: u32| Inset {
        shape: [n, rows, 1, 1],
        strides: [1, n, n * all, n * all],
        offset: n * from,
    };
    let ids = vec![899.0, 0.0, 450.0, 77.0, 901.0];
    let mut all = Vec::new();
    for in_place in [true, false] {
        all.push(inset(Op::Set, (DType::F32, [40, 600, 1, 1]), of_rows(40, 60, 300, 600), None, in_place));
        all.push(inset(Op::Acc, (DType::F32, [40, 600, 1, 1]), of_rows(40, 60, 300, 600), None, in_place));
        let cache = (DType::F16, [24, 900, 1, 1]);
        all.push(inset(Op::SetRows, cache, of_rows(24, 0, 900, 900), Some(ids.clone()), in_place));
    }
    assert_in_pieces(RANGE, all);
}

/// Patches and convolutions by images and channels, and by rows within one image.
fn windows() -> Vec<Case> {
    let uneven = Window { stride: [2, 1, 2], pad: [1, 2, 1], dilation: [1, 2, 1] };
    let padded = Window { pad: [8, 50, 0], ..Window::PLAIN };
    let pool = Pool { kind: PoolKind::Max, extent: [3, 2], stride: [2, 3], pad: [1, 1] };
    let line = Pool { kind: PoolKind::Average, extent: [4, 1], stride: [3, 1], pad: [2, 0] };
    vec![
        integers(Op::Im2Col { window: uneven, plane: true }, &[[3, 2, 3, 1], [9, 7, 3, 24]]),
        integers(Op::Im2Col { window: uneven, plane: true }, &[[3, 3, 2, 1], [20, 21, 2, 1]]),
        integers(Op::Im2Col { window: uneven, plane: false }, &[[3, 5, 1, 1], [30, 5, 31, 1]]),
        integers(Op::Im2Col3d { window: uneven, channels: 2 }, &[[3, 2, 2, 4], [7, 5, 6, 24]]),
        to(Op::Im2ColBack { window: uneven, plane: true }, &[[18, 5, 9, 12], [3, 2, 3, 1]], [9, 7, 3, 12]),
        integers(Op::Conv2d(uneven), &[[3, 2, 2, 40], [9, 7, 2, 9]]),
        integers(Op::Conv2d(padded), &[[3, 3, 1, 1], [8, 100, 1, 1]]),
        integers(Op::Conv2dDw(uneven), &[[3, 3, 1, 40], [9, 7, 40, 3]]),
        integers(Op::Conv3d { window: uneven, channels: 2 }, &[[3, 2, 2, 6], [8, 5, 4, 48]]),
        integers(Op::ConvTranspose1d { stride: 2 }, &[[5, 403, 1, 1], [7, 1, 1, 1]]),
        integers(Op::ConvTranspose2d { stride: 2 }, &[[3, 4, 5, 3], [4, 3, 3, 25]]),
        to(Op::Pool2d(pool), &[[11, 8, 3, 30]], [6, 3, 3, 30]),
        to(Op::Pool2dBack(pool), &[[6, 3, 3, 30], [11, 8, 3, 30]], [11, 8, 3, 30]),
        to(Op::Pool1d(line), &[[17, 5, 60, 1]], [6, 5, 60, 1]),
    ]
}

#[test]
fn sliding_windows() {
    assert_in_pieces(RANGE, windows());
}

#[test]
fn values_at_other_places() {
    let upscale = Op::Upscale { sampling: Sampling::Nearest, align_corners: false };
    let all = [
        floats(Op::Concat { axis: 1 }, &[[11, 300, 1, 1], [11, 301, 1, 1]]),
        floats(Op::Concat { axis: 2 }, &[[11, 5, 32, 1], [11, 5, 70, 1]]),
        to(Op::Pad { before: [1, 2, 0, 0] }, &[[9, 5, 32, 4]], [12, 9, 32, 4]),
        to(Op::PadCircular { before: [1, 2, 0, 0] }, &[[9, 5, 32, 4]], [12, 9, 32, 4]),
        to(Op::PadReflect { before: 3 }, &[[13, 300, 1, 1]], [18, 300, 1, 1]),
        floats(Op::Roll { shift: [2, 0, 3, 0] }, &[[9, 5, 7, 30]]),
        floats(Op::DiagMaskInf { past: 5 }, &[[60, 300, 1, 1]]),
        floats(Op::Tri(Triangle::Lower), &[[131, 131, 1, 1]]),
        floats(Op::Diag, &[[101, 1, 1, 1]]),
        to(upscale, &[[3, 4, 5, 12]], [6, 8, 10, 24]),
        to(Op::Repeat, &[[7, 3, 1, 1]], [7, 900, 1, 1]),
        to(Op::RepeatBack, &[[16, 4, 30, 9]], [16, 1, 30, 9]),
        to(Op::Copy, &[[16, 9, 100, 1]], [144, 100, 1, 1]),
        to(Op::Fill { value: 3.5 }, &[], [33, 300, 1, 1]),
        to(Op::TimestepEmbedding { max_period: 100 }, &[[300, 1, 1, 1]], [32, 300, 1, 1]),
    ];
    assert_in_pieces(RANGE, all);
}

#[test]
fn rows_and_their_heads() {
    let mut all = vec![
        of(Op::CumSum, &Fill::Integers, &[[33, 150, 1, 1]]),
        of(Op::Mean, &Fill::Floats(1.0), &[[33, 150, 2, 1]]),
        of(Op::ArgMax, &Fill::Peaks, &[[33, 301, 1, 1]]),
        of(Op::ArgSort { descending: true }, &Fill::Floats(1.0), &[[33, 150, 1, 1]]),
        floats(Op::GroupNorm { groups: 2, eps: 1e-5 }, &[[9, 7, 4, 40]]),
        floats(Op::MulMat, &[[32, 20, 4, 1], [32, 9, 24, 1]]),
    ];
    let mut s = Setup::new();
    let x = s.f32([33, 150, 1, 1], Fill::Floats(1.0));
    all.push(s.case_as("5 of 33", Op::TopK, vec![x], Desc { dtype: DType::I32, shape: [5, 150, 1, 1] }));
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([33, 3, 60, 1], Fill::Floats(2.0)),
        s.input(DType::F16, [33, 3, 1, 1], Fill::Floats(2.0)),
        s.f32([60, 1, 1, 1], Fill::Floats(2.0)),
    ];
    all.push(s.case("slopes of 60 heads", Op::SoftMax { scale: 0.5, max_bias: 8.0, sinks: true }, inputs));
    let plain = Rope::plain(RopeMode::Neox, 20, 2048, 10_000.0);
    let sections = Rope { mode: RopeMode::Multi, sections: [3, 2, 4, 1], ..plain };
    for (rope, shape, positions) in [(plain, [33, 3, 50, 1], 50), (sections, [33, 3, 48, 2], 4 * 48)] {
        let mut s = Setup::new();
        let inputs = vec![s.f32(shape, Fill::Floats(2.0)), s.input(DType::I32, [positions, 1, 1, 1], Fill::Ids(2048))];
        all.push(s.case(format!("{:?} {shape:?}", rope.mode), Op::Rope(rope), inputs));
    }
    assert_in_pieces(RANGE, all);
}

#[test]
fn sums_of_all() {
    let mut all = vec![integers(Op::Sum, &[[33, 3, 60, 2]])];
    let mut s = Setup::new();
    let inputs = (0..2).map(|_| s.input(DType::I32, [33, 203, 1, 1], Fill::Ids(3))).collect();
    all.push(s.case("rows", Op::CountEqual, inputs));
    for op in [Op::CrossEntropyLoss, Op::CrossEntropyLossBack] {
        let mut s = Setup::new();
        let mut inputs = vec![s.f32([301, 37, 1, 1], Fill::Peaks), s.f32([301, 37, 1, 1], Fill::OneHot)];
        if op == Op::CrossEntropyLossBack {
            inputs.insert(0, s.f32([1; 4], Fill::Positive));
        }
        all.push(s.case("rows", op, inputs));
    }
    assert_in_pieces(RANGE, all);
}

#[test]
fn channels_streams_and_columns() {
    let mut all = vec![
        integers(Op::SsmConv, &[[12, 40, 30, 1], [4, 40, 1, 1]]),
        floats(Op::Dsv4HcComb { eps: 1e-3, iterations: 2 }, &[[24, 300, 1, 1], [3, 1, 1, 1], [24, 1, 1, 1]]),
        floats(Op::Dsv4HcPre { scale: 0.5, gated: true }, &[[9, 4, 150, 1], [9, 4, 150, 1]]),
        floats(Op::Dsv4HcPost, &[[9, 150, 1, 1], [9, 4, 150, 1], [4, 150, 1, 1], [4, 4, 150, 1]]),
    ];
    let mut s = Setup::new();
    let triangle = (0..7 * 7 * 200).map(|i| if i % 7 == i / 7 % 7 { 1.5 } else { 0.125 }).collect();
    let inputs = vec![s.f32([7, 7, 2, 100], Fill::Given(triangle)), s.f32([5, 7, 2, 100], Fill::Floats(1.0))];
    all.push(s.case("many", Op::SolveTri, inputs));
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([16, 5, 3, 1], Fill::Floats(1.0)),
        s.f32([16, 1, 700, 1], Fill::Floats(1.0)),
        s.f32([5, 3, 1, 1], Fill::Floats(1.0)),
        s.input(DType::F16, [700, 3, 1, 1], Fill::Floats(1.0)),
    ];
    all.push(s.case("700 keys", Op::LightningIndexer, inputs));
    assert_in_pieces(RANGE, all);
}

/// What a dispatch binds altogether, and how many workgroups it has.
#[test]
fn other_limits() {
    let ids = vec![599.0, 0.0, 450.0, 77.0];
    let cache = Inset { shape: [24, 900, 1, 1], strides: [1, 24, 21600, 21600], offset: 0 };
    let cache = || inset(Op::SetRows, (DType::F16, [24, 900, 1, 1]), cache, Some(ids.clone()), true);
    assert_in_pieces(SUM, attentions().into_iter().take(1).chain([cache()]));
    let grouped = attentions().into_iter().skip(2).chain(windows().into_iter().step_by(5));
    assert_in_pieces(GROUPS, grouped);
}

/// What is not cut at all is refused with its name and the limit.
#[test]
fn what_is_not_cut_is_named() {
    let clamp = LimitsClamp::parse(r#"{"max_storage_buffer_range": 256, "storage_buffer_alignment": 16}"#);
    let device = clamped("{}");
    let limits = clamp.expect("a clamp").complete(device.engine().limits());
    let mut refused = BTreeSet::new();
    for case in cases::families().flat_map(cases::of) {
        let name = case.node().op.row().name;
        if let (true, Err(error)) = (UNCUT.contains(&name), supports(&case.graph, &limits, device.options())) {
            let text = error.to_string();
            assert!(text.contains("more than a dispatch holds"), "{}: {text}", case.name);
            assert!(text.contains(&format!("{name} is not cut")), "{}: {text}", case.name);
            refused.insert(name);
        }
    }
    assert_eq!(refused, UNCUT.into());
}
