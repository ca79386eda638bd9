//! What can go wrong, each as one line that names the thing and the rule it broke.

use std::path::Path;

/// Result of a step of fine-tuning.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of a fine-tuning run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option has a value that it cannot have.
    #[error("{option} {value}: {rule}")]
    Option {
        /// The option, such as `--rank`.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it must be.
        rule: String,
    },
    /// The model is not one that can be trained here.
    #[error("model '{path}': {rule}")]
    Model {
        /// Path of the file.
        path: String,
        /// What is missing or not supported.
        rule: String,
    },
    /// The data holds nothing to train on.
    #[error("data '{path}': {rule}")]
    Data {
        /// Path of the file.
        path: String,
        /// What is wrong.
        rule: String,
    },
    /// The chat template does not work.
    #[error("chat template '{origin}': {reason}")]
    Template {
        /// Where the template came from.
        origin: String,
        /// What the engine said.
        reason: String,
    },
    /// The wanted device is not there.
    #[error("device '{name}': {rule}")]
    Device {
        /// Name asked for.
        name: String,
        /// Why it is not there, and which devices are.
        rule: String,
    },
    /// The default model could not be fetched.
    #[error("fetching the default model: {0} (or pass --model PATH)")]
    Fetch(String),
    /// The loss is not a number any more.
    #[error("step {step}: the loss is {loss}; training stopped, nothing was written (try a smaller --lr)")]
    Diverged {
        /// Step, from 1.
        step: usize,
        /// The loss.
        loss: f32,
    },
    /// A file operation failed.
    #[error("'{path}': {source}")]
    Io {
        /// Path of the file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] ggml_host::Error),
}

impl Error {
    /// Wraps a system error with the path that it is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
        move |source| Error::Io { path: path.display().to_string(), source }
    }
}
