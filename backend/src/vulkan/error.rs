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
        "out of device memory: {what}{}; use a smaller batch, sequence or model, or raise the heap limit",
        shortage(*requested, *in_use, *limit)
    )]
    OutOfDeviceMemory {
        /// What the memory was for, or the call that found out.
        what: String,
        /// Bytes asked for; 0 where the driver alone knows.
        requested: u64,
        /// Bytes this device already handed out.
        in_use: u64,
        /// Bytes it may hand out; 0 before it is open.
        limit: u64,
    },
    /// The driver got no memory of the host.
    #[error("out of host memory in {call}; free some of this machine's memory and try again")]
    OutOfHostMemory {
        /// The call that found out.
        call: &'static str,
    },
    /// The driver gives no memory, for another reason than that it ran out.
    #[error("no memory for {what}: {reason}; free other tensors and programs, or use fewer of them")]
    NoMemory {
        /// What it was for.
        what: String,
        /// What was tried and the driver's answer.
        reason: String,
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

    /// What a failed call means where no device is open that would know more.
    pub(super) fn of_call(call: &'static str, result: vk::Result) -> Self {
        match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => {
                Self::OutOfDeviceMemory { what: call.to_owned(), requested: 0, in_use: 0, limit: 0 }
            }
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => Self::OutOfHostMemory { call },
            vk::Result::ERROR_DEVICE_LOST => Self::DeviceLost { call },
            _ => Self::Vulkan { call, result },
        }
    }
}

fn shortage(requested: u64, in_use: u64, limit: u64) -> String {
    let needs = if requested > 0 { format!(" needs {requested} bytes") } else { String::new() };
    if limit > 0 { format!("{needs}, {in_use} of {limit} bytes are in use") } else { needs }
}

/// Fails with `LimitExceeded` when `value` is above `limit`.
pub(super) fn within(what: impl FnOnce() -> String, value: u64, limit: u64) -> Result<()> {
    if value <= limit { Ok(()) } else { Err(Error::LimitExceeded { what: what(), value, limit }) }
}
