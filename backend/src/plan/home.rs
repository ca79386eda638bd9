//! The home that dtype and shape alone prescribe: engines write weights before any graph exists, and several graphs share them.

use crate::device::Limits;
use crate::graph::{DType, Shape};
use crate::kernels::StorageKind;
use crate::layout::{Illegal, Layout, TileTarget};

use super::PlanError;

/// Which storage tensors get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum StorageChoice {
    /// What the device does best.
    #[default]
    Auto,
    /// Buffers only.
    Buffer,
    /// Images wherever the limits allow.
    Image,
}

impl std::str::FromStr for StorageChoice {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Self::Auto),
            "buffer" => Ok(Self::Buffer),
            "image" => Ok(Self::Image),
            _ => Err(format!("storage '{s}' is not one of auto, buffer, image")),
        }
    }
}

/// Physical storage of a tensor: its layout and the box of 16-byte texels that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Home {
    /// Element type.
    pub dtype: DType,
    /// Where each element lives, in slots.
    pub layout: Layout,
    /// Buffer or image.
    pub kind: StorageKind,
    /// Texels per row.
    pub width: u32,
    /// Rows of texels.
    pub height: u32,
}

impl Home {
    /// The home of a tensor. Errors when neither storage can hold it under `limits`.
    pub fn of(dtype: DType, shape: &Shape, limits: &Limits, choice: StorageChoice) -> Result<Self, PlanError> {
        let illegal = |e: Illegal| PlanError::Home { dtype, shape: *shape, why: e.to_string() };
        let layout = match dtype.quant_texels() {
            None => {
                let target = TileTarget { warp: limits.subgroup_size, line_texels: LINE_TEXELS };
                Layout::rtile_for(shape, dtype.lanes(), limits.max_image_2d, u32::MAX, target)
            }
            Some(q) => {
                let slots = limits.max_image_2d / (QUANT_ROWS * q + 1) * QUANT_ROWS;
                Layout::rtile(shape, dtype.lanes(), 1, QUANT_ROWS, slots, u32::MAX)
            }
        }
        .map_err(illegal)?;
        Self::with_layout(dtype, layout, limits, choice).map_err(|why| PlanError::Home { dtype, shape: *shape, why })
    }

    /// A home with a given layout; the error says which limit it breaks.
    pub fn with_layout(dtype: DType, layout: Layout, limits: &Limits, choice: StorageChoice) -> Result<Self, String> {
        let (slots, height) = (layout.width(), layout.height());
        let width = match dtype.quant_texels() {
            None => slots,
            Some(q) => slots.div_ceil(QUANT_ROWS) * (QUANT_ROWS * q + 1),
        };
        let bytes = u64::from(width) * u64::from(height) * TEXEL_BYTES;
        let image = width <= limits.max_image_2d && height <= limits.max_image_2d;
        let buffer = bytes <= limits.max_storage_buffer_range;
        let kind = match choice {
            StorageChoice::Image if image => StorageKind::Image,
            _ if buffer => StorageKind::Buffer,
            StorageChoice::Auto if image => StorageKind::Image,
            _ => {
                return Err(format!(
                    "{width} x {height} texels ({bytes} bytes) exceed the image limit of {} texels and the storage buffer \
                     range of {} bytes",
                    limits.max_image_2d, limits.max_storage_buffer_range
                ));
            }
        };
        Ok(Self { dtype, layout, kind, width, height })
    }

    /// Bytes of texels, without what the device adds for alignment.
    pub fn bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * TEXEL_BYTES
    }
}

/// Bytes of a texel, in images and buffers alike.
pub const TEXEL_BYTES: u64 = 16;

/// Texels of a cache line: 64 bytes on every GPU family the tile rule was read off.
const LINE_TEXELS: u32 = 4;

/// Rows of a quantized R-Tile.
pub const QUANT_ROWS: u32 = 4;
