//! Where an op's result looks in its operands: what layouts and operator classes depend on.

use super::{Op, Shape};

/// A set of axes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Axes(u8);

impl Axes {
    /// The axes for which `f` holds.
    pub fn of(f: impl Fn(usize) -> bool) -> Self {
        Self((0..4).filter(|&axis| f(axis)).fold(0, |bits, axis| bits | 1 << axis))
    }

    /// Whether the axis is one of them.
    pub const fn contains(self, axis: usize) -> bool {
        self.0 >> axis & 1 == 1
    }

    /// The axes of either set.
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Which elements of an operand one element of the output needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// The one at its own index, modulo the operand's extents.
    Own,
    /// All along these axes of the operand, or several of them: a reduction, or pairs.
    Along(Axes),
    /// One at another index.
    Elsewhere,
}

/// Accesses to the operands, then that to the output: which of its elements are written together.
pub(super) type Rule = fn(inputs: &[Shape], output: &Shape) -> Vec<Access>;

impl Op {
    /// How the op looks at whole operands of these shapes; the last access is that to the output. The shapes must satisfy the
    /// op's rule.
    pub fn accesses(&self, inputs: &[Shape], output: &Shape) -> Vec<Access> {
        (self.row().access)(inputs, output)
    }
}

/// Along one axis of all operands, and elements of the output each by themselves.
fn reduced(inputs: &[Shape], axis: usize) -> Vec<Access> {
    let mut accesses = vec![Access::Along(Axes::of(|a| a == axis)); inputs.len()];
    accesses.push(Access::Own);
    accesses
}

pub(super) fn own(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    vec![Access::Own; inputs.len() + 1]
}

/// Rows of the output from rows of the operands.
pub(super) fn rows(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    vec![Access::Along(Axes::of(|a| a == 0)); inputs.len() + 1]
}

pub(super) fn mul_mat(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    reduced(inputs, 0)
}

pub(super) fn out_prod(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    reduced(inputs, 1)
}

/// Operands q, k, v, perhaps a mask and sinks: rows of q and k, all keys. The output's axes are in another order.
pub(super) fn flash_attn(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let along = |axes: [usize; 2]| Access::Along(Axes::of(|a| axes.contains(&a)));
    let mut accesses = vec![Access::Elsewhere; inputs.len() + 1];
    accesses[..3].copy_from_slice(&[along([0, 0]), along([0, 1]), along([1, 1])]);
    accesses[inputs.len()] = Access::Own;
    accesses
}

/// Operands q, k, v, perhaps a mask, what an earlier pass left and dy: rows of all, and all rows of keys or of queries.
pub(super) fn flash_attn_back(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let along = |axes: [usize; 2]| Access::Along(Axes::of(|a| axes.contains(&a)));
    let mut accesses = vec![Access::Elsewhere; inputs.len() + 1];
    accesses[..3].fill(along([0, 1]));
    accesses[inputs.len() - 2..].copy_from_slice(&[along([0, 2]), along([0, 2]), Access::Own]);
    accesses
}

/// Operands a, b, ids; the matrix is looked up.
pub(super) fn mul_mat_id(_: &[Shape], _: &Shape) -> Vec<Access> {
    let row = Access::Along(Axes::of(|a| a == 0));
    vec![Access::Elsewhere, row, Access::Elsewhere, Access::Own]
}

pub(super) fn arg_max(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    reduced(inputs, 0)
}

/// All of the operands.
pub(super) fn all(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let mut accesses = vec![Access::Along(Axes::of(|_| true)); inputs.len()];
    accesses.push(Access::Own);
    accesses
}

/// Rows, to an element each.
pub(super) fn sum_rows(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    reduced(inputs, 0)
}

/// Groups of axis 2 over axes 0 and 1.
pub(super) fn group_norm(_: &[Shape], _: &Shape) -> Vec<Access> {
    vec![Access::Along(Axes::of(|a| a < 3)); 2]
}

/// Rows of a table by ids, to elements where they are.
pub(super) fn add_id(_: &[Shape], _: &Shape) -> Vec<Access> {
    vec![Access::Own, Access::Elsewhere, Access::Elsewhere, Access::Own]
}

/// The parameters are looked up.
pub(super) fn sgd(_: &[Shape], _: &Shape) -> Vec<Access> {
    vec![Access::Own, Access::Own, Access::Elsewhere, Access::Own]
}

/// Pairs of a row turn; positions and factors are looked up.
pub(super) fn rope(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let row = Access::Along(Axes::of(|a| a == 0));
    let mut accesses = vec![Access::Elsewhere; inputs.len() + 1];
    accesses[0] = row;
    accesses[inputs.len()] = row;
    accesses
}

/// The same elements in another shape or place; a copy to the same shape keeps every index.
pub(super) fn moved(inputs: &[Shape], output: &Shape) -> Vec<Access> {
    let mut accesses = vec![if inputs[0] == *output { Access::Own } else { Access::Elsewhere }; inputs.len()];
    accesses.push(Access::Own);
    accesses
}

/// A part anywhere in the output, the rest of which is that of operand 0.
pub(super) fn inset(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let mut accesses = vec![Access::Elsewhere; inputs.len() + 1];
    accesses[0] = Access::Own;
    accesses[inputs.len()] = Access::Own;
    accesses
}

pub(super) fn looked_up(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let mut accesses = vec![Access::Elsewhere; inputs.len()];
    accesses.push(Access::Own);
    accesses
}

pub(super) fn repeat_back(inputs: &[Shape], output: &Shape) -> Vec<Access> {
    vec![Access::Along(Axes::of(|a| inputs[0][a] != output[a])), Access::Own]
}

pub(super) fn cross_entropy(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let mut accesses = vec![Access::Along(Axes::of(|_| true)); inputs.len()];
    accesses.push(Access::Own);
    accesses
}

/// Operands g, x, labels.
pub(super) fn cross_entropy_back(_: &[Shape], _: &Shape) -> Vec<Access> {
    let row = Access::Along(Axes::of(|a| a == 0));
    vec![Access::Own, row, Access::Own, row]
}

/// The parameters are looked up.
pub(super) fn adamw(inputs: &[Shape], _: &Shape) -> Vec<Access> {
    let mut accesses = vec![Access::Own; inputs.len() + 1];
    accesses[4] = Access::Elsewhere;
    accesses
}
