//! Each element of the output from the same element of the operands: shaders `unary` and `binary`.

use super::{Call, Lowered, Refusal};
use crate::graph::{Binary, Op, Unary};

const OP: u32 = 16;
pub(super) const WRAP: u32 = 17;
const SCALE: u32 = 17;
const BIAS: u32 = 18;

/// Ops of one operand are numbered from here on in an epilogue.
const OPS_OF_ONE: u32 = 16;

/// Number of an op in `shaders/glsl/elementwise.glsl`, from [`OPS_OF_ONE`] on for ops of one operand; `None` for ops of other
/// families.
pub(crate) fn code(op: &Op) -> Option<u32> {
    Some(match op {
        Op::Binary(Binary::Add) => 0,
        Op::Binary(Binary::Sub) => 1,
        Op::Binary(Binary::Mul) => 2,
        Op::Binary(Binary::Div) => 3,
        Op::SiluBack => 4,
        Op::SwiGlu => 5,
        Op::GeluBack => 6,
        Op::GeGlu => 7,
        Op::TanhBack => 8,
        Op::Scale { .. } => OPS_OF_ONE,
        Op::Unary(Unary::Silu) => OPS_OF_ONE + 1,
        Op::Unary(Unary::Neg) => OPS_OF_ONE + 2,
        Op::Unary(Unary::Sqr) => OPS_OF_ONE + 3,
        Op::Unary(Unary::Sqrt) => OPS_OF_ONE + 4,
        Op::Unary(Unary::Tanh) => OPS_OF_ONE + 5,
        Op::Unary(Unary::Gelu) => OPS_OF_ONE + 6,
        _ => return None,
    })
}

pub(super) fn elementwise(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let code = code(op).ok_or_else(|| Refusal(format!("{}: is not elementwise", op.row().name)))?;
    let builder = match code.checked_sub(OPS_OF_ONE) {
        Some(code) => {
            let (scale, bias) = match *op {
                Op::Scale { scale, bias } => (scale, bias),
                _ => (1.0, 0.0),
            };
            call.dispatch("unary")?.set(OP, code).set_f32(SCALE, scale).set_f32(BIAS, bias)
        }
        None => {
            let wrap = call.inputs[1].repeats_to(call.output);
            call.dispatch("binary")?.set(OP, code).set(WRAP, wrap)
        }
    };
    Ok(builder.texels(call.output)?.into())
}
