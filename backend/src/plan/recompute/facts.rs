//! What recomputing has to know of the values of a graph.

use std::collections::HashMap;

use crate::device::{Case, Limits, Profile};
use crate::graph::{self, Desc, Family, Graph, Kind, Op};
use crate::plan::cost::{Prices, flops_of};
use crate::plan::{Footprint, Home, Plan, PlanOptions};

/// Operations that count as much as a byte moved, where nothing is known of the machine.
const FLOPS_PER_BYTE: f64 = 16.0;

/// A value of the original graph, and the node that computes it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fact {
    /// Bytes that it takes in the arena; 0 for what lies elsewhere, for views, and for what no storage holds.
    pub bytes: u64,
    /// A copy that became coordinates: it is another value's storage.
    pub view: bool,
    /// External: there before every node.
    pub external: bool,
    /// Its storage outlives the run, as that of external and of kept values does.
    pub lasting: bool,
    /// The node may run again: it only computes this value, and the host does not read it.
    pub repeatable: bool,
    /// What running it again costs: seconds, *simulated*, or the weight of operations and bytes where the machine is not known.
    pub cost: f64,
    /// Operations of the node.
    pub flops: u64,
}

/// The facts of every value, of a graph and a plan of it.
pub(super) fn facts(
    graph: &Graph,
    plan: &Plan,
    limits: &Limits,
    options: PlanOptions,
    footprint: &impl Footprint,
    profile: Option<&Profile>,
) -> Vec<Fact> {
    let weights: Vec<f64> = (0..graph.nodes.len()).map(|at| weight(graph, at)).collect();
    let mut costs = vec![0.0; graph.nodes.len()];
    let mut made = vec![false; graph.nodes.len()];
    if let Some(profile) = profile {
        let prices = Prices::new(profile, Case::Middle).of(graph, &plan.steps);
        for (step, price) in plan.steps.iter().zip(prices) {
            // Nodes that run as one share what it costs.
            let nodes = || step.fused.iter().chain([&step.node]).copied();
            let all: f64 = nodes().map(|node| weights[node]).sum();
            nodes().for_each(|node| costs[node] += price.seconds * if all > 0.0 { weights[node] / all } else { 1.0 });
        }
    } else {
        costs.clone_from(&weights);
    }
    plan.steps.iter().for_each(|step| made[step.node] = true);
    let mut known: HashMap<Desc, u64> = HashMap::new();
    let mut bytes = |desc: Desc| {
        *known.entry(desc).or_insert_with(|| {
            let home = Home::of(desc.dtype, &desc.shape, limits, options).ok();
            let size = home.and_then(|home| footprint.size(home.kind, home.width, home.height).ok());
            size.map_or(0, |size| size.bytes)
        })
    };
    let kind = |value: &graph::Value| Fact {
        external: value.kind == Kind::External,
        lasting: value.kind == Kind::External,
        ..Fact::default()
    };
    let mut facts: Vec<Fact> = graph.values.iter().map(kind).collect();
    for id in &graph.kept {
        facts[id.index()].lasting = true;
    }
    for (at, node) in graph.nodes.iter().enumerate() {
        let fact = &mut facts[node.output.index()];
        if fact.external {
            continue;
        }
        fact.view = node.op == Op::Copy && !made[at];
        fact.repeatable = !fact.lasting && node.updates.is_empty();
        if !fact.view {
            (fact.cost, fact.flops) = (costs[at], flops_of(graph, at));
        }
        if !fact.lasting && !fact.view {
            fact.bytes = bytes(graph.values[node.output.index()].desc());
        }
    }
    facts
}

/// Operations and bytes of a node, for comparisons.
fn weight(graph: &Graph, at: usize) -> f64 {
    let node = &graph.nodes[at];
    let read = node.inputs.iter().map(|o| Desc { dtype: graph.values[o.value.index()].dtype, shape: o.shape });
    let moved: f64 = read.chain([graph.values[node.output.index()].desc()]).map(|desc| desc.bytes() as f64).sum();
    moved + flops_of(graph, at) as f64 / FLOPS_PER_BYTE
}

/// The operands, as bits, whose storage the output of a node may take over, as far as the graph tells.
pub(super) fn shares(graph: &Graph, node: &graph::Node) -> u32 {
    let family = node.op.row().family;
    let rows = family.is_by_element() || family == Family::Rows;
    let output = &graph.values[node.output.index()];
    let same = |operand: &graph::Operand| {
        let value = &graph.values[operand.value.index()];
        value.desc() == output.desc() && operand.is_whole(&value.shape)
    };
    match rows || node.op == Op::CrossEntropyLossBack {
        true => node.inputs.iter().zip(0..).map(|(operand, bit)| u32::from(same(operand)) << bit).sum(),
        false => 0,
    }
}
