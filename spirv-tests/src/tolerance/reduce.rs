//! Sums and what is made of them: every addition on an element's way rounds once, relative to the magnitudes summed.

use fblayout::graph::{Array, Op, oracle, rows};

use super::{DIVIDE, FLUSH, SQRT, U, chain, integers};

/// Sums of rows and of all, means and running sums. Running sums lose `U` of the magnitudes with each addition; the others carry what was
/// rounded off along: `U` of the result for its own rounding, and of the magnitudes only `(n U)^2`.
pub(super) fn sums(op: &Op, x: &Array, out: &Array) -> Array {
    let magnitudes = oracle(op, &[x.map(f64::abs)], out.shape).remove(0);
    let exact = integers(x) && !matches!(op, Op::Mean) && magnitudes.data.iter().all(|&m| m < 1.0 / U);
    let sums = oracle(op, std::slice::from_ref(x), out.shape).remove(0);
    // Rows are added up in as little as one invocation.
    let terms = chain(x.shape[0] as usize) + if *op == Op::Sum { rows(&x.shape) as f64 + 10.0 } else { 0.0 };
    let (of_sum, of_magnitudes) = match op {
        Op::CumSum => (0.0, terms * U),
        // The factor and the product.
        Op::Mean => (3.0 * U, (terms * U).powi(2)),
        _ => (U, (terms * U).powi(2)),
    };
    let mut bound = magnitudes;
    for (m, sum) in bound.data.iter_mut().zip(sums.data) {
        *m = if exact { 0.0 } else { of_sum * sum.abs() + of_magnitudes * *m + FLUSH };
    }
    bound
}

pub(super) fn norm(x: &Array, eps: f32) -> Array {
    let mut bound = x.clone();
    let additions = chain(x.shape[0] as usize);
    bound.rows_mut().for_each(|row| normalized(row, f64::from(eps), additions));
    bound
}

pub(super) fn group_norm(x: &Array, groups: u32, eps: f32) -> Array {
    let mut bound = x.clone();
    let [n0, n1, n2, _] = x.shape.map(|n| n as usize);
    let channels = n2.div_ceil(groups as usize);
    for sample in bound.data.chunks_exact_mut(n0 * n1 * n2) {
        for group in sample.chunks_mut(n0 * n1 * channels) {
            // Quads end with the rows of the group.
            let quads = group.len() / n0 * n0.div_ceil(4);
            normalized(group, f64::from(eps), (group.len() as f64).min(quads as f64 + 14.0));
        }
    }
    bound
}

/// Elements become their bounds as `(x - mean) / sqrt(variance + eps)`. The mean's error shifts all differences; with their own
/// rounding it enters the variance twice and every difference once.
fn normalized(elements: &mut [f64], eps: f64, additions: f64) {
    let n = elements.len() as f64;
    let mean = elements.iter().sum::<f64>() / n;
    let magnitude = elements.iter().map(|x| x.abs()).sum::<f64>() / n;
    let variance = elements.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let farthest = elements.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    let shift = (additions * U + DIVIDE) * magnitude + U * farthest;
    let summed = ((additions + 2.0) * U + DIVIDE) * (variance + shift * shift);
    let square = summed + 2.0 * variance.sqrt() * shift + shift * shift + U * (variance + eps);
    let scale = 1.0 / (variance + eps).sqrt();
    let relative = square / (variance + eps) / 2.0 * 1.001 + SQRT + DIVIDE + U;
    elements.iter_mut().for_each(|x| *x = scale * ((*x - mean).abs() * relative + shift * (1.0 + relative)) + FLUSH);
}
