//! Which nodes run as one dispatch: a kernel, a second product beside it, and what is done to the result before it is stored. Products of
//! few columns also normalise their right factor: such a norm is part of every product that reads it, and of nothing else.
//!
//! Decided on the graph alone. A group runs where its last node stands, so nobody in between may read what the group computes or
//! change what it reads. Values of the group that others read are stored beside the last one; the others exist in registers only.

mod assemble;
mod search;

use crate::device::Limits;
use crate::graph::{Family, Graph, Operand, ValueId};

use super::ladder::Ladder;
pub(super) use assemble::{Assembled, Extra, Map};
use search::Search;
pub(super) use search::is_root;

/// What a policy lets run together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fusion {
    /// Nothing.
    Off,
    /// Elementwise ops behind a kernel.
    Elementwise,
    /// The same, the sum of two products, and rotations.
    All,
}

/// Nodes that run as one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    /// In the order of the graph.
    pub nodes: Vec<usize>,
    /// The node whose kernel runs.
    pub root: usize,
    /// What normalises the right factor of the root's product; other groups may have the same.
    pub norm: Option<Normed>,
    /// A product of the same right factor, whose result the nodes behind the root's take with the root's.
    pub twin: Option<usize>,
    /// What is summed with the root's product.
    pub second: Option<Second>,
    /// The node that rotates the result of all others: the last one.
    pub rotation: Option<usize>,
    /// Values, other than the last node's, that are read outside.
    pub stored: Vec<ValueId>,
    /// Nodes that update what the group reads and stand before its last node: they run after it.
    pub after: Vec<usize>,
}

/// A norm that products do on their way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Normed {
    /// Its node.
    pub node: usize,
    /// The node that multiplies its result by a gain, and the number of the operand that the gain is.
    pub gain: Option<(usize, usize)>,
}

impl Normed {
    fn nodes(self) -> impl Iterator<Item = usize> {
        [self.node].into_iter().chain(self.gain.map(|(at, _)| at))
    }

    /// The norm as a group by itself.
    fn apart(self) -> Group {
        Group { nodes: self.nodes().collect(), root: self.node, ..Group::default() }
    }

    /// What is normalised.
    fn source(self, graph: &Graph) -> &Operand {
        &graph.nodes[self.node].inputs[0]
    }

    fn gain(self, graph: &Graph) -> Option<&Operand> {
        self.gain.map(|(at, number)| &graph.nodes[at].inputs[number])
    }
}

/// A second product of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Second {
    /// Its node.
    pub product: usize,
    /// The node that scales it, if there is one.
    pub scaled: Option<usize>,
    /// The factor.
    pub scale: f32,
    /// The node that adds both, or the later of the two that add them to something else.
    pub sum: usize,
    /// The node that adds the earlier product to something else.
    pub before: Option<usize>,
}

impl Group {
    /// The nodes that are one kernel: its result is that of the last of them.
    fn kernel(&self) -> impl Iterator<Item = usize> + use<> {
        let second = self.second;
        let beside = second.into_iter().flat_map(|s| [Some(s.product), s.scaled, s.before, Some(s.sum)]).flatten();
        [self.root].into_iter().chain(beside).chain(self.twin).chain(self.norm.into_iter().flat_map(Normed::nodes))
    }

    /// The same nodes without the rotation, with one product each, or without the norm, where no kernel does both; run one after the
    /// other.
    pub fn apart(&self, graph: &Graph) -> Option<[Self; 2]> {
        let without = |gone: &[usize]| self.nodes.iter().copied().filter(|at| !gone.contains(at)).collect::<Vec<_>>();
        if let Some(twin) = self.twin {
            let nodes = self.norm.into_iter().flat_map(Normed::nodes).chain([twin]).collect();
            let first = Self { nodes, root: twin, norm: self.norm, ..Self::default() };
            return Some([first, Self { nodes: without(&[twin]), twin: None, after: Vec::new(), ..self.clone() }]);
        }
        if let Some(norm) = self.norm {
            let nodes = without(&norm.nodes().collect::<Vec<_>>());
            return Some([norm.apart(), Self { nodes, norm: None, after: Vec::new(), ..self.clone() }]);
        }
        if let (Some(rotation), [nodes @ .., _]) = (self.rotation, &self.nodes[..]) {
            let before = Self { nodes: nodes.to_vec(), rotation: None, after: Vec::new(), ..self.clone() };
            return Some([before, Self { nodes: vec![rotation], root: rotation, ..Self::default() }]);
        }
        let Second { product, scaled, sum, before, .. } = self.second?;
        let feeds = |at: usize, into: usize| graph.nodes[into].inputs.iter().any(|i| i.value == graph.nodes[at].output);
        // The product that is scaled, or else added last, goes with the sum.
        let first_is_root = scaled.is_some() || before.is_none_or(|before| feeds(self.root, before));
        let (first, late) = if first_is_root { (self.root, product) } else { (product, self.root) };
        let early: Vec<usize> = self.nodes.iter().copied().filter(|&at| at == first || Some(at) == before).collect();
        let rest: Vec<usize> = self.nodes.iter().copied().filter(|at| !early.contains(at)).collect();
        debug_assert!(rest.contains(&sum) && rest.contains(&late));
        let stored = self.stored.clone();
        Some([
            Self { nodes: early, root: first, ..Self::default() },
            Self { nodes: rest, root: late, stored, ..Self::default() },
        ])
    }

    /// These nodes around the same kernel; what they store is not known.
    fn of(&self, nodes: Vec<usize>) -> Self {
        let Self { root, norm, twin, second, rotation, .. } = *self;
        Self { nodes, root, norm, twin, second, rotation, ..Self::default() }
    }

    /// The same group under other numbers of nodes; nothing waits for it.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Self {
        let second = self.second.map(|s| Second {
            product: number(s.product),
            scaled: s.scaled.map(&number),
            sum: number(s.sum),
            before: s.before.map(&number),
            ..s
        });
        let gain = |(at, operand): (usize, usize)| (number(at), operand);
        let norm = self.norm.map(|n| Normed { node: number(n.node), gain: n.gain.map(gain) });
        let nodes = self.nodes.iter().map(|&at| number(at)).collect();
        let (root, twin, rotation) = (number(self.root), self.twin.map(&number), self.rotation.map(&number));
        Self { nodes, root, norm, twin, second, rotation, stored: self.stored.clone(), after: Vec::new() }
    }

    /// What it consists of, in words: equal for groups of equal nodes that run alike, values apart.
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'_> {
        let nodes = [self.nodes.len(), self.root].into_iter().chain(self.nodes.iter().copied()).map(|n| n as u64);
        let second = self.second.into_iter().flat_map(|s| {
            let places = [Some(s.product), s.scaled, s.before, Some(s.sum)];
            places.map(|at| at.map_or(u64::MAX, |at| at as u64)).into_iter().chain([s.scale.to_bits().into()])
        });
        let norm = self.norm.map_or([u64::MAX; 2], |n| [n.node as u64, n.gain.map_or(u64::MAX, |(at, _)| at as u64)]);
        let twin = self.twin.map_or(u64::MAX, |at| at as u64);
        nodes.chain(second).chain(norm).chain([twin, u64::from(self.rotation.is_some())])
    }

    /// The products that are summed.
    pub fn products(&self) -> impl Iterator<Item = usize> + use<> {
        [self.root].into_iter().chain(self.second.map(|s| s.product))
    }

    /// The operands of the kernel: those of its products, where a right factor that is normalised on the way is what the norm reads, and
    /// the twin's left factor and the gain follow the first two; then positions and factors of the rotation.
    pub fn operands<'g>(&self, graph: &'g Graph) -> Vec<&'g Operand> {
        let mut operands: Vec<&Operand> = graph.nodes[self.root].inputs.iter().collect();
        if let Some(norm) = self.norm {
            operands[1] = norm.source(graph);
        }
        operands.extend(self.twin.map(|at| &graph.nodes[at].inputs[0]));
        operands.extend(self.norm.and_then(|norm| norm.gain(graph)));
        operands.extend(self.second.into_iter().flat_map(|s| &graph.nodes[s.product].inputs));
        operands.extend(self.rotation.into_iter().flat_map(|at| &graph.nodes[at].inputs[1..]));
        operands
    }

    /// Operands that the kernel binds besides extra ones, whether all of them are there or not.
    fn bound(&self, graph: &Graph) -> usize {
        let of_products: usize = self.products().map(|at| graph.nodes[at].inputs.len()).sum();
        let gain = usize::from(self.norm.is_some() || self.twin.is_some());
        let angles = if self.rotation.is_some() { 2 } else { 0 };
        of_products + usize::from(self.twin.is_some()) + gain + angles + 1
    }
}

/// The groups of a graph, by the node where each runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Where each node runs; those beyond the end run where they stand.
    nodes: Vec<Turn>,
}

/// When a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Turn {
    /// Where it stands, by itself.
    #[default]
    Own,
    /// With a later one.
    Held,
    /// Behind a group.
    Waiting,
    /// Where it stands, as the last of the group of that number.
    Last(usize),
}

impl FromIterator<Group> for Groups {
    fn from_iter<T: IntoIterator<Item = Group>>(groups: T) -> Self {
        let mut all = Self::default();
        groups.into_iter().for_each(|group| all.add(group));
        all
    }
}

impl Groups {
    /// Products and kernels of rows take what follows them, the latest first: a sum then belongs to the product made last. What is
    /// left of elementwise nodes forms chains.
    pub fn of(ladder: &Ladder<'_>, limits: &Limits, fusion: Fusion) -> Self {
        if fusion == Fusion::Off {
            return Self::default();
        }
        let graph = ladder.graph();
        let mut search = Search::new(ladder, limits, fusion);
        for root in (0..graph.nodes.len()).rev().filter(|&at| is_root(&graph.nodes[at])) {
            if fusion == Fusion::All {
                search.pair(root);
                search.twins(root);
            }
            search.grow(root);
        }
        for root in 0..graph.nodes.len() {
            if graph.nodes[root].op.row().family == Family::Elementwise {
                search.grow(root);
            }
        }
        if fusion == Fusion::All {
            (0..graph.nodes.len()).for_each(|at| search.normed(at));
        }
        search.groups
    }

    fn add(&mut self, group: Group) {
        let Some((&last, before)) = group.nodes.split_last() else { return };
        let end = group.after.iter().fold(last, |end, &at| end.max(at)) + 1;
        if self.nodes.len() < end {
            self.nodes.resize(end, Turn::Own);
        }
        before.iter().for_each(|&at| self.nodes[at] = Turn::Held);
        group.after.iter().for_each(|&at| self.nodes[at] = Turn::Waiting);
        self.nodes[last] = Turn::Last(self.groups.len());
        self.groups.push(group);
    }

    /// The group that has a product among what its kernel multiplies; one by itself where none has.
    fn of_product(&self, product: usize) -> Group {
        let takes = |group: &&Group| group.products().chain(group.twin).any(|at| at == product);
        let alone = || Group { nodes: vec![product], root: product, ..Group::default() };
        self.groups.iter().find(takes).cloned().unwrap_or_else(alone)
    }

    /// Puts a norm before all products that read it, in place of what these were.
    fn precede(&mut self, normed: Vec<Group>) {
        for group in normed {
            match self.turn(group.nodes[group.nodes.len() - 1]) {
                Turn::Last(number) => {
                    group.norm.into_iter().flat_map(Normed::nodes).for_each(|at| self.nodes[at] = Turn::Held);
                    self.groups[number] = group;
                }
                Turn::Own | Turn::Held | Turn::Waiting => self.add(group),
            }
        }
    }

    fn turn(&self, node: usize) -> Turn {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// The group that runs at this node.
    pub fn at(&self, node: usize) -> Option<&Group> {
        match self.turn(node) {
            Turn::Last(group) => Some(&self.groups[group]),
            Turn::Own | Turn::Held | Turn::Waiting => None,
        }
    }

    /// Whether the node runs elsewhere than it stands: with a group or behind it.
    pub fn absorbs(&self, node: usize) -> bool {
        matches!(self.turn(node), Turn::Held | Turn::Waiting)
    }

    /// Whether the node runs with a later one.
    pub fn holds(&self, node: usize) -> bool {
        self.turn(node) == Turn::Held
    }

    fn takes(&self, node: usize) -> bool {
        self.turn(node) != Turn::Own
    }
}
