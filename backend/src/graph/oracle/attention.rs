//! Attention, by all of its scores.

use crate::graph::array::row_index;
use crate::graph::{Array, FlashAttn, Op, Shape};

/// The row of keys or values that a query's head and batch look at.
pub(super) fn shared_row(x: &Array, queries: Shape, key: u32, head: u32, batch: u32) -> &[f64] {
    let (share, share_batch) = (queries[2] / x.shape[2], queries[3] / x.shape[3]);
    let at = x.position([0, key, head / share, batch / share_batch]);
    &x.data[at..at + x.shape[0] as usize]
}

pub(crate) fn flash_attn(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::FlashAttn(attention) = op else { unreachable!("the row belongs to FlashAttn") };
    let [q, k, v, ..] = inputs else { unreachable!("the rule asks for three operands") };
    let sinks = attention.sinks.then(|| &inputs[inputs.len() - 1]);
    let heads = q.shape[2];
    let mut y = Array::zeros(output);
    for row in 0..y.data.len() / output[0] as usize {
        let [head, query, batch] = row_index(row, &output);
        if head >= heads {
            continue;
        }
        let scores: Vec<f64> = (0..k.shape[1]).map(|key| score(attention, inputs, [key, query, head, batch])).collect();
        let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| sinks.data[head as usize]);
        let max = scores.iter().copied().fold(sink, f64::max);
        if max == f64::NEG_INFINITY {
            continue;
        }
        let mut total = (sink - max).exp();
        let mut sum = vec![0.0; output[0] as usize];
        // What is hidden may hold anything.
        for (key, score) in (0..).zip(scores).filter(|&(_, score)| score != f64::NEG_INFINITY) {
            let weight = (score - max).exp();
            total += weight;
            let value = shared_row(v, q.shape, key, head, batch);
            sum.iter_mut().zip(value).for_each(|(y, v)| *y += weight * v);
        }
        let at = y.position([0, head, query, batch]);
        y.data[at..].iter_mut().zip(sum).for_each(|(y, sum)| *y = sum / total);
        if attention.logs {
            let [element, behind] = FlashAttn::log_place(output[0], heads, head);
            let at = y.position([element, behind, query, batch]);
            y.data[at] = max + total.ln();
        }
    }
    vec![y]
}

/// The score of a key for a query, a head and a batch; -inf where the mask hides it.
pub(super) fn score(attention: &FlashAttn, inputs: &[Array], [key, query, head, batch]: [u32; 4]) -> f64 {
    let (q, k) = (&inputs[0], &inputs[1]);
    let mask = if attention.mask { inputs[3].wrapped([key, query, head, batch]) } else { 0.0 };
    if mask == f64::NEG_INFINITY {
        return mask;
    }
    let at = q.position([0, query, head, batch]);
    let row = &q.data[at..at + q.shape[0] as usize];
    let dot: f64 = row.iter().zip(shared_row(k, q.shape, key, head, batch)).map(|(q, k)| q * k).sum();
    let (scaled, cap) = (dot * f64::from(attention.scale), f64::from(attention.softcap));
    let capped = if cap == 0.0 { scaled } else { cap * (scaled / cap).tanh() };
    capped + attention.slope(head, q.shape[2]) * mask
}
