//! What the tests of the border share: an engine made of the ops' f64 oracles, and ggml objects made by hand.

pub mod plugin;

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fblayout::graph::{Array, DType, Desc, Graph, Shape, ValueId, decode, encode, oracle};

use crate::abi::*;
use crate::engine::{Description, Engine};
use crate::host::Host;
use crate::memory::{Home, Lifetime};
use crate::snapshot::{Place, Snapshot};

/// A device that computes by definition. Device memory is linear bytes, poisoned until written.
#[derive(Default)]
pub struct OracleEngine {
    pub compiled: AtomicUsize,
    pub written: AtomicUsize,
    /// Runs that fail from now on.
    pub failures: AtomicUsize,
}

#[derive(Clone)]
pub struct OracleTensor(Arc<Mutex<Vec<u8>>>);

impl OracleTensor {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Home for OracleEngine {
    type Tensor = OracleTensor;

    fn create(&self, dtype: DType, shape: Shape) -> Result<OracleTensor, String> {
        Ok(OracleTensor(Arc::new(Mutex::new(vec![0xFF; Desc { dtype, shape }.bytes() as usize]))))
    }

    fn write(&self, tensor: &OracleTensor, bytes: &[u8]) -> Result<(), String> {
        self.written.fetch_add(1, Ordering::Relaxed);
        tensor.bytes().copy_from_slice(bytes);
        Ok(())
    }

    fn read(&self, tensor: &OracleTensor) -> Result<Vec<u8>, String> {
        Ok(tensor.bytes().clone())
    }

    fn read_part(&self, tensor: &OracleTensor, from: usize, out: &mut [u8]) -> Result<(), String> {
        out.copy_from_slice(&tensor.bytes()[from..from + out.len()]);
        Ok(())
    }
}

impl Engine for OracleEngine {
    type Adapter = &'static str;
    type Program = Graph;

    fn adapters() -> Result<Vec<&'static str>, String> {
        Ok(vec!["Oracle", "Second oracle"])
    }

    fn describe(adapter: &&'static str) -> Description {
        Description { name: (*adapter).to_owned(), integrated: false, memory: 1 << 30 }
    }

    fn open(_: &&'static str) -> Result<Self, String> {
        Ok(Self::default())
    }

    fn supports(_: &&'static str, graph: &Graph) -> Result<(), String> {
        graph.verify().map_err(|error| error.to_string())
    }

    fn memory_free(_: &&'static str, open: Option<&Self>) -> u64 {
        if open.is_some() { 1 << 29 } else { 1 << 30 }
    }

    fn program_bytes(&self, graph: &Graph) -> u64 {
        graph.nodes.len() as u64
    }

    fn kept_bytes(&self) -> u64 {
        1 << 20
    }

    fn compile(&self, graph: &Graph) -> Result<Graph, String> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        graph.verify().map_err(|error| error.to_string())?;
        Ok(graph.clone())
    }

    fn run(&self, graph: &mut Graph, externals: &[(ValueId, OracleTensor)]) -> Result<(), String> {
        let fewer = |left: usize| left.checked_sub(1);
        if self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer).is_ok() {
            return Err("out of memory".into());
        }
        let mut values: Vec<Option<Vec<f64>>> = vec![None; graph.values.len()];
        for (value, tensor) in externals {
            let dtype = graph.values[value.index()].dtype;
            values[value.index()] = Some(decode(dtype, &tensor.bytes()).map_err(|error| error.to_string())?);
        }
        let mut written = Vec::new();
        for node in &graph.nodes {
            let inputs: Vec<Array> = node
                .inputs
                .iter()
                .map(|input| {
                    let data = values[input.value.index()].as_ref().expect("verified: written before it is read");
                    Array { shape: input.shape, data: input.indices().map(|i| data[i as usize]).collect() }
                })
                .collect();
            let outputs = oracle(&node.op, &inputs, graph.values[node.output.index()].shape);
            let targets = if node.updates.is_empty() { vec![node.output] } else { node.updates.clone() };
            assert_eq!(outputs.len(), targets.len());
            for (target, output) in targets.into_iter().zip(outputs) {
                values[target.index()] = Some(output.data);
                written.push(target);
            }
        }
        for (value, tensor) in externals.iter().filter(|(value, _)| written.contains(value)) {
            let data = values[value.index()].iter().flatten().map(|&x| x as f32).collect::<Vec<_>>();
            *tensor.bytes() = encode(graph.values[value.index()].dtype, &data).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// Every `ggml_type`, with the elements and bytes of a block.
pub const TYPES: [(i32, usize, usize); 35] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 36),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
    (40, 64, 36),
    (41, 128, 18),
    (42, 64, 18),
];

/// Elements and bytes of a block of a `ggml_type`.
pub fn block(type_id: i32) -> (usize, usize) {
    let found = TYPES.iter().find(|&&(id, ..)| id == type_id);
    found.map(|&(_, elements, bytes)| (elements, bytes)).unwrap_or_else(|| panic!("no ggml type {type_id}"))
}

pub unsafe extern "C" fn nbytes(tensor: *const ggml_tensor) -> usize {
    // SAFETY: tests pass valid tensors.
    let tensor = unsafe { &*tensor };
    if tensor.ne.contains(&0) {
        return 0;
    }
    let (block, bytes) = block(tensor.type_);
    let steps = |axis: usize| (tensor.ne[axis] as usize - 1) * tensor.nb[axis];
    let row = if block == 1 { bytes + steps(0) } else { tensor.ne[0] as usize / block * tensor.nb[0] };
    row + steps(1) + steps(2) + steps(3)
}

unsafe extern "C" fn buffer_init(
    buft: *mut ggml_backend_buffer_type,
    iface: ggml_backend_buffer_i,
    context: *mut c_void,
    size: usize,
) -> *mut ggml_backend_buffer {
    Box::into_raw(Box::new(ggml_backend_buffer { iface, buft, context, size, usage: 0 }))
}

unsafe extern "C" fn no_name(_: i32) -> *const c_char {
    c"?".as_ptr()
}

unsafe extern "C" fn no_desc(_: *const ggml_tensor) -> *const c_char {
    c"?".as_ptr()
}

unsafe extern "C" fn version() -> *const c_char {
    c"0.26.0".as_ptr()
}

/// A host that has just what the plugin calls.
pub fn host() -> Host {
    Host::for_tests(version, buffer_init, nbytes, no_desc, no_name)
}

/// A tensor that is alive as long as its [`World`].
pub type Handle = *mut ggml_tensor;

/// Tensors and graphs made by hand. Nothing is freed, as in a host that never frees its contexts.
#[derive(Default)]
pub struct World;

impl World {
    /// A contiguous leaf.
    pub fn tensor(&self, type_id: i32, ne: [i64; 4]) -> Handle {
        let (block, bytes) = block(type_id);
        let mut nb = [bytes; 4];
        for axis in 1..4 {
            nb[axis] = nb[axis - 1] * ne[axis - 1] as usize / if axis == 1 { block } else { 1 };
        }
        Box::leak(Box::new(ggml_tensor {
            type_: type_id,
            buffer: std::ptr::null_mut(),
            ne,
            nb,
            op: 0,
            op_params: [0; MAX_OP_PARAMS],
            flags: 0,
            src: [std::ptr::null_mut(); MAX_SRC],
            view_src: std::ptr::null_mut(),
            view_offs: 0,
            data: std::ptr::null_mut(),
            name: [0; 64],
            extra: std::ptr::null_mut(),
            padding: [0; 8],
        }))
    }

    /// A node that makes a new tensor.
    pub fn node(&self, op: i32, params: &[i32], type_id: i32, ne: [i64; 4], sources: &[Handle]) -> Handle {
        let node = self.tensor(type_id, ne);
        // SAFETY: the tensor is ours and alive.
        let tensor = unsafe { &mut *node };
        tensor.op = op;
        tensor.flags = FLAG_COMPUTE;
        tensor.op_params[..params.len()].copy_from_slice(params);
        tensor.src[..sources.len()].copy_from_slice(sources);
        node
    }

    /// A view of a tensor with strides and an offset in bytes, placed where its root is.
    pub fn view(&self, of: Handle, ne: [i64; 4], nb: [usize; 4], offset: usize) -> Handle {
        // SAFETY: the tensor is ours and alive.
        let source = unsafe { &*of };
        let view = self.node(37, &[], source.type_, ne, &[of]);
        // SAFETY: as above.
        let (tensor, root) = unsafe {
            let root = if source.view_src.is_null() { of } else { source.view_src };
            (&mut *view, root)
        };
        tensor.nb = nb;
        tensor.view_src = root;
        tensor.view_offs = source.view_offs + offset;
        tensor.buffer = source.buffer;
        tensor.data = source.data.wrapping_byte_add(offset);
        view
    }

    /// A node that writes a tensor in place: a view of all of `of` with an op.
    pub fn in_place(&self, op: i32, params: &[i32], of: Handle, sources: &[Handle]) -> Handle {
        // SAFETY: the tensor is ours and alive.
        let (ne, nb) = unsafe { ((*of).ne, (*of).nb) };
        let view = self.view(of, ne, nb, 0);
        // SAFETY: as above.
        let tensor = unsafe { &mut *view };
        tensor.op = op;
        tensor.op_params[..params.len()].copy_from_slice(params);
        tensor.src = [std::ptr::null_mut(); MAX_SRC];
        tensor.src[..sources.len()].copy_from_slice(sources);
        view
    }

    /// A graph of these nodes with its table of uses, as ggml builds it.
    pub fn graph(&self, nodes: &[Handle], uid: u64) -> &'static mut ggml_cgraph {
        let size = 8 * nodes.len() + 8;
        let keys = Box::leak(vec![std::ptr::null_mut::<ggml_tensor>(); size].into_boxed_slice());
        let used = Box::leak(vec![0_u32; size.div_ceil(32)].into_boxed_slice());
        let use_counts = Box::leak(vec![0_i32; size].into_boxed_slice());
        let mut count = |tensor: Handle, uses: i32| {
            let mut slot = (tensor as usize >> 4) % size;
            while used[slot / 32] & (1 << (slot % 32)) != 0 && keys[slot] != tensor {
                slot = (slot + 1) % size;
            }
            used[slot / 32] |= 1 << (slot % 32);
            keys[slot] = tensor;
            use_counts[slot] += uses;
        };
        for &node in nodes {
            count(node, 0);
            // SAFETY: the tensor is ours and alive.
            for source in unsafe { &*node }.src.iter().filter(|source| !source.is_null()) {
                count(*source, 1);
            }
        }
        let (keys, used, use_counts) = (keys.as_mut_ptr(), used.as_mut_ptr(), use_counts.as_mut_ptr());
        Box::leak(Box::new(ggml_cgraph {
            size: nodes.len() as i32,
            n_nodes: nodes.len() as i32,
            n_leafs: 0,
            nodes: Box::leak(nodes.to_vec().into_boxed_slice()).as_mut_ptr(),
            grads: std::ptr::null_mut(),
            grad_accs: std::ptr::null_mut(),
            leafs: std::ptr::null_mut(),
            use_counts,
            visited_hash_set: ggml_hash_set { size, used, keys },
            order: 0,
            uid,
        }))
    }

    /// A graph as plain data. Roots are in the buffer that `data` names in its upper bits; buffers from 8 on are compute buffers.
    pub fn snapshot(&self, nodes: &[Handle], uid: u64) -> Snapshot {
        let mut placer = |root: &ggml_tensor| {
            let (buffer, offset) = (root.data as usize >> 32, root.data as usize & 0xFFFF_FFFF);
            let lifetime = if buffer < 8 { Lifetime::Persistent } else { Lifetime::Epoch };
            Ok(Some(Place { buffer, offset, lifetime }))
        };
        // SAFETY: everything in the graph is ours and alive.
        unsafe { Snapshot::of_graph(self.graph(nodes, uid), nbytes, &mut placer) }.expect("all is placed")
    }

    /// Names the place of a tensor for [`Self::snapshot`].
    pub fn place(&self, tensor: Handle, buffer: usize, offset: usize) -> Handle {
        // SAFETY: the tensor is ours and alive.
        unsafe { (*tensor).data = ((buffer << 32) + offset) as *mut c_void };
        tensor
    }
}
