//! A ggml graph as plain data: the only place that walks the host's tensors.

use std::ffi::{CStr, c_char};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use crate::abi::{FLAG_COMPUTE, FLAG_OUTPUT, MAX_OP_PARAMS, MAX_SRC, ggml_cgraph, ggml_tensor};
use crate::host::Nbytes;
use crate::memory::Lifetime;
use crate::ops;
use crate::record::{Geometry, Root};

/// Where a root tensor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Number of the buffer, in the caller's count.
    pub buffer: usize,
    /// Bytes from its base.
    pub offset: usize,
    /// Of the buffer's records.
    pub lifetime: Lifetime,
}

/// A tensor of the graph.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// `ggml_op`.
    pub op: i32,
    /// Words of the op's parameters.
    pub params: [i32; MAX_OP_PARAMS],
    /// Type, extents and strides of this tensor, with its own span.
    pub geometry: Geometry,
    /// Sources, as positions in [`Snapshot::tensors`].
    pub sources: [Option<usize>; MAX_SRC],
    /// The tensor that this one is a view of, or itself.
    pub root: usize,
    /// Bytes from the root's first.
    pub offset: usize,
    /// Where a root is; `None` for views, and for all tensors when the graph is only asked about.
    pub place: Option<Place>,
    /// For people.
    pub name: Name,
}

/// The name that the host gave a tensor.
#[derive(Clone, Copy)]
pub struct Name([c_char; 64]);

impl From<&ggml_tensor> for Name {
    fn from(tensor: &ggml_tensor) -> Self {
        Self(tensor.name)
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.map(|c| c as u8);
        f.write_str(&CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy).unwrap_or_default())
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

impl Tensor {
    /// True if there is nothing to compute or to store.
    pub fn is_empty(&self) -> bool {
        self.geometry.ne.contains(&0)
    }
}

/// One node in execution order.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Its tensor.
    pub tensor: usize,
    /// Somebody outside this graph may read its result.
    pub kept: bool,
}

/// The nodes to compute with every tensor they touch.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Tensors; sources, roots and nodes are positions here.
    pub tensors: Vec<Tensor>,
    /// Nodes in execution order, views included; those that need no computing are left out.
    pub nodes: Vec<Node>,
}

/// Tensors of most nodes, with their sources and roots.
const FEW: usize = 8;

/// Where the walk finds the place of a root.
type Placer<'a> = &'a mut dyn FnMut(&ggml_tensor) -> Result<Option<Place>, String>;

impl Snapshot {
    /// The tensor placed as root of this position.
    pub fn root(&self, tensor: usize) -> (&Tensor, Option<Root>) {
        let root = &self.tensors[self.tensors[tensor].root];
        (root, root.place.map(|place| Root { offset: place.offset, geometry: root.geometry }))
    }

    /// One node alone, unplaced: what `supports_op` asks about.
    ///
    /// # Safety
    /// The tensor, its sources and their roots are valid; none needs to be allocated. `nbytes` is the host's `ggml_nbytes`.
    pub unsafe fn of_node(node: &ggml_tensor, nbytes: Nbytes) -> Result<Self, String> {
        let mut nowhere = |_: &ggml_tensor| Ok(None);
        let mut walk = Walk::new(FEW, nbytes, &mut nowhere);
        // SAFETY: the caller's promise.
        let tensor = unsafe { walk.node(node) }?;
        walk.snapshot.nodes.push(Node { tensor, kept: false });
        Ok(walk.snapshot)
    }

    /// The nodes of a graph that are to be computed. `placer` finds roots; it is not asked about empty tensors.
    ///
    /// # Safety
    /// The graph is valid, with valid nodes, sources and roots. `nbytes` is the host's `ggml_nbytes`.
    pub unsafe fn of_graph(graph: &ggml_cgraph, nbytes: Nbytes, placer: Placer<'_>) -> Result<Self, String> {
        // SAFETY: the caller's promise.
        let nodes = unsafe { nodes(graph) }?;
        let mut uses: FxHashMap<*const ggml_tensor, i32> =
            FxHashMap::with_capacity_and_hasher(2 * nodes.len(), FxBuildHasher);
        for &node in nodes {
            for source in node.src.iter().filter(|source| !source.is_null()) {
                *uses.entry(source.cast_const()).or_default() += 1;
            }
        }
        let computed = |node: &&&ggml_tensor| node.flags & FLAG_COMPUTE != 0 && !ops::is_empty(node.op);
        let made: FxHashSet<*const ggml_tensor> =
            nodes.iter().filter(computed).map(|&node| std::ptr::from_ref(node)).collect();
        let mut walk = Walk::new(2 * nodes.len(), nbytes, placer);
        for (at, &node) in nodes.iter().enumerate() {
            if node.flags & FLAG_COMPUTE == 0 {
                continue;
            }
            // SAFETY: the caller's promise.
            let tensor = unsafe { walk.node(node) }?;
            let inside = uses.get(&std::ptr::from_ref(node)).copied().unwrap_or(0);
            // SAFETY: the caller's promise.
            let all = unsafe { use_count(graph, node) }.unwrap_or(0);
            // A count of zero is a result, or a tensor that the table does not know; a graph without uid may be computed in
            // pieces, each of which must leave everything behind. What changes a tensor that was there before leaves it changed.
            let kept = graph.uid == 0
                || at + 1 == nodes.len()
                || node.flags & FLAG_OUTPUT != 0
                || all == 0
                || all > inside
                || (!ops::is_empty(node.op) && !node.view_src.is_null() && !made.contains(&node.view_src.cast_const()));
            walk.snapshot.nodes.push(Node { tensor, kept });
        }
        Ok(walk.snapshot)
    }
}

/// The nodes of a graph.
///
/// # Safety
/// The graph is valid and so are its nodes.
pub unsafe fn nodes(graph: &ggml_cgraph) -> Result<&[&ggml_tensor], String> {
    let count = usize::try_from(graph.n_nodes).map_err(|_| format!("a graph of {} nodes", graph.n_nodes))?;
    if count == 0 {
        return Ok(&[]);
    }
    if graph.nodes.is_null() {
        return Err("the graph's nodes are null".into());
    }
    // SAFETY: the graph has `n_nodes` pointers to nodes; `Option<&T>` is a pointer that may be null.
    let nodes = unsafe { std::slice::from_raw_parts(graph.nodes.cast_const().cast::<Option<&ggml_tensor>>(), count) };
    if nodes.iter().any(Option::is_none) {
        return Err("a node of the graph is null".into());
    }
    // SAFETY: none is null, and `&T` is laid out as a non-null `Option<&T>`.
    Ok(unsafe { std::slice::from_raw_parts(nodes.as_ptr().cast::<&ggml_tensor>(), count) })
}

/// Uses of a tensor as a source in the whole graph that this one is a part of; `None` if its table does not have the tensor.
///
/// # Safety
/// The graph's hash set, if there is one, is valid.
unsafe fn use_count(graph: &ggml_cgraph, tensor: &ggml_tensor) -> Option<i32> {
    let set = &graph.visited_hash_set;
    if set.size == 0 || set.used.is_null() || set.keys.is_null() || graph.use_counts.is_null() {
        return None;
    }
    let wanted = std::ptr::from_ref(tensor);
    let first = (wanted as usize >> 4) % set.size;
    for slot in (first..set.size).chain(0..first) {
        // SAFETY: `used` has a bit, `keys` and `use_counts` an entry for each of `size` slots.
        unsafe {
            if *set.used.add(slot / 32) & (1 << (slot % 32)) == 0 {
                return None;
            }
            if (*set.keys.add(slot)).cast_const() == wanted {
                return Some(*graph.use_counts.add(slot));
            }
        }
    }
    None
}

/// Collects tensors by address.
struct Walk<'a> {
    snapshot: Snapshot,
    seen: FxHashMap<*const ggml_tensor, usize>,
    nbytes: Nbytes,
    placer: Placer<'a>,
}

impl<'a> Walk<'a> {
    /// With room for so many tensors.
    fn new(tensors: usize, nbytes: Nbytes, placer: Placer<'a>) -> Self {
        let snapshot = Snapshot { tensors: Vec::with_capacity(tensors), nodes: Vec::new() };
        Self { snapshot, seen: FxHashMap::with_capacity_and_hasher(tensors, FxBuildHasher), nbytes, placer }
    }
}

impl Walk<'_> {
    /// A node with its sources.
    ///
    /// # Safety
    /// The tensor, its sources and their roots are valid.
    unsafe fn node(&mut self, node: &ggml_tensor) -> Result<usize, String> {
        // SAFETY: the caller's promise.
        let tensor = unsafe { self.tensor(node) }?;
        let mut sources = [None; MAX_SRC];
        for (slot, source) in sources.iter_mut().zip(&node.src) {
            // SAFETY: a source is null or valid.
            if let Some(source) = unsafe { source.as_ref() } {
                // SAFETY: a valid source has a valid root.
                *slot = Some(unsafe { self.tensor(source) }?);
            }
        }
        self.snapshot.tensors[tensor].sources = sources;
        Ok(tensor)
    }

    /// A tensor with its root, without its sources.
    ///
    /// # Safety
    /// The tensor and its root are valid.
    unsafe fn tensor(&mut self, tensor: &ggml_tensor) -> Result<usize, String> {
        if let Some(&known) = self.seen.get(&std::ptr::from_ref(tensor)) {
            return Ok(known);
        }
        // SAFETY: `view_src` is null or the valid root.
        let root = match unsafe { tensor.view_src.as_ref() } {
            Some(root) if !root.view_src.is_null() => return Err("a view of a view".into()),
            // SAFETY: the root is valid and its own root.
            Some(root) => Some(unsafe { self.tensor(root) }?),
            None => None,
        };
        // SAFETY: the tensor is valid.
        let nbytes = unsafe { (self.nbytes)(tensor) };
        let geometry = Geometry { type_id: tensor.type_, ne: tensor.ne, nb: tensor.nb, nbytes };
        let place = if root.is_none() && nbytes > 0 { (self.placer)(tensor)? } else { None };
        let position = self.snapshot.tensors.len();
        self.snapshot.tensors.push(Tensor {
            op: tensor.op,
            params: tensor.op_params,
            geometry,
            sources: [None; MAX_SRC],
            root: root.unwrap_or(position),
            offset: if root.is_some() { tensor.view_offs } else { 0 },
            place,
            name: tensor.into(),
        });
        self.seen.insert(tensor, position);
        Ok(position)
    }
}
