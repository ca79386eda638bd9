//! Where in a whole op a piece of it is.

use super::super::Operand;
use crate::graph::Shape;

/// Where in the result of a whole op a piece of it is, for kernels whose elements depend on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kernels) struct Span {
    /// Index of the piece's first element in the whole result.
    pub first: Shape,
    /// Extents of the whole result.
    pub whole: Shape,
    /// Of what ids pick, the first that the piece has, and how many there are in all; nothing where the piece has them all.
    pub picked: Option<(u32, u32)>,
    /// Whether the piece leaves sums of its own, which another dispatch joins.
    pub partial: bool,
}

impl Span {
    /// All of an op.
    pub(in crate::kernels) fn all(output: &Operand) -> Self {
        Self { first: [0; 4], whole: output.shape(), picked: None, partial: false }
    }

    /// Whether a result of this shape is a part of the whole one.
    pub(in crate::kernels) fn is_part(&self, shape: Shape) -> bool {
        self.whole != shape
    }

    /// The piece that begins with element `start` of an axis of this one.
    pub(super) fn from(mut self, axis: usize, start: u32) -> Self {
        self.first[axis] += start;
        self
    }

    /// The piece that has, of what ids pick, `start` and the following of this one's `count`.
    pub(super) fn picking(self, start: u32, count: u32) -> Self {
        let (first, all) = self.picked.unwrap_or((0, count));
        Self { picked: Some((first + start, all)), ..self }
    }
}
