//! The home that dtype and shape alone prescribe: engines write weights before any graph exists, and several graphs share them.

use crate::device::Limits;
use crate::graph::{DType, Form, Shape, TILE_SLOTS};
use crate::kernels::{Operand, StorageKind};
use crate::layout::{Illegal, Layout, TileTarget, View, tile_rule};

use super::{Objective, PlanError, Policy};

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

/// What a caller asks of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlanOptions {
    /// What tensors live in.
    pub storage: StorageChoice,
    /// How layouts are treated.
    pub policy: Policy,
    /// Every result gets a storage of its own; otherwise it may take over that of an operand which nobody reads again. Results are the
    /// same.
    pub apart: bool,
    /// Whether selectors choose among all tiles that have whole lanes, and not only among those that rules C1 to C3 leave.
    pub unpruned: bool,
    /// What selectors compare layouts by.
    pub objective: Objective,
}

/// A tile of an R-Tile home: rows along an axis, of which a strip lies side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Tile {
    /// Axis of the rows.
    pub row_axis: usize,
    /// Rows side by side; 1 is row-major.
    pub strip: u32,
}

impl Tile {
    /// The tile of a plain tensor where nothing else is asked for.
    pub(super) fn by_rule(shape: &Shape, limits: &Limits, options: PlanOptions) -> Self {
        let target = TileTarget { warp: limits.subgroup_size, line_texels: LINE_TEXELS };
        let (row_axis, strip) = if options.policy.tiles() { tile_rule(shape, target) } else { (1, 1) };
        Self { row_axis, strip }
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
    ///
    /// A buffer has as many rows as it has room for. Where the tensor must be an image, rows beyond the image limit are folded
    /// beside the first ones.
    pub fn of(dtype: DType, shape: &Shape, limits: &Limits, options: PlanOptions) -> Result<Self, PlanError> {
        Self::chosen(dtype, shape, None, limits, options)
    }

    /// [`Home::of`], with this tile where one is given and the element type is a plain one.
    pub fn chosen(
        dtype: DType,
        shape: &Shape,
        tile: Option<Tile>,
        limits: &Limits,
        options: PlanOptions,
    ) -> Result<Self, PlanError> {
        let choice = options.storage;
        let home = |max_y| {
            let Tile { row_axis, strip } = match dtype.form() {
                Form::Texel => tile.unwrap_or_else(|| Tile::by_rule(shape, limits, options)),
                Form::Tile { .. } => Tile { row_axis: 1, strip: TILE_SLOTS },
                // Rows begin with a texel of their own, so that writers of different rows never meet in one.
                Form::Block => Tile { row_axis: 1, strip: 1 },
            };
            let slots = dtype.slots_of_row(limits.max_image_2d);
            let layout = Layout::rtile(shape, dtype.lanes(), row_axis, strip, slots, max_y);
            let layout = layout.map_err(|e: Illegal| e.to_string())?;
            Self::with_layout(dtype, layout, limits, choice)
        };
        let unfolded = home(u32::MAX);
        let served = |home: &Self| home.kind == StorageKind::Image || !wants_image(home.bytes(), limits, choice);
        let home = match unfolded {
            Ok(unfolded) if served(&unfolded) => Ok(unfolded),
            unfolded => {
                home(limits.max_image_2d).ok().filter(|home| home.kind == StorageKind::Image).map_or(unfolded, Ok)
            }
        };
        home.map_err(|why| PlanError::Home { dtype, shape: *shape, why })
    }

    /// A home with a given layout; the error says which limit it breaks.
    pub fn with_layout(dtype: DType, layout: Layout, limits: &Limits, choice: StorageChoice) -> Result<Self, String> {
        let (slots, height) = (layout.width(), layout.height());
        let width = dtype.row_texels(slots);
        let bytes = u64::from(width) * u64::from(height) * TEXEL_BYTES;
        let image = width <= limits.max_image_2d && height <= limits.max_image_2d;
        // What no binding holds is bound in pieces, by ops that can be cut.
        let buffer = bytes <= limits.max_allocation;
        let kind = match choice {
            _ if image && wants_image(bytes, limits, choice) => StorageKind::Image,
            _ if buffer => StorageKind::Buffer,
            StorageChoice::Auto if image => StorageKind::Image,
            _ => {
                return Err(format!(
                    "{width} x {height} texels ({bytes} bytes) exceed the image limit of {} texels and the largest \
                     allocation of {} bytes",
                    limits.max_image_2d, limits.max_allocation
                ));
            }
        };
        Ok(Self { dtype, layout, kind, width, height })
    }

    /// A view of this home as a kernel sees it.
    pub(super) fn operand(&self, view: &View) -> Operand {
        Operand { dtype: self.dtype, view: view.clone(), flat: false, storage: self.kind, pitch: self.width }
    }

    /// Bytes of texels, without what the device adds for alignment.
    pub fn bytes(&self) -> u64 {
        u64::from(self.width) * u64::from(self.height) * TEXEL_BYTES
    }
}

/// Whether an image serves a tensor better, if it can be one: a buffer that no binding holds is read in pieces, and where the buffers of
/// a dispatch are bounded together, so may be one that takes more than its operand's share of the bound.
fn wants_image(bytes: u64, limits: &Limits, choice: StorageChoice) -> bool {
    match choice {
        StorageChoice::Auto => bytes > limits.max_storage_buffer_range.min(limits.max_bound_bytes / MAX_OPERANDS),
        StorageChoice::Buffer => false,
        StorageChoice::Image => true,
    }
}

/// Operands that a shader can have.
const MAX_OPERANDS: u64 = 8;

/// Bytes of a texel, in images and buffers alike.
pub const TEXEL_BYTES: u64 = 16;

/// Texels of a cache line: 64 bytes on every GPU family the tile rule was read off.
const LINE_TEXELS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    /// The embedding tables and logits of large vocabularies exceed the storage buffer range and have more rows than an image.
    #[test]
    fn large_vocabularies_have_a_home() {
        let limits = Limits::for_tests();
        for vocab in [128_256, 151_936, 256_000, 262_144] {
            for dtype in DType::ALL.into_iter().filter(|dtype| *dtype != DType::I64) {
                for shape in [[2304, vocab, 1, 1], [vocab, 512, 1, 1]] {
                    let home = Home::of(dtype, &shape, &limits, PlanOptions::default()).unwrap();
                    let by_need = home.bytes() > limits.max_storage_buffer_range;
                    assert_eq!(home.kind == StorageKind::Image, by_need, "{dtype:?} {shape:?}");
                    assert!(home.kind == StorageKind::Buffer || home.width.max(home.height) <= limits.max_image_2d);
                    let elements = crate::graph::Desc { dtype, shape }.bytes();
                    // Q8_0 spends a word on a scale of two bytes, and folds pad by less than a row of tiles per fold.
                    assert!(home.bytes() <= elements * 17 / 16, "{dtype:?} {shape:?}: {} of {elements}", home.bytes());
                }
            }
        }
    }

    #[test]
    fn folded_rows_come_back() {
        let limits = Limits { max_image_2d: 32, max_storage_buffer_range: 16, ..Limits::for_tests() };
        for (dtype, shape) in [
            (DType::F32, [5, 203, 1, 1]),
            (DType::F16, [9, 50, 6, 1]),
            (DType::Q8_0, [32, 300, 1, 1]),
            (DType::Q4_1, [64, 150, 1, 1]),
            (DType::MXFP4, [64, 150, 1, 1]),
            (DType::Q6_K, [256, 60, 1, 1]),
        ] {
            let home = Home::of(dtype, &shape, &limits, PlanOptions::default()).unwrap();
            assert!(home.kind == StorageKind::Image && home.width.max(home.height) <= 32, "{dtype:?} {shape:?}");
            let count = crate::graph::Desc { dtype, shape }.bytes();
            let bytes: Vec<u8> = (0..count).map(|i| (i % 251) as u8).collect();
            assert_eq!(home.unpack(&home.pack(&bytes).unwrap()).unwrap(), bytes, "{dtype:?} {shape:?}");
        }
    }

    /// However many operands a dispatch has, its buffers stay within what it may bind.
    #[test]
    fn bounded_dispatches_get_images_sooner() {
        let limits = Limits { max_bound_bytes: 128 << 20, ..Limits::for_tests() };
        let kind = |shape, storage| {
            let options = PlanOptions { storage, ..PlanOptions::default() };
            Home::of(DType::F32, &shape, &limits, options).unwrap().kind
        };
        assert_eq!(kind([2048, 2048, 1, 1], StorageChoice::Auto), StorageKind::Buffer);
        assert_eq!(kind([2048, 2052, 1, 1], StorageChoice::Auto), StorageKind::Image);
        assert_eq!(kind([4, 1_050_000, 1, 1], StorageChoice::Auto), StorageKind::Image, "by folding its rows");
        assert_eq!(kind([2048, 2052, 1, 1], StorageChoice::Buffer), StorageKind::Buffer);
    }

    #[test]
    fn what_no_storage_holds_is_refused_with_both_limits() {
        let limits = Limits { max_image_2d: 64, max_allocation: 1 << 10, ..Limits::for_tests() };
        let error = Home::of(DType::F32, &[400, 300, 1, 1], &limits, PlanOptions::default()).unwrap_err().to_string();
        assert!(error.contains("image limit of 64 texels") && error.contains("allocation of 1024 bytes"), "{error}");
    }
}
