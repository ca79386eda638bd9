//! The logical device: one compute queue, the memory budget, and whether the device is lost.
//!
//! Everything made from a device holds it in an `Arc`, so it goes last. Tapes and uploads that the device repacks
//! leave work in flight; they keep alive what it uses and wait before they go.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use ash::{ext, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};

use crate::device::{ByteDots, Limits};

use super::adapter::Adapter;
use super::census::{Census, Counts};
use super::error::{Error, Result};
use super::instance::Instance;
use super::memory::Budget;
use super::{dots, matrix};

pub(super) struct Device {
    pub raw: ash::Device,
    pub adapter: Adapter,
    /// The adapter's limits, clamped.
    pub limits: Limits,
    pub allocator: Mutex<Option<Allocator>>,
    pub budget: Budget,
    queue: Mutex<vk::Queue>,
    /// Submissions not yet waited for.
    in_flight: AtomicUsize,
    lost: AtomicBool,
    pub counts: Counts,
    pub instance: Instance,
}

impl Device {
    pub fn new(instance: Instance, adapter: Adapter, limits: Limits) -> Result<Self> {
        let priorities = [1.0];
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(adapter.queue_family)
            .queue_priorities(&priorities)];
        let mut extensions = Vec::new();
        if adapter.memory_budget {
            extensions.push(ext::memory_budget::NAME.as_ptr());
        }
        let mut matrix = matrix::Features::needed_by(&limits);
        let matrices = !limits.matrix_units.is_empty();
        if matrices {
            extensions.extend(matrix.extensions());
        }
        let mut byte_dots = dots::enabled();
        if limits.byte_dots != ByteDots::None {
            extensions.push(dots::EXTENSION.as_ptr());
        }
        let mut info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&extensions);
        if matrices {
            info = matrix.enable(info);
        }
        if limits.byte_dots != ByteDots::None {
            info = info.push_next(&mut byte_dots);
        }
        // SAFETY: the adapter was enumerated from this live instance; the family, the extensions and the
        // features are its own.
        let raw = unsafe { instance.raw.create_device(adapter.raw, &info, None) }
            .map_err(|r| Error::of_call("vkCreateDevice", r))?;
        // SAFETY: queue 0 of the family was requested above.
        let queue = unsafe { raw.get_device_queue(adapter.queue_family, 0) };
        let budget = Budget::new(limits.heap_bytes);
        let device = Self {
            raw,
            adapter,
            limits,
            allocator: Mutex::new(None),
            budget,
            queue: Mutex::new(queue),
            in_flight: AtomicUsize::new(0),
            lost: AtomicBool::new(false),
            counts: Counts::default(),
            instance,
        };
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: device.instance.raw.clone(),
            device: device.raw.clone(),
            physical_device: device.adapter.raw,
            debug_settings: Default::default(),
            buffer_device_address: false,
            allocation_sizes: Default::default(),
        })
        .map_err(|e| Error::NoDevice { reason: format!("its memory cannot be managed: {e}") })?;
        *lock(&device.allocator) = Some(allocator);
        Ok(device)
    }

    /// Turns a failed call into an error and remembers a lost device.
    pub fn failed(&self, call: &'static str, result: vk::Result) -> Error {
        match result {
            vk::Result::ERROR_DEVICE_LOST => self.lost.store(true, Ordering::Relaxed),
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => return self.budget.exhausted(call.to_owned(), 0),
            _ => {}
        }
        Error::of_call(call, result)
    }

    /// What is alive.
    pub fn census(&self) -> Census {
        let Counts { buffers, images, pipelines, tapes, descriptor_sets, blocks } = &self.counts;
        let pooled = lock(&self.allocator).as_ref().map_or(0, Allocator::capacity);
        Census {
            buffers: buffers.get(),
            images: images.get(),
            pipelines: pipelines.get(),
            tapes: tapes.get(),
            descriptor_sets: descriptor_sets.get(),
            allocated: pooled + blocks.get() as u64,
        }
    }

    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn check_alive(&self, call: &'static str) -> Result<()> {
        if self.is_lost() { Err(Error::DeviceLost { call }) } else { Ok(()) }
    }

    /// Submits recorded command buffers in order; `fence` signals when all are done. Each submission is waited for
    /// once.
    pub fn submit(&self, commands: &[vk::CommandBuffer], fence: vk::Fence) -> Result<()> {
        const CALL: &str = "vkQueueSubmit";
        self.check_alive(CALL)?;
        let queue = lock(&self.queue);
        let submits = [vk::SubmitInfo::default().command_buffers(commands)];
        // SAFETY: the callers hand over executable command buffers that are not pending and an unsignalled fence, all
        // of this device; the lock synchronizes the queue.
        unsafe { self.raw.queue_submit(*queue, &submits, fence) }.map_err(|r| self.failed(CALL, r))?;
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Waits until the `fence` of a submission signals. A failure counts as the loss of the device: the work may
    /// still run.
    pub fn wait(&self, fence: vk::Fence) -> Result<()> {
        const CALL: &str = "vkWaitForFences";
        self.check_alive(CALL)?;
        // SAFETY: the fence is of this device and its owner keeps it alive over the call.
        unsafe { self.raw.wait_for_fences(&[fence], true, u64::MAX) }.map_err(|result| {
            self.lost.store(true, Ordering::Relaxed);
            self.failed(CALL, result)
        })?;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    /// Runs `access`, which touches mapped device memory, while no work runs on the queue and none can start.
    pub fn with_idle_queue<R>(&self, access: impl FnOnce() -> R) -> Result<R> {
        const CALL: &str = "vkQueueWaitIdle";
        self.check_alive(CALL)?;
        let queue = lock(&self.queue);
        if self.in_flight.load(Ordering::SeqCst) > 0 {
            // SAFETY: the lock synchronizes the queue.
            unsafe { self.raw.queue_wait_idle(*queue) }.map_err(|r| self.failed(CALL, r))?;
        }
        Ok(access())
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // The allocator frees its blocks through the device.
        lock(&self.allocator).take();
        // SAFETY: all children hold the device in an `Arc` and are gone, and they waited for their work.
        unsafe { self.raw.destroy_device(None) };
    }
}

/// Locks, also after a panic elsewhere: what these mutexes guard is valid between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
