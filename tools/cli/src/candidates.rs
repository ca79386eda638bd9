//! How many tiles each rule leaves of those that the tensors of a plan could have.

use std::collections::HashSet;

use fblayout::device::Profile;
use fblayout::graph::Desc;
use fblayout::plan::{Plan, candidates};
use serde::Serialize;

/// Sums over the different tensors of a plan.
#[derive(Default, Serialize)]
pub struct Tally {
    /// Tensors that differ in dtype, shape or storage.
    tensors: usize,
    /// Tiles of all of them.
    tiles: usize,
    c0: usize,
    c1: usize,
    c2: usize,
    c3: usize,
    /// Homes that are left to select from.
    homes: usize,
    /// Tensors too small for every rule at once.
    relaxed: usize,
}

impl Tally {
    pub fn of(plan: &Plan, profile: &Profile, pruning: bool) -> Result<Self, Box<dyn std::error::Error>> {
        let mut met = HashSet::new();
        let mut tally = Self::default();
        for home in plan.slots.iter().map(|slot| &slot.home) {
            let mut shape = [1; 4];
            shape.iter_mut().zip(&home.layout.axes).for_each(|(n, axis)| *n = axis.extent);
            let desc = Desc { dtype: home.dtype, shape };
            if !met.insert((desc, home.kind)) {
                continue;
            }
            let found = candidates(desc, home.kind, profile, pruning)?;
            tally.tensors += 1;
            tally.tiles += found.counts.all;
            tally.c0 += found.counts.c0;
            tally.c1 += found.counts.c1;
            tally.c2 += found.counts.c2;
            tally.c3 += found.counts.c3;
            tally.homes += found.homes.len();
            tally.relaxed += usize::from(found.relaxed);
        }
        Ok(tally)
    }

    /// Tiles that the rules leave, or C0 alone.
    pub fn left(&self, pruning: bool) -> usize {
        if pruning { self.c3 } else { self.c0 }
    }

    /// Homes that are left to select from.
    pub fn homes(&self) -> usize {
        self.homes
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tensors, tiles, c0, c1, c2, c3, homes, relaxed } = self;
        write!(
            f,
            "candidates of {tensors} tensors: {tiles} tiles, after C0 {c0}, C1 {c1}, C2 {c2}, C3 {c3}; {homes} homes"
        )?;
        if *relaxed > 0 { write!(f, " ({relaxed} tensors too small for every rule)") } else { Ok(()) }
    }
}
