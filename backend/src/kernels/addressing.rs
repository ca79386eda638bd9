//! An operand as a shader sees it, read back from its specialization constants: the very numbers that the device gets.

use super::StorageKind;
use super::operand::{
    AXES, DTYPE, EXTENTS, FIELDS_PER_AXIS, FIRST_ID, IDS_PER_OPERAND, LANE_AXIS, ORIGIN, PITCH, STORAGE,
};
use crate::graph::{DType, Shape};

/// Where the elements of an operand are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addressing {
    /// Element type.
    pub dtype: DType,
    /// Kind of storage.
    pub storage: StorageKind,
    /// Texels per row of a buffer.
    pub pitch: u32,
    /// Axis along which the elements of a texel follow each other.
    pub lane_axis: Option<usize>,
    /// Extents, elements.
    pub extents: Shape,
    origin: [u32; 2],
    /// `r0, r1, x0, y0, x1, y1, x2, y2` of every axis.
    axes: [[u32; FIELDS_PER_AXIS as usize]; 4],
}

impl Addressing {
    /// Operand `slot` of a dispatch with these constants, sorted by id; `None` when it has no such operand.
    pub fn of(constants: &[(u32, u32)], slot: u32) -> Option<Self> {
        let field = |field: u32| constant(constants, FIRST_ID + IDS_PER_OPERAND * slot + field);
        let axis = |a: u32| -> Option<[u32; 8]> {
            let mut fields = [0; 8];
            for (value, number) in fields.iter_mut().zip(AXES + FIELDS_PER_AXIS * a..) {
                *value = field(number)?;
            }
            Some(fields)
        };
        let dtypes = [DType::F32, DType::F16, DType::I32, DType::Q8_0, DType::Q4_1];
        Some(Self {
            dtype: *dtypes.get(field(DTYPE)? as usize)?,
            storage: if field(STORAGE)? == 0 { StorageKind::Buffer } else { StorageKind::Image },
            pitch: field(PITCH)?,
            lane_axis: Some(field(LANE_AXIS)? as usize).filter(|&axis| axis < 4),
            extents: [field(EXTENTS)?, field(EXTENTS + 1)?, field(EXTENTS + 2)?, field(EXTENTS + 3)?],
            origin: [field(ORIGIN)?, field(ORIGIN + 1)?],
            axes: [axis(0)?, axis(1)?, axis(2)?, axis(3)?],
        })
    }

    /// Texel of element (0, 0, 0, 0): its column and row.
    pub fn origin(&self) -> [u32; 2] {
        self.origin
    }

    /// The digits of an axis, innermost first: numbers of values, and the columns and rows that the texel moves by with each. Those of
    /// one value are left out. On the lane axis they count slots.
    pub fn digits(&self, axis: usize) -> Vec<(u32, [u32; 2])> {
        let steps = match self.lane_axis == Some(axis) {
            true => self.extents[axis].div_ceil(self.dtype.lanes()),
            false => self.extents[axis],
        };
        let [r0, r1, x0, y0, x1, y1, x2, y2] = self.axes[axis];
        let digits = [(r0, [x0, y0]), (r1, [x1, y1]), (steps.div_ceil(r0 * r1), [x2, y2])];
        digits.into_iter().filter(|&(radix, _)| radix > 1).collect()
    }

    /// First texel of the slot that holds an element: its column and row.
    pub fn texel(&self, index: [u32; 4]) -> [u32; 2] {
        let [mut x, mut y] = self.origin;
        for (axis, (i, fields)) in index.into_iter().zip(self.axes).enumerate() {
            let i = if self.lane_axis == Some(axis) { i / self.dtype.lanes() } else { i };
            let [r0, r1, x0, y0, x1, y1, x2, y2] = fields;
            let (d0, d1, d2) = (i % r0, i / r0 % r1, i / (r0 * r1));
            x += x0 * d0 + x1 * d1 + x2 * d2;
            y += y0 * d0 + y1 * d1 + y2 * d2;
        }
        [x, y]
    }

    /// The same in its storage's own geometry: a buffer is one row.
    pub fn place(&self, index: [u32; 4]) -> [u32; 2] {
        let [x, y] = self.texel(index);
        match self.storage {
            StorageKind::Buffer => [y.saturating_mul(self.pitch).saturating_add(x), 0],
            StorageKind::Image => [x, y],
        }
    }

    /// Bytes of the slots that hold the operand's elements, each counted once however often it is repeated.
    pub fn bytes(&self) -> u64 {
        let slots = (0..4).map(|axis| {
            let steps = match self.lane_axis == Some(axis) {
                true => self.extents[axis].div_ceil(self.dtype.lanes()),
                false => self.extents[axis],
            };
            let [r0, r1, x0, y0, x1, y1, x2, y2] = self.axes[axis];
            let outer = steps.div_ceil(r0 * r1);
            let digits = [(r0, x0, y0), (r1, x1, y1), (outer, x2, y2)];
            let repeated: u32 = digits.iter().filter(|&&(_, x, y)| x == 0 && y == 0).map(|&(r, ..)| r).product();
            u64::from(steps.div_ceil(repeated))
        });
        slots.product::<u64>() * slot_bytes(self.dtype)
    }
}

/// Bytes of a slot: a texel, or the quants of a row of a block and their word of scales.
fn slot_bytes(dtype: DType) -> u64 {
    dtype.quant_texels().map_or(16, |q| u64::from(16 * q + 4))
}

/// The constant of that id; `constants` are sorted by id.
pub(super) fn constant(constants: &[(u32, u32)], id: u32) -> Option<u32> {
    constants.binary_search_by_key(&id, |&(id, _)| id).ok().map(|at| constants[at].1)
}
