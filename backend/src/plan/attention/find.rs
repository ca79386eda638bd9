//! What attention and its gradients look like as a host and reverse mode write them.
//!
//! Scores `S[key, query] = sum k q`, perhaps bounded by scale, tanh and scale; weights `P = softmax(S)`; `y = sum v P`. Backward
//! `dP = sum v dy`, `dS` by SOFT_MAX_BACK and what bounded the scores, `dq = sum k dS`, and `dk = sum q dS`, `dv = sum P dy`, which the queries'
//! heads share: either the product sums over them, or a REPEAT_BACK behind it. Operands are any windows: what matters is that the same
//! one is where the same is meant.

use crate::graph::{FlashAttn, Kind, Node, Op, Operand, Unary, ValueId};
use crate::plan::index::Index;

/// An attention with its gradients. Operands are windows `[hs, tokens, heads, b]`.
#[derive(Clone, Debug)]
pub(super) struct Trained {
    pub attention: FlashAttn,
    pub q: Operand,
    pub k: Operand,
    pub v: Operand,
    pub mask: Option<Operand>,
    pub dy: Operand,
    /// The node whose result is `[hs, queries, heads, b]`.
    pub y: usize,
    /// Those whose results are gradients: as q; as k in order; as v transposed, in order.
    pub dq: Option<usize>,
    pub dk: Option<usize>,
    pub dv: Option<usize>,
    /// First node of the gradients.
    pub back: usize,
    /// All nodes of it, ascending.
    pub gone: Vec<usize>,
}

impl Trained {
    /// The nodes whose results others read.
    pub fn results(&self) -> impl Iterator<Item = usize> + use<> {
        [Some(self.y), self.dq, self.dk, self.dv].into_iter().flatten()
    }
}

/// Scores, and what they are made of.
struct Scores {
    /// The product of keys and queries.
    product: usize,
    /// Nodes that bound what it gives, and the factors before and behind the tanh.
    bounded: Option<([usize; 3], [f32; 2])>,
}

impl<'g> Index<'g> {
    /// The attention whose softmax a node is. `None` if it is none, or none that is trained.
    ///
    /// # Errors
    /// Why it cannot be replaced.
    pub(super) fn trained(&self, at: usize) -> Result<Option<Trained>, String> {
        let soft_max = self.node(at);
        let &Op::SoftMax { scale, max_bias, sinks } = &soft_max.op else { return Ok(None) };
        let Some(scores) = self.scores(&soft_max.inputs[0]) else { return Ok(None) };
        let p = soft_max.output;
        let reads_p = |wanted: Op, i: usize| {
            let reads = |&at: &usize| self.node(at).op == wanted && self.is_all(self.node(at).inputs.get(i), p);
            self.readers[p.index()].iter().copied().find(reads)
        };
        let (Some(y), Some(back)) = (reads_p(Op::MulMat, 1), reads_p(Op::SoftMaxBack { scale }, 1)) else {
            return Ok(None);
        };
        if sinks {
            return Err("it has sinks, which its gradients do not".into());
        }
        let &[k, q] = &self.node(scores.product).inputs[..] else { return Ok(None) };
        let v_columns = self.node(y).inputs[0];
        let Some((d_weights, dy)) = self.weights_gradient(&self.node(back).inputs[0], &v_columns) else {
            return Err("its weights' gradient is no product with the values".into());
        };
        let mut gone = vec![at, scores.product, y, back, d_weights];
        let mut d_scores = back;
        let mut softcap = 0.0;
        let mut whole_scale = scale;
        if let Some((nodes, [before, behind])) = scores.bounded {
            let Some(chain) = self.bounded_back(back, nodes[1], [before, behind]) else {
                return Err("what bounds its scores has no gradient of that kind".into());
            };
            gone.extend(nodes.into_iter().chain(chain));
            d_scores = chain[2];
            softcap = scale * behind;
            whole_scale = before * softcap;
        }
        let d_scores = self.node(d_scores).output;
        let mask = soft_max.inputs.get(1).copied();
        let attention =
            FlashAttn { scale: whole_scale, max_bias, softcap, mask: mask.is_some(), sinks: false, logs: true };
        let v = v_columns.transpose();
        let mut found =
            Trained { attention, q, k, v, mask, dy, y, dq: None, dk: None, dv: None, back: d_weights, gone };
        for &reader in &self.readers[d_scores.index()] {
            if self.is_queries_gradient(reader, &k, d_scores) {
                found.dq = Some(reader);
                found.gone.push(reader);
            } else if let Some(result) = self.shared_gradient(reader, [&q, &self.graph.whole(d_scores)], &k) {
                found.dk = Some(result);
                found.gone.extend([reader, result]);
            }
        }
        for &reader in &self.readers[p.index()] {
            if let Some(result) = self.shared_gradient(reader, [&self.graph.whole(p), &dy], &k) {
                found.dv = Some(result);
                found.back = found.back.min(reader);
                found.gone.extend([reader, result]);
            }
        }
        found.gone.sort_unstable();
        found.gone.dedup();
        self.check(&found)?;
        Ok(Some(found))
    }

    /// Whether an operand is all of a value.
    fn is_all(&self, operand: Option<&Operand>, value: ValueId) -> bool {
        let shape = &self.graph.values[value.index()].shape;
        operand.is_some_and(|operand| operand.value == value && operand.is_whole(shape))
    }

    /// The node whose whole result an operand is.
    fn made(&self, operand: &Operand) -> Option<usize> {
        self.writer[operand.value.index()].filter(|_| self.is_all(Some(operand), operand.value))
    }

    fn scores(&self, operand: &Operand) -> Option<Scores> {
        let at = self.made(operand)?;
        match self.node(at).op {
            Op::MulMat => Some(Scores { product: at, bounded: None }),
            Op::Scale { scale: behind, bias: 0.0 } => {
                let tanh = self.made(&self.node(at).inputs[0])?;
                let scaled = self.made(&self.node(tanh).inputs[0])?;
                let product = self.made(&self.node(scaled).inputs[0])?;
                match (self.node(tanh).op, self.node(scaled).op, self.node(product).op) {
                    (Op::Unary(Unary::Tanh), Op::Scale { scale: before, bias: 0.0 }, Op::MulMat) => {
                        Some(Scores { product, bounded: Some(([scaled, tanh, at], [before, behind])) })
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The product that gives the gradient of the weights, and `dy` as `[hs, queries, heads, b]`.
    fn weights_gradient(&self, operand: &Operand, v_columns: &Operand) -> Option<(usize, Operand)> {
        let at = self.made(operand)?;
        let node = self.node(at);
        (node.op == Op::OutProd && same(&node.inputs[0], v_columns)).then(|| (at, node.inputs[1].transpose()))
    }

    /// The three nodes that undo what bounded the scores, the last of which gives the gradient of the product.
    fn bounded_back(&self, from: usize, tanh: usize, [before, behind]: [f32; 2]) -> Option<[usize; 3]> {
        let next = |at: usize, op: Op| {
            let output = self.node(at).output;
            let found = self.readers[output.index()].iter().copied();
            let mut found =
                found.filter(|&next| self.node(next).op == op && self.is_all(self.node(next).inputs.first(), output));
            found.next()
        };
        let outer = next(from, Op::Scale { scale: behind, bias: 0.0 })?;
        let back = next(outer, Op::TanhBack)?;
        let inner = next(back, Op::Scale { scale: before, bias: 0.0 })?;
        self.is_all(self.node(back).inputs.get(1), self.node(tanh).output).then_some([outer, back, inner])
    }

    /// Whether a node is the product of keys and the gradient of the scores.
    fn is_queries_gradient(&self, at: usize, k: &Operand, d_scores: ValueId) -> bool {
        let Node { op, inputs, .. } = self.node(at);
        *op == Op::OutProd && same(&inputs[0], k) && self.is_all(Some(&inputs[1].transpose()), d_scores)
    }

    /// The node whose result has, head by head of the keys, the product of two factors `[.., queries, heads, b]` summed over queries and the
    /// heads that share; `at` is the product.
    fn shared_gradient(&self, at: usize, factors: [&Operand; 2], k: &Operand) -> Option<usize> {
        let node = self.node(at);
        if node.op != Op::OutProd {
            return None;
        }
        let [_, n, heads, b] = factors[0].shape;
        let kv_heads = k.shape[2];
        let share = heads / kv_heads;
        let is = |rest: [u32; 3]| {
            factors.iter().zip(&node.inputs).all(|(factor, input)| {
                let shape = [factor.shape[0], rest[0], rest[1], rest[2]];
                input.shape == shape && factor.reshape(shape).is_ok_and(|window| same(&window, input))
            })
        };
        if n.checked_mul(share).is_some_and(|summed| is([summed, kv_heads, b])) {
            return Some(at);
        }
        if !is([n, heads, b]) {
            return None;
        }
        // Each head by itself, then summed over those that share, which are neighbours.
        let result = self.graph.whole(node.output);
        let &[reader] = &self.readers[node.output.index()][..] else { return None };
        let sum = self.node(reader);
        let [n0, n1, ..] = result.shape;
        let output = self.graph.values[sum.output.index()].shape;
        let outer = kv_heads.checked_mul(b).filter(|&outer| output == [n0, n1, 1, outer]);
        let along_two = outer.and_then(|outer| result.reshape([n0, n1, share, outer]).ok());
        let along_three =
            result.reshape([n0, n1, share, kv_heads]).and_then(|window| window.permute([0, 1, 3, 2])).ok();
        let along_three = along_three.filter(|_| output == [n0, n1, kv_heads, 1]);
        let input = sum.inputs.first()?;
        let sums = [along_two, along_three].iter().flatten().any(|window| same(window, input));
        (sum.op == Op::RepeatBack && sums).then_some(reader)
    }

    /// That nobody else needs what is computed no more, and that what is read later is what it was.
    fn check(&self, found: &Trained) -> Result<(), String> {
        let is_gone = |at: &usize| found.gone.binary_search(at).is_ok();
        let is_result = |at: usize| found.results().any(|result| result == at);
        let name = |at: usize| &self.node(at).name;
        for &at in &found.gone {
            let Node { output, updates, .. } = self.node(at);
            let computed = self.graph.values[output.index()].kind == Kind::Computed;
            if !updates.is_empty() || !(computed || at == found.y) {
                return Err(format!("{} writes a tensor that lasts", name(at)));
            }
            if is_result(at) {
                continue;
            }
            if self.graph.kept.contains(output) {
                return Err(format!("{} is read after the run", name(at)));
            }
            if let Some(&reader) = self.readers[output.index()].iter().find(|reader| !is_gone(reader)) {
                return Err(format!("{} is read by {}", name(at), name(reader)));
            }
        }
        let (Some(&first), Some(&last)) = (found.gone.first(), found.gone.last()) else { return Ok(()) };
        let operands = [(first, &found.q), (first, &found.k), (first, &found.v), (found.back, &found.dy)];
        for (from, operand) in operands.into_iter().chain(found.mask.iter().map(|mask| (first, mask))) {
            // Values are computed once; those that last may change.
            let lasts = self.graph.values[operand.value.index()].kind == Kind::External;
            let written = |at: &usize| lasts && self.node(*at).written().contains(&operand.value);
            if let Some(at) = (from..last).find(written) {
                return Err(format!("{} changes an operand before its gradient is computed", name(at)));
            }
        }
        Ok(())
    }
}

/// Whether two windows show the same elements in the same places.
fn same(a: &Operand, b: &Operand) -> bool {
    let strides = (0..4).all(|axis| a.shape[axis] == 1 || a.strides[axis] == b.strides[axis]);
    a.value == b.value && a.shape == b.shape && a.offset == b.offset && strides
}
