//! Descriptor sets of a tape: one per dispatch, from one pool that goes with the tape.

use std::sync::Arc;

use ash::vk;

use crate::kernels::StorageKind;

use super::census::Counted;
use super::device::Device;
use super::error::{Error, Result, within};
use super::gpu::Gpu;
use fblayout_shaders::{Binding, BindingKind};

use super::pipeline::{Pipeline, descriptor_type};
use super::storage::{Object, Storage, TEXEL_BYTES};
use super::tape::{Operand, Step, Work};

pub(super) struct Descriptors {
    device: Arc<Device>,
    pool: vk::DescriptorPool,
    _counted: Counted,
}

/// What a binding gets.
enum Target {
    Buffer(vk::DescriptorBufferInfo),
    Image(vk::DescriptorImageInfo),
}

impl Descriptors {
    /// A pool large enough for the dispatches of `steps`.
    pub fn new(device: &Arc<Device>, steps: &[Step<'_>]) -> Result<Self> {
        Self::of(device, || {
            steps.iter().filter_map(|s| match &s.work {
                Work::Dispatch { pipeline, .. } => Some(pipeline.as_ref()),
                Work::Copy { .. } | Work::Fill { .. } => None,
            })
        })
    }

    /// A pool large enough for dispatches of these pipelines.
    pub fn of<'a, I: Iterator<Item = &'a Pipeline>>(device: &Arc<Device>, dispatches: impl Fn() -> I) -> Result<Self> {
        let count = |kind| dispatches().flat_map(|p| p.bindings()).filter(|b| b.kind == kind).count() as u32;
        let sizes: Vec<_> = [BindingKind::Buffer, BindingKind::Image]
            .into_iter()
            .map(|kind| vk::DescriptorPoolSize { ty: descriptor_type(kind), descriptor_count: count(kind) })
            .filter(|size| size.descriptor_count > 0)
            .collect();
        // A pool holds at least one set.
        let sets = dispatches().count().max(1) as u32;
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: all counts are positive.
        let pool = unsafe { device.raw.create_descriptor_pool(&info, None) }
            .map_err(|r| device.failed("vkCreateDescriptorPool", r))?;
        let _counted = device.counts.descriptor_sets.add(dispatches().count());
        Ok(Self { device: Arc::clone(device), pool, _counted })
    }

    /// A new set with the operands of one dispatch.
    pub fn write(&mut self, gpu: &Gpu, pipeline: &Pipeline, operands: &[Operand<'_>]) -> Result<vk::DescriptorSet> {
        check_slots(pipeline, operands)?;
        let targets = self.targets(gpu, pipeline, operands)?;
        let layouts = [pipeline.set_layout()];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(self.pool).set_layouts(&layouts);
        // SAFETY: the pool was sized for every dispatch of the tape, and `self` is borrowed mutably.
        let set = unsafe { self.device.raw.allocate_descriptor_sets(&info) }
            .map_err(|r| self.device.failed("vkAllocateDescriptorSets", r))?[0];
        let writes: Vec<_> = pipeline
            .bindings()
            .iter()
            .zip(&targets)
            .map(|(binding, target)| {
                let write = vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(binding.binding)
                    .descriptor_type(descriptor_type(binding.kind));
                match target {
                    Target::Buffer(info) => write.buffer_info(std::slice::from_ref(info)),
                    Target::Image(info) => write.image_info(std::slice::from_ref(info)),
                }
            })
            .collect();
        // SAFETY: the set is new, the bindings are those of its layout, and the tape keeps the resources alive.
        unsafe { self.device.raw.update_descriptor_sets(&writes, &[]) };
        Ok(set)
    }

    fn targets(&self, gpu: &Gpu, pipeline: &Pipeline, operands: &[Operand<'_>]) -> Result<Vec<Target>> {
        let limits = &self.device.limits;
        let mut bound = 0;
        let mut targets = Vec::with_capacity(pipeline.bindings().len());
        for binding in pipeline.bindings() {
            let operand = operands.iter().find(|o| o.slot == binding.binding / 2);
            targets.push(match operand.map(|o| (&o.storage.0.object, o)) {
                Some((Object::Buffer { raw, offset }, operand)) if binding.kind == BindingKind::Buffer => {
                    let (first, range) = window(pipeline, operand, limits.storage_buffer_alignment)?;
                    let what = || format!("bytes bound as operand {} of {}", operand.slot, pipeline.name());
                    within(what, range, limits.max_storage_buffer_range)?;
                    bound += range;
                    Target::Buffer(vk::DescriptorBufferInfo { buffer: raw.raw, offset: offset + first, range })
                }
                Some((Object::Image(_), operand)) if binding.kind == BindingKind::Image => {
                    if operand.rows.is_some() {
                        let what = format!("operand {} of {}", operand.slot, pipeline.name());
                        return Err(Error::invalid(what, "rows are bound of buffers only"));
                    }
                    whole(operand.storage)
                }
                _ => match binding.kind {
                    BindingKind::Buffer => whole(&gpu.dummies().buffer),
                    BindingKind::Image => whole(&gpu.dummies().image),
                },
            });
        }
        within(|| format!("bytes of all buffers bound by {}", pipeline.name()), bound, limits.max_bound_bytes)?;
        Ok(targets)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        // SAFETY: the tape, or the lane, waited for the last run before it drops this.
        unsafe { self.device.raw.destroy_descriptor_pool(self.pool, None) };
    }
}

fn whole(storage: &Storage) -> Target {
    match &storage.0.object {
        Object::Buffer { raw, offset } => {
            Target::Buffer(vk::DescriptorBufferInfo { buffer: raw.raw, offset: *offset, range: storage.bytes() })
        }
        Object::Image(image) => Target::Image(vk::DescriptorImageInfo {
            sampler: vk::Sampler::null(),
            image_view: image.view,
            image_layout: vk::ImageLayout::GENERAL,
        }),
    }
}

/// First byte and number of bytes an operand binds of its buffer.
fn window(pipeline: &Pipeline, operand: &Operand<'_>, alignment: u64) -> Result<(u64, u64)> {
    let storage = operand.storage;
    let Some(rows) = &operand.rows else { return Ok((0, storage.bytes())) };
    let what =
        || format!("rows {rows:?} of a {} as operand {} of {}", storage.describe(), operand.slot, pipeline.name());
    if rows.is_empty() || rows.end > storage.height() {
        return Err(Error::invalid(what(), "bound rows are some of the storage's"));
    }
    let row_bytes = u64::from(storage.width()) * TEXEL_BYTES;
    let first = u64::from(rows.start) * row_bytes;
    if !first.is_multiple_of(alignment) {
        return Err(Error::invalid(what(), format!("the first byte, {first}, is a multiple of {alignment}")));
    }
    Ok((first, u64::from(rows.end - rows.start) * row_bytes))
}

/// Every operand is bound once, in a slot that takes its kind of storage.
fn check_slots(pipeline: &Pipeline, operands: &[Operand<'_>]) -> Result<()> {
    for (i, operand) in operands.iter().enumerate() {
        let what = || format!("operand {} of {}", operand.slot, pipeline.name());
        if operands[..i].iter().any(|o| o.slot == operand.slot) {
            return Err(Error::invalid(what(), "an operand is bound once"));
        }
        let wanted = match operand.storage.kind() {
            StorageKind::Buffer => Binding { binding: 2 * operand.slot, kind: BindingKind::Buffer },
            StorageKind::Image => Binding { binding: 2 * operand.slot + 1, kind: BindingKind::Image },
        };
        if !pipeline.bindings().contains(&wanted) {
            return Err(Error::invalid(
                what(),
                format!("the shader has no binding for a {}", operand.storage.describe()),
            ));
        }
    }
    Ok(())
}
