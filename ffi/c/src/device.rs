//! The devices of the machine, before one is opened.

use std::ffi::c_char;

use fblayout::vulkan::{self, AdapterInfo, AdapterKind};

use crate::failure::Failure;
use crate::guard::{call, out};
use crate::status::{FBL_ERR_NULL, FBL_OK, fbl_status};
use crate::text::Room;
use crate::versioned::{self, Versioned};

/// A GPU with memory of its own.
pub const FBL_DEVICE_DISCRETE: u32 = 1;
/// A GPU that shares the host's memory.
pub const FBL_DEVICE_INTEGRATED: u32 = 2;
/// A GPU seen through a hypervisor.
pub const FBL_DEVICE_VIRTUAL: u32 = 3;
/// A driver that computes on the CPU.
pub const FBL_DEVICE_CPU: u32 = 4;
/// Something else.
pub const FBL_DEVICE_OTHER: u32 = 5;

/// What a device says of itself.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_device_info {
    /// sizeof this struct, set by the caller: FBL_INIT.
    pub struct_size: usize,
    /// Bytes of its largest heap.
    pub memory_bytes: u64,
    /// One of FBL_DEVICE_*.
    pub kind: u32,
    /// Its place in the list, which `fbl_engine_options` takes.
    pub index: u32,
    /// Name, UTF-8, cut to what fits.
    pub name: [c_char; 256],
    /// Name and version of the driver, the same.
    pub driver: [c_char; 256],
}

// SAFETY: numbers and bytes behind a size.
unsafe impl Versioned for fbl_device_info {
    const NAME: &'static str = "fbl_device_info";
    const FIRST: usize = size_of::<Self>();
}

fn find(index: u32) -> Result<AdapterInfo, Failure> {
    let mut adapters = vulkan::adapters()?;
    let count = adapters.len();
    if index as usize >= count {
        return Err(Failure::argument(format!("device {index} is none of the {count} devices")));
    }
    Ok(adapters.swap_remove(index as usize))
}

/// Number of devices that can be opened: Vulkan 1.1 and compute; real GPUs come before drivers of the CPU.
///
/// Any thread.
///
/// Errors: FBL_ERR_DEVICE where there is no loader or no device.
///
/// # Safety
/// `count` points to a uint32_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_device_count(count: *mut u32) -> fbl_status {
    call("fbl_device_count", || {
        // SAFETY: this function's contract.
        let count = unsafe { out(count, "count") }?;
        count.set(u32::try_from(vulkan::adapters()?.len()).unwrap_or(u32::MAX));
        Ok(FBL_OK)
    })
}

/// What the device with this index is.
///
/// Any thread.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where there is no such device, FBL_ERR_STRUCT_SIZE, FBL_ERR_DEVICE.
///
/// # Safety
/// `info` points to a struct of `info->struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_device_get(index: u32, info: *mut fbl_device_info) -> fbl_status {
    call("fbl_device_get", || {
        if info.is_null() {
            return Err(Failure::new(FBL_ERR_NULL, "info is NULL"));
        }
        // SAFETY: not NULL; this function's contract.
        let mut told = unsafe { versioned::read(info) }?;
        let found = find(index)?;
        told.memory_bytes = found.memory;
        told.index = index;
        told.kind = match found.kind {
            AdapterKind::Discrete => FBL_DEVICE_DISCRETE,
            AdapterKind::Integrated => FBL_DEVICE_INTEGRATED,
            AdapterKind::Virtual => FBL_DEVICE_VIRTUAL,
            AdapterKind::Cpu => FBL_DEVICE_CPU,
            AdapterKind::Other => FBL_DEVICE_OTHER,
        };
        for (text, place) in [(&found.name, &mut told.name), (&found.driver, &mut told.driver)] {
            let room = Room { buffer: place.as_mut_ptr(), capacity: place.len(), length: std::ptr::null_mut() };
            // SAFETY: the room is the field.
            unsafe { room.fill(text) };
        }
        // SAFETY: as for the reading above.
        unsafe { versioned::write(info, &told) }?;
        Ok(FBL_OK)
    })
}

/// Limits of a device as a JSON object, as an engine without a clamp has them: sizes in bytes, images in texels of 16 bytes, its matrix
/// units. Text convention: see `fbl_error_message`.
///
/// Any thread.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where there is no such device, FBL_ERR_DEVICE.
///
/// # Safety
/// `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_device_limits(
    index: u32,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    call("fbl_device_limits", || {
        let text = crate::text::json(&find(index)?.limits)?;
        // SAFETY: this function's contract.
        Ok(unsafe { Room { buffer, capacity, length }.fill(&text) })
    })
}
