//! Each element from the same element of the operands.

use super::functions;
use crate::graph::{Array, Binary, Op, Shape};

pub(super) fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// GELU's approximation and its derivative. `(1 + tanh(z / 2)) / 2` is `sigmoid(z)`, which loses nothing where it is small.
pub(super) fn gelu(x: f64) -> (f64, f64) {
    let (slope, cubic) = (2.0 * (2.0 / std::f64::consts::PI).sqrt(), 0.044715);
    let z = slope * (x + cubic * x.powi(3));
    let (s, dz) = (sigmoid(z), slope * (1.0 + 3.0 * cubic * x * x));
    (x * s, s + x * s * sigmoid(-z) * dz)
}

pub(crate) fn binary(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let ([a, b], Op::Binary(binary)) = (inputs, op) else { unreachable!("the rule asks for two operands") };
    vec![Array::from_fn(output, |i| {
        let (x, y) = (a.at(i), b.wrapped(i));
        match binary {
            Binary::Add => x + y,
            Binary::Sub => x - y,
            Binary::Mul => x * y,
            Binary::Div => x / y,
        }
    })]
}

pub(crate) fn scale(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::Scale { scale, bias } = op else { unreachable!("the row belongs to Scale") };
    vec![inputs[0].map(|x| x * f64::from(scale) + f64::from(bias))]
}

pub(crate) fn unary(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::Unary(kind) = op else { unreachable!("the row belongs to Unary") };
    vec![inputs[0].map(|x| functions::value(kind, x))]
}

/// Operands dy, x.
pub(crate) fn silu_back(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    vec![inputs[0].zip(&inputs[1], |dy, x| {
        let s = sigmoid(x);
        dy * s * (1.0 + x * (1.0 - s))
    })]
}

/// Operands dy, y.
pub(crate) fn tanh_back(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    vec![inputs[0].zip(&inputs[1], |dy, y| dy * (1.0 - y * y))]
}

/// Operands dy, x.
pub(crate) fn gelu_back(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    vec![inputs[0].zip(&inputs[1], |dy, x| dy * gelu(x).1)]
}

/// Operands gate, up.
pub(crate) fn geglu(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    vec![inputs[0].zip(&inputs[1], |gate, up| gelu(gate).0 * up)]
}

/// Operands gate, up.
pub(crate) fn swiglu(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    vec![inputs[0].zip(&inputs[1], |gate, up| gate * sigmoid(gate) * up)]
}
