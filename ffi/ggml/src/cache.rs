//! Compiled graphs, found again by what ggml says of a graph or by its structure. Pure.

use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::quality::FixedState;
use rustc_hash::FxHasher;

use crate::record::Geometry;
use crate::snapshot::Snapshot;

/// Graphs kept at most; hosts that decode with a growing context go through a few shapes at a time.
const CAPACITY: usize = 32;

/// ggml's word that two graphs are equal: its `uid`, with facts that a mix-up would change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uid {
    /// `ggml_cgraph::uid`, not zero.
    pub uid: u64,
    /// Number of nodes.
    pub nodes: usize,
    /// Address of the first node.
    pub first: usize,
}

/// 128 bits over everything that the compiled graph depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Structure([u64; 2]);

impl Structure {
    /// Of a snapshot. `buffer` gives the identity of a buffer by number; names of tensors do not count.
    pub fn of(snapshot: &Snapshot, buffer: impl Fn(usize) -> usize) -> Self {
        // Two kinds, which do not fail together; hosts ask for every node, several times a graph.
        let (mut sound, mut quick) = (FixedState::default().build_hasher(), FxHasher::default());
        let mut word = |word: u64| {
            sound.write_u64(word);
            quick.write_u64(word);
        };
        for tensor in &snapshot.tensors {
            let Geometry { type_id, ne, nb, nbytes } = tensor.geometry;
            word((tensor.op as u64) << 32 | u64::from(type_id as u32));
            tensor.params.chunks(2).for_each(|pair| word((pair[0] as u64) << 32 | u64::from(pair[1] as u32)));
            ne.iter().for_each(|&n| word(n as u64));
            nb.iter().chain([&nbytes, &tensor.root, &tensor.offset]).for_each(|&n| word(n as u64));
            // A source's slot is above any position and any address.
            let sources = tensor.sources.iter().enumerate().filter_map(|(slot, source)| Some((slot, (*source)?)));
            sources.for_each(|(slot, source)| word((slot as u64 + 1) << 48 | source as u64));
            let place = tensor.place.map(|place| [buffer(place.buffer), place.offset, place.lifetime as usize + 1]);
            place.unwrap_or_default().iter().for_each(|&n| word(n as u64));
        }
        snapshot.nodes.iter().for_each(|node| word((node.tensor as u64) << 1 | u64::from(node.kept)));
        Self([sound.finish(), quick.finish()])
    }
}

struct Entry<P> {
    uid: Option<Uid>,
    structure: Structure,
    plan: P,
}

/// Plans, the least recently used first.
pub struct PlanCache<P> {
    entries: Vec<Entry<P>>,
}

impl<P> Default for PlanCache<P> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<P> PlanCache<P> {
    /// The plan of the graph with this uid.
    pub fn by_uid(&mut self, uid: Uid) -> Option<&mut P> {
        self.touch(|entry| entry.uid == Some(uid)).map(|entry| &mut entry.plan)
    }

    /// The plan of this structure, which from now on has the uid too.
    pub fn by_structure(&mut self, structure: Structure, uid: Option<Uid>) -> Option<&mut P> {
        let entry = self.touch(|entry| entry.structure == structure)?;
        entry.uid = uid.or(entry.uid);
        Some(&mut entry.plan)
    }

    /// Adds a plan; the least recently used one goes if there are too many.
    pub fn insert(&mut self, structure: Structure, uid: Option<Uid>, plan: P) -> &mut P {
        if self.entries.len() >= CAPACITY {
            self.entries.remove(0);
        }
        self.entries.push(Entry { uid, structure, plan });
        let last = self.entries.len() - 1;
        &mut self.entries[last].plan
    }

    /// The plan found or added last, which no bound takes.
    pub fn newest(&mut self) -> Option<&mut P> {
        self.entries.last_mut().map(|entry| &mut entry.plan)
    }

    /// Drops all plans but the newest; false if there are no others.
    pub fn keep_newest(&mut self) -> bool {
        let others = self.entries.len().saturating_sub(1);
        self.entries.drain(..others);
        others > 0
    }

    /// Drops the least recently used plans until the others weigh at most `most` together.
    pub fn trim(&mut self, most: u64, weight: impl Fn(&P) -> u64) {
        let mut sum = 0_u64;
        let fits = |entry: &&Entry<P>| {
            sum = sum.saturating_add(weight(&entry.plan));
            sum <= most
        };
        let kept = self.entries.iter().rev().take_while(fits).count();
        self.entries.drain(..self.entries.len() - kept);
    }

    /// Drops the plans that fail a test.
    pub fn retain(&mut self, keep: impl Fn(&P) -> bool) {
        self.entries.retain(|entry| keep(&entry.plan));
    }

    fn touch(&mut self, wanted: impl Fn(&Entry<P>) -> bool) -> Option<&mut Entry<P>> {
        let found = self.entries.iter().position(wanted)?;
        let entry = self.entries.remove(found);
        self.entries.push(entry);
        self.entries.last_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(uid: u64) -> Uid {
        Uid { uid, nodes: 1, first: 16 }
    }

    fn structure(n: u64) -> Structure {
        Structure([n, !n])
    }

    #[test]
    fn plans_are_found_by_either_name() {
        let mut cache = PlanCache::default();
        cache.insert(structure(1), Some(uid(7)), "a");
        assert_eq!(cache.by_uid(uid(7)), Some(&mut "a"));
        assert_eq!(cache.by_uid(Uid { nodes: 2, ..uid(7) }), None);
        assert_eq!(cache.by_structure(structure(1), Some(uid(8))), Some(&mut "a"));
        assert!(cache.by_uid(uid(7)).is_none() && cache.by_uid(uid(8)).is_some());
        assert_eq!(cache.by_structure(structure(2), None), None);
    }

    #[test]
    fn the_least_recently_used_plan_goes() {
        let mut cache = PlanCache::default();
        for n in 0..CAPACITY as u64 {
            cache.insert(structure(n), None, n);
        }
        assert!(cache.by_structure(structure(0), None).is_some());
        cache.insert(structure(99), None, 99);
        assert!(cache.by_structure(structure(0), None).is_some());
        assert!(cache.by_structure(structure(1), None).is_none());
        cache.retain(|&plan| plan == 99);
        assert!(cache.by_structure(structure(0), None).is_none());
    }

    #[test]
    fn plans_go_by_weight_and_on_demand() {
        let mut cache = PlanCache::default();
        for n in [5, 4, 3, 2] {
            cache.insert(structure(n), None, n);
        }
        cache.trim(9, |&plan| plan);
        assert!(cache.by_structure(structure(5), None).is_none(), "2 + 3 + 4 is all that fits");
        assert!(cache.by_structure(structure(4), None).is_some());
        assert_eq!((cache.keep_newest(), cache.newest()), (true, Some(&mut 4)));
        assert!(!cache.keep_newest());
        cache.trim(3, |&plan| plan);
        assert_eq!(cache.newest(), None);
    }
}
