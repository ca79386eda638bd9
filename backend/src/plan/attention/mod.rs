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
use crate::graph::{Graph, Node, Op, Operand};
use crate::kernels;

use super::edit::Edit;
use super::index::Index;
use find::Trained;

/// Elements of a head up to which a sweep pays early. An H200 takes 223 us for 512 tokens and 32 heads of 64 where products take 257, and 284
/// for 12 heads of 128 where products take 192.
const SHORT_HEAD: u32 = 64;

/// Which attention is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionScope {
    /// All that a device can compute in one sweep.
    All,
    /// Only what matrix units compute, for so many queries or more, and eight times as many where heads are longer than 64: by
    /// invocations alone, or for fewer, a sweep takes longer than the products that it replaces.
    ByUnits(u32),
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
/// node computes any more are [`crate::graph::Kind::Dropped`].
pub fn replace_attention<'g>(graph: &'g Graph, limits: &Limits, scope: AttentionScope) -> (Cow<'g, Graph>, Attention) {
    let mut report = Attention::default();
    let index = Index::new(graph);
    let mut edit = Edit::new(graph);
    for at in 0..graph.nodes.len() {
        let replaced = match index.trained(at) {
            Ok(None) => continue,
            Ok(Some(found)) => replace(&mut edit, &found, limits, scope),
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

fn replace(edit: &mut Edit<'_>, found: &Trained, limits: &Limits, scope: AttentionScope) -> Result<(), String> {
    let [size, queries, ..] = found.q.shape;
    if let AttentionScope::ByUnits(least) = scope {
        if !kernels::trains_attention_by_units(size, limits) {
            return Err(format!("no matrix units take rows of {size} elements here"));
        }
        let least = if size > SHORT_HEAD { least.saturating_mul(8) } else { least };
        if queries < least {
            return Err(format!("{queries} queries are fewer than {least}"));
        }
    }
    kernels::trains_attention(size, found.mask.is_some(), limits).map_err(|refusal| refusal.to_string())?;
    let results: Vec<usize> = found.results().collect();
    edit.replace(&found.gone, &results, |edit| nodes_for(edit, found))
}

/// What computes the results of an attention instead; values are added to the graph, nodes are not.
fn nodes_for(edit: &mut Edit<'_>, found: &Trained) -> Result<Vec<(usize, Node)>, String> {
    let Trained { attention, q, k, v, mask, dy, .. } = *found;
    let (heads, kv_heads) = (q.shape[2], k.shape[2]);
    let name = edit.graph.nodes[found.y].name.clone();
    let mut new = Vec::new();
    let mut operands: Vec<Operand> = [q, k, v].into_iter().chain(mask).collect();
    let y = edit.add(&mut new, found.y, &name, Op::FlashAttn(attention), operands.clone())?;
    hand_over(edit, &mut new, found.y, found.y, heads_of(y, 0, heads)?);
    let kept = operands.len();
    operands.extend([y, dy.permute([0, 2, 1, 3]).map_err(|e| e.to_string())?]);
    let name = format!("{name}: gradient");
    let dq = edit.add(&mut new, found.back, &name, Op::FlashAttnBackQ(attention), operands.clone())?;
    if let Some(at) = found.dq {
        hand_over(edit, &mut new, found.back, at, heads_of(dq, 0, heads)?);
    }
    if found.dk.or(found.dv).is_none() {
        return Ok(new);
    }
    operands[kept] = dq;
    let d = edit.add(&mut new, found.back, &name, Op::FlashAttnBackKv(attention), operands)?;
    if let Some(at) = found.dk {
        hand_over(edit, &mut new, found.back, at, heads_of(d, 0, kv_heads)?);
    }
    if let Some(at) = found.dv {
        // The host's product has the rows of keys innermost, as the values that it multiplies.
        hand_over(edit, &mut new, found.back, at, heads_of(d, kv_heads, kv_heads)?.transpose());
    }
    Ok(new)
}

/// Copies a window to the result of the node `at`, in whose order its elements are.
fn hand_over(edit: &Edit<'_>, new: &mut Vec<(usize, Node)>, before: usize, at: usize, window: Operand) {
    let Node { name, output, .. } = &edit.graph.nodes[at];
    let copy = Node { name: name.clone(), op: Op::Copy, inputs: vec![window], output: *output, updates: Vec::new() };
    new.push((before, copy));
}

/// Some heads of a result `[hs, heads, n, b]` as products have them: `[hs, n, heads, b]`.
fn heads_of(result: Operand, first: u32, count: u32) -> Result<Operand, String> {
    let heads = result.slice(1, first, count).and_then(|heads| heads.permute([0, 2, 1, 3]));
    heads.map_err(|e| e.to_string())
}
