//! Tapes: the dispatches of a step, recorded once and replayed without recording anything again.

use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use crate::kernels::StorageKind;

use super::census::Counted;
use super::descriptors::Descriptors;
use super::device::Device;
use super::error::{Error, Result, within};
use super::gpu::Gpu;
use super::options::Validation;
use super::pipeline::Pipeline;
use super::record::{Recorder, check_copy};
use super::storage::Storage;

/// One operand of a dispatch.
#[derive(Clone, Debug)]
pub struct Operand<'a> {
    /// Number of the operand: bindings 2 * slot (buffer) and 2 * slot + 1 (image).
    pub slot: u32,
    /// What is bound.
    pub storage: &'a Storage,
    /// Rows of a buffer to bind; `None` binds all. The first row's byte offset must suit the device's binding
    /// alignment.
    pub rows: Option<Range<u32>>,
}

impl<'a> Operand<'a> {
    /// All of a storage.
    pub fn new(slot: u32, storage: &'a Storage) -> Self {
        Self { slot, storage, rows: None }
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum Work<'a> {
    /// Runs a compute pipeline. An operand the shader has but the step does not bind gets a dummy of one texel.
    Dispatch {
        /// The pipeline.
        pipeline: &'a Arc<Pipeline>,
        /// Its operands.
        operands: &'a [Operand<'a>],
        /// Workgroup counts.
        groups: [u32; 3],
    },
    /// Copies all texels between two storages of one extent.
    Copy {
        /// Source.
        from: &'a Storage,
        /// Target.
        to: &'a Storage,
    },
    /// Sets every 32-bit word.
    Fill {
        /// Target.
        storage: &'a Storage,
        /// The word.
        pattern: u32,
    },
}

/// One step of a tape.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// What it does.
    pub work: Work<'a>,
    /// Waits for all earlier steps: needed when this step reads what one wrote, or overwrites what one reads or writes.
    pub barrier_before: bool,
    /// Images of an arena whose first write of a run this step makes: their old contents are dropped, after all
    /// earlier steps.
    pub discard: &'a [&'a Storage],
}

/// How a tape is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapeOptions {
    /// Steps per command buffer. Synchronization validation sees hazards within one, so tests use `usize::MAX`.
    pub steps_per_buffer: usize,
    /// Take a timestamp after every step.
    pub timing: bool,
    /// Put barriers between the pieces of an op, which need none: for a layer that sees what is bound and not what is written.
    pub pieces_in_order: bool,
}

impl Default for TapeOptions {
    fn default() -> Self {
        Self { steps_per_buffer: 256, timing: false, pieces_in_order: false }
    }
}

impl TapeOptions {
    /// Tapes as validation wants them.
    pub fn under(validation: Validation) -> Self {
        match validation {
            Validation::Off | Validation::Core => Self::default(),
            // The layer sees hazards within one command buffer only, and takes all that a dispatch binds for written: pieces of an op
            // write parts of one storage.
            Validation::Sync => Self { steps_per_buffer: usize::MAX, pieces_in_order: true, ..Self::default() },
        }
    }
}

/// Recorded steps. Keeps alive what it uses; dropping it waits for a run in flight.
pub struct Tape {
    device: Arc<Device>,
    pool: vk::CommandPool,
    buffers: Vec<vk::CommandBuffer>,
    fence: vk::Fence,
    queries: vk::QueryPool,
    in_flight: bool,
    /// True once a run was waited for.
    ran: bool,
    steps: usize,
    descriptors: Descriptors,
    /// Images a run gives a layout to.
    discarded: Vec<Storage>,
    _storages: Vec<Storage>,
    _pipelines: Vec<Arc<Pipeline>>,
    _counted: Counted,
}

impl Tape {
    /// Checks and records the steps.
    pub fn record(gpu: &Arc<Gpu>, steps: &[Step<'_>], options: &TapeOptions) -> Result<Self> {
        let device = &gpu.device;
        for (index, step) in steps.iter().enumerate() {
            check(device, index, step)?;
        }
        let mut tape = Self {
            device: Arc::clone(device),
            pool: vk::CommandPool::null(),
            buffers: Vec::new(),
            fence: vk::Fence::null(),
            queries: vk::QueryPool::null(),
            in_flight: false,
            ran: false,
            steps: steps.len(),
            descriptors: Descriptors::new(device, steps)?,
            discarded: steps.iter().flat_map(|s| s.discard).map(|&s| s.clone()).collect(),
            _storages: steps.iter().flat_map(storages).cloned().collect(),
            _pipelines: steps.iter().filter_map(|s| pipeline(s).map(Arc::clone)).collect(),
            _counted: device.counts.tapes.add(1),
        };
        let chunk = options.steps_per_buffer.max(1);
        tape.create_objects(steps.len().div_ceil(chunk).max(1), options.timing)?;
        // An empty tape still has one command buffer, so that it submits and signals like any other.
        let empty: [&[Step<'_>]; 1] = [&[]];
        let chunks: Vec<_> = if steps.is_empty() { empty.to_vec() } else { steps.chunks(chunk).collect() };
        let last = chunks.len() - 1;
        let mut index = 0;
        for (i, chunk) in chunks.into_iter().enumerate() {
            let recorder = Recorder::begin(device, tape.buffers[i], vk::CommandBufferUsageFlags::empty())?;
            if i == 0 {
                recorder.acquire();
                tape.reset_timestamps(recorder);
            }
            for step in chunk {
                tape.record_step(gpu, recorder, index, step)?;
                index += 1;
            }
            if i == last {
                recorder.release_to_host();
            }
            recorder.end()?;
        }
        Ok(tape)
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Starts a run, after waiting for the one before.
    pub fn submit(&mut self) -> Result<()> {
        self.wait()?;
        // SAFETY: the fence is not in use: the run before was waited for.
        unsafe { self.device.raw.reset_fences(&[self.fence]) }.map_err(|r| self.device.failed("vkResetFences", r))?;
        self.device.submit(&self.buffers, self.fence)?;
        self.in_flight = true;
        for image in &self.discarded {
            image.set_defined();
        }
        Ok(())
    }

    /// Waits for the run in flight, if any.
    pub fn wait(&mut self) -> Result<()> {
        if self.in_flight {
            self.device.wait(self.fence)?;
            self.in_flight = false;
            self.ran = true;
        }
        Ok(())
    }

    /// Nanoseconds of each step of the last run, waiting included; `None` without timing or before a run.
    ///
    /// A step without a barrier before it overlaps its predecessors, and its time is only what it adds.
    pub fn step_nanoseconds(&mut self) -> Result<Option<Vec<f64>>> {
        self.wait()?;
        if self.queries == vk::QueryPool::null() || !self.ran {
            return Ok(None);
        }
        let mut stamps = vec![0_u64; self.steps + 1];
        // SAFETY: the pool has one query per stamp, and the last run has written them all.
        unsafe { self.device.raw.get_query_pool_results(self.queries, 0, &mut stamps, vk::QueryResultFlags::TYPE_64) }
            .map_err(|r| self.device.failed("vkGetQueryPoolResults", r))?;
        let adapter = &self.device.adapter;
        let mask = u64::MAX >> (64 - adapter.timestamp_bits.clamp(1, 64));
        let period = f64::from(adapter.properties.timestamp_period_ns);
        Ok(Some(stamps.windows(2).map(|w| (w[1].wrapping_sub(w[0]) & mask) as f64 * period).collect()))
    }

    fn create_objects(&mut self, buffers: usize, timing: bool) -> Result<()> {
        let device = &self.device;
        let raw = &device.raw;
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.adapter.queue_family);
        // SAFETY: the family is the one the device was made with.
        self.pool =
            unsafe { raw.create_command_pool(&info, None) }.map_err(|r| device.failed("vkCreateCommandPool", r))?;
        let info =
            vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(buffers as u32);
        // SAFETY: the pool was just made.
        self.buffers =
            unsafe { raw.allocate_command_buffers(&info) }.map_err(|r| device.failed("vkAllocateCommandBuffers", r))?;
        // SAFETY: no precondition beyond a live device.
        self.fence = unsafe { raw.create_fence(&vk::FenceCreateInfo::default(), None) }
            .map_err(|r| device.failed("vkCreateFence", r))?;
        if timing {
            if device.adapter.timestamp_bits == 0 {
                return Err(Error::invalid("timing of a tape", "the device's compute queue has no timestamps"));
            }
            let info = vk::QueryPoolCreateInfo::default()
                .query_type(vk::QueryType::TIMESTAMP)
                .query_count(self.steps as u32 + 1);
            // SAFETY: the queue family has timestamps, and the count is positive.
            self.queries =
                unsafe { raw.create_query_pool(&info, None) }.map_err(|r| device.failed("vkCreateQueryPool", r))?;
        }
        Ok(())
    }

    fn reset_timestamps(&self, recorder: Recorder<'_>) {
        if self.queries != vk::QueryPool::null() {
            let count = self.steps as u32 + 1;
            // SAFETY: recording; the pool has that many queries.
            unsafe { self.device.raw.cmd_reset_query_pool(recorder.commands, self.queries, 0, count) };
            self.timestamp(recorder, 0);
        }
    }

    fn timestamp(&self, recorder: Recorder<'_>, query: usize) {
        if self.queries != vk::QueryPool::null() {
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            // SAFETY: recording; the query was reset at the start of the tape and is written once.
            unsafe { self.device.raw.cmd_write_timestamp(recorder.commands, stage, self.queries, query as u32) };
        }
    }

    fn record_step(&mut self, gpu: &Gpu, recorder: Recorder<'_>, index: usize, step: &Step<'_>) -> Result<()> {
        if step.barrier_before {
            recorder.barrier();
        }
        recorder.discard(step.discard.iter().copied());
        match &step.work {
            Work::Dispatch { pipeline, operands, groups } => {
                let set = self.descriptors.write(gpu, pipeline, operands)?;
                recorder.dispatch(pipeline, set, *groups);
            }
            Work::Copy { from, to } => recorder.copy(from, to),
            Work::Fill { storage, pattern } => recorder.fill(storage, *pattern),
        }
        self.timestamp(recorder, index + 1);
        Ok(())
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        if let Err(e) = self.wait() {
            log::warn!("a tape was dropped in flight: {e}");
        }
        // SAFETY: no run is in flight, or the device is lost, after which objects may be destroyed; null handles are
        // ignored.
        unsafe {
            self.device.raw.destroy_query_pool(self.queries, None);
            self.device.raw.destroy_fence(self.fence, None);
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}

fn pipeline<'a>(step: &Step<'a>) -> Option<&'a Arc<Pipeline>> {
    match step.work {
        Work::Dispatch { pipeline, .. } => Some(pipeline),
        Work::Copy { .. } | Work::Fill { .. } => None,
    }
}

fn storages<'a>(step: &'a Step<'a>) -> impl Iterator<Item = &'a Storage> {
    let (operands, pair): (&[Operand<'a>], [Option<&Storage>; 2]) = match &step.work {
        Work::Dispatch { operands, .. } => (operands, [None, None]),
        Work::Copy { from, to } => (&[], [Some(from), Some(to)]),
        Work::Fill { storage, .. } => (&[], [Some(storage), None]),
    };
    operands.iter().map(|o| o.storage).chain(pair.into_iter().flatten()).chain(step.discard.iter().copied())
}

/// Checks all that recording takes for granted.
fn check(device: &Arc<Device>, index: usize, step: &Step<'_>) -> Result<()> {
    for storage in storages(step) {
        storage.check_device(device)?;
    }
    for storage in step.discard {
        if storage.kind() != StorageKind::Image {
            return Err(Error::invalid(
                format!("step {index} discards a {}", storage.describe()),
                "only images are discarded",
            ));
        }
    }
    match &step.work {
        Work::Dispatch { pipeline, groups, .. } => {
            if !pipeline.is_of(device) {
                return Err(Error::invalid(
                    format!("step {index}: {}", pipeline.name()),
                    "its pipeline is of another device",
                ));
            }
            for (axis, (count, limit)) in groups.iter().zip(device.limits.max_workgroup_count).enumerate() {
                let what = || format!("workgroup count {axis} of step {index} ({})", pipeline.name());
                within(what, u64::from(*count), limit.into())?;
            }
            Ok(())
        }
        Work::Copy { from, to } => check_copy(from, to),
        Work::Fill { .. } => Ok(()),
    }
}
