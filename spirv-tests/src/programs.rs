//! Random graphs of several nodes whose every result is exact in f32, so that the device must agree bit for bit, whatever the
//! plan does with copies, memory and order.

use fblayout::device::MatrixType;
use fblayout::graph::{Array, Binary, Contents, DType, Desc, Graph, Node, Op, Operand, Shape, Unary, ValueId, encode};

use crate::fill::Random;
use crate::reference::contents;
use crate::{Fill, Rounded, tolerance};

/// A graph, its data, and what it must leave.
pub struct ExactProgram {
    /// The graph; several values are kept.
    pub graph: Graph,
    /// Host bytes of the external values.
    pub data: Vec<(ValueId, Vec<u8>)>,
    /// What kept and updated values hold after the run.
    pub expected: Contents,
}

impl ExactProgram {
    /// The program with the gradients of its last value after it, if it has one and all of them are exact.
    pub fn with_gradients(mut self) -> Option<Self> {
        let loss = self.graph.nodes.last()?.output;
        let forward = self.graph.nodes.len();
        let floats = |id: &ValueId| self.graph.values[id.index()].dtype == DType::F32;
        let leads = |id: &ValueId| self.graph.clone().backward(loss, &[*id]).is_ok();
        let wanted: Vec<ValueId> = self.data.iter().map(|&(id, _)| id).filter(floats).filter(leads).collect();
        let gradients = self.graph.backward(loss, &wanted).ok()?;
        let shape = self.graph.values[gradients.seed.index()].shape;
        let seed = Fill::Integers.make(DType::F32, &shape, self.data.len() as u32);
        self.data.push((gradients.seed, encode(DType::F32, &seed).expect("floats of the seed's shape")));

        let mut all = contents(&self.graph, &self.data);
        for (at, node) in self.graph.nodes.iter().enumerate() {
            let inputs = node.shown(&all);
            node.step(&self.graph, &mut all);
            if at >= forward && !exact(&self.graph, node, &inputs, &all) {
                return None;
            }
        }
        for &id in &gradients.wrt {
            self.graph.keep(id);
            self.expected.insert(id, all[&id].clone());
        }
        Some(self)
    }
}

/// Whether no kernel can round this node's result.
fn exact(graph: &Graph, node: &Node, inputs: &[Array], after: &Contents) -> bool {
    let ids = node.inputs.iter().map(|i| i.value).chain([node.output]);
    let dtypes: Vec<DType> = ids.map(|id| graph.values[id.index()].dtype).collect();
    // Matrix units may multiply any of them.
    let rounded = match (dtypes[0], &node.op) {
        (DType::F32, _) => Rounded::Parts,
        (_, Op::OutProd) => Rounded::To(MatrixType::Bf16),
        _ => Rounded::To(MatrixType::F16),
    };
    let bounds = tolerance(&node.op, inputs, &dtypes, &[after[&node.output].clone()], Some(rounded));
    bounds.iter().all(|b| b.data.iter().all(|&b| b == 0.0))
}

/// Values of more elements are not used further.
const LARGEST: u64 = 20_000;

struct Builder {
    random: Random,
    graph: Graph,
    data: Vec<(ValueId, Vec<u8>)>,
    contents: Contents,
    /// F32 values that operands are taken from.
    floats: Vec<ValueId>,
}

/// The program of that number, of about `nodes` nodes.
pub fn exact_program(number: u32, nodes: usize) -> ExactProgram {
    let mut b = Builder {
        random: Random::new(number),
        graph: Graph::new(),
        data: Vec::new(),
        contents: Contents::new(),
        floats: Vec::new(),
    };
    for _ in 0..3 {
        let shape = [1 + b.random.below(20), 1 + b.random.below(6), 1 + b.random.below(4), 1 + b.random.below(2)];
        let id = b.external(DType::F32, shape, Fill::Integers);
        b.floats.push(id);
    }
    for _ in 0..nodes {
        b.node();
    }
    let last = b.graph.nodes.last().expect("adding to a new operand is always exact").output;
    let mut kept: Vec<ValueId> = b.graph.nodes.iter().map(|n| n.output).filter(|&id| b.computed(id)).collect();
    kept.retain(|&id| id == last || b.random.below(4) == 0);
    kept.iter().for_each(|&id| b.graph.keep(id));
    let updated = b.graph.nodes.iter().flat_map(|n| n.updates.clone());
    let read: Vec<ValueId> = kept.into_iter().chain(updated).collect();
    b.contents.retain(|id, _| read.contains(id));
    ExactProgram { graph: b.graph, data: b.data, expected: b.contents }
}

impl Builder {
    fn external(&mut self, dtype: DType, shape: Shape, fill: Fill) -> ValueId {
        let id = self.graph.external(format!("external {}", self.data.len()), dtype, shape);
        let numbers = fill.make(dtype, &shape, self.data.len() as u32);
        self.data.push((id, encode(dtype, &numbers).expect("shapes are whole blocks")));
        self.contents.extend(contents(&self.graph, &self.data[self.data.len() - 1..]));
        id
    }

    fn computed(&self, id: ValueId) -> bool {
        !self.data.iter().any(|(external, _)| *external == id)
    }

    /// A window over a value: all of it, with axes exchanged, or some of its rows.
    fn operand(&mut self) -> Operand {
        let value = self.floats[self.random.below(self.floats.len() as u32) as usize];
        let whole = self.graph.whole(value);
        let view = match self.random.below(5) {
            0 => whole.permute([0, 2, 1, 3]),
            1 => whole.permute([1, 0, 2, 3]),
            2 => whole.permute([0, 1, 3, 2]),
            3 => {
                let start = self.random.below(whole.shape[1]);
                whole.slice(1, start, whole.shape[1] - start)
            }
            _ => Ok(whole),
        };
        view.expect("these windows exist for every value")
    }

    /// Adds a node, unless its result might be rounded.
    fn node(&mut self) {
        let x = self.operand();
        let [n0, n1, n2, n3] = x.shape;
        let axis = self.random.below(4) as usize;
        let fresh = |b: &mut Self, dtype, shape| {
            let id = b.external(dtype, shape, Fill::Integers);
            b.graph.whole(id)
        };
        let (op, inputs, output) = match self.random.below(12) {
            0 | 1 => (Op::Copy, vec![x], Some(x.shape)),
            2 => (Op::Copy, vec![x], Some([n0 * n1, n2, n3, 1])),
            3 => {
                let y = self.floats.iter().rev().map(|&id| self.graph.whole(id)).find(|y| y.shape == x.shape);
                (Op::Binary(Binary::Add), vec![x, y.unwrap_or(x)], None)
            }
            4 => (Op::Binary(Binary::Sub), vec![x, fresh(self, DType::F32, [n0, 1, n2, 1])], None),
            5 => (Op::Unary(Unary::Neg), vec![x], None),
            6 => {
                let mut to = x.shape;
                to[axis] *= 2;
                (Op::Repeat, vec![x], Some(to))
            }
            7 => {
                let mut to = x.shape;
                to[axis] = 1;
                (Op::RepeatBack, vec![x], Some(to))
            }
            8 => (Op::MulMat, vec![x, fresh(self, DType::F32, [n0, 5, n2, n3])], None),
            9 => (Op::OutProd, vec![fresh(self, DType::F32, [7, n1, 1, 1]), x], None),
            10 => {
                let dtype = [DType::F16, DType::Q8_0, DType::Q4_1][self.random.below(3) as usize];
                (Op::OutProd, vec![fresh(self, dtype, [32, n1, 1, 1]), x], None)
            }
            _ => return self.accumulate(),
        };
        let name = format!("node {}", self.graph.nodes.len());
        let mut attempt = self.graph.clone();
        let id = match output {
            Some(shape) => attempt.node_as(name, op, inputs, Desc::f32(shape)),
            None => attempt.node(name, op, inputs),
        };
        let Ok(id) = id else { return };
        if fblayout::graph::elements(&attempt.values[id.index()].shape) <= LARGEST && self.accept(attempt) {
            self.floats.push(id);
        }
    }

    /// Adds something to an external value in place; earlier nodes may have read it, through copies that the plan elides.
    fn accumulate(&mut self) {
        let updated: Vec<ValueId> = self.graph.nodes.iter().flat_map(|n| n.updates.clone()).collect();
        let free = self.floats.iter().find(|id| !self.computed(**id) && !updated.contains(id));
        let Some(&acc) = free else { return };
        let whole = self.graph.whole(acc);
        let x = self.external(DType::F32, whole.shape, Fill::Integers);
        let mut attempt = self.graph.clone();
        let name = format!("node {}", self.graph.nodes.len());
        attempt.node_into(name, Op::Binary(Binary::Add), vec![whole, attempt.whole(x)], acc);
        self.accept(attempt);
    }

    /// Takes the graph with its new last node, if that node's result is exact.
    fn accept(&mut self, attempt: Graph) -> bool {
        let node = attempt.nodes.last().expect("a node was added");
        let inputs = node.shown(&self.contents);
        let mut after = self.contents.clone();
        node.step(&attempt, &mut after);
        let exact = exact(&attempt, node, &inputs, &after);
        if exact {
            self.graph = attempt;
            self.contents = after;
        }
        exact
    }
}
