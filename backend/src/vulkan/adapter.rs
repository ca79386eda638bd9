//! The Vulkan devices of this machine and what they say of themselves.

use std::ffi::CStr;
use std::path::{Path, PathBuf};

use ash::{ext, khr, vk};

use crate::device::{Limits, Products};

use super::dots;
use super::error::{Error, Result};
use super::instance::{API_VERSION, Instance, version_text};
use super::matrix;
use super::options::Validation;

/// Kind of a device, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AdapterKind {
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU seen through a hypervisor.
    Virtual,
    /// A software driver on the CPU.
    Cpu,
    /// Something else.
    Other,
}

/// One Vulkan device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Place in the list of [`adapters`]; what [`super::Gpu::open`] takes.
    pub index: usize,
    /// The device's name.
    pub name: String,
    /// Its kind.
    pub kind: AdapterKind,
    /// Its vendor's name, or the PCI id of one we do not know.
    pub vendor: String,
    /// Name and version of the driver.
    pub driver: String,
    /// Vulkan version, `major.minor.patch`.
    pub api_version: String,
    /// Bytes of the largest device-local heap.
    pub memory: u64,
    /// The device's own limits, before any clamp.
    pub limits: Limits,
    /// A name for files that no other device, driver or version of this crate has.
    pub cache_stem: String,
}

impl AdapterInfo {
    /// The file of this device and driver in a folder; `extension` says what is in it.
    pub fn cache_file(&self, folder: &Path, extension: &str) -> PathBuf {
        folder.join(format!("{}.{extension}", self.cache_stem))
    }
}

/// The devices that speak Vulkan 1.1 and compute, real GPUs before CPU drivers; at least one, or an error.
pub fn adapters() -> Result<Vec<AdapterInfo>> {
    let instance = Instance::new(Validation::Off)?;
    Ok(enumerate(&instance)?.into_iter().map(|a| a.info).collect())
}

/// Bytes that the driver says are free for this process on the device with that index, where it says so
/// (`VK_EXT_memory_budget`). The device is not opened.
pub fn free_memory(index: usize) -> Result<Option<u64>> {
    let instance = Instance::new(Validation::Off)?;
    let found = enumerate(&instance)?;
    Ok(found.get(index).and_then(|adapter| free_bytes(&instance, adapter)))
}

/// Free bytes of the heap that `Limits::heap_bytes` is of, where the driver says so.
pub(super) fn free_bytes(instance: &Instance, adapter: &Adapter) -> Option<u64> {
    if !adapter.memory_budget {
        return None;
    }
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut query = vk::PhysicalDeviceMemoryProperties2::default().push_next(&mut budget);
    // SAFETY: the adapter belongs to the live instance and has the extension of the chained struct.
    unsafe { instance.raw.get_physical_device_memory_properties2(adapter.raw, &mut query) };
    let heaps = query.memory_properties;
    let (index, _) = heaps
        .memory_heaps_as_slice()
        .iter()
        .enumerate()
        .filter(|(_, h)| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .max_by_key(|(_, h)| h.size)?;
    Some(budget.heap_budget[index].saturating_sub(budget.heap_usage[index]))
}

/// A physical device with what opening it needs.
pub(super) struct Adapter {
    pub raw: vk::PhysicalDevice,
    pub info: AdapterInfo,
    pub queue_family: u32,
    /// Meaningful bits of a timestamp on that family; 0 means it has none.
    pub timestamp_bits: u32,
    pub memory_budget: bool,
    pub properties: Properties,
}

/// Properties beyond `Limits` that this room alone needs.
pub(super) struct Properties {
    pub buffer_image_granularity: u64,
    /// Largest bytes of one `rgba32ui` storage image.
    pub max_image_bytes: u64,
    pub timestamp_period_ns: f32,
}

/// Format of every image: a container of 16 bytes whose storage support Vulkan guarantees.
pub(super) const IMAGE_FORMAT: vk::Format = vk::Format::R32G32B32A32_UINT;

/// Usage of every image.
pub(super) fn image_usage() -> vk::ImageUsageFlags {
    vk::ImageUsageFlags::STORAGE | vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST
}

pub(super) fn enumerate(instance: &Instance) -> Result<Vec<Adapter>> {
    // SAFETY: the instance is alive; ash sizes the array.
    let devices = unsafe { instance.raw.enumerate_physical_devices() }
        .map_err(|r| Error::of_call("vkEnumeratePhysicalDevices", r))?;
    let mut found = Vec::new();
    for device in devices {
        found.extend(describe(instance, device)?);
    }
    if found.is_empty() {
        return Err(Error::NoDevice { reason: "no driver has a device that computes with Vulkan 1.1".to_owned() });
    }
    // Stable: devices of one kind keep the loader's order.
    found.sort_by_key(|a| a.info.kind);
    for (index, adapter) in found.iter_mut().enumerate() {
        adapter.info.index = index;
    }
    Ok(found)
}

fn describe(instance: &Instance, raw: vk::PhysicalDevice) -> Result<Option<Adapter>> {
    // SAFETY: `raw` belongs to the live instance; the call has no other precondition.
    let basic = unsafe { instance.raw.get_physical_device_properties(raw) };
    let name = text(basic.device_name_as_c_str().unwrap_or(c"unnamed"));
    if basic.api_version < API_VERSION {
        log::warn!("{name} speaks Vulkan {} only; 1.1 is needed", version_text(basic.api_version));
        return Ok(None);
    }
    // SAFETY: as above.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(raw) };
    let Some((queue_family, family)) =
        families.iter().enumerate().find(|(_, f)| f.queue_flags.contains(vk::QueueFlags::COMPUTE))
    else {
        log::warn!("{name} has no compute queue");
        return Ok(None);
    };
    // SAFETY: as above; ash sizes the array.
    let extensions = unsafe { instance.raw.enumerate_device_extension_properties(raw) }
        .map_err(|r| Error::of_call("vkEnumerateDeviceExtensionProperties", r))?;
    let has = |wanted: &CStr| extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(wanted));

    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut maintenance3 = vk::PhysicalDeviceMaintenance3Properties::default();
    let mut maintenance4 = vk::PhysicalDeviceMaintenance4Properties::default().max_buffer_size(u64::MAX);
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut query = vk::PhysicalDeviceProperties2::default().push_next(&mut subgroup).push_next(&mut maintenance3);
    if has(khr::maintenance4::NAME) {
        query = query.push_next(&mut maintenance4);
    }
    if has(khr::driver_properties::NAME) {
        query = query.push_next(&mut driver);
    }
    // SAFETY: every struct of the chain is core in 1.1 or of an extension the device has, and lives until the call
    // returns.
    unsafe { instance.raw.get_physical_device_properties2(raw, &mut query) };
    let limits = query.properties.limits;
    let shuffles = subgroup.supported_operations.contains(vk::SubgroupFeatureFlags::SHUFFLE)
        && subgroup.supported_stages.contains(vk::ShaderStageFlags::COMPUTE);

    // SAFETY: `raw` belongs to the live instance.
    let memory = unsafe { instance.raw.get_physical_device_memory_properties(raw) };
    let local = |h: &&vk::MemoryHeap| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL);
    let heap_bytes = memory.memory_heaps_as_slice().iter().filter(local).map(|h| h.size).max().unwrap_or(0);

    // SAFETY: as above; the arguments describe the images this room creates.
    let image = unsafe {
        instance.raw.get_physical_device_image_format_properties(
            raw,
            IMAGE_FORMAT,
            vk::ImageType::TYPE_2D,
            vk::ImageTiling::OPTIMAL,
            image_usage(),
            vk::ImageCreateFlags::empty(),
        )
    }
    .map_err(|r| Error::of_call("vkGetPhysicalDeviceImageFormatProperties", r))?;

    let (matrix_units, matrix_sums) = matrix::units(instance, raw, basic.api_version, has)?;
    let own_limits = Limits {
        max_image_2d: limits.max_image_dimension2_d.min(image.max_extent.width).min(image.max_extent.height),
        max_storage_buffer_range: limits.max_storage_buffer_range.into(),
        max_bound_bytes: u64::MAX,
        storage_buffer_alignment: limits.min_storage_buffer_offset_alignment,
        max_allocation: maintenance3.max_memory_allocation_size.min(maintenance4.max_buffer_size),
        max_workgroup_invocations: limits.max_compute_work_group_invocations,
        max_workgroup_size: limits.max_compute_work_group_size,
        max_workgroup_count: limits.max_compute_work_group_count,
        max_shared_memory: limits.max_compute_shared_memory_size,
        max_storage_bindings: limits
            .max_per_stage_descriptor_storage_buffers
            .min(limits.max_per_stage_descriptor_storage_images),
        subgroup_size: subgroup.subgroup_size,
        shuffle_width: if shuffles { subgroup.subgroup_size } else { 0 },
        matrix_units,
        matrix_sums,
        byte_dots: dots::of(instance, raw, has),
        heap_bytes,
        products: Products { from_caches: is_phone(basic.vendor_id), ..Products::default() },
    };
    let info = AdapterInfo {
        index: 0,
        name,
        kind: match basic.device_type {
            vk::PhysicalDeviceType::DISCRETE_GPU => AdapterKind::Discrete,
            vk::PhysicalDeviceType::INTEGRATED_GPU => AdapterKind::Integrated,
            vk::PhysicalDeviceType::VIRTUAL_GPU => AdapterKind::Virtual,
            vk::PhysicalDeviceType::CPU => AdapterKind::Cpu,
            _ => AdapterKind::Other,
        },
        vendor: vendor(basic.vendor_id),
        driver: driver_text(&driver, basic.driver_version),
        api_version: version_text(basic.api_version),
        memory: heap_bytes,
        limits: own_limits,
        cache_stem: format!(
            "{:04x}-{:04x}-{:08x}-{:032x}-{}",
            basic.vendor_id,
            basic.device_id,
            basic.driver_version,
            u128::from_be_bytes(basic.pipeline_cache_uuid),
            env!("CARGO_PKG_VERSION"),
        ),
    };
    let properties = Properties {
        buffer_image_granularity: limits.buffer_image_granularity,
        max_image_bytes: image.max_resource_size,
        timestamp_period_ns: limits.timestamp_period,
    };
    Ok(Some(Adapter {
        raw,
        info,
        queue_family: queue_family as u32,
        timestamp_bits: family.timestamp_valid_bits,
        memory_budget: has(ext::memory_budget::NAME),
        properties,
    }))
}

fn text(s: &CStr) -> String {
    s.to_string_lossy().into_owned()
}

/// Whether a vendor's GPUs are those of phones: Imagination, Arm, Samsung, Qualcomm.
fn is_phone(vendor: u32) -> bool {
    matches!(vendor, 0x1010 | 0x13b5 | 0x144d | 0x5143)
}

fn vendor(id: u32) -> String {
    match id {
        0x1002 => "AMD".to_owned(),
        0x1010 => "Imagination".to_owned(),
        0x106b => "Apple".to_owned(),
        0x10de => "NVIDIA".to_owned(),
        0x13b5 => "Arm".to_owned(),
        0x144d => "Samsung".to_owned(),
        0x14e4 => "Broadcom".to_owned(),
        0x5143 => "Qualcomm".to_owned(),
        0x8086 => "Intel".to_owned(),
        0x1_0005 => "Mesa".to_owned(),
        _ => format!("{id:#06x}"),
    }
}

fn driver_text(driver: &vk::PhysicalDeviceDriverProperties<'_>, version: u32) -> String {
    let name = driver.driver_name_as_c_str().map(text).unwrap_or_default();
    let info = driver.driver_info_as_c_str().map(text).unwrap_or_default();
    match (name.is_empty(), info.is_empty()) {
        (true, _) => format!("version {version:#x}"),
        (false, true) => name,
        (false, false) => format!("{name} {info}"),
    }
}
