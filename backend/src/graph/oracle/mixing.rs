//! Weighted sums over heads and over residual streams.

use crate::graph::{Array, Op, Shape};

/// Operands q, k, weights, mask.
pub(crate) fn lightning_indexer(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let [q, k, weights, mask] = inputs else { unreachable!("the rule asks for four operands") };
    let at = |[key, t, _, n]: Shape| {
        let product = |head| (0..q.shape[0]).map(|e| q.at([e, head, t, n]) * k.at([e, 0, key, n])).sum::<f64>();
        let score: f64 = (0..q.shape[1]).map(|head| product(head).max(0.0) * weights.at([head, t, 0, n])).sum();
        score + mask.wrapped([key, t, 0, n])
    };
    vec![Array::from_fn(output, at)]
}

/// Operands mixes, scales, base: the matrix of a token from the logits behind the weights of its streams.
pub(crate) fn dsv4_hc_comb(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Dsv4HcComb { eps, iterations } = op else { unreachable!("the row belongs to Dsv4HcComb") };
    let ([mixes, scales, base], eps) = (inputs, f64::from(eps)) else {
        unreachable!("the rule asks for three operands")
    };
    let streams = output[0];
    let mut combs = Array::from_fn(output, |[to, from, t, _]| {
        let logit = 2 * streams + to + streams * from;
        mixes.at([logit, t, 0, 0]) * scales.data[2] + base.at([logit, 0, 0, 0])
    });
    for row in combs.rows_mut() {
        let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
        row.iter_mut().for_each(|x| *x = (*x - max).exp() / sum + eps);
    }
    let n = streams as usize;
    for comb in combs.data.chunks_exact_mut(n * n) {
        for half in 1..2 * iterations {
            // Line i of the matrix: columns in odd steps, rows in even ones.
            let place = |i: usize, k: usize| if half % 2 == 1 { i + n * k } else { k + n * i };
            for i in 0..n {
                let sum = eps + (0..n).map(|k| comb[place(i, k)]).sum::<f64>();
                (0..n).for_each(|k| comb[place(i, k)] /= sum);
            }
        }
    }
    vec![combs]
}

/// Operands streams, weights or gates.
pub(crate) fn dsv4_hc_pre(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Dsv4HcPre { scale, gated } = op else { unreachable!("the row belongs to Dsv4HcPre") };
    let (x, weights) = (&inputs[0], &inputs[1]);
    let at = |[i, t, ..]: Shape| {
        let weight = |stream| match gated {
            true => 1.0 / (1.0 + (-weights.at([i, stream, t, 0])).exp()),
            false => weights.at([stream, t, 0, 0]),
        };
        f64::from(scale) * (0..x.shape[1]).map(|stream| x.at([i, stream, t, 0]) * weight(stream)).sum::<f64>()
    };
    vec![Array::from_fn(output, at)]
}

/// Operands x, streams, weights, optional mixing.
pub(crate) fn dsv4_hc_post(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (x, streams, weights) = (&inputs[0], &inputs[1], &inputs[2]);
    let at = |[i, to, t, _]: Shape| {
        let kept = match inputs.get(3) {
            Some(mixing) => {
                (0..output[1]).map(|from| streams.at([i, from, t, 0]) * mixing.at([to, from, t, 0])).sum::<f64>()
            }
            None => streams.at([i, to, t, 0]),
        };
        x.at([i, t, 0, 0]) * weights.at([to, t, 0, 0]) + kept
    };
    vec![Array::from_fn(output, at)]
}
