//! Which layout, which kernel, which memory, which order: graph -> `Plan`, plain data.

mod attention;
mod bound;
mod build;
mod candidates;
mod chain;
mod commute;
mod cost;
mod dirty;
mod edit;
mod fusion;
mod hazards;
mod head;
mod home;
mod in_place;
mod index;
mod ladder;
mod lowering;
mod memory;
mod narrow;
mod order;
mod pack;
mod part;
mod planner;
mod policy;
mod recompute;
mod repack;
mod report;
mod select;
mod sparse;
#[cfg(test)]
mod tests;

pub use attention::{Attention, AttentionScope, replace_attention};
pub use bound::UpperBound;
pub use build::{plan, supports};
pub use candidates::{Candidate, Candidates, Counts, candidates};
pub(crate) use cost::step_flops;
pub use cost::{Bound, Objective, Prediction, StepCost, predict};
pub use dirty::{Causes, Change, ChangeError};
pub use head::{Head, HeadChoice, chunk_head};
pub use home::{Home, PlanOptions, StorageChoice, TEXEL_BYTES, Tile};
pub use memory::{Footprint, Peak, Size};
pub use planner::Planner;
pub use policy::Policy;
pub use recompute::{Budget, Recompute, Recomputed, Rewritten};
pub use repack::{Piece, Repack};
pub use report::{Report, Transform, TransformKind, Verdict};
use select::Layouts;
pub use select::{Certificate, Choice, Selection, Selector, select};
pub use sparse::Texel;

use std::ops::Range;
use std::sync::Arc;

use crate::graph::{DType, Shape, ValueId};
use crate::kernels::{Access, Constants};

/// Why no plan exists.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// No storage can hold a tensor.
    #[error("a {dtype:?} tensor of shape {shape:?} has no home: {why}")]
    Home {
        /// Element type.
        dtype: DType,
        /// Extents, axis 0 innermost.
        shape: Shape,
        /// The limit or rule.
        why: String,
    },
    /// A node cannot be lowered.
    #[error("{node}: {why}")]
    Node {
        /// Op and name of the node.
        node: String,
        /// The operand and the rule.
        why: String,
    },
    /// A block of the arena cannot be allocated.
    #[error("an arena block of {bytes} bytes: {why}")]
    Arena {
        /// Its size.
        bytes: u64,
        /// The limit.
        why: String,
    },
    /// Recomputing cannot bring a plan within a budget.
    #[error("a budget of {budget} bytes cannot be met: recomputing needs at least {smallest} bytes")]
    Budget {
        /// Bytes asked for.
        budget: u64,
        /// The smallest budget that is met.
        smallest: u64,
    },
}

/// Who owns the memory of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A tensor that exists before and after the plan.
    External(ValueId),
    /// A result that outlives the run; its memory is its own.
    Kept(ValueId),
    /// A range of the arena, shared with slots of other lifetimes.
    Arena {
        /// Byte offset in the arena, counted through its blocks.
        offset: u64,
    },
}

/// One storage of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Layout and size.
    pub home: Arc<Home>,
    /// Who owns its memory.
    pub owner: Owner,
    /// First and last step that touch it.
    pub live: (usize, usize),
}

/// One dispatch of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// What it computes: op and node name.
    pub label: String,
    /// The node of the graph that it works for.
    pub node: usize,
    /// Other nodes that it does with it.
    pub fused: Vec<usize>,
    /// True when it only moves bytes: a copy of the host, or one that a reader cannot do without.
    pub conversion: bool,
    /// Name of the shader.
    pub shader: &'static str,
    /// Specialization constants.
    pub constants: Constants,
    /// Workgroup counts.
    pub groups: [u32; 3],
    /// Slot and access of each shader operand.
    pub args: Vec<(usize, Access)>,
    /// Rows of texels that operands bind of their buffers; those that are not named bind all.
    pub rows: Vec<(usize, Range<u32>)>,
    /// A piece of an op: it need not wait for those right before it, though they write the same slots.
    pub beside: bool,
    /// True when an earlier step's access conflicts and no barrier lies between.
    pub barrier: bool,
    /// Operands whose slot takes over aliased image memory here: its old contents are void.
    pub discard: Vec<usize>,
}

/// A whole step of work: plain data, printable, replayable.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Storages.
    pub slots: Vec<Slot>,
    /// Dispatches in order.
    pub steps: Vec<Step>,
    /// Bytes of the arena's blocks. A storage lies within one.
    pub arena: Vec<u64>,
    /// What vanished, what did not, and why.
    pub report: Report,
}
