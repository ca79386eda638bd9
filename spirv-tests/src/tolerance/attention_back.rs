//! The bounds of attention's gradients.

use fblayout::device::MatrixType;
use fblayout::graph::{Array, FlashAttn};

use super::attention::{ONE, Place, Rounding, score};
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
    rounding: Rounding,
    /// Steps between the numbers that matrix units are given for `dy`, and for derivatives by `q k` before the factor on these: powers of two
    /// bring what is as large as the largest can be to between 1/2 and 1, and to between 2^13 and 2^14.
    step_dy: f64,
    step_scores: f64,
}

impl<'a> Operands<'a> {
    /// `sum`: the largest `dy y`.
    fn new(attention: &'a FlashAttn, inputs: &'a [Array], sum: f64, rounded: Option<MatrixType>) -> Self {
        let rounding = Rounding::of(rounded);
        let most = |array: &Array| array.data.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let (dy, v) = (&inputs[inputs.len() - 1], &inputs[2]);
        let derivative = f64::from(v.shape[0]) * most(dy) * most(v) + sum;
        Self {
            attention,
            inputs,
            absolute: [0, 1].map(|i| inputs[i].map(f64::abs)),
            rounding,
            step_dy: rounding.step * 2.0 * most(dy),
            step_scores: rounding.step * derivative / 8192.0,
        }
    }

    /// The largest that an element of `dy` may become.
    fn grown_dy(&self, dy: f64) -> f64 {
        dy * (1.0 + self.rounding.relative) + self.step_dy
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
    /// the cap's slope is off by, and rounds four times. Matrix units are given both once more rounded.
    fn pairs(&self, at: Place, row: Row) -> Vec<Pair> {
        let (q, v) = (&self.inputs[0], &self.inputs[2]);
        let (scale, cap) = (f64::from(self.attention.scale), f64::from(self.attention.softcap));
        let pair = |key: u32| {
            let absolute = [&self.absolute[0], &self.absolute[1]];
            let s = score(self.attention, self.inputs, absolute, at, key, self.rounding);
            if s.value == f64::NEG_INFINITY {
                return None;
            }
            let exponent = s.value - row.log;
            let weight = exponent.exp();
            let weight_error = weight * (s.error.exp_m1() + U * exponent.abs() + exp(exponent)) + FLUSH;
            let terms: Vec<[f64; 2]> = (0..v.shape[0]).map(|i| [self.dy(at, i), at.shared(v, q, key, i)]).collect();
            let dp = terms.iter().map(|[dy, v]| dy * v).sum::<f64>();
            let size = terms.iter().map(|[dy, v]| (dy * v).abs()).sum::<f64>();
            let grown =
                terms.iter().map(|[dy, v]| self.grown_dy(dy.abs()) * self.rounding.grown(v.abs()) - (dy * v).abs());
            let of_factors = if self.rounding.relative > 0.0 { grown.sum() } else { 0.0 };
            let of_sum = (terms.len() as f64 + 2.0) * (self.rounding.sums * U * size + FLUSH);
            let difference_error = of_factors + of_sum + row.sum_error;
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
            let Rounding { relative, step, .. } = self.rounding;
            let score_error = score_error * (1.0 + relative) + score * relative + self.step_scores * scale.abs();
            let weight_error = weight_error * (1.0 + relative) + weight * relative + step / ONE;
            Some(Pair { key, weight, weight_error, score, score_error })
        };
        (0..self.inputs[1].shape[1]).filter_map(pair).collect()
    }
}

pub(super) fn queries(attention: &FlashAttn, inputs: &[Array], out: &Array, rounded: Option<MatrixType>) -> Array {
    let (y, dy) = (&inputs[inputs.len() - 2], &inputs[inputs.len() - 1]);
    let sum_of = |row: &[f64], dy: &[f64]| row.iter().zip(dy).map(|(y, dy)| (y * dy).abs()).sum::<f64>();
    // Behind the heads there are rows of logarithms, which only make the bound larger.
    let most = y.rows().flat_map(|y| dy.rows().map(move |dy| sum_of(y, dy)));
    let largest = if rounded.is_some() { most.fold(0.0, f64::max) } else { 0.0 };
    let operands = Operands::new(attention, inputs, largest, rounded);
    let (q, k, y) = (&inputs[0], &inputs[1], operands.kept());
    let mut bound = Array::zeros(out.shape);
    for at in operands.places() {
        let Place { head, query, batch } = at;
        let terms = (0..y.shape[0]).map(|i| operands.dy(at, i) * y.at([i, head, query, batch]));
        let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), t| (sum + t, size + t.abs()));
        let sum_error = (f64::from(y.shape[0]) + 2.0) * (U * size + FLUSH);
        let pairs = operands.pairs(at, Row { log: operands.kept_at(at, 0), sum, sum_error });
        let chain = (f64::from(k.shape[1]) + 2.0) * operands.rounding.sums * U;
        for i in 0..q.shape[0] {
            let term = |p: &Pair| {
                let k = at.shared(k, q, p.key, i).abs();
                let grown = (p.score + p.score_error) * operands.rounding.grown(k) - p.score * k;
                grown + chain * p.score * k + FLUSH
            };
            let place = bound.position([i, head, query, batch]);
            bound.data[place] = pairs.iter().map(term).sum();
        }
        let [element, behind] = FlashAttn::log_place(out.shape[0], q.shape[2], head);
        let place = bound.position([element + 1, behind, query, batch]);
        bound.data[place] = sum_error;
    }
    bound
}

pub(super) fn keys_values(attention: &FlashAttn, inputs: &[Array], out: &Array, rounded: Option<MatrixType>) -> Array {
    let kept = &inputs[inputs.len() - 2];
    let largest = kept.data.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    let operands = Operands::new(attention, inputs, largest, rounded);
    let ([size, n, heads, _], kv_heads) = (inputs[0].shape, inputs[1].shape[2]);
    let share = heads / kv_heads;
    let chain = (f64::from(n * share) + 2.0) * operands.rounding.sums * U;
    let mut bound = Array::zeros(out.shape);
    for at in operands.places() {
        let row = Row { log: operands.kept_at(at, 0), sum: operands.kept_at(at, 1), sum_error: 0.0 };
        for pair in operands.pairs(at, row) {
            for i in 0..size {
                let q = inputs[0].at([i, at.query, at.head, at.batch]).abs();
                let place = |first: u32| bound.position([i, first + at.head / share, pair.key, at.batch]);
                let (dk, dv) = (place(0), place(kv_heads));
                let dy = operands.dy(at, i).abs();
                let grown = (pair.score + pair.score_error) * operands.rounding.grown(q) - pair.score * q;
                bound.data[dk] += grown + chain * pair.score * q + FLUSH;
                let grown = (pair.weight + pair.weight_error) * operands.grown_dy(dy) - pair.weight * dy;
                bound.data[dv] += grown + chain * pair.weight * dy + FLUSH;
            }
        }
    }
    bound
}
