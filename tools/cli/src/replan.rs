//! A plan for another sequence length, made with what is known from the first.

use std::time::Instant;

use fblayout::graph::Graph;
use fblayout::plan::{Change, Selector};
use fblayout_page::units;
use serde::Serialize;

use crate::target::{Plans, Target};

/// What is told of it.
#[derive(Serialize)]
pub struct Replan {
    seq: u32,
    /// From the graph to the plan.
    ms: f64,
    /// Whether a planner that knows nothing makes the same plan, field by field.
    equals_fresh: bool,
    /// Tensors that the new length makes dirty, and what becomes of the selection; nothing where the device's speed is not known.
    #[serde(flatten)]
    change: Option<Change>,
}

impl Replan {
    /// Plans the second graph with a planner that has planned the first.
    pub fn of(
        target: &Target,
        planner: &mut Plans<'_>,
        [before, after]: [&Graph; 2],
        seq: u32,
        selector: Selector,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let start = Instant::now();
        let plan = planner(after)?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let equals_fresh = plan == target.planner(selector)?(after)?;
        Ok(Self { seq, ms, equals_fresh, change: target.change([before, after], selector)? })
    }
}

impl std::fmt::Display for Replan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { seq, ms, equals_fresh, change } = self;
        let equals = if *equals_fresh { "equal to" } else { "other than" };
        write!(f, "again for {seq} tokens in {ms:.0} ms, {equals} a plan from scratch")?;
        let Some(Change { tensors, dirty, choices, moved, clean_moved, cost, kept, objective, .. }) = change else {
            return Ok(());
        };
        write!(f, "\n  {dirty} of {tensors} computed tensors are dirty; ")?;
        write!(f, "{moved} of {choices} tiles change, {clean_moved} of them of clean tensors")?;
        let [cost, kept] = [cost, kept].map(|cost| units::cost(*cost, *objective));
        write!(f, "\n  simulated: selected {cost}, {kept} if clean tensors kept their tiles")
    }
}
