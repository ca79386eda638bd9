//! Barriers only where two accesses of the same bytes really conflict.

use std::ops::Range;

use crate::kernels::{Access, StorageKind};

use super::memory::Size;
use super::{Owner, Slot, Step};

/// Memory that accesses are compared in: the arena, or a slot's own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Region {
    Arena,
    Own(usize),
}

/// An access since the last barrier.
struct Pending {
    slot: usize,
    region: Region,
    range: Range<u64>,
    write: bool,
}

/// Sets `barrier` and `discard` of every step. A barrier orders everything before it, so only accesses since the last one count.
pub(super) fn place(steps: &mut [Step], slots: &[Slot], sizes: &[Size]) {
    let mut pending: Vec<Pending> = Vec::new();
    let mut met = vec![false; slots.len()];
    // Accesses from before the pieces of one op, which do not meet in the slots that they share.
    let mut before = 0;
    for step in steps {
        if !step.beside {
            before = pending.len();
        }
        let mut accesses = Vec::with_capacity(step.args.len());
        for (operand, &(slot, access)) in step.args.iter().enumerate() {
            let s = &slots[slot];
            let (region, range) = match s.owner {
                Owner::Arena { offset } => (Region::Arena, offset..offset + sizes[slot].bytes),
                Owner::External(_) | Owner::Kept(_) => (Region::Own(slot), 0..u64::MAX),
            };
            if !std::mem::replace(&mut met[slot], true)
                && s.home.kind == StorageKind::Image
                && matches!(s.owner, Owner::Arena { .. })
            {
                step.discard.push(operand);
            }
            accesses.push(Pending { slot, region, range, write: access != Access::Read });
        }
        step.barrier = accesses.iter().any(|a| {
            pending.iter().enumerate().any(|(at, p)| {
                let pieces = step.beside && at >= before && a.slot == p.slot;
                !pieces
                    && (a.write || p.write)
                    && a.region == p.region
                    && a.range.start < p.range.end
                    && p.range.start < a.range.end
            })
        });
        if step.barrier {
            pending.clear();
            before = 0;
        }
        // A slot is its bytes: the same access once more, as by the pieces of an op, conflicts with nothing new.
        for a in accesses {
            if !pending.iter().any(|p| p.slot == a.slot && p.write == a.write) {
                pending.push(a);
            }
        }
    }
}
