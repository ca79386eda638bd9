//! What can go wrong on a device, as values: what happened, where, and what to do next.

use ash::vk;

/// Result of this room.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the Vulkan room.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The Vulkan loader is missing or too old.
    #[error("no usable Vulkan loader: {reason}; install the system's Vulkan loader (libvulkan.so.1)")]
    NoLoader {
        /// What the system said.
        reason: String,
    },
    /// No device fits.
    #[error(
        "no usable Vulkan device: {reason}; install a driver (Mesa's lavapipe runs on any CPU) or choose another device"
    )]
    NoDevice {
        /// What was looked for and what was found.
        reason: String,
    },
    /// Validation was asked for and its layer is not installed.
    #[error(
        "validation was requested but {missing} is not installed; \
         install the Khronos validation layers or switch validation off"
    )]
    NoValidation {
        /// The layer or extension.
        missing: String,
    },
    /// An option has a value nobody understands.
    #[error("{option} is {value:?}: {rule}")]
    Option {
        /// Name of the option or environment variable.
        option: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        rule: String,
    },
    /// Device memory ran out: the device's own, or the part of it that `heap_bytes` allows.
    #[error(
        "out of device memory: {what} needs {requested} bytes, {in_use} of {limit} are in use; \
         use a smaller batch, sequence or model, or raise the heap limit"
    )]
    OutOfDeviceMemory {
        /// What the memory was for.
        what: String,
        /// Bytes asked for.
        requested: u64,
        /// Bytes this device already handed out.
        in_use: u64,
        /// Bytes it may hand out.
        limit: u64,
    },
    /// The device is gone; every later call fails the same way.
    #[error(
        "the Vulkan device was lost in {call}; open it again \
         (a driver reset or a kernel that ran too long are the usual causes)"
    )]
    DeviceLost {
        /// The call that found out.
        call: &'static str,
    },
    /// A value exceeds a limit of the device.
    #[error("{what} is {value}, but the device allows {limit}; split it or choose another storage")]
    LimitExceeded {
        /// The thing, with its name.
        what: String,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
    /// A pipeline could not be built.
    #[error("pipeline of shader {shader}: {reason}")]
    Pipeline {
        /// Name of the shader.
        shader: String,
        /// What is wrong.
        reason: String,
    },
    /// An argument breaks a rule of this room.
    #[error("{what}: {rule}")]
    Invalid {
        /// The argument.
        what: String,
        /// The rule it breaks.
        rule: String,
    },
    /// Any other failure of a Vulkan call.
    #[error("{call} failed: {result:?}")]
    Vulkan {
        /// The call.
        call: &'static str,
        /// Its result.
        result: vk::Result,
    },
}

impl Error {
    pub(crate) fn invalid(what: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Invalid { what: what.into(), rule: rule.into() }
    }
}

/// Fails with `LimitExceeded` when `value` is above `limit`.
pub(super) fn within(what: impl FnOnce() -> String, value: u64, limit: u64) -> Result<()> {
    if value <= limit { Ok(()) } else { Err(Error::LimitExceeded { what: what(), value, limit }) }
}
