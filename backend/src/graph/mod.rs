//! What is computed: tensors, dtypes and ops. Knows nothing of layouts or devices.

mod dtype;
mod op;

pub use dtype::DType;
pub use op::{Binary, Op, Rope, RopeMode, Unary};

/// Extents of the four axes, axis 0 innermost.
pub type Shape = [u32; 4];

/// Number of elements of a shape.
pub fn elements(shape: &Shape) -> u64 {
    shape.iter().map(|&n| u64::from(n)).product()
}
