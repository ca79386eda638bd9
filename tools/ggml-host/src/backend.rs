//! A stream of work on a device.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::rc::Rc;

use llama_cpp_sys_2 as sys;

use crate::logging::capture_errors;
use crate::{Context, Device, Error, Graph, Result, Tensor};

/// A stream of work on one device; clones share it.
#[derive(Clone)]
pub struct Backend(Rc<Stream>);

struct Stream {
    ptr: NonNull<sys::ggml_backend>,
    device: Device,
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { sys::ggml_backend_free(self.ptr.as_ptr()) };
    }
}

impl Backend {
    /// Opens a stream on `device`. A CPU backend works with one thread per processor.
    pub fn open(device: Device) -> Result<Backend> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
        Backend::open_with_threads(device, threads)
    }

    /// Opens a stream on `device`, with that many threads where the backend has threads to set.
    pub fn open_with_threads(device: Device, threads: usize) -> Result<Backend> {
        // SAFETY: the device is valid, and no parameters are passed.
        let ptr = unsafe { sys::ggml_backend_dev_init(device.raw(), std::ptr::null()) };
        let ptr = NonNull::new(ptr).ok_or_else(|| Error::Open(device.name().to_owned()))?;
        let backend = Backend(Rc::new(Stream { ptr, device }));
        // SAFETY: the registry of a device is valid, and a backend that answers to this name gives a function of this type.
        unsafe {
            let reg = sys::ggml_backend_dev_backend_reg(device.raw());
            let address = sys::ggml_backend_reg_get_proc_address(reg, c"ggml_backend_set_n_threads".as_ptr());
            if !address.is_null() {
                type SetThreads = unsafe extern "C" fn(sys::ggml_backend_t, c_int);
                let set_threads = std::mem::transmute::<*mut std::ffi::c_void, SetThreads>(address);
                set_threads(ptr.as_ptr(), threads as c_int);
            }
        }
        Ok(backend)
    }

    /// The device that the stream runs on.
    pub fn device(&self) -> Device {
        self.0.device
    }

    pub(crate) fn raw(&self) -> sys::ggml_backend_t {
        self.0.ptr.as_ptr()
    }

    /// Runs a graph node by node, each as a graph of its own, and shows every computed node to `look`.
    pub fn compute_nodes<'c>(&self, graph: &Graph<'c>, mut look: impl FnMut(Tensor<'c>) -> Result<()>) -> Result<()> {
        for node in graph.nodes().into_iter().filter(|n| !n.is_free()) {
            let scratch = Context::new(0, 1);
            self.compute(&Graph::single(&scratch, node))?;
            look(node)?;
        }
        Ok(())
    }

    /// Runs a graph whose tensors all have memory that this device can use, and waits for it.
    pub fn compute(&self, graph: &Graph<'_>) -> Result<()> {
        for node in graph.nodes() {
            for t in std::iter::once(node).chain(node.sources()) {
                let buffer = t.buffer();
                // SAFETY: the buffer is checked for null first, then valid as long as its context.
                let usable = !buffer.is_null()
                    && unsafe {
                        sys::ggml_backend_supports_buft(self.raw(), sys::ggml_backend_buffer_get_type(buffer))
                    };
                if !usable {
                    return Err(Error::Graph(format!(
                        "{t:?} has no memory that device '{}' can use",
                        self.device().name()
                    )));
                }
            }
            if !node.is_free() && !self.device().supports(node) {
                return Err(Error::Unsupported { device: self.device().name().to_owned(), op: node.describe_op() });
            }
        }
        // SAFETY: every tensor of the graph has memory that the backend can use, and every op is supported.
        check_computed(self.device(), || unsafe { sys::ggml_backend_graph_compute(self.raw(), graph.raw()) })
    }
}

/// Runs a computation and turns its status, with what was logged meanwhile, into a result.
pub(crate) fn check_computed(device: Device, compute: impl FnOnce() -> sys::ggml_status) -> Result<()> {
    let (status, said) = capture_errors(compute);
    let status = match status {
        sys::GGML_STATUS_SUCCESS if said.is_empty() => return Ok(()),
        sys::GGML_STATUS_SUCCESS => "finished with errors",
        sys::GGML_STATUS_ALLOC_FAILED => "ran out of memory",
        sys::GGML_STATUS_ABORTED => "was aborted",
        _ => "failed",
    };
    Err(Error::Compute { device: device.name().to_owned(), status, said })
}
