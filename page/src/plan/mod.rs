//! The page that draws a plan: what is dispatched, what lives where and when, what vanished and what moves.
//!
//! Every predicted figure stands under the word *simulated*.

pub mod coordinates;
mod fold;
mod glyph;
mod memory;
mod ops;
mod policies;
mod steps;
pub mod tensors;

use std::collections::BTreeMap;
use std::time::Duration;

use fblayout::device::Profile;
use fblayout::graph::{Graph, sum};
use fblayout::plan::{Plan, Prediction, Recomputed, Selection, StepCost, TransformKind, Verdict};
use serde::Serialize;

use crate::roofline::{Chart, Work};
use crate::{Error, Fact, STYLE, render, units};
pub use policies::{ByPolicy, Figures};
use tensors::Tensor;

const TEMPLATE: &str = include_str!("page.html");

/// A plan with what is known of it.
pub struct Known<'a> {
    /// The graph as it runs, whose nodes the plan's steps name.
    pub graph: &'a Graph,
    /// The plan.
    pub plan: &'a Plan,
    /// What its slots hold: [`tensors::tensors`].
    pub tensors: &'a [Tensor],
    /// What the machine does, where that is known.
    pub profile: Option<&'a Profile>,
    /// What the plan takes on that machine.
    pub predicted: Option<&'a Prediction>,
    /// Whether sizes are the device's own, and not an upper bound from its limits.
    pub exact: bool,
}

/// What a page says beside what is drawn of a plan.
#[derive(Default)]
pub struct Words<'a> {
    /// What the step is of.
    pub title: &'a str,
    /// What was planned, for which device and how: a sentence without its full stop.
    pub what: &'a str,
    /// How long planning took, where that is told.
    pub took: Option<Duration>,
    /// What recomputing did, where it was asked for.
    pub recomputed: Option<&'a Recomputed>,
    /// What the selectors of layouts find, where that is told.
    pub selection: Option<&'a Selection>,
    /// The same step by every policy, where they are compared.
    pub policies: &'a [ByPolicy],
}

/// All that the template places.
#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    title: &'a str,
    what: &'a str,
    facts: Vec<Fact>,
    recomputed: Option<String>,
    timeline: Vec<steps::Piece>,
    memory: memory::Chart,
    roofline: Option<Chart>,
    ops: Option<Vec<ops::Line>>,
    rates: Option<Vec<Fact>>,
    policies: Vec<policies::Line>,
    selectors: Option<Vec<Fact>>,
    conversions: Vec<Conversion>,
    vanished: Vec<Vanished>,
    sections: Vec<steps::Section>,
    legend: Vec<glyph::Meaning>,
}

/// Draws a plan.
///
/// # Errors
/// The template does not fit, which is a defect.
pub fn page(known: &Known<'_>, words: &Words<'_>) -> Result<String, Error> {
    let steps = steps::Steps::new(known);
    let predicted = known.profile.zip(known.predicted);
    let page = Page {
        style: STYLE,
        title: words.title,
        what: words.what,
        facts: facts(known, words),
        recomputed: words.recomputed.map(ToString::to_string),
        timeline: steps.timeline(),
        memory: memory::Chart::new(known),
        roofline: predicted.map(|(profile, p)| roofline(profile, known.plan, &p.steps)),
        ops: predicted.map(|(profile, p)| ops::table(profile, known.plan, &p.steps)),
        rates: known.profile.map(rates),
        policies: policies::table(words.policies),
        selectors: words.selection.map(selectors),
        conversions: conversions(known),
        vanished: vanished(known),
        sections: steps.sections(),
        legend: glyph::legend(),
    };
    render(TEMPLATE, &page)
}

/// Every kind of op under the machine's roof, in the order of the table.
fn roofline(profile: &Profile, plan: &Plan, costs: &[StepCost]) -> Chart {
    let work = |k: ops::Kind| {
        let title = format!(
            "{}\nsimulated: {} in {} dispatches\n{} at {}, bound by {}",
            k.op,
            units::seconds(k.seconds),
            k.count,
            units::decimal(k.flops as f64 / k.seconds, "FLOP/s"),
            units::decimal(k.flops as f64 / k.bytes as f64, "FLOP/B"),
            k.bound
        );
        let (flops, bytes) = (k.flops as f64, k.bytes as f64);
        Work { name: k.name(), title, conversion: k.conversion, seconds: k.seconds, flops, bytes }
    };
    let work: Vec<Work> = ops::kinds(plan, costs).into_iter().map(work).collect();
    Chart::new(profile, &[], "operations a byte from and to memory, FLOP/B (simulated)", &work)
}

fn facts(known: &Known<'_>, words: &Words<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, value, note: String| facts.push(Fact { name, value, note });
    if let Some(p) = known.predicted {
        let [fast, slow] = p.time_ms_range.map(|ms| units::seconds(ms / 1e3));
        fact("time of a step", units::seconds(p.time_ms / 1e3), format!("simulated; {fast} to {slow}"));
        let flops = units::decimal(p.flops as f64, "FLOP");
        fact("from and to memory", units::bytes(p.bytes_moved), format!("simulated; {flops}"));
        let share = units::percent(p.conversion_share);
        fact("in conversions", share, "of the time, simulated".into());
    }
    let report = &known.plan.report;
    let eliminated = report.transforms.iter().filter(|t| t.verdict == Verdict::Eliminated).count();
    let bytes = units::bytes(sum(report.transforms.iter().map(|t| t.bytes)));
    let by_count = format!("{eliminated} of {}", report.transforms.len());
    fact("transforms vanished", by_count, format!("of {bytes} that copies would move"));
    let certainty = if known.exact { "as the device says" } else { "at most, from the device's limits" };
    let arena = units::bytes(report.arena_bytes);
    fact("peak memory", units::bytes(report.total_bytes()), format!("{certainty}; arena {arena}"));
    let nodes = known.graph.nodes.len();
    fact("dispatches", report.dispatches.to_string(), format!("for {nodes} nodes; {} barriers", report.barriers));
    if let Some(took) = words.took {
        fact("time of planning", units::seconds(took.as_secs_f64()), "measured here".into());
    }
    facts
}

/// What the machine does at most, with the range where the figure is not public.
fn rates(profile: &Profile) -> Vec<Fact> {
    let rate = |name, e: fblayout::device::Estimate, unit: &str| {
        let [lo, hi] = [e.lo, e.hi].map(|x| units::decimal(x, unit));
        let note = if lo == hi { "known".to_owned() } else { format!("{lo} to {hi}") };
        Fact { name, value: units::decimal(e.mid, unit), note }
    };
    vec![
        rate("arithmetic, f32", profile.flops_f32, "FLOP/s"),
        rate("memory", profile.memory_rate, "B/s"),
        rate("copies", profile.copy_rate, "B/s"),
        rate("shared cache", profile.l2_rate, "B/s"),
        rate("texels from images", profile.texels, "texel/s"),
        rate("buffers, first level", profile.buffer_bytes, "B/s"),
    ]
}

/// What the selectors find in the abstract problem.
fn selectors(selection: &Selection) -> Vec<Fact> {
    let least =
        [selection.rule, selection.greedy, selection.dp, selection.pbqp].into_iter().fold(f64::INFINITY, f64::min);
    let told = |cost: f64| units::cost(cost, selection.objective);
    let cost = |name, cost: f64| {
        let above = cost - least;
        let note = if above > 0.0 { format!("{} above the best", told(above)) } else { "the best".to_owned() };
        Fact { name, value: told(cost), note }
    };
    vec![
        cost("rule", selection.rule),
        cost("paper-greedy", selection.greedy),
        cost("chain-dp", selection.dp),
        cost("pbqp", selection.pbqp),
        Fact { name: "lower bound", value: told(selection.lower_bound), note: "no choice costs less".into() },
    ]
}

/// Transforms of one kind that became coordinates.
#[derive(Serialize)]
struct Vanished {
    kind: String,
    count: usize,
    bytes: String,
}

fn vanished(known: &Known<'_>) -> Vec<Vanished> {
    let mut kinds: BTreeMap<TransformKind, (usize, u64)> = BTreeMap::new();
    for transform in known.plan.report.transforms.iter().filter(|t| t.verdict == Verdict::Eliminated) {
        let (count, bytes) = kinds.entry(transform.kind).or_default();
        (*count, *bytes) = (*count + 1, sum([*bytes, transform.bytes]));
    }
    let line = |(kind, (count, bytes))| Vanished { kind: glyph::kind(kind), count, bytes: units::bytes(bytes) };
    kinds.into_iter().map(line).collect()
}

/// Conversions of one kind and reason.
#[derive(Serialize)]
struct Conversion {
    kind: String,
    reason: String,
    count: usize,
    bytes: String,
    first: String,
}

fn conversions(known: &Known<'_>) -> Vec<Conversion> {
    let mut found: Vec<(Conversion, u64)> = Vec::new();
    for transform in &known.plan.report.transforms {
        let Verdict::Explicit(reason) = &transform.verdict else { continue };
        let kind = glyph::kind(transform.kind);
        match found.iter_mut().find(|(c, _)| c.kind == kind && c.reason == *reason) {
            Some((conversion, bytes)) => {
                conversion.count += 1;
                *bytes = sum([*bytes, transform.bytes]);
            }
            None => {
                let (reason, first) = (reason.clone(), transform.node.clone());
                found.push((Conversion { kind, reason, count: 1, bytes: String::new(), first }, transform.bytes));
            }
        }
    }
    found.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    found.into_iter().map(|(conversion, bytes)| Conversion { bytes: units::bytes(bytes), ..conversion }).collect()
}
