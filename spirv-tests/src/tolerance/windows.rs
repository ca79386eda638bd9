//! Convolutions and pools.

use fblayout::graph::{Array, Op, Pool, PoolKind, oracle};

use super::{DIVIDE, FLUSH, U, integers};

/// Sums of n products: `(n + 1) U` relative to the sum of magnitudes; exact for integers below 2^24.
pub fn convolution(op: &Op, inputs: &[Array], out: &Array) -> Array {
    let through = |f: &dyn Fn(f64) -> f64| {
        let inputs: Vec<Array> = inputs.iter().map(|input| input.map(f)).collect();
        oracle(op, &inputs, out.shape).remove(0)
    };
    let (magnitude, terms) = (through(&f64::abs), through(&|_| 1.0));
    if inputs.iter().all(integers) && magnitude.data.iter().all(|&m| m < 1.0 / U) {
        return out.map(|_| 0.0);
    }
    magnitude.zip(&terms, |magnitude, terms| (terms + 1.0) * U * magnitude + terms * FLUSH)
}

/// A maximum is one of the elements; a mean is a sum of as many as the window has, and a division.
pub fn pool(op: &Op, pool: &Pool, inputs: &[Array], out: &Array) -> Array {
    if pool.kind == PoolKind::Max {
        return out.map(|_| 0.0);
    }
    let magnitude = oracle(op, &[inputs[0].map(f64::abs)], out.shape).remove(0);
    let terms = f64::from(pool.extent[0]) * f64::from(pool.extent[1]);
    magnitude.map(|m| (terms * U + DIVIDE) * m + FLUSH)
}

/// An element gets something from at most as many windows as a window has elements, divided for means.
pub fn pool_back(op: &Op, pool: &Pool, inputs: &[Array], out: &Array) -> Array {
    let magnitude = oracle(op, &[inputs[0].map(f64::abs), inputs[1].clone()], out.shape).remove(0);
    let terms = f64::from(pool.extent[0]) * f64::from(pool.extent[1]);
    magnitude.map(|m| (terms * U + DIVIDE) * m + terms * FLUSH)
}
