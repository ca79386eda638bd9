//! One op on given data.

use fblayout::graph::{
    Array, BytesError, DType, Desc, Graph, Node, Op, Operand, Shape, ValueId, decode, encode, oracle,
};

use crate::reference::contents;
use crate::{Fill, blocks};

/// A graph of one node and the bytes of its external values.
#[derive(Clone, Debug)]
pub struct Case {
    /// Op and what is special.
    pub name: String,
    /// One node.
    pub graph: Graph,
    /// Host bytes of every external value that has content before the run.
    pub data: Vec<(ValueId, Vec<u8>)>,
}

/// Collects the operands of a case.
#[derive(Debug, Default)]
pub struct Setup {
    pub(crate) graph: Graph,
    pub(crate) data: Vec<(ValueId, Vec<u8>)>,
}

impl Setup {
    /// No operands yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an external value; the result shows all of it. Types that nothing is converted to hold integers, whatever the fill.
    pub fn input(&mut self, dtype: DType, shape: Shape, fill: Fill) -> Operand {
        let index = self.data.len();
        let value = self.graph.external(format!("operand {index}"), dtype, shape);
        let numbers = fill.make(dtype, &shape, index as u32);
        let bytes = match encode(dtype, &numbers) {
            Err(BytesError::Unencoded(_)) => blocks::integers(dtype, numbers.len(), index as u32),
            bytes => bytes.expect("cases use whole blocks"),
        };
        self.data.push((value, bytes));
        self.graph.whole(value)
    }

    /// Adds an F32 external value; the result shows all of it.
    pub fn f32(&mut self, shape: Shape, fill: Fill) -> Operand {
        self.input(DType::F32, shape, fill)
    }

    /// The case whose output follows from the operands.
    pub fn case(mut self, name: impl AsRef<str>, op: Op, inputs: Vec<Operand>) -> Case {
        let output = self.graph.node(op.row().name, op, inputs).expect("cases obey the op's rule");
        self.graph.keep(output);
        self.finish(name.as_ref(), op)
    }

    /// The case with a stated output.
    pub fn case_as(mut self, name: impl AsRef<str>, op: Op, inputs: Vec<Operand>, output: Desc) -> Case {
        let output = self.graph.node_as(op.row().name, op, inputs, output).expect("cases obey the op's rule");
        self.graph.keep(output);
        self.finish(name.as_ref(), op)
    }

    /// The case that writes an external value in place.
    pub fn case_into(mut self, name: impl AsRef<str>, op: Op, inputs: Vec<Operand>, output: ValueId) -> Case {
        self.graph.node_into(op.row().name, op, inputs, output);
        self.finish(name.as_ref(), op)
    }

    fn finish(self, name: &str, op: Op) -> Case {
        let name = format!("{} {name}", op.row().name);
        if let Err(error) = self.graph.verify() {
            panic!("case {name} is not well formed: {error}");
        }
        Case { name, graph: self.graph, data: self.data }
    }
}

impl Case {
    /// The node.
    pub fn node(&self) -> &Node {
        &self.graph.nodes[0]
    }

    /// The values that the node writes, in the oracle's order.
    pub fn outputs(&self) -> Vec<ValueId> {
        self.node().written().to_vec()
    }

    /// Dtype and shape of a value.
    pub fn desc(&self, value: ValueId) -> Desc {
        self.graph.value(value).expect("a case names its own values").desc()
    }

    /// Dtypes of the operands, then of the output.
    pub fn dtypes(&self) -> Vec<DType> {
        let node = self.node();
        node.inputs.iter().map(|i| i.value).chain([node.output]).map(|id| self.desc(id).dtype).collect()
    }

    /// What the operands show, as the device's bytes say (quantized data is already rounded).
    pub fn inputs(&self) -> Vec<Array> {
        self.node().shown(&contents(&self.graph, &self.data))
    }

    /// What the node's written values must hold, in f64.
    pub fn expected(&self, inputs: &[Array]) -> Vec<Array> {
        let node = self.node();
        let Desc { dtype, shape } = self.desc(node.output);
        let mut held = oracle(&node.op, inputs, shape);
        // What becomes an integer is cut, and what becomes blocks is what the host makes of it.
        if dtype.is_integer() {
            held.iter_mut().for_each(|held| *held = held.map(f64::trunc));
        } else if node.op == Op::Copy && dtype.is_quantized() && self.dtypes()[0] != dtype {
            held.iter_mut().for_each(|held| held.data = quantized(dtype, &held.data));
        }
        held
    }
}

fn quantized(dtype: DType, numbers: &[f64]) -> Vec<f64> {
    let numbers: Vec<f32> = numbers.iter().map(|&x| x as f32).collect();
    let bytes = encode(dtype, &numbers).expect("cases convert to types that the host encodes");
    decode(dtype, &bytes).expect("whole blocks")
}
