//! Rewrites of graphs before anything has a home: nodes go, others come in their place. Values keep their ids.

use std::borrow::Cow;

use crate::graph::{Graph, Kind, Node, Op, Operand};

/// A graph whose nodes are being replaced.
pub(super) struct Edit<'g> {
    pub graph: Cow<'g, Graph>,
    /// Nodes of the graph that are computed no more, or elsewhere.
    gone: Vec<bool>,
    /// New nodes, each with the node whose turn they come before; of those that come before the same one, in their order.
    new: Vec<(usize, Node)>,
}

impl<'g> Edit<'g> {
    /// Nothing is replaced yet.
    pub fn new(graph: &'g Graph) -> Self {
        Self { graph: Cow::Borrowed(graph), gone: vec![false; graph.nodes.len()], new: Vec::new() }
    }

    /// Whether a node is replaced already.
    pub fn is_gone(&self, at: usize) -> bool {
        self.gone[at]
    }

    /// Puts new nodes in the place of those at `gone`, of which the `results` are computed by the new ones. Nothing is changed where there
    /// are none.
    ///
    /// # Errors
    /// Those of `nodes`.
    pub fn replace(
        &mut self,
        gone: &[usize],
        results: &[usize],
        nodes: impl FnOnce(&mut Self) -> Result<Vec<(usize, Node)>, String>,
    ) -> Result<(), String> {
        let values = self.graph.values.len();
        let new = nodes(self).inspect_err(|_| self.graph.to_mut().values.truncate(values))?;
        self.new.extend(new);
        let graph = self.graph.to_mut();
        for &at in gone {
            self.gone[at] = true;
            if !results.contains(&at) {
                let output = graph.nodes[at].output;
                graph.values[output.index()].kind = Kind::Dropped;
            }
        }
        Ok(())
    }

    /// Adds the result of a new node to the graph, and the node to `new`; all of the result.
    ///
    /// # Errors
    /// The rule that the node breaks.
    pub fn add(
        &mut self,
        new: &mut Vec<(usize, Node)>,
        before: usize,
        name: &str,
        op: Op,
        inputs: Vec<Operand>,
    ) -> Result<Operand, String> {
        let graph = self.graph.to_mut();
        let id = graph.node(name, op, inputs).map_err(|e| e.to_string())?;
        new.extend(graph.nodes.pop().map(|node| (before, node)));
        Ok(graph.whole(id))
    }

    /// The graph with its new nodes.
    pub fn finish(self) -> Graph {
        let Self { graph, gone, mut new } = self;
        let mut graph = graph.into_owned();
        // What comes before the same node stays in the order in which it was added.
        new.sort_by_key(|&(before, _)| before);
        let mut new = new.into_iter().peekable();
        let mut nodes = Vec::with_capacity(graph.nodes.len());
        for (at, node) in graph.nodes.into_iter().enumerate() {
            while let Some((_, node)) = new.next_if(|&(before, _)| before == at) {
                nodes.push(node);
            }
            if !gone[at] {
                nodes.push(node);
            }
        }
        graph.nodes = nodes;
        graph
    }
}
