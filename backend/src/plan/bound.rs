//! Memory of a device that is not at hand.

use crate::device::Limits;
use crate::kernels::StorageKind;

use super::{Footprint, Size, TEXEL_BYTES};

/// Bytes that neighbouring storages are kept apart by: the largest granularity between buffers and images that GPU drivers report.
const GRANULARITY: u64 = 1 << 10;

/// Texels along a side of the blocks that images are padded to: 64 KiB, the largest block that Vulkan standardises for texels of
/// 16 bytes and no smaller than the tiles that drivers use without being asked.
const BLOCK_TEXELS: u32 = 64;

/// An upper bound of what storages take, from limits alone: padding and alignment are what drivers of GPUs are known to need at most.
/// A device's own answer is exact, see [`crate::engine::Engine::plan`].
#[derive(Clone, Copy, Debug)]
pub struct UpperBound<'a>(pub &'a Limits);

impl Footprint for UpperBound<'_> {
    fn size(&self, kind: StorageKind, width: u32, height: u32) -> Result<Size, String> {
        let Self(limits) = self;
        let side = |texels: u32| match kind {
            StorageKind::Buffer => u64::from(texels),
            StorageKind::Image => u64::from(texels).next_multiple_of(BLOCK_TEXELS.into()),
        };
        let longest = width.max(height);
        if kind == StorageKind::Image && longest > limits.max_image_2d {
            return Err(format!("{longest} texels exceed the image limit of {}", limits.max_image_2d));
        }
        let bytes = (side(width) * side(height)).checked_mul(TEXEL_BYTES).ok_or("more bytes than 64 bits count")?;
        let alignment = match kind {
            StorageKind::Buffer => GRANULARITY.max(limits.storage_buffer_alignment),
            StorageKind::Image => u64::from(BLOCK_TEXELS) * u64::from(BLOCK_TEXELS) * TEXEL_BYTES,
        };
        let bytes = bytes.next_multiple_of(alignment);
        if bytes > self.block_bytes() {
            return Err(format!("{bytes} bytes exceed the largest allocation of {}", limits.max_allocation));
        }
        Ok(Size { bytes, alignment })
    }

    fn block_bytes(&self) -> u64 {
        self.0.arena_block_bytes()
    }
}
