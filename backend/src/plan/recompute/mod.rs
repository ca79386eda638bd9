//! Recomputing: a graph within a budget of memory, by computing values again instead of keeping them.
//!
//! A pure rewrite of graphs: nodes run a second time, right before the next use of what they compute, which need not be kept in between.
//! [`path`] tells which, in an order that does not depend on the budget; how far to go is decided by plans of the rewritten graph, so that
//! what meets the budget is the memory that the plan takes. Second runs read the same bytes with the same kernels: by the rule of layouts
//! results are the same to the last bit.

mod budget;
mod facts;
mod path;
mod schedule;
#[cfg(test)]
mod tests;

pub use budget::Budget;

use crate::device::{Case, Limits, Profile};
use crate::graph::Graph;

use super::cost::Prices;
use super::{Footprint, Objective, Plan, PlanError, PlanOptions, Planner, Selector};

use facts::facts;
use path::Path;
use schedule::{Basis, Schedule};

/// Plans of rewritten graphs, besides that at the end of the path, before the search takes the best found.
const PROBES: usize = 8;

/// Plans graphs for one device, within a budget of its memory.
#[derive(Clone, Copy, Debug)]
pub struct Recompute<'a, F> {
    /// Its limits.
    pub limits: &'a Limits,
    /// Storage and policy.
    pub options: PlanOptions,
    /// What storages take on it.
    pub footprint: &'a F,
    /// How layouts are selected, and for what machine; the rule if nothing is said.
    pub selection: Option<(Selector, &'a Profile)>,
}

/// A graph that was rewritten, its plan, and what was done.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// Values keep their ids; new ones come after them.
    pub graph: Graph,
    /// Its plan; steps name nodes of this graph.
    pub plan: Plan,
    /// What was done.
    pub recomputed: Recomputed,
}

/// What recomputing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Recomputed {
    /// Nodes that run again.
    pub nodes: usize,
    /// Operations of these runs.
    pub flops: u64,
    /// Bytes that the plan takes less: weights and state, results and arena together.
    pub bytes_saved: u64,
    /// Milliseconds before and after, *simulated*, where the machine is known.
    pub simulated_ms: Option<[f64; 2]>,
}

impl std::fmt::Display for Recomputed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let saved = self.bytes_saved as f64 / f64::from(1 << 20);
        write!(f, "recomputed: {} nodes, {:.3} GFLOP, {saved:.1} MiB saved", self.nodes, self.flops as f64 / 1e9)?;
        match self.simulated_ms {
            Some([before, after]) => write!(f, "; simulated: {before:.3} ms before, {after:.3} after"),
            None => Ok(()),
        }
    }
}

impl<F: Footprint> Recompute<'_, F> {
    /// Plans a graph so that it takes no more memory than the budget, recomputing as little as is found to do.
    ///
    /// # Errors
    /// [`PlanError::Budget`] with the smallest budget that is met, which [`Recompute::smallest`] plans; else as [`super::plan`].
    pub fn within(&self, graph: &Graph, budget: u64) -> Result<Rewritten, PlanError> {
        self.search(graph, Some(budget))
    }

    /// Plans a graph with the least memory that is found.
    ///
    /// # Errors
    /// As [`super::plan`].
    pub fn smallest(&self, graph: &Graph) -> Result<Rewritten, PlanError> {
        self.search(graph, None)
    }

    fn search(&self, graph: &Graph, budget: Option<u64>) -> Result<Rewritten, PlanError> {
        let Self { limits, options, footprint, selection } = *self;
        let side_by_side = |graph: &Graph| Planner::new(limits, options, selection).plan(graph, footprint);
        let planner = &mut Planner::new(limits, options, selection).in_turn();
        let original = side_by_side(graph)?;
        let total = original.report.total_bytes();
        let as_written = |plan: Plan| {
            let bytes_saved = total - plan.report.total_bytes();
            let recomputed = Recomputed { bytes_saved, ..Recomputed::default() };
            Ok(Rewritten { graph: graph.clone(), plan, recomputed })
        };
        if budget.is_some_and(|budget| total <= budget) {
            return as_written(original);
        }
        let original =
            Some(planner.plan(graph, footprint)?).filter(|p| p.report.total_bytes() < total).unwrap_or(original);
        let at_first = original.report.total_bytes();
        if budget.is_some_and(|budget| at_first <= budget) {
            return as_written(original);
        }
        // The model has every node by itself: what runs together is found anew in every rewritten graph. Some values may fit no
        // storage, and be planned only because they are never stored.
        let single = PlanOptions { policy: options.policy.unfused(), ..options };
        let apart = (single != options).then(|| super::plan(graph, limits, single, footprint).ok()).flatten();
        let facts = facts(graph, apart.as_ref().unwrap_or(&original), limits, options, footprint, self.profile());
        let basis = Basis::new(graph, facts, !options.apart);
        let path = &Path::new(&basis);
        let mut probe = |count| self.probe(planner, path, count);
        let end = probe(path.end())?;
        // A budget that the end meets is met. Any other is one that the least of all meets, or it is refused with that.
        let found = match budget {
            Some(budget) if end.bytes() <= budget => cheapest(&mut probe, path, end, at_first, budget)?,
            _ => least(&mut probe, path, end)?,
        };
        if let Some(budget) = budget.filter(|&budget| found.bytes() > budget) {
            return Err(PlanError::Budget { budget, smallest: found.bytes().min(at_first) });
        }
        if found.bytes() >= at_first {
            return as_written(original);
        }
        let (nodes, flops) = found.schedule.repeated(&basis);
        // Dispatches side by side take fewer barriers, and perhaps a little more memory: where the budget has it, they may.
        let eased =
            budget.and_then(|budget| side_by_side(&found.graph).ok().filter(|p| p.report.total_bytes() <= budget));
        let plan = eased.unwrap_or(found.plan);
        let bytes_saved = total - plan.report.total_bytes();
        let milliseconds = |graph: &Graph, plan: &Plan, profile| {
            1e3 * Objective::TimeHarmonic.cost(&Prices::new(profile, Case::Middle).of(graph, &plan.steps))
        };
        let simulated_ms =
            self.profile().map(|p| [milliseconds(graph, &original, p), milliseconds(&found.graph, &plan, p)]);
        let recomputed = Recomputed { nodes, flops, bytes_saved, simulated_ms };
        Ok(Rewritten { graph: found.graph, plan, recomputed })
    }

    fn profile(&self) -> Option<&Profile> {
        self.selection.map(|(_, profile)| profile)
    }

    fn probe(&self, planner: &mut Planner<'_>, path: &Path<'_>, count: usize) -> Result<Probe, PlanError> {
        let schedule = path.schedule(count);
        let graph = schedule.graph(path.basis());
        Ok(Probe { count, plan: planner.plan(&graph, self.footprint)?, graph, schedule })
    }
}

/// A rewritten graph and its plan.
struct Probe {
    /// Choices of the path that were made.
    count: usize,
    schedule: Schedule,
    graph: Graph,
    plan: Plan,
}

impl Probe {
    fn bytes(&self) -> u64 {
        self.plan.report.total_bytes()
    }

    /// Bytes of the plan that the path knows nothing of.
    fn beyond(&self, path: &Path<'_>) -> i128 {
        i128::from(self.bytes()) - i128::from(path.peak(self.count))
    }
}

/// The plan with the fewest choices that meets a budget, as the end of the path does; `total` is what no choice takes. The peaks of
/// the path are those of a model; how far a plan is from them is learnt from the plans made so far.
fn cheapest(
    probe: &mut impl FnMut(usize) -> Result<Probe, PlanError>,
    path: &Path<'_>,
    end: Probe,
    total: u64,
    budget: u64,
) -> Result<Probe, PlanError> {
    let mut beyond = i128::from(total) - i128::from(path.peak(0));
    let (mut low, mut high) = (0, end);
    for probes in 0..PROBES {
        let wanted = i128::from(budget) - beyond;
        let count = match (low + 1..high.count).find(|&count| i128::from(path.peak(count)) <= wanted) {
            // Where a plan was too large, the next one of the path may be as well.
            Some(next) if next == low + 1 && probes > 0 => low + (high.count - low) / 2,
            Some(count) => count,
            None => break,
        };
        let found = probe(count)?;
        beyond = found.beyond(path);
        if found.bytes() <= budget {
            high = found;
        } else {
            low = count;
        }
    }
    Ok(high)
}

/// The plan that takes least of those that the path has nearly as low as its end. It does not depend on a budget: what it takes is the
/// smallest that is met.
fn least(
    probe: &mut impl FnMut(usize) -> Result<Probe, PlanError>,
    path: &Path<'_>,
    end: Probe,
) -> Result<Probe, PlanError> {
    let mut beyond = end.beyond(path);
    let mut best = end;
    for count in path.by_peak().into_iter().filter(|&count| count != path.end()).take(PROBES) {
        if i128::from(path.peak(count)) + beyond >= i128::from(best.bytes()) {
            break;
        }
        let found = probe(count)?;
        beyond = beyond.min(found.beyond(path));
        if found.bytes() < best.bytes() {
            best = found;
        }
    }
    Ok(best)
}
