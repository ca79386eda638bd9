//! A snapshot of a ggml graph as a graph of values. Pure.
//!
//! ggml names memory; a graph of values names results. Every write of a root tensor makes a new value, reads take the latest one, and
//! views become strided windows over it. Roots read before they are written, and results that must outlive the graph, are
//! external values bound to records of buffers.

mod recycled;

use std::collections::{HashMap, HashSet};

use fblayout::graph::{
    DType, Desc, Family, Graph, GraphError, Inset, Op, Operand, Shape, ValueId, infer, linear_strides,
};

use crate::memory::Lifetime;
use crate::ops::{self, Insertion, Pick};
use crate::record::{self, Geometry, Root};
use crate::snapshot::{Place, Snapshot, Tensor};
use recycled::{Writes, publish, refuse_overlaps};

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
    let nodes: Vec<usize> =
        snapshot.nodes.iter().map(|node| node.tensor).filter(|&node| !is_idle(snapshot, node)).collect();
    let mut translator = Translator::new(snapshot, &nodes);
    for node in nodes {
        translator.node(node).map_err(|why| {
            let name = snapshot.tensors[node].name.to_string();
            if name.is_empty() { why } else { format!("{name}: {why}") }
        })?;
    }
    refuse_overlaps(&translator.out.bindings)?;
    Ok(translator.out)
}

/// Whether a node computes nothing: a view, no elements, or no rows to set.
fn is_idle(snapshot: &Snapshot, node: usize) -> bool {
    let tensor = &snapshot.tensors[node];
    let sets_no_rows = || {
        let rows = source(tensor, Pick::All(0));
        ops::insertion(tensor.op) == Some(Insertion::Rows) && rows.is_ok_and(|rows| snapshot.tensors[rows].is_empty())
    };
    ops::is_empty(tensor.op) || tensor.is_empty() || sets_no_rows()
}

struct Translator<'a> {
    snapshot: &'a Snapshot,
    out: Translation,
    /// External values by record, or by tensor if unplaced, with their place in `out.bindings`.
    externals: HashMap<Slot, (ValueId, Option<usize>)>,
    /// The value that a read of a root takes, once one was written.
    current: HashMap<Slot, ValueId>,
    writes_left: HashMap<Slot, usize>,
    writes: Writes,
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
            writes: Writes::default(),
            published: HashSet::new(),
        };
        let mut last_writes: Vec<(usize, Slot)> = Vec::new();
        for &node in nodes {
            for written in translator.written(node) {
                let slot = translator.slot(written);
                *translator.writes_left.entry(slot).or_default() += 1;
                last_writes.retain(|&(_, earlier)| earlier != slot);
                last_writes.push((written, slot));
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
        if let Some(insertion) = ops::insertion(tensor.op) {
            return self.insertion(node, insertion);
        }
        let (mut op, mut picks) = ops::map(tensor.op, &tensor.params, |source| tensor.sources[source].is_some())?;
        let sums = matches!(op.row().family, Family::Gemm | Family::Convolution);
        if sums && tensor.sources.iter().flatten().any(|&source| self.snapshot.tensors[source].is_empty()) {
            // A sum of nothing.
            (op, picks) = (Op::Fill { value: 0.0 }, Vec::new());
        }
        let inputs = picks.iter().map(|&pick| self.operand(tensor, pick)).collect::<Result<Vec<_>, _>>()?;
        if !op.row().updates.is_empty() {
            self.covers_root(node)?;
            return self.in_place(node, op, &picks, inputs);
        }
        if self.covers_root(node).is_err() {
            let part = self.part(node, op, inputs)?;
            let place = inset(&tensor.geometry, tensor.offset)?;
            return self.write(node, Op::Set(place), vec![part]);
        }
        self.whole(node, op, inputs)
    }

    /// A node that writes all of its root.
    fn whole(&mut self, node: usize, op: Op, inputs: Vec<Operand>) -> Result<(), String> {
        let tensor = &self.snapshot.tensors[node];
        let desc = desc(&tensor.geometry)?;
        let slot = self.slot(node);
        let (op, inputs) = match self.widened(&tensor.name.to_string(), op, &inputs, desc)? {
            Some(wide) if desc.dtype == DType::F32 => (op, wide),
            // The op computes in F32; its result is rounded to what the node declares.
            Some(wide) => {
                (Op::Copy, vec![self.compute(&tensor.name.to_string(), op, wide, Desc { dtype: DType::F32, ..desc })?])
            }
            None => (op, inputs),
        };
        let value = if self.finishes(node, slot) {
            let external = self.external(node, false, true)?;
            if self.may_write(&op, &inputs, external, desc.shape) {
                self.out.graph.node_into(tensor.name.to_string(), op, inputs, external);
            } else {
                let copied = vec![self.compute(&tensor.name.to_string(), op, inputs, desc)?];
                self.out.graph.node_into(tensor.name.to_string(), Op::Copy, copied, external);
            }
            external
        } else {
            self.compute(&tensor.name.to_string(), op, inputs, desc)?.value
        };
        self.writes.note(slot);
        self.current.insert(slot, value);
        Ok(())
    }

    /// A node of the graph of values, and all of its result.
    fn compute(&mut self, name: &str, op: Op, inputs: Vec<Operand>, desc: Desc) -> Result<Operand, String> {
        let value = self.out.graph.node_as(name, op, inputs, desc).map_err(rule)?;
        Ok(self.out.graph.whole(value))
    }

    /// The operands with halves converted to F32, where the op takes them and gives its result only so.
    fn widened(&mut self, name: &str, op: Op, inputs: &[Operand], desc: Desc) -> Result<Option<Vec<Operand>>, String> {
        let dtypes: Vec<DType> = inputs.iter().map(|input| self.dtype(input)).collect();
        let descs = |wide: bool| -> Vec<Desc> {
            let dtype = |&dtype: &DType| if wide && is_half(dtype) { DType::F32 } else { dtype };
            let pairs = dtypes.iter().zip(inputs);
            pairs.map(|(from, input)| Desc { dtype: dtype(from), shape: input.shape }).collect()
        };
        let result = |wide: bool| if wide && is_half(desc.dtype) { Desc { dtype: DType::F32, ..desc } } else { desc };
        let takes = |wide: bool| infer(&op, &descs(wide), Some(result(wide))).is_ok();
        // Only matrix units multiply a right factor in 16 bits, and not every product.
        let is_right = op.row().family == Family::Gemm && dtypes.get(1).copied().is_some_and(is_half);
        if (takes(false) && !is_right) || !takes(true) {
            return Ok(None);
        }
        let mut wide = Vec::with_capacity(inputs.len());
        for (at, (input, dtype)) in inputs.iter().zip(dtypes).enumerate() {
            wide.push(match is_half(dtype) && !(is_right && at == 0) {
                true => self.compute(name, Op::Copy, vec![*input], Desc::f32(input.shape))?,
                false => *input,
            });
        }
        Ok(Some(wide))
    }

    fn dtype(&self, operand: &Operand) -> DType {
        self.out.graph.values[operand.value.index()].dtype
    }

    /// What a node writes to a part of its root: a copy's own operand where it has the right shape and a type that converts.
    fn part(&mut self, node: usize, op: Op, inputs: Vec<Operand>) -> Result<Operand, String> {
        let tensor = &self.snapshot.tensors[node];
        let desc = desc(&tensor.geometry)?;
        if let (Op::Copy, [input]) = (op, &inputs[..]) {
            let from = self.dtype(input);
            let converts = from == desc.dtype || [from, desc.dtype].iter().all(|&d| d == DType::F32 || is_half(d));
            if input.shape == desc.shape && converts {
                return Ok(*input);
            }
        }
        match self.widened(&tensor.name.to_string(), op, &inputs, desc)? {
            Some(wide) => self.compute(&tensor.name.to_string(), op, wide, Desc { dtype: DType::F32, ..desc }),
            None => self.compute(&tensor.name.to_string(), op, inputs, desc),
        }
    }

    /// SET, ACC and SET_ROWS.
    fn insertion(&mut self, node: usize, insertion: Insertion) -> Result<(), String> {
        let tensor = &self.snapshot.tensors[node];
        match insertion {
            Insertion::Rows => {
                let rows = self.operand(tensor, Pick::All(0))?;
                let ids = self.operand(tensor, Pick::All(1))?;
                let place = inset(&tensor.geometry, tensor.offset)?;
                let to = dtype(&tensor.geometry)?;
                let rows = match to.block() > 1 && self.dtype(&rows) != to {
                    true => self.compute(
                        &tensor.name.to_string(),
                        Op::Copy,
                        vec![rows],
                        Desc { dtype: to, shape: rows.shape },
                    )?,
                    false => rows,
                };
                self.write(node, Op::SetRows(place), vec![rows, ids])
            }
            Insertion::Set | Insertion::Acc => {
                let base = self.operand(tensor, Pick::All(0))?;
                let part = self.operand(tensor, Pick::All(1))?;
                let ne = self.snapshot.tensors[source(tensor, Pick::All(1))?].geometry.ne;
                let (within, start) = ops::part(&tensor.params, Geometry { ne, ..tensor.geometry })?;
                let in_place = tensor.root != node;
                let place = inset(&within, if in_place { tensor.offset + start } else { start })?;
                let op = if insertion == Insertion::Acc { Op::Acc(place) } else { Op::Set(place) };
                if in_place {
                    return self.write(node, op, vec![part]);
                }
                let desc = desc(&tensor.geometry)?;
                let dense = self.compute(&tensor.name.to_string(), Op::Copy, vec![base], desc)?;
                self.whole(node, op, vec![dense, part])
            }
        }
    }

    /// Writes a part of a node's root. What lasts is written where it is; else the root's value is followed by another.
    fn write(&mut self, node: usize, op: Op, mut operands: Vec<Operand>) -> Result<(), String> {
        let name = self.snapshot.tensors[node].name.to_string();
        let slot = self.slot(node);
        let last = self.finishes(node, slot);
        self.writes.check(slot)?;
        self.writes.note(slot);
        let lasts = last || self.published.contains(&slot);
        let own = self.externals.get(&slot).map(|&(value, _)| value);
        let current = self.current.get(&slot).copied();
        if lasts && (current.is_none() || current == own) {
            let external = self.external(node, true, true)?;
            let base = self.out.graph.whole(external);
            for operand in operands.iter_mut().filter(|operand| operand.value == external) {
                // What is read of the root must not change meanwhile.
                let desc = Desc { shape: operand.shape, ..self.out.graph.values[external.index()].desc() };
                *operand = self.compute(&name, Op::Copy, vec![*operand], desc)?;
            }
            let inputs = [base].into_iter().chain(operands).collect();
            self.out.graph.node_into(name, op, inputs, external);
            self.current.insert(slot, external);
            return Ok(());
        }
        let base = match current {
            Some(value) => value,
            None => self.external(node, true, false)?,
        };
        let base = self.out.graph.whole(base);
        let desc = self.out.graph.values[base.value.index()].desc();
        let inputs = [base].into_iter().chain(operands).collect();
        let mut value = self.compute(&name, op, inputs, desc)?;
        if last {
            let external = self.external(node, false, true)?;
            self.out.graph.node_into(name, Op::Copy, vec![value], external);
            value = self.out.graph.whole(external);
        }
        self.current.insert(slot, value.value);
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
            self.writes.note(slot);
            let external = self.external(updated, true, true)?;
            if inputs[operand].value != external {
                return Err(format!("operand {operand} is updated, but is a result of this graph"));
            }
            self.current.insert(slot, external);
            output.get_or_insert((slot, external));
        }
        match output {
            Some((slot, external)) if slot == self.slot(node) => {
                self.out.graph.node_into(tensor.name.to_string(), op, inputs, external);
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
        // A node that nobody placed yet writes memory that existed before it exactly if it is a view.
        let changes = self.snapshot.root(node).1.is_none() && tensor.root != node;
        self.take_write(slot) && (changes || self.published.contains(&slot))
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
        // A square that is turned has the home of one that is not.
        let contiguous = tensor.geometry.home() == Some((dtype, shape)) && tensor.geometry.is_contiguous();
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
                let value = self.out.graph.external(root.name.to_string(), dtype, shape);
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
        self.writes.check(self.slot(position))?;
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

fn desc(geometry: &Geometry) -> Result<Desc, String> {
    Ok(Desc { dtype: dtype(geometry)?, shape: shape(geometry)? })
}

/// Floats that most ops compute with in F32.
fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// A tensor's elements among those of its root.
fn inset(geometry: &Geometry, offset: usize) -> Result<Inset, String> {
    // The window is over any value: only its numbers count.
    let Operand { shape, strides, offset, .. } =
        window(Graph::new().external("", DType::F32, [1; 4]), geometry, offset)?;
    let word = |n: u64| u32::try_from(n).map_err(|_| format!("element {n} is beyond 32 bits"));
    let mut steps = [0; 4];
    for (step, stride) in steps.iter_mut().zip(strides) {
        *step = word(stride)?;
    }
    Ok(Inset { shape, strides: steps, offset: word(offset)? })
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
