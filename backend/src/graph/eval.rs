//! A graph computed in f64 by the oracles: what every device answers to.

use std::collections::HashMap;

use super::{Array, DType, Graph, GraphError, Kind, Node, Operand, ValueId, oracle};

/// What values hold.
pub type Contents = HashMap<ValueId, Array>;

impl Array {
    /// What a window over these elements shows. The window must lie within them.
    pub fn window(&self, window: &Operand) -> Self {
        Self { shape: window.shape, data: window.indices().map(|i| self.data[i as usize]).collect() }
    }
}

impl Node {
    /// The values that the node writes, in the oracle's order.
    pub fn written(&self) -> &[ValueId] {
        if self.updates.is_empty() { std::slice::from_ref(&self.output) } else { &self.updates }
    }

    /// What the node's operands show.
    pub fn shown(&self, contents: &Contents) -> Vec<Array> {
        self.inputs.iter().map(|operand| contents[&operand.value].window(operand)).collect()
    }

    /// Runs the node on its oracle; `contents` must hold its operands and gets what it writes. `graph` is the node's own.
    pub fn step(&self, graph: &Graph, contents: &mut Contents) {
        let output = &graph.values[self.output.index()];
        let mut results = oracle(&self.op, &self.shown(contents), output.shape);
        if output.dtype == DType::I32 {
            results.iter_mut().for_each(|held| *held = held.map(f64::trunc));
        }
        contents.extend(self.written().iter().copied().zip(results));
    }
}

/// Runs the graph in f64: what every value holds after it, external ones included. Nothing is rounded, whatever the dtypes, but what
/// becomes an integer is cut.
///
/// `contents` holds the external values that nodes read; ids of GetRows and GetRowsBack must be rows of their table.
///
/// # Errors
/// The graph breaks a rule, or an external value that is read has no content or content of another shape.
pub fn eval(graph: &Graph, mut contents: Contents) -> Result<Contents, GraphError> {
    graph.verify()?;
    let fail = |id: ValueId, rule: String| {
        let value = format!("{} {:?}", id.index(), graph.values[id.index()].name);
        Err(GraphError::Value { value, rule })
    };
    for node in &graph.nodes {
        for id in node.inputs.iter().map(|i| i.value).filter(|id| graph.values[id.index()].kind == Kind::External) {
            let shape = graph.values[id.index()].shape;
            match contents.get(&id) {
                None => return fail(id, "is read and has no content".into()),
                Some(array) if array.shape != shape => {
                    return fail(id, format!("has content of {:?}, must be {shape:?}", array.shape));
                }
                Some(_) => {}
            }
        }
        node.step(graph, &mut contents);
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::super::{Binary, Op, Unary};
    use super::*;

    const ADD: Op = Op::Binary(Binary::Add);

    #[test]
    fn nodes_run_in_order_on_their_windows() {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [2, 3, 1, 1]);
        let negative = g.node("negative", Op::Unary(Unary::Neg), vec![g.whole(x).transpose()]).unwrap();
        let row = g.whole(negative).slice(1, 1, 1).unwrap();
        let sum = g.node("sum", ADD, vec![g.whole(negative), row]).unwrap();
        g.node_into("accumulate", ADD, vec![g.whole(x), g.whole(x)], x);
        let x_0 = Array::from_fn([2, 3, 1, 1], |[i, j, ..]| f64::from(i + 10 * j));
        let after = eval(&g, Contents::from([(x, x_0.clone())])).unwrap();
        assert_eq!(after[&sum].data, [-1.0, -21.0, -41.0, -2.0, -22.0, -42.0]);
        assert_eq!(after[&x], x_0.map(|x| 2.0 * x));
    }

    #[test]
    fn missing_and_misshapen_content_is_refused() {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [2, 3, 1, 1]);
        g.node("square", Op::Unary(Unary::Sqr), vec![g.whole(x)]).unwrap();
        let missing = eval(&g, Contents::new()).unwrap_err().to_string();
        assert_eq!(missing, r#"value 0 "x": is read and has no content"#);
        let misshapen = eval(&g, Contents::from([(x, Array::zeros([3, 2, 1, 1]))])).unwrap_err().to_string();
        assert!(misshapen.contains("must be [2, 3, 1, 1]"), "{misshapen}");
    }
}
