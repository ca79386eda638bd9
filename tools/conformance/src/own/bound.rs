//! How far a result may be from the reference, and why.
//!
//! Both sides compute with floats of 24 bits. A single operation is off by half a unit (`U`), of whatever size the result has; a sum of
//! n terms in any order by n units of the sum of the terms' magnitudes, which the reference computes from the inputs' magnitudes.
//! Functions are as exact as Vulkan asks of a driver. A result kept as F16 or BF16 may fall on either neighbour on top.
//! Where the device rounds the factors of products (`rounding`), each term of a sum is off by that part of itself as well. In a mean
//! square such errors count as the sum of squares does of which they are parts: they are independent of each other, as terms are, or they
//! are all of one sign and move the result itself by no more than that part.
//! Only graphs of many ops fall back on a normalized mean square error, as ggml's own suite does for products (5e-4, of which rounded
//! operands take most).

use anyhow::{Result, ensure};
use ggml_host::Type;

use super::rounding::Added;
use super::values::decode;

/// Half a unit in the last place of an F32, relatively.
pub const U: f64 = 1.0 / (1u64 << 24) as f64;

/// The rule for one result.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// The same bits: copies, indices, masks, what rounds nothing.
    Exact,
    /// `relative * |want| + absolute`.
    Near {
        /// Part of the wanted value.
        relative: f64,
        /// For results of cancellation, and functions that are bounded so.
        absolute: f64,
    },
    /// A sum of this many products of inputs: `2 (terms + 2) U` of the sum of their magnitudes (once for each side).
    Sum(usize),
    /// Attention of values of at most 1, whose scores are sums of `terms` products that are no greater than `scores` with all signs alike.
    Attention {
        /// Products that a score is summed of.
        terms: usize,
        /// Greatest sum of their magnitudes, times the scale.
        scores: f64,
    },
    /// This many units of the largest value of the result: what is normalized over a row.
    Units(f64),
    /// Blocks of a quantized type, quantized from values that may differ in their last bits: single elements fall on a neighbour.
    Quanta,
    /// Normalized mean square error of a composite.
    Nmse(f64),
}

impl Bound {
    /// A few roundings of elementwise arithmetic.
    pub fn roundings(count: usize) -> Bound {
        Bound::Near { relative: 2.0 * count as f64 * U, absolute: 0.0 }
    }

    /// Whether [`Bound::check`] wants magnitudes.
    pub fn needs_magnitudes(&self) -> bool {
        matches!(self, Bound::Sum(_))
    }

    /// Compares dense elements of `dtype`, of a device that rounds factors so. The error names the element that is off the most.
    pub fn check(
        &self,
        dtype: Type,
        got: &[u8],
        want: &[u8],
        magnitudes: Option<&[f32]>,
        factors: Added,
    ) -> Result<()> {
        ensure!(got.len() == want.len(), "{} bytes where the reference has {}", got.len(), want.len());
        if matches!(self, Bound::Exact) || matches!(dtype, Type::I32 | Type::I64) {
            let width = dtype.block_bytes();
            let first = got.chunks(width).zip(want.chunks(width)).position(|(g, w)| g != w);
            return match first {
                None => Ok(()),
                Some(at) => {
                    let count = got.chunks(width).zip(want.chunks(width)).filter(|(g, w)| g != w).count();
                    let (g, w) = (decode(dtype, got)?, decode(dtype, want)?);
                    let i = at * dtype.block_len();
                    anyhow::bail!("{count} blocks differ, first element {i}: {} instead of {}", g[i], w[i])
                }
            };
        }
        let (got, want) = (decode(dtype, got)?, decode(dtype, want)?);
        for (at, (g, w)) in got.iter().zip(&want).enumerate() {
            ensure!(g.is_nan() == w.is_nan(), "element {at}: {g} instead of {w}");
            ensure!(!(g.is_infinite() || w.is_infinite()) || g == w, "element {at}: {g} instead of {w}");
        }
        match *self {
            Bound::Nmse(limit) => {
                let square = |x: f64| x * x;
                let off: f64 = got.iter().zip(&want).map(|(g, w)| square(f64::from(*g) - f64::from(*w))).sum();
                let scale: f64 = want.iter().map(|w| square(f64::from(*w))).sum();
                let limit = limit + square(factors.relative);
                ensure!(off <= limit * scale, "NMSE {:.1e} is over {limit:.1e}", off / scale);
                Ok(())
            }
            Bound::Quanta => quanta(dtype, &got, &want),
            _ => self.each(dtype, &got, &want, magnitudes, factors),
        }
    }

    fn each(&self, dtype: Type, got: &[f32], want: &[f32], magnitudes: Option<&[f32]>, factors: Added) -> Result<()> {
        let rounded = match dtype.name() {
            "f16" => 2.0f64.powi(-10),
            "bf16" => 2.0f64.powi(-7),
            _ => 0.0,
        };
        let largest = want.iter().filter(|w| w.is_finite()).fold(0.0, |a: f64, &w| a.max(f64::from(w).abs()));
        let limit = |at: usize| {
            let size = f64::from(want[at]).abs();
            let own = match *self {
                Bound::Near { relative, absolute } => relative * size + absolute,
                Bound::Sum(terms) => {
                    let magnitude = magnitudes.map_or(f64::NAN, |m| f64::from(m[at]));
                    (2.0 * (terms + 2) as f64 * U + factors.relative) * magnitude + terms as f64 * factors.absolute
                }
                // An error of a score moves its weight by that part of it, and the sum of weights by no more; weights and values are factors
                // themselves.
                Bound::Attention { terms, scores } => {
                    let each = 2.0 * (terms + 2) as f64 * U + factors.relative;
                    2.0 * scores * each + factors.relative + terms as f64 * factors.absolute
                }
                Bound::Units(units) => units * U * largest,
                Bound::Exact | Bound::Quanta | Bound::Nmse(_) => 0.0,
            };
            own + rounded * size + f64::from(f32::MIN_POSITIVE)
        };
        let off = |at: usize| {
            let off = (f64::from(got[at]) - f64::from(want[at])).abs() / limit(at);
            // Equal infinities and NaN are no difference; a limit that is none is.
            if got[at] == want[at] || (got[at].is_nan() && want[at].is_nan()) {
                0.0
            } else if off.is_nan() {
                f64::INFINITY
            } else {
                off
            }
        };
        let worst = (0..want.len()).max_by(|&a, &b| off(a).total_cmp(&off(b)));
        if let Some(at) = worst.filter(|&at| off(at) > 1.0) {
            let count = (0..want.len()).filter(|&at| off(at) > 1.0).count();
            let (g, w, limit) = (got[at], want[at], limit(at));
            anyhow::bail!(
                "{count} of {} elements off, most of all {at}: {g} instead of {w} (+- {limit:.1e})",
                want.len()
            );
        }
        Ok(())
    }
}

/// No element further off than the coarsest step of its block, and few that are off at all.
fn quanta(dtype: Type, got: &[f32], want: &[f32]) -> Result<()> {
    let bits = dtype.name().chars().find_map(|c| c.to_digit(10)).unwrap_or(1).max(2) as i32;
    // The widest gap of the uneven grid of IQ4 is 24 of 127; that of an even one is its range by its levels.
    let step = if dtype.name().starts_with("iq4") { 24.0 / 127.0 } else { 2.0f64.powi(2 - bits) };
    let block = dtype.block_len();
    let mut moved = 0;
    for (b, (g, w)) in got.chunks(block).zip(want.chunks(block)).enumerate() {
        let largest = w.iter().fold(0.0, |a: f64, &w| a.max(f64::from(w).abs()));
        for (i, (&g, &w)) in g.iter().zip(w).enumerate() {
            let off = (f64::from(g) - f64::from(w)).abs();
            ensure!(off <= 1.01 * step * largest, "element {}: {g} instead of {w}", b * block + i);
            // Scales are halves: their last bit moves a whole block.
            moved += usize::from(off > largest * 2.0f64.powi(-9));
        }
    }
    ensure!(moved <= 1 + got.len() / 50, "{moved} of {} elements are in another step", got.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn bounds_refuse_what_is_beyond_them() {
        let none = Added::default();
        let check =
            |bound: Bound, got: f32, want: f32| bound.check(Type::F32, &bytes(&[got]), &bytes(&[want]), None, none);
        let next = f32::from_bits(1.0f32.to_bits() + 1);
        assert!(check(Bound::Exact, next, 1.0).is_err());
        assert!(check(Bound::roundings(1), next, 1.0).is_ok());
        assert!(check(Bound::roundings(1), f32::from_bits(next.to_bits() + 1), 1.0).is_err());
        assert!(check(Bound::Nmse(1e-3), f32::NAN, 1.0).is_err());
        assert!(check(Bound::Units(4.0), f32::INFINITY, 1.0).is_err());
        assert!(check(Bound::Sum(3), 1.0, 1.1).is_err(), "without magnitudes there is no bound");
        let sum = |got: f32, added| Bound::Sum(3).check(Type::F32, &bytes(&[got]), &bytes(&[1.0]), Some(&[1.0]), added);
        assert!(sum(next, none).is_ok());
        assert!(sum(1.003, none).is_err());
        assert!(sum(1.003, Added { relative: 0.5f64.powi(8), absolute: 0.0 }).is_ok());
        assert!(sum(1.005, Added { relative: 0.5f64.powi(8), absolute: 0.0 }).is_err());
    }
}
