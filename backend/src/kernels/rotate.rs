//! The rotary embedding of a kernel's result as the last stage of its epilogue: shaders `*_rotated`.
//!
//! A pair of neighbours lies in one quad of the result. A pair of halves is half a head apart: an invocation holds both quads.
//! The other half is `shaders/glsl/rotate.glsl`.

use super::dispatch::Builder;
use super::{Access, Arg, Operand, Refusal, rope};
use crate::graph::{Desc, Op, Rope, RopeMode, infer};

/// Constant ids, behind those of the operands.
pub(super) const ROPE: u32 = 448;
pub(super) const HEAD_DIM: u32 = 466;
const POSITION_AXIS: u32 = 467;
pub(super) const HAS_FACTORS: u32 = 468;

/// Rotates a result `[heads of head_dim, ..]`. Its operands are those of [`Op::Rope`] behind the first: positions, and factors if
/// there are any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// What is done to a head.
    pub rope: Rope,
    /// Elements of a head, along axis 0 of the result.
    pub head_dim: u32,
    /// Axis of the result along which the positions run: 1, 2 or 3.
    pub axis: usize,
}

/// A rotation that keeps its rules, with its operands.
#[derive(Clone, Copy)]
pub(super) struct Turn<'a> {
    rotation: Rotation,
    operands: &'a [Operand],
    /// Number of the first operand.
    number: usize,
}

impl<'a> Turn<'a> {
    /// Checks a rotation of `output`.
    pub(super) fn new(
        rotation: Rotation,
        operands: &'a [Operand],
        number: usize,
        output: &Operand,
    ) -> Result<Self, Refusal> {
        let fail = |rule: String| Refusal(format!("rotation: {rule}"));
        let refuse = |rule: String| Err(fail(rule));
        let Rotation { rope, head_dim, axis } = rotation;
        let shape = output.shape();
        if rope.mode.has_sections() || rope.offset != 0 {
            return refuse(format!(
                "mode {:?} from element {} on; neighbours or halves from 0 are taken",
                rope.mode, rope.offset
            ));
        }
        if head_dim == 0 || !shape[0].is_multiple_of(head_dim) {
            return refuse(format!("heads of {head_dim} do not divide the {} elements of axis 0", shape[0]));
        }
        if shape[0] != head_dim && !head_dim.is_multiple_of(4) {
            return refuse(format!("several heads of {head_dim}, which is no multiple of 4"));
        }
        if !(1..4).contains(&axis) {
            return refuse(format!("positions along axis {axis}, must be 1, 2 or 3"));
        }
        if rope.mode == RopeMode::Neox && (rope.n_dims != head_dim || !head_dim.is_multiple_of(8)) {
            let n = rope.n_dims;
            return refuse(format!("{n} of {head_dim} elements by halves; must be all, and a multiple of 8"));
        }
        let head = Desc::f32([head_dim, shape[0] / head_dim, shape[axis], 1]);
        let described = operands.iter().enumerate().map(|(i, operand)| operand.desc(Arg::Input(number + i)));
        let described = std::iter::once(Ok(head)).chain(described).collect::<Result<Vec<_>, _>>()?;
        infer(&Op::Rope(rope), &described, Some(head)).map_err(|e| fail(format!("{}: {}", e.site, e.rule)))?;
        rope::check_pairs(&rope).map_err(fail)?;
        Ok(Self { rotation, operands, number })
    }

    /// Elements of a head whose halves are rotated with each other.
    pub(super) fn halves(&self) -> Option<u32> {
        (self.rotation.rope.mode == RopeMode::Neox).then_some(self.rotation.head_dim)
    }

    /// Binds positions and factors, and sets the angles. Where there are no factors the positions hold their place.
    pub(super) fn bind<'b>(&self, builder: Builder<'b>) -> Result<Builder<'b>, Refusal> {
        let Rotation { rope, head_dim, axis } = self.rotation;
        let given = self.operands.len();
        let operand = |builder: Builder<'b>, i: usize| {
            builder.operand(Arg::Input(self.number + i), &self.operands[i], Access::Read)
        };
        let builder = operand(operand(builder, 0)?, given - 1)?;
        Ok(rope::angles(builder, ROPE, &rope)
            .set(HEAD_DIM, head_dim)
            .set(POSITION_AXIS, axis as u32)
            .set(HAS_FACTORS, u32::from(given == 2)))
    }
}
