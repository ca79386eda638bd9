//! What the selectors find, and how long planning takes.

use std::time::Instant;

use fblayout::graph::Graph;
use fblayout::plan::{PlanError, PlanOptions, Policy, Selection, Selector};
use serde::Serialize;

use crate::Failure;
use crate::numbers::{Quantiles, or_dash, short};
use crate::reference::Machine;
use crate::table::Table;

use super::cell::{Cell, Way};

/// The selectors on one model and machine, simulated.
#[derive(Serialize)]
pub struct Row {
    model: &'static str,
    preset: &'static str,
    #[serde(flatten)]
    selection: Selection,
}

impl Row {
    pub fn new(model: &'static str, graph: &Graph, machine: &Machine, policy: Policy) -> Result<Self, PlanError> {
        let options = PlanOptions { policy, ..PlanOptions::default() };
        let selection = Selection::of(graph, &machine.limits, options, machine.profile, Selector::ChainDp)?;
        Ok(Self { model, preset: machine.name, selection })
    }
}

/// Costs of the abstract problem by selector, and the times of the plans that come out.
pub fn selections(rows: &[Row], cells: &[Cell]) -> Table {
    let head = [
        "model",
        "preset",
        "rule",
        "greedy",
        "dp",
        "pbqp",
        "gap dp %",
        "gap pbqp %",
        "rho %",
        "plan: rule",
        "plan: dp",
    ];
    let mut table = Table::new("selections", head);
    for Row { model, preset, selection: s } in rows {
        let above = |cost: f64| format!("{:.3}", 100.0 * cost / s.lower_bound);
        let planned = |way: Way| {
            let cell = cells.iter().find(|c| (c.model, c.preset, c.way) == (*model, *preset, way));
            or_dash(cell.map(|c| short(c.time_ms)))
        };
        let policy = crate::reference::POLICY;
        table.row(
            [(*model).to_owned(), (*preset).to_owned()]
                .into_iter()
                .chain([s.rule, s.greedy, s.dp, s.pbqp].map(|seconds| format!("{:.1}", 1e3 * seconds)))
                .chain([s.dp, s.pbqp].map(|cost| above(cost - s.lower_bound)))
                .chain([above(s.certificate.rho), planned(Way::rule(policy)), planned(Way::selected(policy))]),
        );
    }
    table
}

/// Plan times of a model, measured here: from the graph to the plan, no pipeline made.
#[derive(Serialize)]
pub struct Times {
    model: &'static str,
    preset: &'static str,
    nodes: usize,
    rule: Measured,
    selected: Measured,
}

/// Milliseconds of planning.
#[derive(Clone, Copy, Serialize)]
struct Measured {
    /// The first time in this process.
    first: f64,
    again: Quantiles,
}

impl Times {
    pub fn measure(
        model: &'static str,
        graph: &Graph,
        machine: &Machine,
        selected: Way,
        runs: usize,
    ) -> Result<Self, Failure> {
        let time = |way: Way| -> Result<Measured, Failure> {
            let once = || -> Result<f64, PlanError> {
                let start = Instant::now();
                way.plan(graph, machine)?;
                Ok(1e3 * start.elapsed().as_secs_f64())
            };
            let first = once()?;
            let again = (0..runs.max(1)).map(|_| once()).collect::<Result<Vec<f64>, _>>()?;
            let again = Quantiles::of(&again).ok_or("no plan was timed")?;
            Ok(Measured { first, again })
        };
        // The selected plan is the one that the bar is for, hence first.
        let (selected, rule) = (time(selected)?, time(Way::rule(selected.policy))?);
        Ok(Self { model, preset: machine.name, nodes: graph.nodes.len(), rule, selected })
    }
}

/// S1 and S3 without pipelines.
pub fn plan_times(times: &[Times]) -> Table {
    let head = ["model", "nodes", "selected: first ms", "median ms", "p90 ms", "rule: first ms", "median ms", "p90 ms"];
    let mut table = Table::new("plan-times", head);
    for Times { model, nodes, rule, selected, .. } in times {
        let parts = |m: &Measured| [m.first, m.again.median, m.again.p90].map(short);
        table.row([(*model).to_owned(), nodes.to_string()].into_iter().chain(parts(selected)).chain(parts(rule)));
    }
    table
}
