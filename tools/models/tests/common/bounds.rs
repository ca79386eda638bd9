//! How far a device that computes in f32 may be from a graph's values in f64.

use std::collections::HashMap;

use fblayout::graph::{Array, Contents, DType, Graph, Node, ValueId, eval, oracle};
use fblayout_spirv_tests::{Rounded, tolerance};

use super::Noise;

/// Runs with errors injected, to learn what they do together.
const RUNS: usize = 64;

/// Bound in standard deviations.
const DEVIATIONS: f64 = 12.0;

/// What values hold after the graph, in f64, and a bound on each element's distance from what a device finds.
///
/// Every element that a node writes is off by an error of the node's own, at most the [`tolerance`] of its op, and the errors of all
/// nodes before reach it through the graph. Worst cases added up along sixty nodes bound nothing, so this is the usual probabilistic
/// analysis of rounding: errors are taken as independent and as likely up as down. To first order an element of a result is then
/// off by a sum of independent bounded terms, and by Hoeffding's inequality by more than t standard deviations of the sum that
/// has each term at its greatest, with random sign, with a probability below `2 exp(-t^2 / 2)`. That deviation is measured by
/// running the graph in f64 with each tolerance added or subtracted at random. From 64 such runs its square comes out below a third of
/// what it is with a probability of about 10^-7; t = 12 then still stands for 6.9 deviations, or a probability of 10^-10.
///
/// What products rounded their factors to for matrix units, if any did, is an error of those products like any other.
pub fn eval_with_bounds(graph: &Graph, contents: &Contents, rounded: Option<Rounded>) -> (Contents, Contents) {
    let exact = eval(graph, contents.clone()).expect("a well-formed graph");
    let tolerances = tolerances(graph, contents.clone(), rounded);
    let mut squares: Contents = exact.iter().map(|(&id, array)| (id, array.map(|_| 0.0))).collect();
    for run in 0..RUNS {
        let disturbed = disturbed(graph, contents.clone(), &tolerances, Noise::new(run));
        for (id, sum) in &mut squares {
            let difference = disturbed[id].zip(&exact[id], |a, b| if a == b { 0.0 } else { a - b });
            *sum = sum.zip(&difference, |sum, d| sum + d * d);
        }
    }
    let bound = |square: f64| DEVIATIONS * (square / RUNS as f64).sqrt();
    let bounds = squares.into_iter().map(|(id, squares)| (id, squares.map(bound))).collect();
    (exact, bounds)
}

/// Tolerance of every written element, given exact operands. Values are written once, whatever they are.
fn tolerances(graph: &Graph, mut contents: Contents, rounded: Option<Rounded>) -> HashMap<ValueId, Array> {
    let mut all = HashMap::new();
    for node in &graph.nodes {
        let inputs = node.shown(&contents);
        node.step(graph, &mut contents);
        let outputs: Vec<Array> = node.written().iter().map(|id| contents[id].clone()).collect();
        let own = tolerance(&node.op, &inputs, &dtypes(graph, node), &outputs, rounded);
        all.extend(node.written().iter().copied().zip(own));
    }
    all
}

/// The graph in f64 with every written element off by its tolerance, up or down.
fn disturbed(
    graph: &Graph,
    mut contents: Contents,
    tolerances: &HashMap<ValueId, Array>,
    mut noise: Noise,
) -> Contents {
    for node in &graph.nodes {
        let results = oracle(&node.op, &node.shown(&contents), graph.values[node.output.index()].shape);
        for (id, mut result) in node.written().iter().zip(results) {
            result.data.iter_mut().zip(&tolerances[id].data).for_each(|(x, t)| *x += t.copysign(noise.next()));
            contents.insert(*id, result);
        }
    }
    contents
}

fn dtypes(graph: &Graph, node: &Node) -> Vec<DType> {
    let values = node.inputs.iter().map(|o| o.value).chain([node.output]);
    values.map(|id| graph.values[id.index()].dtype).collect()
}
