//! Addresses that a graph uses for several roots, one after the other, as graph allocators do.
//!
//! In compute buffers that is the rule. In others it is seen only where a host does not say what a buffer is for: ggml's RPC server has no
//! word for it. There a root may share bytes with another that the graph writes as long as every read comes before that write.

use std::collections::{HashMap, HashSet};

use super::{Binding, Slot};
use crate::memory::Lifetime;
use crate::record::Root;
use crate::snapshot::Snapshot;

/// The slots whose last value goes to the record: all in persistent buffers, and those in compute buffers that somebody outside may read;
/// unless a later write falls on the same bytes, which proves them dead.
pub fn publish(snapshot: &Snapshot, last_writes: &[(usize, Slot)]) -> HashSet<Slot> {
    let kept: HashSet<usize> =
        snapshot.nodes.iter().filter(|node| node.kept).map(|node| snapshot.tensors[node.tensor].root).collect();
    let mut later: Vec<(usize, Root)> = Vec::new();
    let mut published = HashSet::new();
    for &(tensor, slot) in last_writes.iter().rev() {
        let (tensor_root, Some(root)) = snapshot.root(tensor) else { continue };
        let Some(place) = tensor_root.place else { continue };
        if place.lifetime == Lifetime::Epoch && !kept.contains(&snapshot.tensors[tensor].root) {
            continue;
        }
        let dead = later.iter().any(|(buffer, other)| *buffer == place.buffer && overlap(other, &root));
        if !dead {
            later.push((place.buffer, root));
            published.insert(slot);
        }
    }
    published
}

/// The writes of records so far, in order.
#[derive(Default)]
pub struct Writes {
    count: usize,
    last: HashMap<(usize, Root), usize>,
}

impl Writes {
    /// Notes a write.
    pub fn note(&mut self, slot: Slot) {
        if let Slot::Record { buffer, root } = slot {
            self.count += 1;
            self.last.insert((buffer, root), self.count);
        }
    }

    /// Whether a record still has the value that the graph wrote last, or had at first: no write of another fell on its bytes since.
    pub fn check(&self, slot: Slot) -> Result<(), String> {
        let Slot::Record { buffer, root } = slot else { return Ok(()) };
        let own = self.last.get(&(buffer, root)).copied().unwrap_or(0);
        let since = self.last.iter().filter(|&(_, &at)| at > own);
        let mut others = since.map(|(key, _)| key).filter(|(at, other)| *at == buffer && overlap(other, &root));
        others.next().map_or(Ok(()), |(_, other)| Err(shared(other, &root)))
    }
}

/// A persistent record that the graph writes must not share bytes with another that it writes too, nor, if it keeps some of what was there,
/// with one that it reads: their storages are not one.
pub fn refuse_overlaps(bindings: &[Binding]) -> Result<(), String> {
    let persistent = || bindings.iter().filter(|binding| binding.lifetime == Lifetime::Persistent);
    for written in persistent().filter(|binding| binding.writes) {
        let other = persistent().filter(|other| other.writes || written.reads).find(|other| {
            other.buffer == written.buffer && other.root != written.root && overlap(&other.root, &written.root)
        });
        if let Some(other) = other {
            return Err(shared(&written.root, &other.root));
        }
    }
    Ok(())
}

fn overlap(a: &Root, b: &Root) -> bool {
    a.offset < b.end() && b.offset < a.end()
}

fn shared(a: &Root, b: &Root) -> String {
    let (from, to, other, end) = (a.offset, a.end(), b.offset, b.end());
    format!("two tensors share bytes of a buffer, at {from}..{to} and {other}..{end}, and one is written")
}
