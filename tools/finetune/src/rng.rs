//! A small seeded random generator, the same on every machine.

/// splitmix64.
pub struct Rng(u64);

impl Rng {
    /// A generator for one purpose: equal seeds with different streams give unrelated numbers.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng(seed);
        rng.0 = rng.bits() ^ stream.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        rng.bits();
        rng
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A whole number below `n`, which is not zero.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// A number of the open interval (0, 1).
    fn unit(&mut self) -> f64 {
        ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// `n` normally distributed numbers of that standard deviation, by Box and Muller.
    pub fn normal(&mut self, n: usize, deviation: f64) -> Vec<f32> {
        let mut values = Vec::with_capacity(n + 1);
        while values.len() < n {
            let (radius, angle) = ((-2.0 * self.unit().ln()).sqrt(), std::f64::consts::TAU * self.unit());
            values.push((deviation * radius * angle.cos()) as f32);
            values.push((deviation * radius * angle.sin()) as f32);
        }
        values.truncate(n);
        values
    }

    /// The numbers below `n` in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn normal_has_the_moments_asked_for() {
        let n = 40_000;
        let values = Rng::new(7, 1).normal(n, 0.5);
        let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / n as f64;
        let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / n as f64;
        // Five standard errors: 0.5 / sqrt(n) for the mean, 0.25 * sqrt(2 / n) for the variance.
        assert!(mean.abs() < 5.0 * 0.5 / (n as f64).sqrt(), "mean {mean}");
        assert!((variance - 0.25).abs() < 5.0 * 0.25 * (2.0 / n as f64).sqrt(), "variance {variance}");
    }

    #[test]
    fn streams_differ_and_permutations_are_complete() {
        assert_ne!(Rng::new(1, 1).normal(4, 1.0), Rng::new(1, 2).normal(4, 1.0));
        let mut order = Rng::new(3, 0).permutation(57);
        assert_ne!(order, (0..57).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..57).collect::<Vec<_>>());
    }
}
