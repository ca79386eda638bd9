//! Host bytes of each dtype: ggml's linear form to numbers and back.

use half::f16;

use super::DType;

/// Bytes or elements that are no whole number of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} {what} are no whole number of {dtype:?} blocks of {block}")]
pub struct BytesError {
    dtype: DType,
    what: &'static str,
    count: usize,
    block: u32,
}

/// Numbers that bytes in a dtype's linear form stand for.
pub fn decode(dtype: DType, bytes: &[u8]) -> Result<Vec<f64>, BytesError> {
    let block = dtype.block_bytes();
    let blocks = bytes.chunks_exact(block as usize);
    if !blocks.remainder().is_empty() {
        return Err(BytesError { dtype, what: "bytes", count: bytes.len(), block });
    }
    let half = |b: &[u8]| f64::from(f16::from_le_bytes([b[0], b[1]]));
    let word = |b: &[u8]| [b[0], b[1], b[2], b[3]];
    Ok(match dtype {
        DType::F32 => blocks.map(|b| f64::from(f32::from_le_bytes(word(b)))).collect(),
        DType::I32 => blocks.map(|b| f64::from(i32::from_le_bytes(word(b)))).collect(),
        DType::F16 => blocks.map(half).collect(),
        DType::Q8_0 => blocks
            .flat_map(|b| {
                let d = half(b);
                b[2..].iter().map(move |&q| d * f64::from(q as i8))
            })
            .collect(),
        DType::Q4_1 => blocks
            .flat_map(|b| {
                let (d, m, quants) = (half(b), half(&b[2..]), &b[4..]);
                let low = quants.iter().map(|q| q & 15);
                low.chain(quants.iter().map(|q| q >> 4)).map(move |q| d * f64::from(q) + m)
            })
            .collect(),
    })
}

/// Bytes in a dtype's linear form for numbers, rounded to nearest: scales of a block from its extremes, I32 by truncation.
pub fn encode(dtype: DType, numbers: &[f32]) -> Result<Vec<u8>, BytesError> {
    let block = dtype.block();
    let blocks = numbers.chunks_exact(block as usize);
    if !blocks.remainder().is_empty() {
        return Err(BytesError { dtype, what: "elements", count: numbers.len(), block });
    }
    Ok(match dtype {
        DType::F32 => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::I32 => numbers.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect(),
        DType::F16 => numbers.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect(),
        DType::Q8_0 => blocks.flat_map(q8_0).collect(),
        DType::Q4_1 => blocks.flat_map(q4_1).collect(),
    })
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

fn q8_0(block: &[f32]) -> Vec<u8> {
    let d = block.iter().fold(0.0_f32, |max, x| max.max(x.abs())) / 127.0;
    let scale = inverse(d);
    let quants = block.iter().map(|x| (x * scale).round() as i8 as u8);
    f16::from_f32(d).to_le_bytes().into_iter().chain(quants).collect()
}

fn q4_1(block: &[f32]) -> Vec<u8> {
    let min = block.iter().copied().fold(f32::INFINITY, f32::min);
    let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let d = (max - min) / 15.0;
    let scale = inverse(d);
    let quant = |x: f32| (((x - min) * scale + 0.5) as u8).min(15);
    let (low, high) = block.split_at(block.len() / 2);
    let quants = low.iter().zip(high).map(|(&l, &h)| quant(l) | quant(h) << 4);
    let head = [f16::from_f32(d).to_le_bytes(), f16::from_f32(min).to_le_bytes()];
    head.into_iter().flatten().chain(quants).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Vec<f32> {
        (0..n).map(|i| ((i * i) as f32 * 0.37).sin() * 3.0 - 0.5).collect()
    }

    #[test]
    fn plain_types_come_back_exactly() {
        let floats = wave(37);
        let same = |dtype, x: &[f32]| {
            let back = decode(dtype, &encode(dtype, x).unwrap()).unwrap();
            assert!(back.iter().zip(x).all(|(&b, &x)| b == f64::from(x)), "{dtype:?}");
        };
        same(DType::F32, &floats);
        same(DType::I32, &[-3.0, 0.0, 49151.0]);
        same(DType::F16, &[-3.0, 0.25, 1025.0, f32::NEG_INFINITY]);
    }

    #[test]
    fn quantized_types_come_back_within_half_a_step() {
        for (dtype, levels) in [(DType::Q8_0, 254.0), (DType::Q4_1, 15.0)] {
            let x = wave(96);
            let back = decode(dtype, &encode(dtype, &x).unwrap()).unwrap();
            for (x, back) in x.chunks(32).zip(back.chunks(32)) {
                let max = x.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
                let (low, high) = x.iter().fold((0.0_f32, 0.0_f32), |(l, h), &x| (l.min(x), h.max(x)));
                let range = if dtype == DType::Q8_0 { 2.0 * max } else { high - low };
                // Half a step, and the rounding of scale and minimum to f16 (2^-11 of the greatest value each).
                let bound = f64::from(range) / levels / 2.0 + f64::from(max + range) / 2048.0;
                assert!(x.iter().zip(back).all(|(&x, &b)| (b - f64::from(x)).abs() <= bound), "{dtype:?}");
            }
        }
    }

    #[test]
    fn known_blocks_decode() {
        let mut q8 = f16::from_f32(0.5).to_le_bytes().to_vec();
        q8.extend((0..32).map(|i| (i - 16_i8) as u8));
        assert!(decode(DType::Q8_0, &q8).unwrap().iter().enumerate().all(|(i, &x)| x == (i as f64 - 16.0) / 2.0));
        let mut q4 = [f16::from_f32(2.0).to_le_bytes(), f16::from_f32(-1.0).to_le_bytes()].concat();
        q4.extend((0..16_u8).map(|i| i | (15 - i) << 4));
        let want = (0..16).chain((0..16).rev()).map(|q| 2.0 * f64::from(q) - 1.0);
        assert!(decode(DType::Q4_1, &q4).unwrap().into_iter().eq(want));
    }

    #[test]
    fn broken_blocks_are_refused() {
        assert!(encode(DType::Q4_1, &[0.0; 33]).is_err());
        assert_eq!(
            decode(DType::Q8_0, &[0; 35]).unwrap_err().to_string(),
            "35 bytes are no whole number of Q8_0 blocks of 34"
        );
    }
}
