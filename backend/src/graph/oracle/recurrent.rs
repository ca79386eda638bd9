//! Recurrences over tokens, step by step, and triangular solves.

use crate::graph::array::indices;
use crate::graph::{Array, Op, Shape};

/// Elements of a token's vector.
fn vector(x: &Array, head: usize, token: usize) -> &[f64] {
    let [size, heads, ..] = x.shape.map(|n| n as usize);
    let first = (token * heads + head) * size;
    &x.data[first..first + size]
}

/// Runs a recurrence with a square state per head, whose first states are in the last operand and whose vectors are like operand 0.
/// `step(state, size, head, token)` gives a token's result and updates the state, a row after the other.
fn square_states(
    inputs: &[Array],
    output: Shape,
    step: impl Fn(&mut [f64], usize, usize, usize) -> Vec<f64>,
) -> Vec<Array> {
    let (states, [size, heads, tokens, _]) = (&inputs[inputs.len() - 1], inputs[0].shape.map(|n| n as usize));
    let per_sequence = tokens / states.shape[1] as usize;
    let (mut y, mut last) = (vec![0.0; size * heads * tokens], states.data.clone());
    for (i, state) in last.chunks_exact_mut(size * size).enumerate() {
        let (sequence, head) = (i / heads, i % heads);
        for token in sequence * per_sequence..(sequence + 1) * per_sequence {
            let first = (token * heads + head) * size;
            y[first..first + size].copy_from_slice(&step(state, size, head, token));
        }
    }
    y.extend(last);
    vec![Array { shape: output, data: y }]
}

/// Operands k, v, r, bonus, decay, states.
pub(crate) fn rwkv_wkv6(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    square_states(inputs, output, |state, size, head, token| {
        let [k, v, r, w] = [0, 1, 2, 4].map(|i| vector(&inputs[i], head, token));
        let bonus = vector(&inputs[3], head, 0);
        let mut y = vec![0.0; size];
        for (i, row) in state.chunks_exact_mut(size).enumerate() {
            for (j, s) in row.iter_mut().enumerate() {
                y[j] += r[i] * (k[i] * v[j] * bonus[i] + *s);
                *s = *s * w[i] + k[i] * v[j];
            }
        }
        y
    })
}

/// Operands k, v, q, g, states.
pub(crate) fn gated_linear_attn(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::GatedLinearAttn { scale } = op else { unreachable!("the row belongs to GatedLinearAttn") };
    square_states(inputs, output, |state, size, head, token| {
        let [k, v, q, g] = [0, 1, 2, 3].map(|i| vector(&inputs[i], head, token));
        let mut y = vec![0.0; size];
        for (i, row) in state.chunks_exact_mut(size).enumerate() {
            for (j, s) in row.iter_mut().enumerate() {
                *s = *s * g[i] + k[i] * v[j];
                y[j] += q[i] * f64::from(scale) * *s;
            }
        }
        y
    })
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Operands r, w, k, v, a, b, states.
pub(crate) fn rwkv_wkv7(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    square_states(inputs, output, |state, size, head, token| {
        let [r, w, k, v, a, b] = [0, 1, 2, 3, 4, 5].map(|i| vector(&inputs[i], head, token));
        let row = |(i, row): (usize, &mut [f64])| {
            let removed = dot(row, a);
            for (j, s) in row.iter_mut().enumerate() {
                *s = *s * w[j] + v[i] * k[j] + removed * b[j];
            }
            dot(row, r)
        };
        state.chunks_exact_mut(size).enumerate().map(row).collect()
    })
}

/// Operands q, k, v, g, beta, states.
pub(crate) fn gated_delta_net(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::GatedDeltaNet { snapshots } = op else { unreachable!("the row belongs to GatedDeltaNet") };
    let [q, k, v, g, beta, first] = inputs else { unreachable!("the rule asks for six operands") };
    let [size, heads, tokens, sequences] = v.shape;
    let mut y = Array::zeros(v.shape);
    let mut kept = vec![Array::zeros(first.shape); snapshots as usize];
    for [head, sequence, ..] in indices(&[heads, sequences, 1, 1]) {
        let mut state = Array::from_fn([size, size, 1, 1], |[j, i, ..]| first.at([j, i, head, sequence]));
        for t in 0..tokens {
            let shared = |x: &Array| -> Vec<f64> {
                let at = [head % x.shape[1], t, sequence / (sequences / x.shape[3])];
                (0..size).map(|j| x.at([j, at[0], at[1], at[2]])).collect()
            };
            let (q, k) = (shared(q), shared(k));
            for (i, row) in state.rows_mut().enumerate() {
                for (j, s) in row.iter_mut().enumerate() {
                    *s *= g.at([if g.shape[0] == 1 { 0 } else { j as u32 }, head, t, sequence]).exp();
                }
                let delta = (v.at([i as u32, head, t, sequence]) - dot(row, &k)) * beta.at([0, head, t, sequence]);
                row.iter_mut().zip(&k).for_each(|(s, k)| *s += delta * k);
                let to = y.position([i as u32, head, t, sequence]);
                y.data[to] = dot(row, &q) / f64::from(size).sqrt();
            }
            if let Some(kept) = kept.get_mut((tokens - 1 - t) as usize) {
                let to = kept.position([0, 0, head, sequence]);
                kept.data[to..to + state.data.len()].copy_from_slice(&state.data);
            }
        }
    }
    let states = kept.into_iter().flat_map(|kept| kept.data);
    vec![Array { shape: output, data: y.data.into_iter().chain(states).collect() }]
}

/// Operands input, kernel.
pub(crate) fn ssm_conv(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (x, kernel) = (&inputs[0], &inputs[1]);
    let at = |[channel, t, sequence, _]: Shape| {
        (0..kernel.shape[0]).map(|k| x.at([t + k, channel, sequence, 0]) * kernel.at([k, channel, 0, 0])).sum()
    };
    vec![Array::from_fn(output, at)]
}

/// Operands states, x, dt, A, B, C, ids.
pub(crate) fn ssm_scan(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::SsmScan { snapshots } = op else { unreachable!("the row belongs to SsmScan") };
    let [first, x, dt, a, b, c, ids] = inputs else { unreachable!("the rule asks for seven operands") };
    let ([n, ..], [dim, heads, tokens, sequences]) = (first.shape, x.shape);
    let mut y = Array::zeros(x.shape);
    let mut kept = vec![Array::zeros([n, dim, heads, sequences]); snapshots as usize];
    for [channel, head, sequence, _] in indices(&[dim, heads, sequences, 1]) {
        let from = ids.data[sequence as usize] as u32;
        let group = head / (heads / b.shape[1]);
        let mut state: Vec<f64> = (0..n).map(|i| first.at([i, channel, head, from])).collect();
        for t in 0..tokens {
            let step = dt.at([head, t, sequence, 0]).exp().ln_1p();
            let mut result = 0.0;
            for (s, i) in state.iter_mut().zip(0..) {
                let rate = a.at([if a.shape[0] == 1 { 0 } else { i }, head, 0, 0]);
                let added = x.at([channel, head, t, sequence]) * step * b.at([i, group, t, sequence]);
                *s = *s * (step * rate).exp() + added;
                result += *s * c.at([i, group, t, sequence]);
            }
            let to = y.position([channel, head, t, sequence]);
            y.data[to] = result;
            if let Some(kept) = kept.get_mut((tokens - 1 - t) as usize) {
                let to = kept.position([0, channel, head, sequence]);
                kept.data[to..to + state.len()].copy_from_slice(&state);
            }
        }
    }
    let states = kept.into_iter().flat_map(|kept| kept.data);
    vec![Array { shape: output, data: y.data.into_iter().chain(states).collect() }]
}

/// Operands triangular matrices, right sides.
pub(crate) fn solve_tri(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (a, b) = (&inputs[0], &inputs[1]);
    let mut x = Array::zeros(output);
    for index @ [column, row, i2, i3] in indices(&output) {
        let known: f64 = (0..row).map(|j| a.at([j, row, i2, i3]) * x.at([column, j, i2, i3])).sum();
        let at = x.position(index);
        x.data[at] = (b.at(index) - known) / a.at([row, row, i2, i3]);
    }
    vec![x]
}
