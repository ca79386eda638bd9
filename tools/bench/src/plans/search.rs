//! What the selectors find, and how long planning takes.

use fblayout::graph::Graph;
use fblayout::plan::{PlanError, PlanOptions, Planner, Policy, Selection, Selector, UpperBound};
use fblayout_models::{Config, Options, train_graph};
use serde::Serialize;

use crate::Failure;
use crate::numbers::{Quantiles, or_dash, short};
use crate::reference::Machine;
use crate::steps::timed;
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
    /// Selected among every tile with whole lanes, not only those that rules C1 to C3 leave.
    unpruned: Measured,
    /// By a planner that has planned the step of this length.
    replanned: Vec<Replanned>,
}

/// A plan for another length.
#[derive(Clone, Copy, Serialize)]
struct Replanned {
    seq: u32,
    ms: f64,
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
        config: &Config,
        options: Options,
        machine: &Machine,
        selected: Way,
        runs: usize,
    ) -> Result<Self, Failure> {
        let graph = |seq| -> Result<Graph, Failure> {
            Ok(train_graph(config, &Options::new(options.batch, seq, options.training))?.model.graph)
        };
        let seen = graph(options.seq)?;
        let memory = UpperBound(&machine.limits);
        let time = |way: Way, unpruned: bool| -> Result<Measured, Failure> {
            let options = PlanOptions { unpruned, ..way.options() };
            let plan =
                || Planner::new(&machine.limits, options, Some((way.selector, machine.profile))).plan(&seen, &memory);
            let once = || timed(|| Ok(plan()?)).map(|(_, ms)| ms);
            let first = once()?;
            let again = (0..runs.max(1)).map(|_| once()).collect::<Result<Vec<f64>, _>>()?;
            let again = Quantiles::of(&again).ok_or("no plan was timed")?;
            Ok(Measured { first, again })
        };
        // The selected plan is the one that the bar is for, hence first.
        let (first, unpruned) = (time(selected, false)?, time(selected, true)?);
        let rule = time(Way::rule(selected.policy), false)?;
        let replanned = |seq: u32| -> Result<Replanned, Failure> {
            let mut planner = selected.planner(machine);
            planner.plan(&seen, &memory)?;
            let other = graph(seq)?;
            let (_, ms) = timed(|| Ok(planner.plan(&other, &memory)?))?;
            Ok(Replanned { seq, ms })
        };
        Ok(Self {
            model: config.name,
            preset: machine.name,
            nodes: seen.nodes.len(),
            rule,
            selected: first,
            unpruned,
            replanned: OTHER_LENGTHS
                .map(|share| replanned(share(options.seq)))
                .into_iter()
                .collect::<Result<_, _>>()?,
        })
    }
}

/// Lengths that a step is planned for anew: one that keeps no whole tile, a shorter and a longer one.
const OTHER_LENGTHS: [fn(u32) -> u32; 3] = [|seq| (seq - 1).max(1), |seq| seq.div_ceil(4), |seq| 2 * seq];

/// S1 to S4 without pipelines.
pub fn plan_times(times: &[Times]) -> Table {
    let head = [
        "model",
        "nodes",
        "selected: first ms",
        "median ms",
        "p90 ms",
        "S2 unpruned: median ms",
        "rule: first ms",
        "median ms",
        "p90 ms",
    ];
    let other = times.first().map(|t| t.replanned.iter().map(|r| format!("S4 for {} tokens ms", r.seq)).collect());
    let other: Vec<String> = other.unwrap_or_default();
    let mut table = Table::new("plan-times", head.map(str::to_owned).into_iter().chain(other));
    for Times { model, nodes, rule, selected, unpruned, replanned, .. } in times {
        let parts = |m: &Measured| [m.first, m.again.median, m.again.p90].map(short);
        let first = [(*model).to_owned(), nodes.to_string()].into_iter();
        let replanned = replanned.iter().map(|r| short(r.ms));
        let unpruned = [short(unpruned.again.median)];
        table.row(first.chain(parts(selected)).chain(unpruned).chain(parts(rule)).chain(replanned));
    }
    table
}
