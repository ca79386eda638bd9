//! `fblayout plan`: a training step of a known model, planned and told.

mod arguments;
mod text;
mod told;

use std::io::Write;
use std::time::Instant;

pub use arguments::Arguments;
use fblayout::plan::{PlanOptions, Selector, predict};
use fblayout_models::Options;

use crate::candidates::Tally;
use crate::target::Target;
use told::Told;

/// Plans and prints.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let config = fblayout_models::find(&arguments.model)?;
    let Arguments { storage, policy, .. } = *arguments;
    let target = Target::find(&arguments.device, PlanOptions { storage, policy })?;
    let options = Options::new(arguments.batch, arguments.seq, arguments.training());
    let graph = fblayout_models::train_graph(&config, &options)?.model.graph;
    let profile = target.profile();
    let selector = arguments.selector.unwrap_or(if profile.is_some() { Selector::ChainDp } else { Selector::Rule });
    let start = Instant::now();
    let plan = target.plan(&graph, selector)?;
    let took = start.elapsed();
    let told = Told {
        predicted: profile.map(|profile| predict(&plan, &graph, profile)),
        selection: target.selection(&graph, selector)?,
        candidates: profile.map(|profile| Tally::of(&plan, profile)).transpose()?,
        selector,
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
