//! Device memory and how much of it may be taken.
//!
//! Host access goes through memory that is host-visible *and* coherent, which every device has, so nothing is ever
//! flushed; other memory is reached through staging.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use ash::vk;
use gpu_allocator::vulkan::{Allocation, AllocationCreateDesc, AllocationScheme};
use gpu_allocator::{AllocationError, MemoryLocation};

use super::census::Counted;
use super::device::{Device, lock};
use super::error::{Error, Result, within};

/// Bytes handed out against the limit `heap_bytes`.
pub(super) struct Budget {
    limit: u64,
    in_use: Mutex<u64>,
}

impl Budget {
    pub fn new(limit: u64) -> Self {
        Self { limit, in_use: Mutex::new(0) }
    }

    pub fn in_use(&self) -> u64 {
        *lock(&self.in_use)
    }

    fn take(&self, what: &str, bytes: u64) -> Result<()> {
        let mut in_use = lock(&self.in_use);
        match in_use.checked_add(bytes) {
            Some(sum) if sum <= self.limit => {
                *in_use = sum;
                Ok(())
            }
            _ => {
                let (in_use, limit) = (*in_use, self.limit);
                Err(Error::OutOfDeviceMemory { what: what.to_owned(), requested: bytes, in_use, limit })
            }
        }
    }

    fn give_back(&self, bytes: u64) {
        *lock(&self.in_use) -= bytes;
    }

    /// The error for a driver that ran out below our own limit.
    pub fn exhausted(&self, what: String, requested: u64) -> Error {
        Error::OutOfDeviceMemory { what, requested, in_use: self.in_use(), limit: self.limit }
    }
}

/// Address of mapped coherent memory.
#[derive(Clone, Copy)]
pub(super) struct HostPtr {
    ptr: NonNull<u8>,
    /// Reads are fast.
    pub cached: bool,
}

// SAFETY: the pointer is an address only; `Device::with_idle_queue` and the transfer lane's lock order all accesses
// through it.
unsafe impl Send for HostPtr {}
// SAFETY: as above.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    fn new(ptr: Option<NonNull<std::ffi::c_void>>, flags: vk::MemoryPropertyFlags) -> Option<Self> {
        let ptr = ptr.filter(|_| flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT))?.cast();
        Some(Self { ptr, cached: flags.contains(vk::MemoryPropertyFlags::HOST_CACHED) })
    }

    /// Copies `data` to `offset`.
    ///
    /// # Safety
    /// `offset + data.len()` lies within the mapping, the mapping is alive, and nobody else accesses that range
    /// during the call.
    pub unsafe fn write(self, offset: u64, data: &[u8]) {
        // SAFETY: the caller's contract; host slices and device mappings never overlap.
        unsafe { self.ptr.as_ptr().add(offset as usize).copy_from_nonoverlapping(data.as_ptr(), data.len()) }
    }

    /// Copies from `offset` to `out`.
    ///
    /// # Safety
    /// As [`Self::write`], for reading.
    pub unsafe fn read(self, offset: u64, out: &mut [u8]) {
        // SAFETY: the caller's contract.
        unsafe { self.ptr.as_ptr().add(offset as usize).copy_to_nonoverlapping(out.as_mut_ptr(), out.len()) }
    }
}

/// Memory owned by one object: a range of the allocator's blocks, or a block of its own.
pub(super) struct Memory {
    device: Arc<Device>,
    source: Source,
    /// Bytes charged to the budget.
    charged: u64,
    pub host: Option<HostPtr>,
}

enum Source {
    Pooled(Allocation),
    Block(vk::DeviceMemory, #[expect(dead_code, reason = "counted until it is dropped")] Counted),
}

/// Buffers of at most this many bytes are mapped where the host reaches memory of the device: writing them takes no submission.
const EXCHANGED: u64 = 64 << 10;

/// Memory of the device that the host writes.
const SHARED: vk::MemoryPropertyFlags = vk::MemoryPropertyFlags::from_raw(
    vk::MemoryPropertyFlags::DEVICE_LOCAL.as_raw()
        | vk::MemoryPropertyFlags::HOST_VISIBLE.as_raw()
        | vk::MemoryPropertyFlags::HOST_COHERENT.as_raw(),
);

/// What memory is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Buffer,
    Image,
    /// Mapped memory for transfers; not charged to the budget.
    Staging,
    /// The device's side of it, neither.
    Stage,
}

impl Memory {
    /// Memory for one buffer or image.
    pub fn pooled(device: &Arc<Device>, what: &str, needs: vk::MemoryRequirements, purpose: Purpose) -> Result<Self> {
        within(|| format!("memory of {what}, bytes,"), needs.size, device.limits.max_allocation)?;
        let charged = if matches!(purpose, Purpose::Staging | Purpose::Stage) { 0 } else { needs.size };
        device.budget.take(what, charged)?;
        let allocate = |location| match lock(&device.allocator).as_mut() {
            Some(allocator) => allocator.allocate(&AllocationCreateDesc {
                name: what,
                requirements: needs,
                location,
                linear: purpose != Purpose::Image,
                allocation_scheme: AllocationScheme::GpuAllocatorManaged,
            }),
            None => Err(AllocationError::Internal("the device is closing".to_owned())),
        };
        let allocated = match purpose {
            Purpose::Staging => allocate(MemoryLocation::GpuToCpu),
            // What the host reaches may be a small part of the memory; where it is full the allocator takes the host's own.
            Purpose::Buffer if needs.size <= EXCHANGED && has_shared(device, needs.memory_type_bits) => {
                match allocate(MemoryLocation::CpuToGpu) {
                    Ok(taken) if taken.memory_properties().contains(SHARED) => Ok(taken),
                    other => {
                        if let (Ok(taken), Some(allocator)) = (other, lock(&device.allocator).as_mut()) {
                            allocator.free(taken).unwrap_or_else(|e| log::error!("device memory leaks: {e}"));
                        }
                        allocate(MemoryLocation::GpuOnly)
                    }
                }
            }
            Purpose::Buffer | Purpose::Image | Purpose::Stage => allocate(MemoryLocation::GpuOnly),
        };
        let allocation = allocated.map_err(|e| {
            device.budget.give_back(charged);
            match e {
                AllocationError::OutOfMemory => device.budget.exhausted(what.to_owned(), needs.size),
                e => Error::NoMemory { what: what.to_owned(), reason: e.to_string() },
            }
        })?;
        let host = HostPtr::new(allocation.mapped_ptr(), allocation.memory_properties());
        Ok(Self { device: Arc::clone(device), source: Source::Pooled(allocation), charged, host })
    }

    /// A whole block, whose start suits every alignment. `types` is a mask of the memory types allowed.
    pub fn block(device: &Arc<Device>, what: &str, bytes: u64, types: u32) -> Result<Self> {
        within(|| format!("memory of {what}, bytes,"), bytes, device.limits.max_allocation)?;
        // SAFETY: the adapter belongs to the live instance.
        let properties = unsafe { device.instance.raw.get_physical_device_memory_properties(device.adapter.raw) };
        let allowed = || properties.memory_types_as_slice().iter().enumerate().filter(|(i, _)| types & (1 << i) != 0);
        let (index, kind) = allowed()
            .find(|(_, t)| t.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL))
            .or_else(|| allowed().next())
            .ok_or_else(|| Error::invalid(what, "the device has no memory type that holds buffers and images alike"))?;

        device.budget.take(what, bytes)?;
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(index as u32);
        // SAFETY: the type index is the device's own, the size is within its limit.
        let raw = unsafe { device.raw.allocate_memory(&info, None) }.map_err(|result| {
            device.budget.give_back(bytes);
            match result {
                vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => device.budget.exhausted(what.to_owned(), bytes),
                _ => device.failed("vkAllocateMemory", result),
            }
        })?;
        let source = Source::Block(raw, device.counts.blocks.add(bytes as usize));
        let mut memory = Self { device: Arc::clone(device), source, charged: bytes, host: None };
        let mappable = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        if kind.property_flags.contains(mappable) {
            // SAFETY: host-visible memory that is not mapped yet; freeing it unmaps it.
            let ptr = unsafe { device.raw.map_memory(raw, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) }
                .map_err(|r| device.failed("vkMapMemory", r))?;
            memory.host = HostPtr::new(NonNull::new(ptr), kind.property_flags);
        }
        Ok(memory)
    }

    /// The memory object and the offset to bind at.
    pub fn place(&self) -> (vk::DeviceMemory, u64) {
        match &self.source {
            // SAFETY: the handle is only bound to, and what is bound goes before this `Memory` does.
            Source::Pooled(allocation) => (unsafe { allocation.memory() }, allocation.offset()),
            Source::Block(raw, _) => (*raw, 0),
        }
    }
}

/// Whether one of these memory types is the device's own and reached by the host.
fn has_shared(device: &Device, types: u32) -> bool {
    // SAFETY: the adapter belongs to the live instance.
    let properties = unsafe { device.instance.raw.get_physical_device_memory_properties(device.adapter.raw) };
    let mut kinds = properties.memory_types_as_slice().iter().enumerate();
    kinds.any(|(i, kind)| types & (1 << i) != 0 && kind.property_flags.contains(SHARED))
}

impl Drop for Memory {
    fn drop(&mut self) {
        match &mut self.source {
            Source::Pooled(allocation) => {
                if let Some(allocator) = lock(&self.device.allocator).as_mut()
                    && let Err(e) = allocator.free(std::mem::take(allocation))
                {
                    log::error!("device memory leaks: {e}");
                }
            }
            // SAFETY: whatever was bound to the block is gone (owners drop it first), and no work uses it.
            Source::Block(raw, _) => unsafe { self.device.raw.free_memory(*raw, None) },
        }
        self.device.budget.give_back(self.charged);
    }
}
