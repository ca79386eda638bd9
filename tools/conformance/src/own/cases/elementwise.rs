//! Functions of single elements: types, views, broadcast, overlapping operands, in place.

use ggml_host::{Context, Glu, Tensor, Type, Unary};

use super::{Cases, dims};
use crate::own::bound::Bound;
use crate::own::kit::{Kit, View};

/// Extents that no tile or group divides, and some that they do.
const SHAPES: [&[usize]; 7] = [&[1], &[3], &[257], &[129, 2], &[33, 3, 2], &[5, 7, 3, 2], &[64, 4, 4]];
const FLOATS: [Type; 3] = [Type::F32, Type::F16, Type::BF16];
/// Views that ggml scales: rows at one distance.
const EVEN: [View; 2] = [View::Dense, View::Strided];
/// Views whose rows are dense, as functions want them.
const ROWS: [View; 4] = [View::Dense, View::HEADS, View::Sliced, View::Strided];
const ANY: [View; 8] = [
    View::Dense,
    View::TRANSPOSED,
    View::HEADS,
    View::TURNED,
    View::Sliced,
    View::Strided,
    View::Comb,
    View::SlicedTransposed,
];

type OneToOne = for<'c> fn(&'c Context, Tensor<'c>) -> Tensor<'c>;
type TwoToOne = for<'c> fn(&'c Context, Tensor<'c>, Tensor<'c>) -> Tensor<'c>;

pub fn add(cases: &mut Cases) {
    unary(cases);
    simple(cases);
    binary(cases);
    overlap(cases);
    gated(cases);
}

/// Errors of functions: what Vulkan asks of exp, log, tanh and division with inputs in -3..3, and what ggml's tables of halves lose.
fn function(name: &str) -> Bound {
    match name {
        "ABS" | "SGN" | "NEG" | "STEP" | "RELU" | "FLOOR" | "CEIL" | "ROUND" | "TRUNC" => Bound::Exact,
        name if name.contains("GE") => Bound::Near { relative: 2.0f64.powi(-10), absolute: 2.0f64.powi(-10) },
        _ => Bound::Near { relative: 2.0f64.powi(-17), absolute: 2.0f64.powi(-18) },
    }
}

fn unary(cases: &mut Cases) {
    for op in Unary::all() {
        for dtype in FLOATS {
            for shape in SHAPES {
                for view in ROWS {
                    let every = if dtype == Type::F32 { 16 } else { 40 };
                    let name = format!("{} {dtype} {} {}", op.name(), dims(shape), view.name());
                    cases.add(every, name, move |k| {
                        let x = k.values(shape.iter().product(), -3.0, 3.0);
                        let x = k.input(dtype, shape, view, x);
                        k.result(k.ops().unary(op, x), function(op.name()));
                    });
                }
            }
        }
        for view in ROWS {
            let name = format!("{} in place {}", op.name(), view.name());
            cases.add(12, name, move |k| {
                let x = k.input(Type::F32, &[33, 3, 2], view, k.values(198, -3.0, 3.0));
                k.result(k.ops().unary_in_place(op, x), function(op.name()));
            });
        }
    }
}

/// Functions that have an op of their own; most take any strides.
fn simple(cases: &mut Cases) {
    let exact = Bound::Exact;
    let wave = Bound::Near { relative: 0.0, absolute: 2.0f64.powi(-10) };
    let log = Bound::Near { relative: 2.0f64.powi(-20), absolute: 2.0f64.powi(-19) };
    let table: [(&'static str, OneToOne, (f32, f32), Bound); 9] = [
        ("SCALE", |c, x| c.scale(x, -1.75), (-1.0, 1.0), Bound::roundings(1)),
        ("SCALE bias", |c, x| c.scale_bias(x, 0.3, 2.5), (-1.0, 1.0), Bound::Near { relative: 0.0, absolute: 4e-7 }),
        ("SQR", |c, x| c.sqr(x), (-2.0, 2.0), Bound::roundings(1)),
        ("SQRT", |c, x| c.sqrt(x), (0.0, 4.0), Bound::roundings(5)),
        ("LOG", |c, x| c.log(x), (0.01, 4.0), log),
        ("SIN", |c, x| c.sin(x), (-3.0, 3.0), wave),
        ("COS", |c, x| c.cos(x), (-3.0, 3.0), wave),
        ("CLAMP", |c, x| c.clamp(x, -0.5, 0.25), (-1.0, 1.0), exact),
        ("LEAKY_RELU", |c, x| c.leaky_relu(x, 0.125, false), (-1.0, 1.0), exact),
    ];
    for (name, op, (low, high), bound) in table {
        let views = if name.starts_with("SCALE") { &EVEN[..] } else { &ROWS };
        for shape in SHAPES {
            for &view in views {
                cases.add(12, format!("{name} f32 {} {}", dims(shape), view.name()), move |k| {
                    let x = k.values(shape.iter().product(), low, high);
                    let x = k.input(Type::F32, shape, view, x);
                    k.result(op(k.ops(), x), bound);
                });
            }
        }
    }
    let in_place: [(&'static str, OneToOne, Bound); 3] = [
        ("SCALE", |c, x| c.scale_in_place(x, -1.75), Bound::roundings(1)),
        ("SQR", |c, x| c.sqr_in_place(x), Bound::roundings(1)),
        ("LEAKY_RELU", |c, x| c.leaky_relu(x, 0.125, true), exact),
    ];
    for (name, op, bound) in in_place {
        for view in EVEN {
            cases.add(4, format!("{name} in place {}", view.name()), move |k| {
                k.result(op(k.ops(), k.f32(&[33, 3, 2], view)), bound);
            });
        }
    }
    for view in EVEN {
        cases.add(2, format!("ADD1 {}", view.name()), move |k| {
            let (x, one) = (k.f32(&[33, 6], view), k.f32(&[1], View::Dense));
            k.result(k.ops().add1(x, one), Bound::roundings(1));
        });
    }
    cases.add(1, "FILL".into(), |k| {
        k.result(k.ops().fill(k.f32(&[33, 3], View::Dense), 1.5), Bound::Exact);
    });
    cases.add(1, "ADD1 in place".into(), |k| {
        let (x, one) = (k.f32(&[33, 6], View::Dense), k.f32(&[1], View::Dense));
        k.result(k.ops().add1_in_place(x, one), Bound::roundings(1));
    });
    for view in ROWS {
        cases.add(2, format!("COUNT_EQUAL i32 {}", view.name()), move |k| {
            let ids = |k: &Kit<'_>| k.indices(5 * 7 * 3, 3);
            let a = k.input(Type::I32, &[5, 7, 3], View::Dense, ids(k));
            let b = k.input(Type::I32, &[5, 7, 3], view, ids(k));
            // The engine's CPU op takes rows of other planes for those of three axes.
            let (a, b) = (k.matrix_for_reference(a), k.matrix_for_reference(b));
            k.result(k.ops().count_equal(a, b), Bound::Exact);
        });
    }
}

fn arithmetic() -> [(&'static str, TwoToOne, TwoToOne, Bound); 4] {
    [
        ("ADD", |c, a, b| c.add(a, b), |c, a, b| c.add_in_place(a, b), Bound::roundings(1)),
        ("SUB", |c, a, b| c.sub(a, b), |c, a, b| c.sub_in_place(a, b), Bound::roundings(1)),
        ("MUL", |c, a, b| c.mul(a, b), |c, a, b| c.mul_in_place(a, b), Bound::roundings(1)),
        ("DIV", |c, a, b| c.div(a, b), |c, a, b| c.div_in_place(a, b), Bound::roundings(4)),
    ]
}

fn binary(cases: &mut Cases) {
    // The second repeats over the first by remainders, on any axis.
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[33, 3, 2], &[33, 3, 2]),
        (&[33, 3, 2], &[33]),
        (&[5, 7, 3, 2], &[1, 7, 1, 2]),
        (&[129, 2, 3], &[1]),
        (&[12, 6, 4], &[4, 3, 2]),
        (&[1, 3, 5], &[1, 3, 5]),
        (&[257], &[257]),
    ];
    for (name, op, in_place, bound) in arithmetic() {
        for (a, b) in shapes {
            for view_a in ANY {
                for view_b in ANY {
                    if [(a, view_a), (b, view_b)].iter().any(|(s, v)| s.len() == 4 && *v == View::Comb) {
                        continue;
                    }
                    let case = format!("{name} f32 {} {} + {} {}", dims(a), view_a.name(), dims(b), view_b.name());
                    cases.add(70, case, move |k| {
                        let x = k.f32(a, view_a);
                        let y = k.input(Type::F32, b, view_b, k.values(b.iter().product(), 0.5, 2.0));
                        k.result(op(k.ops(), x, y), bound);
                    });
                }
            }
            for view in [View::Dense, View::Sliced, View::Strided, View::HEADS] {
                cases.add(10, format!("{name} in place {} {} + {}", dims(a), view.name(), dims(b)), move |k| {
                    let x = k.f32(a, view);
                    let y = k.input(Type::F32, b, View::Dense, k.values(b.iter().product(), 0.5, 2.0));
                    k.result(in_place(k.ops(), x, y), bound);
                });
            }
        }
        for (first, second) in [(Type::F16, Type::F16), (Type::F16, Type::F32), (Type::BF16, Type::F32)] {
            for view in [View::Dense, View::Sliced, View::HEADS] {
                cases.add(10, format!("{name} {first} {second} {}", view.name()), move |k| {
                    let x = k.floats(first, &[33, 3, 2], view);
                    let y = k.input(second, &[33, 1, 2], View::Dense, k.values(66, 0.5, 2.0));
                    k.result(op(k.ops(), x, y), bound);
                });
            }
        }
    }
}

/// Operands that share bytes, with each other or with the result.
fn overlap(cases: &mut Cases) {
    for (name, op, in_place, bound) in arithmetic() {
        if name == "DIV" {
            continue;
        }
        cases.add(1, format!("{name} of a tensor and itself"), move |k| {
            let x = k.f32(&[33, 5], View::Sliced);
            k.result(op(k.ops(), x, x), bound);
        });
        cases.add(1, format!("{name} of windows that overlap"), move |k| {
            let (c, x) = (k.ops(), k.f32(&[33, 5], View::Dense));
            let window = |at: usize| c.view(x, [17, 4, 1, 1], [33 * 4, 33 * 16, 33 * 16], at * 4);
            k.result(op(c, window(3), window(36)), bound);
        });
        cases.add(1, format!("{name} in place of a tensor and itself"), move |k| {
            let x = k.f32(&[33, 5], View::Dense);
            k.result(in_place(k.ops(), x, x), bound);
        });
        cases.add(1, format!("{name} in place of one part and another"), move |k| {
            let (c, x) = (k.ops(), k.f32(&[33, 6], View::Dense));
            let rows = |at: usize| c.view(x, [33, 3, 1, 1], [33 * 4, 33 * 12, 33 * 12], at * 33 * 4);
            k.result(in_place(c, rows(0), rows(3)), bound);
        });
    }
    cases.add(1, "ADD twice in place into one window".into(), |k| {
        let (c, sum) = (k.ops(), k.f32(&[33, 5], View::Sliced));
        let once = k.step(c.add_in_place(sum, k.f32(&[33, 5], View::Dense)), Bound::roundings(1));
        k.result(c.add_in_place(once, k.f32(&[33, 1], View::Dense)), Bound::Near { relative: 0.0, absolute: 4e-7 });
    });
}

fn gated(cases: &mut Cases) {
    for op in Glu::all() {
        for dtype in FLOATS {
            for view in [View::Dense, View::Strided] {
                for swapped in [false, true] {
                    let name =
                        format!("{} {dtype} {}{}", op.name(), view.name(), if swapped { " swapped" } else { "" });
                    cases.add(8, name, move |k| {
                        let x = k.floats(dtype, &[66, 3, 2], view);
                        k.result(k.ops().glu(op, x, swapped), function(op.name()));
                    });
                }
                cases.add(8, format!("{} {dtype} {} split", op.name(), view.name()), move |k| {
                    let (gate, linear) =
                        (k.floats(dtype, &[33, 3, 2], view), k.floats(dtype, &[33, 3, 2], View::Dense));
                    k.result(k.ops().glu_split(op, gate, linear), function(op.name()));
                });
            }
        }
    }
}
