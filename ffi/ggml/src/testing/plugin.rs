//! A plugin in use by a host that calls its vtables as ggml does.

use std::sync::Arc;

use crate::abi::*;
use crate::device::Device;
use crate::engine::Engine;
use crate::registry::Registry;

use super::{Handle, World, host};

/// A registry with one device in use.
pub struct Plugin<E: Engine> {
    pub world: World,
    pub registry: &'static Registry<E>,
    pub device: &'static Device<E>,
    pub backend: *mut ggml_backend,
}

/// A buffer as its host holds it.
#[derive(Clone, Copy)]
pub struct HostBuffer(pub *mut ggml_backend_buffer);

impl<E: Engine> Plugin<E> {
    /// The first device of a new registry of the devices that `wanted` asks for.
    pub fn new(wanted: &str) -> Self {
        Self::on(Registry::new(host(), wanted), 0)
    }

    /// A device of a registry.
    pub fn on(registry: &'static Registry<E>, index: usize) -> Self {
        let device = registry.devices()[index];
        // SAFETY: the device is of this interface.
        let backend = unsafe { (device_i(device).init_backend.expect("set"))(device.raw(), std::ptr::null()) };
        assert!(!backend.is_null());
        Self { world: World, registry, device, backend }
    }

    pub fn engine(&self) -> Arc<E> {
        self.device.engine().expect("open")
    }

    pub fn buffer(&self, size: usize, usage: i32) -> HostBuffer {
        let buft = self.device.buffer_type();
        // SAFETY: the buffer type is of this interface; the buffer is ours until it is freed.
        let raw = unsafe {
            let raw = ((*buft).iface.alloc_buffer.expect("set"))(buft, size);
            assert!(!raw.is_null());
            (*raw).usage = usage;
            raw
        };
        HostBuffer(raw)
    }

    pub fn compute(&self, nodes: &[Handle], uid: u64) -> Status {
        self.run(self.world.graph(nodes, uid))
    }

    /// Computes a graph that may have been computed before.
    pub fn run(&self, graph: &mut ggml_cgraph) -> Status {
        // SAFETY: the backend and the graph are valid.
        unsafe { ((*self.backend).iface.graph_compute.expect("set"))(self.backend, graph) }
    }

    pub fn supports(&self, op: Handle) -> bool {
        // SAFETY: the device and the tensor are valid.
        unsafe { (device_i(self.device).supports_op.expect("set"))(self.device.raw(), op) }
    }

    /// Free and total bytes of the device, as hosts ask.
    pub fn memory(&self) -> (usize, usize) {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the device and the out pointers are valid.
        unsafe { (device_i(self.device).get_memory.expect("set"))(self.device.raw(), &mut free, &mut total) };
        (free, total)
    }
}

impl<E: Engine> Drop for Plugin<E> {
    fn drop(&mut self) {
        // SAFETY: the backend is freed once.
        unsafe { ((*self.backend).iface.free.expect("set"))(self.backend) };
    }
}

fn device_i<E: Engine>(device: &Device<E>) -> ggml_backend_device_i {
    // SAFETY: devices are immortal.
    unsafe { (*device.raw()).iface }
}

impl HostBuffer {
    pub fn iface(self) -> ggml_backend_buffer_i {
        // SAFETY: the buffer is alive.
        unsafe { (*self.0).iface }
    }

    pub fn place(self, tensor: Handle, offset: usize) -> Handle {
        // SAFETY: the buffer is alive, and so is the tensor.
        unsafe {
            (*tensor).buffer = self.0;
            (*tensor).data = (self.iface().get_base.expect("set"))(self.0).wrapping_byte_add(offset);
        }
        tensor
    }

    pub fn set(self, tensor: Handle, offset: usize, bytes: &[u8]) {
        let set = self.iface().set_tensor.expect("set");
        // SAFETY: the buffer and the tensor are valid, and there are as many bytes as said.
        unsafe { set(self.0, tensor, bytes.as_ptr().cast(), offset, bytes.len()) };
    }

    pub fn get(self, tensor: Handle, offset: usize, size: usize) -> Vec<u8> {
        let mut out = vec![0xEE; size];
        let get = self.iface().get_tensor.expect("set");
        // SAFETY: as in `set`.
        unsafe { get(self.0, tensor, out.as_mut_ptr().cast(), offset, size) };
        out
    }

    pub fn memset(self, tensor: Handle, value: u8, offset: usize, size: usize) {
        // SAFETY: as in `set`.
        unsafe { (self.iface().memset_tensor.expect("set"))(self.0, tensor, value, offset, size) };
    }

    pub fn clear(self, value: u8) {
        // SAFETY: the buffer is alive.
        unsafe { (self.iface().clear.expect("set"))(self.0, value) };
    }

    /// Copies a tensor to one of this buffer; false if the plugin leaves it to ggml.
    pub fn copy(self, from: Handle, to: Handle) -> bool {
        // SAFETY: the buffer is alive, and so are the tensors.
        unsafe { (self.iface().cpy_tensor.expect("set"))(self.0, from, to) }
    }

    pub fn set_floats(self, tensor: Handle, values: &[f32]) {
        self.set(tensor, 0, &values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<_>>());
    }

    pub fn floats(self, tensor: Handle, count: usize) -> Vec<f32> {
        let bytes = self.get(tensor, 0, 4 * count);
        bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
    }

    pub fn reset(self) {
        // SAFETY: the buffer is alive.
        unsafe { (self.iface().reset.expect("set"))(self.0) };
    }

    pub fn free(self) {
        // SAFETY: the host frees a buffer once, the context first and then the object.
        unsafe {
            (self.iface().free_buffer.expect("set"))(self.0);
            drop(Box::from_raw(self.0));
        }
    }
}
