//! The gradients of attention, by all of its weights: those of a row are exponentials of its scores less its logarithm.

use super::attention::{score, shared_row};
use crate::graph::array::row_index;
use crate::graph::{Array, FlashAttn, Op, Shape};

/// What one query of one head passes on to a key.
struct Pair {
    key: u32,
    /// Weight of the key, and derivative of the loss by `q k`.
    weight: f64,
    score: f64,
}

/// What a row of scores needs besides: its logarithm, and `dy y`.
#[derive(Clone, Copy)]
struct Row {
    log: f64,
    sum: f64,
}

/// The operands of both gradients.
struct Operands<'a> {
    attention: &'a FlashAttn,
    all: &'a [Array],
}

impl<'a> Operands<'a> {
    fn q(&self) -> &'a Array {
        &self.all[0]
    }

    fn k(&self) -> &'a Array {
        &self.all[1]
    }

    fn v(&self) -> &'a Array {
        &self.all[2]
    }

    /// The operand that holds what an earlier pass left.
    fn kept(&self) -> &'a Array {
        &self.all[self.all.len() - 2]
    }

    fn dy(&self, [query, head, batch]: [u32; 3]) -> &'a [f64] {
        let dy = &self.all[self.all.len() - 1];
        let at = dy.position([0, head, query, batch]);
        &dy.data[at..at + dy.shape[0] as usize]
    }

    fn place(&self, [query, head, batch]: [u32; 3]) -> usize {
        let kept = self.kept();
        let [element, behind] = FlashAttn::log_place(kept.shape[0], self.q().shape[2], head);
        kept.position([element, behind, query, batch])
    }

    /// All keys that a row sees.
    fn pairs(&self, at: [u32; 3], row: Row) -> impl Iterator<Item = Pair> + use<'_, 'a> {
        let [query, head, batch] = at;
        (0..self.k().shape[1]).filter_map(move |key| {
            let logit = score(self.attention, self.all, [key, query, head, batch]);
            (logit != f64::NEG_INFINITY).then(|| {
                let weight = (logit - row.log).exp();
                let v = shared_row(self.v(), self.q().shape, key, head, batch);
                let dp: f64 = self.dy(at).iter().zip(v).map(|(dy, v)| dy * v).sum();
                let slope = self.slope(key, at);
                Pair { key, weight, score: weight * (dp - row.sum) * slope }
            })
        })
    }

    /// Derivative of a score by `q k`.
    fn slope(&self, key: u32, [query, head, batch]: [u32; 3]) -> f64 {
        let (scale, cap) = (f64::from(self.attention.scale), f64::from(self.attention.softcap));
        if cap == 0.0 {
            return scale;
        }
        let k = shared_row(self.k(), self.q().shape, key, head, batch);
        let dot: f64 = self.query([query, head, batch]).iter().zip(k).map(|(q, k)| q * k).sum();
        let tanh = (scale * dot / cap).tanh();
        scale * (1.0 - tanh * tanh)
    }

    fn query(&self, [query, head, batch]: [u32; 3]) -> &'a [f64] {
        let at = self.q().position([0, query, head, batch]);
        &self.q().data[at..at + self.q().shape[0] as usize]
    }
}

pub(crate) fn queries(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::FlashAttnBackQ(attention) = op else { unreachable!("the row belongs to FlashAttnBackQ") };
    let operands = Operands { attention, all: inputs };
    let (y, heads) = (operands.kept(), operands.q().shape[2]);
    let mut dq = Array::zeros(output);
    for row in 0..dq.data.len() / output[0] as usize {
        let [head, query, batch] = row_index(row, &output);
        if head >= heads {
            continue;
        }
        let at = [query, head, batch];
        let first = y.position([0, head, query, batch]);
        let sum = operands.dy(at).iter().zip(&y.data[first..]).map(|(dy, y)| dy * y).sum();
        let row = Row { log: y.data[operands.place(at)], sum };
        let first = dq.position([0, head, query, batch]);
        for pair in operands.pairs(at, row) {
            let k = shared_row(operands.k(), operands.q().shape, pair.key, head, batch);
            dq.data[first..].iter_mut().zip(k).for_each(|(dq, k)| *dq += pair.score * k);
        }
        let [element, behind] = FlashAttn::log_place(output[0], heads, head);
        let place = dq.position([element, behind, query, batch]);
        dq.data[place] = row.log;
        dq.data[place + 1] = row.sum;
    }
    vec![dq]
}

pub(crate) fn keys_values(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::FlashAttnBackKv(attention) = op else { unreachable!("the row belongs to FlashAttnBackKv") };
    let operands = Operands { attention, all: inputs };
    let ([_, n, heads, batches], kv_heads) = (operands.q().shape, operands.k().shape[2]);
    let mut d = Array::zeros(output);
    let rows = (0..batches).flat_map(|b| (0..heads).flat_map(move |h| (0..n).map(move |query| [query, h, b])));
    for at @ [_, head, batch] in rows {
        let kept = &operands.kept().data[operands.place(at)..];
        let (head, row) = (head / (heads / kv_heads), Row { log: kept[0], sum: kept[1] });
        for pair in operands.pairs(at, row) {
            let (dk, dv) = (d.position([0, head, pair.key, batch]), d.position([0, kv_heads + head, pair.key, batch]));
            d.data[dk..].iter_mut().zip(operands.query(at)).for_each(|(dk, q)| *dk += pair.score * q);
            d.data[dv..].iter_mut().zip(operands.dy(at)).for_each(|(dv, dy)| *dv += pair.weight * dy);
        }
    }
    vec![d]
}
