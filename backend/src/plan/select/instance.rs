//! From a graph to the abstract problem: computed F32 tensors that are the plan's own are variables, what their writers and readers
//! cost is theirs. External and kept tensors stay in the home that dtype and shape prescribe.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::device::Profile;
use crate::graph::{DType, Desc, Kind, Op, ValueId};
use crate::plan::cost::flops_of;
use crate::plan::fusion::Groups;
use crate::plan::ladder::Ladder;
use crate::plan::lowering::Lowerings;
use crate::plan::{PlanError, Step, candidates};

use super::cluster::{Cluster, Frame};
use super::problem::{Problem, Variable};
use super::{Layouts, Tables, Tile};

/// The problem of a graph.
pub(super) struct Instance {
    pub problem: Problem,
    /// Cost of all steps, barriers apart, by the rule. The problem counts from there.
    pub rule: f64,
    /// The tensor of each variable.
    tensors: Vec<ValueId>,
}

impl Instance {
    /// Reads the problem off the graph of a ladder and the steps that the rule makes of it.
    pub fn new(
        ladder: &Ladder<'_>,
        groups: &Groups,
        steps: &[Step],
        lowerings: &mut Lowerings,
        tables: &mut Tables<'_>,
    ) -> Result<Self, PlanError> {
        let graph = ladder.graph();
        let mut made = vec![false; graph.nodes.len()];
        steps.iter().for_each(|step| made[step.node] = true);
        let mut frame = Frame::new(ladder, groups);
        let mut instance = Self { problem: Problem::default(), rule: 0.0, tensors: Vec::new() };
        let mut variables: Vec<Variable> = Vec::new();
        let mut terms = Vec::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            if groups.holds(at) {
                continue;
            }
            let group = groups.at(at);
            if node.op == Op::Copy && !made[at] && group.is_none() {
                frame.elided(node.output, at);
                continue;
            }
            let stored = group.into_iter().flat_map(|group| &group.stored);
            for &id in stored.chain([&node.output]) {
                let value = &graph.values[id.index()];
                if value.kind == Kind::Computed && value.dtype == DType::F32 && !ladder.is_kept(id) {
                    let tiles = tables.tiles.of(value.desc(), lowerings, tables.profile);
                    if tiles.len() > 1 {
                        frame.free(id, variables.len());
                        instance.tensors.push(id);
                        let costs = vec![0.0; tiles.len()];
                        variables.push(Variable { weight: value.desc().bytes(), tiles, costs });
                    }
                }
            }
            let cluster = Cluster::new(&frame, at, lowerings);
            let tiles = cluster.free.iter().map(|&(_, v)| &variables[v].tiles[..]).collect::<Vec<_>>();
            let sample = tables.samples.find(&cluster, &frame, &tiles, lowerings, &mut tables.prices)?;
            terms.push((sample, cluster.free.into_iter().map(|(_, v)| v).collect::<Vec<usize>>()));
        }

        // A time is its own whole: divided by 1, it is what it was.
        let whole = lowerings.options().objective.whole((0..graph.nodes.len()).map(|at| flops_of(graph, at)));
        for (sample, touched) in &terms {
            let sample = tables.samples.get(*sample);
            instance.rule += sample.rule / whole;
            for (&v, more) in touched.iter().zip(&sample.single) {
                variables[v].costs.iter_mut().zip(more).for_each(|(sum, cost)| *sum += cost / whole);
            }
        }
        instance.problem = Problem::new(variables);
        for (sample, touched) in &terms {
            for &((a, b), ref more) in &tables.samples.get(*sample).pairs {
                instance.problem.couple(touched[a], touched[b], more.iter().map(|cost| cost / whole).collect());
            }
        }
        Ok(instance)
    }

    /// The variable of a tensor, if it has a choice.
    pub fn variable(&self, value: ValueId) -> Option<usize> {
        self.tensors.iter().position(|&id| id == value)
    }

    /// The tiles of a choice.
    pub fn tiles(&self, assignment: &[usize]) -> impl Iterator<Item = (ValueId, Tile)> {
        self.tensors.iter().zip(&self.problem.variables).zip(assignment).map(|((&id, v), &i)| (id, v.tiles[i]))
    }

    /// Leaves tensors only the tiles that they have here, where they can have them.
    pub fn keep(&mut self, tiles: &FxHashMap<ValueId, Tile>) {
        for (id, Variable { tiles: own, costs, .. }) in self.tensors.iter().zip(&mut self.problem.variables) {
            let Some(kept) = tiles.get(id).filter(|kept| own.contains(kept)) else { continue };
            let others = own.iter().zip(costs).filter(|(tile, _)| *tile != kept);
            others.for_each(|(_, cost)| *cost = f64::INFINITY);
        }
    }

    /// The layouts of a choice, where they are not the rule's.
    pub fn layouts(&self, assignment: &[usize]) -> Layouts {
        let chosen = self.tensors.iter().zip(&self.problem.variables).zip(assignment).filter(|&(_, &i)| i > 0);
        Layouts(chosen.map(|((&id, variable), &i)| (id, variable.tiles[i])).collect())
    }
}

/// The tiles that tensors can have, the rule's first.
#[derive(Default)]
pub(super) struct Choices(FxHashMap<Desc, Arc<[Tile]>>);

impl Choices {
    pub fn of(&mut self, desc: Desc, lowerings: &mut Lowerings, profile: &Profile) -> Arc<[Tile]> {
        if let Some(known) = self.0.get(&desc) {
            return Arc::clone(known);
        }
        let rule = Tile::by_rule(&desc.shape, lowerings.limits(), lowerings.options());
        let pruning = !lowerings.options().unpruned;
        let mut home = |tile| lowerings.home(desc, Some(tile)).ok().map(|homed| homed.home);
        let mut found: Vec<_> = home(rule).map(|home| (rule, home)).into_iter().collect();
        let kind = found.first().map(|(_, home)| home.kind);
        let others = kind.and_then(|kind| candidates(desc, kind, profile, pruning).ok());
        for candidate in others.into_iter().flat_map(|others| others.homes) {
            let tile = Tile { row_axis: candidate.row_axis, strip: candidate.strip };
            if let Some(home) = home(tile)
                && !found.iter().any(|(_, other)| *other == home)
            {
                found.push((tile, home));
            }
        }
        let tiles: Arc<[Tile]> = found.into_iter().map(|(tile, _)| tile).collect();
        self.0.insert(desc, Arc::clone(&tiles));
        tiles
    }
}
