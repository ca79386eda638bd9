//! Windows over values: how reshapes, permutes, slices and expansions reach a node.

use super::array::indices;
use super::{Shape, ValueId, elements, linear_strides};

/// A strided window over a value's elements, counted in the value's linear (host) order. Element `(i0, i1, i2, i3)` of the
/// window is element `offset + sum(i * strides)` of the value; stride 0 repeats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// The value looked at.
    pub value: ValueId,
    /// Extents of the window.
    pub shape: Shape,
    /// Elements per step of each axis.
    pub strides: [u64; 4],
    /// Element that (0, 0, 0, 0) shows.
    pub offset: u64,
}

/// Why a window cannot be formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// The list of axes names one twice or leaves one out.
    #[error("{0:?} is no permutation of the axes 0..3")]
    Permutation([usize; 4]),
    /// The two shapes have different numbers of elements.
    #[error("a window of {from:?} cannot become {to:?}: the numbers of elements differ")]
    Count {
        /// Shape of the window.
        from: Shape,
        /// Shape asked for.
        to: Shape,
    },
    /// A merged axis would not have one stride.
    #[error("a window of {from:?} with strides {strides:?} cannot become {to:?} without a copy")]
    Strides {
        /// Shape of the window.
        from: Shape,
        /// Strides of the window.
        strides: [u64; 4],
        /// Shape asked for.
        to: Shape,
    },
    /// A slice leaves its axis.
    #[error("{start}..{end} leaves axis {axis}, which has {extent} elements")]
    Slice {
        /// Axis that is sliced.
        axis: usize,
        /// First element.
        start: u32,
        /// One past the last element.
        end: u64,
        /// Elements of the axis.
        extent: u32,
    },
    /// Only an axis of one element can be expanded.
    #[error("axis {axis} has {extent} elements; only one can be repeated")]
    Expand {
        /// Axis that is expanded.
        axis: usize,
        /// Elements of the axis.
        extent: u32,
    },
}

impl Operand {
    /// All of a value of this shape.
    pub fn whole(value: ValueId, shape: Shape) -> Self {
        Self { value, shape, strides: linear_strides(&shape), offset: 0 }
    }

    /// True if the window is all of a value of `shape`, in its own order. Strides of axes with one element do not count.
    pub fn is_whole(&self, shape: &Shape) -> bool {
        self.offset == 0 && self.shape == *shape && self.is_contiguous()
    }

    /// True if the window's elements lie side by side in their own order.
    pub fn is_contiguous(&self) -> bool {
        let packed = linear_strides(&self.shape);
        (0..4).all(|axis| self.shape[axis] == 1 || self.strides[axis] == packed[axis])
    }

    /// Axis `i` of the result is axis `axes[i]` of this window.
    pub fn permute(&self, axes: [usize; 4]) -> Result<Self, ViewError> {
        let mut sorted = axes;
        sorted.sort_unstable();
        if sorted != [0, 1, 2, 3] {
            return Err(ViewError::Permutation(axes));
        }
        Ok(Self { shape: axes.map(|a| self.shape[a]), strides: axes.map(|a| self.strides[a]), ..*self })
    }

    /// Axes 0 and 1 swapped.
    pub fn transpose(&self) -> Self {
        let [s0, s1, s2, s3] = self.shape;
        let [t0, t1, t2, t3] = self.strides;
        Self { shape: [s1, s0, s2, s3], strides: [t1, t0, t2, t3], ..*self }
    }

    /// The same elements in the same order under another shape.
    pub fn reshape(&self, to: Shape) -> Result<Self, ViewError> {
        let from = self.shape;
        if elements(&from) != elements(&to) {
            return Err(ViewError::Count { from, to });
        }
        if to.contains(&0) {
            return Ok(Self { shape: to, strides: linear_strides(&to), ..*self });
        }
        let refused = || ViewError::Strides { from, strides: self.strides, to };
        // Runs of old axes that step evenly are one axis of the elements; every new axis must be cut from one such run.
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (&n, &stride) in from.iter().zip(&self.strides).filter(|&(&n, _)| n != 1) {
            match runs.last_mut() {
                Some((extent, first)) if first.checked_mul(*extent) == Some(stride) && *first != 0 => {
                    *extent = extent.saturating_mul(n.into());
                }
                _ => runs.push((u64::from(n), stride)),
            }
        }
        let mut strides = [0; 4];
        let mut runs = runs.into_iter();
        let mut run = (1, 0);
        for (stride, &n) in strides.iter_mut().zip(&to).filter(|&(_, &n)| n != 1) {
            if run.0 == 1 {
                run = runs.next().ok_or_else(refused)?;
            }
            if run.0 % u64::from(n) != 0 {
                return Err(refused());
            }
            *stride = run.1;
            run = (run.0 / u64::from(n), run.1.saturating_mul(n.into()));
        }
        Ok(Self { shape: to, strides, ..*self })
    }

    /// Elements `start .. start + count` of one axis.
    pub fn slice(&self, axis: usize, start: u32, count: u32) -> Result<Self, ViewError> {
        let (extent, end) = (self.shape[axis], u64::from(start) + u64::from(count));
        if end > u64::from(extent) {
            return Err(ViewError::Slice { axis, start, end, extent });
        }
        let mut window = *self;
        window.shape[axis] = count;
        window.offset = window.offset.saturating_add(self.strides[axis].saturating_mul(start.into()));
        Ok(window)
    }

    /// One axis of a single element repeated `count` times.
    pub fn expand(&self, axis: usize, count: u32) -> Result<Self, ViewError> {
        if self.shape[axis] != 1 {
            return Err(ViewError::Expand { axis, extent: self.shape[axis] });
        }
        let mut window = *self;
        window.shape[axis] = count;
        window.strides[axis] = 0;
        Ok(window)
    }

    /// The greatest element of the value that the window shows; `None` when it does not fit 64 bits or the window is empty.
    pub fn last(&self) -> Option<u64> {
        self.shape.iter().zip(&self.strides).try_fold(self.offset, |at, (&n, &stride)| {
            at.checked_add(u64::from(n.checked_sub(1)?).checked_mul(stride)?)
        })
    }

    /// The value's elements that the window shows, in the window's order.
    pub fn indices(&self) -> impl Iterator<Item = u64> + use<> {
        let Self { shape, strides, offset, .. } = *self;
        indices(&shape)
            .map(move |i| offset + i.iter().zip(strides).map(|(&i, stride)| u64::from(i) * stride).sum::<u64>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(shape: Shape) -> Operand {
        Operand::whole(ValueId::for_tests(0), shape)
    }

    #[test]
    fn a_window_shows_what_the_loops_say() {
        let window = operand([4, 3, 2, 1]).slice(0, 1, 2).unwrap().transpose();
        assert_eq!(window.indices().collect::<Vec<_>>(), [1, 5, 9, 2, 6, 10, 13, 17, 21, 14, 18, 22]);
        assert_eq!(window.last(), Some(22));
    }

    #[test]
    fn reshape_keeps_the_order_of_elements() {
        let heads = operand([12, 5, 1, 1]).reshape([4, 3, 5, 1]).unwrap();
        assert_eq!(heads, Operand { shape: [4, 3, 5, 1], strides: [1, 4, 12, 0], ..heads });
        let middle = operand([12, 5, 1, 1]).slice(0, 4, 8).unwrap();
        let split = middle.reshape([4, 2, 1, 5]).unwrap();
        assert!(split.indices().eq(middle.indices()));
        let swapped = heads.permute([0, 2, 1, 3]).unwrap();
        assert!(matches!(swapped.reshape([12, 5, 1, 1]), Err(ViewError::Strides { .. })));
        let expanded = operand([4, 1, 3, 1]).expand(1, 2).unwrap();
        assert_eq!(expanded.reshape([2, 2, 2, 3]).unwrap().strides, [1, 2, 0, 4]);
        assert!(expanded.reshape([2, 2, 2, 3]).unwrap().indices().eq(expanded.indices()));
    }

    #[test]
    fn nothing_may_have_any_shape() {
        let nothing = operand([4, 3, 2, 1]).slice(1, 1, 0).unwrap();
        assert_eq!(nothing.reshape([5, 0, 7, 1]).unwrap().indices().count(), 0);
        assert!(matches!(nothing.reshape([1; 4]), Err(ViewError::Count { .. })));
    }

    #[test]
    fn numbers_beyond_64_bits_are_no_panic() {
        let vast = operand([u32::MAX; 4]);
        assert_eq!(vast.last(), None);
        assert!(vast.reshape([u32::MAX; 4]).ok().is_none_or(|window| window.last().is_none()));
        let far = Operand { strides: [u64::MAX, u64::MAX / 2, 1, 1], offset: u64::MAX - 1, ..operand([4, 3, 2, 1]) };
        assert_eq!(far.slice(0, 2, 2).unwrap().last(), None);
        assert!(matches!(far.reshape([12, 2, 1, 1]), Err(ViewError::Strides { .. })));
    }

    #[test]
    fn bad_windows_are_refused() {
        let a = operand([4, 3, 2, 1]);
        assert_eq!(a.permute([0, 0, 1, 2]), Err(ViewError::Permutation([0, 0, 1, 2])));
        assert_eq!(a.slice(1, 2, 2), Err(ViewError::Slice { axis: 1, start: 2, end: 4, extent: 3 }));
        assert_eq!(a.expand(2, 4), Err(ViewError::Expand { axis: 2, extent: 2 }));
        assert!(matches!(a.reshape([4, 3, 3, 1]), Err(ViewError::Count { .. })));
    }
}
