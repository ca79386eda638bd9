//! Products of matrices: every type of weight, views of both operands, groups of heads, experts.

use ggml_host::Type;

use super::{Cases, WEIGHTS};
use crate::own::bound::Bound;
use crate::own::kit::View;

pub fn add(cases: &mut Cases) {
    for name in WEIGHTS {
        if let Some(dtype) = Type::by_name(name) {
            weights(cases, dtype);
            out_products(cases, dtype);
            experts(cases, dtype);
        }
    }
    views(cases);
    groups(cases);
    // Patches and kernels of convolutions are both halves.
    for dtype in [Type::F32, Type::F16, Type::BF16] {
        cases.add(1, format!("MUL_MAT {dtype} by f16"), move |k| {
            let (w, x) = (k.weight(dtype, &[36, 5, 2], View::Dense), k.weight(Type::F16, &[36, 7, 2], View::HEADS));
            k.result(k.ops().mul_mat(w, x), Bound::Sum(36));
        });
    }
    for view in [View::Dense, View::Sliced] {
        cases.add(1, format!("MUL_MAT of a tensor and itself {}", view.name()), move |k| {
            let x = k.f32(&[33, 5], view);
            k.result(k.ops().mul_mat(x, x), Bound::Sum(33));
        });
    }
}

/// Extents of k that fill blocks, and are odd where there are none.
fn lengths(dtype: Type) -> [usize; 2] {
    match dtype.block_len() {
        1 => [33, 129],
        block if block < 256 => [block, 7 * block],
        block => [block, 2 * block],
    }
}

fn weights(cases: &mut Cases, dtype: Type) {
    for k_len in lengths(dtype) {
        for (n, m) in [(1, 1), (3, 1), (33, 2), (64, 33), (5, 129)] {
            for view in [View::Dense, View::Sliced] {
                cases.add(14, format!("MUL_MAT {dtype} {k_len}x{n} {} by {m}", view.name()), move |k| {
                    let (w, x) = (k.weight(dtype, &[k_len, n], view), k.f32(&[k_len, m], View::Dense));
                    k.result(k.ops().mul_mat(w, x), Bound::Sum(k_len));
                });
            }
        }
    }
}

/// Both operands of any strides, where types have no blocks.
fn views(cases: &mut Cases) {
    let all =
        [View::Dense, View::HEADS, View::TRANSPOSED, View::TURNED, View::Sliced, View::Strided, View::SlicedTransposed];
    for dtype in [Type::F32, Type::F16, Type::BF16] {
        for w in all {
            for x in all {
                // The engine wants weights whose rows are not transposed.
                if matches!(w, View::TRANSPOSED | View::TURNED | View::SlicedTransposed) {
                    continue;
                }
                cases.add(14, format!("MUL_MAT {dtype} {} by {}", w.name(), x.name()), move |k| {
                    let (a, b) = (k.weight(dtype, &[36, 5, 2], w), k.f32(&[36, 3, 2], x));
                    k.result(k.ops().mul_mat(a, b), Bound::Sum(36));
                });
            }
        }
    }
}

/// Heads of the first operand serve blocks of those of the second.
fn groups(cases: &mut Cases) {
    for dtype in [Type::F32, Type::F16, Type::Q8_0, Type::Q4_0] {
        for (heads, served) in [(1, 3), (2, 6), (3, 3)] {
            for view in [View::Dense, View::HEADS] {
                cases.add(6, format!("MUL_MAT {dtype} {heads} heads for {served} {}", view.name()), move |k| {
                    let (a, b) = (k.weight(dtype, &[64, 5, heads], view), k.f32(&[64, 7, served], View::HEADS));
                    k.result(k.ops().mul_mat(a, b), Bound::Sum(64));
                });
                cases.add(6, format!("OUT_PROD {dtype} {heads} heads for {served} {}", view.name()), move |k| {
                    let (a, b) = (k.weight(dtype, &[64, 5, heads], view), k.f32(&[7, 5, served], View::HEADS));
                    k.result(k.ops().out_prod(a, b), Bound::Sum(5));
                });
            }
        }
    }
}

/// The gradient of a product's input: weights of any type, and a gradient that is often a transpose.
fn out_products(cases: &mut Cases, dtype: Type) {
    let width = lengths(dtype)[0];
    for (rows, m) in [(1, 3), (5, 1), (33, 17)] {
        for (a, b) in [
            (View::Dense, View::Dense),
            (View::Dense, View::TRANSPOSED),
            (View::Sliced, View::SlicedTransposed),
            (View::HEADS, View::HEADS),
            (View::Dense, View::TURNED),
        ] {
            cases.add(16, format!("OUT_PROD {dtype} {width}x{rows} {} by {m} {}", a.name(), b.name()), move |k| {
                let (w, g) = (k.weight(dtype, &[width, rows, 2], a), k.f32(&[m, rows, 2], b));
                k.result(k.ops().out_prod(w, g), Bound::Sum(rows));
            });
        }
    }
}

fn experts(cases: &mut Cases, dtype: Type) {
    let k_len = lengths(dtype)[0];
    for (slots, tokens, shared) in [(1, 1, true), (2, 3, true), (3, 5, false), (2, 33, false)] {
        for view in [View::Dense, View::HEADS] {
            let name = format!(
                "MUL_MAT_ID {dtype} {slots} of 4, {tokens} tokens {}{}",
                view.name(),
                if shared { " shared" } else { "" }
            );
            cases.add(12, name, move |k| {
                let w = k.weight(dtype, &[k_len, 7, 4], View::Dense);
                let x = k.f32(&[k_len, if shared { 1 } else { slots }, tokens], view);
                let ids = (0..tokens).flat_map(|_| k.distinct(slots, 4)).collect();
                let ids = k.input(Type::I32, &[slots, tokens], View::Sliced, ids);
                k.result(k.ops().mul_mat_id(w, x, ids), Bound::Sum(k_len));
            });
        }
    }
}
