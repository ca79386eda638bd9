//! Which values are given up between two uses and computed again, one after the other, from the fullest position on.
//!
//! A value that is alive at the fullest position and not touched there can end at its last use before, if a second run of its node,
//! right before its next use, finds its operands. An operand is found where it is alive anyway; where another second run makes it
//! later, that run moves forward; a small one is kept for longer; any other is computed again in turn. The value chosen is the one whose
//! second runs cost least for the bytes that they free at the fullest position and the positions that these stay free for.

use super::schedule::{Basis, Lives, Schedule, Version};

/// Most second runs for the sake of one value.
const LONGEST: usize = 48;

/// An operand is kept for longer rather than computed again when it has at most this part of the bytes to be freed.
const SMALL: u64 = 4;

/// Values that are tried at a position before it is taken as final.
const TRIES: usize = 24;

/// Choices without a lower peak after which the search ends: several positions may be equally full.
const PATIENCE: usize = 128;

/// A version that ends before the position of the run `before`, which reads another one instead.
#[derive(Clone, Copy, Debug)]
struct Choice {
    version: Version,
    at: usize,
}

/// Choices in their order, and what is alive at the fullest position after each number of them.
pub(super) struct Path {
    choices: Vec<Choice>,
    /// Bytes, of none of the choices first; never longer than up to the lowest.
    pub peaks: Vec<u64>,
}

impl Path {
    /// Chooses until nothing more can be gained.
    pub fn new(basis: &Basis<'_>) -> Self {
        let mut schedule = Schedule::new(basis.graph);
        let mut lives = schedule.lives(basis);
        let (mut choices, mut peaks) = (Vec::new(), vec![lives.peak().1]);
        let mut lowest = 0;
        while choices.len() < lowest + PATIENCE {
            let Some((choice, next, after)) = step(basis, &schedule, &lives) else { break };
            (schedule, lives) = (next, after);
            choices.push(choice);
            peaks.push(lives.peak().1);
            if peaks.last() < peaks.get(lowest) {
                lowest = choices.len();
            }
        }
        choices.truncate(lowest);
        peaks.truncate(lowest + 1);
        Self { choices, peaks }
    }

    /// The schedule after the first `count` choices.
    pub fn schedule(&self, basis: &Basis<'_>, count: usize) -> Schedule {
        let mut schedule = Schedule::new(basis.graph);
        for &choice in &self.choices[..count] {
            let lives = schedule.lives(basis);
            let chain = Chain::of(basis, &schedule, &lives, choice, 0).expect("it was there when it was chosen");
            chain.apply(basis, &mut schedule, &lives);
        }
        schedule
    }
}

/// The best choice that leaves no position fuller than the fullest is now, with what it leads to.
fn step(basis: &Basis<'_>, schedule: &Schedule, lives: &Lives) -> Option<(Choice, Schedule, Lives)> {
    let (fullest, most) = lives.peak();
    let mut ranked: Vec<(f64, Choice)> = gaps(basis, schedule, lives, fullest)
        .filter_map(|(version, before, at)| {
            let choice = Choice { version, at };
            let chain = Chain::of(basis, schedule, lives, choice, fullest)?;
            let freed = basis.facts[schedule.origin(version)].bytes.checked_sub(chain.extended).filter(|&n| n > 0)?;
            Some((chain.cost / (freed as f64 * (at - before) as f64), choice))
        })
        .collect();
    ranked.sort_by(|(a, x), (b, y)| a.total_cmp(b).then(x.version.cmp(&y.version)));
    ranked.into_iter().take(TRIES).find_map(|(_, choice)| {
        let chain = Chain::of(basis, schedule, lives, choice, fullest)?;
        let mut next = schedule.clone();
        chain.apply(basis, &mut next, lives);
        let after = next.lives(basis);
        (after.peak().1 <= most && after.alive[fullest] < lives.alive[fullest]).then_some((choice, next, after))
    })
}

/// Versions that are alive at a position and not touched there, with the last position before and the first after that touches them.
fn gaps<'a>(
    basis: &'a Basis<'_>,
    schedule: &'a Schedule,
    lives: &'a Lives,
    fullest: usize,
) -> impl Iterator<Item = (Version, usize, usize)> + 'a {
    let mut before = vec![None; schedule.versions()];
    let mut after = vec![None; schedule.versions()];
    for (at, &run) in schedule.order().iter().enumerate() {
        for &version in schedule.inputs(basis, run).iter().chain([&schedule.run(run).output]) {
            let root = lives.root[version];
            if at <= fullest {
                before[root] = Some(at);
            } else {
                after[root].get_or_insert(at);
            }
        }
    }
    (0..schedule.versions()).filter_map(move |version| {
        let fact = &basis.facts[schedule.origin(version)];
        let (before, after) = (before[version]?, after[version]?);
        (fact.bytes > 0 && fact.repeatable && before < fullest).then_some((version, before, after))
    })
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
        if fact.inner {
            return self.again(version);
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
