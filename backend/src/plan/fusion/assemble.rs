//! A group as a kernel sees it: its epilogue, and where the elements of each value are in the axes of the kernel's result.

use rustc_hash::FxHashMap;

use crate::graph::{self, Binary, DType, Graph, Node, Op, Operand, Shape, ValueId};
use crate::kernels::{Epilogue, EpilogueStep, Fused, Norm, Rotation, SecondProduct, Source};

use super::{Group, Second};

/// Strides of a value's linear order along the axes of the root's result: where its element for each of the root's is.
pub(in crate::plan) type Map = [u64; 4];

/// An operand that a group reads besides its root's.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::plan) struct Extra {
    /// What is read.
    pub operand: Operand,
    /// Shape of the node that reads it; the operand repeats along axes where it has one element.
    pub shape: Shape,
    /// From the root's axes to that shape's linear order.
    pub map: Map,
}

/// A group as a kernel sees it.
#[derive(Clone, Debug)]
pub(in crate::plan) struct Assembled {
    /// What the kernel does; extras are those read, then those written.
    pub fused: Fused,
    /// Extras that are read.
    pub reads: Vec<Extra>,
    /// Extras that are written, with their maps.
    pub writes: Vec<(ValueId, Map)>,
    /// The last node's value.
    pub output: (ValueId, Map),
    /// Shape of the kernel's result.
    pub shape: Shape,
}

impl Assembled {
    /// The kernel's view of a group; nothing where its nodes do not form one.
    pub fn of(graph: &Graph, group: &Group) -> Option<Self> {
        let node = |at: usize| &graph.nodes[at];
        let result = node(group.second.map_or(group.root, |s| s.sum)).output;
        let shape = graph.values[result.index()].shape;
        let whole = graph::linear_strides(&shape);
        let mut values = FxHashMap::from_iter([(result, (Source::Result(0), whole))]);
        values.extend(group.twin.map(|at| (node(at).output, (Source::Second, whole))));
        let mut built = Build { graph, shape, values, steps: Vec::new(), reads: Vec::new() };
        let mut output = (result, whole);
        if let Some(Second { before: Some(before), .. }) = group.second {
            let products: Vec<ValueId> = group.kernel().map(|at| node(at).output).collect();
            let rest = node(before).inputs.iter().find(|input| !products.contains(&input.value))?;
            let rest = built.source(rest, shape, whole)?;
            let inputs = vec![rest, Source::Result(0)];
            built.steps.push(EpilogueStep { op: Op::Binary(Binary::Add), inputs, store: None });
            built.values.insert(result, (Source::Result(1), whole));
        }
        let kernel: Vec<usize> = group.kernel().collect();
        let is_step = |at: &&usize| !kernel.contains(at) && group.rotation != Some(**at);
        for &at in group.nodes.iter().filter(is_step) {
            output = built.step(node(at))?;
        }
        let mut rotation = None;
        if let Some(at) = group.rotation {
            let (rotated, map) = built.rotated(node(at))?;
            rotation = Some(rotated);
            output = (node(at).output, map);
        }
        let Build { values, mut steps, reads, .. } = built;
        let mut store_root = None;
        let mut writes = Vec::new();
        for &value in &group.stored {
            let &(source, map) = values.get(&value)?;
            let store = match source {
                Source::Result(0) => &mut store_root,
                Source::Result(step) => &mut steps[step - 1].store,
                Source::Second | Source::Extra(_) => return None,
            };
            if store.replace(reads.len() + writes.len()).is_some() {
                return None;
            }
            writes.push((value, map));
        }
        let norm = match group.norm.map(|norm| (node(norm.node).op, norm.gain)) {
            Some((Op::RmsNorm { eps }, gain)) => Some(Norm { eps, gain: gain.is_some() }),
            Some(_) => return None,
            None => None,
        };
        let second = group.second.map(|s| SecondProduct { op: node(s.product).op, scale: s.scale });
        let epilogue = Epilogue { steps, store_root, extras: reads.len() + writes.len() };
        Some(Self {
            fused: Fused { op: node(group.root).op, twin: group.twin.is_some(), norm, second, epilogue, rotation },
            reads,
            writes,
            output,
            shape,
        })
    }
}

struct Build<'a> {
    graph: &'a Graph,
    shape: Shape,
    /// Values of the group: the register that holds each, and where its elements are.
    values: FxHashMap<ValueId, (Source, Map)>,
    steps: Vec<EpilogueStep>,
    reads: Vec<Extra>,
}

impl Build<'_> {
    /// Adds a node; its value and map.
    fn step(&mut self, node: &Node) -> Option<(ValueId, Map)> {
        let shape = self.graph.values[node.output.index()].shape;
        let mut map = None;
        for input in &node.inputs {
            let Some(&(_, from)) = self.values.get(&input.value) else { continue };
            let through = if node.op == Op::Copy { self.moved(input, from)? } else { self.same(input, from, shape)? };
            if map.is_some_and(|known| known != through) {
                return None;
            }
            map = Some(through);
        }
        // A node of extras alone is one that a later node of the group reads: it is of the root's own shape.
        let map = match map {
            Some(map) => map,
            None if shape == self.shape => graph::linear_strides(&shape),
            None => return None,
        };
        let inputs = node.inputs.iter().map(|input| self.source(input, shape, map)).collect::<Option<Vec<_>>>()?;
        let source = match node.op {
            Op::Copy => inputs[0],
            op => {
                self.steps.push(EpilogueStep { op, inputs, store: None });
                Source::Result(self.steps.len())
            }
        };
        self.values.insert(node.output, (source, map));
        Some((node.output, map))
    }

    /// The rotation of the last value by a node, and where the result's elements are.
    fn rotated(&self, node: &Node) -> Option<(Rotation, Map)> {
        let (Op::Rope(rope), window) = (node.op, node.inputs[0]) else { return None };
        let &(source, from) = self.values.get(&window.value)?;
        let map = self.moved(&window, from)?;
        let [head_dim, heads, positions, _] = window.shape;
        // Heads are rows of axis 0, or axis 0 is one head; all positions of a batch run along one axis, a single one along any that has
        // no more elements.
        let runs = |axis: usize| positions == 1 || map[axis] == u64::from(head_dim) * u64::from(heads);
        let axis = (1..4).find(|&axis| self.shape[axis] == positions && runs(axis))?;
        let is_last = source == Source::Result(self.steps.len());
        (is_last && self.shape[0].is_multiple_of(head_dim)).then_some((Rotation { rope, head_dim, axis }, map))
    }

    /// The map of an elementwise result, all of whose elements are those of a window over a value of the group.
    fn same(&self, input: &Operand, from: Map, shape: Shape) -> Option<Map> {
        (input.shape == shape).then(|| self.moved(input, from)).flatten()
    }

    fn moved(&self, window: &Operand, from: Map) -> Option<Map> {
        let value = &self.graph.values[window.value.index()];
        let map = if window.is_whole(&value.shape) { from } else { through(window, from, &self.shape)? };
        // Texels of the root's result stay texels.
        (map[0] == 1 || self.shape[0] == 1).then_some(map)
    }

    fn source(&mut self, input: &Operand, shape: Shape, map: Map) -> Option<Source> {
        if let Some(&(source, _)) = self.values.get(&input.value) {
            return Some(source);
        }
        let value = &self.graph.values[input.value.index()];
        let repeats = (0..4).all(|axis| input.shape[axis] == shape[axis] || input.shape[axis] == 1);
        if value.dtype != DType::F32 || !repeats {
            return None;
        }
        let extra = Extra { operand: *input, shape, map };
        let at = self.reads.iter().position(|known| *known == extra).unwrap_or_else(|| {
            self.reads.push(extra);
            self.reads.len() - 1
        });
        Some(Source::Extra(at))
    }
}

/// Where the elements of a window's own linear order are, for a window that shows each element of a value once; `from` tells where the
/// value's are. Nothing where an axis of `shape` would need more than one stride.
fn through(window: &Operand, from: Map, shape: &Shape) -> Option<Map> {
    let linear = graph::linear_strides(&window.shape);
    let mut axes: Vec<usize> = (0..4).filter(|&axis| window.shape[axis] > 1).collect();
    axes.sort_by_key(|&axis| window.strides[axis]);
    // Runs of the value's linear order that are runs of the window's too: first stride, extent, stride in the window.
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    let mut next = 1;
    for axis in axes {
        let (extent, stride) = (u64::from(window.shape[axis]), window.strides[axis]);
        if stride != next {
            return None;
        }
        next = stride * extent;
        match runs.last_mut() {
            Some((_, run, first)) if *first * *run == linear[axis] => *run *= extent,
            _ => runs.push((stride, extent, linear[axis])),
        }
    }
    if window.offset != 0 || next != graph::elements(shape) {
        return None;
    }
    let mut map = [0; 4];
    for axis in (0..4).filter(|&axis| shape[axis] > 1) {
        let (start, end) = (from[axis], from[axis] * u64::from(shape[axis]));
        let &(first, _, stride) = runs.iter().find(|(first, run, _)| *first <= start && end <= *first * *run)?;
        if !start.is_multiple_of(first) {
            return None;
        }
        map[axis] = start / first * stride;
    }
    Some(map)
}
