//! An opened device: the facade of this room.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use fblayout_shaders::Shader;

use crate::device::Limits;
use crate::kernels::StorageKind;

use super::adapter::{AdapterInfo, enumerate, free_bytes};
use super::census::Census;
use super::device::{Device, lock};
use super::error::{Error, Result};
use super::instance::{Instance, ValidationLog};
use super::options::{GpuOptions, Repacking};
use super::pipeline::{Pipeline, Pipelines};
use super::storage::{Object, Storage};
use super::transfer::Lane;

/// An opened device. Share it in an `Arc`; every method may be called from any thread.
pub struct Gpu {
    /// Transfers, one at a time. First to go: it waits for what is under way, which uses the others.
    pub(super) lane: Mutex<Lane>,
    /// Bound in place of the kind of storage an operand does not use.
    dummies: Dummies,
    pipelines: Pipelines,
    cache_folder: Option<PathBuf>,
    pub(super) force_staging: bool,
    pub(super) repacking: Repacking,
    /// Texels of a turn's half of staging.
    pub(super) half: u32,
    /// Size and alignment of images by extent, as the device says; forgotten when there are many.
    pub(super) image_needs: Mutex<HashMap<(u32, u32), (u64, u64)>>,
    pub(super) device: Arc<Device>,
}

/// One texel of each kind.
pub(super) struct Dummies {
    pub buffer: Storage,
    pub image: Storage,
}

/// Device memory at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes of storages and arenas.
    pub in_use: u64,
    /// Bytes they may take: `Limits::heap_bytes`.
    pub limit: u64,
    /// Bytes the driver says are still free for this process, where it says so.
    pub free: Option<u64>,
}

impl Gpu {
    /// Opens the device with that index in [`super::adapters`].
    pub fn open(adapter: usize, options: &GpuOptions) -> Result<Arc<Self>> {
        let instance = Instance::new(options.validation)?;
        let mut found = enumerate(&instance)?;
        if adapter >= found.len() {
            let reason = format!("device {adapter} was asked for, and there are {}, counted from 0", found.len());
            return Err(Error::NoDevice { reason });
        }
        let adapter = found.swap_remove(adapter);
        let limits = options.limits(&adapter.info);
        log::debug!("opening {} ({})", adapter.info.name, adapter.info.driver);
        let device = Arc::new(Device::new(instance, adapter, limits)?);
        let mut lane = Lane::new(&device, options.staging_bytes)?;
        let half = lane.half();
        if options.repacking.by_device(device.adapter.info.kind, false, u64::MAX) && half > 0 {
            lane.stage(half)?;
        }
        let dummies = Dummies {
            buffer: Self::zeroed(&device, &mut lane, StorageKind::Buffer, 1, 1)?,
            image: Self::zeroed(&device, &mut lane, StorageKind::Image, 1, 1)?,
        };
        for dummy in [&dummies.buffer, &dummies.image] {
            match &dummy.0.object {
                Object::Buffer { raw, .. } => device.instance.log.never_touched(raw.raw),
                Object::Image(image) => device.instance.log.never_touched(image.view),
            }
        }
        let pipelines_file = options.cache_file(&device.adapter.info, "pipelines");
        Ok(Arc::new(Self {
            lane: Mutex::new(lane),
            dummies,
            pipelines: Pipelines::new(&device, options.max_pipelines, pipelines_file)?,
            cache_folder: options.cache_folder.clone(),
            force_staging: options.force_staging,
            repacking: options.repacking,
            half,
            image_needs: Mutex::default(),
            device,
        }))
    }

    /// What the device says of itself.
    pub fn adapter(&self) -> &AdapterInfo {
        &self.device.adapter.info
    }

    /// The device's limits, clamped by the options.
    pub fn limits(&self) -> &Limits {
        &self.device.limits
    }

    /// What the validation layer says. The log may be kept longer than the device, and then hears of its end.
    pub fn validation(&self) -> &Arc<ValidationLog> {
        &self.device.instance.log
    }

    /// Number of validation messages so far.
    pub fn validation_count(&self) -> u64 {
        self.validation().count()
    }

    /// Their texts, the first few hundred.
    pub fn validation_messages(&self) -> Vec<String> {
        self.validation().messages()
    }

    /// True once a call found the device lost; it must then be opened anew.
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// Device memory in use and free.
    pub fn memory(&self) -> MemoryUse {
        let limit = self.device.limits.heap_bytes;
        MemoryUse {
            in_use: self.device.budget.in_use(),
            limit,
            free: free_bytes(&self.device.instance, &self.device.adapter),
        }
    }

    /// A buffer of `width` x `height` texels, zero, with pitch `width`.
    pub fn create_buffer(&self, width: u32, height: u32) -> Result<Storage> {
        self.create(StorageKind::Buffer, width, height)
    }

    /// An image of `width` x `height` texels, zero.
    pub fn create_image(&self, width: u32, height: u32) -> Result<Storage> {
        self.create(StorageKind::Image, width, height)
    }

    /// A storage of that kind, zero.
    pub fn create(&self, kind: StorageKind, width: u32, height: u32) -> Result<Storage> {
        let mut lane = lock(&self.lane);
        Self::zeroed(&self.device, &mut lane, kind, width, height)
    }

    fn zeroed(device: &Arc<Device>, lane: &mut Lane, kind: StorageKind, width: u32, height: u32) -> Result<Storage> {
        let storage = Storage::new(device, kind, width, height)?;
        lane.fill(&storage, 0)?;
        Ok(storage)
    }

    /// The pipeline of a shader with these specialization constants (id, bits), built or taken from the cache. Ids
    /// the shader does not have are ignored.
    pub fn pipeline(&self, shader: &Shader, constants: &[(u32, u32)]) -> Result<Arc<Pipeline>> {
        Ok(self.pipelines(&[(shader, constants)])?.swap_remove(0))
    }

    /// As [`Gpu::pipeline`] for many: those that are not there yet are built on all cores of the host.
    pub fn pipelines(&self, wanted: &[(&Shader, &[(u32, u32)])]) -> Result<Vec<Arc<Pipeline>>> {
        self.pipelines.get_all(wanted)
    }

    /// Whether tapes can take timestamps.
    pub fn has_timestamps(&self) -> bool {
        self.device.adapter.timestamp_bits > 0
    }

    /// Where a file of this device and driver is kept between runs, if files are; `extension` says what is in it.
    pub fn cache_file(&self, extension: &str) -> Option<PathBuf> {
        self.cache_folder.as_deref().map(|folder| self.adapter().cache_file(folder, extension))
    }

    /// What is alive on the device.
    pub fn census(&self) -> Census {
        self.device.census()
    }

    /// Pipelines in the cache.
    pub fn cached_pipelines(&self) -> usize {
        self.pipelines.len()
    }

    pub(super) fn dummies(&self) -> &Dummies {
        &self.dummies
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Gpu({})", self.adapter().name)
    }
}

#[cfg(test)]
mod tests {
    use ash::vk;

    use super::*;

    #[test]
    fn a_gpu_may_be_used_from_any_thread() {
        fn shared<T: Send + Sync>() {}
        shared::<Gpu>();
        shared::<Storage>();
        shared::<crate::vulkan::Arena>();
        shared::<crate::vulkan::Tape>();
    }

    #[test]
    fn a_lost_device_stays_lost_and_can_still_be_dropped() {
        let gpu = Gpu::open(0, &GpuOptions::default()).unwrap();
        let storage = gpu.create_image(2, 2).unwrap();
        assert!(!gpu.is_lost());
        let error = gpu.device.failed("a test", vk::Result::ERROR_DEVICE_LOST);
        assert_eq!(error, Error::DeviceLost { call: "a test" });
        assert!(gpu.is_lost());
        assert!(matches!(gpu.upload(&storage, &[0; 64]), Err(Error::DeviceLost { .. })));
        assert!(matches!(gpu.download(&storage), Err(Error::DeviceLost { .. })));
        assert!(matches!(gpu.create_buffer(1, 1), Err(Error::DeviceLost { .. })));
    }
}
