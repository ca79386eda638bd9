//! How one op becomes dispatches: one file per op family. Pure; the device is known only through `Limits`.

use crate::device::Limits;
use crate::graph::{DType, Op};
use crate::layout::{Layout, View};

/// Where an operand's texels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageKind {
    /// A storage buffer of `uvec4`.
    Buffer,
    /// A 2D image, `rgba32ui`.
    Image,
}

/// One operand as a kernel sees it.
#[derive(Clone, Debug)]
pub struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Logical axes over physical positions.
    pub view: View,
    /// Kind of storage.
    pub storage: StorageKind,
    /// Texels per row of the storage.
    pub pitch: u32,
}

/// What one shader operand slot is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// Operand `i` of the op.
    Input(usize),
    /// The op's output.
    Output,
    /// Temporary tensor `i` of this lowering.
    Scratch(usize),
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Name of the shader in `fblayout_shaders`.
    pub shader: &'static str,
    /// Specialization constants (id, bits), sorted by id.
    pub constants: Vec<(u32, u32)>,
    /// Workgroup counts.
    pub groups: [u32; 3],
    /// What each operand slot is bound to, with whether the shader reads and writes it.
    pub args: Vec<(Arg, Access)>,
}

/// How a shader touches an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    Read,
    /// Written only.
    Write,
    /// Read and written by the same invocation.
    ReadWrite,
}

/// A temporary tensor of a lowering; always a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Scratch {
    /// Element type.
    pub dtype: DType,
    /// Its layout.
    pub layout: Layout,
}

/// What an op becomes: dispatches in order (each may read what an earlier one wrote) and their temporaries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// Dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// Temporaries.
    pub scratch: Vec<Scratch>,
}

/// Why an op cannot be lowered: names the operand and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// Lowers one op, or says why not. `inputs` in the op's operand order; an op in place has its written input's view as `output`.
pub fn lower(op: &Op, inputs: &[Operand], output: &Operand, limits: &Limits) -> Result<Lowered, Refusal> {
    let _ = (inputs, output, limits);
    Err(Refusal(format!("{op:?} has no kernel")))
}
