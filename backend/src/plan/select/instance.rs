//! From a graph to the abstract problem: computed F32 tensors that are the plan's own are variables, what their writers and readers
//! cost is theirs. External and kept tensors stay in the home that dtype and shape prescribe.

use std::collections::{HashMap, HashSet};

use crate::device::{Limits, Profile};
use crate::graph::{DType, Desc, Graph, Kind, Op, ValueId};
use crate::plan::cost::Prices;
use crate::plan::{Home, PlanError, PlanOptions, Step, candidates};

use super::cluster::{Cluster, Sampler};
use super::problem::{Problem, Variable};
use super::{Layouts, Tile};

/// What layouts are selected for.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub limits: &'a Limits,
    pub options: PlanOptions,
    pub profile: &'a Profile,
}

/// The problem of a graph.
pub(super) struct Instance {
    pub problem: Problem,
    /// Seconds of all steps, barriers apart, by the rule. The problem counts from there.
    pub rule: f64,
    /// The tensor of each variable.
    tensors: Vec<ValueId>,
}

impl Instance {
    /// Reads the problem off a graph and the steps that the rule makes of it.
    pub fn new<'a>(
        graph: &Graph,
        steps: &[Step],
        target: Target<'a>,
        prices: &mut Prices<'a>,
    ) -> Result<Self, PlanError> {
        let made: HashSet<usize> = steps.iter().map(|step| step.node).collect();
        let kept: HashSet<ValueId> = graph.kept.iter().copied().collect();
        let mut choices = Choices { target, known: HashMap::new() };
        let mut sampler = Sampler::new(target, prices);
        let mut elided = HashMap::new();
        let mut number: HashMap<ValueId, usize> = HashMap::new();
        let mut instance = Self { problem: Problem::default(), rule: 0.0, tensors: Vec::new() };
        let mut variables: Vec<Variable> = Vec::new();
        let mut terms = Vec::new();
        for (at, node) in graph.nodes.iter().enumerate() {
            if node.op == Op::Copy && !made.contains(&at) {
                elided.insert(node.output, at);
                continue;
            }
            let value = &graph.values[node.output.index()];
            if value.kind == Kind::Computed && value.dtype == DType::F32 && !kept.contains(&node.output) {
                let tiles = choices.of(value.desc());
                if tiles.len() > 1 {
                    number.insert(node.output, variables.len());
                    instance.tensors.push(node.output);
                    let costs = vec![0.0; tiles.len()];
                    variables.push(Variable { weight: value.desc().bytes(), tiles, costs });
                }
            }
            let cluster = Cluster::new(graph, at, &elided);
            let free = cluster.values.iter().filter_map(|&(id, local)| Some((local, *number.get(&id)?)));
            let (locals, touched): (Vec<ValueId>, Vec<usize>) = free.unzip();
            let tiles = touched.iter().map(|&v| variables[v].tiles.as_slice()).collect::<Vec<_>>();
            terms.push((sampler.sample(&cluster.graph, &locals, &tiles)?, touched));
        }

        for (sample, touched) in &terms {
            let sample = sampler.get(*sample);
            instance.rule += sample.rule;
            for (&v, more) in touched.iter().zip(&sample.single) {
                variables[v].costs.iter_mut().zip(more).for_each(|(sum, cost)| *sum += cost);
            }
        }
        instance.problem = Problem::new(variables);
        for (sample, touched) in &terms {
            for &((a, b), ref more) in &sampler.get(*sample).pairs {
                instance.problem.couple(touched[a], touched[b], more.clone());
            }
        }
        Ok(instance)
    }

    /// The layouts of a choice, where they are not the rule's.
    pub fn layouts(&self, assignment: &[usize]) -> Layouts {
        let chosen = self.tensors.iter().zip(&self.problem.variables).zip(assignment).filter(|&(_, &i)| i > 0);
        Layouts(chosen.map(|((&id, variable), &i)| (id, variable.tiles[i])).collect())
    }
}

/// The tiles that tensors can have, the rule's first.
struct Choices<'a> {
    target: Target<'a>,
    known: HashMap<Desc, Vec<Tile>>,
}

impl Choices<'_> {
    fn of(&mut self, desc: Desc) -> Vec<Tile> {
        let Target { limits, options, profile } = self.target;
        let find = || {
            let rule = Tile::by_rule(&desc.shape, limits, options);
            let home = |tile| Home::chosen(desc.dtype, &desc.shape, Some(tile), limits, options).ok();
            let mut found: Vec<(Tile, Home)> = home(rule).map(|home| (rule, home)).into_iter().collect();
            let kind = found.first().map(|(_, home)| home.kind);
            let others = kind.and_then(|kind| candidates(desc, kind, profile, !options.unpruned).ok());
            for candidate in others.into_iter().flat_map(|others| others.homes) {
                let tile = Tile { row_axis: candidate.row_axis, strip: candidate.strip };
                if let Some(home) = home(tile)
                    && !found.iter().any(|(_, other)| *other == home)
                {
                    found.push((tile, home));
                }
            }
            found.into_iter().map(|(tile, _)| tile).collect()
        };
        self.known.entry(desc).or_insert_with(find).clone()
    }
}
