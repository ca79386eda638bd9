//! Matrix products.

use crate::graph::{Array, Op, Shape};

/// Index of operand 0 on the axes 2 and 3 that it repeats blockwise (several heads of operand 1 share one of operand 0).
fn shared(a: &Array, output: Shape, i: [u32; 4]) -> (u32, u32) {
    (i[2] / (output[2] / a.shape[2]), i[3] / (output[3] / a.shape[3]))
}

/// `dst[m, n] = sum_k a[k, m] b[k, n]`
pub(crate) fn mul_mat(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let [a, b] = inputs else { unreachable!("the rule asks for two operands") };
    let k = a.shape[0] as usize;
    vec![Array::from_fn(output, |i| {
        let (i2, i3) = shared(a, output, i);
        let (row_a, row_b) = (a.position([0, i[0], i2, i3]), b.position([0, i[1], i[2], i[3]]));
        a.data[row_a..row_a + k].iter().zip(&b.data[row_b..row_b + k]).map(|(x, y)| x * y).sum()
    })]
}

/// `dst[m, i, t] = sum_k a[k, m, ids[i, t]] b[k, i, t]`, zeros where an id names no matrix.
pub(crate) fn mul_mat_id(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let [a, b, ids] = inputs else { unreachable!("the rule asks for three operands") };
    let k = a.shape[0] as usize;
    vec![Array::from_fn(output, |[m, i, t, _]| {
        let expert = ids.at([i, t, 0, 0]);
        if !(0.0..f64::from(a.shape[2])).contains(&expert) {
            return 0.0;
        }
        let (row_a, row_b) = (a.position([0, m, expert as u32, 0]), b.position([0, i % b.shape[1], t, 0]));
        a.data[row_a..row_a + k].iter().zip(&b.data[row_b..row_b + k]).map(|(x, y)| x * y).sum()
    })]
}

/// `dst[m, n] = sum_k a[m, k] b[n, k]`
pub(crate) fn out_prod(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let [a, b] = inputs else { unreachable!("the rule asks for two operands") };
    let k = a.shape[1] as usize;
    let (step_a, step_b) = (a.shape[0] as usize, b.shape[0] as usize);
    vec![Array::from_fn(output, |i| {
        let (i2, i3) = shared(a, output, i);
        let (first_a, first_b) = (a.position([i[0], 0, i2, i3]), b.position([i[1], 0, i[2], i[3]]));
        (0..k).map(|k| a.data[first_a + k * step_a] * b.data[first_b + k * step_b]).sum()
    })]
}
