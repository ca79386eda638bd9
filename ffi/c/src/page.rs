//! What is told of a plan, as a page.

use fblayout::plan::{Home, predict};
use fblayout::probe;
use fblayout::session::Session;
use fblayout_page::plan::tensors::tensors;
use fblayout_page::plan::{Known, Words, page};

use crate::failure::Failure;
use crate::status::FBL_ERR_PANIC;

/// The page of a session's plan, with times where the machine's rates are known: as the engine selects for it, or as it was measured.
pub fn of(session: &Session, title: &str) -> Result<String, Failure> {
    let engine = session.engine();
    // A program does not keep the graph as it runs; planned again, it and its plan are the same.
    let (graph, plan) = engine.planned(session.recipe().graph())?;
    let measured = probe::kept(engine.gpu()).ok();
    let profile = engine.options().selection.map(|(_, profile)| profile).or(measured.as_ref());
    let predicted = profile.map(|profile| predict(&plan, &graph, profile));
    let bytes = |home: &Home| {
        engine.gpu().storage_footprint(home.kind, home.width, home.height).map(|footprint| footprint.bytes)
    };
    let known = Known {
        graph: &graph,
        plan: &plan,
        tensors: &tensors(&graph, &plan, bytes)?,
        profile,
        predicted: predicted.as_ref(),
        exact: true,
    };
    let (device, policy) = (&engine.gpu().adapter().name, engine.options().plan.policy);
    let what = format!("A graph of {} nodes on {device}, by policy {policy}", graph.nodes.len());
    let words = Words { title, what: &what, ..Words::default() };
    page(&known, &words).map_err(|e| Failure::new(FBL_ERR_PANIC, format!("a defect of the library: {e}")))
}
