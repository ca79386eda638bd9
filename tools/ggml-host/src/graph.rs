//! Graphs and autodiff.

use std::ffi::c_int;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::{Context, Error, Result, Tensor};

/// A list of tensors to compute, in an order that respects their operands.
pub struct Graph<'c> {
    ptr: NonNull<sys::ggml_cgraph>,
    context: &'c Context,
}

impl<'c> Graph<'c> {
    /// An empty graph with room for that many nodes and leafs, gradients included.
    pub fn new(context: &'c Context, nodes: usize) -> Graph<'c> {
        // SAFETY: the context is valid; ggml aborts when the arena is full.
        let ptr = unsafe { sys::ggml_new_graph_custom(context.raw(), nodes, true) };
        Graph { ptr: NonNull::new(ptr).expect("ggml returned a graph"), context }
    }

    /// A graph of one node whose operands hold their values already.
    pub(crate) fn single(context: &'c Context, node: Tensor<'c>) -> Graph<'c> {
        let graph = Graph::new(context, 1);
        // SAFETY: the graph has room for one node, which outlives 'c.
        unsafe { sys::ggml_graph_add_node(graph.raw(), node.ptr.as_ptr()) };
        graph
    }

    pub(crate) fn raw(&self) -> *mut sys::ggml_cgraph {
        self.ptr.as_ptr()
    }

    pub(crate) fn context(&self) -> &'c Context {
        self.context
    }

    /// Appends `result` and everything it needs that is not in the graph yet.
    pub fn expand(&mut self, result: Tensor<'c>) {
        // SAFETY: the graph and the tensor are valid; all operands outlive 'c.
        unsafe { sys::ggml_build_forward_expand(self.raw(), result.ptr.as_ptr()) };
    }

    /// Appends the backward pass of the one loss in the graph, for the parameters in it.
    ///
    /// `seed` is a persistent tensor of the loss's shape that holds the gradient of the loss (usually 1.0); it is only read.
    /// Given as the loss's accumulator, it keeps ggml from putting that constant into memory which the graph reuses.
    pub fn backward(&mut self, loss: Tensor<'c>, seed: Tensor<'c>) -> Result<()> {
        let nodes = self.nodes();
        if !nodes.contains(&loss) {
            return Err(Error::Graph(format!("the loss {loss:?} is not in the graph")));
        }
        let mut accumulators: Vec<*mut sys::ggml_tensor> =
            nodes.iter().map(|&n| if n == loss { seed.ptr.as_ptr() } else { std::ptr::null_mut() }).collect();
        // SAFETY: one entry per node, as ggml wants; the seed outlives 'c.
        unsafe { sys::ggml_build_backward_expand(self.context.raw(), self.raw(), accumulators.as_mut_ptr()) };
        Ok(())
    }

    /// The gradient that [`Graph::backward`] made for a tensor of the graph.
    pub fn gradient(&self, of: Tensor<'c>) -> Option<Tensor<'c>> {
        // SAFETY: the graph is valid; gradients live in the graph's context.
        let gradient = unsafe { sys::ggml_graph_get_grad(self.raw(), of.ptr.as_ptr()) };
        // SAFETY: as above.
        (!gradient.is_null()).then(|| unsafe { Tensor::from_raw(gradient) })
    }

    /// The nodes in order.
    pub fn nodes(&self) -> Vec<Tensor<'c>> {
        // SAFETY: indices are below the count; nodes outlive 'c.
        unsafe {
            let n: c_int = sys::ggml_graph_n_nodes(self.raw());
            (0..n).map(|i| Tensor::from_raw(sys::ggml_graph_node(self.raw(), i))).collect()
        }
    }
}

impl Tensor<'_> {
    /// The op with types and shapes, such as `MUL_MAT f32[576,96] <- q4_1[576,576], f32[576,96]`; `T` marks a transposed
    /// operand, `P` any other one that is not contiguous.
    pub fn describe_op(&self) -> String {
        let shape = |t: &Tensor<'_>| {
            let ne = t.extents();
            let axes = ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
            let extents: Vec<String> = ne[..axes].iter().map(usize::to_string).collect();
            let nb = t.strides();
            let mark = if t.is_contiguous() {
                ""
            } else if nb[0] > nb[1] {
                ":T"
            } else {
                ":P"
            };
            format!("{}[{}]{mark}", t.dtype(), extents.join(","))
        };
        let sources: Vec<String> = self.sources().iter().map(shape).collect();
        format!("{} {} <- {}", self.op(), shape(self), sources.join(", "))
    }
}
