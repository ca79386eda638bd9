//! Windows that slide over an input: parameters of convolutions and pools.

use super::{Desc, Op, Shape, elements, product};

/// How the window of a convolution slides, for up to three axes from axis 0 on: element `k` of the window at position `o` lies on
/// element `o * stride + k * dilation - pad` of the input, and on a zero where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// Elements from one position to the next; at least 1.
    pub stride: [u32; 3],
    /// Zeros before the input.
    pub pad: [u32; 3],
    /// Elements from one element of the window to the next.
    pub dilation: [u32; 3],
}

impl Window {
    /// Steps of one element, without padding.
    pub const PLAIN: Self = Self { stride: [1; 3], pad: [0; 3], dilation: [1; 3] };

    /// The window with steps of one element, and no padding, on all axes from `axes` on.
    pub(crate) fn along(mut self, axes: usize) -> Self {
        self.stride[axes..].fill(1);
        self.pad[axes..].fill(0);
        self.dilation[axes..].fill(1);
        self
    }

    /// Positions of a window of `extent` elements on an axis whose input has `input`; `None` when there is none, or 32 bits do not
    /// count them. With strides above 1 a window may be larger than its input and have one position: ggml rounds towards it.
    pub(crate) fn positions(&self, axis: usize, input: u32, extent: u32) -> Option<u32> {
        let [stride, pad, dilation] = [self.stride[axis], self.pad[axis], self.dilation[axis]].map(i64::from);
        let reach = dilation.checked_mul(i64::from(extent) - 1)?;
        let free = i64::from(input) + 2 * pad - reach - 1;
        u32::try_from(free.checked_div(stride)? + 1).ok().filter(|&positions| positions > 0)
    }

    /// The element of the input under element `k` of the window at position `o`, if it is one of its `input` elements.
    pub(super) fn element(&self, axis: usize, o: u32, k: u32, input: u32) -> Option<u32> {
        let [stride, pad, dilation] = [self.stride[axis], self.pad[axis], self.dilation[axis]].map(i64::from);
        let at = i64::from(o) * stride + i64::from(k) * dilation - pad;
        u32::try_from(at).ok().filter(|&at| at < input)
    }

    /// The parameters as words, axis by axis within each kind.
    pub(crate) fn words(&self) -> [u32; 9] {
        let ([a, b, c], [d, e, f], [g, h, i]) = (self.stride, self.pad, self.dilation);
        [a, b, c, d, e, f, g, h, i]
    }
}

/// What a pool makes of the elements under its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The greatest of them; the lowest finite f32 where there are none.
    Max,
    /// Their sum over the number of elements of the window, inside the input or not.
    Average,
    /// Their sum over their number; zero where there are none.
    AverageInside,
}

/// A pool over axes 0 and 1. What the window's position shows outside the input is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool {
    /// What is made of the elements.
    pub kind: PoolKind,
    /// Elements of the window; at least 1.
    pub extent: [u32; 2],
    /// Elements from one position to the next; at least 1.
    pub stride: [u32; 2],
    /// Elements before the input at which the first position starts.
    pub pad: [u32; 2],
}

impl Pool {
    /// How its window slides.
    pub(crate) fn window(&self) -> Window {
        let ([s0, s1], [p0, p1]) = (self.stride, self.pad);
        Window { stride: [s0, s1, 1], pad: [p0, p1, 0], dilation: [1; 3] }
    }
}

/// Arithmetic of an op of sliding windows: a multiplication and an addition for every term of a convolution, an operation for
/// every element under a window of a pool.
pub(super) fn flops(op: &Op, inputs: &[Desc], output: Desc) -> u64 {
    let of = |desc: &Desc| elements(&desc.shape);
    // A kernel's elements for one channel of the output.
    let each = |[n0, n1, n2, _]: Shape| elements(&[n0, n1, n2, 1]);
    let per_output = match (op, inputs) {
        (Op::Conv2d(_) | Op::Conv2dDw(_), [kernel, ..]) => product([2, each(kernel.shape)]),
        (&Op::Conv3d { channels, .. }, [kernel, ..]) => product([2, each(kernel.shape), channels.into()]),
        // Every element of the input meets the kernel of its channel.
        (Op::ConvTranspose1d { .. }, [kernel, x]) => {
            let [n0, n1, _, n3] = kernel.shape;
            return product([2, of(x), elements(&[n0, n1, 1, n3])]);
        }
        (Op::ConvTranspose2d { .. }, [kernel, x]) => return product([2, of(x), each(kernel.shape)]),
        (Op::Pool1d(pool) | Op::Pool2d(pool) | Op::Pool2dBack(pool), _) => product(pool.extent.map(u64::from)),
        // Every column is added once.
        (Op::Im2ColBack { .. } | Op::Col2Im1d { .. }, [columns, ..]) => return of(columns),
        _ => 0,
    };
    per_output.saturating_mul(of(&output))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_larger_than_its_input_may_have_a_position() {
        let window = Window { stride: [2; 3], ..Window::PLAIN };
        assert_eq!(
            (window.positions(0, 7, 3), window.positions(0, 2, 3), window.positions(0, 1, 4)),
            (Some(3), Some(1), None)
        );
        let padded = Window { stride: [1; 3], pad: [1; 3], dilation: [2; 3] };
        assert_eq!(padded.positions(0, 5, 3), Some(3));
        assert_eq!([0, 1, 2].map(|k| padded.element(0, 0, k, 5)), [None, Some(1), Some(3)]);
    }

    #[test]
    fn convolutions_count_two_per_term() {
        let (kernel, x, y) = (Desc::f32([3, 2, 4, 5]), Desc::f32([9, 8, 4, 2]), Desc::f32([7, 7, 5, 2]));
        assert_eq!(flops(&Op::Conv2d(Window::PLAIN), &[kernel, x], y), 2 * 3 * 2 * 4 * 7 * 7 * 5 * 2);
        let pool = Pool { kind: PoolKind::Max, extent: [3, 2], stride: [1; 2], pad: [0; 2] };
        assert_eq!(flops(&Op::Pool2d(pool), &[x], Desc::f32([7, 7, 4, 2])), 6 * 7 * 7 * 4 * 2);
    }
}
