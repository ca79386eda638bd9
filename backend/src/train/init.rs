//! Random numbers that are the same everywhere for the same seed.

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Uniform from -1 to 1.
    pub fn within_one(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn numbers_fill_their_range_evenly() {
        let mut random = Random::new(7);
        let numbers: Vec<f32> = (0..4000).map(|_| random.within_one()).collect();
        assert!(numbers.iter().all(|n| (-1.0..1.0).contains(n)));
        // The mean of 4000 has a deviation of 0.577 / sqrt(4000) = 0.009; five of them.
        assert!(numbers.iter().sum::<f32>().abs() / 4000.0 < 0.046);
        assert_eq!(Random::new(7).within_one(), numbers[0]);
    }
}
