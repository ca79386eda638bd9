//! Which nodes form groups.

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, Binary, DType, Family, Graph, Kind, Node, Op, ValueId};
use crate::kernels::{self, Epilogue};

use super::{Assembled, Fusion, Group, Groups, Second};
use crate::plan::ladder::Ladder;

/// Columns of products that read a matrix and do little else.
const FEW_COLUMNS: u64 = 8;

/// Looks for groups, each node in at most one.
pub(super) struct Search<'a> {
    graph: &'a Graph,
    /// Who reads a value, and whether it outlives the run.
    ladder: &'a Ladder<'a>,
    limits: &'a Limits,
    fusion: Fusion,
    /// The node that computes each value.
    makers: Vec<Option<usize>>,
    /// Nodes that update each external value.
    updates: FxHashMap<ValueId, Vec<usize>>,
    /// What was found.
    pub groups: Groups,
}

impl<'a> Search<'a> {
    /// Nothing is found yet.
    pub fn new(ladder: &'a Ladder<'a>, limits: &'a Limits, fusion: Fusion) -> Self {
        let graph = ladder.graph();
        let mut updates: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
        let mut makers = vec![None; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            makers[node.output.index()] = Some(at).filter(|_| node.updates.is_empty());
            let external = |id: &&ValueId| graph.values[id.index()].kind == Kind::External;
            for &id in node.updates.iter().chain([&node.output]).filter(external) {
                updates.entry(id).or_default().push(at);
            }
        }
        Self { graph, ladder, limits, fusion, makers, updates, groups: Groups::default() }
    }

    /// A sum of two products that nobody else reads: the longer one is the root, the other one runs beside it.
    pub fn pair(&mut self, product: usize) {
        if let Some(group) = self.paired(product) {
            let group = self.grown(group);
            self.groups.add(group);
        }
    }

    fn paired(&self, product: usize) -> Option<Group> {
        let nodes = &self.graph.nodes;
        let next = self.only_reader(product)?;
        let (scaled, scale, sum) = match nodes[next].op {
            Op::Scale { scale, bias: 0.0 } => (Some(next), scale, self.only_reader(next)?),
            _ => (None, 1.0, next),
        };
        let shape = self.graph.values[nodes[sum].output.index()].shape;
        let adds = |at: usize| {
            nodes[at].op == Op::Binary(Binary::Add) && nodes[at].inputs.iter().all(|input| input.is_whole(&shape))
        };
        let own = nodes[scaled.unwrap_or(product)].output;
        let other = |sum: usize, own: ValueId| nodes[sum].inputs.iter().find(|input| input.value != own);
        let is_base = |at: usize, sum: usize| is_product(&nodes[at]) && self.only_reader(at) == Some(sum);
        if !adds(sum) || !is_product(&nodes[product]) {
            return None;
        }
        let partner = self.makers[other(sum, own)?.value.index()]?;
        let (base, before) = match is_base(partner, sum) {
            true => (partner, None),
            // x + a + b, where x + a is read by nobody else.
            false if adds(partner) && self.only_reader(partner) == Some(sum) => {
                let mut terms = nodes[partner].inputs.iter().rev().filter_map(|term| self.makers[term.value.index()]);
                (terms.find(|&term| is_base(term, partner))?, Some(partner))
            }
            false => return None,
        };
        let longer = scale == 1.0 && depth(&nodes[product]) > depth(&nodes[base]);
        let (root, product) = if longer { (product, base) } else { (base, product) };
        let second = Some(Second { product, scaled, scale, sum, before });
        let mut group = Group { root, second, ..Group::default() };
        group.nodes = group.kernel().collect();
        group.nodes.sort_unstable();
        self.fits(group)
    }

    /// The node that alone reads the result of another, all of it.
    fn only_reader(&self, at: usize) -> Option<usize> {
        let node = &self.graph.nodes[at];
        let value = &self.graph.values[node.output.index()];
        match *self.ladder.readers(node.output) {
            [reader] if value.kind == Kind::Computed && !self.ladder.is_kept(node.output) => Some(reader),
            _ => None,
        }
    }

    /// Lets a node take what follows it.
    pub fn grow(&mut self, root: usize) {
        let node = &self.graph.nodes[root];
        let value = &self.graph.values[node.output.index()];
        if self.groups.takes(root) || value.kind != Kind::Computed || value.dtype != DType::F32 {
            return;
        }
        let group = self.grown(Group { nodes: vec![root], root, ..Group::default() });
        if group.nodes.len() > 1 {
            self.groups.add(group);
        }
    }

    fn grown(&self, mut group: Group) -> Group {
        let mut best = group.clone();
        while let Some(wider) = self.next_reader(&group).and_then(|next| self.with(&group, next)) {
            group = wider;
            // A copy at the end moves nothing that it would not move by itself.
            let last = group.nodes.last().map(|&at| self.graph.nodes[at].op);
            if last != Some(Op::Copy) {
                best = group.clone();
            }
            if group.rotation.is_some() {
                break;
            }
        }
        best
    }

    /// The first node outside that reads a value of the group.
    fn next_reader(&self, group: &Group) -> Option<usize> {
        let readers = group.nodes.iter().map(|&at| self.ladder.readers(self.graph.nodes[at].output));
        readers.filter_map(|readers| readers.iter().copied().find(|at| !group.nodes.contains(at))).min()
    }

    /// The group with one more node at its end, and with elementwise nodes that work for it alone.
    fn with(&self, group: &Group, next: usize) -> Option<Group> {
        let graph = self.graph;
        if matches!(graph.nodes[next].op, Op::Rope(_)) {
            let nodes = [&group.nodes[..], &[next]].concat();
            return self.fits(Group { rotation: Some(next), ..group.of(nodes) });
        }
        let mut added = vec![next];
        for input in &graph.nodes[next].inputs {
            let value = &graph.values[input.value.index()];
            if value.kind == Kind::External || group.nodes.iter().any(|&at| graph.nodes[at].output == input.value) {
                continue;
            }
            let Some(maker) = self.makers[input.value.index()] else { continue };
            let of_extras = graph.nodes[maker].op.row().family == Family::Elementwise;
            if of_extras && self.only_reader(maker) == Some(next) && !self.groups.takes(maker) {
                added.push(maker);
            }
        }
        if self.runs_beside(group, &added) {
            return None;
        }
        // With the nodes that work for it, or without them.
        while !added.is_empty() {
            let mut nodes = [&group.nodes[..], &added].concat();
            nodes.sort_unstable();
            if let Some(wider) = self.fits(group.of(nodes)) {
                return Some(wider);
            }
            added.pop();
        }
        None
    }

    /// Whether nodes join a product of few columns with another one of the same columns. Both are soon done: side by side they take less
    /// than one that waits for the other, and a dispatch joins them.
    fn runs_beside(&self, group: &Group, added: &[usize]) -> bool {
        let nodes = &self.graph.nodes;
        let root = &nodes[group.root];
        let columns = |node: &Node| graph::rows(&self.graph.values[node.output.index()].shape);
        let few = is_product(root) && columns(root) <= FEW_COLUMNS && !kernels::is_processor(self.limits);
        if !few {
            return false;
        }
        // Back through a few elementwise nodes to the products that they follow.
        let mut joined = added.to_vec();
        let mut next = 0;
        while let Some(&at) = joined.get(next) {
            next += 1;
            for maker in nodes[at].inputs.iter().filter_map(|input| self.makers[input.value.index()]) {
                let node = &nodes[maker];
                if group.nodes.contains(&maker) {
                    continue;
                }
                if is_product(node) && node.inputs[1] == root.inputs[1] {
                    return true;
                }
                let follows = node.op.row().family == Family::Elementwise && !joined.contains(&maker);
                if follows && joined.len() < kernels::MAX_STEPS {
                    joined.push(maker);
                }
            }
        }
        false
    }

    /// Whether an update can run behind a later node: nobody in between reads or changes what it writes, or changes what it reads.
    fn can_wait(&self, update: usize, behind: usize) -> bool {
        let node = &self.graph.nodes[update];
        let within = |nodes: &[usize]| nodes.iter().any(|&at| update < at && at <= behind);
        let written = node.updates.iter().chain([&node.output]);
        let read = node.inputs.iter().map(|input| &input.value);
        !self.groups.takes(update)
            && !written.clone().any(|id| within(self.ladder.readers(*id)))
            && !written.chain(read).any(|id| self.updates.get(id).is_some_and(|nodes| within(nodes)))
    }

    /// The group with what it has to store, if it can run as one.
    fn fits(&self, group: Group) -> Option<Group> {
        let graph = self.graph;
        let (&last, before) = group.nodes.split_last()?;
        let (mut stored, mut after) = (Vec::new(), Vec::new());
        for &at in &group.nodes {
            let node = &graph.nodes[at];
            let value = &graph.values[node.output.index()];
            let takes = group.kernel().chain(group.rotation).any(|part| part == at)
                || matches!(node.op.row().family, Family::Elementwise)
                || node.op == Op::Copy;
            if !takes || value.kind != Kind::Computed || value.dtype != DType::F32 || self.groups.takes(at) {
                return None;
            }
            // What changes something that a node reads, between its own place and the group's, has to wait.
            for input in &node.inputs {
                let changes = self.updates.get(&input.value).into_iter().flatten();
                after.extend(changes.copied().filter(|&by| at < by && by < last));
            }
        }
        for &at in before {
            let id = graph.nodes[at].output;
            let mut outside = self.ladder.readers(id).iter().filter(|reader| !group.nodes.contains(reader)).peekable();
            if outside.peek().is_some() || self.ladder.is_kept(id) {
                stored.push(id);
            }
            if outside.any(|&reader| reader < last) {
                return None;
            }
        }
        after.sort_unstable();
        after.dedup();
        if !after.iter().all(|&update| self.can_wait(update, last)) {
            return None;
        }
        let group = Group { stored, after, ..group };
        let Epilogue { steps, extras, .. } = Assembled::of(graph, &group)?.fused.epilogue;
        // A kernel that rotates has operands for positions and factors, whether there are factors or not.
        let angles = if group.rotation.is_some() { 2 } else { 0 };
        let others = group.products().map(|at| graph.nodes[at].inputs.len()).sum::<usize>() + angles + 1;
        let room = kernels::most_operands(self.limits).checked_sub(others)?.min(kernels::MAX_EXTRAS);
        let rotates = self.fusion == Fusion::All && can_rotate(&graph.nodes[group.root]);
        let fits = steps.len() <= kernels::MAX_STEPS && extras <= room && (group.rotation.is_none() || rotates);
        fits.then_some(group)
    }
}

/// Whether the node's kernel can rotate its result.
fn can_rotate(node: &Node) -> bool {
    is_product(node) || matches!(node.op, Op::RmsNorm { .. })
}

fn is_product(node: &Node) -> bool {
    node.op.row().family == Family::Gemm
}

/// Elements that a product sums over.
fn depth(node: &Node) -> u32 {
    node.inputs[0].shape[usize::from(node.op == Op::OutProd)]
}

/// Whether a kernel other than an elementwise one takes an epilogue.
pub(in crate::plan) fn is_root(node: &Node) -> bool {
    match node.op.row().family {
        Family::Gemm | Family::RepeatBack => true,
        Family::Rope => !matches!(node.op, Op::Rope(rope) if rope.mode.has_sections()),
        Family::Rows => !matches!(node.op, Op::ArgMax | Op::L2Norm { .. } | Op::SoftMax { sinks: true, .. }),
        Family::Elementwise
        | Family::Function
        | Family::Attention
        | Family::Experts
        | Family::Copy
        | Family::Move
        | Family::Sample
        | Family::Generate
        | Family::Gather
        | Family::CrossEntropy
        | Family::Optimizer
        | Family::Inset
        | Family::Convolution
        | Family::Pool
        | Family::Recurrent
        | Family::Mixing
        | Family::Reduce
        | Family::Sort => false,
    }
}
