//! Elementwise ops that a kernel applies to its result before it stores it, so that the result never travels through memory.
//!
//! An epilogue is a straight program over values: the kernel's own result, extra operands, and the results of earlier steps. The
//! last step's result goes to the output; any other may go to an extra operand as well.

use crate::graph::Op;

/// Extra operands that a fused kernel takes.
pub const MAX_EXTRAS: usize = 3;

/// Steps of an epilogue that a fused kernel takes.
pub const MAX_STEPS: usize = 8;

/// Where a step takes a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// 0 is the kernel's own result, `i` the result of step `i - 1`.
    Result(usize),
    /// Extra operand `i`.
    Extra(usize),
}

/// One elementwise op.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueStep {
    /// An op of the elementwise family.
    pub op: Op,
    /// Its operands, in its order.
    pub inputs: Vec<Source>,
    /// The extra operand that gets this step's result as well.
    pub store: Option<usize>,
}

/// What happens to a kernel's result before it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// Steps in order; the last one gives the output, the kernel's own result does where there are none.
    pub steps: Vec<EpilogueStep>,
    /// The extra operand that gets the kernel's own result as well.
    pub store_root: Option<usize>,
    /// Number of extra operands.
    pub extras: usize,
}

/// A second matrix product that is added to the first, times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondProduct {
    /// [`Op::MulMat`] or [`Op::OutProd`], of operands 2 and 3.
    pub op: Op,
    /// Factor on it.
    pub scale: f32,
}

/// An op with what is done in the same dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The op whose kernel does all of it.
    pub op: Op,
    /// A product added to the op's own, which must be one; its operands follow those of the op.
    pub second: Option<SecondProduct>,
    /// What happens to the result.
    pub epilogue: Epilogue,
}

impl Fused {
    /// An op with an epilogue.
    pub fn new(op: Op, epilogue: Epilogue) -> Self {
        Self { op, second: None, epilogue }
    }
}
