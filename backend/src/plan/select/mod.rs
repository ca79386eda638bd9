//! Which layouts the computed tensors of a graph get, over the whole graph at once, by the simulated time on a machine, or by another
//! [`Objective`].
//!
//! The graph becomes an abstract problem ([`instance`]), a [`Selector`] solves it, and the plan is made with what it chose, if the
//! cost model finds that plan better than the rule's.

mod certificate;
mod chains;
mod choice;
mod cluster;
mod instance;
mod pbqp;
mod problem;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use rustc_hash::FxHashMap;

pub use certificate::Certificate;
pub use choice::Choice;

use crate::device::{Case, Limits, Profile};
use crate::graph::{Desc, Graph, ValueId};

use super::build::Draft;
use super::cost::Prices;
use super::fusion::Groups;
use super::ladder::Ladder;
use super::lowering::Lowerings;
use super::{Footprint, Objective, Plan, PlanError, PlanOptions, Planner, Tile};

use cluster::Samples;
use instance::{Choices, Instance};
use problem::{Problem, Solution};

/// Tiles of computed values; the rule decides for all others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layouts(FxHashMap<ValueId, Tile>);

impl FromIterator<(ValueId, Tile)> for Layouts {
    fn from_iter<T: IntoIterator<Item = (ValueId, Tile)>>(tiles: T) -> Self {
        Self(tiles.into_iter().collect())
    }
}

impl Layouts {
    /// The tile of a value, if one was chosen.
    pub(super) fn of(&self, value: ValueId) -> Option<Tile> {
        self.0.get(&value).copied()
    }
}

/// How layouts are selected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selector {
    /// The rule of dtype and shape, as for weights.
    #[default]
    Rule,
    /// The paper's greedy search along chains.
    PaperGreedy,
    /// Exact along chains, by dynamic programming; never worse than the rule or the greedy search.
    ChainDp,
    /// Reductions over the whole graph.
    Pbqp,
}

impl Selector {
    /// All of them, by the names they parse from.
    pub const ALL: [(&'static str, Self); 4] =
        [("rule", Self::Rule), ("paper-greedy", Self::PaperGreedy), ("chain-dp", Self::ChainDp), ("pbqp", Self::Pbqp)];

    fn solve(self, problem: &Problem) -> Solution {
        match self {
            Self::Rule => Solution::new(problem, vec![0; problem.variables.len()]),
            Self::PaperGreedy => chains::paper_greedy(problem),
            Self::ChainDp => chains::chain_dp(problem),
            Self::Pbqp => pbqp::pbqp(problem),
        }
    }
}

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|&(name, _)| name == s)
            .map(|(_, selector)| selector)
            .ok_or_else(|| format!("selector '{s}' is not one of {}", Self::ALL.map(|(name, _)| name).join(", ")))
    }
}

impl std::fmt::Display for Selection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // A mean efficiency is told in thousandths, and time in those of a second.
        let [cost, bound, gap, rule, greedy, dp, pbqp] =
            [self.cost, self.lower_bound, self.gap, self.rule, self.greedy, self.dp, self.pbqp].map(|s| 1e3 * s);
        let Certificate { uniform_cost, rho, uniform_optimal, .. } = self.certificate;
        let unit = match self.objective {
            Objective::TimeHarmonic => "ms",
            Objective::PaperArithmetic => "thousandths of efficiency missed",
        };
        let proved = if uniform_optimal { "the optimum" } else { "not proved best" };
        writeln!(f, "simulated: layouts of {} tensors, {} pairs of them bound together", self.tensors, self.pairs)?;
        writeln!(f, "simulated: rule {rule:.3} {unit}, greedy {greedy:.3}, chains {dp:.3}, reductions {pbqp:.3}")?;
        writeln!(f, "simulated: selected {cost:.3} {unit}, at least {bound:.3} (gap {gap:.3})")?;
        let (uniform, rho) = (1e3 * uniform_cost, 1e3 * rho);
        write!(f, "simulated: one tile for all {uniform:.3} {unit}, at most {rho:.3} above the best, {proved}")
    }
}

/// Plans a graph with the layouts that a selector chooses for a machine. Where the cost model finds the plan no better than the
/// rule's, by the objective of the options, the rule's is made.
///
/// # Errors
/// As [`super::plan`].
pub fn select(
    graph: &Graph,
    limits: &Limits,
    options: PlanOptions,
    footprint: &impl Footprint,
    profile: &Profile,
    selector: Selector,
) -> Result<Plan, PlanError> {
    Planner::new(limits, options, Some((selector, profile))).plan(graph, footprint)
}

/// What is known of tensors and clusters on a machine. It follows from them alone, so that the next graph may use it.
pub(super) struct Tables<'p> {
    profile: &'p Profile,
    prices: Prices<'p>,
    tiles: Choices,
    samples: Samples,
}

impl<'p> Tables<'p> {
    /// Nothing is known yet.
    pub fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            prices: Prices::new(profile, Case::Middle),
            tiles: Choices::default(),
            samples: Samples::default(),
        }
    }

    /// The tiles that a tensor can have, the rule's first.
    pub fn tiles(&mut self, desc: Desc, lowerings: &mut Lowerings) -> Arc<[Tile]> {
        self.tiles.of(desc, lowerings, self.profile)
    }

    /// The machine.
    pub fn profile(&self) -> &'p Profile {
        self.profile
    }

    /// The draft that a selector finds, if there is one and it costs less than the rule's.
    pub fn better(
        &mut self,
        ladder: &Ladder<'_>,
        groups: &Groups,
        lowerings: &mut Lowerings,
        selector: Selector,
        rule: &Draft,
    ) -> Option<Draft> {
        let graph = ladder.graph();
        let instance = Instance::new(ladder, groups, rule.steps(), lowerings, self).ok()?;
        let layouts = instance.layouts(&selector.solve(&instance.problem).assignment);
        let chosen = Draft::new(ladder, lowerings, &layouts, groups).ok()?;
        let objective = lowerings.options().objective;
        let mut cost = |draft: &Draft| objective.cost(&self.prices.of(graph, draft.steps()));
        (cost(&chosen) < cost(rule)).then_some(chosen)
    }
}

/// The problem of a graph, to be solved one way or another.
pub(super) struct Selecting(Instance);

impl Selecting {
    /// Reads the problem off a graph.
    pub fn new(graph: &Graph, lowerings: &mut Lowerings, tables: &mut Tables<'_>) -> Result<Self, PlanError> {
        let ladder = Ladder::new(graph, lowerings.options());
        let groups = Groups::of(&ladder, lowerings.limits(), lowerings.options().policy.fusion());
        let rule = Draft::new(&ladder, lowerings, &Layouts::default(), &groups)?;
        Instance::new(&ladder, &groups, rule.steps(), lowerings, tables).map(Self)
    }

    /// The tile that every tensor with a choice gets.
    pub fn tiles(&self, selector: Selector) -> FxHashMap<ValueId, Tile> {
        self.0.tiles(&selector.solve(&self.0.problem).assignment).collect()
    }

    /// Simulated cost of what a selector chooses, and what no choice is below.
    pub fn cost(&self, selector: Selector) -> (f64, f64) {
        let Solution { cost, lower_bound, .. } = selector.solve(&self.0.problem);
        (self.0.rule + cost, self.0.rule + lower_bound)
    }

    /// The problem in which these tensors have these tiles, where they can.
    pub fn keeping(mut self, tiles: &FxHashMap<ValueId, Tile>) -> Self {
        self.0.keep(tiles);
        self
    }
}

/// What the selectors make of a graph on a machine. Costs are *simulated*, of all steps, barriers apart, as the abstract problem counts
/// them by its objective.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Selection {
    /// How the numbers came about; always `simulated`.
    pub stand: &'static str,
    /// What layouts are compared by.
    pub objective: Objective,
    /// What all costs are counted in: [`Objective::unit`].
    pub unit: &'static str,
    /// Tensors with a choice, and pairs of them that cost something together.
    pub tensors: usize,
    /// Pairs.
    pub pairs: usize,
    /// The chosen selector.
    pub cost: f64,
    /// No choice costs less.
    pub lower_bound: f64,
    /// `cost - lower_bound`.
    pub gap: f64,
    /// The rule.
    pub rule: f64,
    /// The paper's greedy search.
    pub greedy: f64,
    /// Exact on chains.
    pub dp: f64,
    /// Reductions.
    pub pbqp: f64,
    /// What is proved of one layout for all.
    pub certificate: Certificate,
}

impl Selection {
    /// Compares the selectors on a graph.
    ///
    /// # Errors
    /// As [`super::plan`].
    pub fn of(
        graph: &Graph,
        limits: &Limits,
        options: PlanOptions,
        profile: &Profile,
        selector: Selector,
    ) -> Result<Self, PlanError> {
        let (mut lowerings, mut tables) = (Lowerings::new(limits, options), Tables::new(profile));
        let Selecting(Instance { problem, rule, .. }) = Selecting::new(graph, &mut lowerings, &mut tables)?;
        let solved = Selector::ALL.map(|(_, selector)| (selector, selector.solve(&problem)));
        // Sums of the same numbers in another order differ in the last digit: no bound is above what was found.
        let found = solved.iter().map(|(_, s)| s.cost).fold(f64::INFINITY, f64::min);
        let bound = solved.iter().map(|(_, s)| s.lower_bound).fold(f64::NEG_INFINITY, f64::max).min(found);
        let cost = |of: Selector| rule + solved.iter().find(|(s, _)| *s == of).map_or(0.0, |(_, s)| s.cost);
        let certificate = Certificate::of(&problem);
        Ok(Self {
            stand: "simulated",
            objective: options.objective,
            unit: options.objective.unit(),
            tensors: problem.variables.len(),
            pairs: problem.edges().count(),
            cost: cost(selector),
            lower_bound: rule + bound,
            gap: cost(selector) - (rule + bound),
            rule: cost(Selector::Rule),
            greedy: cost(Selector::PaperGreedy),
            dp: cost(Selector::ChainDp),
            pbqp: cost(Selector::Pbqp),
            certificate: Certificate { uniform_cost: rule + certificate.uniform_cost, ..certificate },
        })
    }
}
