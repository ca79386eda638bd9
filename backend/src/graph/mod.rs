//! What is computed: tensors, dtypes and ops. Knows nothing of layouts or devices.
//!
//! [`Op::row`] is the table: per op its name, operand counts, shape rule, kernel [`Family`], arithmetic, f64 oracle and gradient rule.
//! [`Graph`] holds values and the nodes that compute them; [`Operand`] is a strided window over a value, which is how views
//! arrive. [`Graph::backward`] appends gradients, from which follows an operator's [`Class`]; [`eval`] runs a graph on the
//! oracles.

mod access;
mod array;
mod bytes;
mod class;
mod container;
mod dtype;
mod eval;
mod flops;
mod gradient;
mod named;
mod op;
mod operand;
mod oracle;
mod rules;
mod sliding;
mod table;

pub use access::{Access, Axes};
pub use array::Array;
pub use bytes::{BytesError, decode, encode};
pub use class::Class;
pub(crate) use class::through;
pub use container::{Graph, GraphError, Kind, Node, Value, ValueId};
pub use dtype::{DType, Form, TILE_SLOTS};
pub use eval::{Contents, eval};
pub use flops::flops;
pub use gradient::Gradients;
pub use named::{Attribute, NamedError};
pub use op::{Binary, FlashAttn, Gate, Inset, Op, Rope, RopeMode, Sampling, Triangle, Unary};
pub use operand::{Operand, ViewError};
pub use oracle::{RopePair, rope_frequencies, rope_pairs, soft_max_slope};
pub use rules::{ShapeError, Site};
pub use sliding::{Pool, PoolKind, Window};
pub use table::{Family, ROWS, Row, infer, oracle};

/// Extents of the four axes, axis 0 innermost.
pub type Shape = [u32; 4];

/// Dtype and shape of a tensor or of an operand's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Desc {
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
}

impl Desc {
    /// A description of F32 elements.
    pub const fn f32(shape: Shape) -> Self {
        Self { dtype: DType::F32, shape }
    }

    /// Whether a tensor of this description can be: no empty axis, whole blocks, a size that 63 bits hold.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn exists(&self) -> Result<(), String> {
        rules::exists(self)
    }

    /// Bytes in the host's linear form. The shape must have passed [`Graph::verify`] or [`infer`].
    pub fn bytes(&self) -> u64 {
        elements(&self.shape) / u64::from(self.dtype.block()) * u64::from(self.dtype.block_bytes())
    }
}

/// Number of elements of a shape; of one that cannot exist, for it has more than 64 bits count, the greatest number.
pub fn elements(shape: &Shape) -> u64 {
    product(shape.map(u64::from))
}

/// A product of counts, as far as 64 bits count.
pub(crate) fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

/// A sum of counts, as far as 64 bits count.
pub fn sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Number of rows (runs along axis 0) of a shape.
pub fn rows(shape: &Shape) -> u64 {
    elements(&[1, shape[1], shape[2], shape[3]])
}

/// Elements per step of each axis in the host's linear form, as far as 64 bits count.
pub fn linear_strides(shape: &Shape) -> [u64; 4] {
    let mut strides = [1_u64; 4];
    for axis in 1..4 {
        strides[axis] = strides[axis - 1].saturating_mul(shape[axis - 1].into());
    }
    strides
}
