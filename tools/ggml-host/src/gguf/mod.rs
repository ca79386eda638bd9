//! GGUF files: metadata and tensors, read and written.

mod reader;
mod writer;

pub use reader::{Reader, TensorInfo};
pub use writer::Writer;
