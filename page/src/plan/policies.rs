//! The same step by other policies.

use std::time::Duration;

use fblayout::device::Profile;
use fblayout::graph::{Graph, sum};
use fblayout::plan::{Plan, Policy, Verdict, predict};
use serde::Serialize;

use crate::scale::round;
use crate::units;

/// A policy, with what its plan comes to.
pub struct ByPolicy {
    /// The policy.
    pub policy: Policy,
    /// Whether it is that of the plan that the page is about.
    pub chosen: bool,
    /// Its figures, or why there is no plan.
    pub found: Result<Figures, String>,
}

/// What policies are compared by.
pub struct Figures {
    seconds: f64,
    range: [f64; 2],
    share: f64,
    bytes: u64,
    dispatches: usize,
    conversions: usize,
    moved: u64,
    peak: u64,
    plan_seconds: f64,
}

impl Figures {
    /// Figures of a plan that took so long to make, with times and bytes simulated for a machine.
    pub fn of(plan: &Plan, graph: &Graph, machine: &Profile, took: Duration) -> Self {
        let predicted = predict(plan, graph, machine);
        let report = &plan.report;
        let moved: Vec<u64> =
            report.transforms.iter().filter(|t| t.verdict != Verdict::Eliminated).map(|t| t.bytes).collect();
        Self {
            seconds: predicted.time_ms / 1e3,
            range: predicted.time_ms_range.map(|ms| ms / 1e3),
            share: predicted.conversion_share,
            bytes: predicted.bytes_moved,
            dispatches: report.dispatches,
            conversions: moved.len(),
            moved: sum(moved),
            peak: report.total_bytes(),
            plan_seconds: took.as_secs_f64(),
        }
    }
}

/// A policy's line of the table.
#[derive(Serialize)]
pub struct Line {
    policy: String,
    chosen: bool,
    /// Why there is none.
    refused: Option<String>,
    made: Option<Made>,
}

#[derive(Serialize)]
struct Made {
    time: String,
    range: String,
    /// Times the fastest policy's.
    times: String,
    /// Percent of the slowest policy's time, of which in conversions.
    bar: f64,
    bar_moved: f64,
    bytes: String,
    bytes_bar: f64,
    dispatches: usize,
    conversions: usize,
    moved: String,
    share: String,
    peak: String,
    peak_bar: f64,
    plan_time: String,
}

/// Puts policies side by side.
pub fn table(policies: &[ByPolicy]) -> Vec<Line> {
    let made = || policies.iter().filter_map(|by| by.found.as_ref().ok());
    let most = |f: &dyn Fn(&Figures) -> f64| made().map(f).fold(f64::MIN_POSITIVE, f64::max);
    let fastest = made().map(|f| f.seconds).fold(f64::INFINITY, f64::min);
    let (slowest, widest, fullest) = (most(&|f| f.seconds), most(&|f| f.bytes as f64), most(&|f| f.peak as f64));
    let line = |by: &ByPolicy| Line {
        policy: by.policy.to_string(),
        chosen: by.chosen,
        refused: by.found.as_ref().err().cloned(),
        made: by.found.as_ref().ok().map(|f| Made {
            time: units::seconds(f.seconds),
            range: format!("{} to {}", units::seconds(f.range[0]), units::seconds(f.range[1])),
            times: format!("{:.2} x", f.seconds / fastest),
            bar: round(100.0 * f.seconds * (1.0 - f.share) / slowest),
            bar_moved: round(100.0 * f.seconds * f.share / slowest),
            bytes: units::bytes(f.bytes),
            bytes_bar: round(100.0 * f.bytes as f64 / widest),
            dispatches: f.dispatches,
            conversions: f.conversions,
            moved: units::bytes(f.moved),
            share: units::percent(f.share),
            peak: units::bytes(f.peak),
            peak_bar: round(100.0 * f.peak as f64 / fullest),
            plan_time: units::seconds(f.plan_seconds),
        }),
    };
    policies.iter().map(line).collect()
}
