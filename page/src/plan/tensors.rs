//! The storages of a plan, by the names of what they hold.

use std::collections::HashMap;

use fblayout::graph::{Graph, Node, Shape};
use fblayout::kernels::{Access, StorageKind};
use fblayout::plan::{Home, Owner, Plan, Slot};

/// What a storage holds.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Names by the step that writes what they name, in order; the first holds for reads before any write as well.
    names: Vec<(usize, String)>,
    /// Why it exists.
    pub role: Role,
    /// Extents.
    pub shape: Shape,
    /// Memory it takes, with what the device adds.
    pub bytes: u64,
}

impl Tensor {
    /// What a step finds or leaves here: results may follow each other in one storage.
    pub fn name_at(&self, step: usize, access: Access) -> &str {
        let end = if access == Access::Read { step } else { step + 1 };
        let written = self.names.partition_point(|&(at, _)| at < end);
        self.names.get(written.saturating_sub(1)).map_or("", |(_, name)| name)
    }
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

/// The tensors of a plan's slots, in their order, with the bytes that homes take.
///
/// # Errors
/// That of `bytes`.
pub fn tensors<E>(graph: &Graph, plan: &Plan, bytes: impl Fn(&Home) -> Result<u64, E>) -> Result<Vec<Tensor>, E> {
    let writers = writers(plan);
    let tensor = |(slot, writers): (&Slot, &Vec<usize>)| {
        let mut shape = [1; 4];
        shape.iter_mut().zip(slot.home.layout.extents()).for_each(|(n, extent)| *n = extent);
        let named = |&at: &usize| (at, graph.nodes[plan.steps[at].node].name.clone());
        let (names, role) = match slot.owner {
            Owner::External(id) => (vec![(0, graph.values[id.index()].name.clone())], Role::External),
            Owner::Kept(id) => (vec![(0, graph.values[id.index()].name.clone())], Role::Kept),
            Owner::Arena { .. } => (
                writers.iter().map(named).collect(),
                writers.first().map_or(Role::Scratch, |&at| role(graph, plan, slot, shape, at)),
            ),
        };
        Ok(Tensor { names, role, shape, bytes: bytes(&slot.home)? })
    };
    plan.slots.iter().zip(&writers).map(tensor).collect()
}

/// What a storage of the arena is for that a step writes first.
fn role(graph: &Graph, plan: &Plan, slot: &Slot, shape: Shape, at: usize) -> Role {
    let step = &plan.steps[at];
    let is_private = plan.steps[slot.live.1].node == step.node;
    let is_result = graph.values[graph.nodes[step.node].output.index()].shape == shape;
    match step.conversion {
        true => Role::Copy,
        false if is_private && !is_result => Role::Scratch,
        false => Role::Computed,
    }
}

/// The steps that write each slot.
fn writers(plan: &Plan) -> Vec<Vec<usize>> {
    let mut writers = vec![Vec::new(); plan.slots.len()];
    for (at, step) in plan.steps.iter().enumerate() {
        for &(slot, access) in &step.args {
            if access != Access::Read && writers[slot].last() != Some(&at) {
                writers[slot].push(at);
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
            format!("arena, bytes {offset} to {}", offset + bytes)
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
