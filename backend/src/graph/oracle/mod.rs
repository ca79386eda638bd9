//! What each op computes, in f64 and by definition; every kernel answers to these.

pub(super) mod attention;
pub(super) mod elementwise;
pub(super) mod functions;
pub(super) mod gemm;
pub(super) mod generate;
pub(super) mod insets;
pub(super) mod loss;
pub(super) mod moves;
pub(super) mod optimizer;
pub(super) mod places;
pub(super) mod rope;
pub(super) mod rows;
pub(super) mod samples;

use super::{Array, Op, Shape};

pub use rope::rope_frequencies;

/// Output of an op, of the given shape, from operands that satisfy its rule.
pub(super) type Oracle = fn(&Op, &[Array], Shape) -> Vec<Array>;

#[cfg(test)]
mod gradients;
