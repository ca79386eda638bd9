//! A planner that remembers: the next graph is planned from what the last ones had in common with it. Nothing that it keeps depends
//! on anything but the question it answers, so that a plan is the same whatever was planned before.

use crate::device::{Limits, Profile};
use crate::graph::Graph;

use super::build::Draft;
use super::fusion::{Fusion, Groups};
use super::ladder::Ladder;
use super::lowering::Lowerings;
use super::select::Tables;
use super::{Footprint, Layouts, Plan, PlanError, PlanOptions, Selector, commute, narrow};

/// Plans graph after graph under the same limits and options.
pub struct Planner<'p> {
    lowerings: Lowerings,
    selection: Option<(Selector, Tables<'p>)>,
    /// Whether dispatches stay in the order of the graph.
    in_turn: bool,
}

impl<'p> Planner<'p> {
    /// Nothing is planned yet. `selection` is how layouts of computed values are selected, and for what machine; the rule if nothing is
    /// said.
    pub fn new(limits: &Limits, options: PlanOptions, selection: Option<(Selector, &'p Profile)>) -> Self {
        let selection = selection.filter(|&(selector, _)| selector != Selector::Rule);
        let selection = selection.map(|(selector, profile)| (selector, Tables::new(profile)));
        Self { lowerings: Lowerings::new(limits, options), selection, in_turn: false }
    }

    /// The same with dispatches in the order of the graph: more barriers, and no byte for the sake of fewer.
    pub(super) fn in_turn(self) -> Self {
        Self { in_turn: true, ..self }
    }

    /// Plans a graph; it must be well formed ([`Graph::verify`]).
    ///
    /// # Errors
    /// No storage holds a tensor, or a node cannot be lowered.
    pub fn plan(&mut self, graph: &Graph, footprint: &impl Footprint) -> Result<Plan, PlanError> {
        if self.lowerings.is_full() {
            let selection = self.selection.as_ref().map(|(selector, tables)| (*selector, tables.profile()));
            let in_turn = self.in_turn;
            *self = Self { in_turn, ..Self::new(self.lowerings.limits(), self.lowerings.options(), selection) };
        }
        let fuses = self.lowerings.options().policy.fusion() == Fusion::All;
        if !fuses {
            return self.plan_as_written(graph, footprint);
        }
        let Some(commuted) = commute::behind_products(graph) else {
            return self.plan_in_16_bits(graph, footprint);
        };
        let mut plan = self.plan_in_16_bits(&commuted.graph, footprint)?;
        commuted.name_nodes(&mut plan.steps);
        Ok(plan)
    }

    fn plan_in_16_bits(&mut self, graph: &Graph, footprint: &impl Footprint) -> Result<Plan, PlanError> {
        if let Some(narrowed) = narrow::in_16_bits(graph, self.lowerings.limits()) {
            match self.plan_as_written(&narrowed.graph, footprint) {
                Ok(mut plan) => {
                    narrowed.name_nodes(&mut plan.steps);
                    return Ok(plan);
                }
                // A product that other schedules compute, for where its factors lie, takes no copies.
                Err(why) => log::debug!("factors stay as they are: {why}"),
            }
        }
        self.plan_as_written(graph, footprint)
    }

    fn plan_as_written(&mut self, graph: &Graph, footprint: &impl Footprint) -> Result<Plan, PlanError> {
        let ladder = Ladder::new(graph, self.lowerings.options());
        let groups = Groups::of(&ladder, self.lowerings.limits(), self.lowerings.options().policy.fusion());
        let rule = Draft::new(&ladder, &mut self.lowerings, &Layouts::default(), &groups)?;
        let chosen = match &mut self.selection {
            Some((selector, tables)) => tables.better(&ladder, &groups, &mut self.lowerings, *selector, &rule),
            None => None,
        };
        match chosen.map(|draft| draft.finish(footprint, self.in_turn)) {
            Some(Ok(plan)) => Ok(plan),
            // Whatever the rule can plan is planned.
            None | Some(Err(_)) => rule.finish(footprint, self.in_turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lowering::MOST;
    use super::super::tests::Exact;
    use super::*;
    use crate::graph::{DType, Op};

    #[test]
    fn what_is_kept_of_ever_new_graphs_is_bounded() {
        let mut planner = Planner::new(&Limits::for_tests(), PlanOptions::default(), None);
        let mut most = 0;
        for n in 1..=MOST as u32 + 500 {
            let mut g = Graph::new();
            let x = g.external("x", DType::F32, [n, 1, 1, 1]);
            let doubled = g.node("doubled", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(x)]).unwrap();
            g.keep(doubled);
            planner.plan(&g, &Exact).unwrap();
            most = most.max(planner.lowerings.len());
        }
        // A plan of one node adds a few lowerings before the next one finds too many.
        assert!((MOST / 2..MOST + 8).contains(&most), "{most} lowerings");
        assert!(planner.lowerings.len() < MOST, "the planner started afresh");
    }
}
