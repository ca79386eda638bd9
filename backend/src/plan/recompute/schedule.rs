//! A graph's nodes in order, some of them more than once: what recomputing works on, cheap to copy and to change.

use crate::graph::{Graph, Node, ValueId};

use super::facts::{Fact, shares};

/// Values are numbers: those of the graph, then those that nodes compute again.
pub(super) type Version = usize;

/// A run of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// The node of the graph.
    pub node: usize,
    /// Where its operands begin among all operands.
    first: usize,
    /// What it computes, or updates.
    pub output: Version,
}

/// What does not change: a graph and what is known of it.
pub(super) struct Basis<'a> {
    pub graph: &'a Graph,
    pub facts: Vec<Fact>,
    /// Operands of each node whose storage its output may take over, as bits.
    shares: Vec<u32>,
}

impl<'a> Basis<'a> {
    /// Of a graph and its facts; `in_place` where outputs take over storages.
    pub fn new(graph: &'a Graph, facts: Vec<Fact>, in_place: bool) -> Self {
        let shares = graph.nodes.iter().map(|node| if in_place { shares(graph, node) } else { 0 }).collect();
        Self { graph, facts, shares }
    }
}

/// Runs of a graph's nodes.
#[derive(Clone)]
pub(super) struct Schedule {
    runs: Vec<Run>,
    operands: Vec<Version>,
    /// Numbers of runs, as they follow each other.
    order: Vec<usize>,
    /// Value of the graph that a version is.
    origin: Vec<usize>,
    /// The version of the same value that was made before.
    older: Vec<Option<Version>>,
    /// The version of a value that was made last.
    newest: Vec<Version>,
}

/// Where versions begin and end in a schedule.
pub(super) struct Lives {
    /// Position of the run that computes a version; none of an external value.
    pub begin: Vec<Option<usize>>,
    /// Run that computes a version.
    pub run: Vec<Option<usize>>,
    /// Last position that touches a version's storage.
    pub last: Vec<usize>,
    /// The version whose storage a version is found in: its own, unless it is a view.
    pub root: Vec<Version>,
    /// Position at which an external value gets another content.
    pub updated: Vec<Option<usize>>,
    /// Bytes alive in the arena at each position.
    pub alive: Vec<u64>,
}

impl Lives {
    /// The first position where most bytes are alive, and these bytes.
    pub fn peak(&self) -> (usize, u64) {
        let fullest = self.alive.iter().copied().enumerate().max_by_key(|&(at, bytes)| (bytes, std::cmp::Reverse(at)));
        fullest.unwrap_or((0, 0))
    }
}

impl Schedule {
    /// Every node once.
    pub fn new(graph: &Graph) -> Self {
        let mut operands = Vec::new();
        let run = |(node, n): (usize, &Node)| {
            let first = operands.len();
            operands.extend(n.inputs.iter().map(|input| input.value.index()));
            Run { node, first, output: n.output.index() }
        };
        let runs: Vec<Run> = graph.nodes.iter().enumerate().map(run).collect();
        let values = graph.values.len();
        Self {
            order: (0..runs.len()).collect(),
            runs,
            operands,
            origin: (0..values).collect(),
            older: vec![None; values],
            newest: (0..values).collect(),
        }
    }

    /// Number of versions.
    pub fn versions(&self) -> usize {
        self.origin.len()
    }

    /// Value of the graph that a version is.
    pub fn origin(&self, version: Version) -> usize {
        self.origin[version]
    }

    /// All versions of a value of the graph.
    pub fn versions_of(&self, value: usize) -> impl Iterator<Item = Version> + '_ {
        std::iter::successors(Some(self.newest[value]), |&version| self.older[version])
    }

    /// A run by its number.
    pub fn run(&self, run: usize) -> Run {
        self.runs[run]
    }

    /// Runs as they follow each other, by their numbers.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// Operands of a run.
    pub fn inputs(&self, basis: &Basis<'_>, run: usize) -> &[Version] {
        let Run { node, first, .. } = self.runs[run];
        &self.operands[first..first + basis.graph.nodes[node].inputs.len()]
    }

    /// Nodes that run again and move or compute something, and the operations of these runs.
    pub fn repeated(&self, basis: &Basis<'_>) -> (usize, u64) {
        let again = self.runs[basis.graph.nodes.len()..].iter().map(|run| &basis.facts[self.origin[run.output]]);
        again.filter(|fact| !fact.view).fold((0, 0), |(nodes, flops), fact| (nodes + 1, flops + fact.flops))
    }

    /// Where everything begins and ends.
    pub fn lives(&self, basis: &Basis<'_>) -> Lives {
        let versions = self.versions();
        let mut lives = Lives {
            begin: vec![None; versions],
            run: vec![None; versions],
            last: vec![0; versions],
            root: (0..versions).collect(),
            updated: vec![None; basis.graph.values.len()],
            alive: Vec::new(),
        };
        for (at, &run) in self.order.iter().enumerate() {
            let Run { node, output, .. } = self.runs[run];
            let inputs = self.inputs(basis, run);
            inputs.iter().for_each(|&input| lives.last[lives.root[input]] = at);
            let fact = &basis.facts[self.origin[output]];
            if fact.external {
                let written = basis.graph.nodes[node].written();
                written.iter().for_each(|id| lives.updated[id.index()] = Some(at));
                continue;
            }
            if fact.view {
                lives.root[output] = lives.root[inputs[0]];
            }
            (lives.begin[output], lives.run[output]) = (Some(at), Some(run));
            lives.last[lives.root[output]] = at;
        }

        let mut change = vec![0_i64; self.order.len() + 1];
        for (version, begin) in lives.begin.iter().enumerate() {
            let bytes = basis.facts[self.origin[version]].bytes as i64;
            if let Some(begin) = *begin {
                change[begin] += bytes;
                change[lives.last[version] + 1] -= bytes;
            }
        }
        for (at, &run) in self.order.iter().enumerate() {
            // An output that takes over a storage is there from the next position on, as far as bytes are counted.
            let Run { node, output, .. } = self.runs[run];
            let own = &basis.facts[self.origin[output]];
            let taken = |(&input, bit): (&Version, u32)| {
                basis.shares[node] >> bit & 1 == 1
                    && lives.root[input] == input
                    && lives.last[input] == at
                    && basis.facts[self.origin[input]].bytes == own.bytes
            };
            if own.bytes > 0 && self.inputs(basis, run).iter().zip(0..).any(taken) {
                change[at] -= own.bytes as i64;
                change[at + 1] += own.bytes as i64;
            }
        }
        let sums = change[..self.order.len()].iter().scan(0, |sum, change| {
            *sum += change;
            Some(*sum as u64)
        });
        lives.alive = sums.collect();
        lives
    }

    /// Adds a version of a value to be computed by another run of its node.
    pub fn add(&mut self, run: usize, inputs: &[Version]) -> (usize, Version) {
        let Run { node, output, .. } = self.runs[run];
        let (number, version, value) = (self.runs.len(), self.versions(), self.origin[output]);
        self.runs.push(Run { node, first: self.operands.len(), output: version });
        self.operands.extend(inputs);
        self.origin.push(value);
        self.older.push(Some(self.newest[value]));
        self.newest[value] = version;
        (number, version)
    }

    /// Gives a run other versions of its operands.
    pub fn rewire(&mut self, run: usize, inputs: &[Version]) {
        let first = self.runs[run].first;
        self.operands[first..first + inputs.len()].copy_from_slice(inputs);
    }

    /// Inserts runs before a position; those that are further behind move there.
    pub fn insert(&mut self, at: usize, runs: &[usize]) {
        let behind = self.order.split_off(at);
        self.order.extend(runs);
        self.order.extend(behind.into_iter().filter(|run| !runs.contains(run)));
    }

    /// Lets every run from a position on read one version instead of another.
    pub fn replace(&mut self, basis: &Basis<'_>, from: usize, old: Version, new: Version) {
        for at in from..self.order.len() {
            let Run { node, first, .. } = self.runs[self.order[at]];
            let inputs = &mut self.operands[first..first + basis.graph.nodes[node].inputs.len()];
            inputs.iter_mut().filter(|input| **input == old).for_each(|input| *input = new);
        }
    }

    /// The graph that runs its nodes this way. Values keep their numbers; new ones come after them.
    pub fn graph(&self, basis: &Basis<'_>) -> Graph {
        let mut graph = Graph { values: basis.graph.values.clone(), nodes: Vec::new(), kept: basis.graph.kept.clone() };
        let again = |value: &usize| {
            let mut value = graph.values[*value].clone();
            value.name += " again";
            value
        };
        let values: Vec<_> = self.origin[basis.graph.values.len()..].iter().map(again).collect();
        graph.values.extend(values);
        let ids: Vec<ValueId> = graph.ids().collect();
        let node = |&run: &usize| {
            let Run { node, output, .. } = self.runs[run];
            let mut node = basis.graph.nodes[node].clone();
            if run >= basis.graph.nodes.len() {
                node.name += " again";
            }
            node.inputs
                .iter_mut()
                .zip(self.inputs(basis, run))
                .for_each(|(input, &version)| input.value = ids[version]);
            node.output = ids[output];
            node
        };
        graph.nodes = self.order.iter().map(node).collect();
        graph
    }
}
