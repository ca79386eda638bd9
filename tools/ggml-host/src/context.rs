//! The arena that owns tensors.

use std::cell::RefCell;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::logging::capture_errors;
use crate::{Backend, Device, Error, Result, Tensor, Type, Usage};

/// Owns the descriptions of tensors, the buffers with their bytes, and the schedulers of its graphs.
///
/// Tensors borrow the context, so they cannot outlive it. An op may read tensors of another context only if that one lives
/// at least as long as this borrow, which the shared lifetime of [`Tensor`] handles ensures.
pub struct Context {
    ptr: NonNull<sys::ggml_context>,
    owned: RefCell<Owned>,
}

#[derive(Default)]
struct Owned {
    schedulers: Vec<(sys::ggml_backend_sched_t, Vec<Backend>)>,
    buffers: Vec<sys::ggml_backend_buffer_t>,
}

impl Drop for Context {
    fn drop(&mut self) {
        let owned = self.owned.get_mut();
        // SAFETY: this is the only owner of all of them. Schedulers go before the backends they use, which drop with the
        // list, and everything that points at a tensor before the descriptions.
        unsafe {
            for (scheduler, _) in &owned.schedulers {
                sys::ggml_backend_sched_free(*scheduler);
            }
            for buffer in &owned.buffers {
                sys::ggml_backend_buffer_free(*buffer);
            }
            sys::ggml_free(self.ptr.as_ptr());
        }
    }
}

impl Context {
    /// A context with room for that many tensors, and for graphs of that many nodes altogether (gradients included).
    ///
    /// Running out of room is a mistake in the calling program: ggml aborts.
    pub fn new(tensors: usize, graph_nodes: usize) -> Context {
        // SAFETY: plain computations of sizes.
        let size = unsafe {
            let graph = if graph_nodes > 0 { sys::ggml_graph_overhead_custom(graph_nodes, true) } else { 0 };
            (tensors + 1) * sys::ggml_tensor_overhead() + graph
        };
        let params = sys::ggml_init_params { mem_size: size, mem_buffer: std::ptr::null_mut(), no_alloc: true };
        // SAFETY: ggml allocates the arena itself.
        let ptr = NonNull::new(unsafe { sys::ggml_init(params) }).expect("ggml aborts when it cannot make a context");
        Context { ptr, owned: RefCell::default() }
    }

    pub(crate) fn raw(&self) -> *mut sys::ggml_context {
        self.ptr.as_ptr()
    }

    /// A new tensor of up to four axes, innermost first. It has no memory until [`Context::allocate`].
    ///
    /// The innermost extent must be a multiple of the type's block length.
    pub fn tensor(&self, dtype: Type, extents: &[usize]) -> Tensor<'_> {
        assert!((1..=4).contains(&extents.len()), "a tensor has one to four axes");
        let ne: Vec<i64> = extents.iter().map(|&n| n as i64).collect();
        // SAFETY: the context is valid and `ne` holds as many extents as we say.
        unsafe { Tensor::from_raw(sys::ggml_new_tensor(self.raw(), dtype.0, ne.len() as i32, ne.as_ptr())) }
    }

    /// Every tensor of this context, in order of creation.
    pub fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut all = Vec::new();
        // SAFETY: ggml walks its own list; the context is valid.
        unsafe {
            let mut t = sys::ggml_get_first_tensor(self.raw());
            while !t.is_null() {
                all.push(Tensor::from_raw(t));
                t = sys::ggml_get_next_tensor(self.raw(), t);
            }
        }
        all
    }

    /// Gives memory on `device` to every tensor of this context that has none, views and results of ops included.
    ///
    /// `what` names the tensors in the error. Returns the number of bytes allocated.
    pub fn allocate(&self, device: Device, usage: Usage, what: &str) -> Result<usize> {
        let missing: Vec<_> = self.tensors().into_iter().filter(|t| t.raw().data.is_null()).collect();
        if missing.is_empty() {
            return Ok(0);
        }
        // SAFETY: the context is valid, and the buffer type belongs to a loaded device.
        let (buffer, said) = capture_errors(|| unsafe {
            sys::ggml_backend_alloc_ctx_tensors_from_buft(self.raw(), device.buffer_type())
        });
        if buffer.is_null() {
            let bytes = missing.iter().filter(|t| t.view_of().is_none()).map(|t| t.bytes()).sum();
            return Err(Error::OutOfMemory { device: device.name().to_owned(), what: what.to_owned(), bytes, said });
        }
        let usage = match usage {
            Usage::Any => sys::GGML_BACKEND_BUFFER_USAGE_ANY,
            Usage::Weights => sys::GGML_BACKEND_BUFFER_USAGE_WEIGHTS,
            Usage::Compute => sys::GGML_BACKEND_BUFFER_USAGE_COMPUTE,
        };
        self.owned.borrow_mut().buffers.push(buffer);
        // SAFETY: the buffer was just allocated and is ours.
        unsafe {
            sys::ggml_backend_buffer_set_usage(buffer, usage);
            Ok(sys::ggml_backend_buffer_get_size(buffer))
        }
    }

    /// Fills every byte of the buffers of this context.
    pub fn clear(&self, value: u8) {
        for &buffer in &self.owned.borrow().buffers {
            // SAFETY: the buffers are ours and valid.
            unsafe { sys::ggml_backend_buffer_clear(buffer, value) };
        }
    }

    /// Takes over a scheduler and the backends it uses.
    pub(crate) fn keep(&self, scheduler: sys::ggml_backend_sched_t, backends: Vec<Backend>) {
        self.owned.borrow_mut().schedulers.push((scheduler, backends));
    }
}
