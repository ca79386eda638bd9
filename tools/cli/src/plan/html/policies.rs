//! The same step by every policy.

use std::time::Instant;

use fblayout::graph::Graph;
use fblayout::plan::{PlanOptions, Policy, Verdict, predict};
use serde::Serialize;

use super::super::arguments::Arguments;
use super::super::told::Told;
use crate::page::scale::round;
use crate::target::Target;
use crate::units;

/// A policy's plan.
#[derive(Serialize)]
pub struct Line {
    policy: &'static str,
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

/// What is compared.
struct Figures {
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

/// Plans by every policy and puts them side by side; nothing where no profile says how fast the device is.
///
/// # Errors
/// The device cannot be opened.
pub fn table(
    arguments: &Arguments,
    graph: &Graph,
    told: &Told<'_>,
) -> Result<Option<Vec<Line>>, Box<dyn std::error::Error>> {
    if told.predicted.is_none() {
        return Ok(None);
    }
    let mut figures = Vec::new();
    for (name, policy) in Policy::ALL {
        let target = Target::find(&arguments.device, PlanOptions { policy, ..arguments.options() })?;
        figures.push((name, policy, figures_of(&target, graph, told)));
    }
    let made = || figures.iter().filter_map(|(.., f)| f.as_ref().ok());
    let most = |f: &dyn Fn(&Figures) -> f64| made().map(f).fold(f64::MIN_POSITIVE, f64::max);
    let fastest = made().map(|f| f.seconds).fold(f64::INFINITY, f64::min);
    let (slowest, widest, fullest) = (most(&|f| f.seconds), most(&|f| f.bytes as f64), most(&|f| f.peak as f64));
    let line = |(policy, named, found): &(&'static str, Policy, Result<Figures, String>)| Line {
        policy,
        chosen: *named == arguments.policy,
        refused: found.as_ref().err().cloned(),
        made: found.as_ref().ok().map(|f| Made {
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
    Ok(Some(figures.iter().map(line).collect()))
}

fn figures_of(target: &Target, graph: &Graph, told: &Told<'_>) -> Result<Figures, String> {
    let start = Instant::now();
    let plan = target.plan(graph, told.selector).map_err(|e| e.to_string())?;
    let plan_seconds = start.elapsed().as_secs_f64();
    let profile = target.profile().ok_or("no profile")?;
    let predicted = predict(&plan, graph, profile);
    let report = &plan.report;
    let moved: Vec<u64> =
        report.transforms.iter().filter(|t| t.verdict != Verdict::Eliminated).map(|t| t.bytes).collect();
    Ok(Figures {
        seconds: predicted.time_ms / 1e3,
        range: predicted.time_ms_range.map(|ms| ms / 1e3),
        share: predicted.conversion_share,
        bytes: predicted.bytes_moved,
        dispatches: report.dispatches,
        conversions: moved.len(),
        moved: moved.iter().sum(),
        peak: report.total_bytes(),
        plan_seconds,
    })
}
