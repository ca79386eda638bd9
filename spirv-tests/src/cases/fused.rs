//! Fused dispatches: every kernel that takes an epilogue, every op in one, every kind of extra operand.

use fblayout::graph::{Binary, DType, Op, Rope, RopeMode, Shape, Unary};
use fblayout::kernels::Source;
use fblayout::plan::Tile;

use super::{PLAIN_ROPE, by_head};
use crate::{Fill, FusedCase, FusedSetup, Setup};

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);
const SILU: Op = Op::Unary(Unary::Silu);
const ROOT: Source = Source::Result(0);

/// Shapes of results: odd ones for edges, a multiple of tiles, several axes.
const SHAPES: &[Shape] =
    &[[1, 1, 1, 1], [3, 5, 1, 1], [7, 1, 5, 1], [17, 33, 1, 1], [33, 3, 2, 3], [64, 8, 1, 1], [129, 7, 1, 1]];

/// (k, m, n) of products.
const PRODUCTS: &[(u32, u32, u32)] =
    &[(1, 1, 1), (3, 5, 7), (5, 1, 3), (7, 17, 33), (33, 7, 1), (64, 129, 17), (130, 33, 129)];

/// All cases.
pub fn fused() -> Vec<FusedCase> {
    let mut cases = every_op();
    for &shape in SHAPES {
        cases.extend(elementwise(shape));
        cases.extend(rows(shape));
        cases.push(sums(shape));
    }
    cases.extend([RopeMode::Normal, RopeMode::Neox].into_iter().flat_map(rotations));
    for &(k, m, n) in PRODUCTS {
        cases.extend(products(k, m, n));
    }
    cases.extend(weights());
    cases.extend(blocks());
    cases.extend(heads());
    cases.extend(parts());
    cases.push(gated_gradient());
    cases.extend(pairs());
    cases.extend([RopeMode::Normal, RopeMode::Neox].into_iter().flat_map(rotated));
    cases.extend(other_tiles());
    cases
}

fn of_f32(op: Op, shapes: &[Shape], fill: &Fill) -> FusedSetup {
    let mut s = Setup::new();
    let inputs = shapes.iter().map(|&shape| s.f32(shape, fill.clone())).collect();
    FusedSetup::new(s, op, inputs)
}

/// Every elementwise op as a step, behind an exact op.
fn every_op() -> Vec<FusedCase> {
    let shape = [33, 5, 2, 1];
    let negated = |fill: &Fill| of_f32(Op::Unary(Unary::Neg), &[shape], fill);
    let name = |op: Op| format!("then {}", op.row().name);
    let mut cases = Vec::new();
    for kind in [Unary::Silu, Unary::Neg, Unary::Sqr, Unary::Tanh, Unary::Gelu, Unary::Sqrt] {
        let op = Op::Unary(kind);
        let mut s = negated(&Fill::Floats(6.0));
        let before = if kind == Unary::Sqrt { s.step(Op::Unary(Unary::Sqr), &[ROOT]) } else { ROOT };
        s.step(op, &[before]);
        cases.push(s.case(name(op)));
    }
    let scale = Op::Scale { scale: 1.5, bias: -0.25 };
    let mut s = negated(&Fill::Floats(3.0));
    s.step(scale, &[ROOT]);
    cases.push(s.case(name(scale)));
    let binaries = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div].map(Op::Binary);
    for op in binaries.into_iter().chain([Op::SiluBack, Op::TanhBack, Op::GeluBack, Op::SwiGlu, Op::GeGlu]) {
        for result_first in [true, false] {
            let mut s = negated(&Fill::Positive);
            let extra = s.extra_f32(shape, Fill::Positive);
            let operands = if result_first { [ROOT, extra] } else { [extra, ROOT] };
            s.step(op, &operands);
            cases.push(s.case(format!("{}, result {}", name(op), if result_first { "first" } else { "second" })));
        }
    }
    cases
}

/// A chain as long as a kernel takes, over all extra operands; and one whose every result is exact.
fn elementwise(shape: Shape) -> Vec<FusedCase> {
    let [n0, _, n2, _] = shape;
    let mut s = of_f32(Op::Binary(Binary::Sub), &[shape, shape], &Fill::Floats(2.0));
    let whole = s.extra_f32(shape, Fill::Floats(2.0));
    let bias = s.extra_f32([n0, 1, n2, 1], Fill::Floats(1.0));
    let scalar = s.extra_f32([1; 4], Fill::Floats(1.0));
    let gate = s.step(SILU, &[ROOT]);
    let product = s.step(MUL, &[gate, whole]);
    let shifted = s.step(ADD, &[product, bias]);
    let scaled = s.step(MUL, &[shifted, scalar]);
    let half = s.step(Op::Scale { scale: 0.5, bias: 0.125 }, &[scaled]);
    let both = s.step(ADD, &[half, ROOT]);
    let bent = s.step(Op::Unary(Unary::Tanh), &[both]);
    s.step(Op::Binary(Binary::Sub), &[bent, product]);
    let long = s.case(format!("{shape:?}, eight steps"));

    let mut s = of_f32(Op::Unary(Unary::Sqr), &[shape], &Fill::Integers);
    s.store();
    let same = s.setup().graph.ids().next().map(|id| s.setup().graph.whole(id)).expect("the op has an operand");
    let x = s.extra(same);
    let sum = s.step(ADD, &[ROOT, x]);
    s.store();
    s.step(MUL, &[sum, x]);
    vec![long, s.case(format!("{shape:?}, two stored, one of its own operands"))]
}

/// Norms with a gain, softmax and gradients with something added, all with a result stored.
fn rows(shape: Shape) -> Vec<FusedCase> {
    let [n0, n1, ..] = shape;
    let eps = 1e-5;
    let mut cases = Vec::new();

    let mut s = of_f32(Op::RmsNorm { eps }, &[shape], &Fill::Floats(2.0));
    let gain = s.extra_f32([n0, 1, 1, 1], Fill::Floats(1.0));
    let residual = s.extra_f32(shape, Fill::Floats(1.0));
    let scaled = s.step(MUL, &[ROOT, gain]);
    s.store();
    s.step(ADD, &[scaled, residual]);
    cases.push(s.case(format!("{shape:?}, gain and residual")));

    let mut s = of_f32(Op::Norm { eps }, &[shape], &Fill::Floats(2.0));
    let gain = s.extra_f32([n0, 1, 1, 1], Fill::Floats(1.0));
    let bias = s.extra_f32([n0, 1, 1, 1], Fill::Floats(1.0));
    let scaled = s.step(MUL, &[ROOT, gain]);
    s.step(ADD, &[scaled, bias]);
    cases.push(s.case(format!("{shape:?}, gain and bias")));

    let mut s = of_f32(Op::RmsNormBack { eps }, &[shape, shape], &Fill::Floats(2.0));
    let sum = s.extra_f32(shape, Fill::Floats(1.0));
    s.step(ADD, &[ROOT, sum]);
    cases.push(s.case(format!("{shape:?}, added to a sum")));

    let mut s = of_f32(Op::soft_max(0.7), &[shape], &Fill::Floats(4.0));
    s.store();
    s.step(Op::Scale { scale: 3.0, bias: 1.0 }, &[ROOT]);
    cases.push(s.case(format!("{shape:?}, itself stored")));

    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(4.0)), s.f32([n0, n1, 1, 1], Fill::CausalMask)];
    let mut s = FusedSetup::new(s, Op::soft_max(0.125), inputs);
    let factor = s.extra_f32([1, n1, 1, 1], Fill::Floats(2.0));
    s.step(MUL, &[ROOT, factor]);
    cases.push(s.case(format!("{shape:?} with a mask, a factor per row")));

    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(1.0)), s.f32(shape, Fill::Probabilities)];
    let mut s = FusedSetup::new(s, Op::SoftMaxBack { scale: 0.7 }, inputs);
    let sum = s.extra_f32(shape, Fill::Floats(1.0));
    s.step(ADD, &[sum, ROOT]);
    s.store();
    s.step(Op::Scale { scale: 0.5, bias: 0.0 }, &[Source::Result(1)]);
    cases.push(s.case(format!("{shape:?}, added to a sum that is stored")));
    cases
}

/// A sum over repeats, added to what was there.
fn sums(shape: Shape) -> FusedCase {
    let [n0, n1, n2, n3] = shape;
    let mut s = Setup::new();
    let inputs = vec![s.f32([n0, 3 * n1, n2, 2 * n3], Fill::Integers)];
    let mut s = FusedSetup::new_as(s, Op::RepeatBack, inputs, shape);
    let bias = s.extra_f32([n0, 1, 1, 1], Fill::Integers);
    s.step(ADD, &[ROOT, bias]);
    s.case(format!("to {shape:?}, with a bias"))
}

/// Rotations, plain and by factors, forward and back.
fn rotations(mode: RopeMode) -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for (shape, factors, back) in
        [([64, 3, 17, 1], false, false), ([66, 5, 3, 2], true, false), ([64, 1, 7, 1], false, true)]
    {
        let mut s = Setup::new();
        let mut inputs =
            vec![s.f32(shape, Fill::Floats(2.0)), s.input(DType::I32, [shape[2], 1, 1, 1], Fill::Ids(500))];
        if factors {
            inputs.push(s.f32([32, 1, 1, 1], Fill::Positive));
        }
        let mut s = FusedSetup::new(s, Op::Rope(Rope { mode, back, ..PLAIN_ROPE }), inputs);
        let sum = s.extra_f32(shape, Fill::Floats(1.0));
        let scaled = s.step(Op::Scale { scale: 0.125, bias: 0.0 }, &[ROOT]);
        s.store();
        s.step(ADD, &[scaled, sum]);
        cases.push(s.case(format!("{mode:?} {shape:?}")));
    }
    cases
}

fn product(op: Op, dtype: DType, a: Shape, b: Shape, fill: &Fill) -> FusedSetup {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, a, fill.clone()), s.f32(b, fill.clone())];
    FusedSetup::new(s, op, inputs)
}

/// Bias, factor and residual behind both kinds of products; every result is exact.
fn products(k: u32, m: u32, n: u32) -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for (op, a, b) in [(Op::MulMat, [k, m, 1, 1], [k, n, 1, 1]), (Op::OutProd, [m, k, 1, 1], [n, k, 1, 1])] {
        let mut s = product(op, DType::F32, a, b, &Fill::Integers);
        s.store();
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Integers);
        let residual = s.extra_f32([m, n, 1, 1], Fill::Integers);
        let shifted = s.step(ADD, &[ROOT, bias]);
        let doubled = s.step(Op::Scale { scale: 2.0, bias: 0.0 }, &[shifted]);
        s.step(ADD, &[doubled, residual]);
        cases.push(s.case(format!("k {k} m {m} n {n}, bias, factor, residual, itself stored")));

        // A column and a scalar, whose lanes no axis carries.
        let mut s = product(op, DType::F32, a, b, &Fill::Floats(1.0));
        let column = s.extra_f32([1, n, 1, 1], Fill::Floats(1.0));
        let scalar = s.extra_f32([1; 4], Fill::Floats(1.0));
        let scaled = s.step(MUL, &[ROOT, column]);
        let shifted = s.step(ADD, &[scaled, scalar]);
        s.step(SILU, &[shifted]);
        cases.push(s.case(format!("k {k} m {m} n {n}, column, scalar, SiLU")));
    }
    cases
}

/// Weights of every dtype, in both directions.
fn weights() -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_1] {
        let (k, m, n) = (96, 33, 17);
        let mut s = product(Op::MulMat, dtype, [k, m, 1, 1], [k, n, 1, 1], &Fill::Integers);
        let residual = s.extra_f32([m, n, 1, 1], Fill::Integers);
        s.step(ADD, &[ROOT, residual]);
        cases.push(s.case(format!("{dtype:?}, residual")));

        let mut s = Setup::new();
        let inputs =
            vec![s.input(dtype, [k, m, 1, 1], Fill::Integers), s.f32([m, n, 1, 1], Fill::Integers).transpose()];
        let mut s = FusedSetup::new(s, Op::OutProd, inputs);
        let sum = s.extra_f32([k, n, 1, 1], Fill::Integers);
        s.step(ADD, &[sum, ROOT]);
        cases.push(s.case(format!("{dtype:?}, b transposed, added to a sum")));
    }
    cases
}

/// Weights in blocks as the host has them, in every kind of product that is fused; those of few rows share no fetches.
fn blocks() -> Vec<FusedCase> {
    let (n, fill) = (9, Fill::Integers);
    let mut cases = Vec::new();
    let mut s = product(Op::MulMat, DType::Q4_K, [512, 33, 1, 1], [512, 1, 1, 1], &Fill::Floats(1.0));
    let bias = s.extra_f32([33, 1, 1, 1], Fill::Floats(1.0));
    s.step(ADD, &[ROOT, bias]);
    cases.push(s.case("Q4_K, one column, bias"));
    let mut s = product(Op::MulMat, DType::Q4_K, [256, 16, 1, 1], [256, 4, 1, 1], &Fill::Floats(1.0));
    let at = s.setup().input(DType::I32, [4, 1, 1, 1], Fill::Ids(300));
    s.rotate(Rope { n_dims: 8, ..PLAIN_ROPE }, 8, 1, vec![at]);
    cases.push(s.case("Q4_K, four columns, rotated"));
    let mut s = product(Op::MulMat, DType::Q8_0, [96, 33, 1, 1], [96, 3, 1, 1], &Fill::Floats(1.0));
    let residual = s.extra_f32([33, 3, 1, 1], Fill::Floats(1.0));
    s.step(ADD, &[ROOT, residual]);
    cases.push(s.case("Q8_0, three columns, residual"));
    for (dtype, k, m) in [(DType::Q5_0, 96, 8), (DType::Q4_K, 256, 48)] {
        let weight = || product(Op::MulMat, dtype, [k, m, 1, 1], [k, n, 1, 1], &fill);
        let adapted = || pair((Op::MulMat, k), (Op::MulMat, 8), [m, n], dtype, &fill, 2.0);
        for (beside, setup) in [("", &weight as &dyn Fn() -> FusedSetup), ("an adapter, ", &adapted)] {
            let mut s = setup();
            let residual = s.extra_f32([m, n, 1, 1], fill.clone());
            s.step(ADD, &[ROOT, residual]);
            cases.push(s.case(format!("{dtype:?}, {beside}residual")));

            let mut s = setup();
            let at = s.setup().input(DType::I32, [n, 1, 1, 1], Fill::Ids(300));
            s.rotate(Rope { n_dims: 8, ..PLAIN_ROPE }, 8, 1, vec![at]);
            cases.push(s.case(format!("{dtype:?}, {beside}rotated")));
        }
    }
    cases
}

/// Attention: operands by head, a mask shared by the heads, extras that are windows by head.
fn heads() -> Vec<FusedCase> {
    let (tokens, heads, kv_heads, hd) = (17, 6, 2, 20);
    let mut s = Setup::new();
    let keys = by_head(s.f32([hd, kv_heads, tokens, 1], Fill::Integers));
    let queries = by_head(s.f32([hd, heads, tokens, 1], Fill::Integers));
    let mut s = FusedSetup::new(s, Op::MulMat, vec![keys, queries]);
    let mask = s.extra_f32([tokens, tokens, 1, 1], Fill::Integers);
    let scaled = s.step(Op::Scale { scale: 0.25, bias: 0.0 }, &[ROOT]);
    s.step(ADD, &[scaled, mask]);
    let scores = s.case("scores with a mask");

    let mut s = Setup::new();
    let values = by_head(s.f32([hd, kv_heads, tokens, 1], Fill::Integers)).transpose();
    let weights = s.f32([tokens, tokens, heads, 1], Fill::Integers);
    let mut s = FusedSetup::new(s, Op::MulMat, vec![values, weights]);
    let gate = by_head(s.setup().f32([hd, heads, tokens, 1], Fill::Integers));
    let gate = s.extra(gate);
    s.step(MUL, &[ROOT, gate]);
    vec![scores, s.case("mixed values, gated by a window")]
}

/// A long k is summed in parts: the epilogue belongs to the sum of them.
fn parts() -> Vec<FusedCase> {
    let epilogue = |mut s: FusedSetup, m: u32, n: u32, name: &str| {
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Integers);
        let residual = s.extra_f32([m, n, 1, 1], Fill::Integers);
        let shifted = s.step(ADD, &[ROOT, bias]);
        s.store();
        s.step(MUL, &[shifted, residual]);
        s.case(name)
    };
    let long = product(Op::MulMat, DType::F32, [8200, 9, 1, 1], [8200, 5, 1, 1], &Fill::Integers);
    let mut s = Setup::new();
    let inputs = vec![s.input(DType::Q8_0, [64, 8201, 1, 1], Fill::Integers), s.f32([5, 8201, 1, 1], Fill::Integers)];
    let quantized = FusedSetup::new(s, Op::OutProd, inputs);
    vec![epilogue(long, 9, 5, "in parts"), epilogue(quantized, 64, 5, "Q8_0, in parts")]
}

/// The gradient of a gated unit behind the product that gives its dy: one result stored, one the output.
fn gated_gradient() -> FusedCase {
    let (k, m, n) = (33, 65, 9);
    let shape = [m, n, 1, 1];
    let mut s = product(Op::MulMat, DType::F32, [k, m, 1, 1], [k, n, 1, 1], &Fill::Floats(1.0));
    let gate = s.extra_f32(shape, Fill::Floats(4.0));
    let up = s.extra_f32(shape, Fill::Floats(2.0));
    let open = s.step(SILU, &[gate]);
    s.step(MUL, &[ROOT, open]);
    s.store();
    let dy = s.step(MUL, &[ROOT, up]);
    s.step(Op::SiluBack, &[dy, gate]);
    s.case("gradient of a gated unit")
}

/// Stored results whose padded boxes are not the output's.
fn other_tiles() -> Vec<FusedCase> {
    let tiles = [(1, 1), (1, 4), (2, 4), (3, 4)].map(|(row_axis, strip)| Tile { row_axis, strip });
    let mut cases = Vec::new();
    for tile in tiles {
        let mut s = product(Op::MulMat, DType::F32, [7, 9, 3, 2], [7, 5, 3, 2], &Fill::Integers);
        s.store();
        s.step(Op::Unary(Unary::Neg), &[ROOT]);
        cases.push(FusedCase { tile: Some(tile), ..s.case(format!("stored in {tile:?}")) });
        for op in [Op::Unary(Unary::Neg), Op::RmsNorm { eps: 1e-5 }] {
            let mut s = of_f32(op, &[[9, 5, 3, 2]], &Fill::Floats(2.0));
            s.store();
            s.step(Op::Unary(Unary::Neg), &[ROOT]);
            cases.push(FusedCase { tile: Some(tile), ..s.case(format!("stored in {tile:?}")) });
        }
    }
    cases
}

/// Products and norms whose results are rotated: by head, behind a bias and an adapter, with factors, forward and back.
fn rotated(mode: RopeMode) -> Vec<FusedCase> {
    let mut cases = Vec::new();
    let rope = |n_dims: u32, back: bool| Rope { mode, n_dims, back, freq_scale: 0.5, ..PLAIN_ROPE };
    let positions = |s: &mut FusedSetup, n: u32| s.setup().input(DType::I32, [n, 1, 1, 1], Fill::Ids(300));
    for (k, head_dim, heads, tokens) in
        [(5, 8, 1, 3), (33, 16, 3, 17), (64, 64, 2, 9), (20, 24, 5, 7), (96, 128, 1, 33)]
    {
        let m = heads * head_dim;
        let name = format!("{mode:?}, {heads} heads of {head_dim}, {tokens} tokens");
        let mut s = product(Op::MulMat, DType::F32, [k, m, 1, 1], [k, tokens, 1, 1], &Fill::Floats(1.0));
        let at = positions(&mut s, tokens);
        s.rotate(rope(head_dim, false), head_dim, 1, vec![at]);
        cases.push(s.case(format!("{name}, rotated")));

        let mut s = product(Op::MulMat, DType::F32, [k, m, 1, 1], [k, tokens, 1, 1], &Fill::Floats(1.0));
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Floats(1.0));
        s.step(ADD, &[ROOT, bias]);
        s.store();
        let at = positions(&mut s, tokens);
        let factors = s.setup().f32([head_dim / 2, 1, 1, 1], Fill::Positive);
        s.rotate(rope(head_dim, true), head_dim, 1, vec![at, factors]);
        cases.push(s.case(format!("{name}, bias stored, rotated back by factors")));

        let mut s = pair((Op::MulMat, k), (Op::MulMat, 8), [m, tokens], DType::F32, &Fill::Floats(1.0), 0.5);
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Floats(1.0));
        s.step(ADD, &[ROOT, bias]);
        let at = positions(&mut s, tokens);
        s.rotate(rope(head_dim, false), head_dim, 1, vec![at]);
        cases.push(s.case(format!("{name}, adapter, bias, rotated")));

        let mut s = of_f32(Op::RmsNorm { eps: 1e-5 }, &[[head_dim, heads, tokens, 2]], &Fill::Floats(2.0));
        let gain = s.extra_f32([head_dim, 1, 1, 1], Fill::Floats(1.0));
        s.step(MUL, &[ROOT, gain]);
        let at = positions(&mut s, tokens);
        s.rotate(rope(head_dim, false), head_dim, 2, vec![at]);
        cases.push(s.case(format!("{name}, gain, rotated")));
    }
    // Several matrices, and a weight that is quantized.
    let mut s = product(Op::MulMat, DType::Q8_0, [32, 32, 1, 1], [32, 9, 3, 1], &Fill::Floats(1.0));
    s.store();
    let at = positions(&mut s, 9);
    s.rotate(rope(16, false), 16, 1, vec![at]);
    cases.push(s.case(format!("{mode:?}, Q8_0, batches, rotated")));
    let mut s = product(Op::MulMat, DType::Q8_0, [96, 32, 1, 1], [96, 4, 1, 1], &Fill::Floats(1.0));
    let at = positions(&mut s, 4);
    s.rotate(rope(16, false), 16, 1, vec![at]);
    cases.push(s.case(format!("{mode:?}, Q8_0, four columns, rotated")));
    cases
}

/// A product beside another, as a low-rank adapter is beside the weight that it adapts: the second one's k is the rank.
fn pairs() -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for (k, m, n, rank) in [(1, 1, 1, 1), (7, 17, 33, 3), (33, 5, 1, 8), (64, 129, 17, 16), (130, 33, 9, 5)] {
        for (op, second) in [(Op::MulMat, Op::MulMat), (Op::OutProd, Op::OutProd), (Op::MulMat, Op::OutProd)] {
            for fill in [Fill::Integers, Fill::Floats(1.0)] {
                let mut s = pair((op, k), (second, rank), [m, n], DType::F32, &fill, 0.5);
                if second == Op::OutProd {
                    let residual = s.extra_f32([m, n, 1, 1], fill.clone());
                    s.store();
                    s.step(ADD, &[ROOT, residual]);
                }
                let second = second.row().name;
                cases.push(s.case(format!("k {k} m {m} n {n}, beside it {second} k {rank}, {fill:?}")));
            }
        }
    }
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_1] {
        cases.push(
            pair((Op::MulMat, 96), (Op::MulMat, 8), [33, 17], dtype, &Fill::Integers, 2.0)
                .case(format!("{dtype:?} with an adapter")),
        );
    }
    // The gradient: both products against the transposes of what they were given.
    let (k, m, n, rank) = (64, 33, 9, 8);
    let mut s = Setup::new();
    let inputs =
        vec![s.input(DType::Q4_1, [k, m, 1, 1], Fill::Integers), s.f32([m, n, 1, 1], Fill::Integers).transpose()];
    let mut s = FusedSetup::new(s, Op::OutProd, inputs);
    let down = s.setup().f32([k, rank, 1, 1], Fill::Integers);
    let dy = s.setup().f32([rank, n, 1, 1], Fill::Integers).transpose();
    s.second(Op::OutProd, vec![down, dy], 0.25);
    cases.push(s.case("Q4_1, gradient with an adapter"));
    // Heads that share matrices, and a weight in another dtype beside F32.
    let mut s = product(Op::MulMat, DType::F32, [12, 9, 3, 1], [12, 5, 9, 2], &Fill::Integers);
    let a = s.setup().input(DType::F16, [7, 9, 1, 2], Fill::Integers);
    let b = s.setup().f32([7, 5, 9, 2], Fill::Integers);
    s.second(Op::MulMat, vec![a, b], -1.0);
    cases.push(s.case("shared heads, F16 beside"));
    // In parts, the first of which has the second product.
    let mut s = pair((Op::MulMat, 8201), (Op::MulMat, 8), [9, 5], DType::F32, &Fill::Integers, 0.5);
    let bias = s.extra_f32([9, 1, 1, 1], Fill::Integers);
    s.step(ADD, &[ROOT, bias]);
    cases.push(s.case("in parts, with an adapter"));
    cases.push(
        pair((Op::OutProd, 8201), (Op::MulMat, 3), [9, 5], DType::F32, &Fill::Integers, 2.0)
            .case("in parts, with an adapter and nothing else"),
    );
    cases
}

/// Two products of the result [m, n], each an op and its k; `dtype` is that of the first weight.
fn pair(
    (op, k): (Op, u32),
    (second, rank): (Op, u32),
    [m, n]: [u32; 2],
    dtype: DType,
    fill: &Fill,
    scale: f32,
) -> FusedSetup {
    // Reduction first for MUL_MAT, last for OUT_PROD.
    let seen = |op: Op, k: u32, rows: u32| if op == Op::MulMat { [k, rows, 1, 1] } else { [rows, k, 1, 1] };
    let mut s = product(op, dtype, seen(op, k, m), seen(op, k, n), fill);
    let inputs =
        vec![s.setup().f32(seen(second, rank, m), fill.clone()), s.setup().f32(seen(second, rank, n), fill.clone())];
    s.second(second, inputs, scale);
    s
}
