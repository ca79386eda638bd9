//! Values between those of an operand, and of formulas.

use super::{DIVIDE, U, exp};
use fblayout::graph::{Array, Sampling};

/// A place is a quotient of a rounded scale, less an offset: it is off by `P` relative to the operand's extent. The weights follow it
/// with slopes that sum to less than 4 over the taps of an axis; the sums round once per tap and weight.
pub(super) fn upscale(sampling: Sampling, x: &Array, out: &Array) -> Array {
    const P: f64 = DIVIDE + 3.0 * U;
    if sampling == Sampling::Nearest {
        return out.map(|_| 0.0);
    }
    let largest = x.data.iter().fold(0.0_f64, |max, x| max.max(x.abs()));
    let moved: f64 = (0..2).map(|axis| 4.0 * P * (f64::from(x.shape[axis]) + 1.0)).sum();
    let taps: f64 = match sampling {
        Sampling::Antialiased => {
            (0..2).map(|axis| 2.0 * (f64::from(x.shape[axis]) / f64::from(out.shape[axis])).max(1.0) + 2.0).product()
        }
        _ => 16.0,
    };
    // Cubic weights are rounded relative to terms of up to 6 before they cancel.
    out.map(|_| largest * (moved + (taps + 40.0) * U + DIVIDE))
}

/// An angle's own error, and 1e-7 of `cos_sin.glsl`: the rate of the exponent and the exponent are rounded, and so is the product.
pub(super) fn timestep(max_period: u32, times: &Array, out: &Array) -> Array {
    let half = out.shape[0] / 2;
    Array::from_fn(out.shape, |[j, t, ..]| {
        let exponent = f64::from(max_period).ln() * f64::from(j % half) / f64::from(half);
        let angle = times.at([t, 0, 0, 0]).abs() * (-exponent).exp();
        if j < 2 * half { angle * (exp(exponent) + 2.0 * U * exponent + U) + 1e-7 + U } else { 0.0 }
    })
}
