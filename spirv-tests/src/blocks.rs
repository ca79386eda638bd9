//! Bytes of quantized types that nothing is converted to: blocks of random bytes whose scales make every element an integer.

use fblayout::graph::DType;

use crate::fill::Random;

/// Bytes of `count` elements. `seed` tells operands of a case apart.
pub(crate) fn integers(dtype: DType, count: usize, seed: u32) -> Vec<u8> {
    let mut random = Random::new(seed);
    let blocks = count / dtype.block() as usize;
    let mut bytes: Vec<u8> = (0..blocks * dtype.block_bytes() as usize).map(|_| random.below(256) as u8).collect();
    for block in bytes.chunks_exact_mut(dtype.block_bytes() as usize) {
        for &at in scales(dtype) {
            let half: u16 = [0x3c00, 0xbc00, 0x4000, 0xc000][random.below(4) as usize];
            block[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        if dtype == DType::MXFP4 {
            block[0] = 128 + random.below(2) as u8;
        }
    }
    bytes
}

/// Bytes of a block's f16 scale, and of its minimum: 1, -1, 2 or -2 there.
fn scales(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::IQ4_NL | DType::IQ4_XS => &[0],
        DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K => &[0, 2],
        DType::Q2_K => &[80, 82],
        DType::Q3_K => &[108],
        DType::Q6_K => &[208],
        DType::TQ1_0 => &[52],
        DType::TQ2_0 => &[64],
        DType::F32 | DType::F16 | DType::I32 | DType::BF16 | DType::I64 | DType::MXFP4 => &[],
    }
}
