//! Fused lowerings: what is bound where, what is refused, what is asked of memory.

use super::super::{
    Access, Arg, Dispatch, Epilogue, EpilogueStep, Fused, Lowered, MAX_STEPS, Norm, Operand, Rotation, SecondProduct,
    Source, lower, lower_fused, traffic,
};
use super::{home, limits};
use crate::device::{AcrossTile, Limits, ProductSchedule, Products};
use crate::graph::{Binary, DType, Op, Rope, RopeMode, Shape, Unary};

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);
const S: Shape = [33, 6, 3, 2];

fn f32s(shape: Shape) -> Operand {
    home(DType::F32, shape, 4)
}

fn step(op: Op, inputs: &[Source]) -> EpilogueStep {
    EpilogueStep { op, inputs: inputs.to_vec(), store: None }
}

/// The result plus extra operand 0.
fn plus() -> Epilogue {
    let steps = vec![step(ADD, &[Source::Result(0), Source::Extra(0)])];
    Epilogue { steps, store_root: None, extras: 1 }
}

/// Ops whose kernels take an epilogue, with operands; the result is of shape `S`.
fn examples() -> Vec<(Op, Vec<Operand>)> {
    let ids = home(DType::I32, [3, 1, 1, 1], 1);
    let rope = |mode| Op::Rope(Rope::plain(mode, 16, 2048, 10000.0));
    vec![
        (Op::Unary(Unary::Silu), vec![f32s(S)]),
        (MUL, vec![f32s(S), f32s([33, 1, 1, 1])]),
        (Op::RmsNorm { eps: 1e-5 }, vec![f32s(S)]),
        (Op::RmsNormBack { eps: 1e-5 }, vec![f32s(S), f32s(S)]),
        (Op::soft_max(0.5), vec![f32s(S)]),
        (Op::soft_max(0.5), vec![f32s(S), f32s([33, 6, 1, 1])]),
        (Op::SoftMaxBack { scale: 0.5 }, vec![f32s(S), f32s(S)]),
        (Op::RepeatBack, vec![f32s([66, 6, 3, 2])]),
        (rope(RopeMode::Neox), vec![f32s(S), ids.clone()]),
        (rope(RopeMode::Normal), vec![f32s(S), ids, f32s([8, 1, 1, 1])]),
        (Op::MulMat, vec![home(DType::Q4_1, [64, 33, 1, 1], 4), f32s([64, 6, 3, 2])]),
    ]
}

fn fused(
    op: Op,
    inputs: &[Operand],
    epilogue: Epilogue,
    extras: &[Operand],
    limits: &Limits,
) -> Result<Lowered, String> {
    lower_fused(&Fused::new(op, epilogue), inputs, &f32s(S), extras, limits).map_err(|refusal| refusal.0)
}

/// Every constant set is one of the shader's, once; all of the shader's but those of operands not bound are set.
fn check_against_shader(dispatch: &Dispatch) {
    let shader = fblayout_shaders::get(dispatch.shader).unwrap_or_else(|| panic!("no shader {}", dispatch.shader));
    let set: Vec<u32> = dispatch.constants.iter().map(|c| c.0).collect();
    assert!(set.windows(2).all(|w| w[0] < w[1]), "{}: constants {set:?} are not ascending", shader.name);
    let bound = 64 + 48 * dispatch.args.len() as u32;
    let extras = dispatch.args.iter().filter(|(arg, _)| matches!(arg, Arg::Extra(_))).count() as u32;
    let kept = |id: u32| (bound..448).contains(&id) || (36 + extras..39).contains(&id);
    let unset: Vec<_> = shader.constants.iter().filter(|&&id| !kept(id) && !set.contains(&id)).collect();
    assert!(unset.is_empty(), "{}: constants {unset:?} keep their defaults", shader.name);
    // Of an operand's fields a shader may leave out what it does not use.
    let unknown: Vec<_> = set.iter().filter(|&&id| id < 64 && !shader.constants.contains(&id)).collect();
    assert!(unknown.is_empty(), "{}: no constants {unknown:?}", shader.name);
    assert!(dispatch.args.len() <= shader.bindings.len() / 2, "{}", shader.name);
}

#[test]
fn every_kernel_with_an_epilogue_has_a_shader() {
    for (op, inputs) in examples() {
        for subgroup in [0, 4, 8, 32, 64] {
            let limits = Limits { shuffle_width: subgroup, ..limits(subgroup) };
            let lowered = fused(op, &inputs, plus(), &[f32s(S)], &limits).unwrap_or_else(|e| panic!("{op:?}: {e}"));
            lowered.dispatches.iter().for_each(check_against_shader);
            let args = &lowered.dispatches.last().unwrap().args;
            assert_eq!(args[args.len() - 2..], [(Arg::Output, Access::Write), (Arg::Extra(0), Access::Read)], "{op:?}");
            assert!(lowered.dispatches.last().unwrap().shader.ends_with("_fused"));
        }
    }
}

#[test]
fn an_epilogue_that_does_nothing_is_none() {
    for (op, inputs) in examples() {
        let plain = lower(&op, &inputs, &f32s(S), &limits(8)).unwrap();
        assert_eq!(fused(op, &inputs, Epilogue::default(), &[], &limits(8)).unwrap(), plain);
    }
}

/// The epilogue belongs to the sum of the parts of k, a second product to the parts.
#[test]
fn parts_are_summed_before_the_epilogue() {
    let inputs = [f32s([9000, 33, 1, 1]), f32s([9000, 6, 3, 2]), f32s([8, 33, 1, 1]), f32s([8, 6, 3, 2])];
    let cut = |x: &Operand| Operand { view: x.view.slice(3, 0, 1).unwrap(), ..x.clone() };
    let inputs: Vec<Operand> = inputs.iter().map(cut).collect();
    let result = f32s([33, 6, 3, 1]);
    for (second, parts, args) in
        [(None, "gemm_subgroup", 3), (Some(SecondProduct { op: Op::MulMat, scale: 0.5 }), "gemm_subgroup_pair", 5)]
    {
        let fused = Fused { second, ..Fused::new(Op::MulMat, plus()) };
        let operands = &inputs[..args - 1];
        let lowered = lower_fused(&fused, operands, &result, std::slice::from_ref(&result), &limits(8)).unwrap();
        let [first, sum] = &lowered.dispatches[..] else { panic!("{lowered:?}") };
        assert_eq!((first.shader, sum.shader), (parts, "repeat_back_fused"));
        assert_eq!(first.args.len(), args);
        assert_eq!(first.args[args - 1], (Arg::Scratch(0), Access::Write));
        let read = [(Arg::Scratch(0), Access::Read), (Arg::Output, Access::Write), (Arg::Extra(0), Access::Read)];
        assert_eq!(sum.args, read);
        lowered.dispatches.iter().for_each(check_against_shader);
    }
}

/// The grid covers the padded boxes of all that is written.
#[test]
fn stored_results_are_covered() {
    let x = home(DType::F32, [9, 5, 3, 2], 1);
    let stored = home(DType::F32, [9, 5, 3, 2], 4);
    let epilogue =
        Epilogue { steps: vec![step(Op::Unary(Unary::Neg), &[Source::Result(0)])], store_root: Some(0), extras: 1 };
    let op = Op::Unary(Unary::Silu);
    let lowered = lower_fused(&Fused::new(op, epilogue), std::slice::from_ref(&x), &x, &[stored], &limits(8)).unwrap();
    let dispatch = &lowered.dispatches[0];
    assert_eq!(dispatch.args[2], (Arg::Extra(0), Access::Write));
    let grid: Vec<u32> = (5..9).map(|id| dispatch.constants.iter().find(|c| c.0 == id).unwrap().1).collect();
    assert_eq!(grid, [3, 8, 3, 2]);
}

#[test]
fn refusals_name_what_breaks_which_rule() {
    let neg = Op::Unary(Unary::Neg);
    let refusal =
        |epilogue: Epilogue, extras: &[Operand]| fused(neg, &[f32s(S)], epilogue, extras, &limits(8)).unwrap_err();
    let with = |steps: Vec<EpilogueStep>, extras| Epilogue { steps, store_root: None, extras };
    let (root, extra) = (Source::Result(0), Source::Extra);

    let many = with(vec![step(neg, &[root]); MAX_STEPS + 1], 0);
    assert_eq!(refusal(many, &[]), "epilogue: 9 steps, a kernel takes 8");
    assert_eq!(refusal(plus(), &[]), "epilogue: 0 extra operands given, 1 named, a kernel takes 3");
    let late = with(vec![step(neg, &[Source::Result(1)])], 0);
    assert_eq!(refusal(late, &[]), "epilogue: step 0: NEG: takes result 1, which comes later");
    let norm = with(vec![step(Op::RmsNorm { eps: 1e-5 }, &[root])], 0);
    assert_eq!(refusal(norm, &[]), "epilogue: step 0: RMS_NORM: is not elementwise");
    let short = with(vec![step(ADD, &[root])], 0);
    assert_eq!(refusal(short, &[]), "epilogue: step 0: ADD: operands: 1 given, 2 wanted");
    let absent = with(vec![step(ADD, &[root, extra(1)])], 1);
    assert_eq!(refusal(absent, &[f32s(S)]), "epilogue: step 0: ADD: takes extra operand 1 of 1");
    assert_eq!(refusal(with(Vec::new(), 1), &[f32s(S)]), "extra operand 0: is neither read nor stored");
    let twice = Epilogue { store_root: Some(0), ..plus() };
    assert_eq!(refusal(twice, &[f32s(S)]), "extra operand 0: is read and stored");
    let beyond = Epilogue { store_root: Some(0), ..Epilogue::default() };
    assert_eq!(refusal(beyond, &[]), "epilogue: extra operand 0 of 0 is stored");
    let narrow = refusal(plus(), &[f32s([33, 1, 1, 1])]);
    assert_eq!(narrow, "extra operand 0: is F32 [33, 1, 1, 1], must be F32 [33, 6, 3, 2]");
    let half = refusal(plus(), &[home(DType::F16, S, 4)]);
    assert_eq!(half, "extra operand 0: is F16 [33, 6, 3, 2], must be F32 [33, 6, 3, 2]");

    let row = f32s([33, 1, 1, 1]);
    let view = (1..4).fold(row.view.clone(), |view, axis| view.repeat_whole(axis, S[axis]).unwrap());
    let repeated = Operand { view, ..row };
    let stored = Epilogue { store_root: Some(0), extras: 1, ..Epilogue::default() };
    assert_eq!(
        refusal(stored, std::slice::from_ref(&repeated)),
        "extra operand 0: axis 1 is a broadcast, which cannot be written"
    );
    fused(neg, &[f32s(S)], plus(), &[repeated], &limits(8)).expect("what is read may repeat");

    let few = Limits { max_storage_bindings: 4, ..limits(8) };
    let bindings = fused(neg, &[f32s(S)], plus(), &[f32s(S)], &few).unwrap_err();
    assert_eq!(bindings, "shader unary_fused: binds 5 operands, the device takes 4");
    let copied = fused(Op::Copy, &[f32s(S)], plus(), &[f32s(S)], &limits(8)).unwrap_err();
    assert_eq!(copied, "shader copy takes no epilogue");

    let second = Some(SecondProduct { op: Op::MulMat, scale: 1.0 });
    let beside = |op: Op, inputs: &[Operand]| {
        let fused = Fused { second, ..Fused::new(op, Epilogue::default()) };
        lower_fused(&fused, inputs, &f32s(S), &[], &limits(8)).unwrap_err().to_string()
    };
    let operands = [f32s([64, 33, 1, 1]), f32s([64, 6, 3, 2]), f32s([8, 32, 1, 1]), f32s([8, 6, 3, 2])];
    let beside_neg = beside(neg, &[f32s(S), f32s([8, 33, 1, 1]), f32s([8, 6, 3, 2])]);
    assert_eq!(beside_neg, "NEG: is not a matrix product");
    let misshapen = beside(Op::MulMat, &operands);
    assert!(misshapen.starts_with("second product: MUL_MAT: output:"), "{misshapen}");
}

fn traffic_of(dispatch: &Dispatch) -> Vec<super::super::Traffic> {
    let accesses: Vec<Access> = dispatch.args.iter().map(|&(_, access)| access).collect();
    traffic(dispatch.shader, &dispatch.constants, dispatch.groups, &accesses, 8)
}

/// [64, 32] = [128, 64] x [128, 32], beside it rank 8, then a bias and a residual: 64 invocations as in `a_product_by_hand`, each of
/// which loads 4 texels of a weight and 1 of the other operand for every 4 k, and touches 8 quads of everything else.
#[test]
fn a_pair_with_an_epilogue_by_hand() {
    let shape = [64, 32, 1, 1];
    let inputs = [f32s([128, 64, 1, 1]), f32s([128, 32, 1, 1]), f32s([8, 64, 1, 1]), f32s([8, 32, 1, 1])];
    let row = f32s([64, 1, 1, 1]);
    let bias = Operand { view: row.view.repeat_whole(1, 32).unwrap(), ..row };
    let steps =
        vec![step(ADD, &[Source::Result(0), Source::Extra(0)]), step(ADD, &[Source::Result(1), Source::Extra(1)])];
    let epilogue = Epilogue { steps, store_root: Some(2), extras: 3 };
    let second = Some(SecondProduct { op: Op::MulMat, scale: 0.5 });
    let fused = Fused { second, ..Fused::new(Op::MulMat, epilogue) };
    let extras = [bias, f32s(shape), f32s(shape)];
    let lowered = lower_fused(&fused, &inputs, &f32s(shape), &extras, &limits(8)).unwrap();
    let all = traffic_of(&lowered.dispatches[0]);
    let loads = |k: u64, per_four: u64| 64 * k / 4 * per_four;
    let requests: Vec<u64> = all.iter().map(|t| t.requests).collect();
    assert_eq!(requests, [loads(128, 4), loads(128, 1), loads(8, 4), loads(8, 1), 512, 512, 512, 512]);
    let bytes: Vec<u64> = all.iter().map(|t| t.bytes).collect();
    let whole = 4 * 64 * 32;
    assert_eq!(bytes, [4 * 128 * 64, 4 * 128 * 32, 4 * 8 * 64, 4 * 8 * 32, whole, 4 * 64, whole, whole]);
    let (read, write) = (Access::Read, Access::Write);
    let accesses: Vec<Access> = all.iter().map(|t| t.access).collect();
    assert_eq!(accesses, [read, read, read, read, write, read, read, write]);
}

/// A norm reads its row twice and what is behind it once; a scalar is gathered.
#[test]
fn a_norm_with_a_gain_by_hand() {
    let shape = [64, 32, 1, 1];
    let one = f32s([1; 4]);
    let view = (0..2).fold(one.view.clone(), |view, axis| view.repeat_whole(axis, shape[axis]).unwrap());
    let scalar = Operand { view, ..one };
    let steps =
        vec![step(MUL, &[Source::Result(0), Source::Extra(0)]), step(ADD, &[Source::Result(1), Source::Extra(1)])];
    let fused = Fused::new(Op::RmsNorm { eps: 1e-5 }, Epilogue { steps, store_root: None, extras: 2 });
    let lowered = lower_fused(&fused, &[f32s(shape)], &f32s(shape), &[f32s(shape), scalar], &limits(8)).unwrap();
    let all = traffic_of(&lowered.dispatches[0]);
    assert_eq!(all.iter().map(|t| t.requests).collect::<Vec<_>>(), [1024, 512, 512, 2048]);
    assert_eq!(all.iter().map(|t| t.bytes).collect::<Vec<_>>(), [8192, 8192, 8192, 16]);
}

/// Heads of 64 by halves: an invocation has the quads of both, a workgroup a head.
#[test]
fn rotated_halves_share_an_invocation() {
    let shape = [128, 32, 1, 1];
    let rope = Rope::plain(RopeMode::Neox, 64, 2048, 10000.0);
    let ids = home(DType::I32, [32, 1, 1, 1], 1);
    let factors = f32s([32, 1, 1, 1]);
    let rotation = Some(Rotation { rope, head_dim: 64, axis: 1 });
    let fused = |second, epilogue| Fused { second, rotation, ..Fused::new(Op::MulMat, epilogue) };
    let inputs = [f32s([64, 128, 1, 1]), f32s([64, 32, 1, 1]), ids.clone(), factors.clone()];
    for subgroup in [4, 8, 32, 64] {
        let limits = Limits { shuffle_width: subgroup, max_workgroup_invocations: 256, ..limits(subgroup) };
        let small = Limits { max_workgroup_invocations: 4, ..limits.clone() };
        let lower = |limits| lower_fused(&fused(None, Epilogue::default()), &inputs, &f32s(shape), &[], limits);
        if subgroup <= 8 {
            let lowered = lower(&limits).unwrap();
            let dispatch = &lowered.dispatches[0];
            check_against_shader(dispatch);
            let get = |id| dispatch.constants.iter().find(|c| c.0 == id).unwrap().1;
            assert_eq!((get(3), get(5), dispatch.groups[1]), (2, 8, 2), "{subgroup}");
            let bound: Vec<Arg> = dispatch.args.iter().map(|a| a.0).collect();
            assert_eq!(bound, [Arg::Input(0), Arg::Input(1), Arg::Output, Arg::Input(2), Arg::Input(3)]);
            let requests: Vec<u64> = traffic_of(dispatch)[2..].iter().map(|t| t.requests).collect();
            assert_eq!(requests, [1024, 512, 2048]);
        }
        let refused = lower(&small).unwrap_err().to_string();
        assert!(refused.starts_with("rotation: "), "{refused}");
    }

    // Without factors the positions hold their place, and nobody reads them there.
    let lowered = lower_fused(&fused(None, Epilogue::default()), &inputs[..3], &f32s(shape), &[], &limits(8)).unwrap();
    let all = traffic_of(&lowered.dispatches[0]);
    assert_eq!(lowered.dispatches[0].args[3], lowered.dispatches[0].args[4]);
    assert_eq!((all[4].requests, all[4].bytes), (0, 0));

    let second = Some(SecondProduct { op: Op::MulMat, scale: 1.0 });
    let inputs = [&inputs[..2], &[f32s([8, 128, 1, 1]), f32s([8, 32, 1, 1])], &inputs[2..]].concat();
    let lowered = lower_fused(&fused(second, plus()), &inputs, &f32s(shape), &[f32s(shape)], &limits(8)).unwrap();
    check_against_shader(&lowered.dispatches[0]);
    assert!(lowered.dispatches[0].shader.ends_with("pair_rotated"));
    let steps = vec![step(ADD, &[Source::Extra(1), Source::Extra(0)])];
    let two = Epilogue { steps, store_root: None, extras: 2 };
    let many = lower_fused(&fused(second, two), &inputs, &f32s(shape), &[f32s(shape), f32s(shape)], &limits(8));
    assert!(many.unwrap_err().to_string().ends_with("pair_rotated: 2 extra operands given, it takes 1"));
}

#[test]
fn rotations_that_no_kernel_has_are_refused() {
    let shape = [128, 32, 1, 1];
    let ids = home(DType::I32, [32, 1, 1, 1], 1);
    let refusal = |op: Op, rope: Rope, head_dim: u32, axis: usize, own: &[Operand], more: &[Operand]| {
        let rotation = Some(Rotation { rope, head_dim, axis });
        let fused = Fused { rotation, ..Fused::new(op, Epilogue::default()) };
        lower_fused(&fused, &[own, more].concat(), &f32s(shape), &[], &limits(8)).unwrap_err().to_string()
    };
    let by = |mode, n_dims| Rope::plain(mode, n_dims, 2048, 10000.0);
    let operands = [f32s([64, 128, 1, 1]), f32s([64, 32, 1, 1])];
    let product = |rope, head_dim, axis, more: &[Operand]| refusal(Op::MulMat, rope, head_dim, axis, &operands, more);
    let (normal, ids) = (RopeMode::Normal, std::slice::from_ref(&ids));
    let heads = product(by(normal, 48), 48, 1, ids);
    assert_eq!(heads, "rotation: heads of 48 do not divide the 128 elements of axis 0");
    let quads = product(by(normal, 2), 2, 1, ids);
    assert_eq!(quads, "rotation: several heads of 2, which is no multiple of 4");
    assert_eq!(product(by(normal, 64), 64, 0, ids), "rotation: positions along axis 0, must be 1, 2 or 3");
    let part = product(by(RopeMode::Neox, 32), 64, 1, ids);
    assert_eq!(part, "rotation: 32 of 64 elements by halves; must be all, and a multiple of 8");
    assert_eq!(product(by(normal, 64), 64, 1, &[]), "rotation: operands: 1 given, 2 to 3 wanted");
    let few = product(by(normal, 64), 64, 2, ids);
    assert_eq!(few, "rotation: operand 1: must have one position for each of the 1 of axis 2");
    let negated = refusal(Op::Unary(Unary::Neg), by(normal, 64), 64, 1, &[f32s(shape)], ids);
    assert_eq!(negated, "shader unary takes no rotation");
}

/// A GPU whose products have this tile.
fn across(tile: AcrossTile) -> Limits {
    let products = Products { schedule: Some(ProductSchedule::Across), across: Some(tile), ..Products::default() };
    Limits { products, ..limits(32) }
}

/// 4 x 4 x 8 invocations along m, in workgroups and along k, of one quad of m and four columns each.
const TILE: AcrossTile = AcrossTile { quads_m: 1, columns: 4, lanes_m: 4, lanes_n: 1, lanes_k: 8 };

/// A product of few columns with the norm of its right factor, a gain or none, and a twin or none.
fn normed(twin: bool, norm: Option<Norm>, more: &[Operand]) -> (Fused, Vec<Operand>) {
    let steps = if twin { vec![step(Op::SwiGlu, &[Source::Result(0), Source::Second])] } else { Vec::new() };
    let epilogue = Epilogue { steps, ..Epilogue::default() };
    let inputs = [&[f32s([128, 64, 1, 1]), f32s([128, 4, 1, 1])], more].concat();
    (Fused { twin, norm, ..Fused::new(Op::MulMat, epilogue) }, inputs)
}

/// [64, 4] = [128, 64] x [128, 4]: 16 invocations with the same k, each of which loads 4 texels of a weight, of the other operand and of
/// the gain for every 4 k; what stands where there is no gain is not read.
#[test]
fn a_norm_before_a_product_by_hand() {
    let [weight, gain] = [f32s([128, 64, 1, 1]), home(DType::F32, [128, 1, 1, 1], 1)];
    let norm = |gain| Some(Norm { eps: 1e-5, gain });
    let (own, quads) = (16, 32);
    for (twin, norm, more, shader, expected) in [
        (false, norm(true), vec![gain.clone()], "gemm_normed", vec![4 * own * quads, 4 * own * quads, 4 * own * quads]),
        (false, norm(false), Vec::new(), "gemm_normed", vec![4 * own * quads, 4 * own * quads, 0]),
        (true, None, vec![weight.clone()], "gemm_twin", vec![4 * own * quads, 4 * own * quads, 4 * own * quads, 0]),
        (
            true,
            norm(true),
            vec![weight, gain.clone()],
            "gemm_twin",
            vec![4 * own * quads, 4 * own * quads, 4 * own * quads, 4 * own * quads],
        ),
    ] {
        let (fused, inputs) = normed(twin, norm, &more);
        let lowered = lower_fused(&fused, &inputs, &f32s([64, 4, 1, 1]), &[], &across(TILE)).unwrap();
        let [dispatch] = &lowered.dispatches[..] else { panic!("{lowered:?}") };
        assert_eq!((dispatch.shader, dispatch.args.len()), (shader, expected.len() + 1));
        check_against_shader(dispatch);
        let all = traffic_of(dispatch);
        let requests: Vec<u64> = all.iter().map(|t| t.requests).collect();
        assert_eq!(requests, [&expected[..], &[64]].concat(), "{shader}");
        let of_gain = &all[expected.len() - 1];
        assert_eq!(of_gain.bytes, if norm.is_some_and(|norm| norm.gain) { 4 * 128 } else { 0 });
    }
}

#[test]
fn norms_and_twins_that_no_kernel_takes_are_refused() {
    let gain = home(DType::F32, [128, 1, 1, 1], 1);
    let norm = Some(Norm { eps: 1e-5, gain: true });
    let output = f32s([64, 4, 1, 1]);
    let gpu = across(TILE);
    let refused = |(fused, inputs): (Fused, Vec<Operand>), limits: &Limits, rule: &str| {
        let refusal = lower_fused(&fused, &inputs, &output, &[], limits).unwrap_err().0;
        assert!(refusal.contains(rule), "{refusal}");
    };
    refused(normed(false, norm, std::slice::from_ref(&gain)), &limits(8), "whole steps of one workgroup");
    refused(normed(false, norm, &[]), &gpu, "2 wanted");
    refused(normed(false, norm, &[f32s([127, 1, 1, 1])]), &gpu, "no value for each element");
    refused(normed(true, None, &[home(DType::F16, [128, 64, 1, 1], 4)]), &gpu, "not alike");
    let (fused, mut inputs) = normed(false, norm, std::slice::from_ref(&gain));
    inputs[1] = Operand { view: f32s([4, 128, 1, 1]).view.permute(&[1, 0, 2, 3]).unwrap(), ..f32s([4, 128, 1, 1]) };
    refused((fused, inputs), &gpu, "run along its sums");
    let (fused, mut inputs) = normed(false, norm, std::slice::from_ref(&gain));
    let second = Some(SecondProduct { op: Op::MulMat, scale: 1.0 });
    inputs.extend([f32s([8, 64, 1, 1]), f32s([8, 4, 1, 1])]);
    refused((Fused { second, ..fused }, inputs), &gpu, "neither a twin nor a norm");
    let (fused, inputs) = normed(true, None, &[f32s([128, 64, 1, 1])]);
    refused((Fused { twin: false, ..fused }, inputs[..2].to_vec()), &gpu, "second result");
    // Half of what a step of eight reads.
    let halves = [home(DType::F16, [20, 64, 1, 1], 4), f32s([20, 4, 1, 1]), home(DType::F32, [20, 1, 1, 1], 1)];
    refused((normed(false, norm, &[]).0, halves.to_vec()), &gpu, "whole steps");
}
