//! A node, with the copies before it that are not made: what it costs depends on the layouts of the tensors that it touches. Layers of
//! a model share their clusters, so each kind is planned and priced once.
//!
//! With `f` the time of a cluster whose tensors have these layouts and the rule's otherwise, a cluster counts as
//! `f() + Σ (f(a) - f()) + Σ (f(a, b) - f(a) - f(b) + f())`: exact for two tensors, without the interplay of three for more. A layout
//! that no kernel reads as it is pays here for the copy that its reader then needs.

use std::collections::HashMap;

use crate::device::Case;
use crate::graph::{Graph, Node, Operand, ValueId};
use crate::plan::cost::Prices;
use crate::plan::{Objective, PlanError, build};

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
        self.graph.nodes.push(Node { name: String::new(), op: node.op.clone(), inputs, output, updates });
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
pub(super) struct Sampler<'a> {
    target: Target<'a>,
    prices: Prices<'a>,
    known: HashMap<String, usize>,
    samples: Vec<Sample>,
}

impl<'a> Sampler<'a> {
    pub fn new(target: Target<'a>) -> Self {
        let prices = Prices::new(target.profile, Case::Middle);
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
        let rule = self.price(graph, Layouts::default())?;
        let mut priced = |chosen: &[(usize, usize)]| {
            let layouts = chosen.iter().map(|&(a, i)| (free[a], tiles[a][i])).collect();
            // What cannot be planned costs without end.
            self.price(graph, Layouts(layouts)).map_or(f64::INFINITY, |seconds| seconds - rule)
        };
        let more = |a: usize, priced: &mut dyn FnMut(&[(usize, usize)]) -> f64| {
            (0..tiles[a].len()).map(|i| if i == 0 { 0.0 } else { priced(&[(a, i)]) }).collect::<Vec<f64>>()
        };
        let single: Vec<Vec<f64>> = (0..free.len()).map(|a| more(a, &mut priced)).collect();
        let mut pairs = Vec::new();
        for (a, b) in (0..free.len()).flat_map(|a| (a + 1..free.len()).map(move |b| (a, b))) {
            let cell = |i: usize, j: usize, priced: &mut dyn FnMut(&[(usize, usize)]) -> f64| {
                let alone = single[a][i] + single[b][j];
                // With the rule's layout on one side nothing is added, and what is impossible alone stays so.
                if i == 0 || j == 0 || alone.is_infinite() { 0.0 } else { priced(&[(a, i), (b, j)]) - alone }
            };
            let cells = (0..tiles[a].len()).flat_map(|i| (0..tiles[b].len()).map(move |j| (i, j)));
            let costs: Vec<f64> = cells.map(|(i, j)| cell(i, j, &mut priced)).collect();
            if costs.iter().any(|cost| cost.abs() > NOTHING * rule) {
                pairs.push(((a, b), costs));
            }
        }
        self.samples.push(Sample { rule, single, pairs });
        self.known.insert(key, self.samples.len() - 1);
        Ok(self.samples.len() - 1)
    }

    fn price(&mut self, graph: &Graph, layouts: Layouts) -> Result<f64, PlanError> {
        let steps = build::steps(graph, self.target.limits, self.target.options, &layouts)?;
        Ok(Objective::TimeHarmonic.cost(&self.prices.of(graph, &steps)))
    }
}

/// Share of a cluster's time under which a difference is rounding.
const NOTHING: f64 = 1e-9;
