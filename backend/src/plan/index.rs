//! The nodes of a graph by what they write and read, for passes that look for patterns; each adds its own questions.

use crate::graph::{Graph, Kind, Node};

/// Nodes by what they write and read.
pub(super) struct Index<'g> {
    pub graph: &'g Graph,
    /// The node that computes each value.
    pub writer: Vec<Option<usize>>,
    /// The nodes that read each value, ascending.
    pub readers: Vec<Vec<usize>>,
}

impl<'g> Index<'g> {
    pub fn new(graph: &'g Graph) -> Self {
        let mut writer = vec![None; graph.values.len()];
        let mut readers = vec![Vec::new(); graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            if graph.values[node.output.index()].kind == Kind::Computed {
                writer[node.output.index()] = Some(at);
            }
            for input in &node.inputs {
                let of: &mut Vec<usize> = &mut readers[input.value.index()];
                if of.last() != Some(&at) {
                    of.push(at);
                }
            }
        }
        Self { graph, writer, readers }
    }

    pub fn node(&self, at: usize) -> &'g Node {
        &self.graph.nodes[at]
    }
}
