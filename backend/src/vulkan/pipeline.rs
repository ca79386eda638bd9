//! Compute pipelines: one per shader and set of specialization constants, kept in a bounded cache.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use ash::vk;
use fblayout_shaders::{Binding, BindingKind, Shader};

use super::census::Counted;
use super::device::{Device, lock};
use super::error::{Error, Result, within};

/// A compiled compute pipeline.
pub struct Pipeline {
    device: Arc<Device>,
    name: String,
    bindings: Vec<Binding>,
    set_layout: vk::DescriptorSetLayout,
    layout: vk::PipelineLayout,
    raw: vk::Pipeline,
    _counted: Counted,
}

impl Pipeline {
    /// Name of the shader.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn bindings(&self) -> &[Binding] {
        &self.bindings
    }

    pub(super) fn set_layout(&self) -> vk::DescriptorSetLayout {
        self.set_layout
    }

    pub(super) fn layout(&self) -> vk::PipelineLayout {
        self.layout
    }

    pub(super) fn raw(&self) -> vk::Pipeline {
        self.raw
    }

    pub(super) fn is_of(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    fn new(device: &Arc<Device>, cache: vk::PipelineCache, shader: &Shader, constants: &[(u32, u32)]) -> Result<Self> {
        check(device, shader, constants)?;
        let mut pipeline = Self {
            device: Arc::clone(device),
            name: shader.name.to_owned(),
            bindings: shader.bindings.to_vec(),
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            raw: vk::Pipeline::null(),
            _counted: device.counts.pipelines.add(1),
        };
        let raw = &device.raw;
        let bindings: Vec<_> = shader
            .bindings
            .iter()
            .map(|b| {
                vk::DescriptorSetLayoutBinding::default()
                    .binding(b.binding)
                    .descriptor_type(descriptor_type(b.kind))
                    .descriptor_count(1)
                    .stage_flags(vk::ShaderStageFlags::COMPUTE)
            })
            .collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: distinct bindings within the device's limits, see `check`.
        pipeline.set_layout = unsafe { raw.create_descriptor_set_layout(&info, None) }
            .map_err(|r| device.failed("vkCreateDescriptorSetLayout", r))?;
        let sets = [pipeline.set_layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: the set layout is alive.
        pipeline.layout = unsafe { raw.create_pipeline_layout(&info, None) }
            .map_err(|r| device.failed("vkCreatePipelineLayout", r))?;

        let info = vk::ShaderModuleCreateInfo::default().code(shader.spirv);
        // SAFETY: the words are valid SPIR-V by the contract of `ShaderCode`.
        let module =
            unsafe { raw.create_shader_module(&info, None) }.map_err(|r| device.failed("vkCreateShaderModule", r))?;
        let built = build(device, cache, module, pipeline.layout, constants);
        // SAFETY: a module may go once its pipeline is built.
        unsafe { raw.destroy_shader_module(module, None) };
        pipeline.raw = built.map_err(|result| match result {
            vk::Result::ERROR_DEVICE_LOST => device.failed("vkCreateComputePipelines", result),
            _ => Error::Pipeline {
                shader: shader.name.to_owned(),
                reason: format!("the driver refused it with constants {constants:?}: {result:?}"),
            },
        })?;
        Ok(pipeline)
    }
}

impl std::fmt::Debug for Pipeline {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Pipeline({})", self.name)
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let raw = &self.device.raw;
        // SAFETY: tapes keep their pipelines until their work is done; destroying null handles does nothing.
        unsafe {
            raw.destroy_pipeline(self.raw, None);
            raw.destroy_pipeline_layout(self.layout, None);
            raw.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

fn build(
    device: &Device,
    cache: vk::PipelineCache,
    module: vk::ShaderModule,
    layout: vk::PipelineLayout,
    constants: &[(u32, u32)],
) -> std::result::Result<vk::Pipeline, vk::Result> {
    let entries: Vec<_> = constants
        .iter()
        .enumerate()
        .map(|(i, (id, _))| vk::SpecializationMapEntry { constant_id: *id, offset: 4 * i as u32, size: 4 })
        .collect();
    let data: Vec<u32> = constants.iter().map(|(_, bits)| *bits).collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(&data));
    let stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
    // SAFETY: all handles are alive, the entries lie within the data, ids are distinct.
    unsafe { device.raw.create_compute_pipelines(cache, &info, None) }
        .map(|pipelines| pipelines[0])
        .map_err(|(_, result)| result)
}

pub(super) fn descriptor_type(kind: BindingKind) -> vk::DescriptorType {
    match kind {
        BindingKind::Buffer => vk::DescriptorType::STORAGE_BUFFER,
        BindingKind::Image => vk::DescriptorType::STORAGE_IMAGE,
    }
}

/// Checks what a driver would not: the module's head, the bindings, and the limits, which may be clamped below the
/// driver's.
fn check(device: &Device, shader: &Shader, constants: &[(u32, u32)]) -> Result<()> {
    const MAGIC: u32 = 0x0723_0203;
    let fail = |reason: String| Error::Pipeline { shader: shader.name.to_owned(), reason };
    if shader.spirv.len() < 5 || shader.spirv[0] != MAGIC {
        return Err(fail("its words are no SPIR-V module".to_owned()));
    }
    for (i, b) in shader.bindings.iter().enumerate() {
        if shader.bindings[..i].iter().any(|other| other.binding == b.binding) {
            return Err(fail(format!("binding {} is declared twice", b.binding)));
        }
        let by_number = if b.binding % 2 == 0 { BindingKind::Buffer } else { BindingKind::Image };
        if b.kind != by_number {
            return Err(fail(format!(
                "binding {} is a {:?}, but even bindings are buffers, odd images",
                b.binding, b.kind
            )));
        }
    }
    let limits = &device.limits;
    for kind in [BindingKind::Buffer, BindingKind::Image] {
        let count = shader.bindings.iter().filter(|b| b.kind == kind).count() as u64;
        within(|| format!("{kind:?} bindings of shader {}", shader.name), count, limits.max_storage_bindings.into())?;
    }
    // Ids 0, 1, 2 are the workgroup's size in every shader of ours.
    let mut invocations = 1;
    for (axis, limit) in limits.max_workgroup_size.into_iter().enumerate() {
        if let Some((_, size)) = constants.iter().find(|(id, _)| *id == axis as u32) {
            within(|| format!("workgroup size {axis} of shader {}", shader.name), u64::from(*size), limit.into())?;
            invocations *= u64::from(*size);
        }
    }
    within(
        || format!("invocations of a workgroup of shader {}", shader.name),
        invocations,
        limits.max_workgroup_invocations.into(),
    )
}

/// What a driver keeps of the pipelines that it built.
struct DriverCache {
    device: Arc<Device>,
    raw: vk::PipelineCache,
}

impl DriverCache {
    fn new(device: &Arc<Device>) -> Result<Self> {
        // SAFETY: an empty cache has no precondition beyond a live device.
        let raw = unsafe { device.raw.create_pipeline_cache(&vk::PipelineCacheCreateInfo::default(), None) }
            .map_err(|r| device.failed("vkCreatePipelineCache", r))?;
        Ok(Self { device: Arc::clone(device), raw })
    }
}

impl Drop for DriverCache {
    fn drop(&mut self) {
        // SAFETY: pipelines do not need the cache they were built with, and builds hold it in an `Arc`.
        unsafe { self.device.raw.destroy_pipeline_cache(self.raw, None) };
    }
}

/// The driver's cache in use. No driver has to forget, so a new one takes over now and then.
struct Driver {
    cache: Arc<DriverCache>,
    /// Pipelines that were built with it.
    builds: usize,
}

/// Pipelines by shader and constants; beyond `max` the least recently used goes.
pub(super) struct Pipelines {
    device: Arc<Device>,
    driver: Mutex<Driver>,
    max: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_key: HashMap<Key, (Arc<Pipeline>, u64)>,
    /// Counts uses; the smallest stamp is the oldest.
    clock: u64,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    shader: String,
    code: u64,
    constants: Vec<(u32, u32)>,
}

impl Pipelines {
    pub fn new(device: &Arc<Device>, max: usize) -> Result<Self> {
        let driver = Mutex::new(Driver { cache: Arc::new(DriverCache::new(device)?), builds: 0 });
        Ok(Self { device: Arc::clone(device), driver, max: max.max(1), kept: Mutex::default() })
    }

    /// The driver's cache for one more build: a fresh one once as many were built with it as may be kept.
    fn driver_cache(&self) -> Result<Arc<DriverCache>> {
        let mut driver = lock(&self.driver);
        if driver.builds >= self.max {
            *driver = Driver { cache: Arc::new(DriverCache::new(&self.device)?), builds: 0 };
        }
        driver.builds += 1;
        Ok(Arc::clone(&driver.cache))
    }

    pub fn len(&self) -> usize {
        lock(&self.kept).by_key.len()
    }

    pub fn get(&self, shader: &Shader, constants: &[(u32, u32)]) -> Result<Arc<Pipeline>> {
        let key = Key::new(shader, constants)?;
        if let Some(found) = lock(&self.kept).touch(&key) {
            return Ok(found);
        }
        // Built without the lock: drivers compile in parallel, and the first of two equal builds stays.
        let cache = self.driver_cache()?;
        let built = Arc::new(Pipeline::new(&self.device, cache.raw, shader, &key.constants)?);
        let mut kept = lock(&self.kept);
        if let Some(found) = kept.touch(&key) {
            return Ok(found);
        }
        while kept.by_key.len() >= self.max {
            kept.evict_oldest();
        }
        kept.clock += 1;
        let stamp = kept.clock;
        kept.by_key.insert(key, (Arc::clone(&built), stamp));
        Ok(built)
    }
}

impl Kept {
    fn touch(&mut self, key: &Key) -> Option<Arc<Pipeline>> {
        self.clock += 1;
        let (pipeline, stamp) = self.by_key.get_mut(key)?;
        *stamp = self.clock;
        Some(Arc::clone(pipeline))
    }

    fn evict_oldest(&mut self) {
        let oldest = self.by_key.iter().min_by_key(|(_, (_, stamp))| *stamp).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.by_key.remove(&key);
        }
    }
}

impl Key {
    /// The constants the shader has, in order of id.
    fn new(shader: &Shader, constants: &[(u32, u32)]) -> Result<Self> {
        let mut constants: Vec<_> = constants.iter().copied().filter(|(id, _)| shader.constants.contains(id)).collect();
        constants.sort_unstable();
        if let Some(pair) = constants.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let reason = format!("specialization constant {} is given twice", pair[0].0);
            return Err(Error::Pipeline { shader: shader.name.to_owned(), reason });
        }
        let mut code = DefaultHasher::new();
        shader.spirv.hash(&mut code);
        Ok(Self { shader: shader.name.to_owned(), code: code.finish(), constants })
    }
}
