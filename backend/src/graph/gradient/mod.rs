//! Reverse-mode gradients, as further nodes of the same graph.
//!
//! Every differentiable op has a rule in its row of the op table; [`Graph::backward`] walks the nodes from the last to the
//! first, asks the rules along the paths from the values wanted, and sums what comes together.

mod attention;
mod functions;
mod places;
pub(super) mod rules;
mod window;

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::{Binary, DType, Desc, Graph, GraphError, Inset, Node, Op, Operand, Shape, ValueId, elements};

/// What [`Graph::backward`] adds to a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gradients {
    /// An external F32 value of the loss's shape that the caller fills: 1 for the gradient of a scalar loss, weights of the
    /// elements' gradients in general.
    pub seed: ValueId,
    /// For each value wanted, in order, the F32 value of its shape that holds its gradient.
    pub wrt: Vec<ValueId>,
}

impl Graph {
    /// Appends nodes that compute the gradients of `loss`, times the seed, with respect to each value of `wanted`. The graph
    /// is unchanged after an error.
    ///
    /// # Errors
    /// The graph breaks a rule, an op on the way has no gradient, the loss does not depend on a value wanted, or a value on the way is updated in place,
    /// so that the gradient would read what it no longer holds.
    pub fn backward(&mut self, loss: ValueId, wanted: &[ValueId]) -> Result<Gradients, GraphError> {
        self.verify()?;
        self.check_ids(loss, wanted)?;
        let (values, nodes) = (self.values.len(), self.nodes.len());
        let result = Pass::new(self, loss, wanted).run(loss, wanted);
        if result.is_err() {
            self.values.truncate(values);
            self.nodes.truncate(nodes);
        }
        result
    }

    fn check_ids(&self, loss: ValueId, wanted: &[ValueId]) -> Result<(), GraphError> {
        match wanted.iter().chain([&loss]).find(|&&id| self.value(id).is_none()) {
            Some(id) => {
                Err(GraphError::Value { value: id.index().to_string(), rule: "is no value of the graph".into() })
            }
            None => Ok(()),
        }
    }
}

/// One walk over a graph.
struct Pass<'a> {
    graph: &'a mut Graph,
    /// Per value of the forward graph, whether a value wanted leads to it.
    leads: Vec<bool>,
    /// Per value of the forward graph, the parts of its gradient found so far; each has the value's shape.
    parts: Vec<Vec<Operand>>,
    /// Names of the nodes that update values in place.
    updated: HashMap<ValueId, String>,
}

impl<'a> Pass<'a> {
    fn new(graph: &'a mut Graph, loss: ValueId, wanted: &[ValueId]) -> Self {
        let mut leads = vec![false; graph.values.len()];
        wanted.iter().for_each(|id| leads[id.index()] = true);
        for node in &graph.nodes {
            if node.inputs.iter().any(|i| leads[i.value.index()]) {
                leads[node.output.index()] = true;
            }
        }
        let updates = graph.nodes.iter().flat_map(|n| n.updates.iter().map(|&id| (id, n.name.clone())));
        let updated = updates.collect();
        let mut parts = vec![Vec::new(); graph.values.len()];
        let shape = graph.values[loss.index()].shape;
        let seed = graph.external(format!("gradient of {}", graph.values[loss.index()].name), DType::F32, shape);
        parts[loss.index()].push(graph.whole(seed));
        Self { graph, leads, parts, updated }
    }

    fn run(mut self, loss: ValueId, wanted: &[ValueId]) -> Result<Gradients, GraphError> {
        let seed = self.parts[loss.index()][0].value;
        for at in (0..self.graph.nodes.len()).rev() {
            let node = self.graph.nodes[at].clone();
            let leading = |i: &usize| self.leads[node.inputs[*i].value.index()];
            let operands: Vec<usize> = (0..node.inputs.len()).filter(leading).collect();
            if operands.is_empty() {
                continue;
            }
            let Some(dy) = self.sum(node.output)? else { continue };
            let rule = rule_of(&node)?;
            self.check_unchanged(&node)?;
            for i in operands {
                let window = &node.inputs[i];
                let d = Call { graph: self.graph, node: &node, dy, operand: i }.gradient(rule)?;
                let shape = self.graph.values[window.value.index()].shape;
                let mut call = Call { graph: self.graph, node: &node, dy, operand: i };
                let part = window::unwind(&mut call, window, shape, d)?;
                self.parts[window.value.index()].push(part);
            }
        }
        let wrt = wanted.iter().map(|&id| self.finish(id)).collect::<Result<_, _>>()?;
        Ok(Gradients { seed, wrt })
    }

    /// The sum of a value's parts, which becomes its only part.
    fn sum(&mut self, value: ValueId) -> Result<Option<Operand>, GraphError> {
        let mut parts = std::mem::take(&mut self.parts[value.index()]).into_iter();
        let Some(mut sum) = parts.next() else { return Ok(None) };
        let name = format!("gradient of {}", self.graph.values[value.index()].name);
        for part in parts {
            let id = self.graph.node(name.clone(), Op::Binary(Binary::Add), vec![sum, part])?;
            sum = self.graph.whole(id);
        }
        self.parts[value.index()].push(sum);
        Ok(Some(sum))
    }

    /// The whole value that holds the gradient of `wanted`.
    fn finish(&mut self, wanted: ValueId) -> Result<ValueId, GraphError> {
        let value = &self.graph.values[wanted.index()];
        let (shape, name) = (value.shape, value.name.clone());
        let Some(sum) = self.sum(wanted)? else {
            let value = format!("{} {name:?}", wanted.index());
            return Err(GraphError::Value { value, rule: "the loss does not depend on it".into() });
        };
        let held = self.graph.whole(sum.value);
        if sum.is_whole(&held.shape) {
            return Ok(sum.value);
        }
        let in_order = sum.is_contiguous() && elements(&sum.shape) == elements(&held.shape);
        let source = if in_order { held } else { sum };
        self.graph.node_as(format!("gradient of {name}"), Op::Copy, vec![source], Desc::f32(shape))
    }

    /// The new nodes run after all others, so the values they read must not change before.
    fn check_unchanged(&self, node: &Node) -> Result<(), GraphError> {
        let mut touched = node.inputs.iter().map(|i| i.value).chain([node.output]);
        match touched.find_map(|id| self.updated.get_key_value(&id)) {
            Some((id, by)) => {
                let value = &self.graph.values[id.index()].name;
                let rule = format!("has no gradient after node {by}, which updates {value:?} in place");
                Err(GraphError::Node { node: node.name.clone(), rule })
            }
            None => Ok(()),
        }
    }
}

/// A gradient rule: the gradient of operand `call.operand`, in the shape of its window, or `None` if it has none.
pub(super) type Rule = fn(&mut Call<'_>) -> Result<Option<Operand>, GraphError>;

/// The rule of a node's op.
fn rule_of(node: &Node) -> Result<Rule, GraphError> {
    let row = node.op.row();
    let refusal =
        |why| GraphError::Node { node: node.name.clone(), rule: format!("{} has no gradient: {why}", row.name) };
    row.gradient.map_err(refusal)
}

/// What a rule works with.
pub(super) struct Call<'a> {
    graph: &'a mut Graph,
    node: &'a Node,
    dy: Operand,
    operand: usize,
}

impl Call<'_> {
    /// Asks the op's rule, which has no gradient for positions, ids, masks and labels.
    fn gradient(&mut self, rule: Rule) -> Result<Operand, GraphError> {
        let (operand, name) = (self.operand, self.node.op.row().name);
        rule(self)?.ok_or_else(|| self.refusal(format!("operand {operand} of {name} has no gradient: it is data")))
    }

    fn refusal(&self, rule: impl Into<String>) -> GraphError {
        GraphError::Node { node: self.node.name.clone(), rule: rule.into() }
    }

    /// Operand `i` of the node.
    fn input(&self, i: usize) -> Operand {
        self.node.inputs[i]
    }

    /// The node's output.
    fn output(&self) -> Operand {
        self.graph.whole(self.node.output)
    }

    fn op(&self) -> &Op {
        &self.node.op
    }

    /// The part of the output's gradient at an inset.
    fn inset(&mut self, inset: Inset) -> Result<Operand, GraphError> {
        let held = self.graph.values[self.dy.value.index()].shape;
        let dy = if self.dy.is_whole(&held) { self.dy } else { self.add_as(Op::Copy, &[self.dy], self.dy.shape)? };
        let strides = inset.strides.map(u64::from);
        Ok(Operand { shape: inset.shape, strides, offset: inset.offset.into(), ..dy })
    }

    /// Shape of the operand whose gradient is asked for.
    fn shape(&self) -> Shape {
        self.input(self.operand).shape
    }

    fn name(&self) -> String {
        format!("{}: gradient of operand {}", self.node.name, self.operand)
    }

    /// Appends a node.
    fn add(&mut self, op: Op, inputs: &[Operand]) -> Result<Operand, GraphError> {
        let id = self.graph.node(self.name(), op, inputs.to_vec())?;
        Ok(self.graph.whole(id))
    }

    /// The result of a node that there is already, or of a new one: a rule is asked for one operand after the other.
    fn add_once(&mut self, op: Op, inputs: &[Operand]) -> Result<Operand, GraphError> {
        match self.graph.nodes.iter().rev().find(|node| node.op == op && node.inputs == inputs) {
            Some(node) => Ok(self.graph.whole(node.output)),
            None => self.add(op, inputs),
        }
    }

    /// Appends a node with an F32 output of this shape.
    fn add_as(&mut self, op: Op, inputs: &[Operand], shape: Shape) -> Result<Operand, GraphError> {
        let id = self.graph.node_as(self.name(), op, inputs.to_vec(), Desc::f32(shape))?;
        Ok(self.graph.whole(id))
    }

    /// The elements of `d` in their order under another shape: a window where one exists, else a copy.
    fn reshaped(&mut self, d: Operand, shape: Shape) -> Result<Operand, GraphError> {
        match d.reshape(shape) {
            Ok(window) => Ok(window),
            Err(_) => self.add_as(Op::Copy, &[d], shape),
        }
    }

    /// `d` summed over its repeats of `shape`.
    fn summed(&mut self, d: Operand, shape: Shape) -> Result<Operand, GraphError> {
        if d.shape == shape { Ok(d) } else { self.add_as(Op::RepeatBack, &[d], shape) }
    }
}
