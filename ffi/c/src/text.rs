//! Texts that cross the border, in both directions.

use std::ffi::{CStr, c_char};

use crate::failure::Failure;
use crate::status::{FBL_OK, FBL_TRUNCATED, fbl_status};

/// A caller's text.
///
/// # Errors
/// It is NULL, or no UTF-8.
///
/// # Safety
/// `pointer` is NULL or points to a text that ends with NUL and that nothing writes during `'a`.
pub unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    // SAFETY: the caller's promise is this call's condition.
    unsafe { optional(pointer, name) }?.ok_or_else(|| Failure::null(name))
}

/// A caller's text, where NULL is none.
///
/// # Errors
/// It is no UTF-8.
///
/// # Safety
/// As [`text`].
pub unsafe fn optional<'a>(pointer: *const c_char, name: &str) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null; the caller promises that the text ends.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map(Some).map_err(|_| Failure::argument(format!("{name} is no UTF-8")))
}

/// Where a caller wants a text: room for `capacity` bytes, the last of which will be NUL, and a place for the length.
#[derive(Clone, Copy)]
pub struct Room {
    pub buffer: *mut c_char,
    pub capacity: usize,
    pub length: *mut usize,
}

impl Room {
    /// Gives as much of the text as there is room for, cut between characters.
    ///
    /// # Safety
    /// `buffer` is NULL or points to `capacity` writable bytes, `length` is NULL or points to a `size_t`.
    pub unsafe fn fill(self, text: &str) -> fbl_status {
        if !self.length.is_null() {
            // SAFETY: not null, and the caller promises a size there.
            unsafe { self.length.write_unaligned(text.len()) };
        }
        if self.buffer.is_null() || self.capacity == 0 {
            return FBL_TRUNCATED;
        }
        let end = boundary(text, self.capacity - 1);
        // SAFETY: `end` bytes and a NUL are no more than the caller promises room for.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr(), self.buffer.cast(), end);
            self.buffer.add(end).write(0);
        }
        if end == text.len() { FBL_OK } else { FBL_TRUNCATED }
    }
}

/// The greatest boundary between characters that is at most `most`.
fn boundary(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// What is told to programs as JSON.
pub fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string_pretty(value).map_err(|e| Failure::argument(format!("cannot be told as JSON: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, capacity: usize) -> (fbl_status, String, usize) {
        let (mut buffer, mut length) = (vec![1_u8; capacity + 1], 0);
        let room = Room { buffer: buffer.as_mut_ptr().cast(), capacity, length: &raw mut length };
        // SAFETY: there is room for a byte more than is said.
        let status = unsafe { room.fill(text) };
        assert_eq!(buffer[capacity], 1, "nothing is written behind the room");
        let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
        (status, String::from_utf8(buffer[..end].to_vec()).unwrap(), length)
    }

    #[test]
    fn texts_are_cut_between_characters_and_their_length_is_told() {
        assert_eq!(filled("abc", 4), (FBL_OK, "abc".into(), 3));
        assert_eq!(filled("abc", 3), (FBL_TRUNCATED, "ab".into(), 3));
        assert_eq!(filled("aé", 3), (FBL_TRUNCATED, "a".into(), 3));
        assert_eq!(filled("abc", 0), (FBL_TRUNCATED, String::new(), 3));
    }
}
