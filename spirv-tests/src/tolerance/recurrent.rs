//! Recurrences and triangular solves.
//!
//! A recurrence whose steps only add and multiply gives polynomials of its operands. An operation rounds once, so that a term which
//! went through m of them is off by `m U` of itself, and a result by as much of what the recurrence gives for the operands'
//! magnitudes. What a step multiplies by an exponential has its error as well.

use fblayout::graph::{Array, Op, oracle};

use super::{DIVIDE, FLUSH, U, exp};

fn magnitudes(op: &Op, inputs: &[Array], relative: f64, out: &Array) -> Array {
    oracle(op, inputs, out.shape).remove(0).map(|m| relative * m + FLUSH * relative / U)
}

/// Tokens of a sequence, for operands `[s, heads, t]` and states of n sequences last.
fn tokens(inputs: &[Array]) -> f64 {
    f64::from(inputs[0].shape[2] / inputs[inputs.len() - 1].shape[1])
}

fn absolute(inputs: &[Array]) -> Vec<Array> {
    inputs.iter().map(|input| input.map(f64::abs)).collect()
}

/// Per step a state is multiplied, has a product added, and with WKV7 a product of its sum with `a`; a result is a sum over the
/// state's rows or columns of up to four factors.
pub fn square_states(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let size = f64::from(inputs[0].shape[0]);
    let per_step = if *op == Op::RwkvWkv7 { size + 5.0 } else { 3.0 };
    magnitudes(op, &absolute(inputs), (tokens(inputs) * per_step + size + 5.0) * U, out)
}

/// Per step a state is multiplied by an exponential, summed, subtracted, and multiplied twice. Against the magnitudes, v and beta
/// turn their signs, so that the difference of v and the sum becomes minus the sum of their magnitudes, times minus beta's.
pub fn delta_net(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let (v, g) = (&inputs[2], &inputs[3]);
    let (size, tokens) = (f64::from(v.shape[0]), f64::from(v.shape[2]));
    let decay = g.data.iter().map(|&g| exp(g)).fold(0.0, f64::max);
    let mut operands = absolute(inputs);
    operands[2] = v.map(|v| -v.abs());
    operands[3] = g.clone();
    operands[4] = inputs[4].map(|beta| -beta.abs());
    magnitudes(op, &operands, tokens * ((size + 8.0) * U + decay) + (size + 4.0) * U, out)
}

/// `d = log(1 + exp(dt))` has the exponential's and the logarithm's errors, and d's error reaches the exponent `d A`.
pub fn scan(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let [states, x, dt, a, ..] = inputs else { unreachable!("the rule asks for seven operands") };
    let step = |dt: f64| dt.exp().ln_1p();
    // In `log(1 + e)` an error of e weighs `e / (1 + e)`, and the logarithm has 3 ULP or 2^-21.
    let step_error = |dt: f64| (exp(dt) + U) / step(dt) + 6.0 * U + 1.0 / f64::from(1 << 21) / step(dt);
    let greatest = |f: &dyn Fn(f64) -> f64, of: &Array| of.data.iter().map(|&x| f(x)).fold(0.0, f64::max);
    let (d_error, d) = (greatest(&step_error, dt), greatest(&step, dt));
    let exponent = d * greatest(&f64::abs, a);
    let decay = exp(exponent) + exponent * (d_error + U);
    let mut operands = absolute(inputs);
    operands[2] = dt.clone();
    operands[3] = a.clone();
    let tokens = f64::from(x.shape[2]);
    let relative = tokens * (decay + 2.0 * U) + d_error + (f64::from(states.shape[0]) + 6.0) * U;
    magnitudes(op, &operands, relative, out)
}

/// Errors of the rows above are carried on, beside those of a row's own sum, difference and division.
pub fn solve_tri(inputs: &[Array], out: &Array) -> Array {
    let (a, b) = (&inputs[0], &inputs[1]);
    let mut error = Array::zeros(out.shape);
    let [columns, rows, n2, n3] = out.shape;
    for (i3, i2) in (0..n3).flat_map(|i3| (0..n2).map(move |i2| (i3, i2))) {
        for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
            let at = |row| [column, row, i2, i3];
            let (mut known, mut carried) = (b.at(at(row)).abs(), 0.0);
            for j in 0..row {
                let factor = a.at([j, row, i2, i3]).abs();
                known += factor * out.at(at(j)).abs();
                carried += factor * error.at(at(j));
            }
            let diagonal = a.at([row, row, i2, i3]).abs();
            let sum = (carried + (f64::from(row) + 2.0) * U * (known + carried)) / diagonal;
            let to = error.position(at(row));
            error.data[to] = sum + DIVIDE * (out.at(at(row)).abs() + sum) + FLUSH;
        }
    }
    error
}
