//! What one plan says of itself, and what it would cost a machine.

use fblayout::graph::Graph;
use fblayout::plan::{
    Plan, PlanError, PlanOptions, Planner, Policy, Recompute, Selector, Step, StepCost, TransformKind, UpperBound,
    Verdict, predict,
};
use serde::Serialize;

use crate::reference::Machine;

/// A policy, and how it chooses the tiles of computed tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Way {
    pub policy: Policy,
    pub selector: Selector,
}

impl Way {
    /// By the rule of dtype and shape.
    pub fn rule(policy: Policy) -> Self {
        Self { policy, selector: Selector::Rule }
    }

    /// By the exact search along chains.
    pub fn selected(policy: Policy) -> Self {
        Self { policy, selector: Selector::ChainDp }
    }

    /// Options of its plans.
    pub fn options(self) -> PlanOptions {
        PlanOptions { policy: self.policy, ..PlanOptions::default() }
    }

    /// A planner for a machine that knows nothing yet.
    pub fn planner(self, machine: &Machine) -> Planner<'_> {
        Planner::new(&machine.limits, self.options(), Some((self.selector, machine.profile)))
    }

    /// Plans for a machine that compute values again rather than keep them.
    pub fn recompute<'a>(self, machine: &'a Machine, footprint: &'a UpperBound<'a>) -> Recompute<'a, UpperBound<'a>> {
        let selection = Some((self.selector, machine.profile));
        Recompute { limits: &machine.limits, options: self.options(), footprint, selection }
    }

    /// Plans a graph for a machine.
    pub fn plan(self, graph: &Graph, machine: &Machine) -> Result<Plan, PlanError> {
        self.planner(machine).plan(graph, &UpperBound(&machine.limits))
    }
}

/// The policy; a selection is said, the rule is not.
impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.selector {
            Selector::Rule => write!(f, "{}", self.policy),
            _ => write!(f, "{}, selected", self.policy),
        }
    }
}

/// One plan on one machine. All but counts, bytes of transforms and memory is simulated.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    pub model: &'static str,
    pub preset: &'static str,
    #[serde(flatten)]
    pub way: Way,
    /// How times, requests and bytes moved came about; always `simulated`.
    pub stand: &'static str,
    pub dispatches: usize,
    pub time_ms: f64,
    /// At the fast and at the slow end of the profile's ranges.
    pub time_ms_range: [f64; 2],
    /// Bytes from and to memory.
    pub bytes_moved: u64,
    pub whole: Costs,
    /// Attention with its projections, forward and backward: the article's MHA.
    pub attention: Costs,
    pub transforms: Transforms,
    pub memory: Memory,
}

/// Sums over dispatches, simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Costs {
    /// Dispatches that only move bytes.
    pub conversions: usize,
    /// Their time.
    pub conversion_ms: f64,
    /// Time of the others.
    pub compute_ms: f64,
    /// Time of those among them that are matrix products, whatever runs with them.
    pub product_ms: f64,
    /// Texels that invocations load and store.
    pub requests: u64,
    /// Bytes brought into first-level caches.
    pub cache_bytes: u64,
}

impl Costs {
    fn of<'a>(steps: impl IntoIterator<Item = (&'a Step, &'a StepCost)>) -> Self {
        let mut costs = Self::default();
        for (step, cost) in steps {
            let ms = 1e3 * cost.seconds;
            *(if step.conversion { &mut costs.conversion_ms } else { &mut costs.compute_ms }) += ms;
            if step.shader.starts_with("gemm") {
                costs.product_ms += ms;
            }
            costs.conversions += usize::from(step.conversion);
            costs.requests += cost.requests;
            costs.cache_bytes += cost.cache_bytes;
        }
        costs
    }

    /// Share of conversions in the time.
    pub fn conversion_share(&self) -> f64 {
        self.conversion_ms / (self.conversion_ms + self.compute_ms).max(f64::MIN_POSITIVE)
    }
}

/// Views and copies that the graph asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Transforms {
    pub count: u64,
    pub eliminated: u64,
    /// Bytes that all would move as copies.
    pub bytes: u64,
    pub eliminated_bytes: u64,
    /// Those that are no matrix transposes.
    pub untransposed: u64,
    pub untransposed_eliminated: u64,
    /// Those of attention that move bytes.
    pub attention_explicit: u64,
}

impl Transforms {
    fn of(plan: &Plan) -> Self {
        let mut sums = Self::default();
        for t in &plan.report.transforms {
            let gone = t.verdict == Verdict::Eliminated;
            sums.count += 1;
            sums.bytes += t.bytes;
            if gone {
                sums.eliminated += 1;
                sums.eliminated_bytes += t.bytes;
            } else {
                sums.attention_explicit += u64::from(is_attention(&t.node));
            }
            if t.kind != TransformKind::Transpose {
                sums.untransposed += 1;
                sums.untransposed_eliminated += u64::from(gone);
            }
        }
        sums
    }

    /// Those that move bytes.
    pub fn explicit(&self) -> u64 {
        self.count - self.eliminated
    }

    /// Bytes that they move.
    pub fn explicit_bytes(&self) -> u64 {
        self.bytes - self.eliminated_bytes
    }
}

/// Bytes that a step holds, at most, by the limits of the preset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Weights, inputs, optimizer.
    pub external: u64,
    /// Results and arenas.
    pub computed: u64,
}

impl Memory {
    /// Of a plan.
    pub fn of(plan: &Plan) -> Self {
        let report = &plan.report;
        Self { external: report.external_bytes, computed: report.kept_bytes + report.arena_bytes }
    }

    /// All at once.
    pub fn peak(&self) -> u64 {
        self.external + self.computed
    }
}

impl Cell {
    /// Plans a model's step and predicts it.
    pub fn new(model: &'static str, graph: &Graph, machine: &Machine, way: Way) -> Result<Self, PlanError> {
        let plan = way.plan(graph, machine)?;
        let predicted = predict(&plan, graph, machine.profile);
        let steps = || plan.steps.iter().zip(&predicted.steps);
        // What runs together belongs to attention if a part of it does.
        let attention = |(step, _): &(&Step, &StepCost)| {
            step.fused.iter().chain([&step.node]).any(|&node| is_attention(&graph.nodes[node].name))
        };
        Ok(Self {
            model,
            preset: machine.name,
            way,
            stand: predicted.stand,
            dispatches: plan.report.dispatches,
            time_ms: predicted.time_ms,
            time_ms_range: predicted.time_ms_range,
            bytes_moved: predicted.bytes_moved,
            whole: Costs::of(steps()),
            attention: Costs::of(steps().filter(attention)),
            transforms: Transforms::of(&plan),
            memory: Memory::of(&plan),
        })
    }
}

/// Whether a node of a model's graph belongs to attention; gradients carry the names of what they are gradients of.
fn is_attention(name: &str) -> bool {
    const PARTS: [&str; 8] = ["attn_q", "attn_k", "attn_v", "attn_output", "scores", "weights", "heads", "joined"];
    name.split('.').any(|part| PARTS.iter().any(|p| part.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::{LORA, POLICY};
    use fblayout_models::{Options, find, train_graph};

    #[test]
    fn attention_is_told_by_name() {
        for name in ["blk.3.scores_tanh", "blk.0.attn_q.lora_a", "gradient of blk.1.heads", "MUL_MAT blk.0.attn_k_norm"]
        {
            assert!(is_attention(name), "{name}");
        }
        for name in ["blk.0.attn_norm.rows", "blk.0.attn_residual", "blk.0.ffn_up", "token_embd.weight", "logits"] {
            assert!(!is_attention(name), "{name}");
        }
    }

    /// Sums over a plan agree with what the prediction and the report say in total.
    #[test]
    fn sums_are_those_of_the_plan() {
        let config = find("gemma-3-1b").unwrap().tiny();
        let graph = train_graph(&config, &Options::new(1, 8, LORA)).unwrap().model.graph;
        let machine = Machine::find("adreno-830").unwrap();
        for way in [Way::rule(Policy::ConvertAlways), Way::selected(POLICY)] {
            let plan = way.plan(&graph, &machine).unwrap();
            let predicted = predict(&plan, &graph, machine.profile);
            let cell = Cell::new(config.name, &graph, &machine, way).unwrap();
            let Costs { conversions, conversion_ms, compute_ms, product_ms, requests, .. } = cell.whole;
            assert!(0.0 < product_ms && product_ms < compute_ms);
            // Sums of the same numbers in another order.
            assert!((conversion_ms + compute_ms - predicted.time_ms).abs() <= 1e-9 * predicted.time_ms);
            assert!((cell.whole.conversion_share() - predicted.conversion_share).abs() <= 1e-9);
            assert_eq!(requests, predicted.requests);
            assert_eq!(conversions, plan.steps.iter().filter(|s| s.conversion).count());
            assert!(cell.attention.requests < requests && cell.attention.requests > 0);
            let t = cell.transforms;
            assert_eq!(t.count as usize, plan.report.transforms.len());
            assert!(t.untransposed < t.count && t.explicit() >= t.attention_explicit);
            assert_eq!(t.explicit() == 0, t.explicit_bytes() == 0);
            let whole = plan.report.external_bytes + plan.report.kept_bytes + plan.report.arena_bytes;
            assert_eq!(cell.memory.peak(), whole);
        }
    }
}
