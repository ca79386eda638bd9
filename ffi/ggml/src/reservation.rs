//! Addresses without memory: the base of a virtual buffer.

use std::ffi::c_void;

/// A range of addresses that no other allocation has and that faults when touched.
#[derive(Debug)]
pub struct Reservation {
    base: *mut c_void,
    size: usize,
}

// SAFETY: the range is only ever named, never dereferenced; unmapping may happen on any thread.
unsafe impl Send for Reservation {}
// SAFETY: as above; a shared reference gives out the address alone.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Reserves `size` bytes of address space, aligned to a page.
    pub fn new(size: usize) -> Result<Self, String> {
        // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(format!("no address space for a buffer of {size} bytes: {error}"));
        }
        Ok(Self { base, size })
    }

    /// First address.
    pub fn base(&self) -> *mut c_void {
        self.base
    }

    /// Bytes from the base to `address`; an address below the base is an error, one above is the caller's to check.
    pub fn offset_of(&self, address: *const c_void) -> Result<usize, String> {
        (address as usize)
            .checked_sub(self.base as usize)
            .ok_or_else(|| format!("address {address:?} is below the buffer's base {:?}", self.base))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new` with this size and is unmapped once.
        unsafe { libc::munmap(self.base, self.size) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_distinct_and_aligned() {
        let (a, b) = (Reservation::new(1 << 40).expect("address space"), Reservation::new(1).expect("address space"));
        assert!([&a, &b].iter().all(|range| (range.base() as usize).is_multiple_of(4096)));
        assert!(a.offset_of(b.base()).map_or(true, |offset| offset >= 1 << 40));
    }

    #[test]
    fn too_much_is_an_error() {
        assert!(Reservation::new(usize::MAX / 2).is_err());
    }
}
