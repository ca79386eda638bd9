//! `fblayout plan`: a training step of a known model, planned and told.

use std::io::Write;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use fblayout::device::Limits;
use fblayout::graph::{DType, Graph};
use fblayout::plan::{
    Budget, Plan, PlanOptions, Policy, Prediction, Recomputed, Report, Rewritten, Selection, Selector, StorageChoice,
    TransformKind, Verdict, predict,
};
use fblayout_models::{Options, Training};
use serde::Serialize;

use crate::candidates::Tally;
use crate::target::Target;

#[derive(Args)]
pub struct Arguments {
    /// llama-3.2-1b, qwen2.5-1.5b, qwen3-1.7b, gemma-2-2b or gemma-3-1b
    #[arg(long)]
    model: String,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 512)]
    seq: u32,
    /// Sequences of a step
    #[arg(long, default_value_t = 1)]
    batch: u32,
    /// Rank of the LoRA pairs that are trained
    #[arg(long, default_value_t = 8, conflicts_with = "full")]
    rank: u32,
    /// Train every parameter, in F32
    #[arg(long)]
    full: bool,
    /// Element type of the matrices that LoRA leaves frozen
    #[arg(long, value_enum, default_value_t = Base::F16, conflicts_with = "full")]
    base: Base,
    /// present (this machine's first Vulkan device), a preset such as adreno-830, or limits as JSON
    #[arg(long, default_value = "present")]
    device: String,
    /// What tensors live in: auto, buffer or image
    #[arg(long, default_value = "auto")]
    storage: StorageChoice,
    /// How layouts are treated: rtile+maps, rtile, honest-rowmajor, layout-reuse or convert-always
    #[arg(long, default_value = "rtile+maps")]
    policy: Policy,
    /// How layouts of computed tensors are selected: rule, paper-greedy, chain-dp or pbqp; chain-dp where a preset tells how fast
    /// the device is, rule elsewhere
    #[arg(long)]
    selector: Option<Selector>,
    /// Compute values again instead of keeping them, until the step takes no more than --budget; without one, as little as it can
    #[arg(long)]
    recompute: bool,
    /// Bytes that the step may take, or KiB, MiB, GiB; it is refused where it takes more
    #[arg(long)]
    budget: Option<Budget>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Base {
    F32,
    F16,
    #[value(name = "q8_0")]
    Q8,
    #[value(name = "q4_1")]
    Q4,
}

impl From<Base> for DType {
    fn from(base: Base) -> Self {
        match base {
            Base::F32 => Self::F32,
            Base::F16 => Self::F16,
            Base::Q8 => Self::Q8_0,
            Base::Q4 => Self::Q4_1,
        }
    }
}

/// Alpha of llama.cpp's adapters when none is given is the rank; the plan does not depend on it.
fn training(arguments: &Arguments) -> Training {
    match arguments.full {
        true => Training::Full,
        false => {
            let Arguments { rank, base, .. } = *arguments;
            Training::Lora { rank, alpha: rank as f32, base: base.into() }
        }
    }
}

/// Plans and prints.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let config = fblayout_models::find(&arguments.model)?;
    let Arguments { storage, policy, .. } = *arguments;
    let target = Target::find(&arguments.device, PlanOptions { storage, policy, ..PlanOptions::default() })?;
    let options = Options::new(arguments.batch, arguments.seq, training(arguments));
    let graph = fblayout_models::train_graph(&config, &options)?.model.graph;
    let profile = target.profile();
    let selector = arguments.selector.unwrap_or(if profile.is_some() { Selector::ChainDp } else { Selector::Rule });
    let start = Instant::now();
    let (graph, plan, recompute) = planned(arguments, &target, graph, selector)?;
    let took = start.elapsed();
    let told = Told {
        predicted: profile.map(|profile| predict(&plan, &graph, profile)),
        selection: target.selection(&graph, selector)?,
        candidates: profile.map(|profile| Tally::of(&plan, profile)).transpose()?,
        selector,
        recompute,
        ..Told::new(arguments, &target, &graph, &plan, took)
    };
    let mut text = if arguments.json { serde_json::to_string_pretty(&told)? } else { told.text(&plan.report) };
    text.push('\n');
    match std::io::stdout().write_all(text.as_bytes()) {
        // Who reads has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// The graph as it is run and its plan, within the budget.
fn planned(
    arguments: &Arguments,
    target: &Target,
    graph: Graph,
    selector: Selector,
) -> Result<(Graph, Plan, Option<Recomputed>), Box<dyn std::error::Error>> {
    if arguments.recompute {
        let Rewritten { graph, plan, recomputed } = target.recompute(&graph, selector, arguments.budget)?;
        return Ok((graph, plan, Some(recomputed)));
    }
    let plan = target.plan(&graph, selector)?;
    let takes = plan.report.total_bytes();
    match arguments.budget {
        Some(Budget(budget)) if takes > budget => {
            Err(format!("--budget: the step takes {takes} bytes, more than {budget}; --recompute may bring it down")
                .into())
        }
        _ => Ok((graph, plan, None)),
    }
}

/// What is told of a plan; the JSON form.
#[derive(Serialize)]
struct Told<'a> {
    model: &'a str,
    seq: u32,
    batch: u32,
    /// Rank of LoRA; absent when every parameter is trained.
    #[serde(skip_serializing_if = "Option::is_none")]
    rank: Option<u32>,
    device: &'a str,
    policy: Policy,
    selector: Selector,
    nodes: usize,
    dispatches: usize,
    barriers: usize,
    /// From the graph to the plan: checks, layouts, kernels' constants, memory, barriers. No pipeline is made.
    plan_ms: f64,
    transforms: Transforms<'a>,
    /// Everything that lives at once: weights and state, results, arenas.
    peak_bytes: u64,
    /// True when sizes are an upper bound from the device's limits, false when the device itself was asked.
    peak_is_bound: bool,
    external_bytes: u64,
    kept_bytes: u64,
    arena_bytes: u64,
    /// Bytes of the arena over those alive at the fullest step.
    fragmentation: f64,
    /// Results in the storage of an operand, and the bytes by which fewer are alive at the fullest step.
    in_place: usize,
    in_place_bytes: u64,
    /// What recomputing did, where it was asked for.
    recompute: Option<Recomputed>,
    /// Simulated on the preset's profile; nothing where the device has none.
    predicted: Option<Prediction>,
    /// What the selectors find on it, simulated.
    selection: Option<Selection>,
    /// What the rules leave of the tensors' tiles, for the same profile.
    candidates: Option<Tally>,
    limits: &'a Limits,
}

#[derive(Serialize)]
struct Transforms<'a> {
    /// Views and copies that the graph asks for.
    count: usize,
    /// Bytes that all of them would move as copies.
    bytes: u64,
    /// Those that became coordinates.
    eliminated: usize,
    explicit: Vec<Explicit<'a>>,
}

/// A transform that moves bytes.
#[derive(Serialize)]
struct Explicit<'a> {
    node: &'a str,
    kind: TransformKind,
    reason: &'a str,
    bytes: u64,
}

impl<'a> Told<'a> {
    fn new(arguments: &'a Arguments, target: &'a Target, graph: &Graph, plan: &'a Plan, took: Duration) -> Self {
        let report = &plan.report;
        Self {
            model: &arguments.model,
            seq: arguments.seq,
            batch: arguments.batch,
            rank: (!arguments.full).then_some(arguments.rank),
            device: &arguments.device,
            policy: arguments.policy,
            selector: Selector::Rule,
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
            predicted: None,
            selection: None,
            candidates: None,
            limits: target.limits(),
        }
    }

    fn text(&self, report: &Report) -> String {
        let Self { model, batch, seq, device, policy, nodes, plan_ms, .. } = self;
        let trained = self.rank.map_or_else(|| "all parameters".to_owned(), |rank| format!("LoRA of rank {rank}"));
        let Transforms { count, bytes, eliminated, ref explicit } = self.transforms;
        let (moved, all) = (mib(explicit.iter().map(|e| e.bytes).sum()), mib(bytes));
        let certainty = if self.peak_is_bound { "at most, from the device's limits" } else { "as the device says" };
        let mut text = format!(
            "{model}: {batch} x {seq} tokens, {trained}, on {device} by {policy}: {nodes} nodes planned in {plan_ms:.0} ms\n\
             {report}\
             transforms: {eliminated} of {count} eliminated; {moved} of {all} moved\n\
             peak: {} ({certainty})",
            mib(self.peak_bytes)
        );
        if let Some(recompute) = &self.recompute {
            text += &format!("\n{recompute}");
        }
        if let Some(predicted) = &self.predicted {
            text += &format!("\n{}", predicted.to_string().trim_end());
        }
        if let Some(selection) = &self.selection {
            text += &format!("\n{selection}");
        }
        if let Some(candidates) = &self.candidates {
            text += &format!("\n{candidates}");
        }
        text
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
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
            bytes: report.transforms.iter().map(|t| t.bytes).sum(),
            eliminated: report.transforms.len() - explicit.len(),
            explicit,
        }
    }
}
