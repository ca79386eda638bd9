//! Element types, by the numbers that GGUF files have.

use fblayout::graph::DType;

use crate::failure::Failure;

/// 32-bit float.
pub const FBL_F32: u32 = 0;
/// 16-bit float.
pub const FBL_F16: u32 = 1;
/// 4-bit quants with a scale per block of 32.
pub const FBL_Q4_0: u32 = 2;
/// 4-bit quants with a scale and a minimum per block of 32.
pub const FBL_Q4_1: u32 = 3;
/// 5-bit quants with a scale per block of 32.
pub const FBL_Q5_0: u32 = 6;
/// 5-bit quants with a scale and a minimum per block of 32.
pub const FBL_Q5_1: u32 = 7;
/// 8-bit quants with a scale per block of 32.
pub const FBL_Q8_0: u32 = 8;
/// 2-bit quants in blocks of 256.
pub const FBL_Q2_K: u32 = 10;
/// 3-bit quants in blocks of 256.
pub const FBL_Q3_K: u32 = 11;
/// 4-bit quants in blocks of 256.
pub const FBL_Q4_K: u32 = 12;
/// 5-bit quants in blocks of 256.
pub const FBL_Q5_K: u32 = 13;
/// 6-bit quants in blocks of 256.
pub const FBL_Q6_K: u32 = 14;
/// 4-bit numbers of a table of uneven steps, in blocks of 32.
pub const FBL_IQ4_NL: u32 = 20;
/// The same in blocks of 256.
pub const FBL_IQ4_XS: u32 = 23;
/// 32-bit signed integer.
pub const FBL_I32: u32 = 26;
/// 64-bit signed integer.
pub const FBL_I64: u32 = 27;
/// The upper half of a 32-bit float.
pub const FBL_BF16: u32 = 30;
/// -1, 0 or 1 in blocks of 256, five to a byte.
pub const FBL_TQ1_0: u32 = 34;
/// -1, 0 or 1 in blocks of 256, four to a byte.
pub const FBL_TQ2_0: u32 = 35;
/// 4-bit floats with a power of two per block of 32.
pub const FBL_MXFP4: u32 = 39;

const NUMBERS: [(u32, DType); 20] = [
    (FBL_F32, DType::F32),
    (FBL_F16, DType::F16),
    (FBL_Q4_0, DType::Q4_0),
    (FBL_Q4_1, DType::Q4_1),
    (FBL_Q5_0, DType::Q5_0),
    (FBL_Q5_1, DType::Q5_1),
    (FBL_Q8_0, DType::Q8_0),
    (FBL_Q2_K, DType::Q2_K),
    (FBL_Q3_K, DType::Q3_K),
    (FBL_Q4_K, DType::Q4_K),
    (FBL_Q5_K, DType::Q5_K),
    (FBL_Q6_K, DType::Q6_K),
    (FBL_IQ4_NL, DType::IQ4_NL),
    (FBL_IQ4_XS, DType::IQ4_XS),
    (FBL_I32, DType::I32),
    (FBL_I64, DType::I64),
    (FBL_BF16, DType::BF16),
    (FBL_TQ1_0, DType::TQ1_0),
    (FBL_TQ2_0, DType::TQ2_0),
    (FBL_MXFP4, DType::MXFP4),
];

/// The type of a number.
pub(crate) fn dtype(number: u32) -> Result<DType, Failure> {
    let found = NUMBERS.iter().find(|(of, _)| *of == number).map(|&(_, dtype)| dtype);
    found.ok_or_else(|| Failure::argument(format!("dtype {number} is none of the element types known here")))
}

/// The number of a type.
pub(crate) fn number(dtype: DType) -> u32 {
    NUMBERS.iter().find(|(_, of)| *of == dtype).map_or(u32::MAX, |&(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_number_of_its_own() {
        for of in DType::ALL {
            assert_eq!(dtype(number(of)).unwrap(), of);
        }
        assert!(dtype(4).unwrap_err().message.contains("dtype 4"));
    }
}
