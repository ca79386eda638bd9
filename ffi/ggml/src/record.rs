//! The geometry of a root tensor, and the home it can have on the device.

use fblayout::graph::{DType, Shape};

/// Shape and byte strides of a root tensor (one that is not a view), with its span in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// `ggml_type`.
    pub type_id: i32,
    /// Extents in elements.
    pub ne: [i64; 4],
    /// Strides in bytes.
    pub nb: [usize; 4],
    /// Bytes from the first element to the end of the last (`ggml_nbytes`).
    pub nbytes: usize,
}

/// A root tensor placed in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Root {
    /// Bytes from the buffer's base.
    pub offset: usize,
    /// What is there.
    pub geometry: Geometry,
}

impl Root {
    /// First byte after the root.
    pub fn end(&self) -> usize {
        self.offset.saturating_add(self.geometry.nbytes)
    }
}

/// The kernels' name of a `ggml_type`, if they compute with it.
pub fn dtype(type_id: i32) -> Option<DType> {
    Some(match type_id {
        0 => DType::F32,
        1 => DType::F16,
        2 => DType::Q4_0,
        3 => DType::Q4_1,
        6 => DType::Q5_0,
        7 => DType::Q5_1,
        8 => DType::Q8_0,
        10 => DType::Q2_K,
        11 => DType::Q3_K,
        12 => DType::Q4_K,
        13 => DType::Q5_K,
        14 => DType::Q6_K,
        20 => DType::IQ4_NL,
        23 => DType::IQ4_XS,
        26 => DType::I32,
        27 => DType::I64,
        30 => DType::BF16,
        34 => DType::TQ1_0,
        35 => DType::TQ2_0,
        39 => DType::MXFP4,
        _ => return None,
    })
}

impl Geometry {
    /// Element type and shape of the device tensor whose linear bytes are exactly this root's bytes; `None` when no home can.
    ///
    /// A contiguous root keeps its axes. A root stored permuted (a copy of a permuted tensor) gets the axes of its bytes, and a
    /// span with holes is one row of elements. Quantized roots must be contiguous, because blocks run along axis 0.
    pub fn home(&self) -> Option<(DType, Shape)> {
        let dtype = dtype(self.type_id)?;
        let mut shape: Shape = [1; 4];
        for (extent, &n) in shape.iter_mut().zip(&self.ne) {
            *extent = u32::try_from(n).ok().filter(|&n| n > 0)?;
        }
        let block_bytes = dtype.block_bytes() as usize;
        if !shape[0].is_multiple_of(dtype.block()) || !self.nbytes.is_multiple_of(block_bytes) {
            return None;
        }
        if self.is_dense(dtype, &shape, [0, 1, 2, 3]) {
            return Some((dtype, shape));
        }
        if dtype.block() > 1 {
            return None;
        }
        let mut order = [0, 1, 2, 3];
        order.sort_by_key(|&axis| (shape[axis] == 1, self.nb[axis]));
        if self.is_dense(dtype, &shape, order) {
            return Some((dtype, order.map(|axis| shape[axis])));
        }
        let elements = u32::try_from(self.nbytes / block_bytes).ok()?;
        Some((dtype, [elements, 1, 1, 1]))
    }

    /// True if the elements follow each other in the order of the axes.
    pub fn is_contiguous(&self) -> bool {
        self.home().is_some_and(|(dtype, shape)| self.is_dense(dtype, &shape, [0, 1, 2, 3]))
    }

    /// True if the axes, innermost first in `order`, follow each other without a gap.
    fn is_dense(&self, dtype: DType, shape: &Shape, order: [usize; 4]) -> bool {
        let mut next = Some(dtype.block_bytes() as usize);
        for axis in order {
            let slots = if axis == 0 { shape[0] / dtype.block() } else { shape[axis] };
            if slots > 1 && next != Some(self.nb[axis]) {
                return false;
            }
            next = next.and_then(|bytes| bytes.checked_mul(slots as usize));
        }
        next == Some(self.nbytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(type_id: i32, ne: [i64; 4], nb: [usize; 4], nbytes: usize) -> Geometry {
        Geometry { type_id, ne, nb, nbytes }
    }

    #[test]
    fn contiguous_roots_keep_their_axes() {
        let f32_root = geometry(0, [5, 1, 3, 1], [4, 20, 20, 60], 60);
        assert_eq!(f32_root.home(), Some((DType::F32, [5, 1, 3, 1])));
        let q4_1 = geometry(3, [64, 3, 1, 1], [20, 40, 120, 120], 120);
        assert_eq!(q4_1.home(), Some((DType::Q4_1, [64, 3, 1, 1])));
        let q6_k = geometry(14, [512, 3, 1, 1], [210, 420, 1260, 1260], 1260);
        assert_eq!(q6_k.home(), Some((DType::Q6_K, [512, 3, 1, 1])));
    }

    #[test]
    fn strides_of_single_axes_do_not_matter() {
        let root = geometry(1, [8, 1, 1, 1], [2, 77, 3, 1], 16);
        assert_eq!(root.home(), Some((DType::F16, [8, 1, 1, 1])));
    }

    #[test]
    fn permuted_roots_get_the_axes_of_their_bytes() {
        let root = geometry(0, [3, 5, 2, 1], [20, 4, 60, 120], 120);
        assert_eq!(root.home(), Some((DType::F32, [5, 3, 2, 1])));
    }

    #[test]
    fn a_turned_square_is_not_contiguous() {
        let turned = geometry(0, [3, 3, 1, 1], [12, 4, 36, 36], 36);
        assert_eq!(turned.home(), Some((DType::F32, [3, 3, 1, 1])));
        assert!(!turned.is_contiguous());
        assert!(geometry(0, [3, 3, 1, 1], [4, 12, 36, 36], 36).is_contiguous());
    }

    #[test]
    fn spans_with_holes_are_one_row() {
        let root = geometry(0, [3, 2, 1, 1], [4, 32, 64, 64], 44);
        assert_eq!(root.home(), Some((DType::F32, [11, 1, 1, 1])));
        let quantized = geometry(8, [32, 2, 1, 1], [34, 68, 136, 136], 102);
        assert_eq!(quantized.home(), None);
    }

    #[test]
    fn other_types_and_empty_roots_have_no_home() {
        assert_eq!(geometry(28, [4, 1, 1, 1], [8, 32, 32, 32], 32).home(), None);
        assert_eq!(geometry(0, [0, 4, 1, 1], [4, 0, 0, 0], 0).home(), None);
    }
}
