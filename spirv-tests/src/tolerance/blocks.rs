//! Numbers encoded in blocks, against the host's encoder.

use fblayout::graph::{Array, DType};

/// Division may be off in its last bits: at a tie a quant is then its neighbour, and a scale the next half, which is 2^-10 of it at
/// most. Where a quant is another, IQ4_NL also fits its scale anew: with weights x^2 and the greatest element among them, by less
/// than the quant's own step.
pub(super) fn encoded(dtype: DType, x: &Array, out: &Array) -> Array {
    let mut bound = out.clone();
    for (block, bound) in x.data.chunks(32).zip(bound.data.chunks_mut(32)) {
        let most = block.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let low = block.iter().copied().fold(f64::INFINITY, f64::min);
        let range = block.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
        let (reach, steps) = match dtype {
            DType::Q8_0 => (most, 1.0 / 127.0),
            DType::Q4_0 => (most, 1.0 / 8.0),
            DType::Q5_0 => (most, 1.0 / 16.0),
            DType::Q4_1 => (range, 1.0 / 15.0),
            DType::Q5_1 => (range, 1.0 / 31.0),
            // Its widest step is 24 of 127.
            _ => (most, 2.0 * 24.0 / 127.0),
        };
        bound.fill(reach * (steps + 1.0 / 1024.0));
    }
    bound
}
