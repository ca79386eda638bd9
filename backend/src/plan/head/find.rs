//! What a head, its loss and their gradients look like as a host and reverse mode write them.
//!
//! Logits `[vocab, tokens]` are a product of the head's matrix and `x`, perhaps bounded element by element. What reads them, and what
//! reads what follows from them, either has a column of the vocabulary for every token again, as the gradient of the loss has, or ends
//! them: in the loss, a mean over tokens; in the gradient of `x` or the likeliest ids, which have a part for every token; in the gradient of the
//! matrix, a sum over tokens. All of it can then be done for some tokens after the other.

use crate::graph::{Kind, Node, Op, Operand, Shape, ValueId};
use crate::plan::index::Index;

/// How an operand goes with some of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Along {
    /// All of it, for all tokens.
    All,
    /// The part of this axis.
    Axis(usize),
    /// What the head's nodes computed for these tokens, its axes swapped or not.
    Inner { swapped: bool },
    /// The gradient of the loss, in the share that these tokens have in it.
    Seed,
}

/// What becomes of a result that has only some of the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The head's other nodes read it.
    Inner,
    /// Parts lie side by side along this axis.
    Joined(usize),
    /// The whole is the sum.
    Summed,
    /// The whole is the mean of all tokens.
    Mean,
}

/// A node that can be computed for some tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub node: usize,
    pub role: Role,
    /// Of each operand.
    pub along: Vec<Along>,
}

/// Nodes of a head, its loss and their gradients.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// Extents of the logits.
    pub logits: Shape,
    /// In their order.
    pub parts: Vec<Part>,
    /// Nodes that have to come before all parts although they stand behind the first: what the loss's own gradient is made of.
    pub moved: Vec<usize>,
    /// The node before which all of it is computed.
    pub turn: usize,
}

impl Found {
    /// Whether the gradient of the head's matrix is among the results.
    pub fn trains_matrix(&self) -> bool {
        self.parts.iter().any(|part| part.role == Role::Summed)
    }

    /// The nodes whose results are computed afterwards.
    pub fn results(&self) -> Vec<usize> {
        let results = self.parts.iter().filter(|part| part.role != Role::Inner).map(|part| part.node);
        results.chain(self.moved.iter().copied()).collect()
    }

    /// The nodes that stand elsewhere, or nowhere, afterwards.
    pub fn gone(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.node).chain(self.moved.iter().copied()).collect()
    }

    fn holds(&self, at: usize) -> bool {
        self.parts.iter().any(|part| part.node == at)
    }
}

/// What an operand shows of the values of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing.
    Outside,
    /// All of one, that has a column for every token.
    Whole,
    /// The same, its axes swapped.
    Swapped,
    /// A part of one, or a result.
    Otherwise,
}

impl<'g> Index<'g> {
    /// The head whose loss a node is. `None` if it is no loss, or none of a product.
    ///
    /// # Errors
    /// Why it cannot be computed for some tokens after the other.
    pub(super) fn head(&self, loss: usize) -> Result<Option<Found>, String> {
        let node = self.node(loss);
        if node.op != Op::CrossEntropyLoss {
            return Ok(None);
        }
        let Some(product) = self.product(&node.inputs[0]) else { return Ok(None) };
        let logits = node.inputs[0].shape;
        let along = vec![Along::All, Along::Axis(1)];
        self.grown(logits, Part { node: product, role: Role::Inner, along }).map(Some)
    }

    /// The gradient of logits that others read and that are thus computed at once: what follows from a gradient's node. `None` if the node
    /// is no gradient of a loss.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub(super) fn gradient(&self, back: usize) -> Result<Option<Found>, String> {
        let node = self.node(back);
        if node.op != Op::CrossEntropyLossBack {
            return Ok(None);
        }
        let along = vec![Along::Seed, Along::Axis(1), Along::Axis(1)];
        self.grown(node.inputs[1].shape, Part { node: back, role: Role::Inner, along }).map(Some)
    }

    fn name(&self, at: usize) -> &'g str {
        &self.node(at).name
    }

    fn shape(&self, id: ValueId) -> Shape {
        self.graph.values[id.index()].shape
    }

    fn is_whole(&self, operand: &Operand) -> bool {
        operand.is_whole(&self.shape(operand.value))
    }

    /// The product that logits are, or are made of element by element.
    fn product(&self, logits: &Operand) -> Option<usize> {
        let (mut operand, shape) = (logits, logits.shape);
        loop {
            if operand.shape != shape || !self.is_whole(operand) {
                return None;
            }
            let at = self.writer[operand.value.index()]?;
            let node = self.node(at);
            match node.op {
                Op::MulMat => return Some(at),
                op if op.row().family.is_by_element() => operand = &node.inputs[0],
                _ => return None,
            }
        }
    }

    /// What follows from a first node.
    fn grown(&self, logits: Shape, first: Part) -> Result<Found, String> {
        let turn = first.node;
        if logits[2..] != [1, 1] {
            return Err(format!("its logits {logits:?} are no matrix"));
        }
        let mut found = Found { logits, parts: vec![first], moved: Vec::new(), turn };
        // Readers stand behind what they read: in the order of the graph, all that a node reads of the head is known before it.
        let mut open: Vec<usize> = Vec::new();
        self.follow(&found.parts[0], &mut open)?;
        while let Some(at) = open.iter().copied().min() {
            open.retain(|&other| other != at);
            let part = self.part(at, &found)?;
            self.follow(&part, &mut open)?;
            found.parts.push(part);
        }
        self.check_order(&mut found)?;
        Ok(found)
    }

    /// Adds the readers of a part that the head's other nodes read.
    fn follow(&self, part: &Part, open: &mut Vec<usize>) -> Result<(), String> {
        let Node { output, updates, .. } = self.node(part.node);
        let computed = self.graph.values[output.index()].kind == Kind::Computed;
        if !updates.is_empty() || (!computed && part.role == Role::Summed) {
            return Err(format!("{} writes a tensor that lasts", self.name(part.node)));
        }
        if part.role != Role::Inner {
            return Ok(());
        }
        if !computed || self.graph.kept.contains(output) {
            return Err(format!("{} is read after the run", self.name(part.node)));
        }
        open.extend(&self.readers[output.index()]);
        Ok(())
    }

    /// A node that reads what the head's nodes computed.
    fn part(&self, at: usize, found: &Found) -> Result<Part, String> {
        let node = self.node(at);
        let all = found.logits;
        let seen: Vec<Seen> = node.inputs.iter().map(|operand| self.seen(operand, found)).collect();
        let (inner, swapped) = (Along::Inner { swapped: false }, Along::Inner { swapped: true });
        let taken = match (node.op, &seen[..]) {
            (Op::CrossEntropyLoss, [Seen::Whole, Seen::Outside]) => Some((Role::Mean, vec![inner, Along::Axis(1)])),
            (Op::CrossEntropyLossBack, [Seen::Outside, Seen::Whole, Seen::Outside]) => {
                Some((Role::Inner, vec![Along::Seed, inner, Along::Axis(1)]))
            }
            (Op::ArgMax, [Seen::Whole]) => Some((Role::Joined(0), vec![inner])),
            (Op::OutProd, [Seen::Outside, Seen::Swapped]) => Some((Role::Joined(1), vec![Along::All, swapped])),
            (Op::OutProd, [Seen::Outside, Seen::Whole]) => Some((Role::Summed, vec![Along::Axis(1), inner])),
            (op, _) if op.row().family.is_by_element() => {
                let along = node.inputs.iter().zip(&seen).map(|(operand, seen)| match seen {
                    Seen::Whole => Some(inner),
                    Seen::Outside if operand.shape == all => Some(Along::Axis(1)),
                    Seen::Outside if operand.shape[1..] == [1, 1, 1] => Some(Along::All),
                    Seen::Outside | Seen::Swapped | Seen::Otherwise => None,
                });
                along.collect::<Option<Vec<_>>>().map(|along| (Role::Inner, along))
            }
            _ => None,
        };
        let fits = |role| match role {
            Role::Inner => self.shape(node.output) == all,
            Role::Joined(axis) => self.shape(node.output)[axis] == all[1],
            Role::Summed | Role::Mean => true,
        };
        if let Some((role, along)) = taken.filter(|&(role, _)| fits(role)) {
            return Ok(Part { node: at, role, along });
        }
        let read = node.inputs.iter().zip(&seen).find(|(_, seen)| **seen != Seen::Outside);
        let read = read.map_or("", |(operand, _)| &self.graph.values[operand.value.index()].name);
        Err(format!("{read} is read by {}", self.name(at)))
    }

    fn seen(&self, operand: &Operand, found: &Found) -> Seen {
        let writer = self.writer[operand.value.index()];
        match found.parts.iter().find(|part| Some(part.node) == writer).map(|part| part.role) {
            None => Seen::Outside,
            Some(Role::Inner) if self.is_whole(operand) => Seen::Whole,
            Some(Role::Inner) if self.is_whole(&operand.transpose()) => Seen::Swapped,
            Some(_) => Seen::Otherwise,
        }
    }

    /// That all of it can be computed where its first node stands: what it reads is there by then, or can be, and what lasts is the
    /// same there.
    fn check_order(&self, found: &mut Found) -> Result<(), String> {
        let turn = found.turn;
        let later = |operand: &Operand| self.writer[operand.value.index()].filter(|&writer| writer > turn);
        let mut open: Vec<usize> = found.parts.iter().map(|part| part.node).collect();
        while let Some(at) = open.pop() {
            for before in self.node(at).inputs.iter().filter_map(later) {
                let inside = found.holds(before);
                if inside && !found.holds(at) {
                    return Err(format!("{} has to be known before it, and follows from it", self.name(at)));
                }
                if !inside && !found.moved.contains(&before) {
                    if !self.node(before).updates.is_empty() {
                        return Err(format!("{} writes a tensor that lasts", self.name(before)));
                    }
                    found.moved.push(before);
                    open.push(before);
                }
            }
        }
        found.moved.sort_unstable();
        let lasts = |id: ValueId| self.graph.values[id.index()].kind == Kind::External;
        for at in found.parts.iter().map(|part| part.node).chain(found.moved.iter().copied()) {
            let node = self.node(at);
            // What a part writes that lasts, as a loss that the host reads, is written as late as ever.
            let written_late = |other: usize| !found.holds(other) || lasts(self.node(other).output);
            let between = || (turn..at).filter(|&other| written_late(other));
            let changes = |other: &usize| {
                let written = self.node(*other).written();
                node.inputs.iter().any(|input| lasts(input.value) && written.contains(&input.value))
            };
            if let Some(other) = between().find(changes) {
                return Err(format!("{} changes an operand of {} before it", self.name(other), self.name(at)));
            }
            let meets = |&other: &usize| {
                let node_of = self.node(other);
                node_of.written().contains(&node.output) || node_of.inputs.iter().any(|i| i.value == node.output)
            };
            if let Some(other) = between().find(|other| lasts(node.output) && meets(other)) {
                return Err(format!("{} meets what {} writes before it", self.name(other), self.name(at)));
            }
        }
        Ok(())
    }
}
