//! Host bytes <-> texels of a home, exact in both directions.

use crate::graph::Shape;

use super::{Home, QUANT_ROWS, TEXEL_BYTES};

impl Home {
    /// Texel bytes (rows of `width` texels) of a tensor's linear bytes; padding is zero.
    ///
    /// # Panics
    /// If `linear` is not exactly the tensor's bytes; callers check lengths at the border.
    pub fn pack(&self, linear: &[u8]) -> Vec<u8> {
        match self.dtype.quant_texels() {
            Some(q) => self.pack_blocks(linear, q),
            None if self.dtype.block_bytes() == 2 => {
                bytemuck::cast_slice(&self.layout.pack::<u16>(&cast::<u16>(linear))).to_vec()
            }
            None => bytemuck::cast_slice(&self.layout.pack::<u32>(&cast::<u32>(linear))).to_vec(),
        }
    }

    /// The inverse of [`Home::pack`].
    pub fn unpack(&self, texels: &[u8]) -> Vec<u8> {
        match self.dtype.quant_texels() {
            Some(q) => self.unpack_blocks(texels, q),
            None if self.dtype.block_bytes() == 2 => {
                bytemuck::cast_slice(&self.layout.unpack::<u16>(&cast::<u16>(texels))).to_vec()
            }
            None => bytemuck::cast_slice(&self.layout.unpack::<u32>(&cast::<u32>(texels))).to_vec(),
        }
    }

    fn pack_blocks(&self, linear: &[u8], q: u32) -> Vec<u8> {
        let scale_bytes = self.dtype.block_bytes() as usize - QUANT_BYTES * q as usize;
        let mut texels = vec![0; self.bytes() as usize];
        self.for_each_block(q, |block, quants, scale| {
            let block = &linear[block..block + self.dtype.block_bytes() as usize];
            texels[scale..scale + scale_bytes].copy_from_slice(&block[..scale_bytes]);
            texels[quants..quants + block.len() - scale_bytes].copy_from_slice(&block[scale_bytes..]);
        });
        texels
    }

    fn unpack_blocks(&self, texels: &[u8], q: u32) -> Vec<u8> {
        let block_bytes = self.dtype.block_bytes() as usize;
        let scale_bytes = block_bytes - QUANT_BYTES * q as usize;
        let [blocks, rows, n2, n3] = self.block_box();
        let mut linear = vec![0; block_bytes * (blocks * rows * n2 * n3) as usize];
        self.for_each_block(q, |block, quants, scale| {
            let block = &mut linear[block..block + block_bytes];
            block[..scale_bytes].copy_from_slice(&texels[scale..scale + scale_bytes]);
            let n = block_bytes - scale_bytes;
            block[scale_bytes..].copy_from_slice(&texels[quants..quants + n]);
        });
        linear
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

/// Bytes of quants in one texel.
const QUANT_BYTES: usize = TEXEL_BYTES as usize;

/// Words of bytes that need not be aligned.
fn cast<T: bytemuck::Pod>(bytes: &[u8]) -> std::borrow::Cow<'_, [T]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(words) => words.into(),
        Err(_) => bytemuck::allocation::pod_collect_to_vec(bytes).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Limits;
    use crate::graph::{DType, elements};
    use crate::plan::{Home, StorageChoice};

    #[test]
    fn every_dtype_round_trips_bit_for_bit() {
        let limits = Limits::for_tests();
        for dtype in [DType::F32, DType::F16, DType::I32, DType::Q8_0, DType::Q4_1] {
            for shape in [[1, 1, 1, 1], [32, 1, 1, 1], [64, 5, 1, 1], [96, 4, 3, 2], [33, 7, 2, 1], [576, 130, 1, 1]] {
                if shape[0] % dtype.block() != 0 {
                    continue;
                }
                let home = Home::of(dtype, &shape, &limits, StorageChoice::Auto).unwrap();
                let n = elements(&shape) / u64::from(dtype.block()) * u64::from(dtype.block_bytes());
                let linear: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
                let texels = home.pack(&linear);
                assert_eq!(texels.len() as u64, home.bytes(), "{dtype:?} {shape:?}");
                assert_eq!(home.unpack(&texels), linear, "{dtype:?} {shape:?}");
            }
        }
    }
}

impl crate::layout::Layout {
    fn pack<T: Copy + Default>(&self, linear: &[T]) -> Vec<T> {
        let mut out = vec![T::default(); self.width() as usize * self.height() as usize * self.lanes() as usize];
        self.each(|i, at| out[at] = linear[i]);
        out
    }
    fn unpack<T: Copy + Default>(&self, phys: &[T]) -> Vec<T> {
        let n: usize = self.axes.iter().map(|a| a.extent as usize).product();
        let mut out = vec![T::default(); n];
        self.each(|i, at| out[i] = phys[at]);
        out
    }
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let e: Vec<u32> = self.axes.iter().map(|a| a.extent).collect();
        let mut i = 0;
        for i3 in 0..e[3] {
            for i2 in 0..e[2] {
                for i1 in 0..e[1] {
                    for i0 in 0..e[0] {
                        let p = self.address(&[i0, i1, i2, i3]);
                        f(i, ((p.y * self.width() + p.x) * self.lanes() + p.lane) as usize);
                        i += 1;
                    }
                }
            }
        }
    }
}
