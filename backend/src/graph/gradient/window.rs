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
    let placed = Place::find(&once, value).map(|place| (place, value));
    let Some((place, shape)) =
        placed.or_else(|| own_shape(&once, elements(&value)).and_then(|s| Some((Place::find(&once, s)?, s))))
    else {
        let rule = format!(
            "operand {} has no gradient: its window of {:?} with strides {:?} over {value:?} shows elements twice",
            call.operand, window.shape, window.strides
        );
        return Err(call.refusal(rule));
    };
    let mut placed =
        Operand { shape: place.order.map(|a| d.shape[a]), strides: place.order.map(|a| d.strides[a]), ..d };
    if placed.shape != shape {
        placed = call.add_as(Op::Pad { before: place.before }, &[placed], shape)?;
    }
    call.reshaped(placed, value)
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
