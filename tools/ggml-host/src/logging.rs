//! The engine's log lines, forwarded to the `log` crate.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

use llama_cpp_sys_2 as sys;

thread_local! {
    /// Grave lines of the call in progress on this thread, when somebody wants them, and how grave they are.
    static CAPTURED: RefCell<Option<(log::Level, Vec<String>)>> = const { RefCell::new(None) };
}

/// Sends the log lines of ggml and llama.cpp to the `log` crate under the target `ggml`, instead of to stderr.
pub fn forward_logs() {
    // SAFETY: the callback is a plain function without user data and lives forever.
    unsafe {
        sys::ggml_log_set(Some(on_log), std::ptr::null_mut());
        sys::llama_log_set(Some(on_log), std::ptr::null_mut());
    }
}

/// Runs `call` and returns its result with the error lines that the engine logged meanwhile on this thread, joined by "; ".
///
/// Needs [`forward_logs`]; without it the text is empty. Calls do not nest: an inner call takes the lines of its time.
pub fn capture_errors<R>(call: impl FnOnce() -> R) -> (R, String) {
    capture(log::Level::Error, call)
}

/// [`capture_errors`], of every line at least as grave as `level`.
pub(crate) fn capture<R>(level: log::Level, call: impl FnOnce() -> R) -> (R, String) {
    let outer = CAPTURED.replace(Some((level, Vec::new())));
    let result = call();
    let lines = CAPTURED.replace(outer).map(|(_, lines)| lines).unwrap_or_default();
    (result, lines.join("; "))
}

unsafe extern "C" fn on_log(level: sys::ggml_log_level, text: *const c_char, _: *mut c_void) {
    if text.is_null() {
        return;
    }
    // SAFETY: ggml passes a NUL-terminated string that is valid during the call.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim_end().replace('\n', " ");
    let level = match level {
        sys::GGML_LOG_LEVEL_ERROR => log::Level::Error,
        sys::GGML_LOG_LEVEL_WARN => log::Level::Warn,
        sys::GGML_LOG_LEVEL_INFO => log::Level::Debug,
        _ => log::Level::Trace,
    };
    if text.is_empty() {
        return;
    }
    let kept = CAPTURED.with_borrow_mut(|captured| match captured {
        Some((least, lines)) if level <= *least => {
            lines.push(text.clone());
            true
        }
        _ => false,
    });
    let level = if kept { log::Level::Debug } else { level };
    log::log!(target: "ggml", level, "{text}");
}
