//! Indices by the order of elements; equal ones keep theirs.

use crate::graph::{Array, Op, Shape};

/// Indices of a row in the order of its elements.
fn sorted(row: &[f64], descending: bool) -> Vec<usize> {
    let mut indices: Vec<usize> = (0..row.len()).collect();
    indices.sort_by(|&a, &b| {
        let (a, b) = if descending { (b, a) } else { (a, b) };
        row[a].total_cmp(&row[b])
    });
    indices
}

fn first(x: &Array, count: u32, descending: bool, output: Shape) -> Vec<Array> {
    let picked = |row| sorted(row, descending).into_iter().take(count as usize).map(|i| i as f64);
    vec![Array { shape: output, data: x.rows().flat_map(picked).collect() }]
}

pub(crate) fn arg_sort(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::ArgSort { descending } = op else { unreachable!("the row belongs to ArgSort") };
    first(&inputs[0], output[0], descending, output)
}

pub(crate) fn top_k(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    first(&inputs[0], output[0], true, output)
}
