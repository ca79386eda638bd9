//! One case of every op, by kind of kernel: for drivers and machines beside those that `tests/ops.rs` runs on, and for drivers that
//! are too slow for it (`docs/conformance.md`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fblayout::plan::supports;

use crate::{Case, Failure, FusedCase, VulkanDevice, cases, check};

/// Fused cases that are left out between two that run.
const FUSED_STEP: usize = 12;

/// What a run of a group of cases gave.
#[derive(Clone, Debug)]
pub struct Group {
    /// Kind of kernel, or what the cases are about.
    pub name: String,
    /// Cases that the device took.
    pub run: usize,
    /// Cases that its limits refuse.
    pub refused: usize,
    /// Names of the cases that failed, with what was wrong.
    pub failures: Vec<String>,
    /// How long it took.
    pub time: Duration,
}

impl Group {
    fn of<T>(name: String, refused: usize, cases: &[T], check: impl Fn(&T) -> Result<(), Failure>) -> Self {
        let start = Instant::now();
        let failures = cases.iter().filter_map(|c| Some(format!("{name} {}", check(c).err()?))).collect();
        Self { run: cases.len(), refused, failures, time: start.elapsed(), name }
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, run, refused, failures, time } = self;
        write!(f, "{name}: {} of {run} pass, {refused} refused, {time:.1?}", run - failures.len())
    }
}

/// Runs the cases of the sample that are wanted, asked by the name of group and case; `told` hears of each group that has any.
pub fn sample(device: &VulkanDevice, mut wanted: impl FnMut(&str) -> bool, mut told: impl FnMut(&Group)) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut done = |group: Group| {
        if group.run + group.refused > 0 {
            told(&group);
            groups.push(group);
        }
    };
    let families = cases::families().map(|family| (format!("{family:?}"), cases::of(family)));
    let types = [("Stored".to_owned(), cases::stored()), ("Encoded".to_owned(), cases::encoded())];
    for (name, cases) in families.chain(types) {
        let (cases, refused): (Vec<Case>, Vec<Case>) = one_of_each_op(cases)
            .into_iter()
            .filter(|case| wanted(&format!("{name} {}", case.name)))
            .partition(|case| supports(&case.graph, device.engine().limits(), device.options()).is_ok());
        done(Group::of(name, refused.len(), &cases, |case| check(device, case)));
    }
    let fused = cases::fused().into_iter().step_by(FUSED_STEP);
    let fused: Vec<FusedCase> = fused.filter(|case| wanted(&format!("Fused {}", case.name))).collect();
    done(Group::of("Fused".to_owned(), 0, &fused, |case| case.check(device)));
    groups
}

/// Of the cases of each op the one in the middle, since the outer ones are the smallest and the odd ones.
fn one_of_each_op(cases: Vec<Case>) -> Vec<Case> {
    let mut ops: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
    for case in cases {
        ops.entry(case.node().op.row().name).or_default().push(case);
    }
    ops.into_values().map(|mut cases| cases.swap_remove(cases.len() / 2)).collect()
}
