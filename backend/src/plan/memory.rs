//! Aliasing of compute memory: slots whose lifetimes do not overlap share bytes of one arena, which is a list of blocks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::kernels::StorageKind;

use super::order::whole_epochs;
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
    /// What a storage of `width x height` texels takes in an arena; the error says which limit it breaks.
    fn size(&self, kind: StorageKind, width: u32, height: u32) -> Result<Size, String>;

    /// Bytes that an arena's block may have.
    fn block_bytes(&self) -> u64;

    /// Bytes that such a storage takes when its memory is its own; the error says which limit it breaks.
    fn alone(&self, kind: StorageKind, width: u32, height: u32) -> Result<u64, String> {
        self.size(kind, width, height).map(|size| size.bytes)
    }

    /// Bytes that a block of an arena takes, of which `bytes` are used.
    fn block(&self, bytes: u64) -> Result<u64, String> {
        Ok(bytes)
    }
}

/// Gives every arena slot its offset; returns the bytes of the arena's blocks, none above `most`. Offsets count through the blocks,
/// and every slot lies within one. Slots that are touched in one epoch of steps share nothing.
///
/// Slots are placed one by one, each in the smallest gap that is free during its whole life, or where the arena grows least. The
/// outcome depends on the order, so several are tried until one is within a thousandth of the bytes alive at the fullest step, which
/// none can beat; the best is taken. Deterministic.
pub(super) fn assign(slots: &mut [Slot], sizes: &[Size], epochs: &[usize], most: u64) -> Vec<u64> {
    let in_arena = (0..slots.len()).filter(|&i| matches!(slots[i].owner, Owner::Arena { .. }));
    let live = |slot: usize| whole_epochs(slots[slot].live, epochs);
    let mut order: Vec<Wanted> = in_arena.map(|slot| Wanted { slot, size: sizes[slot], live: live(slot) }).collect();
    let least = alive(order.iter().map(|w| (w.live, w.size.bytes))).1;
    let mut best: Option<Packing> = None;
    for by in ORDERS {
        order.sort_unstable_by_key(|w| (by(w), w.slot));
        let limit = best.as_ref().map_or(u64::MAX, Packing::bytes);
        best = Packing::of(&order, most, limit).or(best);
        if best.as_ref().is_some_and(|best| best.bytes() <= least + least / 1000) {
            break;
        }
    }
    let Packing { blocks, places } = best.unwrap_or_default();
    let starts: Vec<u64> = blocks.iter().scan(0, |end, block| Some(std::mem::replace(end, *end + block))).collect();
    for (slot, block, offset) in places {
        slots[slot].owner = Owner::Arena { offset: starts[block] + offset };
    }
    blocks
}

/// What slots are placed by, the least first: large ones, those that are large for long, those that begin early.
const ORDERS: [fn(&Wanted) -> Reverse<u64>; 3] = [
    |w| Reverse(w.size.bytes),
    |w| Reverse(w.size.bytes.saturating_mul((w.live.1 - w.live.0 + 1) as u64)),
    |w| Reverse(u64::MAX - w.live.0 as u64),
];

/// A slot to be placed.
struct Wanted {
    slot: usize,
    size: Size,
    live: (usize, usize),
}

/// Blocks of an arena and what lies where.
#[derive(Default)]
struct Packing {
    /// Bytes of each block.
    blocks: Vec<u64>,
    /// Slot, block, offset in the block.
    places: Vec<(usize, usize, u64)>,
}

impl Packing {
    /// Places slots in an order; nothing once the arena is as large as `limit`.
    fn of(order: &[Wanted], most: u64, limit: u64) -> Option<Self> {
        let (mut packing, mut bytes) = (Self::default(), 0);
        let mut blocks: Vec<Block> = Vec::new();
        let mut taken = Vec::new();
        for wanted in order {
            let mut spot = |(number, block): (usize, &Block)| {
                block.taken(wanted.live, &mut taken);
                Some((spot(&taken, wanted.size, block.bytes, most)?, number))
            };
            let best = blocks.iter().enumerate().filter_map(&mut spot).min();
            let (Spot { offset, growth, .. }, block) = best.unwrap_or_else(|| {
                blocks.push(Block::default());
                (Spot { growth: wanted.size.bytes, gap: 0, offset: 0 }, blocks.len() - 1)
            });
            bytes += growth;
            if bytes >= limit {
                return None;
            }
            blocks[block].place(Placed { start: offset, end: offset + wanted.size.bytes, live: wanted.live });
            packing.places.push((wanted.slot, block, offset));
        }
        packing.blocks = blocks.into_iter().map(|block| block.bytes).collect();
        Some(packing)
    }

    fn bytes(&self) -> u64 {
        self.blocks.iter().sum()
    }
}

/// A storage that has its place in a block.
#[derive(Clone, Copy)]
struct Placed {
    start: u64,
    end: u64,
    live: (usize, usize),
}

/// Steps from one window of a level to the next. A window is twice as long, so that a life of no more steps lies within one.
const LEVELS: [usize; 3] = [32, 128, 512];

/// A block in the making. Lives are short as a rule, so what lies in a block is indexed by the steps at which it does.
#[derive(Default)]
struct Block {
    bytes: u64,
    /// What lies in it, by starts.
    all: Vec<Placed>,
    /// What lives in each window of each level, by starts.
    windows: [Vec<Vec<Placed>>; LEVELS.len()],
}

impl Block {
    fn place(&mut self, placed: Placed) {
        self.bytes = self.bytes.max(placed.end);
        let insert = |list: &mut Vec<Placed>| {
            let at = list.partition_point(|other| other.start <= placed.start);
            list.insert(at, placed);
        };
        insert(&mut self.all);
        for (windows, step) in self.windows.iter_mut().zip(LEVELS) {
            let (first, last) = ((placed.live.0 / step).saturating_sub(1), placed.live.1 / step);
            if windows.len() <= last {
                windows.resize_with(last + 1, Vec::new);
            }
            windows[first..=last].iter_mut().for_each(insert);
        }
    }

    /// The ranges that are taken at some step of a life, by their starts.
    fn taken(&self, live: (usize, usize), ranges: &mut Vec<(u64, u64)>) {
        let level = LEVELS.iter().position(|&step| live.1 - live.0 <= step);
        let list = match level {
            Some(level) => self.windows[level].get(live.0 / LEVELS[level]),
            None => Some(&self.all),
        };
        let meets = |placed: &&Placed| placed.live.0 <= live.1 && live.0 <= placed.live.1;
        ranges.clear();
        ranges.extend(list.into_iter().flatten().filter(meets).map(|p| (p.start, p.end)));
    }
}

/// A place for a storage, the better the less the block grows, then the less is left of the gap, then the lower.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    growth: u64,
    gap: u64,
    offset: u64,
}

/// The best place between taken ranges of a block of `end` bytes, which may grow to `most`.
fn spot(taken: &[(u64, u64)], Size { bytes, alignment }: Size, end: u64, most: u64) -> Option<Spot> {
    let mut best: Option<Spot> = None;
    let mut consider = |offset: u64, gap: u64, growth: u64| {
        let spot = Spot { growth, gap: gap - bytes, offset };
        best = Some(best.map_or(spot, |best| best.min(spot)));
    };
    let mut free = 0_u64;
    for &(start, end) in taken {
        // Few gaps are large enough to be worth a division.
        if free + bytes <= start {
            let offset = free.next_multiple_of(alignment);
            if offset + bytes <= start {
                consider(offset, start - offset, 0);
            }
        }
        free = free.max(end);
    }
    let offset = free.next_multiple_of(alignment);
    if offset + bytes <= end {
        consider(offset, end - offset, 0);
    } else if offset + bytes <= most {
        consider(offset, bytes, offset + bytes - end);
    }
    best
}

/// The step at which most bytes live, the first of them, and these bytes. Nothing lives at no step.
pub(super) fn alive(lives: impl Iterator<Item = ((usize, usize), u64)> + Clone) -> (usize, u64) {
    let steps = lives.clone().map(|((_, last), _)| last + 1).max().unwrap_or(0);
    let mut change = vec![0_i128; steps + 1];
    for ((first, last), bytes) in lives {
        change[first] += i128::from(bytes);
        change[last + 1] -= i128::from(bytes);
    }
    let sums = change.iter().scan(0_i128, |sum, change| {
        *sum += change;
        Some(*sum as u64)
    });
    sums.enumerate().max_by_key(|&(at, bytes)| (bytes, Reverse(at))).unwrap_or((0, 0))
}

/// What lives in the arena at the step where most bytes do.
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
    if steps.is_empty() {
        return Peak::default();
    }
    let (at, _) = alive(in_arena().map(|(slot, size)| (slot.live, size.bytes)));
    let mut parts: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
    for (slot, size) in in_arena().filter(|(s, _)| s.live.0 <= at && at <= s.live.1) {
        let op = steps[slot.live.0].label.split(' ').next().unwrap_or_default();
        let part = parts.entry(op).or_default();
        part.0 += 1;
        part.1 += size.bytes;
    }
    let mut parts: Vec<_> = parts.into_iter().map(|(op, (n, bytes))| (op.to_owned(), n, bytes)).collect();
    parts.sort_by_key(|part| Reverse(part.2));
    Peak { step: steps[at].label.clone(), bytes: parts.iter().map(|part| part.2).sum(), parts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DType;
    use crate::layout::Layout;
    use crate::plan::Home;

    const ALIGNMENT: u64 = 64;

    fn slot(texels: u32, live: (usize, usize)) -> Slot {
        let layout = Layout::rtile(&[4 * texels, 1, 1, 1], 4, 1, 1, u32::MAX, u32::MAX).unwrap();
        let home = Home { dtype: DType::F32, layout, kind: StorageKind::Buffer, width: texels, height: 1 };
        Slot { home: home.into(), owner: Owner::Arena { offset: 0 }, live }
    }

    fn sizes(slots: &[Slot]) -> Vec<Size> {
        let bytes = |slot: &Slot| slot.home.bytes().next_multiple_of(ALIGNMENT);
        slots.iter().map(|slot| Size { bytes: bytes(slot), alignment: ALIGNMENT }).collect()
    }

    fn least(slots: &[Slot]) -> u64 {
        alive(slots.iter().zip(sizes(slots)).map(|(slot, size)| (slot.live, size.bytes))).1
    }

    /// A deterministic sequence of pseudo-random numbers.
    struct Random(u32);

    impl Random {
        fn below(&mut self, n: u32) -> u32 {
            self.0 = self.0.wrapping_mul(1664525).wrapping_add(1013904223);
            (self.0 >> 16) % n
        }
    }

    /// Sizes and lives without any order.
    fn mixed(random: &mut Random, count: u32) -> Vec<Slot> {
        let mut one = || {
            let first = random.below(100) as usize;
            slot(1 + random.below(50), (first, first + random.below(10) as usize))
        };
        (0..count).map(|_| one()).collect()
    }

    /// As training has it: each layer keeps some results until its own backward pass, the others end at once.
    fn nested(random: &mut Random, layers: usize) -> Vec<Slot> {
        let widths = [4, 16, 16, 64, 7];
        let mut slots = Vec::new();
        for layer in 0..layers {
            for step in 0..10 {
                let (first, back) = (10 * layer + step, 10 * (2 * layers - layer) - step);
                let texels = widths[random.below(5) as usize];
                let kept = random.below(3) == 0;
                slots.push(slot(texels, (first, if kept { back } else { first + 1 + random.below(3) as usize })));
                slots.push(slot(widths[random.below(5) as usize], (back, back + 1 + random.below(3) as usize)));
            }
        }
        slots
    }

    /// Places slots and checks every rule; returns the bytes of the arena.
    fn placed(slots: &mut [Slot], most: u64) -> u64 {
        let sizes = sizes(slots);
        let blocks = assign(slots, &sizes, &[], most);
        assert!(blocks.iter().all(|&bytes| bytes <= most));
        let range = |i: usize| {
            let Owner::Arena { offset } = slots[i].owner else { unreachable!() };
            (offset, offset + sizes[i].bytes)
        };
        for (i, a) in slots.iter().enumerate() {
            let mut start = 0;
            let within = blocks.iter().any(|&bytes| {
                let fits = start <= range(i).0 && range(i).1 <= start + bytes && (range(i).0 - start) % ALIGNMENT == 0;
                start += bytes;
                fits
            });
            assert!(within, "{a:?} in {blocks:?}");
            for (j, b) in slots.iter().enumerate().skip(i + 1) {
                let together = a.live.0 <= b.live.1 && b.live.0 <= a.live.1;
                let overlap = range(i).0 < range(j).1 && range(j).0 < range(i).1;
                assert!(!(together && overlap), "{a:?} and {b:?}");
            }
        }
        blocks.iter().sum()
    }

    #[test]
    fn fragmentation_is_bounded() {
        let mut random = Random(12345);
        let mut worst = [0.0_f64; 2];
        for _ in 0..20 {
            for (worst, mut slots) in worst.iter_mut().zip([mixed(&mut random, 200), nested(&mut random, 12)]) {
                let (arena, least) = (placed(&mut slots, 1 << 20), least(&slots));
                *worst = worst.max(arena as f64 / least as f64);
            }
        }
        assert!(worst[0] <= 1.15 && worst[1] <= 1.05, "{worst:?}");
    }

    /// Three storages, two of which do not fit one block: no block is larger than what lies in it.
    #[test]
    fn blocks_are_as_large_as_need_be() {
        let mut slots: Vec<Slot> = [(60, (0, 2)), (60, (1, 2)), (60, (1, 3)), (30, (0, 0)), (40, (3, 3))]
            .map(|(n, live)| slot(n, live))
            .into();
        assert_eq!(placed(&mut slots, 100 * 16), least(&slots));
    }

    /// Some order of placing each slot at its lowest free offset is best of all: the order of offsets in a best placement. All
    /// orders of few slots are tried.
    #[test]
    fn few_slots_are_placed_nearly_as_well_as_they_can_be() {
        fn best(order: &mut Vec<usize>, left: &mut Vec<usize>, slots: &[Slot]) -> u64 {
            if left.is_empty() {
                let mut ends: Vec<(usize, u64, u64)> = Vec::new();
                for &i in order.iter() {
                    let bytes = sizes(&slots[i..=i])[0].bytes;
                    let meets = |j: usize| slots[i].live.0 <= slots[j].live.1 && slots[j].live.0 <= slots[i].live.1;
                    let mut others: Vec<_> =
                        ends.iter().filter(|&&(j, ..)| meets(j)).map(|&(_, s, e)| (s, e)).collect();
                    others.sort_unstable();
                    let start = others.iter().fold(0, |at, &(s, e)| if at + bytes <= s { at } else { at.max(e) });
                    ends.push((i, start, start + bytes));
                }
                return ends.iter().map(|&(.., end)| end).max().unwrap_or(0);
            }
            let mut least = u64::MAX;
            for at in 0..left.len() {
                let i = left.remove(at);
                order.push(i);
                least = least.min(best(order, left, slots));
                order.pop();
                left.insert(at, i);
            }
            least
        }
        let mut random = Random(7);
        let mut worst = 0.0_f64;
        for _ in 0..30 {
            let mut slots: Vec<Slot> = (0..6)
                .map(|_| {
                    let first = random.below(6) as usize;
                    slot(4 * (1 + random.below(6)), (first, first + random.below(4) as usize))
                })
                .collect();
            let optimum = best(&mut Vec::new(), &mut (0..slots.len()).collect(), &slots);
            worst = worst.max(placed(&mut slots, 1 << 20) as f64 / optimum as f64);
        }
        assert!(worst <= 1.2, "{worst}");
    }
}
