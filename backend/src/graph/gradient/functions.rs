//! Gradients of functions of one element: the derivative as an expression of existing ops, times dy.

use super::Call;
use super::rules::{DIV, Gradient, MUL, NEG};
use crate::graph::{GraphError, Op, Operand, Unary};

/// `dy f(x)`
fn times(call: &mut Call<'_>, derivative: Unary, x: Operand) -> Result<Operand, GraphError> {
    let derivative = call.add(Op::Unary(derivative), &[x])?;
    call.add(MUL, &[call.dy, derivative])
}

fn line(call: &mut Call<'_>, x: Operand, scale: f32, bias: f32) -> Result<Operand, GraphError> {
    call.add(Op::Scale { scale, bias }, &[x])
}

pub(crate) fn abs(call: &mut Call<'_>) -> Gradient {
    let x = call.input(0);
    times(call, Unary::Sgn, x).map(Some)
}

/// Zero.
pub(crate) fn flat(call: &mut Call<'_>) -> Gradient {
    line(call, call.dy, 0.0, 0.0).map(Some)
}

pub(crate) fn relu(call: &mut Call<'_>) -> Gradient {
    let x = call.input(0);
    times(call, Unary::Step, x).map(Some)
}

/// `dy y (1 - y)`
pub(crate) fn sigmoid(call: &mut Call<'_>) -> Gradient {
    let y = call.output();
    let d = call.add(MUL, &[call.dy, y])?;
    let rest = line(call, y, -1.0, 1.0)?;
    call.add(MUL, &[d, rest]).map(Some)
}

/// `dy y`
pub(crate) fn exp(call: &mut Call<'_>) -> Gradient {
    call.add(MUL, &[call.dy, call.output()]).map(Some)
}

/// `dy (y + 1)`
pub(crate) fn expm1(call: &mut Call<'_>) -> Gradient {
    let derivative = line(call, call.output(), 1.0, 1.0)?;
    call.add(MUL, &[call.dy, derivative]).map(Some)
}

pub(crate) fn softplus(call: &mut Call<'_>) -> Gradient {
    let x = call.input(0);
    times(call, Unary::Sigmoid, x).map(Some)
}

/// `dy / x`
pub(crate) fn log(call: &mut Call<'_>) -> Gradient {
    call.add(DIV, &[call.dy, call.input(0)]).map(Some)
}

pub(crate) fn sin(call: &mut Call<'_>) -> Gradient {
    let x = call.input(0);
    times(call, Unary::Cos, x).map(Some)
}

pub(crate) fn cos(call: &mut Call<'_>) -> Gradient {
    let x = call.input(0);
    let d = times(call, Unary::Sin, x)?;
    call.add(NEG, &[d]).map(Some)
}

/// dy between the bounds.
pub(crate) fn clamp(call: &mut Call<'_>) -> Gradient {
    let Op::Unary(Unary::Clamp { min, max }) = call.node.op else { unreachable!("the row belongs to Clamp") };
    let (above, below) = (line(call, call.input(0), 1.0, -min)?, line(call, call.input(0), -1.0, max)?);
    let above = times(call, Unary::Step, above)?;
    let below = call.add(Op::Unary(Unary::Step), &[below])?;
    call.add(MUL, &[above, below]).map(Some)
}

/// `dy (slope + (1 - slope) step(x))`
pub(crate) fn leaky_relu(call: &mut Call<'_>) -> Gradient {
    let Op::Unary(Unary::LeakyRelu { slope }) = call.node.op else { unreachable!("the row belongs to LeakyRelu") };
    let step = call.add(Op::Unary(Unary::Step), &[call.input(0)])?;
    let derivative = line(call, step, 1.0 - slope, slope)?;
    call.add(MUL, &[call.dy, derivative]).map(Some)
}

/// `y = relu(gate) up`: `dgate = step(gate) dy up`, `dup = relu(gate) dy`, which is the op itself with dy for up.
pub(crate) fn reglu(call: &mut Call<'_>) -> Gradient {
    let (gate, up) = (call.input(0), call.input(1));
    if call.operand == 1 {
        return call.add(call.node.op, &[gate, call.dy]).map(Some);
    }
    let d = times(call, Unary::Step, gate)?;
    call.add(MUL, &[d, up]).map(Some)
}
