//! Values of a formula.

use crate::graph::{Array, Op, Shape};

pub(crate) fn fill(op: &Op, _: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Fill { value } = op else { unreachable!("the row belongs to Fill") };
    vec![Array::from_fn(output, |_| f64::from(value))]
}

pub(crate) fn arange(op: &Op, _: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Arange { start, step } = op else { unreachable!("the row belongs to Arange") };
    vec![Array::from_fn(output, |i| f64::from(start) + f64::from(step) * f64::from(i[0]))]
}

pub(crate) fn timestep(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::TimestepEmbedding { max_period } = op else { unreachable!("the row belongs to TimestepEmbedding") };
    let half = output[0] / 2;
    let angle = |j: u32, step: f64| step * (-f64::from(max_period).ln() * f64::from(j) / f64::from(half)).exp();
    vec![Array::from_fn(output, |[j, t, ..]| {
        let step = inputs[0].at([t, 0, 0, 0]);
        match j.checked_sub(half) {
            None => angle(j, step).cos(),
            Some(j) if j < half => angle(j, step).sin(),
            Some(_) => 0.0,
        }
    })]
}
