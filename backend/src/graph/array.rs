//! Dense f64 arrays, the oracles' tensors.

use super::{Shape, linear_strides, rows};

/// Every index of a shape, in linear order.
pub(super) fn indices(shape: &Shape) -> impl Iterator<Item = [u32; 4]> + use<> {
    let [n0, n1, n2, n3] = *shape;
    (0..n3).flat_map(move |i3| {
        (0..n2).flat_map(move |i2| (0..n1).flat_map(move |i1| (0..n0).map(move |i0| [i0, i1, i2, i3])))
    })
}

/// Indices along axes 1, 2, 3 of a row, which is numbered in linear order.
pub(super) fn row_index(row: usize, shape: &Shape) -> [u32; 3] {
    let (n1, n2) = (shape[1] as usize, shape[2] as usize);
    [row % n1, row / n1 % n2, row / (n1 * n2)].map(|i| i as u32)
}

/// A dense array in linear order, axis 0 innermost; integers are held as f64 too.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Extents.
    pub shape: Shape,
    /// Elements.
    pub data: Vec<f64>,
}

impl Array {
    /// An array of zeros.
    pub fn zeros(shape: Shape) -> Self {
        Self::from_fn(shape, |_| 0.0)
    }

    /// The array whose element at each index is `f(index)`.
    pub fn from_fn(shape: Shape, f: impl FnMut([u32; 4]) -> f64) -> Self {
        Self { shape, data: indices(&shape).map(f).collect() }
    }

    /// Position of an index in `data`.
    pub fn position(&self, index: [u32; 4]) -> usize {
        let at = index.iter().zip(linear_strides(&self.shape)).map(|(&i, stride)| u64::from(i) * stride).sum::<u64>();
        usize::try_from(at).expect("an array fits the address space")
    }

    /// Element at an index.
    pub fn at(&self, index: [u32; 4]) -> f64 {
        self.data[self.position(index)]
    }

    /// Element at an index taken modulo the extents: the array repeated without end.
    pub fn wrapped(&self, index: [u32; 4]) -> f64 {
        self.at(std::array::from_fn(|axis| index[axis] % self.shape[axis]))
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.data.chunks_exact(self.shape[0] as usize)
    }

    /// The rows, in order, writable.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f64]> {
        self.data.chunks_exact_mut(self.shape[0] as usize)
    }

    /// Number of rows as a float, for means.
    pub(super) fn row_count(&self) -> f64 {
        rows(&self.shape) as f64
    }

    /// Each element through `f`.
    pub fn map(&self, f: impl Fn(f64) -> f64) -> Self {
        Self { shape: self.shape, data: self.data.iter().map(|&x| f(x)).collect() }
    }

    /// Elements of two arrays of one shape through `f`.
    pub fn zip(&self, other: &Self, f: impl Fn(f64, f64) -> f64) -> Self {
        debug_assert_eq!(self.shape, other.shape);
        Self { shape: self.shape, data: self.data.iter().zip(&other.data).map(|(&x, &y)| f(x, y)).collect() }
    }

    /// Sum of the products of elements.
    pub fn dot(&self, other: &Self) -> f64 {
        debug_assert_eq!(self.shape, other.shape);
        self.data.iter().zip(&other.data).map(|(x, y)| x * y).sum()
    }
}
