//! What a machine does: cache geometry and rates, with ranges where the figure is not public.

use serde::{Deserialize, Serialize};

/// A figure between two bounds; all three are equal where it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Lower bound.
    pub lo: f64,
    /// Taken where one figure is needed.
    pub mid: f64,
    /// Upper bound.
    pub hi: f64,
}

impl Estimate {
    /// A figure that is known.
    pub const fn known(value: f64) -> Self {
        Self { lo: value, mid: value, hi: value }
    }

    /// A figure within bounds.
    pub const fn range(lo: f64, mid: f64, hi: f64) -> Self {
        Self { lo, mid, hi }
    }
}

/// Which end of the ranges a prediction takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Case {
    /// Small caches, low rates, high costs.
    Slow,
    /// The middle of every range.
    Middle,
    /// Large caches, high rates, low costs.
    Fast,
}

impl Case {
    /// Of a figure of which more is better: a rate, a size.
    pub fn more(self, e: Estimate) -> f64 {
        match self {
            Self::Slow => e.lo,
            Self::Middle => e.mid,
            Self::Fast => e.hi,
        }
    }

    /// Of a figure of which less is better: a time.
    pub fn less(self, e: Estimate) -> f64 {
        match self {
            Self::Slow => e.hi,
            Self::Middle => e.mid,
            Self::Fast => e.lo,
        }
    }
}

/// Columns and rows of texels in a cache line of an image with optimal tiling (`T_cache`), by size of the texel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageLines {
    /// Texels of 4 bytes.
    pub texel4: [u32; 2],
    /// Texels of 8 bytes.
    pub texel8: [u32; 2],
    /// Texels of 16 bytes.
    pub texel16: [u32; 2],
}

/// What integer operations on 32-bit words take, a fused multiply-add on f32 taking 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntegerCosts {
    /// Additions, shifts, masks.
    pub simple: Estimate,
    /// The low half of a product.
    pub mul: Estimate,
    /// The high half of a product, which a division by a constant becomes.
    pub mul_high: Estimate,
}

/// A machine as a cost model sees it. Rates are per second, times in seconds, sizes in bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Narrowest and widest subgroup; schedules are made for the one in [`super::Limits`].
    pub subgroups: [u32; 2],
    /// Bytes of a cache line.
    pub line_bytes: u32,
    /// Its shape in an image. In a buffer, and in an image of linear tiling, a line is a row.
    pub image_lines: ImageLines,
    /// Cache that the loads of one core pass first.
    pub l1_bytes: Estimate,
    /// Cache that all cores share.
    pub l2_bytes: Estimate,
    /// Subgroups whose loads interleave on one first-level cache.
    pub interleaved_subgroups: Estimate,
    /// Invocations that keep the machine busy.
    pub invocations: Estimate,
    /// Operations on f32; a fused multiply-add is two.
    pub flops_f32: Estimate,
    /// Operations on f16.
    pub flops_f16: Estimate,
    /// Operations of matrix units on factors of F16, sums in f32; none where there are no such units, or nobody measured them.
    #[serde(default)]
    pub matrix_f16: Option<Estimate>,
    /// The same on factors of BF16.
    #[serde(default)]
    pub matrix_bf16: Option<Estimate>,
    /// Operations on integers, against those on f32.
    pub integers: IntegerCosts,
    /// Texels of 16 bytes from images, all in the first-level cache.
    pub texels: Estimate,
    /// Bytes from buffers, all in the first-level cache.
    pub buffer_bytes: Estimate,
    /// Bytes from the shared cache.
    pub l2_rate: Estimate,
    /// Bytes from and to memory.
    pub memory_rate: Estimate,
    /// Bytes read and written by a copy of storages.
    pub copy_rate: Estimate,
    /// One dispatch of a recorded command buffer.
    pub launch: Estimate,
    /// One barrier between dispatches.
    pub barrier: Estimate,
}

impl Profile {
    /// Columns and rows of a cache line in an image of texels of 4, 8 or 16 bytes; `None` for other sizes.
    pub fn image_line(&self, texel_bytes: u32) -> Option<[u32; 2]> {
        match texel_bytes {
            4 => Some(self.image_lines.texel4),
            8 => Some(self.image_lines.texel8),
            16 => Some(self.image_lines.texel16),
            _ => None,
        }
    }
}
