//! Aliasing of compute memory: slots whose lifetimes do not overlap share bytes of one arena per storage kind.

use crate::kernels::StorageKind;

use super::{Owner, Slot};

/// Bytes and alignment that a storage of `width x height` texels takes on the device.
pub type Footprint<'a> = dyn Fn(StorageKind, u32, u32) -> (u64, u64) + 'a;

/// Gives every arena slot its offset; returns the arena sizes (buffer, image).
///
/// Largest first, each at the lowest offset that is free during its whole life: within a few percent of the
/// lifetime-overlap lower bound on training steps, and deterministic.
pub(super) fn assign(slots: &mut [Slot], footprint: &Footprint) -> (u64, u64) {
    let mut order: Vec<(usize, u64, u64)> = slots
        .iter()
        .enumerate()
        .filter(|(_, s)| matches!(s.owner, Owner::Arena { .. }))
        .map(|(i, s)| {
            let (bytes, align) = footprint(s.home.kind, s.home.width, s.home.height);
            (i, bytes, align)
        })
        .collect();
    order.sort_by_key(|&(i, bytes, _)| (std::cmp::Reverse(bytes), i));

    let mut placed: [Vec<Placed>; 2] = [Vec::new(), Vec::new()];
    let mut sizes = [0u64; 2];
    for (i, bytes, align) in order {
        let arena = usize::from(slots[i].home.kind == StorageKind::Image);
        let live = slots[i].live;
        let offset = lowest_free(&placed[arena], live, bytes, align);
        let end = offset + bytes;
        let at = placed[arena].partition_point(|p| p.start <= offset);
        placed[arena].insert(at, Placed { start: offset, end, live });
        sizes[arena] = sizes[arena].max(end);
        slots[i].owner = Owner::Arena { offset };
    }
    (sizes[0], sizes[1])
}

struct Placed {
    start: u64,
    end: u64,
    live: (usize, usize),
}

/// `placed` is sorted by start.
fn lowest_free(placed: &[Placed], live: (usize, usize), bytes: u64, align: u64) -> u64 {
    let mut offset = 0;
    for p in placed {
        if p.live.1 < live.0 || live.1 < p.live.0 {
            continue;
        }
        if offset + bytes <= p.start {
            break;
        }
        offset = offset.max(p.end.next_multiple_of(align));
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
        let align = 64;
        let foot = |_: StorageKind, w: u32, h: u32| ((u64::from(w * h) * 16).next_multiple_of(align), align);
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
        let (total, image) = assign(&mut slots, &foot);
        assert_eq!(image, 0);
        let range = |s: &Slot| {
            let Owner::Arena { offset } = s.owner else { unreachable!() };
            (offset, offset + foot(StorageKind::Buffer, s.home.width, 1).0)
        };
        for (i, a) in slots.iter().enumerate() {
            assert!(range(a).1 <= total && range(a).0 % align == 0);
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
