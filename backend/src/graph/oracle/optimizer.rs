//! Optimizer steps.

use crate::graph::{Array, Op, Shape};

/// Operands w, g, m, v, parameters; gives the new w, m, v.
pub(crate) fn adamw(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let [w, g, m, v, parameters] = inputs else { unreachable!("the rule asks for five operands") };
    let [alpha, beta1, beta2, eps, wd, beta1h, beta2h] = parameters.data[..] else {
        unreachable!("the rule asks for seven parameters")
    };
    let m = m.zip(g, |m, g| m * beta1 + g * (1.0 - beta1));
    let v = v.zip(g, |v, g| v * beta2 + g * g * (1.0 - beta2));
    let step = m.zip(&v, |m, v| alpha * (m * beta1h) / ((v * beta2h).sqrt() + eps));
    let w = w.zip(&step, |w, step| w * (1.0 - alpha * wd) - step);
    vec![w, m, v]
}

/// Operands w, g, parameters; gives the new w.
pub(crate) fn sgd(_: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let [w, g, parameters] = inputs else { unreachable!("the rule asks for three operands") };
    let [alpha, wd] = parameters.data[..] else { unreachable!("the rule asks for two parameters") };
    vec![w.zip(g, |w, g| w * (1.0 - alpha * wd) - alpha * g)]
}
