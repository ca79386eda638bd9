//! The page that draws a step: one file, without anything from elsewhere.
//!
//! What is drawn is computed here, in numbers and texts with their units; the template only places it. Every predicted figure stands
//! under the word *simulated*.

mod fold;
mod glyph;
mod memory;
mod ops;
mod policies;
mod steps;

use std::collections::BTreeMap;
use std::path::Path;

use fblayout::device::Profile;
use fblayout::plan::{Plan, Selection, Selector, StepCost, TransformKind, Verdict};
use serde::Serialize;

use super::arguments::Arguments;
use super::explain::Known;
use super::told::Told;
use crate::page::roofline::{Chart, Work};
use crate::page::{self, Fact, Output};
use crate::target::Target;
use crate::units;

const TEMPLATE: &str = include_str!("page.html");

/// All that the template places.
#[derive(Serialize)]
struct Page {
    style: &'static str,
    facts: Vec<Fact>,
    head: Head,
    recomputed: Option<String>,
    timeline: Vec<steps::Piece>,
    memory: memory::Chart,
    roofline: Option<Chart>,
    ops: Option<Vec<ops::Line>>,
    rates: Option<Vec<Fact>>,
    policies: Option<Vec<policies::Line>>,
    selectors: Option<Vec<Fact>>,
    conversions: Vec<Conversion>,
    vanished: Vec<Vanished>,
    sections: Vec<steps::Section>,
    legend: Vec<glyph::Meaning>,
}

/// Draws a plan and every policy beside it, and writes the page whole or not at all.
///
/// # Errors
/// A policy's device cannot be opened again, or the file cannot be written.
pub fn write(
    path: &Path,
    arguments: &Arguments,
    known: &Known<'_>,
    told: &Told<'_>,
    target: &Target,
) -> Result<(), Box<dyn std::error::Error>> {
    // A path that cannot be written is told before anything is drawn.
    let file = Output::create(path)?;
    let steps = steps::Steps::new(known);
    let predicted = known.profile.zip(known.predicted);
    let page = Page {
        style: page::STYLE,
        facts: facts(told),
        head: head(told),
        recomputed: told.recompute.as_ref().map(ToString::to_string),
        timeline: steps.timeline(),
        memory: memory::Chart::new(known, target),
        roofline: predicted.map(|(profile, p)| roofline(profile, known.plan, &p.steps)),
        ops: predicted.map(|(profile, p)| ops::table(profile, known.plan, &p.steps)),
        rates: known.profile.map(rates),
        policies: policies::table(arguments, known.graph, told)?,
        selectors: told.selection.as_ref().map(selectors),
        conversions: conversions(known),
        vanished: vanished(known),
        sections: steps.sections(),
        legend: glyph::legend(),
    };
    Ok(file.commit(&page::render(TEMPLATE, &page)?)?)
}

/// Every kind of op under the preset's roof, in the order of the table.
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

#[derive(Serialize)]
struct Head {
    model: String,
    what: String,
}

fn head(told: &Told<'_>) -> Head {
    let trained = told.rank.map_or_else(|| "all parameters trained".to_owned(), |rank| format!("LoRA of rank {rank}"));
    let model = Path::new(told.model).file_name().map_or(told.model.into(), |name| name.to_string_lossy());
    Head {
        model: model.into_owned(),
        what: format!(
            "One training step of {} x {} tokens, {trained}, on {}, by policy {} with selector {}",
            told.batch,
            told.seq,
            told.device,
            told.policy,
            name_of(told.selector)
        ),
    }
}

fn name_of(selector: Selector) -> &'static str {
    Selector::ALL.into_iter().find(|(_, other)| *other == selector).map_or("", |(name, _)| name)
}

fn facts(told: &Told<'_>) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |name, value, note: String| facts.push(Fact { name, value, note });
    if let Some(p) = &told.predicted {
        let [fast, slow] = p.time_ms_range.map(|ms| units::seconds(ms / 1e3));
        fact("time of a step", units::seconds(p.time_ms / 1e3), format!("simulated; {fast} to {slow}"));
        let flops = units::decimal(p.flops as f64, "FLOP");
        fact("from and to memory", units::bytes(p.bytes_moved), format!("simulated; {flops}"));
        let share = units::percent(p.conversion_share);
        fact("in conversions", share, "of the time, simulated".into());
    }
    let by_count = format!("{} of {}", told.transforms.eliminated, told.transforms.count);
    fact("transforms vanished", by_count, format!("of {} that copies would move", units::bytes(told.transforms.bytes)));
    let certainty = if told.peak_is_bound { "at most, from the device's limits" } else { "as the device says" };
    let arena = units::bytes(told.arena_bytes);
    fact("peak memory", units::bytes(told.peak_bytes), format!("{certainty}; arena {arena}"));
    fact("dispatches", told.dispatches.to_string(), format!("for {} nodes; {} barriers", told.nodes, told.barriers));
    fact("time of planning", units::seconds(told.plan_ms / 1e3), "measured here".into());
    facts
}

/// What the preset's machine does at most, with the range where the figure is not public.
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
        (*count, *bytes) = (*count + 1, *bytes + transform.bytes);
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
                *bytes += transform.bytes;
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
