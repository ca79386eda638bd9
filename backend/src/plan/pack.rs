//! Host bytes <-> texels of a home, exact in both directions.

use std::borrow::Cow;
use std::ops::Range;

use bytemuck::Pod;

use crate::graph::{Form, TILE_SLOTS};
use crate::layout::{Illegal, copy_run};

use super::{Home, TEXEL_BYTES};

impl Home {
    /// Texel bytes (rows of `width` texels) of a tensor's linear bytes; padding is zero. An error if the lengths do not match.
    pub fn pack(&self, linear: &[u8]) -> Result<Vec<u8>, Illegal> {
        if self.dtype.is_quantized() {
            check_length(linear.len(), self.linear_bytes())?;
            let mut texels = vec![0; self.bytes() as usize];
            self.for_each_run(0..linear.len(), |host, device, length| {
                copy_run(&mut texels[device..device + length], &linear[host..host + length]);
            })?;
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
            let mut linear = vec![0; self.linear_bytes()];
            self.for_each_run(0..linear.len(), |host, device, length| {
                copy_run(&mut linear[host..host + length], &texels[device..device + length]);
            })?;
            return Ok(linear);
        }
        match self.dtype.block_bytes() {
            2 => Ok(bytes(self.layout.unpack(&words::<u16>(texels))?)),
            8 => Ok(bytes(self.layout.unpack(&words::<u64>(texels))?)),
            _ => Ok(bytes(self.layout.unpack(&words::<u32>(texels))?)),
        }
    }

    /// Calls for each run of bytes, of a range of the linear form, that stays together: its offset there, its offset among the texels, and its
    /// length. The range lies within the tensor.
    pub(super) fn for_each_run(
        &self,
        bytes: Range<usize>,
        mut f: impl FnMut(usize, usize, usize),
    ) -> Result<(), Illegal> {
        let unit = self.dtype.block_bytes() as usize;
        let units = bytes.start / unit..bytes.end.div_ceil(unit);
        // The first and the last element or block may be there in part.
        let mut part = |host: usize, device: usize, length: usize| {
            let (start, end) = (host.max(bytes.start), (host + length).min(bytes.end));
            if start < end {
                f(start, device + start - host, end - start);
            }
        };
        if self.dtype.form() == Form::Texel {
            return self.layout.for_each_run(units.start, units.len(), |from, to, run| {
                part((units.start + from) * unit, to * unit, run * unit);
            });
        }
        let slots = self.layout.of_slots()?;
        let (width, row_bytes) = (slots.width() as usize, self.row_bytes());
        let quants = self.dtype.quant_texels().map(|texels| texels as usize * TEXEL_BYTES as usize);
        slots.for_each_run(units.start, units.len(), |from, to, run| {
            let host = (units.start + from) * unit;
            let Some(quant_bytes) = quants else {
                // Rows of blocks end with bytes of padding.
                let (mut done, mut slot) = (0, to);
                while done < run {
                    let here = (run - done).min(width - slot % width);
                    part(host + done * unit, slot / width * row_bytes + slot % width * unit, here * unit);
                    (done, slot) = (done + here, slot + here);
                }
                return;
            };
            let tile_slots = TILE_SLOTS as usize;
            let (tile_bytes, scale_bytes) = (tile_slots * quant_bytes + TEXEL_BYTES as usize, unit - quant_bytes);
            for k in 0..run {
                let (host, x) = (host + k * unit, (to + k) % width);
                let tile = (to + k) / width * row_bytes + x / tile_slots * tile_bytes;
                let slot = x % tile_slots;
                part(host, tile + tile_slots * quant_bytes + 4 * slot, scale_bytes);
                part(host + scale_bytes, tile + slot * quant_bytes, quant_bytes);
            }
        })
    }

    pub(super) fn row_bytes(&self) -> usize {
        self.width as usize * TEXEL_BYTES as usize
    }

    /// Whether the texels are the linear bytes, one for one.
    pub fn is_linear(&self) -> bool {
        let whole = self.linear_bytes() as u64 == self.bytes();
        whole
            && match self.dtype.form() {
                Form::Texel => self.layout.view().is_linear(self.dtype.lanes(), self.width),
                Form::Tile { .. } => false,
                Form::Block => self.layout.of_slots().is_ok_and(|slots| slots.view().is_linear(1, slots.width())),
            }
    }

    /// Bytes of the linear form.
    fn linear_bytes(&self) -> usize {
        let elements: usize = self.layout.linear_len();
        elements / self.dtype.block() as usize * self.dtype.block_bytes() as usize
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
