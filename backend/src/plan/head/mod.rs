//! Head and loss for some tokens after the other: logits of all tokens, as many as tokens times the vocabulary, exist nowhere.
//!
//! A rewrite of graphs, before anything has a home. [`find`] recognises a product that a cross entropy reads, with all that follows from its
//! result for each token by itself; here its nodes are repeated for chunks of tokens, which are windows of their operands. Each product is
//! computed once. Shares of the loss, and of the gradient of the head's matrix, are added in the order of the tokens, and what has a part for every
//! token is joined. What outlives a chunk is small, so that all chunks share the memory of one.

mod find;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::device::Limits;
use crate::graph::{Binary, Graph, Kind, Node, Op, Operand, ValueId};

use super::edit::Edit;
use super::index::Index;
use find::{Along, Found, Part, Role};

/// How heads with their losses are computed, where layouts are treated by [`super::Policy::Full`]: results are the same but for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadChoice {
    /// As they are written.
    Whole,
    /// In chunks of as many tokens as suit the device: [`chunk_head`].
    #[default]
    Chunked,
    /// In chunks of so many tokens at most; of more where that would be more than 1024 chunks.
    Tokens(u32),
}

impl std::str::FromStr for HeadChoice {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "whole" => Ok(Self::Whole),
            "chunked" => Ok(Self::Chunked),
            tokens => match tokens.parse() {
                Ok(0) | Err(_) => Err(format!("head '{s}' is not one of whole, chunked, or a number of tokens")),
                Ok(tokens) => Ok(Self::Tokens(tokens)),
            },
        }
    }
}

/// Bytes of logits that a chunk may have, where it has enough tokens by then.
const LOGITS: u64 = 64 << 20;

/// Tokens that a chunk has at least: so many that its products take longer than reading the head's matrix, which every chunk does again.
const TOKENS: u32 = 64;

/// The same where products have matrix units.
const TOKENS_OF_UNITS: u32 = 128;

/// How many times as many it has where the gradient of the head's matrix is wanted, which every chunk reads and writes in F32.
const TRAINED: u32 = 4;

/// Chunks that there are at most: each repeats the nodes of the head.
const MOST_CHUNKS: u32 = 1 << 10;

/// What tokens of a chunk are a multiple of, so that it begins with a tile of its operands.
const ALIGNED: u32 = 16;

/// What became of the heads of a graph.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// Tokens of a chunk, for each head that is computed in chunks with its loss.
    pub chunks: Vec<u32>,
    /// The same for gradients of logits that are needed whole.
    pub gradients: Vec<u32>,
    /// Losses and gradients that are not, each with the reason.
    pub refused: Vec<String>,
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = |chunks: &[u32]| chunks.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "head and loss: {} in chunks", self.chunks.len())?;
        if !self.chunks.is_empty() {
            write!(f, " of {} tokens", tokens(&self.chunks))?;
        }
        if !self.gradients.is_empty() {
            write!(f, ", {} gradients of {} tokens", self.gradients.len(), tokens(&self.gradients))?;
        }
        self.refused.iter().try_for_each(|why| write!(f, "; not {why}"))
    }
}

/// The graph with its heads and losses in chunks of tokens, wherever nobody else reads the logits, and where somebody does with the logits'
/// gradient in chunks. Values keep their ids; those that no node computes any more are [`Kind::Dropped`].
pub fn chunk_head<'g>(graph: &'g Graph, limits: &Limits, choice: HeadChoice) -> (Cow<'g, Graph>, Head) {
    let mut report = Head::default();
    let is_loss = |node: &Node| matches!(node.op, Op::CrossEntropyLoss | Op::CrossEntropyLossBack);
    if choice == HeadChoice::Whole || !graph.nodes.iter().any(is_loss) {
        return (Cow::Borrowed(graph), report);
    }
    let index = Index::new(graph);
    let mut edit = Edit::new(graph);
    for at in 0..graph.nodes.len() {
        if edit.is_gone(at) {
            continue;
        }
        let is_head = graph.nodes[at].op == Op::CrossEntropyLoss;
        let found = if is_head { index.head(at) } else { index.gradient(at) };
        let chunked = match found {
            Ok(None) => continue,
            Ok(Some(found)) if found.gone().iter().any(|&at| edit.is_gone(at)) => {
                Err("what it is made of is moved for another head".to_owned())
            }
            Ok(Some(found)) => match tokens(&found, limits, choice) {
                Some(tokens) => in_chunks(&mut edit, &found, tokens).map(|()| tokens),
                None => continue,
            },
            Err(why) => Err(why),
        };
        match chunked {
            Ok(tokens) if is_head => report.chunks.push(tokens),
            Ok(tokens) => report.gradients.push(tokens),
            Err(why) => report.refused.push(format!("{}: {why}", graph.nodes[at].name)),
        }
    }
    if report.chunks.is_empty() && report.gradients.is_empty() {
        return (Cow::Borrowed(graph), report);
    }
    (Cow::Owned(edit.finish()), report)
}

/// Tokens of a chunk; nothing where there are no more of them. All chunks but the last have as many.
fn tokens(found: &Found, limits: &Limits, choice: HeadChoice) -> Option<u32> {
    let [vocabulary, rows, ..] = found.logits;
    let most = match choice {
        HeadChoice::Tokens(tokens) => tokens,
        HeadChoice::Whole | HeadChoice::Chunked => {
            let units = !limits.matrix_units.is_empty();
            let least = if units { TOKENS_OF_UNITS } else { TOKENS } * if found.trains_matrix() { TRAINED } else { 1 };
            let fit = LOGITS / (4 * u64::from(vocabulary));
            // A power of two, as tiles of products are.
            let fit = fit.checked_ilog2().map_or(1, |log| 1 << log.min(30));
            least.max(fit)
        }
    };
    let most = most.max(rows.div_ceil(MOST_CHUNKS));
    // Chunks of one size, rather than a few tokens left for the last one, which reads the head's matrix as the others do.
    let even = rows.div_ceil(rows.div_ceil(most));
    let tokens = even.checked_next_multiple_of(ALIGNED.min(most)).map_or(most, |tokens| tokens.min(most));
    (tokens < rows).then_some(tokens)
}

/// Computes what was found for so many tokens after the other.
fn in_chunks(edit: &mut Edit<'_>, found: &Found, tokens: u32) -> Result<(), String> {
    edit.replace(&found.gone(), &found.results(), |edit| {
        let mut chunks = Chunks { edit, found, new: Vec::new(), seeds: HashMap::new(), results: HashMap::new() };
        for &at in &found.moved {
            chunks.new.push((found.turn, chunks.edit.graph.nodes[at].clone()));
        }
        let rows = found.logits[1];
        (0..rows).step_by(tokens as usize).try_for_each(|first| chunks.chunk(first, tokens.min(rows - first)))?;
        found.parts.iter().filter(|part| part.role != Role::Inner).try_for_each(|part| chunks.hand_over(part))?;
        Ok(chunks.new)
    })
}

/// Nodes for chunks of tokens.
struct Chunks<'e, 'g> {
    edit: &'e mut Edit<'g>,
    found: &'e Found,
    new: Vec<(usize, Node)>,
    /// The gradient of the loss, in the share of so many tokens.
    seeds: HashMap<(Operand, u32), Operand>,
    /// What was computed of the result of each node: parts to be joined, or one sum.
    results: HashMap<usize, Vec<Operand>>,
}

impl Chunks<'_, '_> {
    fn chunk(&mut self, first: u32, count: u32) -> Result<(), String> {
        let found = self.found;
        let mut inner: HashMap<ValueId, Operand> = HashMap::new();
        for part in &found.parts {
            let Node { name, op, inputs, output, .. } = self.edit.graph.nodes[part.node].clone();
            let name = format!("{name} {first}..{}", first + count);
            let mut operands = Vec::with_capacity(inputs.len());
            for (operand, along) in inputs.iter().zip(&part.along) {
                operands.push(match *along {
                    Along::All => *operand,
                    Along::Axis(axis) => operand.slice(axis, first, count).map_err(|e| e.to_string())?,
                    Along::Inner { swapped } => {
                        let of_chunk = inner.get(&operand.value).ok_or("a value is read before it is computed")?;
                        if swapped { of_chunk.transpose() } else { *of_chunk }
                    }
                    Along::Seed => self.seed(operand, count)?,
                });
            }
            let result = self.add(&name, op, operands)?;
            match part.role {
                Role::Inner => {
                    inner.insert(output, result);
                }
                Role::Joined(_) => self.results.entry(part.node).or_default().push(result),
                Role::Summed => self.sum(part.node, &name, result)?,
                Role::Mean => {
                    let share = self.add(&name, self.share(count), vec![result])?;
                    self.sum(part.node, &name, share)?;
                }
            }
        }
        Ok(())
    }

    /// The factor of so many tokens in a mean of all.
    fn share(&self, count: u32) -> Op {
        Op::Scale { scale: count as f32 / self.found.logits[1] as f32, bias: 0.0 }
    }

    fn seed(&mut self, seed: &Operand, count: u32) -> Result<Operand, String> {
        if let Some(&known) = self.seeds.get(&(*seed, count)) {
            return Ok(known);
        }
        let share = self.add(&format!("share of {count} tokens"), self.share(count), vec![*seed])?;
        self.seeds.insert((*seed, count), share);
        Ok(share)
    }

    fn sum(&mut self, node: usize, name: &str, term: Operand) -> Result<(), String> {
        let sum = match self.results.get(&node).and_then(|sums| sums.first()) {
            Some(&before) => self.add(name, Op::Binary(Binary::Add), vec![term, before])?,
            None => term,
        };
        self.results.insert(node, vec![sum]);
        Ok(())
    }

    /// Lets the last node of a result compute the value that others read.
    fn hand_over(&mut self, part: &Part) -> Result<(), String> {
        let Node { name, output, .. } = self.edit.graph.nodes[part.node].clone();
        let mut parts = self.results.remove(&part.node).unwrap_or_default();
        // Neighbours in pairs: each part moves as often as the number of parts can be halved.
        while let (Role::Joined(axis), true) = (part.role, parts.len() > 1) {
            let pairs = parts.chunks(2).map(|pair| match pair {
                [_, _] => self.add(&name, Op::Concat { axis: axis as u32 }, pair.to_vec()),
                alone => Ok(alone[0]),
            });
            parts = pairs.collect::<Result<_, _>>()?;
        }
        let made = parts.first().map(|whole| whole.value);
        let last = self.new.iter_mut().find(|(_, node)| Some(node.output) == made);
        let (_, last) = last.ok_or("a result has no parts")?;
        let dropped = std::mem::replace(&mut last.output, output);
        self.edit.graph.to_mut().values[dropped.index()].kind = Kind::Dropped;
        Ok(())
    }

    fn add(&mut self, name: &str, op: Op, operands: Vec<Operand>) -> Result<Operand, String> {
        self.edit.add(&mut self.new, self.found.turn, name, op, operands)
    }
}
