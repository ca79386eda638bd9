//! Norms that take the mean off, and the L2 norm.

use crate::graph::{Array, Op, Shape};

/// Takes mean and scale of elements off them: `(x - mean) / sqrt(variance + eps)`.
fn normalize(elements: &mut [f64], eps: f32) {
    let n = elements.len() as f64;
    let mean = elements.iter().sum::<f64>() / n;
    let variance = elements.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let scale = 1.0 / (variance + f64::from(eps)).sqrt();
    elements.iter_mut().for_each(|x| *x = (*x - mean) * scale);
}

pub(crate) fn norm(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::Norm { eps } = op else { unreachable!("the row belongs to Norm") };
    let mut y = inputs[0].clone();
    y.rows_mut().for_each(|row| normalize(row, eps));
    vec![y]
}

/// A group is a run of elements in linear order, since its channels are neighbours.
pub(crate) fn group_norm(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::GroupNorm { groups, eps } = op else { unreachable!("the row belongs to GroupNorm") };
    let mut y = inputs[0].clone();
    let [n0, n1, n2, _] = y.shape.map(|n| n as usize);
    let channels = n2.div_ceil(groups as usize);
    for sample in y.data.chunks_exact_mut(n0 * n1 * n2) {
        sample.chunks_mut(n0 * n1 * channels).for_each(|group| normalize(group, eps));
    }
    vec![y]
}

pub(crate) fn l2_norm(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::L2Norm { eps } = op else { unreachable!("the row belongs to L2Norm") };
    let mut y = inputs[0].clone();
    for row in y.rows_mut() {
        let length = row.iter().map(|x| x * x).sum::<f64>().sqrt();
        row.iter_mut().for_each(|x| *x /= length.max(f64::from(eps)));
    }
    vec![y]
}
