//! The gradient of a value from the gradient of a window over it: every permutation, reshape, slice and expansion undone.

use super::Call;
use crate::graph::{GraphError, Op, Operand, Shape, elements, linear_strides};

/// Takes `d`, the gradient of what `window` shows, to the gradient of its value, of shape `value`.
pub(super) fn unwind(call: &mut Call<'_>, window: &Operand, value: Shape, d: Operand) -> Result<Operand, GraphError> {
    if window.is_whole(&value) {
        return Ok(d);
    }
    let mut once = *window;
    for axis in (0..4).filter(|&axis| window.strides[axis] == 0) {
        once.shape[axis] = 1;
    }
    let d = call.summed(d, once.shape)?;
    let own = own_shape(&once, elements(&value));
    let found = [Some(value), own].into_iter().flatten().find_map(|shape| Some((Place::find(&once, shape)?, shape)));
    let Some((place, shape)) = found else {
        let (runs, order) = in_runs(&once);
        if runs.shape == once.shape {
            let rule = format!(
                "operand {} has no gradient: its window of {:?} with strides {:?} over {value:?} is no box of its elements",
                call.operand, window.shape, window.strides
            );
            return Err(call.refusal(rule));
        }
        let d = call.reshaped(permuted(&d, order), runs.shape)?;
        return unwind(call, &runs, value, d);
    };
    let mut placed = permuted(&d, place.order);
    if placed.shape != shape {
        placed = call.add_as(Op::Pad { before: place.before }, &[placed], shape)?;
    }
    call.reshaped(placed, value)
}

fn permuted(window: &Operand, order: [usize; 4]) -> Operand {
    Operand { shape: order.map(|a| window.shape[a]), strides: order.map(|a| window.strides[a]), ..*window }
}

/// The window with its axes in the order of its value's elements, those that follow each other made one where it can be; and that order.
fn in_runs(window: &Operand) -> (Operand, [usize; 4]) {
    let mut order = [0, 1, 2, 3];
    order.sort_by_key(|&a| (window.shape[a] == 1, window.strides[a]));
    let mut runs = Operand { shape: [1; 4], strides: [0; 4], ..*window };
    let mut last: Option<usize> = None;
    for axis in order.into_iter().filter(|&a| window.shape[a] != 1) {
        // Axes of more elements together than 32 bits count stay two.
        let joined = |at: usize| {
            let follows = runs.strides[at].checked_mul(runs.shape[at].into()) == Some(window.strides[axis]);
            runs.shape[at].checked_mul(window.shape[axis]).filter(|_| follows)
        };
        match last.and_then(|at| Some((at, joined(at)?))) {
            Some((at, extent)) => runs.shape[at] = extent,
            None => {
                let at = last.map_or(0, |at| at + 1);
                (runs.shape[at], runs.strides[at]) = (window.shape[axis], window.strides[axis]);
                last = Some(at);
            }
        }
    }
    (runs, order)
}

/// Where a window's axes lie in a shape of its value's elements.
struct Place {
    /// Axis of the window for each axis of the shape.
    order: [usize; 4],
    /// Elements before the window on each axis of the shape.
    before: Shape,
}

impl Place {
    /// The window as a permuted box of a tensor of this shape, if it is one.
    fn find(window: &Operand, shape: Shape) -> Option<Self> {
        let mut single: Vec<usize> = (0..4).filter(|&a| window.shape[a] == 1).collect();
        let mut long: Vec<usize> = (0..4).filter(|&a| window.shape[a] != 1).collect();
        let (mut order, mut before) = ([0; 4], [0; 4]);
        for (axis, stride) in linear_strides(&shape).into_iter().enumerate() {
            let found = long.iter().position(|&a| window.strides[a] == stride && shape[axis] != 1);
            order[axis] = match found {
                Some(at) => long.swap_remove(at),
                None => single.pop()?,
            };
            let first = window.offset / stride % u64::from(shape[axis]);
            before[axis] = first as u32;
            if first + u64::from(window.shape[order[axis]]) > u64::from(shape[axis]) {
                return None;
            }
        }
        Some(Self { order, before })
    }
}

/// A shape of `count` elements whose axes are the window's own steps.
fn own_shape(window: &Operand, count: u64) -> Option<Shape> {
    let mut strides: Vec<u64> = (0..4).filter(|&a| window.shape[a] != 1).map(|a| window.strides[a]).collect();
    strides.push(1);
    strides.push(count);
    strides.sort_unstable();
    strides.dedup();
    let mut shape = [1; 4];
    if strides.len() > 5 {
        return None;
    }
    for (n, pair) in shape.iter_mut().zip(strides.windows(2)) {
        if !pair[1].is_multiple_of(pair[0]) {
            return None;
        }
        *n = u32::try_from(pair[1] / pair[0]).ok()?;
    }
    Some(shape)
}
