//! Values at other places, and values left out.

use crate::graph::{Array, Op, Shape, Triangle};

/// The array at `i - before`, repeated without end in both directions.
fn circular(x: &Array, i: Shape, before: [i64; 4]) -> f64 {
    x.at(std::array::from_fn(|axis| (i64::from(i[axis]) - before[axis]).rem_euclid(i64::from(x.shape[axis])) as u32))
}

pub(crate) fn concat(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (&Op::Concat { axis }, [a, b]) = (op, inputs) else { unreachable!("the row belongs to Concat") };
    let axis = axis as usize;
    vec![Array::from_fn(output, |mut i| match i[axis].checked_sub(a.shape[axis]) {
        None => a.at(i),
        Some(beyond) => {
            i[axis] = beyond;
            b.at(i)
        }
    })]
}

pub(crate) fn pad_circular(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::PadCircular { before } = op else { unreachable!("the row belongs to PadCircular") };
    vec![Array::from_fn(output, |i| circular(&inputs[0], i, before.map(i64::from)))]
}

pub(crate) fn roll(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Roll { shift } = op else { unreachable!("the row belongs to Roll") };
    vec![Array::from_fn(output, |i| circular(&inputs[0], i, shift.map(i64::from)))]
}

pub(crate) fn pad_reflect(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::PadReflect { before } = op else { unreachable!("the row belongs to PadReflect") };
    let last = i64::from(inputs[0].shape[0]) - 1;
    vec![Array::from_fn(output, |[i0, i1, i2, i3]| {
        let from_start = (i64::from(i0) - i64::from(before)).abs();
        let mirrored = last - (last - from_start).abs();
        inputs[0].at([mirrored as u32, i1, i2, i3])
    })]
}

pub(crate) fn diag(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    vec![Array::from_fn(output, |[i0, i1, i2, i3]| if i0 == i1 { inputs[0].at([i0, 0, i2, i3]) } else { 0.0 })]
}

/// Masks of the diagonal, and triangles.
pub(crate) fn band(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let left = |i: [u32; 4]| inputs[0].at(i);
    vec![Array::from_fn(output, |i| {
        let [i0, i1, ..] = i;
        let (kept, other) = match *op {
            Op::DiagMaskInf { past } => (i0 <= past + i1, f64::NEG_INFINITY),
            Op::DiagMaskZero { past } => (i0 <= past + i1, 0.0),
            Op::Tri(Triangle::UpperDiagonal) => (i0 >= i1, 0.0),
            Op::Tri(Triangle::Upper) => (i0 > i1, 0.0),
            Op::Tri(Triangle::LowerDiagonal) => (i0 <= i1, 0.0),
            Op::Tri(Triangle::Lower) => (i0 < i1, 0.0),
            _ => unreachable!("the rows belong to masks and triangles"),
        };
        if kept { left(i) } else { other }
    })]
}
