//! Attention that a host writes as products and a softmax, with its gradients, becomes attention in one sweep: the scores of all pairs, as
//! many as tokens squared, exist nowhere.
//!
//! A rewrite of graphs, before anything has a home. [`find`] recognises `MUL_MAT`, `SOFT_MAX`, `MUL_MAT` and what reverse mode makes of
//! them; here they make room for [`Op::FlashAttn`] with logs and its gradient ops. What others read stays: results are copies of windows
//! over the new ones, which plans turn into coordinates.

mod find;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use crate::device::Limits;
use crate::graph::{Graph, Kind, Node, Op, Operand};
use crate::kernels;

use find::{Index, Trained};

/// Which attention is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// All that a device can compute in one sweep.
    All,
    /// Only what matrix units compute: by invocations alone a sweep takes longer than the products that it replaces.
    ByUnits,
}

/// What became of the attention of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Attention {
    /// How many times products and a softmax, with their gradients, were replaced.
    pub replaced: usize,
    /// Softmaxes that look like it and were not, each with the reason.
    pub refused: Vec<String>,
}

impl std::fmt::Display for Attention {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "attention: {} replaced, with gradients", self.replaced)?;
        self.refused.iter().try_for_each(|why| write!(f, "; not {why}"))
    }
}

/// The graph with its attention replaced wherever it is trained and nobody else reads its weights. Values keep their ids; those that no
/// node computes any more are [`Kind::Dropped`].
pub fn replace_attention<'g>(graph: &'g Graph, limits: &Limits, which: Replaced) -> (Cow<'g, Graph>, Attention) {
    let mut report = Attention::default();
    let index = Index::new(graph);
    let mut edit = Edit { graph: Cow::Borrowed(graph), gone: vec![false; graph.nodes.len()], new: Vec::new() };
    for at in 0..graph.nodes.len() {
        let replaced = match index.trained(at) {
            Ok(None) => continue,
            Ok(Some(found)) => edit.replace(&found, limits, which),
            Err(why) => Err(why),
        };
        match replaced {
            Ok(()) => report.replaced += 1,
            Err(why) => report.refused.push(format!("{}: {why}", graph.nodes[at].name)),
        }
    }
    if report.replaced == 0 {
        return (Cow::Borrowed(graph), report);
    }
    (Cow::Owned(edit.finish()), report)
}

/// A graph whose nodes are being replaced.
struct Edit<'g> {
    graph: Cow<'g, Graph>,
    /// Nodes of the graph that are computed no more.
    gone: Vec<bool>,
    /// New nodes, each with the node whose turn they come before.
    new: Vec<(usize, Node)>,
}

impl Edit<'_> {
    fn replace(&mut self, found: &Trained, limits: &Limits, which: Replaced) -> Result<(), String> {
        let [size, ..] = found.q.shape;
        if which == Replaced::ByUnits && !kernels::trains_attention_by_units(size, limits) {
            return Err(format!("no matrix units take rows of {size} elements here"));
        }
        kernels::trains_attention(size, found.mask.is_some(), limits).map_err(|refusal| refusal.to_string())?;
        let values = self.graph.values.len();
        match self.nodes_for(found) {
            Ok(new) => {
                self.new.extend(new);
                let graph = self.graph.to_mut();
                for &at in &found.gone {
                    self.gone[at] = true;
                    let output = graph.nodes[at].output;
                    if !found.results().any(|result| result == at) {
                        graph.values[output.index()].kind = Kind::Dropped;
                    }
                }
                Ok(())
            }
            Err(why) => {
                let graph = self.graph.to_mut();
                graph.values.truncate(values);
                Err(why)
            }
        }
    }

    /// What computes the results of an attention instead; values are added to the graph, nodes are not.
    fn nodes_for(&mut self, found: &Trained) -> Result<Vec<(usize, Node)>, String> {
        let Trained { attention, q, k, v, mask, dy, .. } = *found;
        let (heads, kv_heads) = (q.shape[2], k.shape[2]);
        let name = self.graph.nodes[found.y].name.clone();
        let mut new = Vec::new();
        let mut operands: Vec<Operand> = [q, k, v].into_iter().chain(mask).collect();
        let y = self.add(&mut new, found.y, &name, Op::FlashAttn(attention), operands.clone())?;
        self.hand_over(&mut new, found.y, found.y, heads_of(y, 0, heads)?);
        let kept = operands.len();
        operands.extend([y, dy.permute([0, 2, 1, 3]).map_err(|e| e.to_string())?]);
        let name = format!("{name}: gradient");
        let dq = self.add(&mut new, found.back, &name, Op::FlashAttnBackQ(attention), operands.clone())?;
        if let Some(at) = found.dq {
            self.hand_over(&mut new, found.back, at, heads_of(dq, 0, heads)?);
        }
        if found.dk.or(found.dv).is_none() {
            return Ok(new);
        }
        operands[kept] = dq;
        let d = self.add(&mut new, found.back, &name, Op::FlashAttnBackKv(attention), operands)?;
        if let Some(at) = found.dk {
            self.hand_over(&mut new, found.back, at, heads_of(d, 0, kv_heads)?);
        }
        if let Some(at) = found.dv {
            // The host's product has the rows of keys innermost, as the values that it multiplies.
            self.hand_over(&mut new, found.back, at, heads_of(d, kv_heads, kv_heads)?.transpose());
        }
        Ok(new)
    }

    fn add(
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

    /// Copies a window to the result of the node `at`, in whose order its elements are.
    fn hand_over(&self, new: &mut Vec<(usize, Node)>, before: usize, at: usize, window: Operand) {
        let Node { name, output, .. } = &self.graph.nodes[at];
        let copy =
            Node { name: name.clone(), op: Op::Copy, inputs: vec![window], output: *output, updates: Vec::new() };
        new.push((before, copy));
    }

    fn finish(self) -> Graph {
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

/// Some heads of a result `[hs, heads, n, b]` as products have them: `[hs, n, heads, b]`.
fn heads_of(result: Operand, first: u32, count: u32) -> Result<Operand, String> {
    let heads = result.slice(1, first, count).and_then(|heads| heads.permute([0, 2, 1, 3]));
    heads.map_err(|e| e.to_string())
}
