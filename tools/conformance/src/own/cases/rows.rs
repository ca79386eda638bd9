//! Reductions and norms along rows, their gradients, and indices of rows.

use ggml_host::{Context, Rope, RopeMode, Tensor, Type};

use super::{Cases, dims};
use crate::own::bound::Bound;
use crate::own::kit::View;

const SHAPES: [&[usize]; 6] = [&[1, 3], &[3], &[33, 3, 2], &[129, 2, 1, 3], &[257, 5], &[64, 4, 4]];
const ROWS: [View; 4] = [View::Dense, View::HEADS, View::Sliced, View::Strided];
const ANY: [View; 6] =
    [View::Dense, View::TRANSPOSED, View::HEADS, View::Sliced, View::Strided, View::SlicedTransposed];

pub fn add(cases: &mut Cases) {
    for shape in SHAPES {
        reductions(cases, shape);
        norms(cases, shape);
        softmax(cases, shape);
    }
    gradients(cases);
    successors(cases);
    indices(cases);
    rotations(cases);
}

/// A sum of squares of n numbers is off by n units, its root by half of that, the quotient by a few.
fn norm(n: usize) -> Bound {
    Bound::roundings(n + 8)
}

/// An exponential is off by 3 + 2 |x| units, the sum below it by n.
fn exponentials(n: usize) -> Bound {
    Bound::roundings(n + 64)
}

fn reductions(cases: &mut Cases, shape: &'static [usize]) {
    let n = shape[0];
    for view in ANY {
        let name = |op: &str| format!("{op} {} {}", dims(shape), view.name());
        cases.add(6, name("SUM"), move |k| {
            k.result(k.ops().sum(k.f32(shape, view)), Bound::Sum(shape.iter().product()));
        });
        cases.add(6, name("SUM_ROWS"), move |k| {
            k.result(k.ops().sum_rows(k.f32(shape, view)), Bound::Sum(n));
        });
        cases.add(6, name("MEAN"), move |k| {
            k.result(k.ops().mean(k.f32(shape, view)), Bound::Sum(n));
        });
        cases.add(6, name("CUMSUM"), move |k| {
            k.result(k.ops().cumsum(k.f32(shape, view)), Bound::Sum(n));
        });
    }
}

fn norms(cases: &mut Cases, shape: &'static [usize]) {
    let n = shape[0];
    for view in ROWS {
        let name = |op: &str| format!("{op} {} {}", dims(shape), view.name());
        cases.add(4, name("RMS_NORM"), move |k| {
            k.result(k.ops().rms_norm(k.f32(shape, view), 1e-5), norm(n));
        });
        cases.add(4, name("RMS_NORM in place"), move |k| {
            k.result(k.ops().rms_norm_in_place(k.f32(shape, view), 1e-5), norm(n));
        });
        cases.add(4, name("L2_NORM"), move |k| {
            k.result(k.ops().l2_norm(k.f32(shape, view), 1e-6), norm(n));
        });
        // A mean is taken off: units of the largest. Rows of one are 0 whatever rounds.
        cases.add(if n > 1 { 4 } else { 0 }, name("NORM"), move |k| {
            k.result(k.ops().norm(k.f32(shape, view), 1e-5), Bound::Units(4.0 * (n + 8) as f64));
        });
    }
    if shape.len() == 3 {
        cases.add(1, format!("GROUP_NORM {}", dims(shape)), move |k| {
            let n = shape[0] * shape[1] * shape[2] / 2;
            k.result(k.ops().group_norm(k.f32(shape, View::Dense), 2, 1e-5), Bound::Units(4.0 * (n + 8) as f64));
        });
    }
}

fn softmax(cases: &mut Cases, shape: &'static [usize]) {
    let n = shape[0];
    for mask in [None, Some(Type::F32), Some(Type::F16)] {
        let name = format!("SOFT_MAX {} mask {}", dims(shape), mask.map_or("none", Type::name));
        cases.add(2, name, move |k| {
            let x = k.f32(shape, View::Dense);
            let rows = shape.get(1).copied().unwrap_or(1);
            let mask = mask.map(|dtype| k.floats(dtype, &[n, rows], View::Dense));
            k.result(k.ops().soft_max(x, mask, 0.5), exponentials(n));
        });
    }
    cases.add(1, format!("SOFT_MAX in place {}", dims(shape)), move |k| {
        k.result(k.ops().soft_max_in_place(k.f32(shape, View::Dense)), exponentials(n));
    });
}

/// Gradients on operands as graphs hand them over: permuted, and with a result that takes their place.
fn gradients(cases: &mut Cases) {
    let shape = &[33, 4, 3][..];
    let units = Bound::Units(8.0 * (33.0 + 8.0));
    let smooth = Bound::Near { relative: 2.0f64.powi(-16), absolute: 2.0f64.powi(-18) };
    for a in ANY {
        for b in ANY {
            let name = |op: &str| format!("{op} {} {}", a.name(), b.name());
            cases.add(9, name("RMS_NORM_BACK"), move |k| {
                k.result(k.ops().rms_norm_back(k.f32(shape, a), k.f32(shape, b), 1e-5), units);
            });
            cases.add(9, name("SILU_BACK"), move |k| {
                k.result(k.ops().silu_back(k.f32(shape, a), k.f32(shape, b)), smooth);
            });
            cases.add(9, name("SOFT_MAX_BACK"), move |k| {
                let y = k.input(Type::F32, shape, b, k.values(33 * 12, 0.0, 0.1));
                k.result(k.ops().soft_max_back(k.f32(shape, a), y, 0.7), units);
            });
            cases.add(9, name("GET_ROWS_BACK"), move |k| {
                let (gradient, table) = (k.f32(&[33, 9], a), k.f32(&[33, 5], b));
                let ids = k.input(Type::I32, &[9], View::Dense, k.indices(9, 5));
                k.result(k.ops().get_rows_back(gradient, ids, table), Bound::Sum(9));
            });
            cases.add(9, name("CROSS_ENTROPY_LOSS"), move |k| {
                let labels = k.input(Type::F32, &[33, 7], b, k.values(231, 0.0, 1.0));
                k.result(k.ops().cross_entropy_loss(k.f32(&[33, 7], a), labels), exponentials(231));
            });
            cases.add(9, name("CROSS_ENTROPY_LOSS_BACK"), move |k| {
                let labels = k.input(Type::F32, &[33, 7], b, k.values(231, 0.0, 1.0));
                let node = k.ops().cross_entropy_loss_back(k.f32(&[1], View::Dense), k.f32(&[33, 7], a), labels);
                k.result(node, Bound::Units(4.0 * (33.0 + 64.0)));
            });
        }
        cases.add(1, format!("SOFT_MAX_BACK in place {}", a.name()), move |k| {
            let y = k.input(Type::F32, shape, View::Dense, k.values(33 * 12, 0.0, 0.1));
            k.result(k.ops().soft_max_back_in_place(k.f32(shape, a), y, 0.7, 0.0), units);
        });
    }
}

/// Ops to which the engine's allocator gives the memory of an operand, without telling: results of other nodes that nobody else reads.
fn successors(cases: &mut Cases) {
    type Op = for<'c> fn(&'c Context, Tensor<'c>, Tensor<'c>) -> Tensor<'c>;
    let units = Bound::Units(8.0 * (33.0 + 8.0));
    let smooth = Bound::Near { relative: 2.0f64.powi(-16), absolute: 2.0f64.powi(-18) };
    let table: [(&'static str, Op, Bound); 8] = [
        ("ADD", |c, a, b| c.add(a, b), Bound::roundings(1)),
        ("MUL", |c, a, b| c.mul(b, a), Bound::roundings(1)),
        ("RMS_NORM_BACK", |c, a, b| c.rms_norm_back(a, b, 1e-5), units),
        ("SILU_BACK", |c, a, b| c.silu_back(a, b), smooth),
        ("SOFT_MAX_BACK", |c, a, b| c.soft_max_back(a, b, 0.7), units),
        ("SOFT_MAX", |c, a, b| c.soft_max(a, Some(b), 0.5), exponentials(33)),
        ("SWIGLU", |c, a, b| c.swiglu(a, b), smooth),
        ("DIAG_MASK_ZERO", |c, a, _| c.diag_mask_zero(a, 2), Bound::Exact),
    ];
    for (name, op, bound) in table {
        cases.add(1, format!("{name} over a result"), move |k| {
            // Times powers of two, which round nothing.
            let c = k.ops();
            let double = |x| k.step(c.scale(x, 2.0), Bound::Exact);
            let (a, b) = (double(k.f32(&[33, 12], View::Dense)), double(k.f32(&[33, 12], View::Dense)));
            k.result(op(c, a, b), bound);
        });
    }
}

fn indices(cases: &mut Cases) {
    for shape in SHAPES {
        for view in ROWS {
            // Values are distinct, for ties have no order.
            let values = |k: &crate::own::kit::Kit<'_>| k.distinct(shape.iter().product(), shape.iter().product());
            if shape.len() < 3 {
                cases.add(3, format!("ARGMAX {} {}", dims(shape), view.name()), move |k| {
                    let x = k.input(Type::F32, shape, view, values(k));
                    k.result(k.ops().argmax(x), Bound::Exact);
                });
            }
            for descending in [0, 1] {
                cases.add(6, format!("ARGSORT {} {} {descending}", dims(shape), view.name()), move |k| {
                    let x = k.input(Type::F32, shape, view, values(k));
                    k.result(k.ops().argsort(x, descending), Bound::Exact);
                });
            }
        }
    }
}

fn rotations(cases: &mut Cases) {
    let bound = Bound::Near { relative: 0.0, absolute: 2.0f64.powi(-10) };
    for mode in [RopeMode::Normal, RopeMode::Neox] {
        for (width, rotated) in [(32, 32), (34, 20), (128, 64), (6, 6)] {
            for view in [View::Dense, View::HEADS, View::Sliced, View::Strided] {
                for dtype in [Type::F32, Type::F16] {
                    let name = |op: &str| format!("{op} {mode:?} {dtype} {rotated} of {width} {}", view.name());
                    let rope = Rope { dims: rotated, mode, freq_base: 10000.0, freq_scale: 1.0 };
                    cases.add(12, name("ROPE"), move |k| {
                        let x = k.floats(dtype, &[width, 3, 5], view);
                        let positions = k.input(Type::I32, &[5], View::Dense, k.indices(5, 60));
                        k.result(k.ops().rope(x, positions, None, &rope), bound);
                    });
                    cases.add(12, name("ROPE_BACK"), move |k| {
                        let x = k.floats(dtype, &[width, 3, 5], view);
                        let positions = k.input(Type::I32, &[5], View::Dense, k.indices(5, 60));
                        let factors = k.input(Type::F32, &[rotated / 2], View::Dense, k.values(rotated / 2, 1.0, 4.0));
                        k.result(k.ops().rope_back(x, positions, Some(factors), &rope), bound);
                    });
                }
            }
        }
    }
}
