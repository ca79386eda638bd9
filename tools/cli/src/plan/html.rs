//! `--html`: the page of a step, with every policy beside the one that was asked for.

use std::path::Path;
use std::time::{Duration, Instant};

use fblayout::graph::Graph;
use fblayout::plan::{PlanOptions, Policy, Selector};
use fblayout_page::plan::{ByPolicy, Figures, Known, Words, page};

use super::arguments::Arguments;
use super::told::Told;
use crate::output::Output;
use crate::target::Target;

/// Draws a plan and every policy beside it, and writes the page whole or not at all.
///
/// # Errors
/// A policy's device cannot be opened again, or the file cannot be written.
pub fn write(
    path: &Path,
    arguments: &Arguments,
    known: &Known<'_>,
    told: &Told<'_>,
    took: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    // A path that cannot be written is told before anything is drawn.
    let file = Output::create(path)?;
    let model = Path::new(told.model).file_name().map_or(told.model.into(), |name| name.to_string_lossy());
    let words = Words {
        title: &model,
        what: &what(told),
        took: Some(took),
        recomputed: told.recompute.as_ref(),
        selection: told.selection.as_ref(),
        policies: &policies(arguments, known, told.selector)?,
    };
    Ok(file.commit(&page(known, &words)?)?)
}

fn what(told: &Told<'_>) -> String {
    let trained = told.rank.map_or_else(|| "all parameters trained".to_owned(), |rank| format!("LoRA of rank {rank}"));
    let selector = Selector::ALL.into_iter().find(|(_, s)| *s == told.selector).map_or("", |(name, _)| name);
    let Told { batch, seq, device, policy, .. } = told;
    format!(
        "One training step of {batch} x {seq} tokens, {trained}, on {device}, by policy {policy} with selector {selector}"
    )
}

/// Plans by every policy; nothing where no profile says how fast the device is.
fn policies(
    arguments: &Arguments,
    known: &Known<'_>,
    selector: Selector,
) -> Result<Vec<ByPolicy>, Box<dyn std::error::Error>> {
    let mut policies = Vec::new();
    for (_, policy) in Policy::ALL.into_iter().filter(|_| known.predicted.is_some()) {
        let target = Target::find(&arguments.device, PlanOptions { policy, ..arguments.options() })?;
        let found = figures(&target, known.graph, selector);
        policies.push(ByPolicy { policy, chosen: policy == arguments.policy, found });
    }
    Ok(policies)
}

fn figures(target: &Target, graph: &Graph, selector: Selector) -> Result<Figures, String> {
    let start = Instant::now();
    let plan = target.plan(graph, selector).map_err(|e| e.to_string())?;
    let took = start.elapsed();
    Ok(Figures::of(&plan, graph, target.profile().ok_or("no profile")?, took))
}
