//! Functions of one element or of two, which no epilogue takes: shaders `function` and `gated`.

use super::{Call, Lowered, Refusal};
use crate::graph::{Gate, Op, Unary};

const OP: u32 = 16;
const PARAMETERS: u32 = 17;

/// Number of a function in `shaders/glsl/functions.glsl`, and its parameters; those of two operands are numbered for themselves.
/// `None` for ops of other families.
pub(crate) fn selector(op: &Op) -> Option<(u32, [f32; 4])> {
    Some(match *op {
        Op::Unary(Unary::Abs) => (0, [0.0; 4]),
        Op::Unary(Unary::Sgn) => (1, [0.0; 4]),
        Op::Unary(Unary::Step) => (2, [0.0; 4]),
        Op::Unary(Unary::Elu) => (3, [0.0; 4]),
        Op::Unary(Unary::Relu) => (4, [0.0; 4]),
        Op::Unary(Unary::Sigmoid) => (5, [0.0; 4]),
        Op::Unary(Unary::GeluQuick) => (6, [0.0; 4]),
        Op::Unary(Unary::HardSwish) => (7, [0.0; 4]),
        Op::Unary(Unary::HardSigmoid) => (8, [0.0; 4]),
        Op::Unary(Unary::Exp) => (9, [0.0; 4]),
        Op::Unary(Unary::Expm1) => (10, [0.0; 4]),
        Op::Unary(Unary::Softplus) => (11, [0.0; 4]),
        Op::Unary(Unary::GeluErf) => (12, [0.0; 4]),
        Op::Unary(Unary::XIelu { alpha_n, alpha_p, beta, eps }) => (13, [alpha_n, alpha_p, beta, eps]),
        Op::Unary(Unary::Floor) => (14, [0.0; 4]),
        Op::Unary(Unary::Ceil) => (15, [0.0; 4]),
        Op::Unary(Unary::Round) => (16, [0.0; 4]),
        Op::Unary(Unary::Trunc) => (17, [0.0; 4]),
        Op::Unary(Unary::Log) => (18, [0.0; 4]),
        Op::Unary(Unary::Sin) => (19, [0.0; 4]),
        Op::Unary(Unary::Cos) => (20, [0.0; 4]),
        Op::Unary(Unary::Clamp { min, max }) => (21, [min, max, 0.0, 0.0]),
        Op::Unary(Unary::LeakyRelu { slope }) => (22, [slope, 0.0, 0.0, 0.0]),
        Op::Gated(Gate::ReGlu) => (0, [0.0; 4]),
        Op::Gated(Gate::GeGluErf) => (1, [0.0; 4]),
        Op::Gated(Gate::GeGluQuick) => (2, [0.0; 4]),
        Op::Gated(Gate::SwiGluOai { alpha, limit }) => (3, [alpha, limit, 0.0, 0.0]),
        Op::Gated(Gate::SwiGluClamp { limit }) => (4, [1.0, limit, 0.0, 0.0]),
        _ => return None,
    })
}

pub(super) fn function(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let (number, parameters) =
        selector(op).ok_or_else(|| Refusal(format!("{}: is no function of its elements", op.row().name)))?;
    let shader = if call.inputs.len() == 2 { "gated" } else { "function" };
    let dispatch = (PARAMETERS..)
        .zip(parameters)
        .fold(call.dispatch(shader)?.set(OP, number), |builder, (id, value)| builder.set_f32(id, value));
    Ok(dispatch.texels(call.output)?.into())
}
