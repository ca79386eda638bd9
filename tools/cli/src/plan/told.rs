//! What is told of a plan, in the names of the JSON form.

use std::time::Duration;

use fblayout::device::Limits;
use fblayout::graph::{self, Family, Graph, ROWS};
use fblayout::plan::{
    Objective, Plan, Policy, Prediction, Recomputed, Report, Selection, Selector, Transform, TransformKind, Verdict,
};
use fblayout_page::plan::tensors::first_word;
use serde::Serialize;

use super::arguments::Arguments;
use super::explain::Explanation;
use super::pruning::Pruning;
use crate::candidates::Tally;
use crate::replan::Replan;
use crate::target::Target;

/// What is told of a plan; the JSON form.
#[derive(Serialize)]
pub struct Told<'a> {
    pub model: &'a str,
    pub seq: u32,
    pub batch: u32,
    /// Rank of LoRA; absent when every parameter is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    pub device: &'a str,
    pub policy: Policy,
    pub selector: Selector,
    /// What the selector compares layouts by.
    pub objective: Objective,
    pub nodes: usize,
    pub dispatches: usize,
    pub barriers: usize,
    /// From the graph to the plan: checks, layouts, kernels' constants, memory, barriers. No pipeline is made.
    pub plan_ms: f64,
    /// The plan for another length, if one is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replan: Option<Replan>,
    pub transforms: Transforms<'a>,
    /// Everything that lives at once: weights and state, results, arenas.
    pub peak_bytes: u64,
    /// True when sizes are an upper bound from the device's limits, false when the device itself was asked.
    pub peak_is_bound: bool,
    pub external_bytes: u64,
    pub kept_bytes: u64,
    pub arena_bytes: u64,
    /// Bytes of the arena over those alive at the fullest step.
    pub fragmentation: f64,
    /// Results in the storage of an operand, and the bytes by which fewer are alive at the fullest step.
    pub in_place: usize,
    pub in_place_bytes: u64,
    /// What recomputing did, where it was asked for.
    pub recompute: Option<Recomputed>,
    /// Simulated on the preset's profile; nothing where the device has none.
    pub predicted: Option<Prediction>,
    /// What the selectors find on it, simulated.
    pub selection: Option<Selection>,
    /// What the rules leave of the tensors' tiles, for the same profile.
    pub candidates: Option<Tally>,
    /// The same plan with and without rules C1 to C3, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pruning: Option<Pruning>,
    /// The node that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained: Option<Explanation>,
    pub limits: &'a Limits,
}

#[derive(Serialize)]
pub struct Transforms<'a> {
    /// Views and copies that the graph asks for.
    pub count: usize,
    /// Bytes that all of them would move as copies.
    pub bytes: u64,
    /// Those that became coordinates.
    pub eliminated: usize,
    pub explicit: Vec<Explicit<'a>>,
    pub denominators: Denominators,
}

/// The share that became coordinates, by three ways of counting.
#[derive(Serialize)]
pub struct Denominators {
    by_count: Share,
    by_bytes: Share,
    /// By count, without the transposes that are operands of matrix products, which read either direction.
    by_count_without_matrix_transposes: Share,
}

/// A part of a total.
#[derive(Serialize)]
pub struct Share {
    eliminated: u64,
    total: u64,
    /// Of nothing, all.
    percent: f64,
}

/// A transform that moves bytes.
#[derive(Serialize)]
pub struct Explicit<'a> {
    pub node: &'a str,
    pub kind: TransformKind,
    pub reason: &'a str,
    pub bytes: u64,
}

impl<'a> Told<'a> {
    pub fn new(arguments: &'a Arguments, target: &'a Target, graph: &Graph, plan: &'a Plan, took: Duration) -> Self {
        let report = &plan.report;
        Self {
            model: &arguments.model,
            seq: arguments.seq,
            batch: arguments.batch,
            rank: (!arguments.full).then_some(arguments.rank),
            device: &arguments.device,
            policy: arguments.policy,
            selector: Selector::Rule,
            objective: arguments.objective,
            nodes: graph.nodes.len(),
            dispatches: report.dispatches,
            barriers: report.barriers,
            plan_ms: took.as_secs_f64() * 1e3,
            transforms: Transforms::new(report),
            peak_bytes: report.total_bytes(),
            peak_is_bound: !target.is_exact(),
            external_bytes: report.external_bytes,
            kept_bytes: report.kept_bytes,
            arena_bytes: report.arena_bytes,
            fragmentation: report.fragmentation(),
            in_place: report.in_place,
            in_place_bytes: report.in_place_bytes,
            recompute: None,
            replan: None,
            predicted: None,
            selection: None,
            candidates: None,
            pruning: None,
            explained: None,
            limits: target.limits(),
        }
    }
}

impl<'a> Transforms<'a> {
    fn new(report: &'a Report) -> Self {
        let explicit: Vec<_> = report
            .transforms
            .iter()
            .filter_map(|t| match &t.verdict {
                Verdict::Eliminated => None,
                Verdict::Explicit(reason) => Some(Explicit { node: &t.node, kind: t.kind, reason, bytes: t.bytes }),
            })
            .collect();
        Self {
            count: report.transforms.len(),
            bytes: graph::sum(report.transforms.iter().map(|t| t.bytes)),
            eliminated: report.transforms.len() - explicit.len(),
            explicit,
            denominators: Denominators {
                by_count: Share::of(report, |_| 1),
                by_bytes: Share::of(report, |t| t.bytes),
                by_count_without_matrix_transposes: Share::of(report, |t| u64::from(!is_matrix_transpose(t))),
            },
        }
    }
}

impl Share {
    /// The share of transforms that vanished, each with a weight.
    fn of(report: &Report, weight: impl Fn(&Transform) -> u64) -> Self {
        let sum =
            |wanted: &dyn Fn(&Transform) -> bool| report.transforms.iter().filter(|t| wanted(t)).map(&weight).sum();
        let (total, eliminated): (u64, u64) = (sum(&|_| true), sum(&|t| t.verdict == Verdict::Eliminated));
        let percent = if total == 0 { 100.0 } else { 100.0 * eliminated as f64 / total as f64 };
        Self { eliminated, total, percent }
    }
}

impl std::fmt::Display for Denominators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { by_count, by_bytes, by_count_without_matrix_transposes: others } = self;
        let (count, bytes, percent) = (by_count.percent, by_bytes.percent, others.percent);
        let Share { eliminated, total, .. } = others;
        write!(
            f,
            "eliminated: {count:.1} % by count, {bytes:.1} % by bytes, {percent:.1} % ({eliminated} of {total}) without matrix transposes"
        )
    }
}

fn is_matrix_transpose(transform: &Transform) -> bool {
    let is_product = |op: &str| ROWS.iter().any(|row| row.name == op && row.family == Family::Gemm);
    let product = first_word(&transform.node).split('+').any(is_product);
    product && transform.kind == TransformKind::Transpose
}
