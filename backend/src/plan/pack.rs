//! Host bytes <-> texels of a home, exact in both directions.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::graph::Shape;
use crate::layout::Illegal;

use super::{Home, QUANT_ROWS, TEXEL_BYTES};

impl Home {
    /// Texel bytes (rows of `width` texels) of a tensor's linear bytes; padding is zero. An error if the lengths do not match.
    pub fn pack(&self, linear: &[u8]) -> Result<Vec<u8>, Illegal> {
        match (self.dtype.quant_texels(), self.dtype.block_bytes()) {
            (Some(q), _) => self.pack_blocks(linear, q),
            (None, 2) => Ok(bytes(self.layout.pack(&words::<u16>(linear))?)),
            (None, _) => Ok(bytes(self.layout.pack(&words::<u32>(linear))?)),
        }
    }

    /// The inverse of [`Home::pack`].
    pub fn unpack(&self, texels: &[u8]) -> Result<Vec<u8>, Illegal> {
        match (self.dtype.quant_texels(), self.dtype.block_bytes()) {
            (Some(q), _) => self.unpack_blocks(texels, q),
            (None, 2) => Ok(bytes(self.layout.unpack(&words::<u16>(texels))?)),
            (None, _) => Ok(bytes(self.layout.unpack(&words::<u32>(texels))?)),
        }
    }

    fn pack_blocks(&self, linear: &[u8], q: u32) -> Result<Vec<u8>, Illegal> {
        let block_bytes = self.dtype.block_bytes() as usize;
        let (scale_bytes, quant_bytes) = block_parts(block_bytes, q);
        check_length(linear.len(), self.blocks() * block_bytes)?;
        let mut texels = vec![0; self.bytes() as usize];
        self.for_each_block(q, |block, quants, scale| {
            let block = &linear[block..block + block_bytes];
            texels[scale..scale + scale_bytes].copy_from_slice(&block[..scale_bytes]);
            texels[quants..quants + quant_bytes].copy_from_slice(&block[scale_bytes..]);
        });
        Ok(texels)
    }

    fn unpack_blocks(&self, texels: &[u8], q: u32) -> Result<Vec<u8>, Illegal> {
        let block_bytes = self.dtype.block_bytes() as usize;
        let (scale_bytes, quant_bytes) = block_parts(block_bytes, q);
        check_length(texels.len(), self.bytes() as usize)?;
        let mut linear = vec![0; self.blocks() * block_bytes];
        self.for_each_block(q, |block, quants, scale| {
            let block = &mut linear[block..block + block_bytes];
            block[..scale_bytes].copy_from_slice(&texels[scale..scale + scale_bytes]);
            block[scale_bytes..].copy_from_slice(&texels[quants..quants + quant_bytes]);
        });
        Ok(linear)
    }

    /// Number of blocks of a quantized tensor.
    fn blocks(&self) -> usize {
        self.block_box().into_iter().map(|n| n as usize).product()
    }

    /// Extents with axis 0 in blocks.
    fn block_box(&self) -> Shape {
        let mut shape = [1; 4];
        for (n, axis) in shape.iter_mut().zip(&self.layout.axes) {
            *n = axis.extent;
        }
        shape[0] /= self.dtype.block();
        shape
    }

    /// Calls with the byte offsets of every block: in the linear form, of its quants and of its scale word among the texels.
    fn for_each_block(&self, q: u32, mut f: impl FnMut(usize, usize, usize)) {
        let [blocks, rows, n2, n3] = self.block_box();
        let tile = QUANT_ROWS * q + 1;
        let mut linear = 0;
        for i3 in 0..n3 {
            for i2 in 0..n2 {
                for row in 0..rows {
                    for block in 0..blocks {
                        let at = self.layout.address(&[block * self.dtype.block(), row, i2, i3]);
                        let first = u64::from(at.y) * u64::from(self.width) + u64::from(at.x / QUANT_ROWS * tile);
                        let slot = at.x % QUANT_ROWS;
                        let quants = (first + u64::from(slot * q)) * TEXEL_BYTES;
                        let scale = (first + u64::from(QUANT_ROWS * q)) * TEXEL_BYTES + u64::from(slot) * 4;
                        f(linear, quants as usize, scale as usize);
                        linear += self.dtype.block_bytes() as usize;
                    }
                }
            }
        }
    }
}

/// Bytes of scales and of quants in a block whose quants fill `q` texels.
fn block_parts(block_bytes: usize, q: u32) -> (usize, usize) {
    let quants = q as usize * TEXEL_BYTES as usize;
    (block_bytes - quants, quants)
}

fn check_length(given: usize, expected: usize) -> Result<(), Illegal> {
    if given == expected { Ok(()) } else { Err(Illegal::WrongLength { given, expected }) }
}

/// Words of bytes that need not be aligned.
fn words<T: Pod>(bytes: &[u8]) -> Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(words) => words.into(),
        Err(_) => bytemuck::allocation::pod_collect_to_vec(bytes).into(),
    }
}

fn bytes<T: Pod>(words: Vec<T>) -> Vec<u8> {
    bytemuck::allocation::try_cast_vec(words).unwrap_or_else(|(_, words)| bytemuck::cast_slice(&words).to_vec())
}

#[cfg(test)]
mod tests {
    use crate::device::Limits;
    use crate::graph::{DType, elements};
    use crate::plan::{Home, PlanOptions};

    #[test]
    fn every_dtype_round_trips_bit_for_bit() {
        let limits = Limits::for_tests();
        for dtype in [DType::F32, DType::F16, DType::I32, DType::Q8_0, DType::Q4_1] {
            for shape in [[1, 1, 1, 1], [32, 1, 1, 1], [64, 5, 1, 1], [96, 4, 3, 2], [33, 7, 2, 1], [576, 130, 1, 1]] {
                if shape[0] % dtype.block() != 0 {
                    continue;
                }
                let home = Home::of(dtype, &shape, &limits, PlanOptions::default()).unwrap();
                let n = elements(&shape) / u64::from(dtype.block()) * u64::from(dtype.block_bytes());
                let linear: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
                let texels = home.pack(&linear).unwrap();
                assert_eq!(texels.len() as u64, home.bytes(), "{dtype:?} {shape:?}");
                assert_eq!(home.unpack(&texels).unwrap(), linear, "{dtype:?} {shape:?}");
            }
        }
    }
}
