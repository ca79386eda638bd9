//! Tensors that are zero almost everywhere, as the one-hot labels of a loss: few texels say all of it.

use std::collections::BTreeMap;

use super::{Home, TEXEL_BYTES};

/// Bytes of a tensor from which on it is worth a look.
const LARGE: usize = 1 << 20;

/// Elements that are not zero, at most: one of so many, and no more than this altogether.
const ONE_OF: usize = 256;
const MOST: usize = 1 << 14;

/// Bytes that are compared with zero at once.
const BLOCK: usize = 256;

/// A texel, by its number in the order of rows.
pub type Texel = (u64, [u8; TEXEL_BYTES as usize]);

impl Home {
    /// The texels of a large tensor of four-byte elements that are not zero, ascending; `None` where they are not few, so that
    /// [`Home::pack`] serves better. Bit for bit: a negative zero is none.
    pub fn pack_sparse(&self, linear: &[u8]) -> Option<Vec<Texel>> {
        let element = self.dtype.block_bytes() as usize;
        let shape = [0, 1, 2, 3].map(|axis| self.layout.axes.get(axis).map_or(1, |axis| axis.extent as usize));
        let count: usize = shape.iter().product();
        if self.dtype.is_quantized() || element != 4 || linear.len() < LARGE || linear.len() != count * element {
            return None;
        }
        let most = MOST.min(count / ONE_OF);
        // Counted first: a tensor that is not sparse is told by its first elements.
        let others = || {
            let blocks = linear.chunks(BLOCK).enumerate();
            let some = blocks.filter(|(_, bytes)| bytes.iter().fold(0, |any, byte| any | byte) != 0);
            some.flat_map(|(block, bytes)| {
                let words = bytes.chunks_exact(element).enumerate().filter(|(_, bytes)| **bytes != [0; 4]);
                words.map(move |(word, bytes)| (block * (BLOCK / element) + word, bytes))
            })
        };
        if others().nth(most).is_some() {
            return None;
        }
        let mut texels: BTreeMap<u64, [u8; TEXEL_BYTES as usize]> = BTreeMap::new();
        for (mut at, bytes) in others() {
            let index = shape.map(|extent| {
                let i = at % extent;
                at /= extent;
                i as u32
            });
            let place = self.layout.address(&index);
            let texel = texels.entry(u64::from(place.y) * u64::from(self.width) + u64::from(place.x)).or_default();
            let lane = place.lane as usize * element;
            texel[lane..lane + element].copy_from_slice(bytes);
        }
        Some(texels.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Limits;
    use crate::graph::DType;
    use crate::plan::{Home, PlanOptions, StorageChoice, TEXEL_BYTES};

    /// One value a row, as labels are; two in one texel; a negative zero; in images whose rows are folded as well.
    #[test]
    fn few_texels_are_the_packed_ones() {
        let shape = [1001, 300, 1, 1];
        let limits = Limits { max_image_2d: 600, ..Limits::for_tests() };
        for storage in [StorageChoice::Buffer, StorageChoice::Image] {
            let options = PlanOptions { storage, ..PlanOptions::default() };
            let home = Home::of(DType::F32, &shape, &limits, options).unwrap();
            let mut numbers = vec![0.0_f32; 1001 * 300];
            (0..300).for_each(|row| numbers[1001 * row + 7 * row % 1001] = 1.0 / (row + 1) as f32);
            (numbers[1], numbers[300_000]) = (-0.0, f32::NAN);
            let linear: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            let sparse = home.pack_sparse(&linear).unwrap();
            assert!(sparse.len() <= 302 && sparse.is_sorted_by_key(|texel| texel.0), "{storage:?}");
            let mut texels = vec![0; home.bytes() as usize];
            for (at, texel) in sparse {
                let at = (at * TEXEL_BYTES) as usize;
                texels[at..at + texel.len()].copy_from_slice(&texel);
            }
            assert!(texels == home.pack(&linear).unwrap(), "{storage:?}");
        }
    }

    #[test]
    fn what_is_not_sparse_is_packed() {
        let sparse = |dtype: DType, shape: [u32; 4], byte: u8| {
            let home = Home::of(dtype, &shape, &Limits::for_tests(), PlanOptions::default()).unwrap();
            let n = shape.iter().product::<u32>() / dtype.block() * dtype.block_bytes();
            home.pack_sparse(&vec![byte; n as usize]).map(|texels| texels.len())
        };
        assert_eq!(sparse(DType::F32, [1024, 256, 1, 1], 0), Some(0));
        assert_eq!(sparse(DType::F32, [1024, 256, 1, 1], 1), None, "dense");
        assert_eq!(sparse(DType::F32, [1024, 255, 1, 1], 0), None, "small");
        assert_eq!(sparse(DType::F16, [1024, 512, 1, 1], 0), None, "halves");
        assert_eq!(sparse(DType::Q8_0, [1024, 1024, 1, 1], 0), None, "blocks");
    }
}
