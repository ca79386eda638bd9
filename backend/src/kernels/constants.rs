//! Specialization constants of a dispatch, shared by all dispatches that have the same.

use std::hash::{BuildHasher, Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

/// Pairs (id, bits), sorted by id. Clones share them, and a hash does not read them again: a plan has thousands of dispatches of a
/// few hundred kinds, with more than a hundred constants each.
#[derive(Clone)]
pub struct Constants {
    pairs: Arc<[(u32, u32)]>,
    fingerprint: u64,
}

impl From<Vec<(u32, u32)>> for Constants {
    fn from(mut pairs: Vec<(u32, u32)>) -> Self {
        // Operands come first and in order: a stable sort only merges the few others in.
        pairs.sort();
        let fingerprint = FxBuildHasher.hash_one(&pairs);
        Self { pairs: pairs.into(), fingerprint }
    }
}

impl Deref for Constants {
    type Target = [(u32, u32)];

    fn deref(&self) -> &Self::Target {
        &self.pairs
    }
}

impl PartialEq for Constants {
    fn eq(&self, other: &Self) -> bool {
        let same = Arc::ptr_eq(&self.pairs, &other.pairs);
        same || (self.fingerprint == other.fingerprint && self.pairs == other.pairs)
    }
}

impl Eq for Constants {}

impl Hash for Constants {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.fingerprint);
    }
}

impl std::fmt::Debug for Constants {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pairs.fmt(f)
    }
}
