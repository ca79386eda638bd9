//! Host bytes of each dtype: ggml's linear form to numbers and back.

mod large;
mod small;

use half::{bf16, f16};

use super::DType;

/// Why bytes and numbers are not made of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BytesError {
    /// Bytes or elements that are no whole number of blocks.
    #[error("{count} {what} are no whole number of {dtype:?} blocks of {block}")]
    Ragged {
        /// Type of the blocks.
        dtype: DType,
        /// Bytes or elements.
        what: &'static str,
        /// How many there are.
        count: usize,
        /// How many a block has.
        block: u32,
    },
    /// A type of weights that come quantized: ggml searches for the best of many blocks, which is no conversion.
    #[error("numbers are not converted to {0:?}")]
    Unencoded(DType),
}

/// Numbers that bytes in a dtype's linear form stand for.
pub fn decode(dtype: DType, bytes: &[u8]) -> Result<Vec<f64>, BytesError> {
    let block = dtype.block_bytes();
    let blocks = bytes.chunks_exact(block as usize);
    if !blocks.remainder().is_empty() {
        return Err(BytesError::Ragged { dtype, what: "bytes", count: bytes.len(), block });
    }
    let decode_block: fn(&[u8], &mut Vec<f64>) = match dtype {
        DType::F32 => |b, out| out.push(f32::from_le_bytes(array(b)).into()),
        DType::I32 => |b, out| out.push(i32::from_le_bytes(array(b)).into()),
        DType::I64 => |b, out| out.push(i64::from_le_bytes(array(b)) as f64),
        DType::F16 => |b, out| out.push(half(b, 0)),
        DType::BF16 => |b, out| out.push(bf16::from_le_bytes(array(b)).into()),
        DType::Q8_0 => small::decode_q8_0,
        DType::Q4_0 => small::decode_q4_0,
        DType::Q4_1 => small::decode_q4_1,
        DType::Q5_0 => small::decode_q5_0,
        DType::Q5_1 => small::decode_q5_1,
        DType::IQ4_NL => small::decode_iq4_nl,
        DType::MXFP4 => small::decode_mxfp4,
        DType::Q2_K => large::decode_q2_k,
        DType::Q3_K => large::decode_q3_k,
        DType::Q4_K => large::decode_q4_k,
        DType::Q5_K => large::decode_q5_k,
        DType::Q6_K => large::decode_q6_k,
        DType::IQ4_XS => large::decode_iq4_xs,
        DType::TQ1_0 => large::decode_tq1_0,
        DType::TQ2_0 => large::decode_tq2_0,
    };
    let mut numbers = Vec::with_capacity(blocks.len() * dtype.block() as usize);
    blocks.for_each(|block| decode_block(block, &mut numbers));
    Ok(numbers)
}

/// Bytes in a dtype's linear form for numbers: rounded to the nearest float, integers by truncation, blocks as ggml's reference
/// quantizes a row.
pub fn encode(dtype: DType, numbers: &[f32]) -> Result<Vec<u8>, BytesError> {
    let block = dtype.block();
    let blocks = numbers.chunks_exact(block as usize);
    if !blocks.remainder().is_empty() {
        return Err(BytesError::Ragged { dtype, what: "elements", count: numbers.len(), block });
    }
    let encode_block: fn(&[f32], &mut Vec<u8>) = match dtype {
        DType::F32 => |x, out| out.extend(x[0].to_le_bytes()),
        DType::I32 => |x, out| out.extend((x[0] as i32).to_le_bytes()),
        DType::I64 => |x, out| out.extend((x[0] as i64).to_le_bytes()),
        DType::F16 => |x, out| out.extend(f16::from_f32(x[0]).to_le_bytes()),
        DType::BF16 => |x, out| out.extend(bf16::from_f32(x[0]).to_le_bytes()),
        DType::Q8_0 => small::encode_q8_0,
        DType::Q4_0 => small::encode_q4_0,
        DType::Q4_1 => small::encode_q4_1,
        DType::Q5_0 => small::encode_q5_0,
        DType::Q5_1 => small::encode_q5_1,
        DType::IQ4_NL => small::encode_iq4_nl,
        DType::MXFP4 | DType::Q2_K | DType::Q3_K | DType::Q4_K | DType::Q5_K | DType::Q6_K => {
            return Err(BytesError::Unencoded(dtype));
        }
        DType::IQ4_XS | DType::TQ1_0 | DType::TQ2_0 => return Err(BytesError::Unencoded(dtype)),
    };
    let mut bytes = Vec::with_capacity(blocks.len() * dtype.block_bytes() as usize);
    blocks.for_each(|block| encode_block(block, &mut bytes));
    Ok(bytes)
}

/// The bytes of one number.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

/// The f16 at a byte of a block.
fn half(block: &[u8], at: usize) -> f64 {
    f16::from_le_bytes([block[at], block[at + 1]]).into()
}

/// Low nibbles of all bytes, then the high ones.
fn nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.iter().map(|b| b & 15).chain(bytes.iter().map(|b| b >> 4))
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
        same(DType::BF16, &[-3.0, 0.25, 129.0, 2.0_f32.powi(100), f32::INFINITY]);
        same(DType::I64, &[-3.0, 0.0, 2.0_f32.powi(40)]);
    }

    /// ggml's rounding: ties to even, NaNs stay and become quiet.
    #[test]
    fn bf16_rounds_as_ggml_does() {
        let bits = |x: u32| u16::from_le_bytes(array(&encode(DType::BF16, &[f32::from_bits(x)]).unwrap()));
        for (from, to) in [
            (0x3f80_8000, 0x3f80),
            (0x3f81_8000, 0x3f82),
            (0x3f80_8001, 0x3f81),
            (0x7f7f_ffff, 0x7f80),
            (0x7f80_0001, 0x7fc0),
            (0xffff_ffff, 0xffff),
            (0x0000_8001, 0x0001),
        ] {
            assert_eq!(bits(from), to, "{from:#x}");
        }
    }

    #[test]
    fn quantized_types_come_back_within_a_step() {
        // Steps of a block, of its range or of twice its greatest magnitude, and how many of them the worst element is off.
        for (dtype, ranged, steps, off) in [
            (DType::Q8_0, false, 254.0, 0.5),
            (DType::Q4_0, false, 16.0, 1.0),
            (DType::Q4_1, true, 15.0, 0.5),
            (DType::Q5_0, false, 32.0, 1.0),
            (DType::Q5_1, true, 31.0, 0.5),
            // The widest step of the table is 24 of 254, and the scale moves by some of it.
            (DType::IQ4_NL, false, 254.0 / 24.0, 1.0),
        ] {
            let x = wave(96);
            let back = decode(dtype, &encode(dtype, &x).unwrap()).unwrap();
            for (x, back) in x.chunks(32).zip(back.chunks(32)) {
                let max = x.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
                let (low, high) = x.iter().fold((0.0_f32, 0.0_f32), |(l, h), &x| (l.min(x), h.max(x)));
                let range = if ranged { high - low } else { 2.0 * max };
                // The step, and the rounding of scale and minimum to f16 (2^-11 of the greatest value each).
                let bound = f64::from(range) / steps * off + f64::from(max + range) / 2048.0;
                assert!(x.iter().zip(back).all(|(&x, &b)| (b - f64::from(x)).abs() <= bound), "{dtype:?}");
            }
        }
        assert_eq!(encode(DType::Q4_K, &[0.0; 256]), Err(BytesError::Unencoded(DType::Q4_K)));
    }

    /// A block whose bytes count up from 1, but for the fields given: byte and contents.
    fn block(dtype: DType, fields: &[(usize, &[u8])]) -> Vec<f64> {
        let mut bytes: Vec<u8> = (1..=dtype.block_bytes() as u8).collect();
        for (at, field) in fields {
            bytes[*at..at + field.len()].copy_from_slice(field);
        }
        decode(dtype, &bytes).unwrap()
    }

    /// Elements worked out by hand from the formats.
    #[test]
    fn bytes_of_every_type_are_taken_in_its_order() {
        let two = f16::from_f32(2.0).to_le_bytes();
        let check = |dtype: DType, fields: &[(usize, &[u8])], elements: &[(usize, f64)]| {
            let got = block(dtype, fields);
            for &(at, want) in elements {
                assert_eq!(got[at], want, "{dtype:?} {at}");
            }
        };
        // Byte i of the block is i + 1. Element 1 is the low nibble of byte 3, element 30 the high one of byte 16.
        check(DType::Q4_0, &[(0, &two)], &[(1, 2.0 * (4.0 - 8.0)), (30, 2.0 * (1.0 - 8.0))]);
        // Fifth bits 0x06050403: bit 1 is set, bit 30 is not, bit 26 is. Byte 7 is 8, byte 16 is 17.
        check(DType::Q5_0, &[(0, &two)], &[(1, 2.0 * (24.0 - 16.0)), (26, 2.0 * (17.0 - 16.0)), (30, -30.0)]);
        check(DType::Q5_1, &[(0, &two), (2, &two)], &[(1, 2.0 * 10.0 + 2.0), (17, 2.0 * 16.0 + 2.0)]);
        check(DType::IQ4_NL, &[(0, &two)], &[(1, 2.0 * -49.0), (30, 2.0 * -104.0)]);
        // 2^(129 - 128) times the table's doubled numbers: nibbles 3 and 1.
        check(DType::MXFP4, &[(0, &[129])], &[(1, 2.0 * 3.0), (31, 2.0 * 1.0)]);
        // Scale byte 1 is 2: scale 2, minimum 0. Scale byte 15 is 16: scale 0, minimum 1. Byte 33 is 34 = 0b10_0010.
        check(DType::Q2_K, &[(80, &two), (82, &two)], &[(17, 2.0 * 2.0 * 2.0), (255, -2.0)]);
        // Part 1: low half 2, upper bits of byte 105 (106 = 0b0110_1010): 2, so 34 - 32. Element 17: bits 1 of byte 49 (50: 2) and of
        // byte 17 (18, bit 0 not set). Part 15: byte 103 (104) >> 4 is 6, bits 6.. of byte 107 (108) 1: 22 - 32; element 255: bits
        // 6.. of byte 95 (96) are 1, bit 7 of byte 31 (32) is not set.
        check(DType::Q3_K, &[(108, &two)], &[(17, 2.0 * 2.0 * (2.0 - 4.0)), (255, 2.0 * -10.0 * (1.0 - 4.0))]);
        // Part 0: scale byte 4 (5), minimum byte 8 (9). Part 7: byte 15 (16): scale 0 and byte 7 (8) >> 6: 0; minimum 1 and byte 11
        // (12) >> 6: 0. Elements 1 and 255: byte 17 (18) low, byte 143 (144) high.
        check(DType::Q4_K, &[(0, &two), (2, &two)], &[(1, 2.0 * 5.0 * 2.0 - 18.0), (255, -2.0)]);
        // Upper bits of the last pairs: byte 4 is 0x45 and byte 8 is 0x89, so that part 4 has scale 13 + 16 and minimum 0 + 32.
        check(DType::Q4_K, &[(0, &two), (2, &two), (4, &[0x45]), (8, &[0x89])], &[(129, 2.0 * 29.0 * 2.0 - 64.0)]);
        // As Q4_K, with bit 0 of byte 17 (18: not set) and byte 49 (50: 2); element 32 has bit 1 of byte 16 (17: not set) and byte 48
        // (49: 3), part 1: scale 6, minimum 10; element 33 has bit 1 of byte 17: set.
        check(
            DType::Q5_K,
            &[(0, &two), (2, &two)],
            &[(1, 2.0 * 5.0 * 2.0 - 18.0), (32, 2.0 * 6.0 * 3.0 - 20.0), (33, 2.0 * 6.0 * 19.0 - 20.0)],
        );
        // Element 33: low half of byte 33 (34: 2), bits 2.. of byte 129 (130: 0), scale byte 194 (195: -61). Element 255: high half
        // of byte 127 (128: 8), bits 6.. of byte 191 (192: 3), scale byte 207 (208: -48).
        check(DType::Q6_K, &[(208, &two)], &[(33, 2.0 * -61.0 * (2.0 - 32.0)), (255, 2.0 * -48.0 * (56.0 - 32.0))]);
        // Part 1: high nibble of byte 4 (5): 0, bits 2.. of 0x0403: 0, so -32. Element 33: low half of byte 25 (26: 10).
        check(DType::IQ4_XS, &[(0, &two)], &[(33, 2.0 * -32.0 * 25.0)]);
        // 200 / 256 = 0.2100.. in threes (digits 2, 1, 0, 0); the last four bytes have four digits.
        check(DType::TQ1_0, &[(52, &two), (0, &[200]), (51, &[200])], &[(0, 2.0), (32, 0.0), (64, -2.0), (243, 2.0)]);
        check(DType::TQ2_0, &[(64, &two), (1, &[0b1001_0010])], &[(1, 2.0), (33, -2.0), (65, 0.0), (97, 2.0)]);
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
