//! What each kind of op costs in all, simulated.

use std::collections::BTreeMap;

use fblayout::device::Profile;
use fblayout::plan::{Plan, StepCost};
use serde::Serialize;

use super::tensors::first_word;
use crate::scale::round;
use crate::units;

/// All dispatches of a kind of op.
#[derive(Clone, Debug, Default)]
pub struct Kind {
    /// Name of the op.
    pub op: String,
    /// True for copies that a plan adds or cannot do without.
    pub conversion: bool,
    /// Dispatches.
    pub count: usize,
    /// Time, seconds.
    pub seconds: f64,
    /// Arithmetic operations.
    pub flops: u64,
    /// Bytes from and to memory.
    pub bytes: u64,
    /// Bytes through the shared cache.
    pub cache: u64,
    /// What decides most of the time, and how much of it.
    pub bound: String,
}

impl Kind {
    /// The op, and whether its operands are only moved.
    pub fn name(&self) -> String {
        if self.conversion { format!("{} (conversion)", self.op) } else { self.op.clone() }
    }
}

/// Dispatches by op, the longest time first.
pub fn kinds(plan: &Plan, costs: &[StepCost]) -> Vec<Kind> {
    let mut kinds: BTreeMap<(&str, bool), Kind> = BTreeMap::new();
    let mut bounds: BTreeMap<(&str, bool), BTreeMap<String, f64>> = BTreeMap::new();
    for (step, cost) in plan.steps.iter().zip(costs) {
        let key = (first_word(&step.label), step.conversion);
        let kind = kinds.entry(key).or_default();
        kind.count += 1;
        kind.seconds += cost.seconds;
        kind.flops += cost.flops;
        kind.bytes += cost.memory_bytes;
        kind.cache += cost.cache_bytes;
        *bounds.entry(key).or_default().entry(bound(cost)).or_default() += cost.seconds;
    }
    let finished = kinds.into_iter().map(|((op, conversion), kind)| {
        let most = bounds[&(op, conversion)].iter().max_by(|a, b| a.1.total_cmp(b.1));
        Kind { op: op.to_owned(), conversion, bound: most.map_or_else(String::new, |(name, _)| name.clone()), ..kind }
    });
    let mut kinds: Vec<Kind> = finished.collect();
    kinds.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    kinds
}

/// What decides a step's time, in words.
pub fn bound(cost: &StepCost) -> String {
    let name = format!("{:?}", cost.bound);
    if name == "SharedCache" { "shared cache".to_owned() } else { name.to_lowercase() }
}

/// A line of the table.
#[derive(Serialize)]
pub struct Line {
    number: usize,
    op: String,
    conversion: bool,
    count: usize,
    time: String,
    share: String,
    /// Percent of the longest time.
    bar: f64,
    flops: String,
    bytes: String,
    rate: String,
    /// Percent of the memory's rate.
    rate_bar: f64,
    bound: String,
}

/// The table of all kinds.
pub fn table(profile: &Profile, plan: &Plan, costs: &[StepCost]) -> Vec<Line> {
    let kinds = kinds(plan, costs);
    let total: f64 = kinds.iter().map(|k| k.seconds).sum();
    let longest = kinds.first().map_or(1.0, |k| k.seconds);
    let line = |(number, kind): (usize, Kind)| {
        let rate = kind.bytes as f64 / kind.seconds;
        Line {
            number,
            count: kind.count,
            time: units::seconds(kind.seconds),
            share: units::percent(kind.seconds / total),
            bar: round(100.0 * kind.seconds / longest),
            flops: if kind.flops == 0 {
                "\u{2013}".into()
            } else {
                units::decimal(kind.flops as f64 / kind.seconds, "FLOP/s")
            },
            bytes: units::bytes(kind.bytes),
            rate: units::decimal(rate, "B/s"),
            rate_bar: round((100.0 * rate / profile.memory_rate.mid).min(100.0)),
            bound: kind.bound,
            conversion: kind.conversion,
            op: kind.op,
        }
    };
    (1..).zip(kinds).map(line).collect()
}
