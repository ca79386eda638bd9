//! Aliasing of compute memory: slots whose lifetimes do not overlap share bytes of one arena per storage kind.

use std::collections::BTreeMap;

use crate::kernels::StorageKind;

use super::{Owner, Slot, Step};

/// What a storage takes on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Bytes.
    pub bytes: u64,
    /// What its offset in an arena must be a multiple of.
    pub alignment: u64,
}

/// Memory facts of a device.
pub trait Footprint {
    /// What a storage of `width x height` texels takes; the error says which limit it breaks.
    fn size(&self, kind: StorageKind, width: u32, height: u32) -> Result<Size, String>;

    /// Bytes of an arena's blocks; no storage crosses a multiple of it.
    fn block_bytes(&self) -> u64;
}

/// Gives every arena slot its offset; returns the arena sizes (buffer, image).
///
/// Largest first, each at the lowest offset that is free during its whole life: deterministic, and close to the
/// bytes alive at the worst step.
pub(super) fn assign(slots: &mut [Slot], sizes: &[Size], block: u64) -> (u64, u64) {
    let mut order: Vec<usize> = (0..slots.len()).filter(|&i| matches!(slots[i].owner, Owner::Arena { .. })).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(sizes[i].bytes), i));

    let mut placed: [Vec<Placed>; 2] = [Vec::new(), Vec::new()];
    let mut ends = [0u64; 2];
    for i in order {
        let arena = usize::from(slots[i].home.kind == StorageKind::Image);
        let live = slots[i].live;
        let offset = lowest_free(&placed[arena], live, sizes[i], block);
        let end = offset + sizes[i].bytes;
        let at = placed[arena].partition_point(|p| p.start <= offset);
        placed[arena].insert(at, Placed { start: offset, end, live });
        ends[arena] = ends[arena].max(end);
        slots[i].owner = Owner::Arena { offset };
    }
    (ends[0], ends[1])
}

/// What lives in the arenas at the step where most bytes do.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Peak {
    /// Label of that step.
    pub step: String,
    /// Bytes alive: no placement can do with less.
    pub bytes: u64,
    /// By the op that computes them, with count and bytes; the largest first.
    pub parts: Vec<(String, usize, u64)>,
}

/// Finds the fullest step.
pub(super) fn peak(slots: &[Slot], sizes: &[Size], steps: &[Step]) -> Peak {
    let in_arena = || slots.iter().zip(sizes).filter(|(s, _)| matches!(s.owner, Owner::Arena { .. }));
    let mut change = vec![0i128; steps.len() + 1];
    for (slot, size) in in_arena() {
        change[slot.live.0] += i128::from(size.bytes);
        change[slot.live.1 + 1] -= i128::from(size.bytes);
    }
    let alive = change.iter().scan(0, |sum, c| {
        *sum += c;
        Some(*sum)
    });
    let Some((at, _)) = alive.take(steps.len()).enumerate().max_by_key(|&(i, sum)| (sum, std::cmp::Reverse(i))) else {
        return Peak::default();
    };
    let mut parts: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (slot, size) in in_arena().filter(|(s, _)| s.live.0 <= at && at <= s.live.1) {
        let op = steps[slot.live.0].label.split(' ').next().unwrap_or_default();
        let part = parts.entry(op).or_default();
        part.0 += 1;
        part.1 += size.bytes;
    }
    let mut parts: Vec<_> = parts.into_iter().map(|(op, (n, bytes))| (op.to_owned(), n, bytes)).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.2));
    Peak { step: steps[at].label.clone(), bytes: parts.iter().map(|part| part.2).sum(), parts }
}

struct Placed {
    start: u64,
    end: u64,
    live: (usize, usize),
}

/// `placed` is sorted by start.
fn lowest_free(placed: &[Placed], live: (usize, usize), size: Size, block: u64) -> u64 {
    let within_block = |offset: u64| {
        let next = offset.next_multiple_of(block);
        if offset + size.bytes <= next || offset == next { offset } else { next }
    };
    let mut offset = 0;
    for p in placed {
        if p.live.1 < live.0 || live.1 < p.live.0 {
            continue;
        }
        if offset + size.bytes <= p.start {
            break;
        }
        offset = offset.max(within_block(p.end.next_multiple_of(size.alignment)));
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DType;
    use crate::layout::Layout;
    use crate::plan::Home;

    fn slot(texels: u32, live: (usize, usize)) -> Slot {
        let layout = Layout::rtile(&[4 * texels, 1, 1, 1], 4, 1, 1, u32::MAX, u32::MAX).unwrap();
        let home = Home { dtype: DType::F32, layout, kind: StorageKind::Buffer, width: texels, height: 1 };
        Slot { home, owner: Owner::Arena { offset: 0 }, live }
    }

    #[test]
    fn slots_alive_together_never_overlap_and_others_share() {
        let (alignment, block) = (64, 4096);
        // A deterministic pseudo-random mix of sizes and lives.
        let mut x = 12345u32;
        let mut next = |n: u32| {
            x = x.wrapping_mul(1664525).wrapping_add(1013904223);
            (x >> 16) % n
        };
        let mut slots: Vec<Slot> = (0..200)
            .map(|_| {
                let first = next(100) as usize;
                slot(1 + next(50), (first, first + next(10) as usize))
            })
            .collect();
        let size = |s: &Slot| Size { bytes: s.home.bytes().next_multiple_of(alignment), alignment };
        let sizes: Vec<Size> = slots.iter().map(size).collect();
        let (total, image) = assign(&mut slots, &sizes, block);
        assert_eq!(image, 0);
        let range = |s: &Slot| {
            let Owner::Arena { offset } = s.owner else { unreachable!() };
            (offset, offset + size(s).bytes)
        };
        for (i, a) in slots.iter().enumerate() {
            assert!(range(a).1 <= total && range(a).0 % alignment == 0);
            assert_eq!(range(a).0 / block, (range(a).1 - 1) / block);
            for b in &slots[i + 1..] {
                let together = a.live.0 <= b.live.1 && b.live.0 <= a.live.1;
                let overlap = range(a).0 < range(b).1 && range(b).0 < range(a).1;
                assert!(!(together && overlap), "{a:?} and {b:?}");
            }
        }
        let sum: u64 = slots.iter().map(|s| range(s).1 - range(s).0).sum();
        assert!(total < sum / 3, "{total} of {sum}");
    }
}
