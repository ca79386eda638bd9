//! The log: what the library says while it works, told to one callback of the program.

use std::cell::Cell;
use std::ffi::{CString, c_char, c_void};
use std::sync::{OnceLock, PoisonError, RwLock};

use log::{LevelFilter, Log, Metadata, Record};

use crate::failure::Failure;
use crate::guard::call;
use crate::status::{FBL_ERR_BUSY, FBL_OK, fbl_status};

/// Nothing is told.
pub const FBL_LOG_OFF: u32 = 0;
/// Calls that failed.
pub const FBL_LOG_ERROR: u32 = 1;
/// What works, but not as it should.
pub const FBL_LOG_WARN: u32 = 2;
/// What happens once: devices, files.
pub const FBL_LOG_INFO: u32 = 3;
/// What is decided: plans, refusals.
pub const FBL_LOG_DEBUG: u32 = 4;

/// What the log calls: `level` is one of `FBL_LOG_*`, `message` is UTF-8 of `length` bytes and ends with NUL; it is valid during the call.
/// It comes from any thread, also from several at once, and must neither call the library nor throw.
pub type fbl_log_callback =
    Option<unsafe extern "C" fn(level: u32, message: *const c_char, length: usize, user: *mut c_void)>;

/// Where messages go.
#[derive(Clone, Copy)]
struct Sink {
    callback: fbl_log_callback,
    user: *mut c_void,
}

// SAFETY: the program promises that its callback may be called from any thread with this pointer.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

static SINK: RwLock<Sink> = RwLock::new(Sink { callback: None, user: std::ptr::null_mut() });

thread_local! {
    /// Whether this thread is in the program's callback.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct Bridge;

impl Log for Bridge {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        // A callback that calls the library would log without end.
        if INSIDE.get() {
            return;
        }
        let sink = SINK.read().unwrap_or_else(PoisonError::into_inner);
        let Some(callback) = sink.callback else { return };
        let text = record.args().to_string().replace('\0', " ");
        let length = text.len();
        let Ok(text) = CString::new(text) else { return };
        INSIDE.set(true);
        // SAFETY: the program gave this function for this use; the text lives until it returns.
        unsafe { callback(record.level() as u32, text.as_ptr(), length, sink.user) };
        INSIDE.set(false);
    }

    fn flush(&self) {}
}

/// Tells messages up to a level (`FBL_LOG_*`) to a callback, with `user` as its last argument; of what was set before, nothing is called
/// once this returns. NULL tells nobody. At first nobody is told.
///
/// Any thread, but not the callback. `user` stays the program's.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown level, FBL_ERR_BUSY from within the callback.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_log_set(callback: fbl_log_callback, user: *mut c_void, max_level: u32) -> fbl_status {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    call("fbl_log_set", || {
        if INSIDE.get() {
            return Err(Failure::new(FBL_ERR_BUSY, "called from within the callback"));
        }
        let filter = match max_level {
            FBL_LOG_OFF => LevelFilter::Off,
            FBL_LOG_ERROR => LevelFilter::Error,
            FBL_LOG_WARN => LevelFilter::Warn,
            FBL_LOG_INFO => LevelFilter::Info,
            FBL_LOG_DEBUG => LevelFilter::Debug,
            _ => return Err(Failure::argument(format!("level {max_level} is none of FBL_LOG_*"))),
        };
        // In the shared library nobody else sets a logger; a Rust program that links this crate keeps its own, and its filter.
        let ours = *INSTALLED.get_or_init(|| log::set_logger(&Bridge).is_ok());
        let mut sink = SINK.write().unwrap_or_else(PoisonError::into_inner);
        *sink = Sink { callback, user };
        if ours {
            log::set_max_level(if callback.is_some() { filter } else { LevelFilter::Off });
        }
        Ok(FBL_OK)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Own;

    impl Log for Own {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            false
        }

        fn log(&self, _: &Record<'_>) {}

        fn flush(&self) {}
    }

    #[test]
    fn a_host_that_logs_keeps_its_filter() {
        log::set_logger(&Own).unwrap();
        log::set_max_level(LevelFilter::Trace);
        assert_eq!(fbl_log_set(None, std::ptr::null_mut(), FBL_LOG_OFF), FBL_OK);
        assert_eq!(log::max_level(), LevelFilter::Trace);
    }
}
