//! The storages of a plan, by the names of what they hold.

use std::collections::HashMap;

use fblayout::graph::{Graph, Node, Shape};
use fblayout::kernels::{Access, StorageKind};
use fblayout::plan::{Owner, Plan, Slot};

use crate::target::Target;

/// What a storage holds.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name of the value, or of the node that fills it.
    pub name: String,
    /// Why it exists.
    pub role: Role,
    /// Extents.
    pub shape: Shape,
    /// Memory it takes, with what the device adds.
    pub bytes: u64,
}

/// Why a storage exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A tensor that exists outside the plan.
    External,
    /// A result that outlives a run.
    Kept,
    /// A result that later nodes read.
    Computed,
    /// A copy in another layout.
    Copy,
    /// Between dispatches of one node.
    Scratch,
}

/// The tensors of a plan's slots, in their order.
pub fn tensors(graph: &Graph, plan: &Plan, target: &Target) -> Result<Vec<Tensor>, String> {
    let writes = writers(plan);
    let tensor = |(i, slot): (usize, &Slot)| {
        let mut shape = [1; 4];
        shape.iter_mut().zip(slot.home.layout.extents()).for_each(|(n, extent)| *n = extent);
        let (name, role) = match (slot.owner, writes[i]) {
            (Owner::External(id), _) => (graph.values[id.index()].name.clone(), Role::External),
            (Owner::Kept(id), _) => (graph.values[id.index()].name.clone(), Role::Kept),
            (Owner::Arena { .. }, None) => ("unused".to_owned(), Role::Scratch),
            (Owner::Arena { .. }, Some(at)) => {
                let step = &plan.steps[at];
                let node = &graph.nodes[step.node];
                let name = node.name.clone();
                let private = plan.steps[slot.live.1].node == step.node;
                match graph.values[node.output.index()].shape == shape {
                    _ if step.conversion => (name, Role::Copy),
                    false if private => (name, Role::Scratch),
                    _ => (name, Role::Computed),
                }
            }
        };
        Ok(Tensor { name, role, shape, bytes: target.bytes(&slot.home)? })
    };
    plan.slots.iter().enumerate().map(tensor).collect()
}

/// The step that writes each slot first.
fn writers(plan: &Plan) -> Vec<Option<usize>> {
    let mut writers = vec![None; plan.slots.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for &(slot, access) in &step.args {
            if access != Access::Read && writers[slot].is_none() {
                writers[slot] = Some(at);
            }
        }
    }
    writers
}

/// The steps that work for each node alone, or for it last of several.
pub fn steps_of_nodes(graph: &Graph, plan: &Plan) -> Vec<Vec<usize>> {
    let mut steps = vec![Vec::new(); graph.nodes.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        steps[step.node].push(at);
    }
    steps
}

/// The first step that does each node with others that are named by a later one.
pub fn steps_around_nodes(graph: &Graph, plan: &Plan) -> Vec<Option<usize>> {
    let mut around = vec![None; graph.nodes.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for &node in step.fused.iter().filter(|&&node| node != step.node) {
            around[node].get_or_insert(at);
        }
    }
    around
}

/// The transforms that each node asks for, by their numbers in the report. The first of several nodes of one name has them all.
pub fn transforms_of_nodes(graph: &Graph, plan: &Plan) -> Vec<Vec<usize>> {
    let mut of_label: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, transform) in plan.report.transforms.iter().enumerate() {
        of_label.entry(&transform.node).or_default().push(i);
    }
    let steps = steps_of_nodes(graph, plan);
    let of_node = |(node, steps): (&Node, &Vec<usize>)| {
        let own = format!("{} {}", node.op.row().name, node.name);
        let labels = [own.as_str()].into_iter().chain(steps.iter().map(|&at| plan.steps[at].label.as_str()));
        labels.filter_map(|label| of_label.remove(label)).flatten().collect()
    };
    graph.nodes.iter().zip(&steps).map(of_node).collect()
}

/// Memory of a slot, in words.
pub fn place(slot: &Slot, bytes: u64) -> String {
    match slot.owner {
        Owner::External(_) => "memory of its own, outside the plan".to_owned(),
        Owner::Kept(_) => "memory of its own, kept after the run".to_owned(),
        Owner::Arena { offset } => {
            format!("{} arena, bytes {offset} to {}", storage(slot.home.kind), offset + bytes)
        }
    }
}

/// A storage in a word.
pub fn storage(kind: StorageKind) -> &'static str {
    match kind {
        StorageKind::Buffer => "buffer",
        StorageKind::Image => "image",
    }
}

/// The op of a label.
pub fn first_word(label: &str) -> &str {
    label.split(' ').next().unwrap_or_default()
}
