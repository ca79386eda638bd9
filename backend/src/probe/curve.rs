//! What rates say of the caches behind them.

use crate::device::Estimate;

impl Estimate {
    /// In another unit.
    pub(super) fn scaled(self, by: f64) -> Self {
        Self { lo: self.lo * by, mid: self.mid * by, hi: self.hi * by }
    }
}

/// Loads per second of regions of `1 << texels` texels, smallest first, each twice the one before.
pub(super) struct Curve(pub Vec<(u32, Estimate)>);

/// Share of a plateau's rate that belongs to it still.
const PLATEAU: f64 = 0.75;

impl Curve {
    fn mid(&self, at: usize) -> f64 {
        self.0[at].1.mid
    }

    fn last(&self) -> usize {
        self.0.len() - 1
    }

    /// The fastest region. Rates rise before they fall where the smallest regions hit one bank.
    fn top(&self) -> usize {
        (0..self.0.len()).max_by(|&a, &b| self.mid(a).total_cmp(&self.mid(b))).unwrap_or(0)
    }

    /// The largest region whose loads are about as fast as the fastest.
    fn end_of_first(&self) -> usize {
        let least = PLATEAU * self.mid(self.top());
        (self.top()..self.0.len()).take_while(|&at| self.mid(at) >= least).last().unwrap_or(0)
    }

    /// The largest region of the plateau behind the first: nearer to it than to the rate of the largest region.
    fn end_of_second(&self) -> usize {
        let first = self.end_of_first();
        let start = (first + 2).min(self.last());
        let least = (self.mid(start) * self.mid(self.last())).sqrt();
        // A fall that is none: there is no cache behind the first one.
        if self.mid(start) <= 1.2 * self.mid(self.last()) {
            return first;
        }
        (start..self.0.len()).take_while(|&at| self.mid(at) >= least).last().unwrap_or(start)
    }

    fn size(&self, at: usize) -> Estimate {
        let texels = 2_f64.powi(self.0[at].0 as i32);
        // The next region, of twice as many, was slower; the largest had none behind it.
        Estimate::range(texels, 1.5 * texels, 2.0 * texels)
    }

    /// Texels of the cache that loads pass first.
    pub fn first_cache(&self) -> Estimate {
        self.size(self.end_of_first())
    }

    /// Texels of the cache before memory.
    pub fn last_cache(&self) -> Estimate {
        self.size(self.end_of_second())
    }

    /// Rate of the first cache.
    pub fn nearest(&self) -> Estimate {
        self.0[self.top()].1
    }

    /// Rate of the cache before memory.
    pub fn second(&self) -> Estimate {
        self.0[(self.end_of_first() + 2).min(self.last()).min(self.end_of_second())].1
    }

    /// Rate of memory.
    pub fn farthest(&self) -> Estimate {
        self.0[self.last()].1
    }
}

/// The first stride that costs about as much as the largest; costs are by stride, smallest first.
pub(super) fn saturation(costs: &[(u32, f64)]) -> u32 {
    let most = costs.iter().map(|&(_, cost)| cost).fold(0.0, f64::max);
    costs.iter().find(|(_, cost)| *cost >= PLATEAU * most).map_or(1, |&(stride, _)| stride)
}
