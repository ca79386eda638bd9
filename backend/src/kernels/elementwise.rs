//! Each element of the output from the same element of the operands: shaders `unary` and `binary`.

use super::{Call, Lowered, Refusal};
use crate::graph::{Binary, Unary};

const OP: u32 = 16;
pub(super) const WRAP: u32 = 17;
const SCALE: u32 = 17;
const BIAS: u32 = 18;

pub(super) fn binary(call: Call<'_>, kind: Binary) -> Result<Lowered, Refusal> {
    let op = match kind {
        Binary::Add => 0,
        Binary::Sub => 1,
        Binary::Mul => 2,
        Binary::Div => 3,
    };
    two(call, op)
}

pub(super) fn silu_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    two(call, 4)
}

pub(super) fn swiglu(call: Call<'_>) -> Result<Lowered, Refusal> {
    two(call, 5)
}

pub(super) fn gelu_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    two(call, 6)
}

pub(super) fn geglu(call: Call<'_>) -> Result<Lowered, Refusal> {
    two(call, 7)
}

pub(super) fn tanh_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    two(call, 8)
}

pub(super) fn scale(call: Call<'_>, scale: f32, bias: f32) -> Result<Lowered, Refusal> {
    one(call, 0, scale, bias)
}

pub(super) fn unary(call: Call<'_>, kind: Unary) -> Result<Lowered, Refusal> {
    let op = match kind {
        Unary::Silu => 1,
        Unary::Neg => 2,
        Unary::Sqr => 3,
        Unary::Sqrt => 4,
        Unary::Tanh => 5,
        Unary::Gelu => 6,
    };
    one(call, op, 1.0, 0.0)
}

fn one(call: Call<'_>, op: u32, scale: f32, bias: f32) -> Result<Lowered, Refusal> {
    let builder = call.dispatch("unary")?.set(OP, op).set_f32(SCALE, scale).set_f32(BIAS, bias);
    Ok(builder.texels(call.output)?.into())
}

fn two(call: Call<'_>, op: u32) -> Result<Lowered, Refusal> {
    let wrap = call.inputs[1].repeats_to(call.output);
    Ok(call.dispatch("binary")?.set(OP, op).set(WRAP, wrap).texels(call.output)?.into())
}
