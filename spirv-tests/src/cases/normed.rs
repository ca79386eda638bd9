//! Products of few columns with the norm of their right factor, and two of one right factor. Only a schedule whose workgroups go over all of
//! what is summed takes them: they are cases of a device that is asked for it.

use fblayout::graph::{Binary, DType, Op, Rope, RopeMode, Unary};
use fblayout::kernels::Source;

use super::PLAIN_ROPE;
use crate::{Fill, FusedCase, FusedSetup, Setup};

const ADD: Op = Op::Binary(Binary::Add);
const ROOT: Source = Source::Result(0);

/// Left factors, elements summed, rows and columns: all kinds of types, a sum of few steps and of many, edges of tiles.
const PRODUCTS: &[(DType, u32, u32, u32)] = &[
    (DType::F32, 36, 17, 1),
    (DType::F32, 8, 3, 5),
    (DType::F16, 200, 33, 3),
    (DType::BF16, 64, 5, 8),
    (DType::F16, 2048, 9, 1),
    (DType::Q8_0, 96, 50, 7),
    (DType::Q8_0, 2048, 20, 1),
    (DType::Q4_1, 160, 12, 2),
    (DType::Q4_0, 96, 21, 1),
    (DType::Q4_K, 512, 7, 4),
    (DType::Q6_K, 256, 18, 1),
];

/// All cases.
pub fn normed() -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for &(dtype, k, m, n) in PRODUCTS {
        let name = format!("{dtype:?}, k {k} m {m} n {n}");
        let s = setup(1, (dtype, k, m, n), &Fill::Floats(2.0), Some(1e-5), true);
        cases.push(s.case(format!("{name}, gain")));

        let mut s = setup(1, (dtype, k, m, n), &Fill::Floats(2.0), Some(1e-6), n % 2 == 0);
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Floats(1.0));
        let residual = s.extra_f32([m, n, 1, 1], Fill::Floats(1.0));
        let shifted = s.step(ADD, &[ROOT, bias]);
        s.store();
        s.step(ADD, &[shifted, residual]);
        cases.push(s.case(format!("{name}, bias stored, residual")));

        for (op, eps) in [(Op::SwiGlu, Some(1e-5)), (Op::GeGlu, None)] {
            let mut s = setup(2, (dtype, k, m, n), &Fill::Floats(0.5), eps, eps.is_some());
            s.step(op, &[ROOT, Source::Second]);
            cases.push(s.case(format!("{name}, twins, {}", op.row().name)));
        }
    }
    cases.extend(magnitudes());
    cases.extend([RopeMode::Normal, RopeMode::Neox].into_iter().flat_map(rotated));
    cases.extend(twins());
    cases
}

fn setup(
    left: usize,
    (dtype, k, m, n): (DType, u32, u32, u32),
    fill: &Fill,
    eps: Option<f32>,
    gain: bool,
) -> FusedSetup {
    let mut s = Setup::new();
    let left: Vec<_> = (0..left).map(|_| s.input(dtype, [k, m, 1, 1], Fill::Floats(1.0))).collect();
    let x = s.f32([k, n, 1, 1], fill.clone());
    let gain = gain.then(|| s.f32([k, 1, 1, 1], Fill::Floats(1.5)));
    FusedSetup::normed(s, &left, x, eps, gain)
}

/// What is added to the mean of squares is more than that, or nothing beside it; a column of zeros; one that is far larger than the others.
fn magnitudes() -> Vec<FusedCase> {
    let of = (DType::F16, 72, 10, 3);
    let column = |i: usize| if i / 72 == 1 { 0.0 } else { (i % 7) as f32 * if i < 72 { 1e-3 } else { 3e4 } };
    let mixed = Fill::Given((0..216).map(column).collect());
    [(Fill::Floats(1e-3), 0.25), (Fill::Floats(1e3), 1e-12), (mixed, 1e-5)]
        .into_iter()
        .map(|(fill, eps)| setup(1, of, &fill, Some(eps), true).case(format!("eps {eps}, {}", label(&fill))))
        .collect()
}

fn label(fill: &Fill) -> String {
    match fill {
        Fill::Given(_) => "columns of their own".into(),
        fill => format!("{fill:?}"),
    }
}

/// Heads that are rotated behind the product: with factors, behind a bias, as the last of two extra operands stored.
fn rotated(mode: RopeMode) -> Vec<FusedCase> {
    let mut cases = Vec::new();
    for (dtype, k, head_dim, heads, tokens) in [
        (DType::F32, 40, 16, 3, 5),
        (DType::F16, 1024, 64, 2, 1),
        (DType::Q8_0, 64, 128, 1, 8),
        (DType::Q5_0, 96, 8, 4, 2),
    ] {
        let m = heads * head_dim;
        let mut s = setup(1, (dtype, k, m, tokens), &Fill::Floats(2.0), Some(1e-5), true);
        let positions = s.setup().input(DType::I32, [tokens, 1, 1, 1], Fill::Ids(300));
        let mut operands = vec![positions];
        let with_factors = heads % 2 == 0;
        if with_factors {
            operands.push(s.setup().f32([head_dim / 2, 1, 1, 1], Fill::Positive));
        }
        let bias = s.extra_f32([m, 1, 1, 1], Fill::Floats(1.0));
        s.step(ADD, &[ROOT, bias]);
        s.store();
        s.rotate(Rope { mode, n_dims: head_dim, ..PLAIN_ROPE }, head_dim, 1, operands);
        cases.push(s.case(format!("{mode:?}, {dtype:?}, {heads} heads of {head_dim}, {tokens} tokens")));
    }
    cases
}

/// The second result is any operand of any step, beside two extra ones.
fn twins() -> Vec<FusedCase> {
    let (k, m, n) = (64, 33, 2);
    let mut s = setup(2, (DType::F16, k, m, n), &Fill::Floats(1.0), Some(1e-5), false);
    let bias = s.extra_f32([m, 1, 1, 1], Fill::Floats(1.0));
    let residual = s.extra_f32([m, n, 1, 1], Fill::Floats(1.0));
    let shifted = s.step(ADD, &[Source::Second, bias]);
    let open = s.step(Op::Unary(Unary::Silu), &[shifted]);
    let gated = s.step(Op::Binary(Binary::Mul), &[open, ROOT]);
    let both = s.step(Op::Binary(Binary::Sub), &[gated, Source::Second]);
    s.step(ADD, &[both, residual]);
    vec![s.case("twins, bias, residual")]
}
