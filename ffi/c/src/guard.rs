//! What every entry goes through: no panic passes, and what fails is told.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::engine::Shared;
use crate::failure::{Failure, remember};
use crate::status::*;

/// Runs the body of an entry. What fails is logged and remembered for this thread.
pub fn call(entry: &str, body: impl FnOnce() -> Result<fbl_status, Failure>) -> fbl_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => tell(entry, failure),
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().copied();
            let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let message = format!("a defect of the library: {}", words.unwrap_or("no message"));
            // The destructor of any other payload may itself panic.
            if !panic.is::<&str>() && !panic.is::<String>() {
                std::mem::forget(panic);
            }
            tell(entry, Failure::new(FBL_ERR_PANIC, message))
        }
    }
}

/// [`call`] with an engine, which is refused once it is poisoned, and poisoned by a panic.
pub fn engine_call(entry: &str, engine: &Shared, body: impl FnOnce() -> Result<fbl_status, Failure>) -> fbl_status {
    let status = call(entry, || {
        engine.check()?;
        body()
    });
    if status < 0 {
        engine.failed(status, &crate::failure::last());
    }
    status
}

fn tell(entry: &str, Failure { status, message }: Failure) -> fbl_status {
    let message = format!("{entry}: {message}");
    // What the log tells may itself call the library: the words of this failure are remembered last.
    log::error!("{message}");
    remember(&message);
    status
}

/// A shared reference to what a pointer names, or the failure that names the argument.
///
/// # Safety
/// `pointer` is NULL or points to a valid `T` that nothing writes during `'a`.
pub unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise is this call's condition.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::null(name))
}

/// The elements behind a pointer; none where their number is 0.
///
/// # Safety
/// `pointer` is NULL or points to `length` valid elements that nothing writes during `'a`.
pub unsafe fn elements<'a, T>(pointer: *const T, length: usize, name: &str) -> Result<&'a [T], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    if !pointer.is_aligned() || length > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("{name} are not {length} elements in memory")));
    }
    // SAFETY: not null, aligned, of a size that can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(pointer, length) })
}

/// A place for a result, or the failure that names the argument.
///
/// # Safety
/// `pointer` is NULL or points to memory for a `T` that is this call's alone.
pub unsafe fn out<T>(pointer: *mut T, name: &str) -> Result<Out<T>, Failure> {
    if pointer.is_null() { Err(Failure::null(name)) } else { Ok(Out(pointer)) }
}

/// A place for a result that was found not to be NULL.
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Writes the result; what was there is not looked at.
    pub fn set(self, value: T) {
        // SAFETY: `out` was promised memory for a `T`; C may have left anything there, so nothing is dropped.
        unsafe { self.0.write_unaligned(value) }
    }
}
