//! Storages: texels of 16 bytes in a buffer or in a 2D image, with one picture of both.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ash::vk;

use crate::kernels::StorageKind;

use super::adapter::{IMAGE_FORMAT, image_usage};
use super::arena::Block;
use super::census::Counted;
use super::device::Device;
use super::error::{Error, Result, within};
use super::memory::{HostPtr, Memory, Purpose};

/// Bytes of a texel.
pub const TEXEL_BYTES: u64 = 16;

/// `width` x `height` texels in device memory: a buffer with that pitch, or an `rgba32ui` image that is always in
/// layout GENERAL.
///
/// A handle: clones share the texels, and the memory goes with the last clone. A tape keeps clones of what it uses,
/// so dropping a storage is safe at any time.
#[derive(Clone)]
pub struct Storage(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub object: Object,
    pub width: u32,
    pub height: u32,
    home: Home,
    /// False while an image was never written, so that its layout is undefined. Buffers are always defined.
    defined: AtomicBool,
}

pub(super) enum Object {
    Buffer { raw: Arc<RawBuffer>, offset: u64 },
    Image(RawImage),
}

enum Home {
    Own(Memory),
    Arena(Arc<Block>),
}

impl Storage {
    /// Kind of storage.
    pub fn kind(&self) -> StorageKind {
        match self.0.object {
            Object::Buffer { .. } => StorageKind::Buffer,
            Object::Image(_) => StorageKind::Image,
        }
    }

    /// Texels per row; a buffer's pitch.
    pub fn width(&self) -> u32 {
        self.0.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.0.height
    }

    /// Number of texels.
    pub fn texels(&self) -> u64 {
        u64::from(self.0.width) * u64::from(self.0.height)
    }

    /// Bytes of the texels, without what the device pads.
    pub fn bytes(&self) -> u64 {
        self.texels() * TEXEL_BYTES
    }

    /// True when both are handles of the same texels.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn describe(&self) -> String {
        describe(self.kind(), self.0.width, self.0.height)
    }

    pub(super) fn device(&self) -> &Arc<Device> {
        match &self.0.object {
            Object::Buffer { raw, .. } => &raw.device,
            Object::Image(image) => &image.device,
        }
    }

    /// Fails when the storage was made by another device.
    pub(super) fn check_device(&self, device: &Arc<Device>) -> Result<()> {
        if Arc::ptr_eq(self.device(), device) {
            Ok(())
        } else {
            Err(Error::invalid(self.describe(), "it belongs to another device"))
        }
    }

    /// Mapped address and offset of the first texel, for buffers the host can reach.
    pub(super) fn host(&self) -> Option<(HostPtr, u64)> {
        match (&self.0.object, &self.0.home) {
            (Object::Buffer { offset, .. }, Home::Own(memory)) => memory.host.map(|h| (h, *offset)),
            (Object::Buffer { offset, .. }, Home::Arena(block)) => block.memory.host.map(|h| (h, *offset)),
            (Object::Image(_), _) => None,
        }
    }

    /// Shares memory with other storages.
    pub(super) fn is_aliased(&self) -> bool {
        matches!(self.0.home, Home::Arena(_))
    }

    pub(super) fn is_defined(&self) -> bool {
        self.0.defined.load(Ordering::Acquire)
    }

    pub(super) fn set_defined(&self) {
        self.0.defined.store(true, Ordering::Release);
    }

    /// A storage with memory of its own and contents still undefined.
    pub(super) fn new(device: &Arc<Device>, kind: StorageKind, width: u32, height: u32) -> Result<Self> {
        let bytes = check_extent(device, kind, width, height)?;
        let what = describe(kind, width, height);
        let (object, memory) = match kind {
            StorageKind::Buffer => buffer(device, &what, bytes, Purpose::Buffer)?,
            StorageKind::Image => {
                let mut image = RawImage::new(device, &what, width, height)?;
                let memory = Memory::pooled(device, &what, image.requirements(), Purpose::Image)?;
                image.bind(&memory, 0)?;
                (Object::Image(image), memory)
            }
        };
        Ok(Self::from_parts(object, Home::Own(memory), width, height))
    }

    /// A buffer for transfers, its contents undefined.
    pub(super) fn stage(device: &Arc<Device>, width: u32, height: u32) -> Result<Self> {
        let bytes = check_extent(device, StorageKind::Buffer, width, height)?;
        let (object, memory) = buffer(device, "the device's staging buffer", bytes, Purpose::Stage)?;
        Ok(Self::from_parts(object, Home::Own(memory), width, height))
    }

    pub(super) fn in_arena(object: Object, block: &Arc<Block>, width: u32, height: u32) -> Self {
        Self::from_parts(object, Home::Arena(Arc::clone(block)), width, height)
    }

    fn from_parts(object: Object, home: Home, width: u32, height: u32) -> Self {
        let defined = AtomicBool::new(matches!(object, Object::Buffer { .. }));
        Self(Arc::new(Inner { object, width, height, home, defined }))
    }
}

fn buffer(device: &Arc<Device>, what: &str, bytes: u64, purpose: Purpose) -> Result<(Object, Memory)> {
    let raw = RawBuffer::new(device, what, bytes)?;
    let memory = Memory::pooled(device, what, raw.requirements(), purpose)?;
    raw.bind(&memory)?;
    Ok((Object::Buffer { raw: Arc::new(raw), offset: 0 }, memory))
}

impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe())
    }
}

pub(super) fn describe(kind: StorageKind, width: u32, height: u32) -> String {
    let kind = match kind {
        StorageKind::Buffer => "buffer",
        StorageKind::Image => "image",
    };
    format!("{kind} of {width}x{height} texels")
}

/// Bytes of the texels, when the device can hold such a storage at all.
pub(super) fn check_extent(device: &Device, kind: StorageKind, width: u32, height: u32) -> Result<u64> {
    let what = || describe(kind, width, height);
    if width == 0 || height == 0 {
        return Err(Error::invalid(what(), "a storage has at least one texel"));
    }
    let too_big = || Error::LimitExceeded { what: what(), value: u64::MAX, limit: device.limits.max_allocation };
    let bytes = (u64::from(width) * u64::from(height)).checked_mul(TEXEL_BYTES).ok_or_else(too_big)?;
    if kind == StorageKind::Image {
        let extent = width.max(height).into();
        within(|| format!("the larger side of an {}", what()), extent, device.limits.max_image_2d.into())?;
        within(|| format!("bytes of an {}", what()), bytes, device.adapter.properties.max_image_bytes)?;
    }
    within(|| format!("bytes of {}", what()), bytes, device.limits.max_allocation)?;
    Ok(bytes)
}

/// A buffer, destroyed when dropped.
pub(super) struct RawBuffer {
    device: Arc<Device>,
    pub raw: vk::Buffer,
    _counted: Counted,
}

impl RawBuffer {
    pub fn new(device: &Arc<Device>, what: &str, bytes: u64) -> Result<Self> {
        within(|| format!("bytes of {what}"), bytes, device.limits.max_allocation)?;
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage).sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the size is positive and within the device's limit.
        let raw = unsafe { device.raw.create_buffer(&info, None) }.map_err(|r| device.failed("vkCreateBuffer", r))?;
        Ok(Self { device: Arc::clone(device), raw, _counted: device.counts.buffers.add(1) })
    }

    pub fn requirements(&self) -> vk::MemoryRequirements {
        // SAFETY: the buffer is alive.
        unsafe { self.device.raw.get_buffer_memory_requirements(self.raw) }
    }

    /// Binds memory that was made for `requirements`; once.
    pub fn bind(&self, memory: &Memory) -> Result<()> {
        let (block, offset) = memory.place();
        // SAFETY: the memory satisfies the requirements, the buffer is unbound, and its owner drops it before the
        // memory.
        unsafe { self.device.raw.bind_buffer_memory(self.raw, block, offset) }
            .map_err(|r| self.device.failed("vkBindBufferMemory", r))
    }
}

impl Drop for RawBuffer {
    fn drop(&mut self) {
        // SAFETY: no work in flight uses it: transfers wait or, as tapes do, keep their storages alive.
        unsafe { self.device.raw.destroy_buffer(self.raw, None) };
    }
}

/// An image with its view, destroyed when dropped.
pub(super) struct RawImage {
    device: Arc<Device>,
    pub raw: vk::Image,
    /// Null until bound.
    pub view: vk::ImageView,
    _counted: Counted,
}

/// The one mip level and layer every image has.
pub(super) const WHOLE: vk::ImageSubresourceRange = vk::ImageSubresourceRange {
    aspect_mask: vk::ImageAspectFlags::COLOR,
    base_mip_level: 0,
    level_count: 1,
    base_array_layer: 0,
    layer_count: 1,
};

impl RawImage {
    pub fn new(device: &Arc<Device>, what: &str, width: u32, height: u32) -> Result<Self> {
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(IMAGE_FORMAT)
            .extent(vk::Extent3D { width, height, depth: 1 })
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(image_usage())
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .initial_layout(vk::ImageLayout::UNDEFINED);
        // SAFETY: format, usage and extent were checked against the device.
        let raw = unsafe { device.raw.create_image(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => device.budget.exhausted(what.to_owned(), 0),
            _ => device.failed("vkCreateImage", result),
        })?;
        let _counted = device.counts.images.add(1);
        Ok(Self { device: Arc::clone(device), raw, view: vk::ImageView::null(), _counted })
    }

    pub fn requirements(&self) -> vk::MemoryRequirements {
        // SAFETY: the image is alive.
        unsafe { self.device.raw.get_image_memory_requirements(self.raw) }
    }

    /// Binds memory that was made for `requirements`, `offset` bytes into it, and makes the view; once.
    pub fn bind(&mut self, memory: &Memory, offset: u64) -> Result<()> {
        let device = &self.device;
        let (block, start) = memory.place();
        // SAFETY: the memory satisfies the requirements at that offset, the image is unbound, and its owner drops it
        // before the memory.
        unsafe { device.raw.bind_image_memory(self.raw, block, start + offset) }
            .map_err(|r| device.failed("vkBindImageMemory", r))?;
        let info = vk::ImageViewCreateInfo::default()
            .image(self.raw)
            .view_type(vk::ImageViewType::TYPE_2D)
            .format(IMAGE_FORMAT)
            .subresource_range(WHOLE);
        // SAFETY: the image is bound and the view matches how it was created.
        self.view =
            unsafe { device.raw.create_image_view(&info, None) }.map_err(|r| device.failed("vkCreateImageView", r))?;
        Ok(())
    }
}

impl Drop for RawImage {
    fn drop(&mut self) {
        // SAFETY: as for buffers; destroying a null view does nothing.
        unsafe {
            self.device.raw.destroy_image_view(self.view, None);
            self.device.raw.destroy_image(self.raw, None);
        }
    }
}
