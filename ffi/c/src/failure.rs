//! Why a call failed: a status, and the words that `fbl_error_message` gives.

use std::cell::RefCell;

use fblayout::engine::Error;
use fblayout::recipe::RecipeError;
use fblayout::session;
use fblayout::train::CheckpointError;
use fblayout::vulkan;

use crate::status::*;

/// A status below zero with its words.
#[derive(Debug)]
pub struct Failure {
    pub status: fbl_status,
    pub message: String,
}

thread_local! {
    /// What failed last in a call of this thread.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the words of a failure for this thread; of one that is ending, nothing is kept.
pub fn remember(message: &str) {
    let _ = LAST.try_with(|last| message.clone_into(&mut last.borrow_mut()));
}

/// The words of this thread's last failure.
pub fn last() -> String {
    LAST.try_with(|last| last.borrow().clone()).unwrap_or_default()
}

impl Failure {
    pub fn new(status: fbl_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// An argument that means nothing.
    pub fn argument(message: impl Into<String>) -> Self {
        Self::new(FBL_ERR_INVALID_ARGUMENT, message)
    }

    /// A pointer that is NULL.
    pub fn null(name: &str) -> Self {
        Self::new(FBL_ERR_NULL, format!("{name} is NULL"))
    }
}

impl From<vulkan::Error> for Failure {
    fn from(error: vulkan::Error) -> Self {
        let status = match error {
            vulkan::Error::OutOfDeviceMemory { .. }
            | vulkan::Error::OutOfHostMemory { .. }
            | vulkan::Error::NoMemory { .. } => FBL_ERR_OUT_OF_MEMORY,
            vulkan::Error::DeviceLost { .. } => FBL_ERR_DEVICE_LOST,
            vulkan::Error::LimitExceeded { .. } => FBL_ERR_UNSUPPORTED,
            vulkan::Error::Option { .. } | vulkan::Error::Invalid { .. } => FBL_ERR_INVALID_ARGUMENT,
            _ => FBL_ERR_DEVICE,
        };
        Self::new(status, error.to_string())
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::Device(error) => return error.into(),
            Error::Plan(_) => FBL_ERR_UNSUPPORTED,
            Error::Graph(_) => FBL_ERR_GRAPH,
            Error::Layout(_) | Error::Option { .. } | Error::Length { .. } | Error::External { .. } => {
                FBL_ERR_INVALID_ARGUMENT
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<RecipeError> for Failure {
    fn from(error: RecipeError) -> Self {
        let status = match error {
            RecipeError::Graph(_) | RecipeError::View(_) => FBL_ERR_GRAPH,
            RecipeError::Rule { .. } => FBL_ERR_INVALID_ARGUMENT,
        };
        Self::new(status, error.to_string())
    }
}

impl From<session::Error> for Failure {
    fn from(error: session::Error) -> Self {
        match error {
            session::Error::Engine(error) => error.into(),
            session::Error::Recipe(error) => error.into(),
            session::Error::Tensor { .. } => Self::argument(error.to_string()),
        }
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Session(error) => error.into(),
            CheckpointError::File { .. } | CheckpointError::Content { .. } => {
                Self::new(FBL_ERR_FILE, error.to_string())
            }
        }
    }
}
