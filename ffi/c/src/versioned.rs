//! Structs that may grow: the first field says how many bytes the caller's struct has.

use std::ffi::c_void;

use crate::failure::Failure;
use crate::status::FBL_ERR_STRUCT_SIZE;

/// A struct that a caller fills.
///
/// # Safety
/// `repr(C)`, its first field is `struct_size: usize`, and every pattern of bytes is a value of it.
pub unsafe trait Versioned: Copy {
    /// For messages.
    const NAME: &'static str;
    /// Bytes of its first version: all of it, until a field is added, then the offset of the first one added.
    const FIRST: usize;
}

/// The caller's struct: fields beyond its size are zero, which means their defaults.
///
/// # Errors
/// It is smaller than the first version, or has fields that are unknown here and not zero.
///
/// # Safety
/// `pointer` is not NULL; it points to a `usize` and, where that is at least `FIRST`, to so many readable bytes.
pub unsafe fn read<T: Versioned>(pointer: *const T) -> Result<T, Failure> {
    // SAFETY: the caller promises a size at the pointer, aligned or not.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    let refuse = |rule: String| Err(Failure::new(FBL_ERR_STRUCT_SIZE, format!("struct_size of {}: {rule}", T::NAME)));
    if size < T::FIRST {
        return refuse(format!("is {size}, must be at least {}; use FBL_INIT", T::FIRST));
    }
    if size > 1 << 16 {
        return refuse(format!("is {size}, which no version has; use FBL_INIT"));
    }
    let known = size_of::<T>();
    // SAFETY: the caller promises `size` readable bytes.
    let tail = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>().add(known.min(size)), size - known.min(size)) };
    if tail.iter().any(|&byte| byte != 0) {
        return refuse(format!(
            "is {size}: fields beyond the {known} bytes known here are set; the header is newer than the library"
        ));
    }
    // SAFETY: every pattern of bytes is a value; at most `known` bytes are copied, all of them readable.
    unsafe {
        let mut value = std::mem::zeroed::<T>();
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), (&raw mut value).cast::<u8>(), known.min(size));
        Ok(value)
    }
}

/// Gives a caller as much of a struct as its own has room for, and leaves `struct_size` as it is.
///
/// # Errors
/// It is smaller than the first version.
///
/// # Safety
/// As [`read`], and the bytes are writable.
pub unsafe fn write<T: Versioned>(pointer: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: as the caller promises.
    unsafe {
        read(pointer)?;
        let size = pointer.cast::<usize>().read_unaligned().min(size_of::<T>());
        let first = size_of::<usize>();
        std::ptr::copy_nonoverlapping(
            (&raw const *value).cast::<c_void>().byte_add(first),
            pointer.cast::<c_void>().byte_add(first),
            size - first,
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Now {
        struct_size: usize,
        first: u64,
        second: u64,
    }

    // SAFETY: as the trait asks.
    unsafe impl Versioned for Now {
        const NAME: &'static str = "now";
        const FIRST: usize = 16;
    }

    fn read_words(words: &[u64]) -> Result<Now, Failure> {
        // SAFETY: the size names as many words as there are, or too few.
        unsafe { read(words.as_ptr().cast()) }
    }

    #[test]
    fn older_and_newer_callers_are_understood_as_far_as_they_can_be() {
        assert_eq!(read_words(&[16, 7]).unwrap(), Now { struct_size: 16, first: 7, second: 0 });
        assert_eq!(read_words(&[24, 7, 8]).unwrap(), Now { struct_size: 24, first: 7, second: 8 });
        assert_eq!(read_words(&[32, 7, 8, 0]).unwrap().second, 8);
        for (words, rule) in [(&[8, 7][..], "at least 16"), (&[32, 7, 8, 1], "newer"), (&[u64::MAX], "no version")] {
            let failure = read_words(words).unwrap_err();
            assert!(failure.status == FBL_ERR_STRUCT_SIZE && failure.message.contains(rule), "{failure:?}");
        }
    }

    #[test]
    fn a_result_fills_what_the_caller_has_room_for() {
        let (mut old, now) = ([16_u64, 0, 99], Now { struct_size: 0, first: 1, second: 2 });
        // SAFETY: the size is that of the first version.
        unsafe { write(old.as_mut_ptr().cast(), &now) }.unwrap();
        assert_eq!(old, [16, 1, 99]);
    }
}
