//! A graph placed on backends by ggml's scheduler, ready to run again and again.

use std::collections::HashSet;
use std::ffi::c_int;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::backend::check_computed;
use crate::logging::capture_errors;
use crate::{Backend, Device, DeviceKind, Error, Graph, Result, Tensor};

/// An allocated graph. Its memory belongs to the graph's context, so results stay readable while that lives.
pub struct Plan<'c> {
    scheduler: NonNull<sys::ggml_backend_sched>,
    graph: Graph<'c>,
    device: Device,
}

impl<'c> Plan<'c> {
    /// Places `graph` on `backends`, the preferred one first; the last one must be a CPU backend.
    ///
    /// An op that the first device refuses goes to the CPU. Where that cannot work, because the result has to lie in the
    /// device's memory or the CPU refuses as well, the error names the op.
    pub fn new(backends: &[Backend], graph: Graph<'c>) -> Result<Plan<'c>> {
        let (Some(first), Some(last)) = (backends.first(), backends.last()) else {
            return Err(Error::Graph("no backend to run on".to_owned()));
        };
        if last.device().kind() != DeviceKind::Cpu {
            return Err(Error::Graph(format!("the last backend must be a CPU, not '{}'", last.device().name())));
        }
        let nodes = graph.nodes();
        check_owners(&graph, &nodes)?;
        for &node in nodes.iter().filter(|n| !n.is_free()) {
            let placed = !node.buffer().is_null();
            let refused =
                |device: Device| Error::Unsupported { device: device.name().to_owned(), op: node.describe_op() };
            if !first.device().supports(node) && (placed || !last.device().supports(node)) {
                return Err(refused(first.device()));
            }
        }
        let mut raw: Vec<_> = backends.iter().map(Backend::raw).collect();
        // SAFETY: the backends are valid and kept by the context; default buffer types are asked for with null.
        let scheduler = unsafe {
            let size = nodes.len().max(1) * 2;
            sys::ggml_backend_sched_new(raw.as_mut_ptr(), std::ptr::null_mut(), raw.len() as c_int, size, false, false)
        };
        let scheduler = NonNull::new(scheduler).ok_or_else(|| Error::Graph("no scheduler".to_owned()))?;
        graph.context().keep(scheduler.as_ptr(), backends.to_vec());
        // SAFETY: scheduler and graph are valid, and the context keeps both while the tensors can be reached.
        let allocate = || unsafe { sys::ggml_backend_sched_alloc_graph(scheduler.as_ptr(), graph.raw()) };
        let (allocated, said) = capture_errors(allocate);
        if !allocated {
            let device = first.device().name().to_owned();
            let bytes = nodes.iter().filter(|n| n.buffer().is_null()).map(Tensor::bytes).max().unwrap_or(0);
            return Err(Error::OutOfMemory {
                device,
                what: "the graph's largest tensor alone".to_owned(),
                bytes,
                said,
            });
        }
        Ok(Plan { scheduler, graph, device: first.device() })
    }

    /// Runs the graph and waits for it.
    pub fn compute(&mut self) -> Result<()> {
        // SAFETY: the graph is allocated in this scheduler.
        check_computed(self.device, || unsafe {
            sys::ggml_backend_sched_graph_compute(self.scheduler.as_ptr(), self.graph.raw())
        })
    }

    /// The graph.
    pub fn graph(&self) -> &Graph<'c> {
        &self.graph
    }

    /// Number of pieces into which the graph was cut; 1 when one backend runs it all.
    pub fn splits(&self) -> usize {
        // SAFETY: the scheduler is valid.
        unsafe { sys::ggml_backend_sched_get_n_splits(self.scheduler.as_ptr()) as usize }
    }

    /// The nodes that another backend than `preferred` computes.
    pub fn nodes_elsewhere(&self, preferred: &Backend) -> Vec<Tensor<'c>> {
        let elsewhere = |n: &Tensor<'c>| {
            // SAFETY: scheduler and tensor are valid.
            let at = unsafe { sys::ggml_backend_sched_get_tensor_backend(self.scheduler.as_ptr(), n.ptr.as_ptr()) };
            !n.is_free() && at != preferred.raw()
        };
        self.graph.nodes().into_iter().filter(elsewhere).collect()
    }

    /// Bytes of compute memory on a backend of this plan.
    pub fn compute_bytes(&self, backend: &Backend) -> usize {
        // SAFETY: the scheduler is valid; ggml asserts that it knows the backend.
        unsafe { sys::ggml_backend_sched_get_buffer_size(self.scheduler.as_ptr(), backend.raw()) }
    }
}

/// The scheduler gives memory to whatever lacks it, and that memory goes with the graph's context: a tensor that outlives
/// this context would be left without.
fn check_owners(graph: &Graph<'_>, nodes: &[Tensor<'_>]) -> Result<()> {
    let own: HashSet<_> = graph.context().tensors().iter().map(|t| t.ptr).collect();
    let operands = nodes.iter().flat_map(|n| n.sources());
    match operands.into_iter().find(|t| t.buffer().is_null() && !own.contains(&t.ptr)) {
        Some(t) => Err(Error::Graph(format!("{t:?} belongs to another context and has no memory"))),
        None => Ok(()),
    }
}
