//! What rules C1 to C3 save: the same plan with them and without.

use std::time::Instant;

use fblayout::graph::Graph;
use fblayout::plan::{PlanOptions, Selector};
use serde::Serialize;

use super::arguments::Arguments;
use crate::candidates::Tally;
use crate::target::Target;

/// The two plans.
#[derive(Serialize)]
pub struct Pruning {
    pruned: Made,
    unpruned: Made,
}

/// A plan, and what its layouts were selected from.
#[derive(Serialize)]
struct Made {
    /// Tiles that are left of those that the tensors could have.
    tiles: usize,
    /// Different homes among them.
    homes: usize,
    /// Time of judging all of them.
    candidates_ms: f64,
    plan_ms: f64,
}

/// Makes both plans, each with nothing known from the other; nothing where no profile says what the rules mean.
pub fn compare(
    arguments: &Arguments,
    graph: &Graph,
    selector: Selector,
) -> Result<Option<Pruning>, Box<dyn std::error::Error>> {
    let made = |unpruned| -> Result<Option<Made>, Box<dyn std::error::Error>> {
        let target = Target::find(&arguments.device, PlanOptions { unpruned, ..arguments.options() })?;
        let Some(profile) = target.profile() else { return Ok(None) };
        let start = Instant::now();
        let plan = target.plan(graph, selector)?;
        let plan_ms = start.elapsed().as_secs_f64() * 1e3;
        let start = Instant::now();
        let tally = Tally::of(&plan, profile, !unpruned)?;
        let candidates_ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(Some(Made { tiles: tally.left(!unpruned), homes: tally.homes(), candidates_ms, plan_ms }))
    };
    Ok(made(false)?.zip(made(true)?).map(|(pruned, unpruned)| Pruning { pruned, unpruned }))
}

impl std::fmt::Display for Pruning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pruned, unpruned } = self;
        let line = |Made { tiles, homes, candidates_ms, plan_ms }: &Made| {
            format!("{tiles} tiles, {homes} homes, judged in {candidates_ms:.1} ms, planned in {plan_ms:.0} ms")
        };
        write!(f, "rules C1 to C3: {}\nrule C0 alone:  {}", line(pruned), line(unpruned))
    }
}
