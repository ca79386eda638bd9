//! Which values are given up between two uses and computed again, one after the other, from the fullest position on.
//!
//! A value that is alive at the fullest position and not touched there can end at its last use before, if a second run of its node,
//! right before its next use, finds its operands. An operand is found where it is alive anyway; where another second run makes it
//! later, that run moves forward; a small one is kept for longer; any other is computed again in turn. The value chosen is the one whose
//! second runs cost least for the bytes that they free at the fullest position and the positions that these stay free for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::schedule::{Basis, Lives, Schedule, Version};

/// Most second runs for the sake of one value.
const LONGEST: usize = 48;

/// An operand is kept for longer rather than computed again when it has at most this part of the bytes to be freed.
const SMALL: u64 = 4;

/// Values that are tried at a position before it is taken as final.
const TRIES: usize = 24;

/// Choices without a lower peak after which the search ends: several positions may be equally full.
const PATIENCE: usize = 128;

/// A version that ends before the run at a position, which reads another one instead.
#[derive(Clone, Copy, Debug)]
struct Choice {
    version: Version,
    at: usize,
}

/// Choices in their order, until nothing more can be gained, and what is alive at the fullest position after each number of them.
pub(super) struct Path<'a> {
    basis: &'a Basis<'a>,
    choices: Vec<Choice>,
    peaks: Vec<u64>,
    /// Number of choices with the lowest peak, the first of them.
    lowest: usize,
    schedule: Schedule,
    lives: Lives,
    ranking: Ranking,
}

/// Candidates at a position, by a cost that was right when it was looked at: it seldom falls by other choices.
#[derive(Default)]
struct Ranking {
    /// The run at the position.
    run: Option<usize>,
    /// Bits of a cost, which is not negative, and a version; the least first.
    heap: BinaryHeap<Reverse<(u64, Version)>>,
}

impl<'a> Path<'a> {
    /// Makes every choice.
    pub fn new(basis: &'a Basis<'a>) -> Self {
        let schedule = Schedule::new(basis.graph);
        let lives = schedule.lives(basis);
        let peaks = vec![lives.peak().1];
        let (choices, ranking) = (Vec::new(), Ranking::default());
        let mut path = Self { basis, choices, peaks, lowest: 0, schedule, lives, ranking };
        while path.choices.len() < path.lowest + PATIENCE && path.choose() {
            if path.peaks.last() < path.peaks.get(path.lowest) {
                path.lowest = path.choices.len();
            }
        }
        path
    }

    /// What is chosen from.
    pub fn basis(&self) -> &'a Basis<'a> {
        self.basis
    }

    /// Number of choices with the lowest peak, the first of them.
    pub fn end(&self) -> usize {
        self.lowest
    }

    /// Numbers of choices, those with the lowest peaks first.
    pub fn by_peak(&self) -> Vec<usize> {
        let mut counts: Vec<usize> = (0..self.peaks.len()).collect();
        counts.sort_by_key(|&count| self.peaks[count]);
        counts
    }

    /// Bytes alive at the fullest position after some choices.
    pub fn peak(&self, count: usize) -> u64 {
        self.peaks[count]
    }

    /// The schedule after the first `count` choices.
    pub fn schedule(&self, count: usize) -> Schedule {
        let mut schedule = Schedule::new(self.basis.graph);
        for &choice in &self.choices[..count] {
            let lives = schedule.lives(self.basis);
            let chain = Chain::of(self.basis, &schedule, &lives, choice, 0).expect("it was there when it was chosen");
            chain.apply(self.basis, &mut schedule, &lives);
        }
        schedule
    }

    /// Makes the best choice that leaves no position fuller than the fullest is now; false if there is none.
    fn choose(&mut self) -> bool {
        let (fullest, most) = self.lives.peak();
        let run = self.schedule.order().get(fullest).copied();
        let fresh = self.ranking.run != run;
        let gaps = Gaps::around(self.basis, &self.schedule, &self.lives, fullest);
        if fresh {
            self.rank(&gaps, fullest, run);
        }
        let mut tries = 0;
        while tries < TRIES
            && let Some(Reverse((_, version))) = self.ranking.heap.pop()
        {
            let Some((choice, chain, cost)) = self.cost(&gaps, fullest, version) else { continue };
            if self.ranking.heap.peek().is_some_and(|&Reverse((next, _))| cost > next) {
                self.ranking.heap.push(Reverse((cost, version)));
                continue;
            }
            tries += 1;
            let mut schedule = self.schedule.clone();
            chain.apply(self.basis, &mut schedule, &self.lives);
            let lives = schedule.lives(self.basis);
            if lives.peak().1 <= most && lives.alive[fullest] < self.lives.alive[fullest] {
                (self.schedule, self.lives) = (schedule, lives);
                self.choices.push(choice);
                self.peaks.push(self.lives.peak().1);
                return true;
            }
        }
        // What was refused before may have become possible.
        self.ranking.run = None;
        !fresh && self.choose()
    }

    /// Ranks every candidate at a position anew.
    fn rank(&mut self, gaps: &Gaps, fullest: usize, run: Option<usize>) {
        let versions = 0..self.schedule.versions();
        let ranked = versions.filter_map(|v| Some(Reverse((self.cost(gaps, fullest, v)?.2, v))));
        self.ranking = Ranking { run, heap: ranked.collect() };
    }

    /// What giving up a version costs: bits of the cost for each byte and position.
    fn cost(&self, gaps: &Gaps, fullest: usize, version: Version) -> Option<(Choice, Chain, u64)> {
        let (before, at) = gaps.of(version)?;
        let fact = &self.basis.facts[self.schedule.origin(version)];
        if fact.bytes == 0 || !fact.repeatable || before >= fullest {
            return None;
        }
        let choice = Choice { version, at };
        let chain = Chain::of(self.basis, &self.schedule, &self.lives, choice, fullest)?;
        let freed = fact.bytes.checked_sub(chain.extended).filter(|&bytes| bytes > 0)?;
        let cost = chain.cost / (freed as f64 * (at - before) as f64);
        Some((choice, chain, cost.to_bits()))
    }
}

/// For each version, the last position up to a given one that touches its storage, and the first after it.
struct Gaps {
    before: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
}

impl Gaps {
    fn around(basis: &Basis<'_>, schedule: &Schedule, lives: &Lives, middle: usize) -> Self {
        let none = vec![None; schedule.versions()];
        let mut gaps = Self { before: none.clone(), after: none };
        for (at, &run) in schedule.order().iter().enumerate() {
            for &version in schedule.inputs(basis, run).iter().chain([&schedule.run(run).output]) {
                let root = lives.root[version];
                if at <= middle {
                    gaps.before[root] = Some(at);
                } else {
                    gaps.after[root].get_or_insert(at);
                }
            }
        }
        gaps
    }

    fn of(&self, version: Version) -> Option<(usize, usize)> {
        self.before[version].zip(self.after[version])
    }
}

/// A run that makes an operand available.
enum Action {
    /// A second run.
    Again { run: usize, inputs: Vec<Version> },
    /// A second run that is there, further behind.
    Earlier { run: usize, inputs: Vec<Version> },
}

/// The runs that a choice needs, in order.
struct Chain {
    choice: Choice,
    actions: Vec<Action>,
    cost: f64,
    /// Bytes at the fullest position of what is kept for longer.
    extended: u64,
}

/// A chain in the making.
struct Finder<'a> {
    basis: &'a Basis<'a>,
    schedule: &'a Schedule,
    lives: &'a Lives,
    fullest: usize,
    /// Where the values that were looked for are found.
    found: Vec<(usize, Version)>,
    /// Number of the next version.
    next: Version,
    chain: Chain,
}

impl Finder<'_> {
    /// Another run of the node of a version.
    fn again(&mut self, version: Version) -> Option<Version> {
        if self.chain.actions.len() >= LONGEST {
            return None;
        }
        let run = self.lives.run[version]?;
        let inputs = self.inputs(run, self.lives.begin[version]?)?;
        let value = self.schedule.origin(version);
        self.chain.cost += self.basis.facts[value].cost;
        self.chain.actions.push(Action::Again { run, inputs });
        self.found.push((value, self.next));
        self.next += 1;
        Some(self.next - 1)
    }

    /// The operands of a run at position `read`, as they are found at the choice's.
    fn inputs(&mut self, run: usize, read: usize) -> Option<Vec<Version>> {
        let (schedule, basis) = (self.schedule, self.basis);
        schedule.inputs(basis, run).iter().map(|&input| self.find(input, read)).collect()
    }

    /// What a run at position `read` found in `version`, as it is found at the choice's position.
    fn find(&mut self, version: Version, read: usize) -> Option<Version> {
        let Self { basis, schedule, lives, chain: Chain { choice: Choice { at, .. }, .. }, .. } = *self;
        let value = schedule.origin(version);
        if let Some(&(_, found)) = self.found.iter().find(|&&(other, _)| other == value) {
            return Some(found);
        }
        let fact = &basis.facts[value];
        if fact.external {
            let changed = lives.updated[value].is_some_and(|updated| read < updated && updated < at);
            return (!changed).then_some(version);
        }
        let begins = |version: Version| lives.begin[version].unwrap_or(usize::MAX);
        let last = |version: Version| match lives.root[version] {
            root if basis.facts[schedule.origin(root)].lasting => usize::MAX,
            root => lives.last[root],
        };
        let mut versions = schedule.versions_of(value);
        if let Some(alive) = versions.find(|&version| begins(version) < at && last(version) >= at) {
            return Some(alive);
        }
        let later = schedule.versions_of(value).filter(|&version| begins(version) >= at).min_by_key(|&v| begins(v));
        if let Some(later) = later {
            let run = lives.run[later]?;
            let inputs = self.inputs(run, begins(later))?;
            self.chain.actions.push(Action::Earlier { run, inputs });
            self.found.push((value, later));
            return Some(later);
        }
        let latest = schedule.versions_of(value).max_by_key(|&version| last(version))?;
        let freed = basis.facts[schedule.origin(self.chain.choice.version)].bytes;
        if !fact.view && fact.bytes <= freed / SMALL {
            self.chain.extended += if last(latest) < self.fullest { fact.bytes } else { 0 };
            self.found.push((value, latest));
            return Some(latest);
        }
        self.again(latest)
    }
}

impl Chain {
    /// `None` where something cannot be had any more.
    fn of(basis: &Basis<'_>, schedule: &Schedule, lives: &Lives, choice: Choice, fullest: usize) -> Option<Self> {
        let chain = Self { choice, actions: Vec::new(), cost: 0.0, extended: 0 };
        let next = schedule.versions();
        let mut finder = Finder { basis, schedule, lives, fullest, found: Vec::new(), next, chain };
        finder.again(choice.version)?;
        Some(finder.chain)
    }

    /// Makes the choice.
    fn apply(self, basis: &Basis<'_>, schedule: &mut Schedule, lives: &Lives) {
        let Choice { version, at } = self.choice;
        let mut runs = Vec::with_capacity(self.actions.len());
        let mut new = version;
        for action in &self.actions {
            match action {
                Action::Again { run, inputs } => {
                    let (run, made) = schedule.add(*run, inputs);
                    runs.push(run);
                    new = made;
                }
                Action::Earlier { run, inputs } => {
                    schedule.rewire(*run, inputs);
                    runs.push(*run);
                }
            }
        }

        // Whoever reads a view of the version from here on reads the same view of the new one.
        let mut instead = vec![(version, new)];
        for view in wanted_views(basis, schedule, lives, self.choice) {
            let Some(run) = lives.run[view] else { continue };
            let source = schedule.inputs(basis, run)[0];
            let Some(&(_, source)) = instead.iter().find(|&&(old, _)| old == source) else { continue };
            let (run, made) = schedule.add(run, &[source]);
            runs.push(run);
            instead.push((view, made));
        }
        schedule.insert(at, &runs);
        for (old, new) in instead {
            schedule.replace(basis, at + runs.len(), old, new);
        }
    }
}

/// Views of a choice's version from before its position that are read from there on, each after the view it looks through.
fn wanted_views(basis: &Basis<'_>, schedule: &Schedule, lives: &Lives, choice: Choice) -> Vec<Version> {
    let Choice { version, at } = choice;
    let is_view = |view: Version| view != version && lives.root.get(view) == Some(&version);
    let mut read = vec![false; schedule.versions()];
    for &run in &schedule.order()[at..] {
        schedule.inputs(basis, run).iter().for_each(|&input| read[input] = true);
    }
    let mut wanted = Vec::new();
    for &run in schedule.order()[..at].iter().rev() {
        let output = schedule.run(run).output;
        if is_view(output) && read[output] {
            schedule.inputs(basis, run).iter().for_each(|&input| read[input] = true);
            wanted.push(output);
        }
    }
    wanted.reverse();
    wanted
}
