//! `ggml_backend_buffer_type_i`: one type of buffer per device.

use std::ffi::c_char;
use std::sync::Arc;

use crate::abi::{ggml_backend_buffer, ggml_backend_buffer_type, ggml_backend_buffer_type_i};
use crate::buffer::{self, Buffer};
use crate::device::Device;
use crate::engine::Engine;
use crate::guard::{borrow, guard};

/// Alignment of tensors in a buffer, bytes; addresses name offsets only, so any power of two would do.
const ALIGNMENT: usize = 256;

/// The vtable. Sizes are ggml's own (`get_alloc_size` is absent) and unlimited: padding lives behind the virtual addresses.
pub fn interface<E: Engine>() -> ggml_backend_buffer_type_i {
    ggml_backend_buffer_type_i {
        get_name: Some(get_name::<E>),
        alloc_buffer: Some(alloc_buffer::<E>),
        get_alignment: Some(get_alignment),
        ..ggml_backend_buffer_type_i::default()
    }
}

/// The device of a buffer type.
///
/// # Safety
/// `buft` is null or of this interface.
unsafe fn device<'a, E: Engine>(buft: *const ggml_backend_buffer_type) -> Result<&'a Device<E>, String> {
    // SAFETY: the caller's promise; the context of such a type is its device, which is never freed.
    unsafe { borrow(borrow(buft, "buffer type")?.context.cast::<Device<E>>(), "buffer type context") }
}

unsafe extern "C" fn get_name<E: Engine>(buft: *mut ggml_backend_buffer_type) -> *const c_char {
    guard("buffer type get_name", c"FBLayout".as_ptr(), || {
        // SAFETY: the host passes a type of this interface.
        Ok(unsafe { device::<E>(buft) }?.name().as_ptr())
    })
}

unsafe extern "C" fn alloc_buffer<E: Engine>(
    buft: *mut ggml_backend_buffer_type,
    size: usize,
) -> *mut ggml_backend_buffer {
    guard("alloc_buffer", std::ptr::null_mut(), || {
        // SAFETY: the host passes a type of this interface.
        let device = unsafe { device::<E>(buft) }?;
        let host = device.host();
        let context = Arc::into_raw(Buffer::new(device.engine()?, size, host.nbytes)?);
        // SAFETY: the interface matches the context, which `free_buffer` releases.
        let raw = unsafe { (host.buffer_init)(buft, buffer::interface::<E>(), context.cast_mut().cast(), size) };
        if raw.is_null() {
            // SAFETY: nobody else has the reference that `into_raw` gave.
            drop(unsafe { Arc::from_raw(context) });
            return Err("the host could not allocate a buffer object".into());
        }
        Ok(raw)
    })
}

unsafe extern "C" fn get_alignment(_: *mut ggml_backend_buffer_type) -> usize {
    ALIGNMENT
}
