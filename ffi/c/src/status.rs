//! What every call answers.

use std::ffi::c_char;

/// What a call answers: 0 or a positive number where it did what was asked, a negative one where it did not. A call that fails changes
/// nothing, unless its description says otherwise.
pub type fbl_status = i32;

/// Done.
pub const FBL_OK: fbl_status = 0;
/// Done, but a text had no room: `*length` tells how much it needs.
pub const FBL_TRUNCATED: fbl_status = 1;
/// Training was stopped by `fbl_trainer_stop`; no step was taken.
pub const FBL_STOPPED: fbl_status = 2;
/// A pointer is NULL that must not be.
pub const FBL_ERR_NULL: fbl_status = -1;
/// An argument is none of those allowed: an unknown number of an enumeration, a handle of something else, a text that means nothing.
pub const FBL_ERR_INVALID_ARGUMENT: fbl_status = -2;
/// `struct_size` is smaller than the struct ever was, or the caller knows fields that this library does not and has set them.
pub const FBL_ERR_STRUCT_SIZE: fbl_status = -3;
/// The graph breaks a rule of shapes, dtypes or order; the message names node, operand and rule.
pub const FBL_ERR_GRAPH: fbl_status = -4;
/// The graph is sound, but this device cannot run it; the message names the limit.
pub const FBL_ERR_UNSUPPORTED: fbl_status = -5;
/// Device memory ran out.
pub const FBL_ERR_OUT_OF_MEMORY: fbl_status = -6;
/// There is no such device, no driver or no loader, or a call of Vulkan failed.
pub const FBL_ERR_DEVICE: fbl_status = -7;
/// The device was lost, and its engine with it: destroy it and create another.
pub const FBL_ERR_DEVICE_LOST: fbl_status = -8;
/// A file cannot be read or written, or holds something else.
pub const FBL_ERR_FILE: fbl_status = -9;
/// Another thread is in a call with this handle, or a callback called back.
pub const FBL_ERR_BUSY: fbl_status = -10;
/// An earlier call with this engine failed by a defect of the library (`FBL_ERR_PANIC`): only destroy it.
pub const FBL_ERR_POISONED: fbl_status = -11;
/// A defect of the library; the engine is poisoned.
pub const FBL_ERR_PANIC: fbl_status = -100;

/// Name of a status, such as "FBL_ERR_NULL"; "FBL_ERR_UNKNOWN" of a number that is none.
///
/// Any thread. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_status_name(status: fbl_status) -> *const c_char {
    let name = match status {
        FBL_OK => c"FBL_OK",
        FBL_TRUNCATED => c"FBL_TRUNCATED",
        FBL_STOPPED => c"FBL_STOPPED",
        FBL_ERR_NULL => c"FBL_ERR_NULL",
        FBL_ERR_INVALID_ARGUMENT => c"FBL_ERR_INVALID_ARGUMENT",
        FBL_ERR_STRUCT_SIZE => c"FBL_ERR_STRUCT_SIZE",
        FBL_ERR_GRAPH => c"FBL_ERR_GRAPH",
        FBL_ERR_UNSUPPORTED => c"FBL_ERR_UNSUPPORTED",
        FBL_ERR_OUT_OF_MEMORY => c"FBL_ERR_OUT_OF_MEMORY",
        FBL_ERR_DEVICE => c"FBL_ERR_DEVICE",
        FBL_ERR_DEVICE_LOST => c"FBL_ERR_DEVICE_LOST",
        FBL_ERR_FILE => c"FBL_ERR_FILE",
        FBL_ERR_BUSY => c"FBL_ERR_BUSY",
        FBL_ERR_POISONED => c"FBL_ERR_POISONED",
        FBL_ERR_PANIC => c"FBL_ERR_PANIC",
        _ => c"FBL_ERR_UNKNOWN",
    };
    name.as_ptr()
}
