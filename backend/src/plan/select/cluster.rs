//! A node, with the copies before it that are not made: what it costs depends on the layouts of the tensors that it touches. Layers of
//! a model share their clusters, so each kind is planned and priced once.
//!
//! With `f` the cost of a cluster, in parts of the objective, whose tensors have these layouts and the rule's otherwise, a cluster counts as
//! `f() + Σ (f(a) - f()) + Σ (f(a, b) - f(a) - f(b) + f())`: right for two tensors, without the interplay of three for more. A layout
//! that no kernel reads as it is pays here for the copy that its reader then needs.

use rustc_hash::FxHashMap;

use crate::graph::{Graph, Node, Operand, ValueId};
use crate::plan::build::Draft;
use crate::plan::cost::Prices;
use crate::plan::fusion::{Group, Groups};
use crate::plan::ladder::Ladder;
use crate::plan::lowering::Lowerings;
use crate::plan::{Objective, PlanError, Step, StepCost};

use super::{Layouts, Tile};

/// The graph that clusters are cut from, as far as it is walked.
pub(super) struct Frame<'a> {
    graph: &'a Graph,
    groups: &'a Groups,
    ladder: &'a Ladder<'a>,
    values: Vec<Role>,
}

/// What is known of a value.
#[derive(Clone, Copy, Default)]
struct Role {
    /// The copy node whose result it is, when it is the positions of another value.
    elided: Option<usize>,
    /// The variable that its layout is.
    variable: Option<usize>,
}

impl<'a> Frame<'a> {
    /// The graph of a ladder with its groups.
    pub fn new(ladder: &'a Ladder<'a>, groups: &'a Groups) -> Self {
        let graph = ladder.graph();
        Self { graph, ladder, groups, values: vec![Role::default(); graph.values.len()] }
    }

    /// Says that a value is the positions of what that node copies.
    pub fn elided(&mut self, value: ValueId, node: usize) {
        self.values[value.index()].elided = Some(node);
    }

    /// Says that the layout of a value is a variable.
    pub fn free(&mut self, value: ValueId, variable: usize) {
        self.values[value.index()].variable = Some(variable);
    }
}

/// A node, or a group of them, and the elided copies that lead to it.
pub(super) struct Cluster {
    /// All that its plan and its price depend on, in words: equal for clusters of one kind.
    key: Vec<u64>,
    /// Nodes, the one that the cluster is of last.
    nodes: Vec<usize>,
    /// The nodes that run as one, by their positions in `nodes`.
    group: Option<Group>,
    /// Values, in the order in which the nodes name them.
    values: Vec<ValueId>,
    /// Values whose layout is free: their position in `values`, and their variable.
    pub free: Vec<(usize, usize)>,
}

impl Cluster {
    /// The cluster of a node, or of the group that runs there.
    pub fn new(frame: &Frame<'_>, node: usize, lowerings: &mut Lowerings) -> Self {
        let mut cluster =
            Self { key: Vec::with_capacity(128), nodes: Vec::new(), group: None, values: Vec::new(), free: Vec::new() };
        match frame.groups.at(node) {
            None => cluster.add(frame, node, lowerings),
            Some(group) => {
                group.nodes.iter().for_each(|&at| cluster.add(frame, at, lowerings));
                let position = |at: usize| cluster.nodes.iter().position(|&known| known == at).unwrap_or_default();
                let local = group.renumbered(position);
                // No op has this number.
                cluster.key.push(u64::MAX);
                cluster.key.extend(local.words());
                let stored = |id: &ValueId| cluster.values.iter().position(|known| known == id).unwrap_or_default();
                cluster.key.extend(local.stored.iter().map(|id| stored(id) as u64));
                cluster.group = Some(local);
            }
        }
        cluster
    }

    fn add(&mut self, frame: &Frame<'_>, at: usize, lowerings: &mut Lowerings) {
        let node = &frame.graph.nodes[at];
        let copied = |id: &ValueId| frame.values[id.index()].elided;
        for id in node.inputs.iter().map(|input| input.value).chain(node.updates.iter().copied()) {
            if let (Some(copy), false) = (copied(&id), self.values.contains(&id)) {
                self.add(frame, copy, lowerings);
            }
        }
        self.nodes.push(at);
        let counts = [node.inputs.len(), node.updates.len()].map(|n| n as u64);
        self.key.extend([lowerings.op(&node.op).into()].into_iter().chain(counts));
        for Operand { value, shape, strides, offset } in &node.inputs {
            self.value(frame, *value);
            self.key.extend(words(shape));
            self.key.extend(strides);
            self.key.push(*offset);
        }
        node.updates.iter().chain([&node.output]).for_each(|&id| self.value(frame, id));
    }

    /// Writes down a value: its position, and what it is when it is met for the first time.
    fn value(&mut self, frame: &Frame<'_>, id: ValueId) {
        if let Some(at) = self.values.iter().position(|&known| known == id) {
            return self.key.push(at as u64);
        }
        let (value, variable) = (&frame.graph.values[id.index()], frame.values[id.index()].variable);
        let flags = [frame.ladder.is_kept(id), variable.is_some()].map(u64::from);
        self.key.extend([self.values.len() as u64, value.dtype as u64, value.kind as u64]);
        self.key.extend(flags.into_iter().chain(words(&value.shape)));
        self.free.extend(variable.map(|variable| (self.values.len(), variable)));
        self.values.push(id);
    }

    /// The cluster as a graph without names, its values there, and what runs as one.
    fn graph(&self, frame: &Frame<'_>) -> (Graph, Vec<ValueId>, Groups) {
        let mut graph = Graph::new();
        let value = |&id: &ValueId| {
            let value = &frame.graph.values[id.index()];
            let local = graph.external("", value.dtype, value.shape);
            graph.values[local.index()].kind = value.kind;
            if frame.ladder.is_kept(id) {
                graph.keep(local);
            }
            local
        };
        let locals: Vec<ValueId> = self.values.iter().map(value).collect();
        let local = |id: ValueId| locals[self.values.iter().position(|&known| known == id).unwrap_or_default()];
        let nodes = self.nodes.iter().map(|&at| {
            let node = &frame.graph.nodes[at];
            let inputs = node.inputs.iter().map(|o| Operand { value: local(o.value), ..*o }).collect();
            let updates = node.updates.iter().map(|&id| local(id)).collect();
            Node { name: String::new(), op: node.op, inputs, output: local(node.output), updates }
        });
        let nodes = nodes.collect();
        let stored = |group: &Group| group.stored.iter().map(|&id| local(id)).collect();
        let group = self.group.as_ref().map(|group| Group { stored: stored(group), ..group.clone() });
        (Graph { nodes, ..graph }, locals, Groups::from_iter(group))
    }
}

/// A shape in two words.
fn words(&[a, b, c, d]: &[u32; 4]) -> [u64; 2] {
    let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    [pair(a, b), pair(c, d)]
}

/// What a cluster costs under the layouts of its free tensors.
pub(super) struct Sample {
    /// Parts of the objective, by the rule.
    pub rule: f64,
    /// What each layout of each tensor adds to that.
    pub single: Vec<Vec<f64>>,
    /// What pairs of layouts add to the sum of both, for pairs of tensors where that is anything.
    pub pairs: Vec<((usize, usize), Vec<f64>)>,
}

/// What clusters cost, by their kind.
#[derive(Default)]
pub(super) struct Samples {
    known: FxHashMap<Vec<u64>, usize>,
    samples: Vec<Sample>,
}

/// A dispatch of a cluster with its price.
struct Priced {
    shader: &'static str,
    groups: [u32; 3],
    cost: StepCost,
}

impl Samples {
    /// The sample of that number.
    pub fn get(&self, number: usize) -> &Sample {
        &self.samples[number]
    }

    /// The number of the sample of a cluster whose free values have these tiles.
    pub fn find(
        &mut self,
        cluster: &Cluster,
        frame: &Frame<'_>,
        tiles: &[&[Tile]],
        lowerings: &mut Lowerings,
        prices: &mut Prices<'_>,
    ) -> Result<usize, PlanError> {
        // Tiles follow from dtype and shape, which the key holds.
        if let Some(&known) = self.known.get(&cluster.key) {
            return Ok(known);
        }
        let (graph, locals, groups) = cluster.graph(frame);
        let objective = lowerings.options().objective;
        let free: Vec<ValueId> = cluster.free.iter().map(|&(at, _)| locals[at]).collect();
        let ladder = &Ladder::new(&graph, lowerings.options());
        let sample = Sampler { ladder, groups: &groups, lowerings, prices, objective }.sample(&free, tiles)?;
        self.samples.push(sample);
        self.known.insert(cluster.key.clone(), self.samples.len() - 1);
        Ok(self.samples.len() - 1)
    }
}

/// Plans and prices a cluster.
struct Sampler<'a, 'p> {
    ladder: &'a Ladder<'a>,
    groups: &'a Groups,
    lowerings: &'a mut Lowerings,
    prices: &'a mut Prices<'p>,
    objective: Objective,
}

impl Sampler<'_, '_> {
    fn sample(&mut self, free: &[ValueId], tiles: &[&[Tile]]) -> Result<Sample, PlanError> {
        let by_rule = self.price(Layouts::default())?;
        let rule = self.cost(&by_rule);
        // What cannot be planned has no price. The rule's own tile comes first, and is priced already.
        let mut alone = Vec::new();
        for (&value, tiles) in free.iter().zip(tiles) {
            let others = tiles[1..].iter().map(|&tile| self.price(Layouts::from_iter([(value, tile)])).ok());
            alone.push(others.collect::<Vec<_>>());
        }
        let more = |priced: &Option<Vec<Priced>>| priced.as_ref().map_or(f64::INFINITY, |p| self.cost(p) - rule);
        let single: Vec<Vec<f64>> =
            alone.iter().map(|others| [0.0].into_iter().chain(others.iter().map(more)).collect()).collect();
        let mut pairs = Vec::new();
        for (a, b) in (0..free.len()).flat_map(|a| (a + 1..free.len()).map(move |b| (a, b))) {
            let mut costs = vec![0.0; tiles[a].len() * tiles[b].len()];
            for (i, with_a) in alone[a].iter().enumerate() {
                for (j, with_b) in alone[b].iter().enumerate() {
                    // What is impossible alone stays so.
                    let (Some(with_a), Some(with_b)) = (with_a, with_b) else { continue };
                    let both = match self.together(&by_rule, with_a, with_b) {
                        Some(both) => both,
                        None => {
                            let layouts = Layouts::from_iter([(free[a], tiles[a][i + 1]), (free[b], tiles[b][j + 1])]);
                            self.price(layouts).map_or(f64::INFINITY, |priced| self.cost(&priced))
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
        Ok(Sample { rule, single, pairs })
    }

    fn price(&mut self, layouts: Layouts) -> Result<Vec<Priced>, PlanError> {
        let draft = Draft::new(self.ladder, self.lowerings, &layouts, self.groups)?;
        let costs = self.prices.of(self.ladder.graph(), draft.steps());
        let priced = |(step, cost): (&Step, StepCost)| Priced { shader: step.shader, groups: step.groups, cost };
        Ok(draft.steps().iter().zip(costs).map(priced).collect())
    }

    fn cost(&self, priced: &[Priced]) -> f64 {
        priced.iter().map(|p| self.objective.part(&p.cost)).sum()
    }

    /// The cost with two layouts, from what each of them changes alone, where that is possible: operands add up in the time of every
    /// resource, not in efficiency.
    fn together(&self, rule: &[Priced], a: &[Priced], b: &[Priced]) -> Option<f64> {
        match self.objective {
            Objective::TimeHarmonic => together(rule, a, b),
            Objective::PaperArithmetic => None,
        }
    }
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

/// Share of a cluster's cost under which a difference is rounding.
const NOTHING: f64 = 1e-9;
