//! `ggml_backend_i`: a stream that computes graphs. A call returns when the results are in their homes.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use fblayout::graph::ValueId;
use fblayout::roofline::Phase;

use crate::abi::{
    Guid, STATUS_FAILED, STATUS_SUCCESS, Status, ggml_backend, ggml_backend_buffer, ggml_backend_i, ggml_cgraph,
    ggml_tensor,
};
use crate::buffer::{self, Buffer};
use crate::cache::{PlanCache, Structure, Uid};
use crate::device::Device;
use crate::engine::Engine;
use crate::guard::{borrow, guard};
use crate::memory::Lifetime;
use crate::record::Root;
use crate::snapshot::{self, Place, Snapshot};
use crate::translate::{Translation, translate};

/// Names this kind of backend to hosts.
static GUID: Guid = [0x6c, 0x1e, 0x5d, 0x0a, 0x97, 0x42, 0x4f, 0x83, 0xb1, 0x2c, 0x3a, 0xee, 0x58, 0x04, 0xd7, 0x69];

/// A stream of a device.
struct Backend<E: Engine> {
    device: &'static Device<E>,
    engine: Arc<E>,
    plans: Mutex<PlanCache<Plan<E>>>,
}

/// A compiled graph with the records that its external values stand for.
struct Plan<E: Engine> {
    program: E::Program,
    externals: Vec<External<E>>,
}

struct External<E: Engine> {
    value: ValueId,
    /// Dead once the host freed the buffer; until then the address is nobody else's.
    buffer: Weak<Buffer<E>>,
    root: Root,
    lifetime: Lifetime,
    reads: bool,
    writes: bool,
}

impl<E: Engine> Plan<E> {
    fn is_alive(&self) -> bool {
        self.externals.iter().all(|external| external.buffer.strong_count() > 0)
    }
}

/// Opens a stream of a device; `interface::free` releases it.
pub fn open<E: Engine>(device: &'static Device<E>) -> Result<*mut ggml_backend, String> {
    let engine = device.engine()?;
    let context = Box::new(Backend { device, engine, plans: Mutex::new(PlanCache::default()) });
    Ok(Box::into_raw(Box::new(ggml_backend {
        // Hosts compare the bytes and never write them, whatever the pointer's type says.
        guid: (&raw const GUID).cast_mut(),
        iface: interface::<E>(),
        device: device.raw(),
        context: Box::into_raw(context).cast(),
    })))
}

fn interface<E: Engine>() -> ggml_backend_i {
    ggml_backend_i {
        get_name: Some(get_name::<E>),
        free: Some(free::<E>),
        graph_compute: Some(graph_compute::<E>),
        ..ggml_backend_i::default()
    }
}

/// The stream behind the host's pointer.
///
/// # Safety
/// `backend` is null or was made by [`open`] and not freed.
unsafe fn context<'a, E: Engine>(backend: *const ggml_backend) -> Result<&'a Backend<E>, String> {
    // SAFETY: the caller's promise.
    unsafe { borrow(borrow(backend, "backend")?.context.cast::<Backend<E>>(), "backend context") }
}

unsafe extern "C" fn get_name<E: Engine>(backend: *mut ggml_backend) -> *const c_char {
    guard("backend get_name", c"FBLayout".as_ptr(), || {
        // SAFETY: the host passes a backend of this interface.
        Ok(unsafe { context::<E>(backend) }?.device.name().as_ptr())
    })
}

unsafe extern "C" fn free<E: Engine>(backend: *mut ggml_backend) {
    guard("backend free", (), || {
        if backend.is_null() {
            return Err("backend is null".into());
        }
        // SAFETY: `open` made both boxes, and the host frees a backend once.
        unsafe {
            let raw = Box::from_raw(backend);
            Box::from_raw(raw.context.cast::<Backend<E>>()).engine.freed();
        }
        Ok(())
    });
}

unsafe extern "C" fn graph_compute<E: Engine>(backend: *mut ggml_backend, graph: *mut ggml_cgraph) -> Status {
    guard("graph_compute", STATUS_FAILED, || {
        // SAFETY: the host passes a backend of this interface.
        let backend = unsafe { context::<E>(backend) }?;
        // SAFETY: the host passes a valid graph and changes nothing of it during the call.
        unsafe { backend.compute(borrow(graph, "graph")?) }?;
        Ok(STATUS_SUCCESS)
    })
}

impl<E: Engine> Backend<E> {
    /// Computes a graph whose tensors are in buffers of this stream's device.
    ///
    /// # Safety
    /// The graph is valid, with everything it refers to.
    unsafe fn compute(&self, graph: &ggml_cgraph) -> Result<(), String> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller's promise.
        let found = self.engine.timed(Phase::Translate, || unsafe { self.find(graph, &mut plans) })?;
        if found { self.run_newest(&mut plans) } else { Ok(()) }
    }

    /// Makes the plan of a graph the newest; false if there is nothing to do.
    ///
    /// # Safety
    /// As [`Self::compute`].
    unsafe fn find(&self, graph: &ggml_cgraph, plans: &mut PlanCache<Plan<E>>) -> Result<bool, String> {
        // SAFETY: the caller's promise.
        let nodes = unsafe { snapshot::nodes(graph) }?;
        let uid = nodes.first().filter(|_| graph.uid != 0).map(|&first| Uid {
            uid: graph.uid,
            nodes: nodes.len(),
            first: std::ptr::from_ref(first) as usize,
        });
        // What a freed buffer held goes with the plans that used it.
        plans.retain(Plan::is_alive);
        if uid.is_some_and(|uid| plans.by_uid(uid).is_some()) {
            return Ok(true);
        }
        let mut buffers = Buffers { device: self.device, known: Vec::new(), numbers: HashMap::new() };
        // SAFETY: the caller's promise.
        let snapshot = unsafe {
            Snapshot::of_graph(graph, self.device.host().nbytes, &mut |root: &ggml_tensor| {
                buffers.place(root).map(Some)
            })
        }?;
        let structure = Structure::of(&snapshot, |number| buffers.known[number].as_ptr() as usize);
        if plans.by_structure(structure, uid).is_some() {
            return Ok(true);
        }
        let translation = translate(&snapshot)?;
        if translation.graph.nodes.is_empty() {
            return Ok(false);
        }
        let plan = self.plan(&translation, &buffers.known)?;
        plans.trim(self.engine.kept_bytes(), |plan| self.weight(plan));
        plans.insert(structure, uid, plan);
        Ok(true)
    }

    /// Runs the plan found or added last. Where that fails, the memory that the other plans hold is freed, and it is run once more.
    fn run_newest(&self, plans: &mut PlanCache<Plan<E>>) -> Result<(), String> {
        let gone = || "the graph's plan was dropped".to_owned();
        match self.run(plans.newest().ok_or_else(gone)?) {
            Err(why) if plans.keep_newest() => {
                log::info!("{why}; once more without what is kept of other graphs");
                self.run(plans.newest().ok_or_else(gone)?)
            }
            result => result,
        }
    }

    /// Bytes of device memory that a plan keeps from others: its own, and its compute tensors.
    fn weight(&self, plan: &Plan<E>) -> u64 {
        let compute = plan.externals.iter().filter(|external| external.lifetime == Lifetime::Epoch);
        let tensors: u64 = compute.map(|external| external.root.geometry.nbytes as u64).sum();
        tensors.saturating_add(self.engine.program_bytes(&plan.program))
    }

    fn plan(&self, translation: &Translation, buffers: &[Weak<Buffer<E>>]) -> Result<Plan<E>, String> {
        let program = self.engine.compile(&translation.graph)?;
        let externals = translation
            .bindings
            .iter()
            .map(|binding| External {
                value: binding.value,
                buffer: Weak::clone(&buffers[binding.buffer]),
                root: binding.root,
                lifetime: binding.lifetime,
                reads: binding.reads,
                writes: binding.writes,
            })
            .collect();
        Ok(Plan { program, externals })
    }

    fn run(&self, plan: &mut Plan<E>) -> Result<(), String> {
        let tensors = self.engine.timed(Phase::Bind, || self.bind(plan))?;
        self.engine.run(&mut plan.program, &tensors)?;
        for external in plan.externals.iter().filter(|external| external.writes) {
            let buffer = external.buffer.upgrade().ok_or_else(freed)?;
            buffer.memory().mark_device_written(&external.root);
        }
        Ok(())
    }

    /// The tensors that a plan's external values stand for, with what the host wrote to them.
    fn bind(&self, plan: &Plan<E>) -> Result<Vec<(ValueId, E::Tensor)>, String> {
        let mut tensors = Vec::with_capacity(plan.externals.len());
        // Inputs come first: an output may fall on bytes that an input still names.
        for reads in [true, false] {
            for external in plan.externals.iter().filter(|external| external.reads == reads) {
                let buffer = external.buffer.upgrade().ok_or_else(freed)?;
                let (root, lifetime) = (&external.root, external.lifetime);
                let mut memory = buffer.memory();
                let tensor = if reads {
                    memory.device_input(&self.engine, root, lifetime)
                } else {
                    memory.device_output(&self.engine, root, lifetime)
                };
                tensors.push((external.value, tensor.map_err(|error| error.to_string())?));
            }
        }
        Ok(tensors)
    }
}

fn freed() -> String {
    "a buffer of the graph was freed".to_owned()
}

/// The buffers that a graph's roots are in, numbered as they come.
struct Buffers<'a, E: Engine> {
    device: &'a Device<E>,
    known: Vec<Weak<Buffer<E>>>,
    numbers: HashMap<*const ggml_backend_buffer, usize>,
}

impl<E: Engine> Buffers<'_, E> {
    /// Where a root tensor is; an error if it is in no buffer of this device.
    fn place(&mut self, root: &ggml_tensor) -> Result<Place, String> {
        let foreign = || format!("{} is in no buffer of this device", snapshot::Name::from(root));
        // SAFETY: a tensor's buffer is null or valid.
        let raw = unsafe { root.buffer.as_ref() }.ok_or_else(foreign)?;
        if raw.buft != self.device.buffer_type() || raw.context.is_null() {
            return Err(foreign());
        }
        // SAFETY: buffers of this type have this interface.
        let (context, _) = unsafe { buffer::context::<E>(raw) }?;
        let number = *self.numbers.entry(raw).or_insert_with(|| {
            self.known.push(context.weak());
            self.known.len() - 1
        });
        // SAFETY: a root is valid.
        let offset = unsafe { context.root(root) }?.offset;
        Ok(Place { buffer: number, offset, lifetime: buffer::lifetime(raw) })
    }
}
