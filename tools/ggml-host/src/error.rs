//! What can go wrong, each as one line that names the thing and the rule it broke.

/// An error of the engine or of this wrapper.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A path or a text holds a NUL byte, which the C interface cannot take.
    #[error("'{0}' holds a NUL byte")]
    Nul(String),
    /// A plugin could not be loaded.
    #[error("cannot load the plugin '{path}': {reason}")]
    Plugin {
        /// Path of the shared library.
        path: String,
        /// What the loader said.
        reason: String,
    },
    /// A device gave no stream.
    #[error("device '{0}' cannot be opened")]
    Open(String),
    /// A buffer could not be had.
    #[error("out of memory on device '{device}': {what} needs {} MiB{}", mib(*.bytes), note(.said))]
    OutOfMemory {
        /// Name of the device.
        device: String,
        /// What was to be allocated.
        what: String,
        /// Size in bytes.
        bytes: usize,
        /// What the backend logged, if anything.
        said: String,
    },
    /// A backend reported an error while it moved the bytes of a tensor.
    #[error("tensor '{tensor}': {said}")]
    Transfer {
        /// Name of the tensor.
        tensor: String,
        /// What the backend logged.
        said: String,
    },
    /// Tensor bytes were accessed outside of the tensor, or before it had memory.
    #[error("tensor '{tensor}': bytes {offset}..{} are not within its {size} bytes of memory", offset + len)]
    Range {
        /// Name of the tensor.
        tensor: String,
        /// First byte.
        offset: usize,
        /// Number of bytes.
        len: usize,
        /// Bytes that the tensor has; 0 when it has no memory yet.
        size: usize,
    },
    /// A graph needs an op that no device at hand can run on its operands.
    #[error("device '{device}' cannot run {op}")]
    Unsupported {
        /// Name of the device.
        device: String,
        /// The op with its operand types and shapes.
        op: String,
    },
    /// A graph cannot be run as it is.
    #[error("graph: {0}")]
    Graph(String),
    /// The device reported a failed computation.
    #[error("device '{device}': the computation {status}{}", note(.said))]
    Compute {
        /// Name of the device, or of the first one of a plan.
        device: String,
        /// What ggml's status means.
        status: &'static str,
        /// What the backend logged, if anything.
        said: String,
    },
    /// A type has no conversion from or to f32 here.
    #[error("type {0} cannot be converted {1} f32")]
    Convert(&'static str, &'static str),
    /// A GGUF file is not readable as such.
    #[error("'{path}' is not a readable GGUF file: {reason}")]
    Gguf {
        /// Path of the file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A file operation failed.
    #[error("'{path}': {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Devices could not be served, or those of a server not be reached.
    #[error("RPC at '{address}': {reason}")]
    Rpc {
        /// Address of the server.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// llama.cpp refused something.
    #[error("llama.cpp: {what} failed: {reason}")]
    Llama {
        /// What was attempted.
        what: String,
        /// What llama.cpp logged.
        reason: String,
    },
}

fn mib(bytes: usize) -> String {
    format!("{:.1}", bytes as f64 / (1024.0 * 1024.0))
}

fn note(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}
