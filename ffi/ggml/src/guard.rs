//! What every entry of the plugin goes through: neither a panic nor an unchecked pointer of the host passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the body of an entry. An error or a panic is logged under the entry's name and becomes `fallback`.
pub fn guard<R>(entry: &str, fallback: R, body: impl FnOnce() -> Result<R, String>) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(result)) => result,
        Ok(Err(message)) => {
            log::error!("{entry}: {message}");
            fallback
        }
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
                .unwrap_or("no message");
            log::error!("{entry}: internal error: {message}");
            // A payload's destructor may itself panic; nothing worth freeing is in it.
            std::mem::forget(panic);
            fallback
        }
    }
}

/// A shared reference to what the host passed, or an error naming it.
///
/// # Safety
/// `pointer` is null or points to a valid `T` that nothing writes during `'a`.
pub unsafe fn borrow<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, String> {
    // SAFETY: the caller's promise is this call's condition.
    unsafe { pointer.as_ref() }.ok_or_else(|| format!("{name} is null"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_panics_become_the_fallback() {
        assert_eq!(guard("t", 1, || Ok(2)), 2);
        assert_eq!(guard("t", 1, || Err("no".into())), 1);
        assert_eq!(guard("t", 1, || panic!("on purpose {}", 3)), 1);
        assert_eq!(guard("t", 1, || std::panic::panic_any(7_u8)), 1);
    }

    #[test]
    fn null_is_an_error_with_a_name() {
        // SAFETY: null is allowed.
        let missing = unsafe { borrow::<u32>(std::ptr::null(), "tensor") };
        assert_eq!(missing, Err("tensor is null".into()));
    }
}
