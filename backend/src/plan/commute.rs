//! Factors that move behind products: `(s y) B` is `s (y B)`, and where the products of `s y` are smaller than it is, as the gradients of a
//! LoRA pair are, the factor costs nothing in their epilogues, while `s y` would be one more tensor to write and to read.
//!
//! A rewrite inside the planner: steps name the nodes of the graph that was given.

use crate::graph::{self, DType, Graph, Kind, Node, Op, Operand, Value, ValueId};

use super::Step;
use super::fusion::is_root;

/// A graph whose factors moved.
pub(super) struct Commuted {
    /// Values keep their ids; new ones come after them.
    pub graph: Graph,
    /// The node of the original graph that each node is.
    origin: Vec<usize>,
}

impl Commuted {
    /// Lets steps of the rewritten graph name nodes of the original one: a product with its factor works for the product.
    pub fn name_nodes(&self, steps: &mut [Step]) {
        for step in steps {
            // Only a factor that moved stands behind a node that it stood before.
            let moved = step.node > 0 && self.origin[step.node] < self.origin[step.node - 1];
            if let (true, Some(product)) = (moved, step.fused.last_mut()) {
                std::mem::swap(product, &mut step.node);
            }
            step.node = self.origin[step.node];
            step.fused.iter_mut().for_each(|node| *node = self.origin[*node]);
        }
    }
}

/// Moves every factor that is cheaper behind the products; nothing where there is none.
pub(super) fn behind_products(graph: &Graph) -> Option<Commuted> {
    let is_factor = |node: &Node| matches!(node.op, Op::Scale { bias: 0.0, .. });
    if !graph.nodes.iter().any(is_factor) {
        return None;
    }
    let uses = Uses::of(graph);
    let mut moved: Vec<Option<Moved>> = vec![None; graph.nodes.len()];
    let mut gone = vec![false; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate().filter(|(_, node)| is_factor(node)) {
        let Some(products) = uses.products(node) else { continue };
        if products.iter().all(|&(product, _)| moved[product].is_none()) {
            gone[at] = true;
            products.into_iter().for_each(|(product, operands)| moved[product] = Some(Moved { factor: at, operands }));
        }
    }
    gone.contains(&true).then(|| rewritten(graph, &gone, moved))
}

/// What a product becomes.
#[derive(Clone)]
struct Moved {
    /// The node whose factor goes behind it.
    factor: usize,
    /// What it reads then.
    operands: Vec<Operand>,
}

fn rewritten(graph: &Graph, gone: &[bool], moved: Vec<Option<Moved>>) -> Commuted {
    let mut new = Graph { values: graph.values.clone(), nodes: Vec::new(), kept: graph.kept.clone() };
    let (mut nodes, mut origin) = (Vec::with_capacity(graph.nodes.len()), Vec::with_capacity(graph.nodes.len()));
    for ((at, node), moved) in graph.nodes.iter().enumerate().zip(moved) {
        if gone[at] {
            new.values[node.output.index()].kind = Kind::Dropped;
            continue;
        }
        let Some(Moved { factor, operands }) = moved else {
            nodes.push(node.clone());
            origin.push(at);
            continue;
        };
        let product = new.computed_like(node.output);
        nodes.push(Node { inputs: operands, output: product, ..node.clone() });
        let inputs = vec![new.whole(product)];
        nodes.push(Node { inputs, output: node.output, ..graph.nodes[factor].clone() });
        origin.extend([at, factor]);
    }
    Commuted { graph: Graph { nodes, ..new }, origin }
}

/// Who computes and reads the values of a graph.
struct Uses<'g> {
    graph: &'g Graph,
    maker: Vec<Option<usize>>,
    /// Nodes by what they read, each with the number of the operand.
    readers: Vec<Vec<(usize, usize)>>,
}

impl<'g> Uses<'g> {
    fn of(graph: &'g Graph) -> Self {
        let (mut maker, mut readers) = (vec![None; graph.values.len()], vec![Vec::new(); graph.values.len()]);
        for (at, node) in graph.nodes.iter().enumerate() {
            maker[node.output.index()] = Some(at);
            for (number, input) in node.inputs.iter().enumerate() {
                readers[input.value.index()].push((at, number));
            }
        }
        Self { graph, maker, readers }
    }

    fn value(&self, id: ValueId) -> &'g Value {
        &self.graph.values[id.index()]
    }

    /// Whether a value is computed by one node and cannot change afterwards.
    fn is_computed(&self, id: ValueId) -> bool {
        let Value { kind, dtype, .. } = *self.value(id);
        kind == Kind::Computed && dtype == DType::F32
    }

    /// The products that read what a factor gives, each with the operands that it has without the factor; nothing where others read it,
    /// or where moving it gains nothing.
    fn products(&self, factor: &Node) -> Option<Vec<(usize, Vec<Operand>)>> {
        let (source, scaled) = (factor.inputs[0], factor.output);
        let movable = self.is_computed(source.value) && self.is_computed(scaled) && !self.graph.kept.contains(&scaled);
        if !movable || self.is_free(source.value) {
            return None;
        }
        let mut products = Vec::new();
        let mut results = 0;
        for &(at, number) in &self.readers[scaled.index()] {
            let node = &self.graph.nodes[at];
            let once = node.inputs.iter().filter(|input| input.value == scaled).count() == 1;
            if !matches!(node.op, Op::MulMat | Op::OutProd) || !once || !self.is_computed(node.output) {
                return None;
            }
            let mut operands = node.inputs.clone();
            operands[number] = through(&source, &node.inputs[number], self)?;
            results = graph::elements(&self.value(node.output).shape).saturating_add(results);
            products.push((at, operands));
        }
        (!products.is_empty() && results < graph::elements(&self.value(scaled).shape)).then_some(products)
    }

    /// Whether a factor behind a value that nobody else reads is applied where the value is computed.
    fn is_free(&self, id: ValueId) -> bool {
        let takes = |at: usize| {
            let node = &self.graph.nodes[at];
            is_root(node) || node.op.row().family == graph::Family::Elementwise
        };
        self.readers[id.index()].len() == 1
            && !self.graph.kept.contains(&id)
            && self.maker[id.index()].is_some_and(takes)
    }
}

/// A window over the result of an elementwise node, as one over the node's operand `source`; nothing where that is no window.
fn through(source: &Operand, window: &Operand, uses: &Uses<'_>) -> Option<Operand> {
    if window.is_whole(&source.shape) {
        return Some(*source);
    }
    let all = graph::elements(&uses.value(source.value).shape) == graph::elements(&source.shape);
    if all && source.offset == 0 && source.is_contiguous() {
        return Some(Operand { value: source.value, ..*window });
    }
    // Axes of the result in another order, each a part of it from its start on.
    let order = graph::linear_strides(&source.shape);
    let mut strides = [0; 4];
    let mut met = [false; 4];
    for (axis, stride) in strides.iter_mut().enumerate().filter(|&(axis, _)| window.shape[axis] > 1) {
        let fits =
            |&at: &usize| window.strides[axis] == order[at] && window.shape[axis] <= source.shape[at] && !met[at];
        let of = (0..4).find(fits)?;
        met[of] = true;
        *stride = source.strides[of];
    }
    (window.offset == 0).then_some(Operand { value: source.value, strides, offset: source.offset, ..*window })
}
