//! Deterministic data for operands.

use fblayout::graph::{DType, Shape, elements};

/// What an operand holds.
#[derive(Clone, Debug)]
pub enum Fill {
    /// Integers small enough that products and sums of a few thousand of them are exact in f32, and that survive
    /// quantization: a kernel that only adds and multiplies them must give exactly the oracle's result.
    Integers,
    /// Floats of either sign up to this magnitude.
    Floats(f32),
    /// Floats between 0.25 and 4.
    Positive,
    /// Rows of small values where a few elements, first and last of the row among them, stand out by about 20, so that each of
    /// them matters to the row's softmax however long the row is.
    Peaks,
    /// Rows of positive floats that sum to about 1.
    Probabilities,
    /// Rows that are 1 at one element, some rows all 0.
    OneHot,
    /// 0 where axis 0 is at most axis 1, -inf above.
    CausalMask,
    /// Integers 0 .. n, in no order, with repeats.
    Ids(u32),
    /// These values.
    Given(Vec<f32>),
}

/// A small generator of uniform numbers (xorshift64*), the same on every machine.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u32) -> Self {
        Self((u64::from(seed) + 1) * 0x9e37_79b9_7f4a)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    }

    /// An integer in `0 .. n`.
    pub(crate) fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// A float in `low .. high`.
    fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.below(1 << 24) as f32 / (1 << 24) as f32)
    }
}

impl Fill {
    /// Elements of a tensor in linear order. `seed` tells operands of a case apart.
    pub fn make(&self, dtype: DType, shape: &Shape, seed: u32) -> Vec<f32> {
        let mut random = Random::new(seed);
        let count = usize::try_from(elements(shape)).expect("test tensors fit memory");
        let row = shape[0] as usize;
        match self {
            Self::Integers => {
                (0..count).map(|i| integer(dtype, i % dtype.block() as usize, &mut random) as f32).collect()
            }
            &Self::Floats(magnitude) => (0..count).map(|_| random.between(-magnitude, magnitude)).collect(),
            Self::Positive => (0..count).map(|_| random.between(0.25, 4.0)).collect(),
            Self::Peaks => {
                let mut data: Vec<f32> = (0..count).map(|_| random.between(-2.0, 2.0)).collect();
                for row in data.chunks_exact_mut(row) {
                    let n = row.len();
                    let inner = [random.below(n as u32), random.below(n as u32)].map(|i| i as usize);
                    for at in [0, n - 1, n / 2, inner[0], inner[1]] {
                        row[at] = 20.0 + random.between(-1.0, 1.0);
                    }
                }
                data
            }
            Self::Probabilities => {
                let mut data: Vec<f32> = (0..count).map(|_| random.between(0.01, 1.0)).collect();
                for row in data.chunks_exact_mut(row) {
                    let sum: f32 = row.iter().sum();
                    row.iter_mut().for_each(|x| *x /= sum);
                }
                data
            }
            Self::OneHot => {
                let mut data = vec![0.0; count];
                for row in data.chunks_exact_mut(row) {
                    if random.below(4) != 0 {
                        row[random.below(row.len() as u32) as usize] = 1.0;
                    }
                }
                data
            }
            Self::CausalMask => {
                let rows = shape[1] as usize;
                (0..count).map(|i| if i % row > i / row % rows { f32::NEG_INFINITY } else { 0.0 }).collect()
            }
            &Self::Ids(n) => (0..count).map(|_| random.below(n) as f32).collect(),
            Self::Given(values) => values.clone(),
        }
    }
}

/// An integer that its dtype holds exactly; the first elements of a quantized block hold its extremes, which makes the
/// block's scale 1 (Q8_0: 127 / 127, Q4_1: 15 / 15, Q4_0: -8 / -8, IQ4_NL: -127 / -127). Types that nothing is converted to get what F32 gets.
fn integer(dtype: DType, in_block: usize, random: &mut Random) -> i32 {
    let mut within = |low: i32, high: i32| low + random.below((high - low + 1) as u32) as i32;
    match (dtype, in_block) {
        (DType::Q8_0, 0) => 127,
        (DType::Q8_0, _) => within(-127, 127),
        (DType::Q4_1, 0) => -7,
        (DType::Q4_1, 1) => 8,
        (DType::Q4_1, _) => within(-7, 8),
        (DType::Q4_0, 0) => -8,
        (DType::Q4_0, _) => within(-8, 7),
        (DType::Q5_0, 0) => -16,
        (DType::Q5_0, _) => within(-16, 15),
        (DType::Q5_1, 0) => -15,
        (DType::Q5_1, 1) => 16,
        (DType::Q5_1, _) => within(-15, 16),
        (DType::IQ4_NL, 0) => -127,
        (DType::IQ4_NL, _) => UNEVEN[within(0, 15) as usize],
        _ => within(-5, 5),
    }
}

/// The numbers of IQ4_NL.
const UNEVEN: [i32; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::graph::{decode, encode};

    #[test]
    fn integers_survive_every_dtype() {
        for dtype in DType::ALL {
            let data = Fill::Integers.make(dtype, &[512, 5, 1, 1], 3);
            let Ok(bytes) = encode(dtype, &data) else { continue };
            let back = decode(dtype, &bytes).unwrap();
            assert!(data.iter().zip(back).all(|(&x, back)| f64::from(x) == back), "{dtype:?}");
        }
    }
}
