//! `ggml_backend_device_i`: one per Vulkan device. The engine is opened when the first buffer or stream needs it.

use std::ffi::{CStr, CString, c_char};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashSet;

use crate::abi::{
    DEVICE_TYPE_GPU, DEVICE_TYPE_IGPU, ggml_backend, ggml_backend_buffer_type, ggml_backend_dev_caps,
    ggml_backend_dev_props, ggml_backend_device, ggml_backend_device_i, ggml_backend_reg, ggml_tensor,
};
use crate::cache::Structure;
use crate::engine::{Description, Engine};
use crate::guard::{borrow, guard};
use crate::host::Host;
use crate::snapshot::Snapshot;
use crate::translate;
use crate::{backend, buffer_type};

/// A device as the plugin sees it. Never freed: hosts keep pointers to it for the life of the process.
pub struct Device<E: Engine> {
    raw: ggml_backend_device,
    buffer_type: ggml_backend_buffer_type,
    name: CString,
    description: CString,
    facts: Description,
    host: Host,
    adapter: E::Adapter,
    engine: Mutex<Option<Arc<E>>>,
    /// Nodes that are known to be supported: hosts ask about each of a graph's again and again.
    supported: Mutex<FxHashSet<Structure>>,
}

/// Nodes remembered at most.
const MOST_SUPPORTED: usize = 8192;

// SAFETY: the raw pointers inside name immortal objects of this plugin that are never written after `register`.
unsafe impl<E: Engine> Send for Device<E> {}
// SAFETY: as above; what changes is behind a mutex.
unsafe impl<E: Engine> Sync for Device<E> {}

impl<E: Engine> Device<E> {
    /// Makes the immortal device number `index` of a registry.
    pub fn register(reg: *mut ggml_backend_reg, index: usize, adapter: E::Adapter, host: Host) -> &'static Self {
        let facts = E::describe(&adapter);
        let device = Box::into_raw(Box::new(Self {
            raw: ggml_backend_device { iface: interface::<E>(), reg, context: std::ptr::null_mut() },
            buffer_type: ggml_backend_buffer_type {
                iface: buffer_type::interface::<E>(),
                device: std::ptr::null_mut(),
                context: std::ptr::null_mut(),
            },
            name: c_string(&format!("FBLayout{index}")),
            description: c_string(&facts.name),
            facts,
            host,
            adapter,
            engine: Mutex::new(None),
            supported: Mutex::default(),
        }));
        // SAFETY: the box is leaked, so the pointer stays valid, and nobody else has it yet.
        unsafe {
            (*device).raw.context = device.cast();
            (*device).buffer_type.context = device.cast();
            (*device).buffer_type.device = &raw mut (*device).raw;
            &*device
        }
    }

    /// What the host calls the device by.
    pub fn raw(&self) -> *mut ggml_backend_device {
        // Hosts read this struct and never write it, whatever the pointer's type says.
        (&raw const self.raw).cast_mut()
    }

    /// The device's only buffer type.
    pub fn buffer_type(&self) -> *mut ggml_backend_buffer_type {
        (&raw const self.buffer_type).cast_mut()
    }

    /// `FBLayout0` and so on.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// What the driver says of the device.
    pub fn facts(&self) -> &Description {
        &self.facts
    }

    /// Functions of the host.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The open engine; opens it the first time, and again after a failure.
    pub fn engine(&self) -> Result<Arc<E>, String> {
        let mut slot = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*slot {
            return Ok(Arc::clone(engine));
        }
        let engine = Arc::new(E::open(&self.adapter)?);
        *slot = Some(Arc::clone(&engine));
        Ok(engine)
    }

    /// What hosts take it for. A driver on the CPU is a GPU too: hosts give graphs to GPUs, and have a CPU backend of their own.
    fn kind(&self) -> i32 {
        if self.facts.integrated { DEVICE_TYPE_IGPU } else { DEVICE_TYPE_GPU }
    }

    /// Free and total bytes.
    fn memory(&self) -> (usize, usize) {
        let slot = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        let free = E::memory_free(&self.adapter, slot.as_deref());
        (saturate(free.min(self.facts.memory)), saturate(self.facts.memory))
    }

    /// Whether the op can be computed: what its lowering says of the graph that has only this node.
    ///
    /// # Safety
    /// `op` is a valid tensor with valid sources; they need not be allocated.
    unsafe fn supports(&self, op: &ggml_tensor) -> Result<(), String> {
        // SAFETY: the caller's promise.
        let snapshot = unsafe { Snapshot::of_node(op, self.host.nbytes) }?;
        // No root has a place here.
        let node = Structure::of(&snapshot, |_| 0);
        if self.supported().contains(&node) {
            return Ok(());
        }
        let graph = translate::translate(&snapshot)?.graph;
        if !graph.nodes.is_empty() {
            E::supports(&self.adapter, &graph)?;
        }
        let mut supported = self.supported();
        if supported.len() >= MOST_SUPPORTED {
            supported.clear();
        }
        supported.insert(node);
        Ok(())
    }

    fn supported(&self) -> MutexGuard<'_, FxHashSet<Structure>> {
        self.supported.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn saturate(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The text up to its first NUL.
fn c_string(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

fn interface<E: Engine>() -> ggml_backend_device_i {
    ggml_backend_device_i {
        get_name: Some(get_name::<E>),
        get_description: Some(get_description::<E>),
        get_memory: Some(get_memory::<E>),
        get_type: Some(get_type::<E>),
        get_props: Some(get_props::<E>),
        init_backend: Some(init_backend::<E>),
        get_buffer_type: Some(get_buffer_type::<E>),
        supports_op: Some(supports_op::<E>),
        supports_buft: Some(supports_buft::<E>),
        ..ggml_backend_device_i::default()
    }
}

/// The device behind the host's pointer.
///
/// # Safety
/// `device` is null or was made by [`Device::register`].
unsafe fn context<'a, E: Engine>(device: *const ggml_backend_device) -> Result<&'a Device<E>, String> {
    // SAFETY: the caller's promise; devices are never freed.
    unsafe { borrow(borrow(device, "device")?.context.cast::<Device<E>>(), "device context") }
}

unsafe extern "C" fn get_name<E: Engine>(device: *mut ggml_backend_device) -> *const c_char {
    guard("device get_name", c"FBLayout".as_ptr(), || {
        // SAFETY: the host passes a device of this interface.
        Ok(unsafe { context::<E>(device) }?.name.as_ptr())
    })
}

unsafe extern "C" fn get_description<E: Engine>(device: *mut ggml_backend_device) -> *const c_char {
    guard("device get_description", c"FBLayout".as_ptr(), || {
        // SAFETY: the host passes a device of this interface.
        Ok(unsafe { context::<E>(device) }?.description.as_ptr())
    })
}

unsafe extern "C" fn get_memory<E: Engine>(device: *mut ggml_backend_device, free: *mut usize, total: *mut usize) {
    guard("device get_memory", (), || {
        // SAFETY: the host passes a device of this interface.
        let memory = unsafe { context::<E>(device) }?.memory();
        for (out, value) in [(free, memory.0), (total, memory.1)] {
            if !out.is_null() {
                // SAFETY: a non-null out pointer of the host is writable.
                unsafe { out.write(value) };
            }
        }
        Ok(())
    });
}

unsafe extern "C" fn get_type<E: Engine>(device: *mut ggml_backend_device) -> i32 {
    guard("device get_type", DEVICE_TYPE_GPU, || {
        // SAFETY: the host passes a device of this interface.
        Ok(unsafe { context::<E>(device) }?.kind())
    })
}

unsafe extern "C" fn get_props<E: Engine>(device: *mut ggml_backend_device, props: *mut ggml_backend_dev_props) {
    guard("device get_props", (), || {
        // SAFETY: the host passes a device of this interface.
        let device = unsafe { context::<E>(device) }?;
        if props.is_null() {
            return Err("props is null".into());
        }
        let (memory_free, memory_total) = device.memory();
        let filled = ggml_backend_dev_props {
            name: device.name.as_ptr(),
            description: device.description.as_ptr(),
            memory_free,
            memory_total,
            type_: device.kind(),
            // An id would make hosts drop this device in favour of another backend's view of the same GPU.
            device_id: std::ptr::null(),
            caps: ggml_backend_dev_caps {
                async_: false,
                host_buffer: false,
                buffer_from_host_ptr: false,
                events: false,
                mmap_support: true,
            },
        };
        // SAFETY: the host passes a writable struct of this version.
        unsafe { props.write(filled) };
        Ok(())
    });
}

unsafe extern "C" fn init_backend<E: Engine>(device: *mut ggml_backend_device, _: *const c_char) -> *mut ggml_backend {
    guard("init_backend", std::ptr::null_mut(), || {
        // SAFETY: the host passes a device of this interface.
        backend::open(unsafe { context::<E>(device) }?)
    })
}

unsafe extern "C" fn get_buffer_type<E: Engine>(device: *mut ggml_backend_device) -> *mut ggml_backend_buffer_type {
    guard("get_buffer_type", std::ptr::null_mut(), || {
        // SAFETY: the host passes a device of this interface.
        Ok(unsafe { context::<E>(device) }?.buffer_type())
    })
}

unsafe extern "C" fn supports_op<E: Engine>(device: *mut ggml_backend_device, op: *const ggml_tensor) -> bool {
    guard("supports_op", false, || {
        // SAFETY: the host passes a device of this interface.
        let device = unsafe { context::<E>(device) }?;
        // SAFETY: the host passes a valid tensor.
        let op = unsafe { borrow(op, "op") }?;
        // SAFETY: a valid tensor has valid sources.
        match unsafe { device.supports(op) } {
            Ok(()) => Ok(true),
            Err(why) => {
                if log::log_enabled!(log::Level::Debug) {
                    // SAFETY: the host made this tensor.
                    let (name, type_) = unsafe { (device.host.op_desc(op), device.host.type_name(op.type_)) };
                    log::debug!("no {name} -> {type_} {:?}: {why}", op.ne);
                }
                Ok(false)
            }
        }
    })
}

unsafe extern "C" fn supports_buft<E: Engine>(
    device: *mut ggml_backend_device,
    buft: *mut ggml_backend_buffer_type,
) -> bool {
    guard("supports_buft", false, || {
        // SAFETY: the host passes a device of this interface.
        Ok(unsafe { context::<E>(device) }?.buffer_type() == buft)
    })
}
