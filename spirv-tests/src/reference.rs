//! The oracle as a device, to test the tests.

use std::collections::HashMap;

use fblayout::graph::{Array, Graph, Kind, Node, ValueId, decode, encode, oracle};

use crate::{Device, Outcome};

/// What values hold, in f64.
pub type Contents = HashMap<ValueId, Array>;

/// Answers with the oracle's result rounded to the output's dtype, after an optional spoiling.
pub struct Reference {
    spoil: fn(&mut Array),
}

impl Reference {
    /// A device without fault.
    pub fn faithful() -> Self {
        Self { spoil: |_| () }
    }

    /// A device whose results all pass through `spoil`.
    pub fn spoiled(spoil: fn(&mut Array)) -> Self {
        Self { spoil }
    }
}

/// What a node's operands show of the values.
pub fn operands(node: &Node, contents: &Contents) -> Vec<Array> {
    let show = |operand: &fblayout::graph::Operand| {
        let value = &contents[&operand.value].data;
        Array { shape: operand.shape, data: operand.indices().map(|i| value[i as usize]).collect() }
    };
    node.inputs.iter().map(show).collect()
}

/// The values that a node writes, in the oracle's order.
pub fn written(node: &Node) -> Vec<ValueId> {
    match node.updates.as_slice() {
        [] => vec![node.output],
        updates => updates.to_vec(),
    }
}

/// Runs one node on the oracle; the values it writes change.
pub fn step(graph: &Graph, node: &Node, contents: &mut Contents) {
    let shape = graph.values[node.output.index()].shape;
    let results = oracle(&node.op, &operands(node, contents), shape);
    contents.extend(written(node).into_iter().zip(results));
}

/// What external values hold, given their bytes.
pub fn contents(graph: &Graph, data: &[(ValueId, Vec<u8>)]) -> Contents {
    let array = |(id, bytes): &(ValueId, Vec<u8>)| {
        let value = &graph.values[id.index()];
        debug_assert_eq!(value.kind, Kind::External);
        let data = decode(value.dtype, bytes).expect("cases use whole blocks");
        (*id, Array { shape: value.shape, data })
    };
    data.iter().map(array).collect()
}

impl Device for Reference {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let mut contents = contents(graph, data);
        for node in &graph.nodes {
            step(graph, node, &mut contents);
            for id in written(node) {
                contents.entry(id).and_modify(self.spoil);
            }
        }
        let bytes = |id: &ValueId| {
            let numbers: Vec<f32> = contents[id].data.iter().map(|&x| x as f32).collect();
            encode(graph.values[id.index()].dtype, &numbers).map_err(|e| e.to_string())
        };
        Ok(Outcome { bytes: read.iter().map(bytes).collect::<Result<_, _>>()? })
    }
}
