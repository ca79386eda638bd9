//! The training step: loss, gradients, one AdamW step per trained tensor.

use fblayout::graph::{DType, Graph, Node, Op, ValueId};

use crate::forward::{Model, loss_graph};
use crate::{Config, Error, Options};

/// A model's graph with all that a training step does.
#[derive(Clone, Debug)]
pub struct TrainGraph {
    /// Loss, gradients and updates.
    pub model: Model,
    /// F32 scalar: derivative of what is minimised by the loss, 1 as a rule.
    pub seed: ValueId,
    /// F32 `[7]`: alpha, beta1, beta2, eps, weight decay, 1 / (1 - beta1^t), 1 / (1 - beta2^t).
    pub optimizer: ValueId,
    /// One per trained parameter, in their order.
    pub updates: Vec<Update>,
}

/// The AdamW step of a parameter, in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// What is trained.
    pub parameter: ValueId,
    /// Derivative of the loss by it.
    pub gradient: ValueId,
    /// First moment, of the parameter's shape.
    pub m: ValueId,
    /// Second moment, of the parameter's shape.
    pub v: ValueId,
}

/// Builds the graph of a model's training step.
///
/// # Errors
/// As [`loss_graph`].
pub fn train_graph(config: &Config, options: &Options) -> Result<TrainGraph, Error> {
    let mut model = loss_graph(config, options)?;
    let trained: Vec<_> = model.parameters.iter().filter(|p| p.trained).collect();
    let wanted: Vec<ValueId> = trained.iter().map(|p| p.value).collect();
    let g = &mut model.graph;
    let gradients = g.backward(model.loss, &wanted)?;
    let optimizer = g.external("optimizer", DType::F32, [7, 1, 1, 1]);
    let mut updates = Vec::with_capacity(trained.len());
    let end = g.nodes.len();
    for (parameter, gradient) in trained.into_iter().zip(gradients.wrt) {
        let shape = g.values[parameter.value.index()].shape;
        let mut moment = |name: &str| g.external(format!("{}.{name}", parameter.name), DType::F32, shape);
        let update = Update { parameter: parameter.value, gradient, m: moment("m"), v: moment("v") };
        let operands = [update.parameter, gradient, update.m, update.v, optimizer].map(|id| g.whole(id));
        g.node_into(format!("{}.step", parameter.name), Op::AdamW, operands.to_vec(), update.parameter);
        updates.push(update);
    }
    let steps = g.nodes.split_off(end);
    insert_early(g, steps);
    Ok(TrainGraph { model, seed: gradients.seed, optimizer, updates })
}

/// Puts each step right behind the last node that touches what it reads: its gradient, and the parameter whose old content that node
/// still wants. No gradient then lives longer than it must.
fn insert_early(graph: &mut Graph, steps: Vec<Node>) {
    let mut last = vec![0; graph.values.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().map(|i| i.value).chain([node.output]).for_each(|id| last[id.index()] = at);
    }
    let mut behind: Vec<Vec<Node>> = vec![Vec::new(); graph.nodes.len()];
    for step in steps {
        let at = step.inputs.iter().map(|i| last[i.value.index()]).max().expect("a step has operands");
        behind[at].push(step);
    }
    let nodes = std::mem::take(&mut graph.nodes);
    graph.nodes = nodes.into_iter().zip(behind).flat_map(|(node, steps)| [node].into_iter().chain(steps)).collect();
}
