//! `fblayout plan`: a training step of a model, planned and told.

mod arguments;
mod explain;
mod html;
mod pruning;
mod search;
mod text;
mod told;

use std::time::Instant;

pub use arguments::Arguments;
use fblayout::graph::Graph;
use fblayout::plan::{Budget, HeadChoice, Plan, Policy, Recomputed, Rewritten, Selector, chunk_head, predict};
use fblayout_models::Options;
use fblayout_page::plan::Known;
use fblayout_page::plan::tensors::tensors;

use crate::candidates::Tally;
use crate::model::Model;
use crate::replan::Replan;
use crate::target::{Plans, Target};
use explain::Explanation;
use told::Told;

/// Plans and prints.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let target = Target::find(&arguments.device, arguments.options())?;
    let options = Options::new(arguments.batch, arguments.seq, arguments.training());
    let model = Model::find(&arguments.model)?;
    let graph = model.graph(&options, arguments.part(), arguments.keeps_types())?;
    // Graphs of two lengths are compared node by node: neither is cut into chunks then.
    let chunks = arguments.policy == Policy::Full && arguments.replan.is_none();
    let (graph, head) = chunk_head(&graph, target.limits(), if chunks { arguments.head } else { HeadChoice::Whole });
    let graph = graph.into_owned();
    let profile = target.profile();
    let selector = arguments.selector.unwrap_or(if profile.is_some() { Selector::ChainDp } else { Selector::Rule });
    let mut planner = target.planner(selector)?;
    let start = Instant::now();
    let (graph, mut plan, recompute) = planned(arguments, &target, &mut planner, graph, selector)?;
    plan.report.head = head;
    let took = start.elapsed();
    let replan = arguments.replan.map(|seq| {
        let options = Options::new(arguments.batch, seq, arguments.training());
        let next = model.graph(&options, arguments.part(), arguments.keeps_types())?;
        Replan::of(&target, &mut planner, [&graph, &next], seq, selector)
    });

    let pruning = !arguments.no_pruning;
    let predicted = profile.map(|profile| predict(&plan, &graph, profile));
    let tensors = tensors(&graph, &plan, |home| target.bytes(home))?;
    let known = Known {
        graph: &graph,
        plan: &plan,
        tensors: &tensors,
        profile,
        predicted: predicted.as_ref(),
        exact: target.is_exact(),
    };
    let explained = arguments
        .explain
        .as_ref()
        .map(|query| Explanation::of(&known, &target, selector, pruning, query))
        .transpose()?;
    let told = Told {
        selection: target.selection(&graph, selector)?,
        candidates: profile.map(|profile| Tally::of(&plan, profile, pruning)).transpose()?,
        pruning: arguments.no_pruning.then(|| pruning::compare(arguments, &graph, selector)).transpose()?.flatten(),
        explained,
        predicted: predicted.clone(),
        selector,
        recompute,
        replan: replan.transpose()?,
        ..Told::new(arguments, &target, &graph, &plan, took)
    };
    if let Some(path) = &arguments.html {
        html::write(path, arguments, &known, &told, took)?;
    }
    let mut text = if arguments.json { serde_json::to_string_pretty(&told)? } else { told.text(&plan.report) };
    text.push('\n');
    Ok(crate::print(&text)?)
}

/// The graph as it is run and its plan, within the budget.
fn planned(
    arguments: &Arguments,
    target: &Target,
    planner: &mut Plans<'_>,
    graph: Graph,
    selector: Selector,
) -> Result<(Graph, Plan, Option<Recomputed>), Box<dyn std::error::Error>> {
    if arguments.recompute {
        let Rewritten { graph, plan, recomputed } = target.recompute(&graph, selector, arguments.budget)?;
        return Ok((graph, plan, Some(recomputed)));
    }
    let plan = planner(&graph)?;
    let takes = plan.report.total_bytes();
    match arguments.budget {
        Some(Budget(budget)) if takes > budget => {
            Err(format!("--budget: the step takes {takes} bytes, more than {budget}; --recompute may bring it down")
                .into())
        }
        _ => Ok((graph, plan, None)),
    }
}
