//! What a case is built from. The same steps build it for the device, for the reference, and for the magnitudes of sums.

use std::cell::RefCell;

use anyhow::Result;
use ggml_host::{Context, Device, Graph, Tensor, Type, Usage};

use super::bound::Bound;
use super::values::{Rng, Window, decode, encode};

/// Elements of the tensors that stand around every other one.
const SENTINEL: usize = 7;

/// For whom a case is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The device under test: types and views as the case says.
    Device,
    /// The CPU: views are dense, and weights are F32 values of the same bytes, since the CPU would round what they are multiplied with.
    Reference,
    /// The reference on the magnitudes of all inputs, for the bounds of sums.
    Magnitude,
}

/// How an input lies in its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// It is the root.
    Dense,
    /// Axis `i` of the root is axis `axes[i]`.
    Permuted([usize; 4]),
    /// A box within a larger root, from the second block, row and plane on.
    Sliced,
    /// Every other row, from the second on.
    Strided,
    /// Every third element, from the second on; of up to three axes.
    Comb,
    /// Boxes of [`View::Sliced`] under exchanged first axes.
    SlicedTransposed,
}

impl View {
    /// The first two axes exchanged.
    pub const TRANSPOSED: View = View::Permuted([1, 0, 2, 3]);
    /// The middle axes exchanged, as attention does.
    pub const HEADS: View = View::Permuted([0, 2, 1, 3]);
    /// All axes elsewhere.
    pub const TURNED: View = View::Permuted([2, 3, 1, 0]);

    /// How names of cases call it.
    pub fn name(self) -> &'static str {
        match self {
            View::Dense => "dense",
            View::Permuted([1, 0, 2, 3]) => "transposed",
            View::Permuted([0, 2, 1, 3]) => "heads",
            View::Permuted(_) => "turned",
            View::Sliced => "sliced",
            View::Strided => "strided",
            View::Comb => "comb",
            View::SlicedTransposed => "sliced-transposed",
        }
    }

    /// A root in which a window of these extents lies so, and the window.
    fn place<'c>(self, context: &'c Context, dtype: Type, extents: [usize; 4]) -> (Tensor<'c>, Tensor<'c>) {
        let [x, y, z, w] = extents;
        let block = dtype.block_len();
        match self {
            View::Dense => {
                let root = context.tensor(dtype, &extents);
                (root, root)
            }
            View::Permuted(axes) => {
                let root = context.tensor(dtype, &axes.map(|axis| extents[axis]));
                (root, context.permute(root, axes))
            }
            View::Sliced => {
                let root = context.tensor(dtype, &[x + 3 * block, y + 2, z + 1, w]);
                let [a, b, c, d] = root.strides();
                (root, context.view(root, extents, [b, c, d], a + b + c))
            }
            View::Strided => {
                let root = context.tensor(dtype, &[x, 2 * y, z, w]);
                let [_, b, c, d] = root.strides();
                (root, context.view(root, extents, [2 * b, c, d], b))
            }
            View::Comb => {
                assert_eq!(w, 1, "a comb has three axes at most");
                let root = context.tensor(dtype, &[3, x, y, z]);
                let [a, b, c, d] = root.strides();
                (root, context.permute(context.view(root, [1, x, y, z], [b, c, d], a), [3, 0, 1, 2]))
            }
            View::SlicedTransposed => {
                let (root, window) = View::Sliced.place(context, dtype, [y, x, z, w]);
                (root, context.transpose(window))
            }
        }
    }
}

/// An input: what its root holds before the case runs.
pub struct Leaf<'c> {
    /// The root.
    pub root: Tensor<'c>,
    /// All of its bytes.
    pub bytes: Vec<u8>,
}

/// A tensor that is compared.
#[derive(Clone, Copy)]
pub struct Mark<'c> {
    /// The tensor: a node, or an input that some node updates.
    pub tensor: Tensor<'c>,
    /// How far it may be off when its node alone ran on the reference's values.
    pub bound: Bound,
    /// How far it may be off when all of the graph ran; nodes without one are not read then.
    pub whole: Option<Bound>,
}

/// One side of a case while it is built and run.
pub struct Kit<'c> {
    side: Side,
    data: &'c Context,
    work: &'c Context,
    rng: RefCell<Rng>,
    leaves: RefCell<Vec<Leaf<'c>>>,
    nodes: RefCell<Vec<Mark<'c>>>,
    updated: RefCell<Vec<Mark<'c>>>,
    sentinels: RefCell<Vec<Tensor<'c>>>,
    trained: RefCell<Option<Trained<'c>>>,
}

/// A loss from which a graph goes backward.
#[derive(Clone, Copy)]
struct Trained<'c> {
    loss: Tensor<'c>,
    seed: Tensor<'c>,
    bound: Bound,
}

impl<'c> Kit<'c> {
    /// A kit whose inputs are described in `data` and whose results in `work`.
    pub fn new(side: Side, name: &str, data: &'c Context, work: &'c Context) -> Kit<'c> {
        let rng = RefCell::new(Rng::of(name));
        let (leaves, nodes, updated) = (RefCell::default(), RefCell::default(), RefCell::default());
        let kit = Kit {
            side,
            data,
            work,
            rng,
            leaves,
            nodes,
            updated,
            sentinels: RefCell::default(),
            trained: RefCell::default(),
        };
        kit.guard(data);
        kit.guard(work);
        kit
    }

    /// The builders of results.
    pub fn ops(&self) -> &'c Context {
        self.work
    }

    fn guard(&self, context: &'c Context) {
        self.sentinels.borrow_mut().push(context.tensor(Type::F32, &[SENTINEL]));
    }

    /// That many values in `low..high`.
    pub fn values(&self, count: usize, low: f32, high: f32) -> Vec<f32> {
        let mut rng = self.rng.borrow_mut();
        (0..count).map(|_| rng.float(low, high)).collect()
    }

    /// Whole numbers below `n`.
    pub fn indices(&self, count: usize, n: usize) -> Vec<f32> {
        let mut rng = self.rng.borrow_mut();
        (0..count).map(|_| rng.below(n) as f32).collect()
    }

    /// The first `count` of the numbers below `n` in some order.
    pub fn distinct(&self, count: usize, n: usize) -> Vec<f32> {
        self.rng.borrow_mut().shuffled(n).into_iter().take(count).map(|i| i as f32).collect()
    }

    /// An F32 input in -1..1.
    pub fn f32(&self, extents: &[usize], view: View) -> Tensor<'c> {
        self.floats(Type::F32, extents, view)
    }

    /// An input in -1..1, of the same type on every side.
    pub fn floats(&self, dtype: Type, extents: &[usize], view: View) -> Tensor<'c> {
        let values = self.values(extents.iter().product(), -1.0, 1.0);
        self.input(dtype, extents, view, values)
    }

    /// A weight in -1..1: the reference has its decoded values in F32.
    pub fn weight(&self, dtype: Type, extents: &[usize], view: View) -> Tensor<'c> {
        let values = self.values(extents.iter().product(), -1.0, 1.0);
        self.constants(dtype, extents, view, values)
    }

    /// A weight of these values.
    pub fn constants(&self, dtype: Type, extents: &[usize], view: View, values: Vec<f32>) -> Tensor<'c> {
        self.leaf(dtype, extents, view, values, true)
    }

    /// An input of these values, of the same type on every side.
    pub fn input(&self, dtype: Type, extents: &[usize], view: View, values: Vec<f32>) -> Tensor<'c> {
        self.leaf(dtype, extents, view, values, false)
    }

    fn leaf(&self, dtype: Type, extents: &[usize], view: View, values: Vec<f32>, decoded: bool) -> Tensor<'c> {
        let mut ne = [1; 4];
        ne[..extents.len()].copy_from_slice(extents);
        let packed = encode(dtype, ne[0], &values).expect("cases use types that the engine can write");
        let plain = |values: &[f32], dtype| encode(dtype, ne[0], values).expect("the type was written before");
        let (dtype, packed) = match self.side {
            Side::Device => (dtype, packed),
            Side::Reference if !decoded => (dtype, packed),
            Side::Reference => {
                let values = decode(dtype, &packed).expect("what was written can be read");
                (Type::F32, plain(&values, Type::F32))
            }
            Side::Magnitude => {
                let values = decode(dtype, &packed).expect("what was written can be read");
                let sizes: Vec<f32> = values.iter().map(|v| v.abs()).collect();
                let dtype = if decoded { Type::F32 } else { dtype };
                (dtype, plain(&sizes, dtype))
            }
        };
        let view = if self.side == Side::Device { view } else { View::Dense };
        let (root, window) = view.place(self.data, dtype, ne);
        self.guard(self.data);
        // What lies around the window is a pattern that no result has.
        let mut bytes: Vec<u8> = (0..root.bytes()).map(|i| 0x51 ^ (i % 7) as u8).collect();
        window_of(window).scatter(&packed, &mut bytes);
        self.leaves.borrow_mut().push(Leaf { root, bytes });
        window
    }

    /// The same elements as a matrix for the reference, where ggml's CPU op goes wrong on more axes than two.
    pub fn matrix_for_reference(&self, x: Tensor<'c>) -> Tensor<'c> {
        let [row, ..] = x.extents();
        if self.side == Side::Device { x } else { self.work.reshape(x, [row, x.len() / row, 1, 1]) }
    }

    /// A node that is compared after it alone ran, and after all did.
    pub fn result(&self, node: Tensor<'c>, bound: Bound) -> Tensor<'c> {
        self.mark(node.mark_output(), bound, Some(bound))
    }

    /// A node within a graph, which is compared after it alone ran.
    pub fn step(&self, node: Tensor<'c>, bound: Bound) -> Tensor<'c> {
        self.mark(node, bound, None)
    }

    /// A result of a graph, with the bound of all that leads to it.
    pub fn end(&self, node: Tensor<'c>, bound: Bound, whole: Bound) -> Tensor<'c> {
        self.mark(node.mark_output(), bound, Some(whole))
    }

    fn mark(&self, tensor: Tensor<'c>, bound: Bound, whole: Option<Bound>) -> Tensor<'c> {
        self.guard(self.work);
        self.nodes.borrow_mut().push(Mark { tensor, bound, whole });
        tensor
    }

    /// An input that a node updates without being it, as the moments of an optimizer.
    pub fn updates(&self, input: Tensor<'c>, bound: Bound) {
        self.updated.borrow_mut().push(Mark { tensor: input, bound, whole: Some(bound) });
    }

    /// The nodes that are compared, in the order in which they were built.
    pub fn nodes(&self) -> Vec<Mark<'c>> {
        self.nodes.borrow().clone()
    }

    /// Inputs that nodes update.
    pub fn updated(&self) -> Vec<Mark<'c>> {
        self.updated.borrow().clone()
    }

    /// Adds the backward pass from a loss, whose gradient is 1: every node of it is compared by itself, and of the whole graph the gradients
    /// of the inputs that are marked as parameters.
    pub fn train(&self, loss: Tensor<'c>, bound: Bound) {
        let seed = self.input(Type::F32, &[1], View::Dense, vec![1.0]);
        *self.trained.borrow_mut() = Some(Trained { loss: loss.mark_loss(), seed, bound });
    }

    /// The graph of all nodes; to be made once, before [`Kit::fill`].
    pub fn graph(&self) -> Result<Graph<'c>> {
        let nodes = self.nodes();
        let mut graph = Graph::new(self.work, 8 * nodes.len() + 256);
        for node in &nodes {
            graph.expand(node.tensor);
        }
        if let Some(Trained { loss, seed, bound }) = *self.trained.borrow() {
            let forward = graph.nodes().len();
            graph.backward(loss, seed)?;
            let gradients: Vec<_> = self.parameters().filter_map(|leaf| graph.gradient(leaf)).collect();
            anyhow::ensure!(!gradients.is_empty(), "no parameter has a gradient");
            for node in graph.nodes().into_iter().skip(forward).filter(|node| !node.is_free()) {
                let end = gradients.contains(&node);
                let tensor = if end { node.mark_output() } else { node };
                self.nodes.borrow_mut().push(Mark { tensor, bound, whole: end.then_some(bound) });
            }
        }
        Ok(graph)
    }

    fn parameters(&self) -> impl Iterator<Item = Tensor<'c>> {
        let roots: Vec<_> = self.leaves.borrow().iter().map(|leaf| leaf.root).collect();
        roots.into_iter().filter(|root| root.is_param())
    }

    /// Gives everything memory on a device and fills it.
    pub fn allocate(&self, device: Device, usage: Usage) -> Result<()> {
        self.data.allocate(device, Usage::Any, "inputs")?;
        self.work.allocate(device, usage, "results")?;
        self.fill()
    }

    /// Gives inputs alone memory on a device, for a scheduler to place the results.
    pub fn allocate_inputs(&self, device: Device) -> Result<()> {
        self.data.allocate(device, Usage::Any, "inputs")?;
        self.fill()
    }

    /// Fills what has memory: inputs with their values, results with NaN, sentinels with their pattern.
    pub fn fill(&self) -> Result<()> {
        self.work.clear(0xff);
        for leaf in self.leaves.borrow().iter() {
            leaf.root.set_bytes(0, &leaf.bytes)?;
        }
        for sentinel in self.placed_sentinels() {
            sentinel.set_f32(&pattern())?;
        }
        Ok(())
    }

    fn placed_sentinels(&self) -> Vec<Tensor<'c>> {
        self.sentinels.borrow().iter().copied().filter(Tensor::has_memory).collect()
    }

    /// Checks that the sentinels, and of the inputs all that no node writes, are as they were filled.
    pub fn check_untouched(&self) -> Result<()> {
        for (at, sentinel) in self.placed_sentinels().into_iter().enumerate() {
            let got = sentinel.get_f32()?;
            let same = got.iter().zip(pattern()).all(|(g, p)| g.to_bits() == p.to_bits());
            anyhow::ensure!(same, "sentinel {at} holds {got:?}");
        }
        let nodes = self.nodes.borrow();
        let updated = self.updated.borrow();
        for (at, leaf) in self.leaves.borrow().iter().enumerate() {
            let mut written = vec![false; leaf.bytes.len()];
            for mark in nodes.iter().chain(updated.iter()) {
                if root_of(mark.tensor) == leaf.root {
                    window_of(mark.tensor).cover(&mut written);
                }
            }
            let got = bytes_of(leaf.root)?;
            let changed = (0..got.len()).find(|&i| !written[i] && got[i] != leaf.bytes[i]);
            if let Some(byte) = changed {
                anyhow::bail!("byte {byte} of input {at} changed, which nothing writes");
            }
        }
        Ok(())
    }
}

fn pattern() -> [f32; SENTINEL] {
    std::array::from_fn(|i| 1234.5 + i as f32)
}

/// The tensor whose memory a view shares, or the tensor.
pub fn root_of(tensor: Tensor<'_>) -> Tensor<'_> {
    tensor.view_of().unwrap_or(tensor)
}

/// Where a tensor's elements are in its root.
pub fn window_of(tensor: Tensor<'_>) -> Window {
    let (dtype, extents, strides) = (tensor.dtype(), tensor.extents(), tensor.strides());
    Window { dtype, extents, strides, offset: tensor.view_offset() }
}

/// All bytes of a tensor.
pub fn bytes_of(tensor: Tensor<'_>) -> Result<Vec<u8>> {
    let mut bytes = vec![0; tensor.bytes()];
    tensor.get_bytes(0, &mut bytes)?;
    Ok(bytes)
}

/// A tensor's elements, densely.
pub fn elements_of(tensor: Tensor<'_>) -> Result<Vec<u8>> {
    Ok(window_of(tensor).gather(&bytes_of(root_of(tensor))?))
}

/// Writes a tensor's elements, given densely.
pub fn set_elements(tensor: Tensor<'_>, dense: &[u8]) -> Result<()> {
    let root = root_of(tensor);
    let mut bytes = bytes_of(root)?;
    window_of(tensor).scatter(dense, &mut bytes);
    Ok(root.set_bytes(0, &bytes)?)
}
