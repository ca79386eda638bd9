//! Which nodes form groups.

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, Binary, DType, Family, Graph, Kind, Node, Op, Operand, ValueId};
use crate::kernels::{self, Epilogue};

use super::{Assembled, Fusion, Group, Groups, Normed, Second};
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

    /// Two products of few columns and one right factor, whose results an elementwise node joins that alone reads them: one kernel
    /// multiplies both left factors, where these are alike.
    pub fn twins(&mut self, product: usize) {
        if let Some(group) = self.twin_of(product) {
            let group = self.grown(group);
            self.groups.add(group);
        }
    }

    fn twin_of(&self, product: usize) -> Option<Group> {
        let nodes = &self.graph.nodes;
        let node = &nodes[product];
        let shape = self.graph.values[node.output.index()].shape;
        if node.op != Op::MulMat || !self.has_few_columns(node) {
            return None;
        }
        let join = self.only_reader(product)?;
        let joins = nodes[join].op.row().family == Family::Elementwise && nodes[join].inputs.len() == 2;
        let other = nodes[join].inputs.iter().find(|input| input.value != node.output)?;
        let twin = self.makers[other.value.index()]?;
        let (own, left) = (&node.inputs[0], &nodes[twin].inputs.first()?);
        let alike = nodes[twin].op == Op::MulMat
            && nodes[twin].inputs[1] == node.inputs[1]
            && self.only_reader(twin) == Some(join)
            && self.value(own).dtype == self.value(left).dtype
            && (own.shape, own.strides) == (left.shape, left.strides);
        if !joins || !alike || !nodes[join].inputs.iter().all(|input| input.is_whole(&shape)) {
            return None;
        }
        let (root, twin) = (product.min(twin), product.max(twin));
        self.fits(Group { nodes: vec![root, twin, join], root, twin: Some(twin), ..Group::default() })
    }

    /// Lets products of few columns normalise their right factor, where they alone read what a norm gives, or its gain: the norm then
    /// costs no dispatch that all of them wait for.
    pub fn normed(&mut self, norm: usize) {
        if let Some(products) = self.products_of(norm) {
            self.groups.precede(products);
        }
    }

    fn products_of(&self, norm: usize) -> Option<Vec<Group>> {
        let nodes = &self.graph.nodes;
        if !matches!(nodes[norm].op, Op::RmsNorm { .. }) || self.ladder.is_kept(nodes[norm].output) {
            return None;
        }
        let gain = self.gain_of(norm);
        let normed = Normed { node: norm, gain };
        let last = gain.map_or(norm, |(at, _)| at);
        let result = nodes[last].output;
        // What else runs with the norm needs its result.
        let own = |group: &Group| group.nodes.iter().copied().eq(normed.nodes()) && group.after.is_empty();
        let apart = self.groups.at(last).map_or(!self.groups.takes(norm) && !self.groups.takes(last), own);
        let readers = self.ladder.readers(result);
        if !apart || readers.is_empty() || self.ladder.is_kept(result) {
            return None;
        }
        let mut groups: Vec<Group> = Vec::new();
        for &reader in readers {
            if groups.iter().all(|group| !group.nodes.contains(&reader)) {
                groups.push(self.preceded(reader, normed, result)?);
            }
        }
        Some(groups)
    }

    /// The group of a product that reads what a norm gives, with the norm.
    fn preceded(&self, product: usize, norm: Normed, result: ValueId) -> Option<Group> {
        let nodes = &self.graph.nodes;
        let shape = self.graph.values[result.index()].shape;
        let reads = |at: usize| {
            let Node { op, inputs, .. } = &nodes[at];
            let [left, right] = &inputs[..] else { return false };
            *op == Op::MulMat && left.value != result && right.value == result && right.is_whole(&shape)
        };
        let group = self.groups.of_product(product);
        let runs = self.groups.at(group.nodes[group.nodes.len() - 1]).is_some() || !self.groups.takes(product);
        let all = || [group.root].into_iter().chain(group.twin);
        // A step behind the products would read what nobody stores.
        let others = group.nodes.iter().filter(|&&at| !all().any(|product| product == at));
        let read_besides = others.flat_map(|&at| &nodes[at].inputs).any(|input| input.value == result);
        if !runs
            || read_besides
            || group.second.is_some()
            || !all().all(reads)
            || !self.has_few_columns(&nodes[product])
        {
            return None;
        }
        let mut all_nodes: Vec<usize> = norm.nodes().chain(group.nodes.iter().copied()).collect();
        all_nodes.sort_unstable();
        let wider = Group { nodes: all_nodes, norm: Some(norm), ..group };
        // What it reads must be then what it is where the norm stands.
        let last = wider.nodes[wider.nodes.len() - 1];
        let changes = |operand: &Operand| {
            let updates = self.updates.get(&operand.value).into_iter().flatten();
            updates.into_iter().any(|&at| norm.node < at && at < last)
        };
        let read = [norm.source(self.graph)].into_iter().chain(norm.gain(self.graph));
        (!read.into_iter().any(changes) && self.has_room(&wider)?).then_some(wider)
    }

    /// The node that alone reads what a norm gives, and multiplies it by one value for each element of a row; the number of that operand.
    fn gain_of(&self, norm: usize) -> Option<(usize, usize)> {
        let nodes = &self.graph.nodes;
        let result = nodes[norm].output;
        let shape = self.graph.values[result.index()].shape;
        let at = self.only_reader(norm).filter(|&at| nodes[at].op == Op::Binary(Binary::Mul))?;
        let [first, second] = &nodes[at].inputs[..] else { return None };
        let (number, own, gain) = if first.value == result { (1, first, second) } else { (0, second, first) };
        let is_gain = gain.value != result && gain.shape == [shape[0], 1, 1, 1] && self.value(gain).dtype == DType::F32;
        (is_gain && own.is_whole(&shape)).then_some((at, number))
    }

    fn value(&self, operand: &Operand) -> &'a graph::Value {
        &self.graph.values[operand.value.index()]
    }

    /// Whether a node's result has few columns, on a device that does not run one product after the other.
    fn has_few_columns(&self, node: &Node) -> bool {
        let columns = graph::rows(&self.graph.values[node.output.index()].shape);
        columns <= FEW_COLUMNS && !kernels::is_processor(self.limits)
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

    /// Whether nodes join a product of few columns with another one of the same columns that is not its twin. Both are soon done: side
    /// by side they take less than one that waits for the other, and a dispatch joins them.
    fn runs_beside(&self, group: &Group, added: &[usize]) -> bool {
        let nodes = &self.graph.nodes;
        let root = &nodes[group.root];
        if !is_product(root) || !self.has_few_columns(root) {
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
        self.has_room(&group)?.then_some(group)
    }

    /// Whether a kernel has room for what a group does.
    fn has_room(&self, group: &Group) -> Option<bool> {
        let Epilogue { steps, extras, .. } = Assembled::of(self.graph, group)?.fused.epilogue;
        // A twin's result takes the place of an extra operand.
        let most = kernels::MAX_EXTRAS - usize::from(group.twin.is_some());
        let room = kernels::most_operands(self.limits).checked_sub(group.bound(self.graph))?.min(most);
        let can_rotate =
            self.fusion == Fusion::All && group.twin.is_none() && can_rotate(&self.graph.nodes[group.root]);
        let rotates = group.rotation.is_none() || can_rotate;
        Some(steps.len() <= kernels::MAX_STEPS && extras <= room && rotates)
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
