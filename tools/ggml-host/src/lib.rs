//! Safe wrapper over the raw bindings of ggml and llama.cpp.
//!
//! The memory model is an arena: a [`Context`] owns the descriptions of its tensors, the buffers that hold their bytes, and
//! the schedulers that place them. A [`Tensor`] is a copyable handle that cannot outlive its context. Ops are methods of the
//! context that will hold their result and may read tensors of any context that lives at least as long.
//!
//! Everything is single-threaded (handles are neither `Send` nor `Sync`). Failures that depend on data, files or devices are
//! [`Error`] values. Shapes that do not fit an op are mistakes in the calling program: ggml itself aborts on them.

mod backend;
mod context;
mod device;
mod error;
pub mod gguf;
mod graph;
pub mod llama;
mod logging;
mod ops;
mod plan;
mod quant;
pub mod rpc;
mod tensor;

pub use backend::Backend;
pub use context::Context;
pub use device::{
    Device, DeviceKind, Plugin, devices, engine_version, find_device, load_installed_backends, load_plugin,
};
pub use error::Error;
pub use graph::Graph;
pub use logging::{capture_errors, forward_logs};
pub use ops::{Convolution, Glu, Pooling, Rope, RopeMode, Unary};
pub use plan::Plan;
pub use quant::{dequantize, quantize};
pub use tensor::{Tensor, Type, Usage};

/// Result of an operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;
