//! The bounds of attention's gradients.

use fblayout::graph::{Array, FlashAttn};

use super::attention::{Place, score};
use super::{FLUSH, U, exp};

/// A weight and the derivative by `q k`, and what they may be off by.
struct Pair {
    key: u32,
    weight: f64,
    weight_error: f64,
    score: f64,
    score_error: f64,
}

/// What a row keeps, and what it may be off by: the logarithm is an operand, and so is `dy y` but in the pass that sums it.
#[derive(Clone, Copy)]
struct Row {
    log: f64,
    sum: f64,
    sum_error: f64,
}

struct Operands<'a> {
    attention: &'a FlashAttn,
    inputs: &'a [Array],
    /// Magnitudes of queries and keys.
    absolute: [Array; 2],
}

impl<'a> Operands<'a> {
    fn new(attention: &'a FlashAttn, inputs: &'a [Array]) -> Self {
        Self { attention, inputs, absolute: [0, 1].map(|i| inputs[i].map(f64::abs)) }
    }

    fn kept(&self) -> &'a Array {
        &self.inputs[self.inputs.len() - 2]
    }

    fn dy(&self, at: Place, i: u32) -> f64 {
        self.inputs[self.inputs.len() - 1].at([i, at.head, at.query, at.batch])
    }

    fn kept_at(&self, at: Place, i: u32) -> f64 {
        let kept = self.kept();
        let [element, behind] = FlashAttn::log_place(kept.shape[0], self.inputs[0].shape[2], at.head);
        kept.at([element + i, behind, at.query, at.batch])
    }

    fn places(&self) -> impl Iterator<Item = Place> + use<> {
        let [_, n, heads, batches] = self.inputs[0].shape;
        (0..batches).flat_map(move |batch| {
            (0..heads).flat_map(move |head| (0..n).map(move |query| Place { head, query, batch }))
        })
    }

    /// A weight is off by its score and its exponential, relative to itself; a derivative besides by the sums of `dy v` and `dy y` and what
    /// the cap's slope is off by, and rounds four times.
    fn pairs(&self, at: Place, row: Row) -> Vec<Pair> {
        let (q, v) = (&self.inputs[0], &self.inputs[2]);
        let (scale, cap) = (f64::from(self.attention.scale), f64::from(self.attention.softcap));
        let pair = |key: u32| {
            let s = score(self.attention, self.inputs, [&self.absolute[0], &self.absolute[1]], at, key);
            if s.value == f64::NEG_INFINITY {
                return None;
            }
            let exponent = s.value - row.log;
            let weight = exponent.exp();
            let weight_error = weight * (s.error + U * exponent.abs() + exp(exponent)) + FLUSH;
            let terms: Vec<f64> = (0..v.shape[0]).map(|i| self.dy(at, i) * at.shared(v, q, key, i)).collect();
            let (dp, size) = (terms.iter().sum::<f64>(), terms.iter().map(|t| t.abs()).sum::<f64>());
            let difference_error = (terms.len() as f64 + 2.0) * (U * size + FLUSH) + row.sum_error;
            let difference = (dp - row.sum).abs() + difference_error;
            let (slope, slope_error) = match cap {
                0.0 => (scale.abs(), 0.0),
                _ => {
                    let tanh = s.unmasked / cap;
                    let error = 2.0 * tanh.abs() * (s.unmasked_error / cap.abs()) + 3.0 * U;
                    (scale.abs() * (1.0 - tanh * tanh), scale.abs() * error)
                }
            };
            let score_error = weight_error * difference * (slope + slope_error)
                + weight * difference_error * (slope + slope_error)
                + weight * difference * (slope_error + 4.0 * U * slope)
                + FLUSH * (1.0 + difference);
            let score = weight * (dp - row.sum).abs() * slope;
            Some(Pair { key, weight, weight_error, score, score_error })
        };
        (0..self.inputs[1].shape[1]).filter_map(pair).collect()
    }
}

pub(super) fn queries(attention: &FlashAttn, inputs: &[Array], out: &Array) -> Array {
    let operands = Operands::new(attention, inputs);
    let (q, k, y) = (&inputs[0], &inputs[1], operands.kept());
    let mut bound = Array::zeros(out.shape);
    for at in operands.places() {
        let Place { head, query, batch } = at;
        let terms = (0..y.shape[0]).map(|i| operands.dy(at, i) * y.at([i, head, query, batch]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        let sum_error = (f64::from(y.shape[0]) + 2.0) * (U * size + FLUSH);
        let pairs = operands.pairs(at, Row { log: operands.kept_at(at, 0), sum, sum_error });
        let chain = (f64::from(k.shape[1]) + 2.0) * U;
        for i in 0..q.shape[0] {
            let term = |p: &Pair| (p.score_error + chain * p.score) * at.shared(k, q, p.key, i).abs() + FLUSH;
            let place = bound.position([i, head, query, batch]);
            bound.data[place] = pairs.iter().map(term).sum();
        }
        let [element, behind] = FlashAttn::log_place(out.shape[0], q.shape[2], head);
        let place = bound.position([element + 1, behind, query, batch]);
        bound.data[place] = sum_error;
    }
    bound
}

pub(super) fn keys_values(attention: &FlashAttn, inputs: &[Array], out: &Array) -> Array {
    let operands = Operands::new(attention, inputs);
    let ([size, n, heads, _], kv_heads) = (inputs[0].shape, inputs[1].shape[2]);
    let share = heads / kv_heads;
    let chain = (f64::from(n * share) + 2.0) * U;
    let mut bound = Array::zeros(out.shape);
    for at in operands.places() {
        let row = Row { log: operands.kept_at(at, 0), sum: operands.kept_at(at, 1), sum_error: 0.0 };
        for pair in operands.pairs(at, row) {
            for i in 0..size {
                let q = inputs[0].at([i, at.query, at.head, at.batch]).abs();
                let place = |first: u32| bound.position([i, first + at.head / share, pair.key, at.batch]);
                let (dk, dv) = (place(0), place(kv_heads));
                bound.data[dk] += (pair.score_error + chain * pair.score) * q + FLUSH;
                bound.data[dv] += (pair.weight_error + chain * pair.weight) * operands.dy(at, i).abs() + FLUSH;
            }
        }
    }
    bound
}
