//! Arenas: memory in which storages whose lifetimes do not meet share bytes.

use std::sync::Arc;

use crate::kernels::StorageKind;

use super::device::{Device, lock};
use super::error::{Error, Result};
use super::gpu::Gpu;
use super::memory::Memory;
use super::storage::{Object, RawBuffer, RawImage, Storage, TEXEL_BYTES, check_extent, describe};

/// Extents of images whose needs are remembered.
const MOST_EXTENTS: usize = 1 << 12;

/// Bytes in which storages are placed, overlapping or not, as a plan says.
///
/// The bytes are a list of blocks, because a device bounds a single allocation: a placement lies within one block, and its
/// offset counts through the blocks before. Storages keep their block alive, so they may outlive the arena. What a buffer
/// holds, and what an image holds before its first write of a run, is undefined; images are discarded (see
/// [`super::Step::discard`]) before that write.
pub struct Arena {
    gpu: Arc<Gpu>,
    blocks: Vec<Arc<Block>>,
}

/// One memory allocation of an arena and the buffer over all of it.
pub(super) struct Block {
    buffer: Arc<RawBuffer>,
    pub memory: Memory,
    bytes: u64,
}

impl Arena {
    /// Takes device memory for blocks of these bytes, none above [`Gpu::arena_block_bytes`].
    pub fn new(gpu: &Arc<Gpu>, blocks: &[u64]) -> Result<Self> {
        let types = image_memory_types(&gpu.device)?;
        let block = |&bytes: &u64| Block::new(&gpu.device, bytes, types).map(Arc::new);
        Ok(Self { gpu: Arc::clone(gpu), blocks: blocks.iter().map(block).collect::<Result<_>>()? })
    }

    /// Bytes of the arena.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes).sum()
    }

    /// A buffer at `offset`, which must be a multiple of the footprint's alignment.
    pub fn place_buffer(&self, offset: u64, width: u32, height: u32) -> Result<Storage> {
        let (block, offset) = self.find(StorageKind::Buffer, offset, width, height)?;
        let object = Object::Buffer { raw: Arc::clone(&block.buffer), offset };
        Ok(Storage::in_arena(object, block, width, height))
    }

    /// An image at `offset`, which must be a multiple of the footprint's alignment.
    pub fn place_image(&self, offset: u64, width: u32, height: u32) -> Result<Storage> {
        let (block, offset) = self.find(StorageKind::Image, offset, width, height)?;
        let what = describe(StorageKind::Image, width, height);
        let mut image = RawImage::new(&self.gpu.device, &what, width, height)?;
        image.bind(&block.memory, offset)?;
        Ok(Storage::in_arena(Object::Image(image), block, width, height))
    }

    /// The block that holds such a placement, and the offset in it.
    fn find(&self, kind: StorageKind, offset: u64, width: u32, height: u32) -> Result<(&Arc<Block>, u64)> {
        let footprint = self.gpu.storage_footprint(kind, width, height)?;
        let what = || format!("{} at arena offset {offset}", describe(kind, width, height));
        let mut inner = offset;
        let block = self.blocks.iter().find(|block| {
            let here = inner < block.bytes;
            inner -= if here { 0 } else { block.bytes };
            here
        });
        if !inner.is_multiple_of(footprint.alignment) {
            return Err(Error::invalid(
                what(),
                format!("its offset in a block is a multiple of {}", footprint.alignment),
            ));
        }
        match block {
            Some(block) if footprint.bytes <= block.bytes - inner => Ok((block, inner)),
            _ => {
                let sizes: Vec<u64> = self.blocks.iter().map(|block| block.bytes).collect();
                let rule = format!("its {} bytes lie within one of the arena's blocks, {sizes:?}", footprint.bytes);
                Err(Error::invalid(what(), rule))
            }
        }
    }
}

impl Block {
    fn new(device: &Arc<Device>, bytes: u64, types: u32) -> Result<Self> {
        let what = "an arena";
        let buffer = Arc::new(RawBuffer::new(device, what, bytes)?);
        let needs = buffer.requirements();
        let memory = Memory::block(device, what, needs.size, needs.memory_type_bits & types)?;
        buffer.bind(&memory)?;
        Ok(Self { buffer, memory, bytes })
    }
}

/// Memory taken by one storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes.
    pub bytes: u64,
    /// What an arena offset must be a multiple of.
    pub alignment: u64,
}

impl Gpu {
    /// Bytes that an arena's block may have.
    pub fn arena_block_bytes(&self) -> u64 {
        self.device.limits.arena_block_bytes()
    }

    /// Device memory that an arena's block of so many bytes takes.
    pub fn arena_bytes(&self, bytes: u64) -> Result<u64> {
        Ok(RawBuffer::new(&self.device, "an arena", bytes)?.requirements().size)
    }

    /// Device memory that [`Gpu::create`] takes for such a storage.
    pub fn storage_bytes(&self, kind: StorageKind, width: u32, height: u32) -> Result<u64> {
        let bytes = check_extent(&self.device, kind, width, height)?;
        match kind {
            StorageKind::Buffer => {
                Ok(RawBuffer::new(&self.device, &describe(kind, width, height), bytes)?.requirements().size)
            }
            StorageKind::Image => Ok(self.image_needs(width, height)?.0),
        }
    }

    /// Memory an arena placement of that kind and extent takes, as the device says. Neighbours that keep to it
    /// satisfy the device's granularity between buffers and images.
    pub fn storage_footprint(&self, kind: StorageKind, width: u32, height: u32) -> Result<Footprint> {
        let bytes = check_extent(&self.device, kind, width, height)?;
        let granularity = self.device.adapter.properties.buffer_image_granularity.max(TEXEL_BYTES);
        let (bytes, alignment) = match kind {
            StorageKind::Buffer => (bytes, self.device.limits.storage_buffer_alignment),
            StorageKind::Image => self.image_needs(width, height)?,
        };
        let alignment = alignment.max(granularity);
        Ok(Footprint { bytes: bytes.next_multiple_of(granularity), alignment })
    }

    fn image_needs(&self, width: u32, height: u32) -> Result<(u64, u64)> {
        let mut cache = lock(&self.image_needs);
        if let Some(known) = cache.get(&(width, height)) {
            return Ok(*known);
        }
        let what = describe(StorageKind::Image, width, height);
        let needs = RawImage::new(&self.device, &what, width, height)?.requirements();
        if cache.len() >= MOST_EXTENTS {
            cache.clear();
        }
        cache.insert((width, height), (needs.size, needs.alignment));
        Ok((needs.size, needs.alignment))
    }
}

/// Memory types an image of ours may live in. Vulkan promises the same answer for all images of one format, tiling
/// and usage.
fn image_memory_types(device: &Arc<Device>) -> Result<u32> {
    Ok(RawImage::new(device, "image of 1x1 texels", 1, 1)?.requirements().memory_type_bits)
}
