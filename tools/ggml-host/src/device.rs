//! Devices, and the plugins that provide them.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use llama_cpp_sys_2 as sys;

use crate::logging::capture;
use crate::tensor::static_str;
use crate::{Error, Result, Tensor};

/// Guards ggml's registry, of which a process has one and which is not safe to change or read from several threads. Holds
/// whether the installed backends are loaded.
static REGISTRY: Mutex<bool> = Mutex::new(false);

/// Exclusive use of the registry, for every call that reads or changes it.
pub(crate) fn registry() -> MutexGuard<'static, bool> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Version of the engine, such as `0.26.0`.
pub fn engine_version() -> &'static str {
    // SAFETY: ggml returns a static string.
    unsafe { static_str(sys::ggml_version()) }
}

/// Loads the backends that came with the engine (its CPU backend, in the variant that fits this machine).
///
/// Only the first call does anything. Only that folder is searched, never the executable's or the working one: a stray
/// library there could take a backend's place.
pub fn load_installed_backends() -> Result<()> {
    let dir = sys::BACKENDS_DIR.expect("llama-cpp-sys-2 was built with dynamic-backends");
    let dir = c_path(Path::new(dir))?;
    let mut loaded = registry();
    if !*loaded {
        // SAFETY: loads shared libraries that belong to the engine, while nobody else uses the registry.
        unsafe { sys::ggml_backend_load_all_from_path(dir.as_ptr()) };
        *loaded = true;
    }
    Ok(())
}

/// A plugin that was loaded.
#[derive(Debug)]
pub struct Plugin {
    /// The devices it brought.
    pub devices: Vec<Device>,
    /// What it logged as warnings or errors meanwhile, such as why it has no devices; needs [`crate::forward_logs`].
    pub said: String,
}

/// Loads one plugin by its path.
pub fn load_plugin(path: &Path) -> Result<Plugin> {
    let failed = |reason: String| Error::Plugin { path: path.display().to_string(), reason };
    if !path.is_file() {
        return Err(failed("no such file".to_owned()));
    }
    let c = c_path(path)?;
    let _registry = registry();
    // SAFETY: the caller chose the library; ggml checks its interface version. Nobody else uses the registry.
    let (reg, said) = capture(log::Level::Warn, || unsafe { sys::ggml_backend_load(c.as_ptr()) });
    if reg.is_null() {
        return Err(failed(if said.is_empty() { "it refused this engine or this system".to_owned() } else { said }));
    }
    // SAFETY: registries and their devices live as long as the program, since we never unload one.
    let devices = unsafe { (0..sys::ggml_backend_reg_dev_count(reg)).map(|i| sys::ggml_backend_reg_dev_get(reg, i)) };
    Ok(Plugin { devices: devices.filter_map(Device::from_raw).collect(), said })
}

/// All devices of all loaded backends, in the order in which they were loaded.
pub fn devices() -> Vec<Device> {
    let _registry = registry();
    // SAFETY: indices are below the count, and nobody changes the registry.
    let all = unsafe { (0..sys::ggml_backend_dev_count()).map(|i| sys::ggml_backend_dev_get(i)) };
    all.filter_map(Device::from_raw).collect()
}

/// The device of that name, compared without regard to case, as ggml does.
pub fn find_device(name: &str) -> Option<Device> {
    devices().into_iter().find(|d| d.name().eq_ignore_ascii_case(name))
}

/// What kind of processor a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// The host's processor.
    Cpu,
    /// A GPU with or without memory of its own.
    Gpu,
    /// Anything else.
    Other,
}

/// A device of a loaded backend. Devices live as long as the program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Device(NonNull<sys::ggml_backend_device>);

impl Device {
    pub(crate) fn from_raw(ptr: sys::ggml_backend_dev_t) -> Option<Device> {
        NonNull::new(ptr).map(Device)
    }

    pub(crate) fn raw(self) -> sys::ggml_backend_dev_t {
        self.0.as_ptr()
    }

    /// Short name, such as `CPU`.
    pub fn name(self) -> &'static str {
        // SAFETY: devices and their names live as long as the program.
        unsafe { static_str(sys::ggml_backend_dev_name(self.raw())) }
    }

    /// What the device is, in words.
    pub fn description(self) -> &'static str {
        // SAFETY: devices and their descriptions live as long as the program.
        unsafe { static_str(sys::ggml_backend_dev_description(self.raw())) }
    }

    /// Kind of processor.
    pub fn kind(self) -> DeviceKind {
        // SAFETY: the device is valid.
        match unsafe { sys::ggml_backend_dev_type(self.raw()) } {
            sys::GGML_BACKEND_DEVICE_TYPE_CPU => DeviceKind::Cpu,
            sys::GGML_BACKEND_DEVICE_TYPE_GPU | sys::GGML_BACKEND_DEVICE_TYPE_IGPU => DeviceKind::Gpu,
            _ => DeviceKind::Other,
        }
    }

    /// Free and total memory in bytes, as the backend reports them (0 when it does not).
    pub fn memory(self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both pointers are valid for writing.
        unsafe { sys::ggml_backend_dev_memory(self.raw(), &mut free, &mut total) };
        (free, total)
    }

    /// Whether the device can run the op that computes `node`.
    pub fn supports(self, node: Tensor<'_>) -> bool {
        // SAFETY: both pointers are valid; backends answer from the description alone.
        unsafe { sys::ggml_backend_dev_supports_op(self.raw(), node.ptr.as_ptr()) }
    }

    pub(crate) fn buffer_type(self) -> sys::ggml_backend_buffer_type_t {
        // SAFETY: the device is valid; buffer types live as long as the program.
        unsafe { sys::ggml_backend_dev_buffer_type(self.raw()) }
    }
}

impl std::fmt::Debug for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.description())
    }
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    let os: &OsStr = path.as_ref();
    CString::new(os.as_bytes()).map_err(|_| Error::Nul(path.display().to_string()))
}
