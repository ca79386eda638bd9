//! What is told of a plan, as a page.

use fblayout::device::{Preset, Profile};
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
    let selected = engine.options().selection.map(|(_, profile)| profile);
    let profile = selected.or(measured.as_ref());
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
    let rates = match (selected.and_then(name), profile) {
        (Some(machine), _) => format!("; times are those of {machine}"),
        (None, Some(_)) => "; times are by its rates as they were measured".to_owned(),
        (None, None) => String::new(),
    };
    let what = format!("A graph of {} nodes on {device}, by policy {policy}{rates}", graph.nodes.len());
    let words = Words { title, what: &what, ..Words::default() };
    page(&known, &words).map_err(|e| Failure::new(FBL_ERR_PANIC, format!("a defect of the library: {e}")))
}

/// The preset that a profile is of.
fn name(profile: &Profile) -> Option<&'static str> {
    Preset::machines().find(|&(_, known)| std::ptr::eq(known, profile)).map(|(preset, _)| preset.name)
}
