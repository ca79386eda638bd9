//! Host bytes <-> texels of a home, exact in both directions.

use std::borrow::Cow;

use bytemuck::Pod;

use crate::graph::{Form, Shape, TILE_SLOTS};
use crate::layout::Illegal;

use super::{Home, TEXEL_BYTES};

impl Home {
    /// Texel bytes (rows of `width` texels) of a tensor's linear bytes; padding is zero. An error if the lengths do not match.
    pub fn pack(&self, linear: &[u8]) -> Result<Vec<u8>, Illegal> {
        if self.dtype.is_quantized() {
            check_length(linear.len(), self.blocks() * self.dtype.block_bytes() as usize)?;
            let mut texels = vec![0; self.bytes() as usize];
            self.for_each_piece(|host, device, length| {
                texels[device..device + length].copy_from_slice(&linear[host..host + length]);
            });
            return Ok(texels);
        }
        match self.dtype.block_bytes() {
            2 => Ok(bytes(self.layout.pack(&words::<u16>(linear))?)),
            8 => Ok(bytes(self.layout.pack(&words::<u64>(linear))?)),
            _ => Ok(bytes(self.layout.pack(&words::<u32>(linear))?)),
        }
    }

    /// The inverse of [`Home::pack`].
    pub fn unpack(&self, texels: &[u8]) -> Result<Vec<u8>, Illegal> {
        if self.dtype.is_quantized() {
            check_length(texels.len(), self.bytes() as usize)?;
            let mut linear = vec![0; self.blocks() * self.dtype.block_bytes() as usize];
            self.for_each_piece(|host, device, length| {
                linear[host..host + length].copy_from_slice(&texels[device..device + length]);
            });
            return Ok(linear);
        }
        match self.dtype.block_bytes() {
            2 => Ok(bytes(self.layout.unpack(&words::<u16>(texels))?)),
            8 => Ok(bytes(self.layout.unpack(&words::<u64>(texels))?)),
            _ => Ok(bytes(self.layout.unpack(&words::<u32>(texels))?)),
        }
    }

    /// Number of blocks of a quantized tensor.
    fn blocks(&self) -> usize {
        self.block_box().into_iter().map(|n| n as usize).product()
    }

    /// Extents with axis 0 in blocks.
    pub(super) fn block_box(&self) -> Shape {
        let mut shape = [1; 4];
        for (n, axis) in shape.iter_mut().zip(&self.layout.axes) {
            *n = axis.extent;
        }
        shape[0] /= self.dtype.block();
        shape
    }

    /// Calls for each run of bytes of every block that stays together: its offset in the linear form, its offset among the texels, and its
    /// length.
    fn for_each_piece(&self, mut f: impl FnMut(usize, usize, usize)) {
        let [blocks, rows, n2, n3] = self.block_box();
        let mut linear = 0;
        for i3 in 0..n3 {
            for i2 in 0..n2 {
                for row in 0..rows {
                    for block in 0..blocks {
                        for (within, device, length) in self.pieces([block, row, i2, i3]) {
                            f(linear + within, device, length);
                        }
                        linear += self.dtype.block_bytes() as usize;
                    }
                }
            }
        }
    }

    /// The runs of bytes of a block, or of an element of a plain type, whose index counts blocks on axis 0: offset within it, offset among
    /// the texels, and length, which may be 0.
    pub(super) fn pieces(&self, [block, row, i2, i3]: Shape) -> [(usize, usize, usize); 2] {
        let block_bytes = self.dtype.block_bytes() as usize;
        let at = self.layout.address(&[block * self.dtype.block(), row, i2, i3]);
        let first = (u64::from(at.y) * u64::from(self.width) * TEXEL_BYTES) as usize;
        match self.dtype.form() {
            Form::Tile { quants } => {
                let quant_bytes = quants as usize * TEXEL_BYTES as usize;
                let tile_bytes = TILE_SLOTS as usize * quant_bytes + TEXEL_BYTES as usize;
                let scale_bytes = block_bytes - quant_bytes;
                let (tile, slot) = ((at.x / TILE_SLOTS) as usize, (at.x % TILE_SLOTS) as usize);
                let tile = first + tile * tile_bytes;
                let scale = tile + TILE_SLOTS as usize * quant_bytes + 4 * slot;
                [(0, scale, scale_bytes), (scale_bytes, tile + slot * quant_bytes, quant_bytes)]
            }
            Form::Block => [(0, first + at.x as usize * block_bytes, block_bytes), (block_bytes, 0, 0)],
            Form::Texel => {
                let texel = first + at.x as usize * TEXEL_BYTES as usize;
                [(0, texel + at.lane as usize * block_bytes, block_bytes), (block_bytes, 0, 0)]
            }
        }
    }
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
        for dtype in DType::ALL {
            for shape in [[1, 1, 1, 1], [32, 1, 1, 1], [64, 5, 1, 1], [96, 4, 3, 2], [33, 7, 2, 1], [512, 130, 1, 1]] {
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
