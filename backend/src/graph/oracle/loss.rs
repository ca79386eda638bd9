//! Cross-entropy of logits against label distributions.

use super::rows::soft_max_row;
use crate::graph::{Array, Op, Shape};

/// Operands x, labels: `-(1/rows) sum labels * log_softmax(x)`.
pub(crate) fn cross_entropy(_: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let [x, labels] = inputs else { unreachable!("the rule asks for two operands") };
    let row_loss = |(x, labels): (&[f64], &[f64])| {
        let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let log_sum = x.iter().map(|x| (x - max).exp()).sum::<f64>().ln() + max;
        x.iter().zip(labels).map(|(x, label)| label * (log_sum - x)).sum::<f64>()
    };
    let loss = x.rows().zip(labels.rows()).map(row_loss).sum::<f64>() / x.row_count();
    vec![Array { shape: output, data: vec![loss] }]
}

/// Operands g (scalar), x, labels: `(softmax(x) - labels) * g / rows`.
pub(crate) fn cross_entropy_back(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let [g, x, labels] = inputs else { unreachable!("the rule asks for three operands") };
    let factor = g.data[0] / x.row_count();
    let mut p = x.clone();
    p.rows_mut().for_each(soft_max_row);
    vec![p.zip(labels, |p, label| (p - label) * factor)]
}
