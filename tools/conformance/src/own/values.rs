//! Values of cases: a seeded sequence, and elements packed as a type or spread over a strided window. Pure.

use anyhow::Result;
use ggml_host::{Type, dequantize, quantize};

/// A sequence of numbers that a seed determines (splitmix64).
pub struct Rng(u64);

impl Rng {
    /// The sequence of a name.
    pub fn of(name: &str) -> Rng {
        Rng(hash(name))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..high`.
    pub fn float(&mut self, low: f32, high: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        low + unit * (high - low)
    }

    /// A whole number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// The numbers below `n` in some order.
    pub fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

/// FNV-1a: names choose their seed and their place in the bounded part, in every run alike.
pub fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Rows of `row` values as the bytes of a type. Integers are rounded.
pub fn encode(dtype: Type, row: usize, values: &[f32]) -> Result<Vec<u8>> {
    Ok(match dtype {
        Type::I32 => values.iter().flat_map(|&v| (v as i32).to_le_bytes()).collect(),
        Type::I64 => values.iter().flat_map(|&v| (v as i64).to_le_bytes()).collect(),
        Type::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        _ => quantize(dtype, row, values)?,
    })
}

/// The values that bytes of a type stand for. Integers beyond 2^24 lose their last bits, so that they are compared as bytes.
pub fn decode(dtype: Type, bytes: &[u8]) -> Result<Vec<f32>> {
    Ok(match dtype {
        Type::I32 => bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f32).collect(),
        Type::I64 => bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().expect("eight")) as f32).collect(),
        _ => dequantize(dtype, bytes)?,
    })
}

/// A strided window of elements in the bytes of its root.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Type of the elements.
    pub dtype: Type,
    /// Extents, innermost first.
    pub extents: [usize; 4],
    /// Distances in bytes.
    pub strides: [usize; 4],
    /// First byte in the root.
    pub offset: usize,
}

impl Window {
    /// The byte ranges of the window in the order of its elements: rows where those lie densely, else single blocks.
    fn pieces(&self) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
        let Window { dtype, extents: [x, y, z, w], strides, offset } = *self;
        let (block, bytes) = (dtype.block_len(), dtype.block_bytes());
        let dense = strides[0] == bytes;
        let (count, len) = if dense { (1, dtype.row_bytes(x)) } else { (x / block, bytes) };
        let outer = (0..w).flat_map(move |l| (0..z).flat_map(move |k| (0..y).map(move |j| [j, k, l])));
        outer.flat_map(move |[j, k, l]| {
            let row = offset + j * strides[1] + k * strides[2] + l * strides[3];
            (0..count).map(move |i| row + i * strides[0]..row + i * strides[0] + len)
        })
    }

    /// The window's elements from its root's bytes, densely.
    pub fn gather(&self, root: &[u8]) -> Vec<u8> {
        self.pieces().flat_map(|range| root[range].iter().copied()).collect()
    }

    /// Writes dense elements into the root's bytes.
    pub fn scatter(&self, dense: &[u8], root: &mut [u8]) {
        let mut at = 0;
        for range in self.pieces() {
            let len = range.len();
            root[range].copy_from_slice(&dense[at..at + len]);
            at += len;
        }
    }

    /// Marks the window's bytes.
    pub fn cover(&self, covered: &mut [bool]) {
        for range in self.pieces() {
            covered[range].fill(true);
        }
    }
}
