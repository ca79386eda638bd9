//! Compute pipelines: one per shader and set of specialization constants, kept in a bounded cache.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, available_parallelism};

use ash::vk;
use fblayout_shaders::{Binding, BindingKind, Shader};

use crate::device::ByteDots;

use super::census::Counted;
use super::device::{Device, lock};
use super::driver_cache::DriverCaches;
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
        let code = check(device, shader, constants)?;
        let subgroup = if shader.matrix { Some(matrix_subgroup(device, shader, constants)?) } else { None };
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

        let info = vk::ShaderModuleCreateInfo::default().code(code);
        // SAFETY: the words are valid SPIR-V by the contract of `ShaderCode`.
        let module =
            unsafe { raw.create_shader_module(&info, None) }.map_err(|r| device.failed("vkCreateShaderModule", r))?;
        let built = build(device, cache, module, pipeline.layout, constants, subgroup);
        // SAFETY: a module may go once its pipeline is built.
        unsafe { raw.destroy_shader_module(module, None) };
        pipeline.raw = built.map_err(|result| match result {
            vk::Result::ERROR_INVALID_SHADER_NV | vk::Result::ERROR_UNKNOWN => Error::Pipeline {
                shader: shader.name.to_owned(),
                reason: format!("the driver refused it with constants {constants:?}: {result:?}"),
            },
            _ => device.failed("vkCreateComputePipelines", result),
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
    subgroup: Option<u32>,
) -> std::result::Result<vk::Pipeline, vk::Result> {
    let entries: Vec<_> = constants
        .iter()
        .enumerate()
        .map(|(i, (id, _))| vk::SpecializationMapEntry { constant_id: *id, offset: 4 * i as u32, size: 4 })
        .collect();
    let data: Vec<u32> = constants.iter().map(|(_, bits)| *bits).collect();
    let specialization = vk::SpecializationInfo::default().map_entries(&entries).data(bytemuck::cast_slice(&data));
    let mut size = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default();
    let mut stage = vk::PipelineShaderStageCreateInfo::default()
        .stage(vk::ShaderStageFlags::COMPUTE)
        .module(module)
        .name(c"main")
        .specialization_info(&specialization);
    if let Some(subgroup) = subgroup {
        size = size.required_subgroup_size(subgroup);
        stage = stage.flags(vk::PipelineShaderStageCreateFlags::REQUIRE_FULL_SUBGROUPS).push_next(&mut size);
    }
    let info = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
    // SAFETY: all handles are alive, the entries lie within the data, ids are distinct; the device requires subgroups of that size.
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
/// driver's. Gives the module's words.
fn check(device: &Device, shader: &Shader, constants: &[(u32, u32)]) -> Result<&'static [u32]> {
    const MAGIC: u32 = 0x0723_0203;
    let fail = |reason: String| Error::Pipeline { shader: shader.name.to_owned(), reason };
    let code = shader.spirv.words().map_err(|e| fail(format!("its words do not unpack: {e}")))?;
    if code.len() < 5 || code[0] != MAGIC {
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
    if shader.dots && limits.byte_dots == ByteDots::None {
        return Err(fail("it multiplies packed bytes, and the device's limits name no such products".to_owned()));
    }
    if shader.matrix_sums && !limits.matrix_sums {
        return Err(fail("its matrix units take sums, and the device's limits name none that do".to_owned()));
    }
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
    )?;
    Ok(code)
}

/// Invocations of the subgroups of a shader's pipeline that computes with matrix units; an error where the device has none or a
/// workgroup of that size is not made of such subgroups.
fn matrix_subgroup(device: &Device, shader: &Shader, constants: &[(u32, u32)]) -> Result<u32> {
    let fail = |reason: String| Error::Pipeline { shader: shader.name.to_owned(), reason };
    let Some(unit) = device.limits.matrix_units.first() else {
        return Err(fail("it computes with matrix units, and the device's limits name none".to_owned()));
    };
    let size = |axis: u32| constants.iter().find(|(id, _)| *id == axis).map_or(1, |(_, size)| *size);
    let [width, height, depth] = [0, 1, 2].map(size);
    if width == 0 || width % unit.subgroup != 0 {
        let reason =
            format!("its workgroups are {width} invocations wide, but subgroups of {} are full", unit.subgroup);
        return Err(fail(reason));
    }
    let invocations = [width, height, depth].into_iter().map(u64::from).product();
    let what = || format!("invocations of a workgroup of full subgroups of shader {}", shader.name);
    within(what, invocations, unit.max_invocations.into())?;
    Ok(unit.subgroup)
}

/// Pipelines by shader and constants; beyond `max` the least recently used goes.
pub(super) struct Pipelines {
    device: Arc<Device>,
    driver: DriverCaches,
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
    /// At most `max` pipelines; what the driver keeps of them is in a file too.
    pub fn new(device: &Arc<Device>, max: usize, file: Option<PathBuf>) -> Result<Self> {
        let max = max.max(1);
        let driver = DriverCaches::new(device, max, file)?;
        Ok(Self { device: Arc::clone(device), driver, max, kept: Mutex::default() })
    }

    pub fn len(&self) -> usize {
        lock(&self.kept).by_key.len()
    }

    /// The pipeline of every shader with its constants. Those that are not kept are built on all cores.
    pub fn get_all(&self, wanted: &[(&Shader, &[(u32, u32)])]) -> Result<Vec<Arc<Pipeline>>> {
        let keys = wanted.iter().map(|(shader, constants)| Key::new(shader, constants)).collect::<Result<Vec<_>>>()?;
        let mut found: HashMap<&Key, Arc<Pipeline>> = HashMap::new();
        let mut missing: Vec<(&Key, &Shader)> = Vec::new();
        let mut seen = HashSet::new();
        {
            let mut kept = lock(&self.kept);
            for (key, (shader, _)) in keys.iter().zip(wanted).filter(|(key, _)| seen.insert(*key)) {
                match kept.touch(key) {
                    Some(pipeline) => drop(found.insert(key, pipeline)),
                    None => missing.push((key, shader)),
                }
            }
        }
        // Built without the lock: of two equal builds the first stays.
        let built = self.build_all(&missing)?;
        if !built.is_empty() {
            let mut kept = lock(&self.kept);
            let placed = missing.iter().zip(built).map(|((key, _), built)| (*key, kept.place(key, built, self.max)));
            found.extend(placed);
            drop(kept);
            self.driver.save_if_grown();
        }
        Ok(keys.iter().map(|key| Arc::clone(&found[key])).collect())
    }

    fn build_all(&self, missing: &[(&Key, &Shader)]) -> Result<Vec<Arc<Pipeline>>> {
        let build = |(key, shader): &(&Key, &Shader)| {
            let cache = self.driver.for_build()?;
            Pipeline::new(&self.device, cache.raw, shader, &key.constants).map(Arc::new)
        };
        let next = AtomicUsize::new(0);
        let worker = || {
            let mine = std::iter::from_fn(|| {
                let i = next.fetch_add(1, Ordering::Relaxed);
                missing.get(i).map(|one| (i, build(one)))
            });
            mine.collect::<Vec<_>>()
        };
        let threads = available_parallelism().map_or(1, NonZero::get).min(missing.len());
        let mut built = thread::scope(|scope| {
            // A thread that cannot be had leaves its share to the others.
            let others: Vec<_> =
                (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, worker).ok()).collect();
            let mut built = worker();
            for other in others {
                built.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            built
        });
        built.sort_by_key(|(i, _)| *i);
        built.into_iter().map(|(_, pipeline)| pipeline).collect()
    }
}

impl Kept {
    fn touch(&mut self, key: &Key) -> Option<Arc<Pipeline>> {
        self.clock += 1;
        let (pipeline, stamp) = self.by_key.get_mut(key)?;
        *stamp = self.clock;
        Some(Arc::clone(pipeline))
    }

    /// Keeps a pipeline, unless one with its key is kept already, and gives the one that is.
    fn place(&mut self, key: &Key, built: Arc<Pipeline>, max: usize) -> Arc<Pipeline> {
        if let Some(found) = self.touch(key) {
            return found;
        }
        while self.by_key.len() >= max {
            self.evict_oldest();
        }
        self.by_key.insert(key.clone(), (Arc::clone(&built), self.clock));
        built
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
