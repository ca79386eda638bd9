//! Ops whose elements are independent.

use fblayout::graph::{Binary, Op, Shape, Unary};

use super::by_head;
use crate::{Case, Fill, Setup};

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);

const SHAPES: &[Shape] = &[
    [1, 1, 1, 1],
    [2, 1, 1, 1],
    [3, 5, 1, 1],
    [5, 1, 7, 1],
    [9, 33, 2, 1],
    [17, 3, 2, 3],
    [65, 9, 1, 1],
    [300, 7, 1, 1],
    [576, 33, 1, 1],
];

/// Operand 1 repeated to operand 0.
const REPEATED: &[(Shape, Shape)] = &[
    ([576, 33, 1, 1], [576, 1, 1, 1]),
    ([7, 33, 1, 1], [1, 33, 1, 1]),
    ([9, 5, 3, 1], [1, 1, 1, 1]),
    ([9, 5, 3, 2], [9, 1, 3, 1]),
    ([12, 6, 4, 1], [12, 3, 2, 1]),
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &shape in SHAPES {
        cases.push(binary("", ADD, shape, shape, Fill::Integers));
        cases.push(one(Op::Scale { scale: 1.5, bias: -0.25 }, shape, Fill::Floats(3.0)));
    }
    for binary_op in [Binary::Sub, Binary::Mul, Binary::Div] {
        for shape in [[5, 3, 2, 1], [65, 9, 1, 1]] {
            cases.push(binary("", Op::Binary(binary_op), shape, shape, Fill::Positive));
        }
    }
    for &(a, b) in REPEATED {
        cases.push(binary(&format!("repeats {b:?} to {a:?}"), MUL, a, b, Fill::Integers));
    }
    cases.push(binary("repeats a row", Op::Binary(Binary::Div), [33, 5, 1, 1], [33, 1, 1, 1], Fill::Positive));
    for shape in [[5, 3, 2, 1], [65, 9, 1, 1]] {
        cases.push(one(Op::Unary(Unary::Silu), shape, Fill::Floats(12.0)));
        cases.push(one(Op::Unary(Unary::Neg), shape, Fill::Floats(3.0)));
        cases.push(one(Op::Unary(Unary::Sqr), shape, Fill::Floats(3.0)));
        cases.push(one(Op::Unary(Unary::Sqrt), shape, Fill::Positive));
        for magnitude in [0.3, 3.0, 20.0] {
            cases.push(one(Op::Unary(Unary::Tanh), shape, Fill::Floats(magnitude)));
        }
        cases.push(one(Op::Unary(Unary::Gelu), shape, Fill::Floats(6.0)));
        for op in [Op::SiluBack, Op::SwiGlu] {
            cases.push(binary("", op, shape, shape, Fill::Floats(12.0)));
        }
        for op in [Op::GeluBack, Op::GeGlu] {
            cases.push(binary("", op, shape, shape, Fill::Floats(6.0)));
        }
        cases.push(binary("", Op::TanhBack, shape, shape, Fill::Floats(1.0)));
    }
    cases.push(binary("", Op::SwiGlu, [1536, 9, 1, 1], [1536, 9, 1, 1], Fill::Floats(4.0)));
    cases.extend([Unary::Silu, Unary::Tanh, Unary::Gelu].map(saturated));
    cases.push(saturated_gelu_back());
    cases.extend(views());
    cases.extend(in_place());
    cases
}

fn one(op: Op, shape: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, fill)];
    s.case(format!("{shape:?}"), op, inputs)
}

fn binary(name: &str, op: Op, a: Shape, b: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(a, fill.clone()), s.f32(b, fill)];
    s.case(format!("{name} {a:?}"), op, inputs)
}

/// Where an exponential overflows or vanishes.
const SATURATED: [f32; 8] = [-1e4, -200.0, -88.0, -0.0, 0.0, 88.0, 200.0, 1e4];

/// The sigmoid is 0 or 1 there, not NaN.
fn saturated(op: Unary) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32([8, 1, 1, 1], Fill::Given(SATURATED.to_vec()))];
    s.case("saturated", Op::Unary(op), inputs)
}

fn saturated_gelu_back() -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32([8, 1, 1, 1], Fill::Positive), s.f32([8, 1, 1, 1], Fill::Given(SATURATED.to_vec()))];
    s.case("saturated", Op::GeluBack, inputs)
}

/// Operands that are windows: transposed, by head, a range of rows, a range of columns on a whole number of texels.
fn views() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, m) in [(5, 3), (33, 17), (64, 48)] {
        let mut s = Setup::new();
        let inputs = vec![s.f32([n, m, 1, 1], Fill::Integers), s.f32([m, n, 1, 1], Fill::Integers).transpose()];
        cases.push(s.case(format!("[{n}, {m}] and a transposed operand"), ADD, inputs));
    }
    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32([20, 3, 7, 1], Fill::Integers)), s.f32([20, 7, 3, 1], Fill::Integers)];
    cases.push(s.case("an operand by head", MUL, inputs));
    let mut s = Setup::new();
    let rows = s.f32([12, 9, 1, 1], Fill::Integers).slice(1, 4, 4).expect("rows 4..8 of 9");
    let columns = s.f32([40, 4, 1, 1], Fill::Integers).slice(0, 8, 12).expect("columns 8..20 of 40");
    cases.push(s.case("a range of rows and one of columns", ADD, vec![rows, columns]));
    let mut s = Setup::new();
    let a = s.f32([6, 4, 3, 1], Fill::Integers);
    let row = s.f32([6, 1, 3, 1], Fill::Integers).expand(1, 4).expect("axis 1 has one element");
    cases.push(s.case("an expanded operand", ADD, vec![a, row]));
    let mut s = Setup::new();
    let merged = s.f32([16, 3, 5, 1], Fill::Integers).reshape([48, 5, 1, 1]).expect("whole values can be reshaped");
    let a = s.f32([48, 5, 1, 1], Fill::Integers);
    cases.push(s.case("merged heads", ADD, vec![a, merged]));
    cases
}

/// Accumulation onto a tensor that lives outside the graph.
fn in_place() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [[5, 3, 1, 1], [65, 9, 1, 1]] {
        let mut s = Setup::new();
        let inputs = vec![s.f32(shape, Fill::Integers), s.f32(shape, Fill::Integers)];
        let sum = inputs[0].value;
        cases.push(s.case_into(format!("in place {shape:?}"), ADD, inputs, sum));
    }
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 5, 1, 1], Fill::Floats(2.0))];
    let scaled = inputs[0].value;
    cases.push(s.case_into("in place", Op::Scale { scale: 0.5, bias: 0.0 }, inputs, scaled));
    cases
}
