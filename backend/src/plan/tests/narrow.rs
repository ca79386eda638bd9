//! Factors of large products are copied to 16 bits, where matrix units round them; others stay.

use crate::device::{Limits, MatrixType, MatrixUnit};
use crate::graph::{DType, Graph, Op, Shape, Unary, ValueId};
use crate::plan::narrow::in_16_bits;
use crate::plan::{Plan, PlanOptions, plan};

use super::Exact;

fn with_units() -> Limits {
    let unit = |factors| MatrixUnit { factors, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
    let units = vec![unit(MatrixType::F16), unit(MatrixType::Bf16)];
    Limits { matrix_units: units, subgroup_size: 32, max_shared_memory: 48 << 10, ..Limits::for_tests() }
}

/// Two layers of one input, and one back.
fn layers(tokens: u32, weights: DType) -> (Graph, [ValueId; 3]) {
    let mut graph = Graph::new();
    let x = graph.external("x", DType::F32, [1024, tokens, 1, 1]);
    let shape: Shape = [1024, 2560, 1, 1];
    let [up, gate] = ["up", "gate"].map(|name| graph.external(name, weights, shape));
    let x = graph.node("silu", Op::Unary(Unary::Silu), vec![graph.whole(x)]).unwrap();
    let [first, second] =
        [up, gate].map(|w| graph.node("layer", Op::MulMat, vec![graph.whole(w), graph.whole(x)]).unwrap());
    let turned = graph.whole(first).transpose();
    let back = graph.node("back", Op::OutProd, vec![graph.whole(up), turned]).unwrap();
    [first, second, back].into_iter().for_each(|id| graph.keep(id));
    (graph, [first, second, back])
}

fn planned(graph: &Graph, limits: &Limits) -> Plan {
    plan(graph, limits, PlanOptions::default(), &Exact).unwrap()
}

#[test]
fn an_input_is_rounded_once_for_all_of_its_products() {
    let (graph, _) = layers(512, DType::F16);
    let narrowed = in_16_bits(&graph, &with_units()).expect("5120 rows of one input");
    narrowed.graph.verify().unwrap();
    // What goes back is read by 1024 rows alone.
    assert_eq!(narrowed.graph.nodes.len(), graph.nodes.len() + 1);
    let copy = narrowed.graph.nodes.iter().find(|node| node.op == Op::Copy).unwrap();
    let readers = narrowed.graph.nodes.iter().filter(|node| node.inputs.iter().any(|i| i.value == copy.output));
    assert_eq!(readers.count(), 2);
    assert_eq!(narrowed.graph.value(copy.output).unwrap().dtype, DType::F16);
}

#[test]
fn weights_in_blocks_are_decoded_for_many_columns() {
    let (graph, _) = layers(512, DType::Q8_0);
    let narrowed = in_16_bits(&graph, &with_units()).expect("blocks");
    narrowed.graph.verify().unwrap();
    let types: Vec<DType> = narrowed
        .graph
        .nodes
        .iter()
        .filter(|node| node.op == Op::Copy)
        .map(|node| narrowed.graph.value(node.output).unwrap().dtype)
        .collect();
    // Up, the input, gate; then up again, for a gradient.
    assert_eq!(types, [DType::F16, DType::F16, DType::F16, DType::BF16]);

    let plan = planned(&graph, &with_units());
    let named: Vec<(&str, usize)> = plan.steps.iter().map(|step| (step.shader, step.node)).collect();
    assert_eq!(named.iter().filter(|(shader, _)| shader.starts_with("copy")).count(), 4, "{named:?}");
    assert!(named.iter().all(|&(_, node)| node < graph.nodes.len()), "{named:?}");
}

#[test]
fn what_gains_nothing_stays() {
    let few = layers(64, DType::Q8_0).0;
    assert!(in_16_bits(&few, &with_units()).is_none(), "64 columns");
    let large = layers(512, DType::Q8_0).0;
    assert!(in_16_bits(&large, &Limits::for_tests()).is_none(), "no matrix units");
    let whole = layers(512, DType::F32).0;
    assert!(in_16_bits(&whole, &with_units()).is_none(), "factors of F32 are not rounded");
}

#[test]
fn weights_that_change_stay() {
    let (mut graph, _) = layers(512, DType::F16);
    let x = graph.values.iter().position(|value| value.name == "silu").unwrap();
    let id = graph.nodes[0].output;
    assert_eq!(id.index(), x);
    graph.values[x].kind = crate::graph::Kind::External;
    assert!(in_16_bits(&graph, &with_units()).is_none(), "the input is written within the run");
}
