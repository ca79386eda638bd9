//! Why a tensor has its tile: what the step would cost with each of the others.

use crate::device::{Limits, Profile};
use crate::graph::{Graph, ValueId};
use crate::plan::lowering::Lowerings;
use crate::plan::{Objective, PlanError, PlanOptions};

use super::{Selecting, Selector, Tables, Tile};

/// The tiles that a tensor could have.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Choice {
    /// How the numbers came about; always `simulated`.
    pub stand: &'static str,
    /// What the costs are.
    pub objective: Objective,
    /// Each with the *simulated* cost of the whole step, barriers apart, while all other tensors keep what the selector gave them;
    /// the rule's tile first.
    pub tiles: Vec<(Tile, f64)>,
    /// Number of the selector's.
    pub chosen: usize,
}

impl Choice {
    /// The choices of some tensors of a graph; nothing for one that has no choice.
    ///
    /// # Errors
    /// As [`crate::plan::plan`].
    pub fn of(
        graph: &Graph,
        limits: &Limits,
        options: PlanOptions,
        profile: &Profile,
        selector: Selector,
        values: &[ValueId],
    ) -> Result<Vec<Option<Self>>, PlanError> {
        let (mut lowerings, mut tables) = (Lowerings::new(limits, options), Tables::new(profile));
        let Selecting(instance) = Selecting::new(graph, &mut lowerings, &mut tables)?;
        let (problem, assignment) = (&instance.problem, selector.solve(&instance.problem).assignment);
        let choice = |&value: &ValueId| {
            let at = instance.variable(value)?;
            let cost = |tile: usize| {
                let mut changed = assignment.clone();
                changed[at] = tile;
                instance.rule + problem.cost(&changed)
            };
            let tiles = problem.variables[at].tiles.iter().enumerate().map(|(i, &tile)| (tile, cost(i)));
            Some(Self {
                stand: "simulated",
                objective: options.objective,
                tiles: tiles.collect(),
                chosen: assignment[at],
            })
        };
        Ok(values.iter().map(choice).collect())
    }
}
