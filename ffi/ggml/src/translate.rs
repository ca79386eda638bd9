//! A snapshot of a ggml graph as a graph of values. Pure.
//!
//! ggml names memory; a graph of values names results. Every write of a root tensor makes a new value, reads take the latest one, and
//! views become strided windows over it. Roots read before they are written, and results that must outlive the graph, are
//! external values bound to records of buffers.

use std::collections::{HashMap, HashSet};

use fblayout::graph::{DType, Desc, Graph, GraphError, Op, Operand, Shape, ValueId, linear_strides};

use crate::memory::Lifetime;
use crate::ops::{self, Pick};
use crate::record::{self, Geometry, Root};
use crate::snapshot::{Place, Snapshot, Tensor};

/// An external value and the record that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// The value.
    pub value: ValueId,
    /// Number of the buffer, as in [`Place`].
    pub buffer: usize,
    /// The record.
    pub root: Root,
    /// Of the buffer's records.
    pub lifetime: Lifetime,
    /// The graph reads what the record holds before the run.
    pub reads: bool,
    /// The graph leaves a new content in the record.
    pub writes: bool,
}

/// A graph and what its external values are.
#[derive(Clone, Debug, Default)]
pub struct Translation {
    /// The values and nodes.
    pub graph: Graph,
    /// The external values that are placed; all of them, when the snapshot's roots are.
    pub bindings: Vec<Binding>,
}

/// What names a root within a graph. Persistent records are known by place, for several tensors of a host may name one record. Addresses of
/// compute buffers are recycled within the graph, so that there a tensor is known by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Slot {
    Record { buffer: usize, root: Root },
    Tensor(usize),
}

/// Translates the nodes of a snapshot; the error says which node breaks which rule.
pub fn translate(snapshot: &Snapshot) -> Result<Translation, String> {
    let nodes: Vec<usize> = snapshot
        .nodes
        .iter()
        .map(|node| node.tensor)
        .filter(|&node| !ops::is_empty(snapshot.tensors[node].op) && !snapshot.tensors[node].is_empty())
        .collect();
    let mut translator = Translator::new(snapshot, &nodes);
    for node in nodes {
        translator.node(node).map_err(|why| {
            let name = &snapshot.tensors[node].name;
            if name.is_empty() { why } else { format!("{name}: {why}") }
        })?;
    }
    refuse_overlaps(&translator.out.bindings)?;
    Ok(translator.out)
}

struct Translator<'a> {
    snapshot: &'a Snapshot,
    out: Translation,
    /// External values by record, or by tensor if unplaced, with their place in `out.bindings`.
    externals: HashMap<Slot, (ValueId, Option<usize>)>,
    /// The value that a read of a root takes, once one was written.
    current: HashMap<Slot, ValueId>,
    writes_left: HashMap<Slot, usize>,
    published: HashSet<Slot>,
}

impl<'a> Translator<'a> {
    fn new(snapshot: &'a Snapshot, nodes: &[usize]) -> Self {
        let mut translator = Self {
            snapshot,
            out: Translation::default(),
            externals: HashMap::new(),
            current: HashMap::new(),
            writes_left: HashMap::new(),
            published: HashSet::new(),
        };
        let mut last_writes: Vec<(usize, Slot)> = Vec::new();
        for &node in nodes {
            for written in translator.written(node) {
                let slot = translator.slot(written);
                *translator.writes_left.entry(slot).or_default() += 1;
                if matches!(slot, Slot::Tensor(_)) {
                    last_writes.retain(|&(_, earlier)| earlier != slot);
                    last_writes.push((written, slot));
                }
            }
        }
        translator.published = publish(snapshot, &last_writes);
        translator
    }

    fn slot(&self, tensor: usize) -> Slot {
        let root = self.snapshot.tensors[tensor].root;
        match self.snapshot.root(tensor) {
            (Tensor { place: Some(Place { buffer, lifetime: Lifetime::Persistent, .. }), .. }, Some(root)) => {
                Slot::Record { buffer: *buffer, root }
            }
            _ => Slot::Tensor(root),
        }
    }

    /// The tensors whose roots a node writes: itself, and the sources that its op updates.
    fn written(&self, node: usize) -> Vec<usize> {
        let tensor = &self.snapshot.tensors[node];
        let Ok((op, picks)) = ops::map(tensor.op, &tensor.params, |source| tensor.sources[source].is_some()) else {
            return vec![node];
        };
        let updates = op.row().updates.iter().skip(1).filter_map(|&operand| source(tensor, *picks.get(operand)?).ok());
        std::iter::once(node).chain(updates).collect()
    }

    fn node(&mut self, node: usize) -> Result<(), String> {
        let tensor = &self.snapshot.tensors[node];
        let (op, picks) = ops::map(tensor.op, &tensor.params, |source| tensor.sources[source].is_some())?;
        self.covers_root(node)?;
        let inputs = picks.iter().map(|&pick| self.operand(tensor, pick)).collect::<Result<Vec<_>, _>>()?;
        let desc = Desc { dtype: dtype(&tensor.geometry)?, shape: shape(&tensor.geometry)? };
        let name = tensor.name.clone();
        if !op.row().updates.is_empty() {
            return self.in_place(node, op, &picks, inputs);
        }
        let slot = self.slot(node);
        let value = if self.finishes(node, slot) {
            let external = self.external(node, false, true)?;
            if self.may_write(&op, &inputs, external, desc.shape) {
                self.out.graph.node_into(name, op, inputs, external);
            } else {
                let value = self.out.graph.node_as(name.clone(), op, inputs, desc).map_err(rule)?;
                let copied = vec![self.out.graph.whole(value)];
                self.out.graph.node_into(name, Op::Copy, copied, external);
            }
            external
        } else {
            self.out.graph.node_as(name, op, inputs, desc).map_err(rule)?
        };
        self.current.insert(slot, value);
        Ok(())
    }

    /// A node whose op updates operands: they must be records, unchanged by the graph so far.
    fn in_place(&mut self, node: usize, op: Op, picks: &[Pick], inputs: Vec<Operand>) -> Result<(), String> {
        let tensor = &self.snapshot.tensors[node];
        let mut output = None;
        for &operand in op.row().updates {
            let updated = source(tensor, picks[operand])?;
            let slot = self.slot(updated);
            self.take_write(slot);
            let external = self.external(updated, true, true)?;
            if inputs[operand].value != external {
                return Err(format!("operand {operand} is updated, but is a result of this graph"));
            }
            self.current.insert(slot, external);
            output.get_or_insert((slot, external));
        }
        match output {
            Some((slot, external)) if slot == self.slot(node) => {
                self.out.graph.node_into(tensor.name.clone(), op, inputs, external);
                Ok(())
            }
            _ => Err("its result is not the operand that it updates".into()),
        }
    }

    /// Counts a write of the slot; true if it was the last one.
    fn take_write(&mut self, slot: Slot) -> bool {
        let left = self.writes_left.entry(slot).or_default();
        *left = left.saturating_sub(1);
        *left == 0
    }

    /// Whether this write of the slot is the one that goes to the record.
    fn finishes(&mut self, node: usize, slot: Slot) -> bool {
        let tensor = &self.snapshot.tensors[node];
        let unplaced = self.snapshot.root(node).1.is_none();
        let lasting = match slot {
            Slot::Record { .. } => true,
            // A node that nobody placed yet writes memory that existed before it exactly if it is a view.
            Slot::Tensor(root) => self.published.contains(&slot) || (unplaced && root != node && tensor.root != node),
        };
        self.take_write(slot) && lasting
    }

    /// Whether the op can write the external value itself: elementwise ops may do so while reading it, others not.
    fn may_write(&self, op: &Op, inputs: &[Operand], external: ValueId, shape: Shape) -> bool {
        let Some(value) = self.out.graph.value(external) else { return false };
        let mut reads = inputs.iter().filter(|input| input.value == external).peekable();
        value.shape == shape
            && (reads.peek().is_none()
                || (op.row().family.is_by_element() && reads.all(|input| input.is_whole(&value.shape))))
    }

    /// Writes must be of whole roots, in the order of the root's bytes.
    fn covers_root(&self, node: usize) -> Result<(), String> {
        let tensor = &self.snapshot.tensors[node];
        let (root, _) = self.snapshot.root(node);
        let (dtype, shape) = (dtype(&tensor.geometry)?, shape(&tensor.geometry)?);
        let contiguous = tensor.geometry.home() == Some((dtype, shape));
        if tensor.offset == 0 && contiguous && tensor.geometry.nbytes == root.geometry.nbytes {
            return Ok(());
        }
        Err(format!("it writes {} of the {} bytes of a tensor", tensor.geometry.nbytes, root.geometry.nbytes))
    }

    /// The external value of a tensor's root.
    fn external(&mut self, tensor: usize, reads: bool, writes: bool) -> Result<ValueId, String> {
        let (root, place) = self.snapshot.root(tensor);
        let key = match (root.place, place) {
            (Some(Place { buffer, .. }), Some(root)) => Slot::Record { buffer, root },
            _ => Slot::Tensor(self.snapshot.tensors[tensor].root),
        };
        let (value, binding) = match self.externals.get(&key) {
            Some(&known) => known,
            None => {
                let (dtype, shape) = root.geometry.home().ok_or_else(|| homeless(&root.geometry))?;
                let value = self.out.graph.external(root.name.clone(), dtype, shape);
                let binding = root.place.zip(place).map(|(Place { buffer, lifetime, .. }, root)| {
                    self.out.bindings.push(Binding { value, buffer, root, lifetime, reads: false, writes: false });
                    self.out.bindings.len() - 1
                });
                self.externals.insert(key, (value, binding));
                (value, binding)
            }
        };
        if let Some(binding) = binding.and_then(|at| self.out.bindings.get_mut(at)) {
            // What a node wrote before is this graph's own, not what the record held.
            binding.reads |= reads && !binding.writes;
            binding.writes |= writes;
        }
        Ok(value)
    }

    /// A source as a window over the latest value of its root.
    fn operand(&mut self, node: &Tensor, pick: Pick) -> Result<Operand, String> {
        let position = source(node, pick)?;
        let tensor = &self.snapshot.tensors[position];
        let value = match self.current.get(&self.slot(position)) {
            Some(&value) => value,
            None => self.external(position, true, false)?,
        };
        let whole = window(value, &tensor.geometry, tensor.offset)?;
        let half = whole.shape[0] / 2;
        match pick {
            Pick::All(_) => Ok(whole),
            Pick::FirstHalf(_) => whole.slice(0, 0, half).map_err(|e| e.to_string()),
            Pick::SecondHalf(_) => whole.slice(0, half, half).map_err(|e| e.to_string()),
        }
    }
}

/// The slots whose last value goes to the record although a graph allocator owns the address: those that somebody outside may
/// read, unless a later write falls on the same bytes, which proves them dead.
fn publish(snapshot: &Snapshot, last_writes: &[(usize, Slot)]) -> HashSet<Slot> {
    let kept: HashSet<usize> =
        snapshot.nodes.iter().filter(|node| node.kept).map(|node| snapshot.tensors[node.tensor].root).collect();
    let mut later: Vec<(usize, Root)> = Vec::new();
    let mut published = HashSet::new();
    for &(tensor, slot) in last_writes.iter().rev() {
        let (tensor_root, Some(root)) = snapshot.root(tensor) else { continue };
        let Some(place) = tensor_root.place else { continue };
        if !kept.contains(&snapshot.tensors[tensor].root) {
            continue;
        }
        let dead = later.iter().any(|(buffer, other)| *buffer == place.buffer && overlap(other, &root));
        if !dead {
            later.push((place.buffer, root));
            published.insert(slot);
        }
    }
    published
}

fn overlap(a: &Root, b: &Root) -> bool {
    a.offset < b.end() && b.offset < a.end()
}

/// A persistent record that the graph writes must not share bytes with another that it uses, for the values could not see
/// each other's changes.
fn refuse_overlaps(bindings: &[Binding]) -> Result<(), String> {
    let persistent = || bindings.iter().filter(|binding| binding.lifetime == Lifetime::Persistent);
    for written in persistent().filter(|binding| binding.writes) {
        let other = persistent().find(|other| {
            other.buffer == written.buffer && other.root != written.root && overlap(&other.root, &written.root)
        });
        if let Some(other) = other {
            let (a, b) = (&written.root, &other.root);
            return Err(format!(
                "two tensors share bytes of a buffer, at {}..{} and {}..{}, and one is written",
                a.offset,
                a.end(),
                b.offset,
                b.end()
            ));
        }
    }
    Ok(())
}

/// What a node breaks, without the node's name, which [`translate`] adds.
fn rule(error: GraphError) -> String {
    match error {
        GraphError::Shape { source, .. } => source.to_string(),
        other => other.to_string(),
    }
}

fn source(node: &Tensor, pick: Pick) -> Result<usize, String> {
    let (Pick::All(source) | Pick::FirstHalf(source) | Pick::SecondHalf(source)) = pick;
    node.sources[source].ok_or_else(|| format!("source {source} is missing"))
}

fn dtype(geometry: &Geometry) -> Result<DType, String> {
    record::dtype(geometry.type_id).ok_or_else(|| format!("ggml type {} is not computed with", geometry.type_id))
}

fn shape(geometry: &Geometry) -> Result<Shape, String> {
    let mut shape = [0; 4];
    for (extent, &n) in shape.iter_mut().zip(&geometry.ne) {
        *extent = u32::try_from(n).map_err(|_| format!("extent {n} is beyond 32 bits"))?;
    }
    Ok(shape)
}

fn homeless(geometry: &Geometry) -> String {
    let Geometry { type_id, ne, nb, .. } = geometry;
    format!("a tensor of ggml type {type_id}, extents {ne:?}, strides {nb:?} has no home on the device")
}

/// A tensor's elements as a window over the value that holds its root's bytes in their order.
fn window(value: ValueId, geometry: &Geometry, offset: usize) -> Result<Operand, String> {
    let (dtype, shape) = (dtype(geometry)?, shape(geometry)?);
    let (block, block_bytes) = (u64::from(dtype.block()), dtype.block_bytes() as usize);
    let elements = |bytes: usize| {
        let cut = || format!("strides {:?} and offset {offset} cut elements of {block_bytes} bytes", geometry.nb);
        if bytes.is_multiple_of(block_bytes) { Ok((bytes / block_bytes) as u64 * block) } else { Err(cut()) }
    };
    let mut strides = [0; 4];
    for axis in (0..4).filter(|&axis| shape[axis] > 1) {
        strides[axis] = elements(geometry.nb[axis])?;
    }
    if block > 1 {
        if geometry.nb[0] != block_bytes {
            return Err(format!("rows of {dtype:?} blocks have a stride of {} bytes", geometry.nb[0]));
        }
        strides[0] = 1;
    }
    let window = Operand { value, shape, strides, offset: elements(offset)? };
    // Axes of one element have any stride; packed windows are named the way whole values are.
    Ok(if window.is_contiguous() { Operand { strides: linear_strides(&shape), ..window } } else { window })
}

#[cfg(test)]
mod tests;
