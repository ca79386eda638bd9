//! Random bytes of a tensor, the same in every run: kernels, memories and power limits may be quicker with zeros.

use fblayout::graph::{BytesError, DType, Desc, encode};
use fblayout_models::Noise;

/// Blocks of random numbers that a tensor repeats. A prime, so that neighbouring rows differ.
const PERIOD: usize = 65_537;

/// Bytes of a tensor in the host's linear form.
///
/// # Errors
/// A type that numbers are not encoded in, and whose blocks are not known here.
pub fn bytes(desc: Desc, seed: u64) -> Result<Vec<u8>, BytesError> {
    let Desc { dtype, .. } = desc;
    let whole = desc.bytes() as usize;
    let blocks = PERIOD.min(whole / dtype.block_bytes() as usize);
    let mut noise = Noise(seed);
    let mut bytes = match halves(dtype) {
        [] => {
            let numbers: Vec<f32> =
                (0..blocks * dtype.block() as usize).map(|_| (2.0 * noise.unit() - 1.0) as f32).collect();
            encode(dtype, &numbers)?
        }
        halves => super_blocks(dtype, blocks, halves, &mut noise)?,
    };
    let period = bytes.len();
    bytes.reserve_exact(whole - period);
    while bytes.len() < whole {
        bytes.extend_from_within(..period.min(whole - bytes.len()));
    }
    Ok(bytes)
}

/// Where blocks of a type that nothing is encoded in have the f16 scales of all else in them.
fn halves(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q2_K => &[80, 82],
        DType::Q3_K => &[108],
        DType::Q4_K | DType::Q5_K => &[0, 2],
        DType::Q6_K => &[208],
        _ => &[],
    }
}

/// Random blocks whose own scales are between 2^-9 and 2^-8: those within a block and the quants multiply to numbers about 1.
fn super_blocks(dtype: DType, blocks: usize, halves: &[usize], noise: &mut Noise) -> Result<Vec<u8>, BytesError> {
    let size = dtype.block_bytes() as usize;
    let mut bytes: Vec<u8> = (0..blocks * size).map(|_| (256.0 * noise.unit()) as u8).collect();
    for block in bytes.chunks_exact_mut(size) {
        for &at in halves {
            let scale = encode(DType::F16, &[((1.0 + noise.unit()) / 512.0) as f32])?;
            block[at..at + 2].copy_from_slice(&scale);
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::graph::decode;

    #[test]
    fn every_type_is_filled_with_small_finite_numbers() {
        for dtype in [DType::F32, DType::F16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K] {
            let desc = Desc { dtype, shape: [512, 9, 1, 1] };
            let made = bytes(desc, 1).unwrap();
            assert_eq!(made.len() as u64, desc.bytes(), "{dtype:?}");
            let numbers = decode(dtype, &made).unwrap();
            assert!(numbers.iter().all(|x| x.abs() < 16.0), "{dtype:?}");
            assert!(numbers.iter().filter(|x| **x == 0.0).count() < numbers.len() / 4, "{dtype:?}");
            assert_eq!(made, bytes(desc, 1).unwrap());
            assert_ne!(made, bytes(desc, 2).unwrap());
        }
    }

    #[test]
    fn long_tensors_repeat_numbers_but_not_by_rows() {
        let made = bytes(Desc { dtype: DType::F16, shape: [4096, 40, 1, 1] }, 1).unwrap();
        assert_eq!(made[..4096], made[2 * PERIOD..][..4096]);
        assert_ne!(made[..8192], made[8192..][..8192]);
    }

    #[test]
    fn types_without_random_blocks_are_refused() {
        assert!(bytes(Desc { dtype: DType::IQ4_XS, shape: [256, 1, 1, 1] }, 1).is_err());
    }
}
