//! Factors of large products in 16 bits: matrix units round what they multiply, each tile of it once for every tile of the result that it
//! is part of. Where many are, a copy of the factor that is rounded already, or decoded, takes less than what it saves.
//!
//! A rewrite inside the planner, of what units would round anyhow; steps name the nodes of the graph that was given.
//!
//! Measured on an H200, 512 x 8192 x 2048 in buffers: 87 us with weights in F16 and a right factor in F32, 64 with both in F16; 133 with
//! weights in Q8_0, whose copy takes 37.

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, DType, Desc, Graph, Node, Op, Operand, ValueId};
use crate::kernels;

use super::Step;
use super::ladder::changing;

/// Columns from which weights are decoded once: what decoding takes, in columns of a product, is some 200.
const DECODED_FROM: u64 = 384;

/// Elements from which a copy is worth its dispatch.
const LEAST_ELEMENTS: u64 = 1 << 19;

/// Rows, of all products that read a right factor, from which it is rounded once. Rounding one takes 2.5 ps for an element, reading it as
/// F32 0.7 to 2.5 ps more for every thousand rows.
const ROUNDED_FROM: u64 = 4096;

/// A graph whose factors are copied.
pub(super) struct Narrowed {
    /// Values keep their ids; new ones come after them.
    pub graph: Graph,
    /// The node of the original graph that each node is, or that it is made for.
    origin: Vec<usize>,
}

impl Narrowed {
    /// Lets steps of the rewritten graph name nodes of the original one: a copy works for the first product that reads it.
    pub fn name_nodes(&self, steps: &mut [Step]) {
        for step in steps {
            step.node = self.origin[step.node];
            step.fused.iter_mut().for_each(|node| *node = self.origin[*node]);
        }
    }
}

/// Copies the factors for which it pays; nothing where there is none.
pub(super) fn in_16_bits(graph: &Graph, limits: &Limits) -> Option<Narrowed> {
    if limits.matrix_units.is_empty() {
        return None;
    }
    let products: Vec<(usize, Product)> =
        graph.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, Product::of(graph, node, limits)?))).collect();
    let mut rows: FxHashMap<(ValueId, DType), u64> = FxHashMap::default();
    let changes = changing(graph);
    for (at, product) in &products {
        let right = &graph.nodes[*at].inputs[1];
        if is_all_of_it(graph, right)
            && graph.values[right.value.index()].dtype == DType::F32
            && !changes[right.value.index()]
        {
            *rows.entry((right.value, product.to)).or_default() += product.m;
        }
    }
    let mut new = Graph { values: graph.values.clone(), nodes: Vec::new(), kept: graph.kept.clone() };
    let mut rounded: FxHashMap<(ValueId, DType), ValueId> = FxHashMap::default();
    let mut origin = Vec::with_capacity(graph.nodes.len());
    let mut products = products.into_iter().peekable();
    for (at, node) in graph.nodes.iter().enumerate() {
        let mut node = node.clone();
        if let Some((_, product)) = products.next_if(|&(product, _)| product == at) {
            let [left, right] = [node.inputs[0], node.inputs[1]];
            if product.is_decoded(graph, &left) && !changes[left.value.index()] {
                node.inputs[0].value = copied(&mut new, left.value, product.to)?;
            }
            let key = (right.value, product.to);
            let pays = rows.get(&key).is_some_and(|&rows| rows >= ROUNDED_FROM) && is_all_of_it(graph, &right);
            if pays && graph::elements(&right.shape) >= LEAST_ELEMENTS {
                node.inputs[1].value = match rounded.get(&key) {
                    Some(&copy) => copy,
                    None => *rounded.entry(key).or_insert(copied(&mut new, right.value, product.to)?),
                };
            }
        }
        new.nodes.push(node);
        origin.resize(new.nodes.len(), at);
    }
    (new.nodes.len() > graph.nodes.len()).then_some(Narrowed { graph: new, origin })
}

/// A product that matrix units round for.
struct Product {
    /// What to.
    to: DType,
    m: u64,
    /// Columns of all its matrices.
    n: u64,
}

impl Product {
    fn of(graph: &Graph, node: &Node, limits: &Limits) -> Option<Self> {
        let desc = |operand: &Operand| Desc { dtype: graph.values[operand.value.index()].dtype, shape: operand.shape };
        let [left, right] = &node.inputs[..] else { return None };
        let to = kernels::rounds_factors(&node.op, [desc(left), desc(right)], limits)?;
        let outer = usize::from(node.op == Op::MulMat);
        let n = graph::elements(&right.shape) / u64::from(right.shape[1 - outer]);
        Some(Self { to, m: left.shape[outer].into(), n })
    }

    /// Whether a left factor is decoded before.
    fn is_decoded(&self, graph: &Graph, left: &Operand) -> bool {
        let value = &graph.values[left.value.index()];
        value.dtype.is_quantized()
            && left.is_whole(&value.shape)
            && self.n >= DECODED_FROM
            && graph::elements(&left.shape) >= 2 * LEAST_ELEMENTS
    }
}

/// Whether an operand is all of a value, in any order.
fn is_all_of_it(graph: &Graph, operand: &Operand) -> bool {
    operand.offset == 0
        && graph::elements(&operand.shape) == graph::elements(&graph.values[operand.value.index()].shape)
}

/// Adds a copy of a value.
fn copied(graph: &mut Graph, id: ValueId, dtype: DType) -> Option<ValueId> {
    let value = &graph.values[id.index()];
    let (name, shape) = (format!("{} in {dtype:?}", value.name), value.shape);
    graph.node_as(name, Op::Copy, vec![graph.whole(id)], Desc { dtype, shape }).ok()
}
