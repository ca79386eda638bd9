//! The graph that an engine compiles: values, the nodes that compute them, what must outlive a run.

use super::{DType, Desc, Family, Op, Operand, Shape, ShapeError, infer};

/// Names a value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);

impl ValueId {
    /// Position in [`Graph::values`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    #[cfg(test)]
    pub(super) const fn for_tests(index: u32) -> Self {
        Self(index)
    }
}

/// Who owns a value's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A tensor that exists outside the graph: inputs, weights, optimizer state.
    External,
    /// Computed by one node of the graph; its memory is the plan's to place.
    Computed,
    /// Left behind by a rewrite: no node computes or reads it.
    Dropped,
}

/// A tensor of the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// For people; need not be unique.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// Extents.
    pub shape: Shape,
    /// Who owns the memory.
    pub kind: Kind,
}

impl Value {
    /// Dtype and shape.
    pub const fn desc(&self) -> Desc {
        Desc { dtype: self.dtype, shape: self.shape }
    }
}

/// One op applied to windows of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// For people; need not be unique.
    pub name: String,
    /// What is computed.
    pub op: Op,
    /// Operands in the op's order.
    pub inputs: Vec<Operand>,
    /// The value written, all of it.
    pub output: ValueId,
    /// External values among the operands that are written in place, `output` included; empty for most nodes.
    pub updates: Vec<ValueId>,
}

/// Values and the nodes that compute them, in execution order.
///
/// Static single assignment: a computed value is written by one node. An external value that nodes write or update holds, for
/// every node, what the last one before it left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Values, named by their position.
    pub values: Vec<Value>,
    /// Nodes in execution order.
    pub nodes: Vec<Node>,
    /// Computed values whose content must survive the run.
    pub kept: Vec<ValueId>,
}

/// Why a graph is not well formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A value breaks a rule.
    #[error("value {value}: {rule}")]
    Value {
        /// Its number and name.
        value: String,
        /// The rule.
        rule: String,
    },
    /// A node breaks its op's shape rule.
    #[error("node {node}: {source}")]
    Shape {
        /// Its name.
        node: String,
        /// The rule.
        source: ShapeError,
    },
    /// Nodes that wait for each other, so that no order of execution exists.
    #[error("node {}: is in a cycle: {}", nodes[0], nodes.join(" reads "))]
    Cycle {
        /// Their names: each reads what the next one computes, the last is the first again.
        nodes: Vec<String>,
    },
    /// A node breaks a rule of the graph.
    #[error("node {node}: {rule}")]
    Node {
        /// Its name.
        node: String,
        /// The rule.
        rule: String,
    },
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, name: String, desc: Desc, kind: Kind) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).expect("fewer than 2^32 values"));
        self.values.push(Value { name, dtype: desc.dtype, shape: desc.shape, kind });
        id
    }

    /// A computed value like another one; a node that computes it has yet to be added.
    pub(crate) fn computed_like(&mut self, other: ValueId) -> ValueId {
        let Value { ref name, dtype, shape, .. } = self.values[other.index()];
        self.add(name.clone(), Desc { dtype, shape }, Kind::Computed)
    }

    /// Adds a tensor that exists outside.
    pub fn external(&mut self, name: impl Into<String>, dtype: DType, shape: Shape) -> ValueId {
        self.add(name.into(), Desc { dtype, shape }, Kind::External)
    }

    /// Adds a node whose output follows from its operands.
    pub fn node(&mut self, name: impl Into<String>, op: Op, inputs: Vec<Operand>) -> Result<ValueId, GraphError> {
        self.push(name.into(), op, inputs, None)
    }

    /// Adds a node with a stated output, as the ops need that take their shape from it (Copy, Pad, Repeat, RepeatBack,
    /// GetRowsBack).
    pub fn node_as(
        &mut self,
        name: impl Into<String>,
        op: Op,
        inputs: Vec<Operand>,
        output: Desc,
    ) -> Result<ValueId, GraphError> {
        self.push(name.into(), op, inputs, Some(output))
    }

    fn push(&mut self, name: String, op: Op, inputs: Vec<Operand>, asked: Option<Desc>) -> Result<ValueId, GraphError> {
        let desc = infer(&op, &self.descs(&name, &inputs)?, asked)
            .map_err(|source| GraphError::Shape { node: name.clone(), source })?;
        super::rules::exists(&desc).map_err(|rule| GraphError::Node { node: name.clone(), rule })?;
        let output = self.add(name.clone(), desc, Kind::Computed);
        self.nodes.push(Node { name, op, inputs, output, updates: Vec::new() });
        Ok(output)
    }

    /// Adds a node that writes the external value `output`. It works in place on the operands that the op always updates
    /// (AdamW: w, m, v; `output` is w) or on `output` itself where that is an operand.
    pub fn node_into(&mut self, name: impl Into<String>, op: Op, inputs: Vec<Operand>, output: ValueId) {
        let updates = match op.row().updates {
            [] if inputs.iter().any(|i| i.value == output) => vec![output],
            fixed => fixed.iter().filter_map(|&i| inputs.get(i)).map(|i| i.value).collect(),
        };
        self.nodes.push(Node { name: name.into(), op, inputs, output, updates });
    }

    /// Asks for a computed value's content after the run.
    pub fn keep(&mut self, value: ValueId) {
        if !self.kept.contains(&value) {
            self.kept.push(value);
        }
    }

    /// Every value.
    pub fn ids(&self) -> impl Iterator<Item = ValueId> + use<> {
        (0..).map(ValueId).take(self.values.len())
    }

    /// The value of this name in the graph, if the id is one of its own.
    pub fn value(&self, id: ValueId) -> Option<&Value> {
        self.values.get(id.index())
    }

    /// All of a value as an operand. The id must be one of this graph's.
    pub fn whole(&self, id: ValueId) -> Operand {
        Operand::whole(id, self.values[id.index()].shape)
    }

    /// Dtype and shape of an operand's window, or the node's error for a value that does not exist.
    fn descs(&self, node: &str, inputs: &[Operand]) -> Result<Vec<Desc>, GraphError> {
        let desc = |(i, operand): (usize, &Operand)| match self.value(operand.value) {
            Some(value) => Ok(Desc { dtype: value.dtype, shape: operand.shape }),
            None => {
                Err(GraphError::Node { node: node.to_owned(), rule: format!("operand {i} is no value of the graph") })
            }
        };
        inputs.iter().enumerate().map(desc).collect()
    }

    /// Checks every rule a plan relies on: values that can exist, operands within their values, the ops' shape rules, single
    /// assignment, reads after writes.
    pub fn verify(&self) -> Result<(), GraphError> {
        for (i, value) in self.values.iter().enumerate() {
            super::rules::exists(&value.desc())
                .map_err(|rule| GraphError::Value { value: format!("{i} {:?}", value.name), rule })?;
        }
        let mut writer: Vec<Option<usize>> = vec![None; self.values.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            let fail = |rule: String| GraphError::Node { node: node.name.clone(), rule };
            self.verify_operands(at, &writer)?;
            let output = self.value(node.output).ok_or_else(|| fail("its output is no value of the graph".into()))?;
            infer(&node.op, &self.descs(&node.name, &node.inputs)?, Some(output.desc()))
                .map_err(|source| GraphError::Shape { node: node.name.clone(), source })?;
            self.verify_updates(node)?;
            for &written in node.updates.iter().chain(Some(&node.output).filter(|o| !node.updates.contains(o))) {
                if let Some(first) = writer[written.index()].replace(at)
                    && self.values[written.index()].kind == Kind::Computed
                {
                    let (value, first) = (&self.values[written.index()].name, &self.nodes[first].name);
                    return Err(fail(format!("writes {value:?}, which node {first} has written")));
                }
            }
        }
        let unwritten = |id: ValueId| match self.value(id) {
            Some(value) => value.kind == Kind::Computed && writer[id.index()].is_none(),
            None => true,
        };
        match self.ids().chain(self.kept.iter().copied()).find(|&id| unwritten(id)) {
            Some(id) => {
                let value = self.value(id).map_or_else(String::new, |v| format!(" {:?}", v.name));
                Err(GraphError::Value { value: format!("{}{value}", id.0), rule: "no node computes it".into() })
            }
            None => Ok(()),
        }
    }

    fn verify_operands(&self, at: usize, writer: &[Option<usize>]) -> Result<(), GraphError> {
        let node = &self.nodes[at];
        for (i, operand) in node.inputs.iter().enumerate() {
            let fail = |rule: String| GraphError::Node { node: node.name.clone(), rule: format!("operand {i} {rule}") };
            let value = self.value(operand.value).ok_or_else(|| fail("is no value of the graph".into()))?;
            if value.kind != Kind::External && writer[operand.value.index()].is_none() {
                return Err(self.unordered(at, i));
            }
            let window = Desc { dtype: value.dtype, shape: operand.shape };
            super::rules::exists(&window).map_err(|rule| fail(format!("is a window that cannot be: {rule}")))?;
            let extent = super::elements(&value.shape);
            match operand.last() {
                Some(last) if last < extent => {}
                Some(last) => {
                    return Err(fail(format!("reaches element {last} of {:?}, which has {extent}", value.name)));
                }
                None => return Err(fail("is a window that reaches beyond 64 bits".into())),
            }
            let block = u64::from(value.dtype.block());
            let aligned = u64::from(operand.shape[0]) % block == 0
                && operand.offset % block == 0
                && (1..4).all(|a| operand.shape[a] == 1 || operand.strides[a] % block == 0);
            if block > 1 && !(operand.strides[0] == 1 && aligned) {
                return Err(fail(format!("cuts blocks of {block} of the {:?} value {:?}", value.dtype, value.name)));
            }
        }
        Ok(())
    }

    /// Why node `at` reads a value through operand `i` that no node before it has computed.
    fn unordered(&self, at: usize, i: usize) -> GraphError {
        let id = self.nodes[at].inputs[i].value;
        let name = &self.values[id.index()].name;
        let rule = match self.nodes.iter().position(|node| node.output == id) {
            None => format!("operand {i} reads {name:?}, which no node computes"),
            Some(writer) => match self.path(writer, at) {
                Some(path) => {
                    let nodes = [at].into_iter().chain(path).map(|node| self.nodes[node].name.clone());
                    return GraphError::Cycle { nodes: nodes.collect() };
                }
                None => format!("operand {i} reads {name:?} before node {} computes it", self.nodes[writer].name),
            },
        };
        GraphError::Node { node: self.nodes[at].name.clone(), rule }
    }

    /// Nodes from `from` to `to`, each of which reads what the next one computes.
    fn path(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut writer = vec![None; self.values.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if let Some(of) = writer.get_mut(node.output.index())
                && self.values[node.output.index()].kind == Kind::Computed
            {
                *of = Some(at);
            }
        }
        let mut reader: Vec<Option<usize>> = vec![None; self.nodes.len()];
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            if at == to {
                let back = std::iter::successors(Some(to), |&at| if at == from { None } else { reader[at] });
                let mut path: Vec<usize> = back.collect();
                path.reverse();
                return Some(path);
            }
            for input in &self.nodes[at].inputs {
                if let Some(next) = writer.get(input.value.index()).copied().flatten()
                    && next != from
                    && reader[next].is_none()
                {
                    reader[next] = Some(at);
                    open.push(next);
                }
            }
        }
        None
    }

    /// In-place work needs the written operands to be whole external values, each written through one operand only.
    fn verify_updates(&self, node: &Node) -> Result<(), GraphError> {
        let fail = |rule: &str| Err(GraphError::Node { node: node.name.clone(), rule: rule.to_owned() });
        let fixed = node.op.row().updates;
        let reads = |id: ValueId| node.inputs.iter().filter(move |o| o.value == id);
        if !fixed.is_empty() {
            if !fixed.iter().map(|&i| node.inputs[i].value).eq(node.updates.iter().copied()) {
                return fail("must name the operands its op updates");
            }
            if node.updates.first() != Some(&node.output) {
                return fail("must have its first updated operand as output");
            }
            if node.updates.iter().any(|&id| reads(id).count() != 1) {
                return fail("updates a value that is two of its operands");
            }
        } else if reads(node.output).next().is_some() {
            if node.updates != [node.output] {
                return fail("works in place and must name its output as updated");
            }
            let can = match node.op.row().family {
                family if family.is_by_element() => true,
                Family::Inset => node.inputs[0].value == node.output && reads(node.output).count() == 1,
                _ => false,
            };
            if !can {
                return fail("works in place, which only elementwise ops can, and ops that write a part of operand 0");
            }
        } else if !node.updates.is_empty() {
            return fail("updates values that are not its output");
        }
        for &id in &node.updates {
            let value = &self.values[id.index()];
            if value.kind != Kind::External {
                return fail("updates a computed value; only external values change");
            }
            if !reads(id).all(|o| o.is_whole(&value.shape)) {
                return fail("updates a value through a window that is not all of it");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Binary;
    use super::*;

    const ADD: Op = Op::Binary(Binary::Add);

    fn refusal(graph: &Graph) -> String {
        graph.verify().unwrap_err().to_string()
    }

    /// y = w x, z = y + y, with z kept.
    fn two_nodes() -> (Graph, [ValueId; 4]) {
        let mut g = Graph::new();
        let w = g.external("w", DType::Q8_0, [64, 5, 1, 1]);
        let x = g.external("x", DType::F32, [64, 3, 1, 1]);
        let y = g.node("y", Op::MulMat, vec![g.whole(w), g.whole(x)]).unwrap();
        let z = g.node("z", ADD, vec![g.whole(y), g.whole(y)]).unwrap();
        g.keep(z);
        (g, [w, x, y, z])
    }

    #[test]
    fn a_graph_in_order_passes() {
        let (g, [.., z]) = two_nodes();
        assert_eq!(g.verify(), Ok(()));
        assert_eq!(g.value(z).unwrap().desc(), Desc::f32([5, 3, 1, 1]));
    }

    /// Every way to spoil a graph of `y = w x`, `z = y + y`, and what is said of it.
    #[test]
    fn bad_graphs_name_node_and_rule() {
        type Spoil = fn(&mut Graph, [ValueId; 4]);
        let table: [(&str, Spoil, &str); 16] = [
            ("order", |g, _| g.nodes.swap(0, 1), r#"node z: operand 0 reads "y" before node y computes it"#),
            (
                "no writer",
                |g, _| {
                    g.nodes.remove(0);
                },
                r#"node z: operand 0 reads "y", which no node computes"#,
            ),
            (
                "cycle of two",
                |g, [.., z]| g.nodes[0].inputs[1] = Operand::whole(z, [64, 3, 1, 1]),
                "node y: is in a cycle: y reads z reads y",
            ),
            ("cycle of one", |g, [.., z]| g.nodes[1].inputs[1] = g.whole(z), "node z: is in a cycle: z reads z"),
            (
                "written twice",
                |g, [w, x, y, _]| g.node_into("again", Op::MulMat, vec![g.whole(w), g.whole(x)], y),
                r#"node again: writes "y", which node y has written"#,
            ),
            (
                "no such operand",
                |g, _| g.nodes[0].inputs[1].value = ValueId(9),
                "node y: operand 1 is no value of the graph",
            ),
            ("no such output", |g, _| g.nodes[0].output = ValueId(9), "node y: its output is no value of the graph"),
            (
                "dtype of an operand",
                |g, [_, x, ..]| g.values[x.index()].dtype = DType::I32,
                "node y: MUL_MAT: operand 1: is I32, must be one of [F32, F16, BF16]",
            ),
            (
                "dtype of the output",
                |g, [.., z]| g.values[z.index()].dtype = DType::F16,
                "node z: ADD: output: is F16 [5, 3, 1, 1], must be F32 [5, 3, 1, 1]",
            ),
            ("operands", |g, _| g.nodes[1].inputs.truncate(1), "node z: ADD: operands: 1 given, 2 wanted"),
            (
                "shape",
                |g, [_, _, y, _]| g.values[y.index()].shape = [3, 5, 1, 1],
                "node y: MUL_MAT: output: is F32 [3, 5, 1, 1], must be F32 [5, 3, 1, 1]",
            ),
            (
                "empty value",
                |g, [_, x, ..]| g.values[x.index()].shape[1] = 0,
                r#"value 1 "x": [64, 0, 1, 1] has an axis of no elements"#,
            ),
            (
                "huge value",
                |g, [_, x, ..]| g.values[x.index()].shape = [u32::MAX; 4],
                r#"value 1 "x": [4294967295, 4294967295, 4294967295, 4294967295] has more bytes than 63 bits count"#,
            ),
            (
                "empty window",
                |g, _| g.nodes[1].inputs[0].shape[1] = 0,
                "node z: operand 0 is a window that cannot be: [5, 0, 1, 1] has an axis of no elements",
            ),
            (
                "huge window",
                |g, _| g.nodes[1].inputs[0] = Operand { shape: [u32::MAX; 4], strides: [0; 4], ..g.nodes[1].inputs[0] },
                "node z: operand 0 is a window that cannot be: [4294967295, 4294967295, 4294967295, 4294967295] has more \
                 bytes than 63 bits count",
            ),
            (
                "kept, but not computed",
                |g, [.., z]| {
                    g.nodes.pop();
                    g.keep(z);
                },
                r#"value 3 "z": no node computes it"#,
            ),
        ];
        for (name, spoil, expected) in table {
            let (mut g, ids) = two_nodes();
            spoil(&mut g, ids);
            assert_eq!(refusal(&g), expected, "{name}");
        }
    }

    /// Side branches are not named.
    #[test]
    fn a_cycle_is_told_without_detours() {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [4, 1, 1, 1]);
        let mut last = x;
        let mut ids = Vec::new();
        for name in ["a", "b", "c", "d"] {
            last = g.node(name, ADD, vec![g.whole(last), g.whole(x)]).unwrap();
            ids.push(last);
        }
        g.keep(last);
        g.nodes[0].inputs[1] = g.whole(ids[2]);
        let names = ["a", "c", "b", "a"].map(String::from).to_vec();
        assert_eq!(g.verify(), Err(GraphError::Cycle { nodes: names }));
    }

    #[test]
    fn windows_stay_inside_their_values() {
        let (mut g, _) = two_nodes();
        g.nodes[1].inputs[0].offset = 1;
        assert_eq!(refusal(&g), r#"node z: operand 0 reaches element 15 of "y", which has 15"#);
        let (mut g, _) = two_nodes();
        g.nodes[0].inputs[0] = Operand { shape: [32, 10, 1, 1], strides: [1, 31, 0, 0], ..g.nodes[0].inputs[0] };
        assert_eq!(refusal(&g), r#"node y: operand 0 cuts blocks of 32 of the Q8_0 value "w""#);
        let (mut g, _) = two_nodes();
        g.nodes[0].inputs[1].strides[1] = u64::MAX;
        assert!(refusal(&g).contains("64 bits"));
    }

    #[test]
    fn impossible_values_are_refused() {
        for (dtype, shape, rule) in [
            (DType::F32, [4, 0, 1, 1], "no elements"),
            (DType::Q4_1, [33, 1, 1, 1], "no multiple of the 32"),
            (DType::F32, [u32::MAX; 4], "63 bits"),
        ] {
            let mut g = Graph::new();
            g.external("v", dtype, shape);
            assert!(refusal(&g).contains(rule), "{}", refusal(&g));
        }
    }

    /// A product may be too large where its operands are not.
    #[test]
    fn impossible_results_are_refused_as_the_node_is_added() {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [1, 1 << 30, 32, 1]);
        let error = g.node("scores", Op::MulMat, vec![g.whole(x), g.whole(x)]).unwrap_err().to_string();
        assert_eq!(error, "node scores: [1073741824, 1073741824, 32, 1] has more bytes than 63 bits count");
    }

    #[test]
    fn shapes_are_checked_with_the_op_and_the_operand_named() {
        let (mut g, [w, _, y, _]) = two_nodes();
        let error = g.node("bad", Op::MulMat, vec![g.whole(w), g.whole(y)]).unwrap_err().to_string();
        assert!(error.starts_with("node bad: MUL_MAT: operand 1: axis 0 of [5, 3, 1, 1] must be 64"), "{error}");
        g.values[y.index()].shape = [3, 5, 1, 1];
        assert_eq!(refusal(&g), "node y: MUL_MAT: output: is F32 [3, 5, 1, 1], must be F32 [5, 3, 1, 1]");
    }

    #[test]
    fn in_place_ops_update_whole_external_values() {
        let shape = [6, 4, 1, 1];
        let mut g = Graph::new();
        let [w, grad, m, v] = ["w", "g", "m", "v"].map(|name| g.external(name, DType::F32, shape));
        let p = g.external("p", DType::F32, [7, 1, 1, 1]);
        g.node_into("step", Op::AdamW, [w, grad, m, v, p].map(|id| g.whole(id)).to_vec(), w);
        g.node_into("accumulate", ADD, vec![g.whole(grad), g.whole(m)], grad);
        assert_eq!(g.verify(), Ok(()));
        assert_eq!(g.nodes[0].updates, [w, m, v]);
        assert_eq!(g.nodes[1].updates, [grad]);

        let mut twice = g.clone();
        twice.nodes[0].inputs[2] = twice.nodes[0].inputs[0];
        twice.nodes[0].updates[1] = w;
        assert!(refusal(&twice).contains("two of its operands"));
        let mut window = g.clone();
        window.nodes[1].inputs[0] = window.nodes[1].inputs[0].reshape([4, 6, 1, 1]).unwrap().transpose();
        assert!(refusal(&window).contains("not all of it"));
        let mut computed = g;
        computed.values[m.index()].kind = Kind::Computed;
        assert!(computed.verify().is_err());
    }
}
