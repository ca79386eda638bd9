//! Which nodes run as one dispatch: a kernel, a second product beside it, and what is done to the result before it is stored.
//!
//! Decided on the graph alone. A group runs where its last node stands, so nobody in between may read what the group computes or
//! change what it reads. Values of the group that others read are stored beside the last one; the others exist in registers only.

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, Binary, DType, Family, Graph, Kind, Node, Op, Operand, Shape, ValueId};
use crate::kernels::{self, Epilogue, EpilogueStep, Fused, Rotation, SecondProduct, Source};

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
    /// What is summed with the root's product.
    pub second: Option<Second>,
    /// The node that rotates the result of all others: the last one.
    pub rotation: Option<usize>,
    /// Values, other than the last node's, that are read outside.
    pub stored: Vec<ValueId>,
    /// Nodes that update what the group reads and stand before its last node: they run after it.
    pub after: Vec<usize>,
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
        [self.root].into_iter().chain(beside)
    }

    /// The same nodes without the rotation, or with one product each, where no kernel does both; run one after the other.
    pub fn apart(&self, graph: &Graph) -> Option<[Self; 2]> {
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
        Self { nodes, root: self.root, second: self.second, rotation: self.rotation, ..Self::default() }
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
        let nodes = self.nodes.iter().map(|&at| number(at)).collect();
        let (root, rotation) = (number(self.root), self.rotation.map(&number));
        Self { nodes, root, second, rotation, stored: self.stored.clone(), after: Vec::new() }
    }

    /// What it consists of, in words: equal for groups of equal nodes that run alike, values apart.
    pub fn words(&self) -> impl Iterator<Item = u64> + use<'_> {
        let nodes = [self.nodes.len(), self.root].into_iter().chain(self.nodes.iter().copied()).map(|n| n as u64);
        let second = self.second.into_iter().flat_map(|s| {
            let places = [Some(s.product), s.scaled, s.before, Some(s.sum)];
            places.map(|at| at.map_or(u64::MAX, |at| at as u64)).into_iter().chain([s.scale.to_bits().into()])
        });
        nodes.chain(second).chain([u64::from(self.rotation.is_some())])
    }

    /// The nodes whose operands the kernel takes.
    pub fn products(&self) -> impl Iterator<Item = usize> + use<> {
        [self.root].into_iter().chain(self.second.map(|s| s.product))
    }

    /// The operands of the kernel: those of its products, then positions and factors of the rotation.
    pub fn operands<'g>(&self, graph: &'g Graph) -> impl Iterator<Item = &'g Operand> + use<'g> {
        let angles = self.rotation.into_iter().flat_map(|at| &graph.nodes[at].inputs[1..]);
        self.products().flat_map(|at| &graph.nodes[at].inputs).chain(angles)
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
    pub fn of(graph: &Graph, limits: &Limits, fusion: Fusion) -> Self {
        let mut search = Search::new(graph, limits, fusion);
        if fusion == Fusion::Off {
            return search.groups;
        }
        for root in (0..graph.nodes.len()).rev().filter(|&at| is_root(&graph.nodes[at])) {
            if fusion == Fusion::All {
                search.pair(root);
            }
            search.grow(root);
        }
        for root in 0..graph.nodes.len() {
            if graph.nodes[root].op.row().family == Family::Elementwise {
                search.grow(root);
            }
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

/// Whether a kernel other than an elementwise one takes an epilogue.
fn is_root(node: &Node) -> bool {
    match node.op.row().family {
        Family::Gemm | Family::Rope | Family::RepeatBack => true,
        Family::Rows => node.op != Op::ArgMax,
        Family::Elementwise | Family::Copy | Family::Gather | Family::CrossEntropy | Family::Optimizer => false,
    }
}

/// Strides of a value's linear order along the axes of the root's result: where its element for each of the root's is.
pub(super) type Map = [u64; 4];

/// An operand that a group reads besides its root's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Extra {
    /// What is read.
    pub operand: Operand,
    /// Shape of the node that reads it; the operand repeats along axes where it has one element.
    pub shape: Shape,
    /// From the root's axes to that shape's linear order.
    pub map: Map,
}

/// A group as a kernel sees it.
#[derive(Clone, Debug)]
pub(super) struct Assembled {
    /// What the kernel does; extras are those read, then those written.
    pub fused: Fused,
    /// Extras that are read.
    pub reads: Vec<Extra>,
    /// Extras that are written, with their maps.
    pub writes: Vec<(ValueId, Map)>,
    /// The last node's value.
    pub output: (ValueId, Map),
    /// Shape of the kernel's result.
    pub shape: Shape,
}

impl Assembled {
    /// The kernel's view of a group; nothing where its nodes do not form one.
    pub fn of(graph: &Graph, group: &Group) -> Option<Self> {
        let node = |at: usize| &graph.nodes[at];
        let result = node(group.second.map_or(group.root, |s| s.sum)).output;
        let shape = graph.values[result.index()].shape;
        let whole = graph::linear_strides(&shape);
        let values = FxHashMap::from_iter([(result, (Source::Result(0), whole))]);
        let mut built = Build { graph, shape, values, steps: Vec::new(), reads: Vec::new() };
        let mut output = (result, whole);
        if let Some(Second { before: Some(before), .. }) = group.second {
            let products: Vec<ValueId> = group.kernel().map(|at| node(at).output).collect();
            let rest = node(before).inputs.iter().find(|input| !products.contains(&input.value))?;
            let rest = built.source(rest, shape, whole)?;
            let inputs = vec![rest, Source::Result(0)];
            built.steps.push(EpilogueStep { op: Op::Binary(Binary::Add), inputs, store: None });
            built.values.insert(result, (Source::Result(1), whole));
        }
        let kernel: Vec<usize> = group.kernel().collect();
        let is_step = |at: &&usize| !kernel.contains(at) && group.rotation != Some(**at);
        for &at in group.nodes.iter().filter(is_step) {
            output = built.step(node(at))?;
        }
        let mut rotation = None;
        if let Some(at) = group.rotation {
            let (rotated, map) = built.rotated(node(at))?;
            rotation = Some(rotated);
            output = (node(at).output, map);
        }
        let Build { values, mut steps, reads, .. } = built;
        let mut store_root = None;
        let mut writes = Vec::new();
        for &value in &group.stored {
            let &(source, map) = values.get(&value)?;
            let store = match source {
                Source::Result(0) => &mut store_root,
                Source::Result(step) => &mut steps[step - 1].store,
                Source::Extra(_) => return None,
            };
            if store.replace(reads.len() + writes.len()).is_some() {
                return None;
            }
            writes.push((value, map));
        }
        let second = group.second.map(|s| SecondProduct { op: node(s.product).op, scale: s.scale });
        let epilogue = Epilogue { steps, store_root, extras: reads.len() + writes.len() };
        Some(Self {
            fused: Fused { op: node(group.root).op, second, epilogue, rotation },
            reads,
            writes,
            output,
            shape,
        })
    }
}

struct Build<'a> {
    graph: &'a Graph,
    shape: Shape,
    /// Values of the group: the register that holds each, and where its elements are.
    values: FxHashMap<ValueId, (Source, Map)>,
    steps: Vec<EpilogueStep>,
    reads: Vec<Extra>,
}

impl Build<'_> {
    /// Adds a node; its value and map.
    fn step(&mut self, node: &Node) -> Option<(ValueId, Map)> {
        let shape = self.graph.values[node.output.index()].shape;
        let mut map = None;
        for input in &node.inputs {
            let Some(&(_, from)) = self.values.get(&input.value) else { continue };
            let through = if node.op == Op::Copy { self.moved(input, from)? } else { self.same(input, from, shape)? };
            if map.is_some_and(|known| known != through) {
                return None;
            }
            map = Some(through);
        }
        // A node of extras alone is one that a later node of the group reads: it is of the root's own shape.
        let map = match map {
            Some(map) => map,
            None if shape == self.shape => graph::linear_strides(&shape),
            None => return None,
        };
        let inputs = node.inputs.iter().map(|input| self.source(input, shape, map)).collect::<Option<Vec<_>>>()?;
        let source = match node.op {
            Op::Copy => inputs[0],
            op => {
                self.steps.push(EpilogueStep { op, inputs, store: None });
                Source::Result(self.steps.len())
            }
        };
        self.values.insert(node.output, (source, map));
        Some((node.output, map))
    }

    /// The rotation of the last value by a node, and where the result's elements are.
    fn rotated(&self, node: &Node) -> Option<(Rotation, Map)> {
        let (Op::Rope(rope), window) = (node.op, node.inputs[0]) else { return None };
        let &(source, from) = self.values.get(&window.value)?;
        let map = self.moved(&window, from)?;
        let [head_dim, heads, positions, _] = window.shape;
        // Heads are rows of axis 0, or axis 0 is one head; all positions of a batch run along one axis.
        let axis = (1..4)
            .find(|&axis| self.shape[axis] == positions && map[axis] == u64::from(head_dim) * u64::from(heads))?;
        let is_last = source == Source::Result(self.steps.len());
        (is_last && self.shape[0].is_multiple_of(head_dim)).then_some((Rotation { rope, head_dim, axis }, map))
    }

    /// The map of an elementwise result, all of whose elements are those of a window over a value of the group.
    fn same(&self, input: &Operand, from: Map, shape: Shape) -> Option<Map> {
        (input.shape == shape).then(|| self.moved(input, from)).flatten()
    }

    fn moved(&self, window: &Operand, from: Map) -> Option<Map> {
        let value = &self.graph.values[window.value.index()];
        let map = if window.is_whole(&value.shape) { from } else { through(window, from, &self.shape)? };
        // Texels of the root's result stay texels.
        (map[0] == 1 || self.shape[0] == 1).then_some(map)
    }

    fn source(&mut self, input: &Operand, shape: Shape, map: Map) -> Option<Source> {
        if let Some(&(source, _)) = self.values.get(&input.value) {
            return Some(source);
        }
        let value = &self.graph.values[input.value.index()];
        let repeats = (0..4).all(|axis| input.shape[axis] == shape[axis] || input.shape[axis] == 1);
        if value.dtype != DType::F32 || !repeats {
            return None;
        }
        let extra = Extra { operand: *input, shape, map };
        let at = self.reads.iter().position(|known| *known == extra).unwrap_or_else(|| {
            self.reads.push(extra);
            self.reads.len() - 1
        });
        Some(Source::Extra(at))
    }
}

/// Where the elements of a window's own linear order are, for a window that shows each element of a value once; `from` tells where the
/// value's are. Nothing where an axis of `shape` would need more than one stride.
fn through(window: &Operand, from: Map, shape: &Shape) -> Option<Map> {
    let linear = graph::linear_strides(&window.shape);
    let mut axes: Vec<usize> = (0..4).filter(|&axis| window.shape[axis] > 1).collect();
    axes.sort_by_key(|&axis| window.strides[axis]);
    // Runs of the value's linear order that are runs of the window's too: first stride, extent, stride in the window.
    let mut runs: Vec<(u64, u64, u64)> = Vec::new();
    let mut next = 1;
    for axis in axes {
        let (extent, stride) = (u64::from(window.shape[axis]), window.strides[axis]);
        if stride != next {
            return None;
        }
        next = stride * extent;
        match runs.last_mut() {
            Some((_, run, first)) if *first * *run == linear[axis] => *run *= extent,
            _ => runs.push((stride, extent, linear[axis])),
        }
    }
    if window.offset != 0 || next != graph::elements(shape) {
        return None;
    }
    let mut map = [0; 4];
    for axis in (0..4).filter(|&axis| shape[axis] > 1) {
        let (start, end) = (from[axis], from[axis] * u64::from(shape[axis]));
        let &(first, _, stride) = runs.iter().find(|(first, run, _)| *first <= start && end <= *first * *run)?;
        if !start.is_multiple_of(first) {
            return None;
        }
        map[axis] = start / first * stride;
    }
    Some(map)
}

struct Search<'a> {
    graph: &'a Graph,
    limits: &'a Limits,
    fusion: Fusion,
    /// The node that computes each value.
    makers: Vec<Option<usize>>,
    /// Nodes that read each value, in order.
    readers: Vec<Vec<usize>>,
    /// Nodes that update each external value.
    updates: FxHashMap<ValueId, Vec<usize>>,
    /// Values that outlive the run.
    kept: Vec<bool>,
    groups: Groups,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, limits: &'a Limits, fusion: Fusion) -> Self {
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        let mut updates: FxHashMap<ValueId, Vec<usize>> = FxHashMap::default();
        let mut makers = vec![None; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                let readers = &mut readers[input.value.index()];
                if readers.last() != Some(&at) {
                    readers.push(at);
                }
            }
            makers[node.output.index()] = Some(at).filter(|_| node.updates.is_empty());
            let external = |id: &&ValueId| graph.values[id.index()].kind == Kind::External;
            for &id in node.updates.iter().chain([&node.output]).filter(external) {
                updates.entry(id).or_default().push(at);
            }
        }
        let mut kept = vec![false; graph.values.len()];
        graph.kept.iter().for_each(|id| kept[id.index()] = true);
        Self { graph, limits, fusion, makers, readers, updates, kept, groups: Groups::default() }
    }

    /// A sum of two products that nobody else reads: the longer one is the root, the other one runs beside it.
    fn pair(&mut self, product: usize) {
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
        match self.readers[node.output.index()][..] {
            [reader] if value.kind == Kind::Computed && !self.kept[node.output.index()] => Some(reader),
            _ => None,
        }
    }

    /// Lets a node take what follows it.
    fn grow(&mut self, root: usize) {
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
        let values = group.nodes.iter().map(|&at| self.graph.nodes[at].output.index());
        let outside = |readers: &Vec<usize>| readers.iter().copied().find(|at| !group.nodes.contains(at));
        values.filter_map(|value| outside(&self.readers[value])).min()
    }

    /// The group with one more node at its end, and with elementwise nodes that work for it alone.
    fn with(&self, group: &Group, next: usize) -> Option<Group> {
        let graph = self.graph;
        let mut nodes = group.nodes.clone();
        if matches!(graph.nodes[next].op, Op::Rope(_)) {
            nodes.push(next);
            return self.fits(Group { rotation: Some(next), ..group.of(nodes) });
        }
        let mut added = vec![next];
        for input in &graph.nodes[next].inputs {
            let value = &graph.values[input.value.index()];
            if value.kind == Kind::External || nodes.iter().any(|&at| graph.nodes[at].output == input.value) {
                continue;
            }
            let Some(maker) = self.makers[input.value.index()] else { continue };
            let of_extras = graph.nodes[maker].op.row().family == Family::Elementwise;
            if of_extras && self.only_reader(maker) == Some(next) && !self.groups.takes(maker) {
                added.push(maker);
            }
        }
        // With the nodes that work for it, or without them.
        while !added.is_empty() {
            nodes.truncate(group.nodes.len());
            nodes.extend(&added);
            nodes.sort_unstable();
            if let Some(wider) = self.fits(group.of(nodes.clone())) {
                return Some(wider);
            }
            nodes.clone_from(&group.nodes);
            added.pop().filter(|_| !added.is_empty())?;
        }
        None
    }

    /// Whether an update can run behind a later node: nobody in between reads or changes what it writes, or changes what it reads.
    fn can_wait(&self, update: usize, behind: usize) -> bool {
        let node = &self.graph.nodes[update];
        let within = |nodes: &[usize]| nodes.iter().any(|&at| update < at && at <= behind);
        let written = node.updates.iter().chain([&node.output]);
        let read = node.inputs.iter().map(|input| &input.value);
        !self.groups.takes(update)
            && !written.clone().any(|id| within(&self.readers[id.index()]))
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
            let mut outside = self.readers[id.index()].iter().filter(|reader| !group.nodes.contains(reader)).peekable();
            if outside.peek().is_some() || self.kept[id.index()] {
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
