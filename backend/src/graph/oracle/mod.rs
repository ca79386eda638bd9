//! What each op computes, in f64 and by definition; every kernel answers to these.

pub(super) mod attention;
pub(super) mod attention_back;
pub(super) mod convolution;
pub(super) mod elementwise;
pub(super) mod functions;
pub(super) mod gemm;
pub(super) mod generate;
pub(super) mod insets;
pub(super) mod loss;
pub(super) mod mixing;
pub(super) mod moves;
pub(super) mod norm;
pub(super) mod optimizer;
pub(super) mod places;
pub(super) mod recurrent;
pub(super) mod reduce;
pub(super) mod rope;
pub(super) mod rows;
pub(super) mod samples;
pub(super) mod sort;

use super::{Array, Op, Shape};

pub use rope::{RopePair, rope_frequencies, rope_pairs};
pub use rows::soft_max_slope;

/// Output of an op, of the given shape, from operands that satisfy its rule.
pub(super) type Oracle = fn(&Op, &[Array], Shape) -> Vec<Array>;

#[cfg(test)]
mod gradients;
