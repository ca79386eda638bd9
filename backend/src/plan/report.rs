//! What a plan says of itself: which transforms vanished, which became copies, and why.

use std::collections::BTreeMap;
use std::fmt;

use super::{Attention, Head, Peak};

/// Kind of a transform that the host wrote as a copy or a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransformKind {
    /// Same elements in the same order, other extents.
    Reshape,
    /// Axes in another order, axis 0 still innermost.
    Permute,
    /// Axis 0 no longer innermost: the reader's other reduction direction.
    Transpose,
    /// Part of the tensor.
    Slice,
    /// A host copy (CONT, CPY, DUP).
    Copy,
}

/// What became of a transform.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Absorbed as coordinates of the reader.
    Eliminated,
    /// Bytes were moved, for this reason.
    Explicit(String),
}

/// One transform.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Transform {
    /// Node that asked for it.
    pub node: String,
    /// Its kind.
    pub kind: TransformKind,
    /// Bytes it would move, or moves.
    pub bytes: u64,
    /// What became of it.
    pub verdict: Verdict,
}

/// The plan's account of itself.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Report {
    /// Attention that was replaced before the plan was made, and what was not.
    pub attention: Attention,
    /// The same of heads with their losses.
    pub head: Head,
    /// Every transform of the graph.
    pub transforms: Vec<Transform>,
    /// Dispatches of the plan.
    pub dispatches: usize,
    /// Barriers among them.
    pub barriers: usize,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// What fills the arena.
    pub peak: Peak,
    /// Results that took over the storage of an operand, and the bytes by which fewer are alive at the fullest step for it.
    pub in_place: usize,
    /// These bytes.
    pub in_place_bytes: u64,
    /// Sum of all compute storages.
    pub unaliased_bytes: u64,
    /// Bytes of results that outlive a run.
    pub kept_bytes: u64,
    /// Bytes of tensors that exist outside the plan.
    pub external_bytes: u64,
}

impl Report {
    /// Everything that lives at once: weights and state, results, the arena.
    pub fn total_bytes(&self) -> u64 {
        self.external_bytes + self.kept_bytes + self.arena_bytes
    }

    /// Bytes of the arena over those alive at the fullest step; 1 is the best there can be.
    pub fn fragmentation(&self) -> f64 {
        if self.peak.bytes == 0 { 1.0 } else { self.arena_bytes as f64 / self.peak.bytes as f64 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<TransformKind, (usize, usize)> = BTreeMap::new();
        let mut reasons: BTreeMap<(TransformKind, &str), (usize, u64)> = BTreeMap::new();
        for t in &self.transforms {
            let k = kinds.entry(t.kind).or_default();
            match &t.verdict {
                Verdict::Eliminated => k.0 += 1,
                Verdict::Explicit(why) => {
                    k.1 += 1;
                    let r = reasons.entry((t.kind, why)).or_default();
                    r.0 += 1;
                    r.1 = t.bytes.saturating_add(r.1);
                }
            }
        }
        let mib = |b: u64| b as f64 / f64::from(1 << 20);
        writeln!(f, "{} dispatches, {} barriers", self.dispatches, self.barriers)?;
        writeln!(
            f,
            "memory: weights and state {:.1} MiB, results {:.1} MiB, compute arena {:.1} MiB ({:.1} MiB without aliasing)",
            mib(self.external_bytes),
            mib(self.kept_bytes),
            mib(self.arena_bytes),
            mib(self.unaliased_bytes)
        )?;
        write!(f, "fullest at {}, {:.1} MiB alive:", self.peak.step, mib(self.peak.bytes))?;
        for (op, n, bytes) in &self.peak.parts {
            write!(f, " {n} x {op} {:.1}", mib(*bytes))?;
        }
        writeln!(f)?;
        let (taken, saved) = (self.in_place, mib(self.in_place_bytes));
        writeln!(
            f,
            "{taken} results in place, {saved:.1} MiB fewer alive; arena over alive {:.3}",
            self.fragmentation()
        )?;
        if self.attention != Attention::default() {
            writeln!(f, "{}", self.attention)?;
        }
        if self.head != Head::default() {
            writeln!(f, "{}", self.head)?;
        }
        for (kind, (gone, explicit)) in kinds {
            writeln!(f, "{kind:?}: {gone} became coordinates, {explicit} moved bytes")?;
        }
        for ((kind, why), (n, bytes)) in reasons {
            writeln!(f, "  {n} x {kind:?} moved {:.2} MiB: {why}", mib(bytes))?;
        }
        Ok(())
    }
}
