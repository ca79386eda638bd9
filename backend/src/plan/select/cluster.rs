//! A node, with the copies before it that are not made: what it costs depends on the layouts of the tensors that it touches. Layers of
//! a model share their clusters, so each kind is planned and priced once.
//!
//! With `f` the time of a cluster whose tensors have these layouts and the rule's otherwise, a cluster counts as
//! `f() + Σ (f(a) - f()) + Σ (f(a, b) - f(a) - f(b) + f())`: right for two tensors, without the interplay of three for more. A layout
//! that no kernel reads as it is pays here for the copy that its reader then needs.

use std::collections::HashMap;

use crate::graph::{Graph, Node, Operand, ValueId};
use crate::plan::build::Draft;
use crate::plan::cost::Prices;
use crate::plan::fusion::Groups;
use crate::plan::{PlanError, Step, StepCost};

use super::instance::Target;
use super::{Layouts, Tile};

/// A graph of one node and the elided copies that lead to it.
pub(super) struct Cluster {
    pub graph: Graph,
    /// Its values: in the whole graph, and here.
    pub values: Vec<(ValueId, ValueId)>,
}

impl Cluster {
    /// The cluster of a node; `elided` tells the node of every value that is the positions of another one.
    pub fn new(graph: &Graph, node: usize, elided: &HashMap<ValueId, usize>) -> Self {
        let mut cluster = Self { graph: Graph::new(), values: Vec::new() };
        cluster.add(graph, node, elided);
        cluster
    }

    fn add(&mut self, graph: &Graph, node: usize, elided: &HashMap<ValueId, usize>) {
        let node = &graph.nodes[node];
        let local = |cluster: &mut Self, id: ValueId| {
            if let Some(&(_, local)) = cluster.values.iter().find(|(known, _)| *known == id) {
                return local;
            }
            if let Some(&copy) = elided.get(&id) {
                cluster.add(graph, copy, elided);
            }
            cluster.value(graph, id)
        };
        let inputs = node.inputs.iter().map(|o| Operand { value: local(self, o.value), ..*o }).collect();
        let updates = node.updates.iter().map(|&id| local(self, id)).collect();
        let output = self.value(graph, node.output);
        self.graph.nodes.push(Node { name: String::new(), op: node.op, inputs, output, updates });
    }

    /// A value here; names are dropped, so that clusters of one kind are equal.
    fn value(&mut self, graph: &Graph, id: ValueId) -> ValueId {
        if let Some(&(_, local)) = self.values.iter().find(|(known, _)| *known == id) {
            return local;
        }
        let value = &graph.values[id.index()];
        let local = self.graph.external("", value.dtype, value.shape);
        self.graph.values[local.index()].kind = value.kind;
        if graph.kept.contains(&id) {
            self.graph.keep(local);
        }
        self.values.push((id, local));
        local
    }
}

/// What a cluster costs under the layouts of its free tensors.
pub(super) struct Sample {
    /// Seconds by the rule.
    pub rule: f64,
    /// What each layout of each tensor adds to that.
    pub single: Vec<Vec<f64>>,
    /// What pairs of layouts add to the sum of both, for pairs of tensors where that is anything.
    pub pairs: Vec<((usize, usize), Vec<f64>)>,
}

/// Plans and prices clusters.
pub(super) struct Sampler<'a, 'p> {
    target: Target<'a>,
    prices: &'p mut Prices<'a>,
    known: HashMap<String, usize>,
    samples: Vec<Sample>,
}

/// A dispatch of a cluster with its price.
struct Priced {
    shader: &'static str,
    groups: [u32; 3],
    cost: StepCost,
}

impl<'a, 'p> Sampler<'a, 'p> {
    pub fn new(target: Target<'a>, prices: &'p mut Prices<'a>) -> Self {
        Self { target, prices, known: HashMap::new(), samples: Vec::new() }
    }

    /// The sample of that number.
    pub fn get(&self, number: usize) -> &Sample {
        &self.samples[number]
    }

    /// The number of the sample of a cluster, whose free values are `free` with these tiles.
    pub fn sample(&mut self, graph: &Graph, free: &[ValueId], tiles: &[&[Tile]]) -> Result<usize, PlanError> {
        // Tiles follow from dtype and shape, which the graph holds.
        let key = format!("{:?} {:?} {:?} {free:?}", graph.nodes, graph.values, graph.kept);
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let by_rule = self.price(graph, Layouts::default())?;
        let rule = seconds(&by_rule);
        // What cannot be planned has no price. The rule's own tile comes first, and is priced already.
        let mut alone = Vec::new();
        for (&value, tiles) in free.iter().zip(tiles) {
            let others = tiles[1..].iter().map(|&tile| self.price(graph, Layouts([(value, tile)].into())).ok());
            alone.push(others.collect::<Vec<_>>());
        }
        let more = |priced: &Option<Vec<Priced>>| priced.as_ref().map_or(f64::INFINITY, |p| seconds(p) - rule);
        let single: Vec<Vec<f64>> =
            alone.iter().map(|others| [0.0].into_iter().chain(others.iter().map(more)).collect()).collect();
        let mut pairs = Vec::new();
        for (a, b) in (0..free.len()).flat_map(|a| (a + 1..free.len()).map(move |b| (a, b))) {
            let mut costs = vec![0.0; tiles[a].len() * tiles[b].len()];
            for (i, with_a) in alone[a].iter().enumerate() {
                for (j, with_b) in alone[b].iter().enumerate() {
                    // What is impossible alone stays so.
                    let (Some(with_a), Some(with_b)) = (with_a, with_b) else { continue };
                    let both = match together(&by_rule, with_a, with_b) {
                        Some(both) => both,
                        None => {
                            let layouts = Layouts([(free[a], tiles[a][i + 1]), (free[b], tiles[b][j + 1])].into());
                            self.price(graph, layouts).map_or(f64::INFINITY, |priced| seconds(&priced))
                        }
                    };
                    let beyond = both - rule - single[a][i + 1] - single[b][j + 1];
                    costs[(i + 1) * tiles[b].len() + j + 1] = if beyond.abs() > NOTHING * rule { beyond } else { 0.0 };
                }
            }
            if costs.iter().any(|&cost| cost != 0.0) {
                pairs.push(((a, b), costs));
            }
        }
        self.samples.push(Sample { rule, single, pairs });
        self.known.insert(key, self.samples.len() - 1);
        Ok(self.samples.len() - 1)
    }

    fn price(&mut self, graph: &Graph, layouts: Layouts) -> Result<Vec<Priced>, PlanError> {
        let draft = Draft::new(graph, self.target.limits, self.target.options, &layouts, &Groups::default())?;
        let costs = self.prices.of(graph, draft.steps());
        let priced = |(step, cost): (&Step, StepCost)| Priced { shader: step.shader, groups: step.groups, cost };
        Ok(draft.steps().iter().zip(costs).map(priced).collect())
    }
}

fn seconds(priced: &[Priced]) -> f64 {
    priced.iter().map(|p| p.cost.seconds).sum()
}

/// Seconds of a cluster with two layouts, from what each of them changes alone: operands add up in every resource. Nothing where a
/// layout changes the dispatches.
fn together(rule: &[Priced], a: &[Priced], b: &[Priced]) -> Option<f64> {
    let alike = |p: &[Priced]| {
        p.len() == rule.len() && p.iter().zip(rule).all(|(p, rule)| (p.shader, p.groups) == (rule.shader, rule.groups))
    };
    let step = |((rule, a), b): ((&Priced, &Priced), &Priced)| {
        let [rule, a, b] = [rule, a, b].map(|p| p.cost);
        let longest = |times: [f64; 4]| times.into_iter().fold(0.0, f64::max);
        let times = std::array::from_fn(|r| a.times[r] + b.times[r] - rule.times[r]);
        longest(times) + (rule.seconds - longest(rule.times))
    };
    (alike(a) && alike(b)).then(|| rule.iter().zip(a).zip(b).map(step).sum())
}

/// Share of a cluster's time under which a difference is rounding.
const NOTHING: f64 = 1e-9;
