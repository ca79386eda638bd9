//! The order of dispatches: those that need not wait for each other stand side by side, with one barrier before all of them.
//!
//! List scheduling by *epochs*, the steps from one barrier to the next. An epoch takes every step whose operands earlier ones have made,
//! in the order of the graph; what does not depend on each other (projections of one input, the gradients of a LoRA pair, updates of
//! weights, sums of parts) thus shares the device. Memory bounds it: a step comes before its turn only if its results, kept until then,
//! make no place of the given order need more than its fullest place does. And one that could take over a large storage which ends with it
//! waits until nobody else reads that: side by side with another reader, both storages would be needed.

use std::collections::BTreeSet;

use crate::kernels::Access;

use super::memory::Size;
use super::{Owner, Slot, Step, in_place};

/// Places that a step whose results take memory may come before its turn: so far looks the search for what else can run.
const AHEAD: usize = 256;

/// What part of all memory a storage has at least for its heir to wait: a hundredth of the memory is worth a barrier.
const LARGE: u64 = 128;

/// Puts steps in order; the epoch of each, ascending from 0. Slots need no lifetimes yet. `in_place` tells whether results will take over
/// the storage of operands.
pub(super) fn arrange(steps: &mut Vec<Step>, slots: &[Slot], sizes: &[Size], in_place: bool) -> Vec<usize> {
    let runs = runs(steps);
    let mut scheduler = Scheduler::new(steps, &runs, slots, sizes);
    if in_place {
        scheduler.inherit(steps, &runs, slots);
    }
    let (order, epochs) = scheduler.schedule();
    let mut taken: Vec<Option<Step>> = std::mem::take(steps).into_iter().map(Some).collect();
    let mut numbers = Vec::with_capacity(taken.len());
    for (run, epoch) in order.into_iter().zip(epochs) {
        let (first, end) = runs[run];
        steps.extend(taken[first..end].iter_mut().filter_map(Option::take));
        numbers.resize(steps.len(), epoch);
    }
    numbers
}

/// Lifetimes as memory has to see them: what one step of an epoch touches may be touched while any other of them runs.
pub(super) fn whole_epochs(live: (usize, usize), epochs: &[usize]) -> (usize, usize) {
    let (Some(first), Some(last)) = (epochs.get(live.0), epochs.get(live.1)) else { return live };
    (epochs.partition_point(|epoch| epoch < first), epochs.partition_point(|epoch| epoch <= last) - 1)
}

/// First step and end of everything that stays together: a step, or the pieces of an op.
fn runs(steps: &[Step]) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::with_capacity(steps.len());
    for (at, step) in steps.iter().enumerate() {
        match runs.last_mut() {
            Some((_, end)) if step.beside => *end = at + 1,
            _ => runs.push((at, at + 1)),
        }
    }
    runs
}

/// Runs by their numbers in the given order.
struct Scheduler {
    /// Runs that have to wait for each.
    after: Vec<Vec<usize>>,
    /// For how many others each still waits.
    waits_for: Vec<usize>,
    /// Arena slots that each touches.
    touches: Vec<Vec<usize>>,
    /// Bytes of the results that each begins.
    begins: Vec<u64>,
    /// For each slot, its bytes, the runs that have yet to touch it, and the last of them in the given order.
    slots: Vec<(u64, usize, usize)>,
    /// Bytes alive at each place of the given order, as it is changed by what was moved.
    alive: Vec<u64>,
    /// For each run, a large slot that ends with it in the given order, and that one which it begins will take over.
    inherits: Vec<Option<usize>>,
}

impl Scheduler {
    fn new(steps: &[Step], runs: &[(usize, usize)], slots: &[Slot], sizes: &[Size]) -> Self {
        let mut scheduler = Self {
            after: vec![Vec::new(); runs.len()],
            waits_for: vec![0; runs.len()],
            touches: vec![Vec::new(); runs.len()],
            begins: vec![0; runs.len()],
            slots: vec![(0, 0, 0); slots.len()],
            alive: vec![0; runs.len()],
            inherits: vec![None; runs.len()],
        };
        let mut history: Vec<History> = vec![History::default(); slots.len()];
        let mut first = vec![None; slots.len()];
        for (run, &(start, end)) in runs.iter().enumerate() {
            let args = || steps[start..end].iter().flat_map(|step| &step.args).copied();
            let mut before = Vec::new();
            for (slot, access) in args() {
                history[slot].meet(run, access, &mut before);
            }
            before.sort_unstable();
            before.dedup();
            scheduler.waits_for[run] = before.len();
            before.into_iter().for_each(|other| scheduler.after[other].push(run));
            let touched = &mut scheduler.touches[run];
            touched
                .extend(args().map(|(slot, _)| slot).filter(|&slot| matches!(slots[slot].owner, Owner::Arena { .. })));
            touched.sort_unstable();
            touched.dedup();
            for &slot in touched.iter() {
                let bytes = sizes[slot].bytes;
                if first[slot].is_none() {
                    first[slot] = Some(run);
                    scheduler.begins[run] += bytes;
                }
                scheduler.slots[slot] = (bytes, scheduler.slots[slot].1 + 1, run);
            }
        }
        for (&(bytes, _, last), first) in scheduler.slots.iter().zip(first) {
            let Some(first) = first else { continue };
            scheduler.alive[first..=last].iter_mut().for_each(|alive| *alive += bytes);
        }
        scheduler
    }

    /// Finds large slots that others will take over: they are not alive beside those.
    fn inherit(&mut self, steps: &[Step], runs: &[(usize, usize)], slots: &[Slot]) {
        let least = self.most() / LARGE;
        let mut begun: Vec<bool> = vec![false; slots.len()];
        for (run, &(start, end)) in runs.iter().enumerate() {
            let (step, touched) = (&steps[start], &self.touches[run]);
            if end == start + 1 && touched.iter().any(|&slot| self.slots[slot].0 >= least) {
                let takes = |&(operand, output): &(usize, usize)| {
                    let (bytes, _, last) = self.slots[operand];
                    bytes >= least && last == run && begun[operand] && !begun[output]
                };
                self.inherits[run] = in_place::pairs(step, slots).find(takes).map(|(operand, _)| operand);
            }
            touched.iter().for_each(|&slot| begun[slot] = true);
            if let Some(operand) = self.inherits[run] {
                let (bytes, _, last) = &mut self.slots[operand];
                self.alive[run] -= *bytes;
                *last -= 1;
            }
        }
    }

    /// Bytes alive at the fullest place.
    fn most(&self) -> u64 {
        self.alive.iter().copied().max().unwrap_or(0)
    }

    /// Whether others have yet to read a slot that a run could take over.
    fn awaits_readers(&self, run: usize) -> bool {
        self.inherits[run].is_some_and(|slot| self.slots[slot].1 > 1)
    }

    /// The runs in their new order, with the epoch of each.
    fn schedule(mut self) -> (Vec<usize>, Vec<usize>) {
        let count = self.after.len();
        let most = self.most();
        let (mut order, mut epochs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let (mut ready, mut light): (BTreeSet<usize>, BTreeSet<usize>) = (BTreeSet::new(), BTreeSet::new());
        let free = |begins: &[u64], run: usize| begins[run] == 0;
        for run in (0..count).filter(|&run| self.waits_for[run] == 0) {
            if free(&self.begins, run) {
                light.insert(run)
            } else {
                ready.insert(run)
            };
        }
        let mut done = vec![false; count];
        let (mut turn, mut epoch) = (0_usize, 0);
        while order.len() < count {
            // Whose turn it is waits for nothing: all before it are done, and so are all other readers of what ends with it.
            let begin = order.len();
            let window = || turn..turn.saturating_add(AHEAD).min(count);
            let mut taken: Vec<usize> = std::mem::take(&mut light).into_iter().collect();
            for run in ready.range(window()).copied().collect::<Vec<_>>() {
                if !self.awaits_readers(run) && self.come_forward(turn, run, most) {
                    ready.remove(&run);
                    taken.push(run);
                }
            }
            taken.sort_unstable();
            order.extend(taken);
            epochs.resize(order.len(), epoch);
            epoch += 1;
            for &run in &order[begin..] {
                done[run] = true;
                self.end(turn, run);
            }
            for &run in &order[begin..] {
                for next in std::mem::take(&mut self.after[run]) {
                    self.waits_for[next] -= 1;
                    if self.waits_for[next] == 0 {
                        if free(&self.begins, next) {
                            light.insert(next)
                        } else {
                            ready.insert(next)
                        };
                    }
                }
            }
            turn += done[turn..].iter().take_while(|done| **done).count();
        }
        (order, epochs)
    }

    /// Lets a run come at a place before its own, if memory allows.
    fn come_forward(&mut self, to: usize, run: usize, most: u64) -> bool {
        let bytes = self.begins[run];
        let inherited = self.inherits[run].map_or(0, |slot| self.slots[slot].0);
        let between = &mut self.alive[to..run];
        let fits = between.iter().all(|&alive| alive + bytes - inherited <= most);
        if fits {
            between.iter_mut().for_each(|alive| *alive += bytes);
            // What it takes over ends there, and is no second storage.
            between.iter_mut().take(1).for_each(|alive| *alive -= inherited);
        }
        fits
    }

    /// What a run was the last to touch ends with it, and not where the given order had its last one.
    fn end(&mut self, at: usize, run: usize) {
        for slot in std::mem::take(&mut self.touches[run]) {
            let (bytes, left, last) = &mut self.slots[slot];
            *left -= 1;
            if *left == 0 && at < *last {
                self.alive[at + 1..=*last].iter_mut().for_each(|alive| *alive -= *bytes);
            }
        }
    }
}

/// Who touched a slot last.
#[derive(Clone, Default)]
struct History {
    writer: Option<usize>,
    /// Those that read what it wrote.
    readers: Vec<usize>,
}

impl History {
    /// A run's access; those that it has to wait for.
    fn meet(&mut self, run: usize, access: Access, before: &mut Vec<usize>) {
        before.extend(self.writer.filter(|&writer| writer != run));
        if access == Access::Read {
            if self.readers.last() != Some(&run) {
                self.readers.push(run);
            }
            return;
        }
        before.extend(self.readers.drain(..).filter(|&reader| reader != run));
        self.writer = Some(run);
    }
}
