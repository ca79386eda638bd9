//! The functions of the host's ggml that the plugin calls, found at run time, and the bridge from `log` to the host's log.
//!
//! Nothing is imported at link time: a host may have ggml inside itself, or have opened it privately, and the plugin must not
//! bring a second copy.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;

use log::{Level, LevelFilter, Log, Metadata, Record};

use crate::abi::{
    LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN, ggml_backend_buffer, ggml_backend_buffer_i, ggml_backend_buffer_type,
    ggml_tensor,
};

/// `ggml_log_internal`: level, printf format, arguments.
type LogInternal = unsafe extern "C" fn(i32, *const c_char, ...);
/// `ggml_backend_buffer_init`.
type BufferInit = unsafe extern "C" fn(
    *mut ggml_backend_buffer_type,
    ggml_backend_buffer_i,
    *mut c_void,
    usize,
) -> *mut ggml_backend_buffer;
/// A function from a number of one of ggml's enums to its name.
type NameOf = unsafe extern "C" fn(i32) -> *const c_char;
/// `ggml_op_desc`.
type OpDesc = unsafe extern "C" fn(*const ggml_tensor) -> *const c_char;
/// `ggml_version`.
type Version = unsafe extern "C" fn() -> *const c_char;
/// `ggml_nbytes`.
pub type Nbytes = unsafe extern "C" fn(*const ggml_tensor) -> usize;

/// Functions of the ggml that loaded the plugin.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Allocates a buffer object that the host can delete.
    pub buffer_init: BufferInit,
    /// Span of a tensor in bytes.
    pub nbytes: Nbytes,
    op_desc: OpDesc,
    type_name: NameOf,
    op_name: NameOf,
    version: Version,
    log: LogInternal,
}

/// File names under which a process may have loaded ggml's base library without making its symbols global.
#[cfg(target_vendor = "apple")]
const BASE_LIBRARIES: [&CStr; 2] = [c"libggml-base.0.dylib", c"libggml-base.dylib"];
/// File names under which a process may have loaded ggml's base library without making its symbols global.
#[cfg(not(target_vendor = "apple"))]
const BASE_LIBRARIES: [&CStr; 2] = [c"libggml-base.so.0", c"libggml-base.so"];

impl Host {
    /// Finds ggml in this process: among the global symbols, else in a base library that is already loaded.
    pub fn find() -> Result<Self, String> {
        let mut missing = match Self::from_handle(libc::RTLD_DEFAULT) {
            Ok(host) => return Ok(host),
            Err(symbol) => symbol,
        };
        for name in BASE_LIBRARIES {
            // SAFETY: the name is a C string. RTLD_NOLOAD runs no initializer; the reference it adds keeps the library as long as
            // the plugin, which is never unloaded.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
            if !handle.is_null() {
                match Self::from_handle(handle) {
                    Ok(host) => return Ok(host),
                    Err(symbol) => missing = symbol,
                }
            }
        }
        Err(format!("the process has no ggml that exports {}", missing.to_string_lossy()))
    }

    /// All functions from one place, or the name of the first that is not there.
    fn from_handle(handle: *mut c_void) -> Result<Self, &'static CStr> {
        let symbol = |name: &'static CStr| {
            // SAFETY: the handle is RTLD_DEFAULT or of an open library, the name a C string.
            let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if address.is_null() { Err(name) } else { Ok(address) }
        };
        // SAFETY: each transmute makes a function pointer of the non-null address of the function it names, with the signature of
        // that function in every ggml since 0.9.1, before which `ggml_version` did not exist.
        unsafe {
            Ok(Self {
                version: transmute::<*mut c_void, Version>(symbol(c"ggml_version")?),
                buffer_init: transmute::<*mut c_void, BufferInit>(symbol(c"ggml_backend_buffer_init")?),
                nbytes: transmute::<*mut c_void, Nbytes>(symbol(c"ggml_nbytes")?),
                op_desc: transmute::<*mut c_void, OpDesc>(symbol(c"ggml_op_desc")?),
                op_name: transmute::<*mut c_void, NameOf>(symbol(c"ggml_op_name")?),
                type_name: transmute::<*mut c_void, NameOf>(symbol(c"ggml_type_name")?),
                log: transmute::<*mut c_void, LogInternal>(symbol(c"ggml_log_internal")?),
            })
        }
    }

    /// A host made of the functions that a test has; its log is discarded.
    #[cfg(test)]
    pub fn for_tests(version: Version, buffer_init: BufferInit, nbytes: Nbytes, op_desc: OpDesc, name: NameOf) -> Self {
        // SAFETY: a function that reads none of its arguments may be called with any.
        let log = unsafe { transmute::<Version, LogInternal>(version) };
        Self { buffer_init, nbytes, op_desc, type_name: name, op_name: name, version, log }
    }

    /// Version of the host's ggml, as `0.26.0`.
    pub fn version(&self) -> String {
        // SAFETY: the function takes nothing and returns a static string.
        text(unsafe { (self.version)() })
    }

    /// ggml's name of what a tensor computes.
    ///
    /// # Safety
    /// `tensor` points to a valid tensor.
    pub unsafe fn op_desc(&self, tensor: *const ggml_tensor) -> String {
        // SAFETY: the caller vouches for the tensor; the result is a static string.
        text(unsafe { (self.op_desc)(tensor) })
    }

    /// ggml's name of an op number, which must be one that the host has.
    pub fn op_name(&self, op: i32) -> String {
        // SAFETY: the function reads a table of names that has one for this number.
        text(unsafe { (self.op_name)(op) })
    }

    /// ggml's name of a type.
    ///
    /// # Safety
    /// `type_id` is the type of a tensor that the host made.
    pub unsafe fn type_name(&self, type_id: i32) -> String {
        // SAFETY: the caller vouches for the type; the result is a static string.
        text(unsafe { (self.type_name)(type_id) })
    }

    /// Sends `log` records to the host's log, from the level that `FBL_LOG` names (`info` if unset) up.
    pub fn bridge_log(&self) {
        let asked = std::env::var("FBL_LOG").ok();
        let level = asked.as_deref().map_or(Some(LevelFilter::Info), |text| text.parse().ok());
        // A second registry in one process, as in a test, finds the logger set.
        if log::set_boxed_logger(Box::new(HostLog { log: self.log })).is_ok() {
            log::set_max_level(level.unwrap_or(LevelFilter::Info));
        }
        if level.is_none() {
            log::warn!(
                "FBL_LOG={} is none of off, error, warn, info, debug, trace; using info",
                asked.unwrap_or_default()
            );
        }
    }
}

/// A static C string of the host as text.
fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "unknown".into();
    }
    // SAFETY: the host's name functions return null or a static C string.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A logger that writes to ggml's log.
struct HostLog {
    log: LogInternal,
}

impl Log for HostLog {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = match record.level() {
            Level::Error => LOG_ERROR,
            Level::Warn => LOG_WARN,
            Level::Info => LOG_INFO,
            Level::Debug | Level::Trace => LOG_DEBUG,
        };
        let line = format!("fblayout: {}\n", record.args()).replace('\0', " ");
        if let Ok(line) = CString::new(line) {
            // SAFETY: the format takes one C string, which lives until the call returns.
            unsafe { (self.log)(level, c"%s".as_ptr(), line.as_ptr()) }
        }
    }

    fn flush(&self) {}
}

/// Whether the plugin may serve a ggml of this version; `any` lifts the check.
pub fn accept_version(version: &str, any: bool) -> Result<(), String> {
    if any || version.starts_with("0.26.") {
        return Ok(());
    }
    Err(format!(
        "built for ggml 0.26, but the host has {version}; its structs may differ (FBL_GGML_ANY_VERSION=1 tries anyway)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tested_minor_is_accepted() {
        assert!(accept_version("0.26.0", false).is_ok());
        assert!(accept_version("0.26.12-dev", false).is_ok());
        for other in ["0.2.6", "0.260.0", "0.27.0", "1.26.0", "", "unknown"] {
            assert!(accept_version(other, false).is_err(), "{other}");
            assert!(accept_version(other, true).is_ok(), "{other}");
        }
    }

    #[test]
    fn a_process_without_ggml_is_told_so() {
        let error = Host::find().expect_err("no ggml is linked into the tests");
        assert!(error.contains("ggml_version"), "{error}");
    }
}
