//! What goes into command buffers, shared by transfers and tapes: barriers, copies, fills.
//!
//! Barriers are global: an arena's storages overlap, and a hazard between two of them is not one between two handles.

use ash::vk;

use super::device::Device;
use super::error::{Error, Result};
use super::pipeline::Pipeline;
use super::storage::{Object, Storage, TEXEL_BYTES, WHOLE};

/// A command buffer in the recording state, with the device it belongs to.
#[derive(Clone, Copy)]
pub(super) struct Recorder<'a> {
    pub device: &'a Device,
    pub commands: vk::CommandBuffer,
}

/// A run of texels of a storage: part of one row or whole rows, unless it is a buffer, where any run is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// First texel, counted row by row.
    pub first: u64,
    pub texels: u64,
}

const WORK: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const WRITES: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw());
const ANY: vk::AccessFlags = vk::AccessFlags::from_raw(
    WRITES.as_raw() | vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw(),
);

const LAYER: vk::ImageSubresourceLayers = vk::ImageSubresourceLayers {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    mip_level: 0,
    base_array_layer: 0,
    layer_count: 1,
};

impl<'a> Recorder<'a> {
    /// Puts the command buffer, reset and of this device, into the recording state.
    pub fn begin(device: &'a Device, commands: vk::CommandBuffer, usage: vk::CommandBufferUsageFlags) -> Result<Self> {
        let info = vk::CommandBufferBeginInfo::default().flags(usage);
        // SAFETY: the callers pass command buffers in the initial state, from a pool only they use.
        unsafe { device.raw.begin_command_buffer(commands, &info) }
            .map_err(|r| device.failed("vkBeginCommandBuffer", r))?;
        Ok(Self { device, commands })
    }

    pub fn end(self) -> Result<()> {
        // SAFETY: the command buffer is recording, see `begin`.
        unsafe { self.device.raw.end_command_buffer(self.commands) }
            .map_err(|r| self.device.failed("vkEndCommandBuffer", r))
    }

    /// What follows sees what earlier submissions wrote.
    pub fn acquire(self) {
        self.memory_barrier(vk::PipelineStageFlags::ALL_COMMANDS, vk::AccessFlags::MEMORY_WRITE, WORK, ANY);
    }

    /// The host, once the fence signalled, sees what came before.
    pub fn release_to_host(self) {
        self.memory_barrier(WORK, WRITES, vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);
    }

    /// What follows sees what came before in this tape, and overwrites nothing that is still read.
    pub fn barrier(self) {
        self.memory_barrier(WORK, WRITES, WORK, ANY);
    }

    /// Runs a pipeline with a set of its layout.
    pub fn dispatch(self, pipeline: &Pipeline, set: vk::DescriptorSet, [x, y, z]: [u32; 3]) {
        let raw = &self.device.raw;
        let bind_point = vk::PipelineBindPoint::COMPUTE;
        // SAFETY: recording; pipeline, layout and set belong together, what the set names lives until the work is done,
        // and the callers keep to the device's workgroup counts.
        unsafe {
            raw.cmd_bind_pipeline(self.commands, bind_point, pipeline.raw());
            raw.cmd_bind_descriptor_sets(self.commands, bind_point, pipeline.layout(), 0, &[set], &[]);
            raw.cmd_dispatch(self.commands, x, y, z);
        }
    }

    fn memory_barrier(
        self,
        from: vk::PipelineStageFlags,
        wrote: vk::AccessFlags,
        to: vk::PipelineStageFlags,
        accesses: vk::AccessFlags,
    ) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(wrote).dst_access_mask(accesses)];
        // SAFETY: recording, see `begin`; the stages and accesses fit a compute queue.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(
                self.commands,
                from,
                to,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
        }
    }

    /// Forgets what the images hold and readies them for a first write, after everything before.
    pub fn discard<'s>(self, images: impl Iterator<Item = &'s Storage>) {
        let barriers: Vec<_> = images
            .filter_map(|storage| match &storage.0.object {
                Object::Image(image) => Some(image.raw),
                Object::Buffer { .. } => None,
            })
            .map(|raw| {
                vk::ImageMemoryBarrier::default()
                    .src_access_mask(WRITES)
                    .dst_access_mask(ANY)
                    .old_layout(vk::ImageLayout::UNDEFINED)
                    .new_layout(vk::ImageLayout::GENERAL)
                    .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
                    .image(raw)
                    .subresource_range(WHOLE)
            })
            .collect();
        if barriers.is_empty() {
            return;
        }
        // The memory barrier covers the storages whose bytes these images share.
        let memory = [vk::MemoryBarrier::default().src_access_mask(WRITES).dst_access_mask(ANY)];
        // SAFETY: recording, see `begin`; the images are alive and of this device.
        unsafe {
            self.device.raw.cmd_pipeline_barrier(
                self.commands,
                WORK,
                WORK,
                vk::DependencyFlags::empty(),
                &memory,
                &[],
                &barriers,
            );
        }
    }

    /// Sets every word to `pattern`.
    pub fn fill(self, storage: &Storage, pattern: u32) {
        let raw = &self.device.raw;
        match &storage.0.object {
            // SAFETY: recording; offset and size are multiples of 16 within the buffer.
            Object::Buffer { raw: buffer, offset } => unsafe {
                raw.cmd_fill_buffer(self.commands, buffer.raw, *offset, storage.bytes(), pattern);
            },
            Object::Image(image) => {
                let color = vk::ClearColorValue { uint32: [pattern; 4] };
                // SAFETY: recording; the image is in GENERAL and has transfer usage.
                unsafe {
                    raw.cmd_clear_color_image(self.commands, image.raw, vk::ImageLayout::GENERAL, &color, &[WHOLE]);
                }
            }
        }
    }

    /// Copies all texels of `from` to `to`.
    pub fn copy(self, from: &Storage, to: &Storage) {
        let whole = Run { first: 0, texels: from.texels() };
        let raw = &self.device.raw;
        match (&from.0.object, &to.0.object) {
            (Object::Buffer { raw: buffer, offset }, _) => self.copy_in(buffer.raw, *offset, to, whole),
            (_, Object::Buffer { raw: buffer, offset }) => self.copy_out(from, whole, buffer.raw, *offset),
            (Object::Image(source), Object::Image(target)) => {
                let (_, extent) = run_box(from, whole);
                let region = [vk::ImageCopy::default().src_subresource(LAYER).dst_subresource(LAYER).extent(extent)];
                let general = vk::ImageLayout::GENERAL;
                // SAFETY: recording; both images have this extent, are in GENERAL and have transfer usage.
                unsafe { raw.cmd_copy_image(self.commands, source.raw, general, target.raw, general, &region) };
            }
        }
    }

    /// Copies texels from a plain buffer into a run of a storage.
    pub fn copy_in(self, source: vk::Buffer, source_offset: u64, storage: &Storage, run: Run) {
        let raw = &self.device.raw;
        match &storage.0.object {
            Object::Buffer { raw: buffer, offset } => {
                let region = [vk::BufferCopy::default()
                    .src_offset(source_offset)
                    .dst_offset(offset + run.first * TEXEL_BYTES)
                    .size(run.texels * TEXEL_BYTES)];
                // SAFETY: recording; both ranges are within their buffers and do not overlap.
                unsafe { raw.cmd_copy_buffer(self.commands, source, buffer.raw, &region) };
            }
            Object::Image(image) => {
                let region = [image_copy(source_offset, storage, run)];
                // SAFETY: recording; the box is within the image, which is in GENERAL; the range is within the buffer.
                unsafe {
                    raw.cmd_copy_buffer_to_image(self.commands, source, image.raw, vk::ImageLayout::GENERAL, &region);
                }
            }
        }
    }

    /// Copies a run of a storage into a plain buffer.
    pub fn copy_out(self, storage: &Storage, run: Run, target: vk::Buffer, target_offset: u64) {
        let raw = &self.device.raw;
        match &storage.0.object {
            Object::Buffer { raw: buffer, offset } => {
                let region = [vk::BufferCopy::default()
                    .src_offset(offset + run.first * TEXEL_BYTES)
                    .dst_offset(target_offset)
                    .size(run.texels * TEXEL_BYTES)];
                // SAFETY: as in `copy_in`.
                unsafe { raw.cmd_copy_buffer(self.commands, buffer.raw, target, &region) };
            }
            Object::Image(image) => {
                let region = [image_copy(target_offset, storage, run)];
                // SAFETY: as in `copy_in`.
                unsafe {
                    raw.cmd_copy_image_to_buffer(self.commands, image.raw, vk::ImageLayout::GENERAL, target, &region);
                }
            }
        }
    }
}

/// Position and extent of a run in an image.
fn run_box(storage: &Storage, run: Run) -> (vk::Offset3D, vk::Extent3D) {
    let width = u64::from(storage.width());
    let (x, y) = (run.first % width, run.first / width);
    let (w, h) = if run.texels < width { (run.texels, 1) } else { (width, run.texels / width) };
    debug_assert!(x + w <= width && y + h <= u64::from(storage.height()) && w * h == run.texels);
    (vk::Offset3D { x: x as i32, y: y as i32, z: 0 }, vk::Extent3D { width: w as u32, height: h as u32, depth: 1 })
}

fn image_copy(buffer_offset: u64, storage: &Storage, run: Run) -> vk::BufferImageCopy {
    let (offset, extent) = run_box(storage, run);
    vk::BufferImageCopy::default()
        .buffer_offset(buffer_offset)
        .image_subresource(LAYER)
        .image_offset(offset)
        .image_extent(extent)
}

/// Fails unless all texels of `from` can be copied to `to`.
pub(super) fn check_copy(from: &Storage, to: &Storage) -> Result<()> {
    if from.same(to) || (from.width(), from.height()) != (to.width(), to.height()) {
        let what = format!("copy of a {} to a {}", from.describe(), to.describe());
        return Err(Error::invalid(what, "source and target are two storages of one extent"));
    }
    Ok(())
}
