//! What every op becomes.

use std::collections::HashMap;

use proptest::prelude::*;

use super::super::dispatch::Builder;
use super::super::{Access, Arg, Dispatch, Lowered, Operand, lower};
use super::{home, limits};
use crate::graph::{
    Binary, DType, FlashAttn, Gate, Op, Pool, PoolKind, Rope, RopeMode, Sampling, Shape, Unary, Window,
};

fn f32s(shape: Shape) -> Operand {
    home(DType::F32, shape, 4)
}

fn ids(n: u32) -> Operand {
    home(DType::I32, [n, 1, 1, 1], 1)
}

fn rope(mode: RopeMode, back: bool) -> Op {
    Op::Rope(Rope { freq_scale: 0.5, ext_factor: 1.0, back, ..Rope::plain(mode, 16, 2048, 10000.0) })
}

fn attention(all: bool) -> FlashAttn {
    FlashAttn { scale: 0.5, max_bias: 0.0, softcap: 0.0, mask: all, sinks: all, logs: all }
}

/// Queries, keys, values, a mask and sinks.
fn attended() -> Vec<Operand> {
    let (keys, values) = (home(DType::Q8_0, [64, 300, 3, 2], 4), home(DType::F16, [32, 300, 3, 1], 4));
    vec![f32s([64, 5, 6, 2]), keys, values, home(DType::F16, [300, 7, 1, 2], 1), f32s([6, 1, 1, 1])]
}

/// Ops with operands they take, and their output.
fn examples() -> Vec<(Op, Vec<Operand>, Operand)> {
    let (s, row, scalar) = ([33, 6, 3, 2], [33, 1, 1, 1], [1; 4]);
    let x = || f32s(s);
    let picks = home(DType::I32, [2, 5, 1, 1], 1);
    let window = Window::PLAIN;
    let pool = Pool { kind: PoolKind::Max, extent: [3, 2], stride: [2, 1], pad: [0, 1] };
    let mut examples = vec![
        (Op::Scale { scale: 0.5, bias: 1.0 }, vec![x()], x()),
        (Op::SiluBack, vec![x(), x()], x()),
        (Op::TanhBack, vec![x(), x()], x()),
        (Op::GeluBack, vec![x(), x()], x()),
        (Op::SwiGlu, vec![x(), x()], x()),
        (Op::GeGlu, vec![x(), x()], x()),
        (Op::Pad { before: [1, 0, 2, 0] }, vec![x()], f32s([34, 6, 5, 2])),
        (Op::RmsNorm { eps: 1e-5 }, vec![x()], x()),
        (Op::RmsNormBack { eps: 1e-5 }, vec![x(), x()], x()),
        (Op::soft_max(0.5), vec![x()], x()),
        (Op::soft_max(0.5), vec![x(), f32s([33, 8, 1, 1])], x()),
        (Op::SoftMaxBack { scale: 0.5 }, vec![x(), x()], x()),
        (Op::Repeat, vec![f32s([11, 2, 1, 2])], x()),
        (Op::RepeatBack, vec![x()], f32s([11, 2, 1, 2])),
        (Op::Copy, vec![x()], home(DType::F16, s, 4)),
        (Op::Copy, vec![x()], f32s([66, 3, 3, 2])),
        (Op::CrossEntropyLoss, vec![x(), x()], f32s(scalar)),
        (Op::CrossEntropyLossBack, vec![f32s(scalar), x(), x()], x()),
        (Op::ArgMax, vec![f32s([33, 6, 1, 1])], ids(6)),
        (Op::MulMat, vec![home(DType::Q4_1, [64, 9, 2, 1], 4), f32s([64, 5, 6, 3])], f32s([9, 5, 6, 3])),
        (Op::OutProd, vec![home(DType::Q8_0, [64, 9, 1, 1], 4), f32s([40, 9, 1, 1])], f32s([64, 40, 1, 1])),
        (Op::OutProd, vec![f32s([33, 9000, 1, 1]), f32s([5, 9000, 1, 1])], f32s([33, 5, 1, 1])),
        (Op::FlashAttn(attention(true)), attended(), f32s([32, 7, 5, 2])),
        (Op::FlashAttn(attention(false)), attended()[..3].to_vec(), f32s([32, 6, 5, 2])),
        (Op::MulMatId, vec![home(DType::Q4_1, [64, 9, 4, 1], 4), f32s([64, 1, 5, 1]), picks], f32s([9, 2, 5, 1])),
        (Op::GetRows, vec![home(DType::Q4_1, [64, 9, 1, 1], 4), ids(5)], f32s([64, 5, 1, 1])),
        (Op::GetRowsBack, vec![f32s([33, 5, 1, 1]), ids(5)], f32s([33, 9, 1, 1])),
        (Op::AdamW, vec![x(), x(), x(), x(), f32s([7, 1, 1, 1])], x()),
        (Op::Im2Col { window, plane: true }, vec![f32s([3, 2, 3, 4]), x()], f32s([18, 31, 5, 2])),
        (Op::Col2Im1d { stride: 2, channels: 3, pad: 1 }, vec![f32s([33, 9, 1, 1])], f32s([25, 3, 1, 1])),
        (Op::Conv2d(window), vec![home(DType::F16, [3, 2, 3, 5], 4), x()], f32s([31, 5, 5, 2])),
        (Op::ConvTranspose1d { stride: 3 }, vec![f32s([4, 3, 9, 1]), f32s([33, 9, 1, 1])], f32s([100, 3, 1, 1])),
        (Op::Pool2d(pool), vec![x()], f32s([16, 7, 3, 2])),
        (Op::Pool2dBack(pool), vec![f32s([16, 7, 3, 2]), x()], x()),
        (
            Op::SoftMax { scale: 0.5, max_bias: 8.0, sinks: true },
            vec![x(), home(DType::F16, [33, 8, 1, 1], 4), f32s([3, 1, 1, 1])],
            x(),
        ),
        (Op::Sum, vec![x()], f32s(scalar)),
        (Op::SumRows, vec![x()], f32s([1, 6, 3, 2])),
        (Op::CountEqual, vec![ids(5), ids(5)], home(DType::I64, scalar, 1)),
        (Op::CumSum, vec![x()], x()),
        (Op::Norm { eps: 1e-5 }, vec![x()], x()),
        (Op::GroupNorm { groups: 2, eps: 1e-5 }, vec![x()], x()),
        (Op::L2Norm { eps: 1e-5 }, vec![x()], x()),
        (Op::AddId, vec![x(), f32s([33, 9, 1, 1]), home(DType::I32, [6, 3, 1, 1], 1)], x()),
        (Op::ArgSort { descending: true }, vec![x()], home(DType::I32, s, 4)),
        (Op::TopK, vec![f32s([5000, 6, 1, 1])], home(DType::I32, [40, 6, 1, 1], 4)),
        (Op::Sgd, vec![x(), x(), f32s([2, 1, 1, 1])], x()),
        (rope(RopeMode::Neox, false), vec![f32s([16, 9, 5, 1]), ids(5)], f32s([16, 9, 5, 1])),
        (rope(RopeMode::Normal, true), vec![x(), ids(3), f32s([8, 1, 1, 1])], x()),
    ];
    let of_gradients = |mask: bool, kept: Shape| {
        let shared = f32s([32, 300, 3, 2]);
        let mut inputs = vec![f32s([32, 5, 6, 2]), shared.clone(), shared];
        inputs.extend(mask.then(|| home(DType::F16, [300, 7, 1, 2], 1)));
        inputs.extend([f32s(kept), f32s([32, 6, 5, 2])]);
        inputs
    };
    for mask in [false, true] {
        let attention = attention(mask);
        let kept = [32, 7, 5, 2];
        examples.push((Op::FlashAttnBackQ(attention), of_gradients(mask, kept), f32s(kept)));
        examples.push((Op::FlashAttnBackKv(attention), of_gradients(mask, kept), f32s([32, 6, 300, 2])));
    }
    for kind in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
        examples.push((Op::Binary(kind), vec![x(), f32s(row)], x()));
    }
    let corners = Op::Upscale { sampling: Sampling::Bicubic, align_corners: true };
    examples.extend([
        (Op::Concat { axis: 1 }, vec![x(), x()], f32s([33, 12, 3, 2])),
        (
            Op::Concat { axis: 0 },
            vec![home(DType::F16, s, 4), home(DType::F16, s, 4)],
            home(DType::F16, [66, 6, 3, 2], 4),
        ),
        (Op::PadCircular { before: [1, 0, 2, 0] }, vec![x()], f32s([35, 6, 5, 2])),
        (Op::PadReflect { before: 3 }, vec![x()], f32s([40, 6, 3, 2])),
        (Op::Roll { shift: [1, -2, 0, 1] }, vec![x()], x()),
        (Op::Diag, vec![f32s(row)], f32s([33, 33, 1, 1])),
        (Op::DiagMaskInf { past: 2 }, vec![x()], x()),
        (corners, vec![x()], f32s([50, 9, 3, 2])),
        (Op::Fill { value: 1.0 }, vec![], x()),
        (Op::Arange { start: 1.0, step: 0.5 }, vec![], f32s([9, 1, 1, 1])),
        (Op::TimestepEmbedding { max_period: 100 }, vec![f32s([5, 1, 1, 1])], f32s([9, 5, 1, 1])),
    ]);
    examples.push((Op::Gated(Gate::GeGluErf), vec![x(), x()], x()));
    examples.push((Op::Unary(Unary::Clamp { min: 0.0, max: 1.0 }), vec![x()], x()));
    for kind in [Unary::Silu, Unary::Neg, Unary::Sqr, Unary::Sqrt, Unary::Tanh, Unary::Gelu] {
        examples.push((Op::Unary(kind), vec![x()], x()));
    }
    examples
}

/// A dispatch gives its shader every constant it declares, once, and binds every operand.
fn check_against_shader(dispatch: &Dispatch) {
    let shader = fblayout_shaders::get(dispatch.shader).unwrap_or_else(|| panic!("no shader {}", dispatch.shader));
    let set: Vec<u32> = dispatch.constants.iter().map(|c| c.0).collect();
    assert!(set.windows(2).all(|w| w[0] < w[1]), "{}: constants {set:?} are not ascending", shader.name);
    let unset: Vec<_> = shader.constants.iter().filter(|id| !set.contains(id)).collect();
    assert!(unset.is_empty(), "{}: constants {unset:?} keep their defaults", shader.name);
    assert_eq!(shader.bindings.len(), 2 * dispatch.args.len(), "{}", shader.name);
}

#[test]
fn every_op_lowers_to_shaders_that_exist() {
    for (op, inputs, output) in examples() {
        for subgroup in [4, 8, 32, 64] {
            let lowered = lower(&op, &inputs, &output, &limits(subgroup)).unwrap_or_else(|e| panic!("{op:?}: {e}"));
            assert!(!lowered.dispatches.is_empty(), "{op:?}");
            lowered.dispatches.iter().for_each(check_against_shader);
            check_arguments(&op, &lowered, inputs.len());
        }
    }
}

/// The operand of which an op needs only the extents.
fn lent(op: &Op) -> Option<usize> {
    match op {
        Op::Im2Col { .. } | Op::Im2Col3d { .. } => Some(0),
        Op::Im2ColBack { .. } => Some(1),
        _ => None,
    }
}

/// Every operand is bound, the output is written (or updated in place), and scratch is written before it is read.
fn check_arguments(op: &Op, lowered: &Lowered, inputs: usize) {
    let all: Vec<_> = lowered.dispatches.iter().flat_map(|d| &d.args).collect();
    for i in (0..inputs).filter(|&i| lent(op) != Some(i)) {
        assert!(all.iter().any(|(arg, _)| *arg == Arg::Input(i)), "{op:?}: operand {i} is not bound");
    }
    let updated = op.row().updates;
    for &(arg, access) in &all {
        let expected = match arg {
            Arg::Input(i) if updated.contains(i) => Access::ReadWrite,
            Arg::Input(_) => Access::Read,
            Arg::Output => Access::Write,
            Arg::Scratch(_) | Arg::Extra(_) => continue,
        };
        assert_eq!(*access, expected, "{op:?} {arg}");
    }
    assert!(!updated.is_empty() || all.iter().any(|(arg, _)| *arg == Arg::Output), "{op:?} writes no output");
    let mut written = vec![false; lowered.scratch.len()];
    for (arg, access) in all {
        let Arg::Scratch(i) = arg else { continue };
        assert!(*access == Access::Write || written[*i], "{op:?}: scratch {i} is read before it is written");
        written[*i] = true;
    }
}

/// Positions (c, i1, i2, i3) of the invocations of a `texels` dispatch, as `texels.glsl` has them.
fn texel_positions(dispatch: &Dispatch) -> Vec<[u32; 4]> {
    let constants: HashMap<u32, u32> = dispatch.constants.iter().copied().collect();
    let [size, axis, rows, b0, b1, b2, b3] = [0, 3, 4, 5, 6, 7, 8].map(|id| constants[&id]);
    let groups: u32 = dispatch.groups.iter().product();
    let mut positions = Vec::new();
    for index in (0..groups * size).filter(|&i| i < b0 * b1 * b2 * b3) {
        let boxed = |a: u32, n: u32| if axis == a { n / rows } else { n };
        let mut rest = index / rows;
        let mut p = [b0, boxed(1, b1), boxed(2, b2), u32::MAX].map(|n| {
            let i = rest % n;
            rest /= n;
            i
        });
        p[axis as usize] = p[axis as usize] * rows + index % rows;
        positions.push(p);
    }
    positions
}

proptest! {
    /// The invocations of an elementwise op cover the texels of the output's padded box, each once.
    #[test]
    fn texels_are_covered_once(
        shape in prop::array::uniform4(1..10_u32),
        h in prop_oneof![Just(1_u32), Just(2), Just(4)],
        order in prop_oneof![Just([0, 1, 2, 3]), Just([0, 2, 1, 3]), Just([0, 3, 2, 1])],
        most in 1..9_u32,
    ) {
        let mut x = home(DType::F32, shape, h);
        x.view = x.view.permute(&order).unwrap();
        let limits = crate::device::Limits { max_workgroup_count: [most, 7, 100_000], ..limits(8) };
        let lowered = lower(&Op::Unary(Unary::Neg), std::slice::from_ref(&x), &x, &limits).unwrap();
        let mut positions = texel_positions(&lowered.dispatches[0]);
        let [p0, p1, p2, p3] = [0, 1, 2, 3].map(|axis| x.view.axes[axis].padded);
        positions.sort_unstable();
        let before = positions.len();
        positions.dedup();
        prop_assert_eq!(positions.len(), before);
        prop_assert_eq!(before as u32, p0 / 4 * p1 * p2 * p3);
        prop_assert!(positions.iter().all(|p| p[0] < p0 / 4 && p[1] < p1 && p[2] < p2 && p[3] < p3));
    }
}

/// Rows share a workgroup of whole tiles and a power of two of columns, within the limits.
#[test]
fn row_groups_fit() {
    for elements in [1, 3, 4, 5, 64, 576, 49152] {
        for subgroup in [0, 1, 4, 8, 32, 64] {
            let x = f32s([elements, 6, 1, 1]);
            let lowered = lower(&Op::soft_max(1.0), std::slice::from_ref(&x), &x, &limits(subgroup)).unwrap();
            let constants: HashMap<u32, u32> = lowered.dispatches[0].constants.iter().copied().collect();
            let (size, rows) = (constants[&0], constants[&4]);
            assert!(size <= 128 && size.is_multiple_of(rows) && (size / rows).is_power_of_two(), "{size} of {rows}");
            assert_eq!(lowered.dispatches[0].groups, [8 / rows, 1, 1]);
        }
    }
}

fn transposed(x: &Operand) -> Operand {
    Operand { view: x.view.permute(&[1, 0, 2, 3]).unwrap(), ..x.clone() }
}

/// An op that does not tell axes apart is the same dispatch in another order of axes; a transposed product is that of the operands
/// exchanged.
#[test]
fn outputs_are_written_along_their_lanes() {
    let l = limits(8);
    let (x, y) = (f32s([33, 6, 3, 2]), f32s([33, 6, 3, 2]));
    let sum = |x: &Operand, y: &Operand| lower(&Op::Binary(Binary::Sub), &[x.clone(), y.clone()], x, &l).unwrap();
    assert_eq!(sum(&transposed(&x), &transposed(&y)), sum(&x, &y));

    let (a, b, d) = (f32s([12, 7, 1, 1]), f32s([12, 5, 1, 1]), f32s([5, 7, 1, 1]));
    let turned = lower(&Op::MulMat, &[a.clone(), b.clone()], &transposed(&d), &l).unwrap();
    let mut exchanged = lower(&Op::MulMat, &[b, a], &d, &l).unwrap();
    for (arg, _) in &mut exchanged.dispatches[0].args {
        *arg = if let Arg::Input(i) = *arg { Arg::Input(1 - i) } else { *arg };
    }
    assert_eq!(turned, exchanged);
}

#[test]
fn refusals_name_operand_and_rule() {
    let refusal = |op: Op, inputs: &[Operand], output: &Operand, limits: &crate::device::Limits| {
        lower(&op, inputs, output, limits).unwrap_err().to_string()
    };
    let (x, l) = (f32s([33, 6, 3, 2]), limits(8));
    let short = refusal(Op::Binary(Binary::Add), std::slice::from_ref(&x), &x, &l);
    assert_eq!(short, "ADD: operands: 1 given, 2 wanted");

    let transposed = transposed(&x);
    let lane = refusal(Op::soft_max(1.0), std::slice::from_ref(&transposed), &transposed, &l);
    assert_eq!(lane, "output: axis 0 must carry the 4 lanes of a texel whole, for it is written");

    let few = crate::device::Limits { max_storage_bindings: 3, ..l.clone() };
    let w = [x.clone(), x.clone(), x.clone(), x.clone(), f32s([7, 1, 1, 1])];
    let bindings = refusal(Op::AdamW, &w, &x, &few);
    assert_eq!(bindings, "operand 4: shader adamw_moments binds more than 3 operands");

    let wide = Operand { view: x.view.unsqueeze(4).unwrap(), ..x.clone() };
    let rank = refusal(Op::Unary(Unary::Neg), std::slice::from_ref(&wide), &x, &l);
    assert_eq!(rank, "operand 0: a view of 5 axes, a kernel takes 4");

    let small = crate::device::Limits { max_workgroup_count: [1; 3], ..l };
    let long = f32s([4096, 1, 1, 1]);
    let groups = refusal(Op::Arange { start: 0.0, step: 1.0 }, &[], &long, &small);
    assert_eq!(
        groups,
        "shader generate: 64 workgroups are more than a dispatch holds; ARANGE is not cut in pieces that fit"
    );
}

/// A copy between shapes goes by coordinates where the digits regroup, by element numbers where padding is in the way.
#[test]
fn copies_between_shapes() {
    for (from, to, renumber) in [([576, 9, 1, 1], [64, 9, 9, 1], 0), ([6, 5, 1, 1], [30, 1, 1, 1], 1)] {
        let lowered = lower(&Op::Copy, &[f32s(from)], &f32s(to), &limits(8)).unwrap();
        assert!(lowered.dispatches[0].constants.contains(&(17, renumber)), "{from:?} to {to:?}");
    }
}

/// One query of 32 heads over 8 of keys and values, on a GPU.
fn one_query(keys: u32, size: u32, sinks: bool, more: crate::device::Limits) -> Lowered {
    let kv = || home(DType::F16, [size, keys, 8, 1], 4);
    let mut inputs = vec![f32s([size, 1, 32, 1]), kv(), kv(), home(DType::F16, [keys, 1, 1, 1], 1)];
    inputs.extend(sinks.then(|| f32s([32, 1, 1, 1])));
    let op = Op::FlashAttn(FlashAttn { mask: true, sinks, ..attention(false) });
    lower(&op, &inputs, &f32s([size, 32, 1, 1]), &more).unwrap_or_else(|e| panic!("{keys} keys: {e}"))
}

/// Teams take the keys side by side, as far as waits in a row take no longer than another dispatch; beyond that parts do, too. Sinks need
/// none, where a device binds as many operands.
#[test]
fn attention_of_one_query_is_one_dispatch() {
    let gpu = || crate::device::Limits { max_workgroup_invocations: 1024, ..limits(32) };
    for (keys, size, groups, teams, tiles) in [
        (5, 64, 8, 1, 1),
        (256, 64, 8, 16, 1),
        (512, 64, 8, 16, 2),
        (1536, 64, 8 * 6, 16, 1),
        (1792, 64, 8 * 7, 16, 1),
        (32768, 64, 8 * 16, 16, 8),
        (512, 128, 8 * 2, 8, 1),
        (1024, 128, 8 * 4, 8, 1),
    ] {
        let lowered = one_query(keys, size, false, gpu());
        let sweep = &lowered.dispatches[0];
        let constants: HashMap<u32, u32> = sweep.constants.iter().copied().collect();
        let workgroups: u32 = sweep.groups.iter().product();
        assert_eq!((workgroups, constants[&11], constants[&8]), (groups, teams, tiles), "{keys} keys of {size}");
        assert_eq!(lowered.dispatches.len(), if workgroups > 8 { 2 } else { 1 }, "{keys} keys of {size}");
    }
    let shaders = |limits: crate::device::Limits| -> Vec<&str> {
        one_query(256, 64, true, limits).dispatches.iter().map(|dispatch| dispatch.shader).collect()
    };
    assert_eq!(shaders(gpu()), ["attention_masked_sinks"]);
    let few = crate::device::Limits { max_storage_bindings: 5, ..gpu() };
    assert_eq!(shaders(few), ["attention_masked", "attention_join_sinks"]);
    one_query(256, 64, true, gpu()).dispatches.iter().for_each(check_against_shader);
}

/// Blocks as the host has them are read by shaders that decode them, or by none.
#[test]
fn blocks_need_a_shader_that_decodes_them() {
    let shader = |op: Op, inputs: &[Operand], output: &Operand| {
        let lowered = lower(&op, inputs, output, &limits(8)).unwrap_or_else(|e| panic!("{op:?}: {e}"));
        lowered.dispatches[0].shader
    };
    let y = f32s([9, 5, 1, 1]);
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_quantized()) {
        let tiled = dtype.quant_texels().is_some();
        let row = dtype.block();
        let table = home(dtype, [row, 9, 1, 1], if tiled { 4 } else { 1 });
        let name = |plain: &str| if tiled { plain.to_owned() } else { format!("{plain}_blocks") };
        assert_eq!(shader(Op::MulMat, &[table.clone(), f32s([row, 5, 1, 1])], &y), name("gemm"), "{dtype:?}");
        assert_eq!(shader(Op::GetRows, &[table.clone(), ids(5)], &f32s([row, 5, 1, 1])), name("get_rows"), "{dtype:?}");
        assert_eq!(shader(Op::Copy, std::slice::from_ref(&table), &f32s([row, 9, 1, 1])), name("copy"), "{dtype:?}");
        assert_eq!(shader(Op::Copy, std::slice::from_ref(&table), &table), "copy_bits", "{dtype:?}");
    }
    let limits = limits(8);
    let unary = |dtype| {
        let builder = Builder::new("unary", &limits);
        builder.operand(Arg::Input(0), &home(dtype, [32, 5, 1, 1], 4), Access::Read).map(drop)
    };
    assert_eq!(unary(DType::F32), Ok(()));
    assert_eq!(unary(DType::Q4_0).unwrap_err().0, "operand 0: shader unary does not decode Q4_0");
}

/// What a large GPU makes of the shapes of a step of a model of 2048 over 512 tokens: workgroups of rows grow while invocations have
/// several quads each and the device has room, sums over tokens are shared.
#[test]
fn few_long_rows_are_shared_by_more_invocations() {
    let gpu = crate::device::Limits { max_workgroup_invocations: 1024, ..limits(32) };
    let shared = |op: &Op, x: Shape, output: Shape, limits: &crate::device::Limits| {
        let lowered = lower(op, &[f32s(x)], &f32s(output), limits).unwrap();
        let [dispatch] = &lowered.dispatches[..] else { panic!("{op:?} is one dispatch") };
        let size = dispatch.constants.iter().find(|(id, _)| *id == 0).unwrap().1;
        (size, dispatch.groups.iter().product::<u32>())
    };
    let norm = |x, limits: &_| shared(&Op::RmsNorm { eps: 1e-5 }, x, x, limits);
    assert_eq!(norm([2048, 512, 1, 1], &gpu), (1024, 128));
    assert_eq!(norm([2048, 2048, 1, 1], &gpu), (512, 512), "the device is busy");
    assert_eq!(norm([1024, 512, 1, 1], &gpu), (512, 128), "two quads each");
    assert_eq!(norm([64, 32, 512, 1], &gpu), (64, 4096), "a quad each");
    assert_eq!(norm([2048, 512, 1, 1], &limits(32)), (128, 128), "the limit");
    assert_eq!(norm([2048, 512, 1, 1], &limits(8)), (8, 128), "a processor");

    let sum = |x, output, limits: &_| shared(&Op::RepeatBack, x, output, limits);
    assert_eq!(sum([2048, 512, 1, 1], [2048, 1, 1, 1], &gpu), (128, 2048), "of them padding is three quarters");
    assert_eq!(sum([2048, 512, 4, 1], [2048, 512, 1, 1], &gpu), (64, 4096), "four repeats are for one invocation");
    assert_eq!(sum([2048, 512, 1, 1], [2048, 1, 1, 1], &limits(8)), (64, 32), "a processor");
}
