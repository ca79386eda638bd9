//! `ggml_backend_buffer_i`: a virtual buffer. Its addresses name offsets, its bytes are records of a [`Memory`].

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::abi::{USAGE_COMPUTE, ggml_backend_buffer, ggml_backend_buffer_i, ggml_tensor};
use crate::guard::{borrow, guard};
use crate::host::Nbytes;
use crate::memory::{Home, Lifetime, Memory};
use crate::record::{Geometry, Root};
use crate::reservation::Reservation;

/// What stands behind a `ggml_backend_buffer`; its context is one strong reference to this.
pub struct Buffer<H: Home> {
    home: Arc<H>,
    memory: Mutex<Memory<H>>,
    range: Reservation,
    nbytes: Nbytes,
    this: Weak<Self>,
}

impl<H: Home> Buffer<H> {
    /// A buffer of `size` zero bytes whose tensors live in `home`. `nbytes` is the host's `ggml_nbytes`.
    pub fn new(home: Arc<H>, size: usize, nbytes: Nbytes) -> Result<Arc<Self>, String> {
        let range = Reservation::new(size)?;
        let memory = Mutex::new(Memory::new(size));
        Ok(Arc::new_cyclic(|this| Self { home, memory, range, nbytes, this: Weak::clone(this) }))
    }

    /// A reference that ends when the host frees the buffer.
    pub fn weak(&self) -> Weak<Self> {
        Weak::clone(&self.this)
    }

    /// The contents. A panic under the lock cannot leave a record without an owner of its bytes, so poison is ignored.
    pub fn memory(&self) -> MutexGuard<'_, Memory<H>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The root of a tensor in this buffer: the tensor itself, or what it is a view of.
    ///
    /// # Safety
    /// `tensor` is valid and so is its `view_src`.
    pub unsafe fn root(&self, tensor: &ggml_tensor) -> Result<Root, String> {
        // SAFETY: `view_src` is null or valid by the caller's promise.
        let root = unsafe { tensor.view_src.as_ref() }.unwrap_or(tensor);
        // SAFETY: `root` is a valid tensor.
        let nbytes = unsafe { (self.nbytes)(root) };
        let offset = self.range.offset_of(root.data)?;
        Ok(Root { offset, geometry: Geometry { type_id: root.type_, ne: root.ne, nb: root.nb, nbytes } })
    }
}

/// The vtable of buffers whose tensors live in an `H`.
pub fn interface<H: Home + 'static>() -> ggml_backend_buffer_i {
    ggml_backend_buffer_i {
        free_buffer: Some(free_buffer::<H>),
        get_base: Some(get_base::<H>),
        memset_tensor: Some(memset_tensor::<H>),
        set_tensor: Some(set_tensor::<H>),
        get_tensor: Some(get_tensor::<H>),
        cpy_tensor: Some(cpy_tensor::<H>),
        clear: Some(clear::<H>),
        reset: Some(reset::<H>),
        ..ggml_backend_buffer_i::default()
    }
}

/// The buffer behind a context, shared for the length of a call.
///
/// # Safety
/// `buffer` is null, or a valid buffer whose context is null or the `Arc<Buffer<H>>` that [`interface`] belongs to.
pub unsafe fn context<'a, H: Home>(
    buffer: *const ggml_backend_buffer,
) -> Result<(&'a Buffer<H>, &'a ggml_backend_buffer), String> {
    // SAFETY: the caller's promise; the host does not write a buffer object during a call on it.
    let buffer = unsafe { borrow(buffer, "buffer") }?;
    // SAFETY: as above; the context lives until `free_buffer`.
    Ok((unsafe { borrow(buffer.context.cast::<Buffer<H>>(), "buffer context") }?, buffer))
}

/// What happens to partly covered records of this buffer.
pub fn lifetime(buffer: &ggml_backend_buffer) -> Lifetime {
    if buffer.usage == USAGE_COMPUTE { Lifetime::Epoch } else { Lifetime::Persistent }
}

unsafe extern "C" fn free_buffer<H: Home>(buffer: *mut ggml_backend_buffer) {
    guard("free_buffer", (), || {
        // SAFETY: the host passes a buffer of this interface, once.
        let (context, _) = unsafe { context::<H>(buffer) }?;
        // SAFETY: the context came from `Arc::into_raw` and this is its only release.
        drop(unsafe { Arc::from_raw(std::ptr::from_ref(context)) });
        Ok(())
    });
}

unsafe extern "C" fn get_base<H: Home>(buffer: *mut ggml_backend_buffer) -> *mut c_void {
    guard("get_base", std::ptr::null_mut(), || {
        // SAFETY: the host passes a buffer of this interface.
        Ok(unsafe { context::<H>(buffer) }?.0.range.base())
    })
}

/// Runs an access to `size` bytes from `offset` of a tensor with the buffer, the tensor's root and the first byte's place.
///
/// # Safety
/// `buffer` is of this interface; `tensor` is null or a valid tensor placed in it.
unsafe fn access<H: Home>(
    buffer: *const ggml_backend_buffer,
    tensor: *const ggml_tensor,
    offset: usize,
    run: impl FnOnce(&Buffer<H>, Root, Lifetime, usize) -> Result<(), String>,
) -> Result<(), String> {
    // SAFETY: the caller's promise.
    let (context, raw) = unsafe { context::<H>(buffer) }?;
    // SAFETY: the caller's promise.
    let tensor = unsafe { borrow(tensor, "tensor") }?;
    // SAFETY: a valid tensor has a valid root.
    let root = unsafe { context.root(tensor) }?;
    let start = context.range.offset_of(tensor.data)?.saturating_add(offset);
    run(context, root, lifetime(raw), start)
}

unsafe extern "C" fn memset_tensor<H: Home>(
    buffer: *mut ggml_backend_buffer,
    tensor: *mut ggml_tensor,
    value: u8,
    offset: usize,
    size: usize,
) {
    guard("memset_tensor", (), || {
        // SAFETY: the host passes a tensor of a buffer of this interface.
        unsafe {
            access::<H>(buffer, tensor, offset, |buffer, root, lifetime, start| {
                let filled = buffer.memory().fill(&buffer.home, &root, lifetime, start, size, value);
                filled.map_err(|error| error.to_string())
            })
        }
    });
}

unsafe extern "C" fn set_tensor<H: Home>(
    buffer: *mut ggml_backend_buffer,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    guard("set_tensor", (), || {
        if size == 0 {
            return Ok(());
        }
        // SAFETY: the host passes `size` readable bytes, or null, which `borrow` turns down.
        let data = unsafe { std::slice::from_raw_parts(borrow(data.cast::<u8>(), "data")?, size) };
        // SAFETY: the host passes a tensor of a buffer of this interface.
        unsafe {
            access::<H>(buffer, tensor, offset, |buffer, root, lifetime, start| {
                let written = buffer.memory().write(&buffer.home, &root, lifetime, start, data);
                written.map_err(|error| error.to_string())
            })
        }
    });
}

unsafe extern "C" fn get_tensor<H: Home>(
    buffer: *mut ggml_backend_buffer,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    guard("get_tensor", (), || {
        if size == 0 {
            return Ok(());
        }
        if data.is_null() {
            return Err("data is null".into());
        }
        // SAFETY: the host passes `size` writable bytes; zeroing them first makes them initialized, and is what a failed read
        // leaves, since the host has no way to be told.
        let out = unsafe {
            std::ptr::write_bytes(data.cast::<u8>(), 0, size);
            std::slice::from_raw_parts_mut(data.cast::<u8>(), size)
        };
        // SAFETY: the host passes a tensor of a buffer of this interface.
        unsafe {
            access::<H>(buffer, tensor, offset, |buffer, _, _, start| {
                buffer.memory().read(&buffer.home, start, out).map_err(|error| error.to_string())
            })
        }
    });
}

/// The buffer that a tensor's root is in, if it is one of ours: of a device of the same registry as `buffer`'s.
///
/// # Safety
/// `tensor` and `buffer` are valid, with what they refer to.
unsafe fn kin(tensor: &ggml_tensor, buffer: &ggml_backend_buffer) -> Option<*const ggml_backend_buffer> {
    // SAFETY: the caller's promise; every pointer is null or valid, and devices of other backends have a registry or none.
    unsafe {
        let registry = |buffer: &ggml_backend_buffer| Some(buffer.buft.as_ref()?.device.as_ref()?.reg);
        let root = tensor.view_src.as_ref().unwrap_or(tensor);
        let source = root.buffer.as_ref().filter(|source| !source.context.is_null())?;
        let same = registry(source).is_some_and(|reg| !reg.is_null() && Some(reg) == registry(buffer));
        same.then(|| std::ptr::from_ref(source))
    }
}

/// Copies between buffers of our devices, through the host: their memories have nothing else in common.
unsafe extern "C" fn cpy_tensor<H: Home>(
    buffer: *mut ggml_backend_buffer,
    source: *const ggml_tensor,
    target: *mut ggml_tensor,
) -> bool {
    guard("cpy_tensor", false, || {
        // SAFETY: the host passes valid tensors, and a buffer of this interface that `target` is in.
        let (from, into) = unsafe { (borrow(source, "source tensor")?, borrow(target.cast_const(), "target tensor")?) };
        // SAFETY: as above.
        let (context, raw) = unsafe { context::<H>(buffer) }?;
        // SAFETY: valid tensors have valid roots in valid buffers.
        let Some(source_buffer) = (unsafe { kin(from, raw) }) else { return Ok(false) };
        // SAFETY: the tensors are valid.
        let (size, room) = unsafe { ((context.nbytes)(from), (context.nbytes)(into)) };
        if size != room {
            return Err(format!("a tensor of {size} bytes does not fit one of {room}"));
        }
        let mut bytes = vec![0; size];
        // SAFETY: buffers of one registry have one interface; one lock is held at a time, for both may be the same buffer.
        unsafe {
            access::<H>(source_buffer, source, 0, |buffer, _, _, start| {
                buffer.memory().read(&buffer.home, start, &mut bytes).map_err(|error| error.to_string())
            })?;
            access::<H>(buffer, target, 0, |buffer, root, lifetime, start| {
                let written = buffer.memory().write(&buffer.home, &root, lifetime, start, &bytes);
                written.map_err(|error| error.to_string())
            })?;
        }
        Ok(true)
    })
}

unsafe extern "C" fn clear<H: Home>(buffer: *mut ggml_backend_buffer, value: u8) {
    guard("clear", (), || {
        // SAFETY: the host passes a buffer of this interface.
        unsafe { context::<H>(buffer) }?.0.memory().clear(value);
        Ok(())
    });
}

unsafe extern "C" fn reset<H: Home>(buffer: *mut ggml_backend_buffer) {
    guard("reset", (), || {
        // SAFETY: the host passes a buffer of this interface.
        let (context, raw) = unsafe { context::<H>(buffer) }?;
        if lifetime(raw) == Lifetime::Epoch {
            context.memory().reset();
        }
        Ok(())
    });
}
