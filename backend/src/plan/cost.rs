//! What a plan would cost a machine that is known by its profile alone. Every number is *simulated*: caches are counted on the
//! first loads of one subgroup, and a step takes as long as its slowest resource.
//!
//! For a dispatch, `time = max(arithmetic, loads, shared cache, memory) + launch + barrier`:
//!
//! * arithmetic: operations of the node and of the addresses of its operands, over the share of the machine that its invocations fill;
//! * loads: texels from images at the rate of texels, lines under the loads of a buffer (`N_inst`) at the rate of buffers;
//! * shared cache: bytes that the workgroups ask for, over the efficiency `E` with which lines are used while they stay in
//!   the first-level cache;
//! * memory: every byte once, and again for each sweep over what does not stay in half of the shared cache.

use std::fmt;

use rustc_hash::FxHashMap;

use crate::device::{Case, Profile};
use crate::graph::{self, Form, Graph};
use crate::kernels::{self, Access, Addressing, Constants, StorageKind, Traffic};
use crate::layout::{Coverage, LineShape, Loads, Ops};

use super::{Plan, Step, TEXEL_BYTES};

/// The resource that decides how long a step takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// Operations.
    Arithmetic,
    /// Loads and stores of invocations.
    Loads,
    /// Bytes from the cache that all cores share.
    SharedCache,
    /// Bytes from and to memory.
    Memory,
    /// Launch and barrier.
    Launch,
}

/// What one step costs, simulated.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct StepCost {
    /// The node that it works for.
    pub node: usize,
    /// True when it only moves bytes.
    pub conversion: bool,
    /// Floating point operations.
    pub flops: u64,
    /// Texels that invocations load and store.
    pub requests: u64,
    /// Bytes between the shared cache and the first-level caches.
    pub cache_bytes: u64,
    /// Bytes from and to memory.
    pub memory_bytes: u64,
    /// Wanted part of `cache_bytes`: `E` of the paper.
    pub efficiency: f64,
    /// Time.
    pub seconds: f64,
    /// Seconds of arithmetic, loads, shared cache and memory, each by itself: the longest decides. Operands add up in each.
    pub times: [f64; 4],
    /// What decides it.
    pub bound: Bound,
}

/// What choices are compared by. Less is better in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Objective {
    /// Seconds of all steps: bytes over efficiency, a harmonic mean, as time adds up.
    #[default]
    #[serde(rename = "time")]
    TimeHarmonic,
    /// What the paper maximises, the mean efficiency weighted by operations, taken from 1. It may prefer a layout that serves one
    /// direction alone, and sees neither launches nor steps without operations.
    #[serde(rename = "paper")]
    PaperArithmetic,
}

impl Objective {
    /// All of them, by the names they parse from.
    pub const ALL: [(&'static str, Self); 2] = [("time", Self::TimeHarmonic), ("paper", Self::PaperArithmetic)];

    /// What [`Objective::cost`] is counted in.
    pub fn unit(self) -> &'static str {
        match self {
            Self::TimeHarmonic => "seconds",
            Self::PaperArithmetic => "1 - mean efficiency",
        }
    }

    /// The cost of these steps: their parts over what they are shares of.
    pub fn cost(self, steps: &[StepCost]) -> f64 {
        let whole = self.whole(steps.iter().map(|s| s.flops));
        // An empty sum of floats is -0.
        0.0 + steps.iter().map(|s| self.part(s)).sum::<f64>() / whole
    }

    /// What a step adds to the cost of a graph, times [`Objective::whole`].
    pub(super) fn part(self, step: &StepCost) -> f64 {
        match self {
            Self::TimeHarmonic => step.seconds,
            Self::PaperArithmetic => step.flops as f64 * (1.0 - step.efficiency),
        }
    }

    /// What parts are shares of, from the operations of all steps or nodes: no layout changes it.
    pub(super) fn whole(self, flops: impl Iterator<Item = u64>) -> f64 {
        match self {
            Self::TimeHarmonic => 1.0,
            Self::PaperArithmetic => flops.map(|n| n as f64).sum::<f64>().max(1.0),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, objective)| objective == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl std::str::FromStr for Objective {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|&(name, _)| name == s).map(|(_, objective)| objective);
        found.ok_or_else(|| format!("objective '{s}' is not one of {}", Self::ALL.map(|(name, _)| name).join(", ")))
    }
}

/// What a plan would cost, *simulated*.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Prediction {
    /// How the numbers came about; always `simulated`.
    pub stand: &'static str,
    /// Milliseconds, at the middle of the profile's ranges.
    pub time_ms: f64,
    /// Milliseconds at the fast and at the slow end of the ranges.
    pub time_ms_range: [f64; 2],
    /// Bytes from and to memory.
    pub bytes_moved: u64,
    /// Texels that invocations load and store.
    pub requests: u64,
    /// Floating point operations.
    pub flops: u64,
    /// Share of the time that goes to steps which only move bytes.
    pub conversion_share: f64,
    /// Mean efficiency weighted by operations, the paper's objective.
    pub paper_efficiency: f64,
    /// Every step, at the middle of the ranges.
    #[serde(skip)]
    pub steps: Vec<StepCost>,
}

/// Predicts what a plan of this graph costs on a machine.
pub fn predict(plan: &Plan, graph: &Graph, profile: &Profile) -> Prediction {
    let steps = steps(plan, graph, profile, Case::Middle);
    let time_ms = |steps: &[StepCost]| 1e3 * Objective::TimeHarmonic.cost(steps);
    let moved: Vec<StepCost> = steps.iter().filter(|s| s.conversion).copied().collect();
    let total = time_ms(&steps);
    Prediction {
        stand: "simulated",
        time_ms: total,
        time_ms_range: [Case::Fast, Case::Slow].map(|case| time_ms(&self::steps(plan, graph, profile, case))),
        bytes_moved: graph::sum(steps.iter().map(|s| s.memory_bytes)),
        requests: graph::sum(steps.iter().map(|s| s.requests)),
        flops: graph::sum(steps.iter().map(|s| s.flops)),
        conversion_share: if total > 0.0 { time_ms(&moved) / total } else { 0.0 },
        paper_efficiency: 1.0 - Objective::PaperArithmetic.cost(&steps),
        steps,
    }
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [fast, slow] = self.time_ms_range;
        writeln!(f, "simulated: {:.3} ms ({fast:.3} to {slow:.3})", self.time_ms)?;
        let gib = self.bytes_moved as f64 / f64::from(1 << 30);
        writeln!(f, "simulated: {gib:.3} GiB from and to memory, {:.3} GFLOP", self.flops as f64 / 1e9)?;
        writeln!(f, "simulated: {:.2} % of the time in explicit conversions", 100.0 * self.conversion_share)?;
        let mut by_bound = std::collections::BTreeMap::<Bound, (usize, f64)>::new();
        for s in &self.steps {
            let (n, seconds) = by_bound.entry(s.bound).or_default();
            *n += 1;
            *seconds += s.seconds;
        }
        for (bound, (n, seconds)) in by_bound {
            writeln!(f, "simulated: {n} dispatches bound by {bound:?}, {:.3} ms", 1e3 * seconds)?;
        }
        Ok(())
    }
}

fn steps(plan: &Plan, graph: &Graph, profile: &Profile, case: Case) -> Vec<StepCost> {
    Prices::new(profile, case).of(graph, &plan.steps)
}

/// Costs of steps. Dispatches that are alike, as those of a model's layers are, are counted once.
pub(super) struct Prices<'a> {
    machine: Machine<'a>,
    known: FxHashMap<Kind, StepCost>,
    coverages: Coverages,
    addresses: Addresses,
}

/// What it takes to compute the address of an operand's texel while the indices of these axes change.
type Addresses = FxHashMap<(Addressing, [bool; 4]), Ops>;

/// What loads of an operand cover, for a number of lines of its own in the cache: dispatches that differ in one operand share those of
/// the others, and so do operands that are alike where the loads reach.
type Coverages = FxHashMap<(Loads, Addressing, usize), Coverage>;

/// Shader, constants, workgroups and operations: all that the cost of a dispatch depends on.
type Kind = (&'static str, Constants, [u32; 3], u64);

impl<'a> Prices<'a> {
    /// Prices of a machine, of which nothing is known yet.
    pub fn new(profile: &'a Profile, case: Case) -> Self {
        Self {
            machine: Machine { profile, case },
            known: FxHashMap::default(),
            coverages: FxHashMap::default(),
            addresses: FxHashMap::default(),
        }
    }

    /// The costs of steps in their order.
    pub fn of(&mut self, graph: &Graph, steps: &[Step]) -> Vec<StepCost> {
        let mut cost = |(step, flops): (&Step, u64)| {
            let key = (step.shader, step.constants.clone(), step.groups, flops);
            let price = || self.machine.dispatch(step, flops, &mut self.coverages, &mut self.addresses);
            let alike = *self.known.entry(key).or_insert_with(price);
            self.machine.launched(step, alike)
        };
        steps.iter().zip(step_flops(graph, steps)).map(&mut cost).collect()
    }
}

/// Floating point operations of steps in their order. A node's later dispatches add up what its first one computed.
pub(crate) fn step_flops(graph: &Graph, steps: &[Step]) -> impl Iterator<Item = u64> {
    let mut done = vec![false; graph.nodes.len()];
    steps.iter().map(move |step| {
        let first = !step.conversion && !std::mem::replace(&mut done[step.node], true);
        let nodes = [step.node].into_iter().chain(step.fused.iter().copied());
        if first { graph::sum(nodes.map(|node| flops_of(graph, node))) } else { 0 }
    })
}

pub(super) fn flops_of(graph: &Graph, node: usize) -> u64 {
    let node = &graph.nodes[node];
    let describe = |o: &graph::Operand| graph::Desc { dtype: graph.values[o.value.index()].dtype, shape: o.shape };
    let inputs: Vec<graph::Desc> = node.inputs.iter().map(describe).collect();
    graph::flops(&node.op, &inputs, graph.values[node.output.index()].desc())
}

/// A profile at one end of its ranges.
struct Machine<'a> {
    profile: &'a Profile,
    case: Case,
}

impl Machine<'_> {
    /// The cost of a dispatch, without launch and barrier.
    fn dispatch(&self, step: &Step, flops: u64, coverages: &mut Coverages, addresses: &mut Addresses) -> StepCost {
        let (p, case) = (self.profile, self.case);
        let subgroup = p.subgroups[0];
        let accesses: Vec<Access> = step.args.iter().map(|&(_, access)| access).collect();
        let traffic = kernels::traffic(step.shader, &step.constants, step.groups, &accesses, subgroup);
        let invocations = kernels::invocations(&step.constants, step.groups);
        let workgroups: u64 = step.groups.iter().map(|&n| u64::from(n)).product();
        let group = invocations / workgroups.max(1);
        // Invocations beyond the ends of a box do nothing.
        let busy = traffic.iter().map(|t| t.requests).max().unwrap_or(0).min(invocations).max(1);
        let filled = (busy as f64 / case.less(p.invocations)).min(1.0);
        let at_once = case.more(p.invocations) / group.max(1) as f64;

        let (mut loads, mut wanted, mut cache, mut memory, mut arithmetic) = (0.0, 0.0, 0.0, 0.0, flops as f64);
        for t in &traffic {
            let address = addresses.entry((t.addressing.clone(), t.changing));
            let address = *address.or_insert_with(|| t.addressing.address_ops(t.changing));
            arithmetic += t.requests as f64 * self.flops_of_integers(address);
            let line = line(p, t.addressing.storage);
            let lines = case.more(p.l1_bytes) / f64::from(p.line_bytes);
            let own = lines / case.less(p.interleaved_subgroups) / traffic.len() as f64;
            let key = (t.loads.essential(), t.addressing.within(t.loads.reach(), line), own as usize);
            let coverage = *coverages.entry(key).or_insert_with_key(|(loads, at, own)| {
                let places = at.places();
                loads.coverage(line, *own, |index| places.of(index))
            });
            // Only the first texel of a quantized slot was looked at; the others lie beside it.
            let beside = match t.addressing.dtype.form() {
                Form::Texel => 1.0,
                Form::Tile { quants } => quants.into(),
                Form::Block => f64::from(t.addressing.dtype.block_bytes()) / TEXEL_BYTES as f64,
            };
            let efficiency = (coverage.efficiency(line) * beside).min(1.0);
            loads += match t.addressing.storage {
                StorageKind::Image => t.requests as f64 / case.more(p.texels),
                StorageKind::Buffer => {
                    let different = t.requests as f64 / f64::from(t.alike);
                    different * coverage.lines_per_load() * f64::from(p.line_bytes) / case.more(p.buffer_bytes)
                }
            };
            wanted += t.shared_bytes as f64;
            cache += t.shared_bytes as f64 / efficiency;
            memory += t.bytes as f64 * self.sweeps(t, at_once);
            if t.access == Access::ReadWrite {
                memory += t.bytes as f64;
            }
        }
        let memory_rate = case.more(if step.conversion { p.copy_rate } else { p.memory_rate });
        let times = [
            (Bound::Arithmetic, arithmetic / case.more(p.flops_f32) / filled),
            (Bound::Loads, loads / filled),
            (Bound::SharedCache, cache / case.more(p.l2_rate)),
            (Bound::Memory, memory / memory_rate),
        ];
        let alone = times.map(|(_, seconds)| seconds);
        let (bound, seconds) = times.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((Bound::Launch, 0.0));
        StepCost {
            node: step.node,
            conversion: step.conversion,
            flops,
            requests: graph::sum(traffic.iter().map(|t| t.requests)),
            cache_bytes: cache as u64,
            memory_bytes: memory as u64,
            efficiency: if cache > 0.0 { wanted / cache } else { 1.0 },
            seconds,
            times: alone,
            bound,
        }
    }

    /// Operations on f32 that take as long as these: a fused multiply-add is two.
    fn flops_of_integers(&self, ops: Ops) -> f64 {
        let costs = self.profile.integers;
        let times = [(ops.simple, costs.simple), (ops.mul, costs.mul), (ops.mul_high, costs.mul_high)];
        2.0 * times.map(|(count, cost)| f64::from(count) * self.case.less(cost)).iter().sum::<f64>()
    }

    /// The cost of a step whose dispatch costs the same as `alike`.
    fn launched(&self, step: &Step, alike: StepCost) -> StepCost {
        let barrier = if step.barrier { self.case.less(self.profile.barrier) } else { 0.0 };
        let launch = self.case.less(self.profile.launch) + barrier;
        StepCost {
            node: step.node,
            conversion: step.conversion,
            bound: if launch > alike.seconds { Bound::Launch } else { alike.bound },
            seconds: alike.seconds + launch,
            ..alike
        }
    }

    /// How often an operand comes from memory: once while what is touched between two uses stays in half of the shared cache, or
    /// is in use by workgroups that run together.
    fn sweeps(&self, t: &Traffic, at_once: f64) -> f64 {
        if t.reuse_after == 0 || t.reuse_bytes as f64 <= self.case.more(self.profile.l2_bytes) / 2.0 {
            return 1.0;
        }
        let asked = t.shared_bytes as f64 / t.bytes.max(1) as f64;
        let together = (at_once / t.reuse_after as f64).max(1.0);
        (asked / together).ceil().max(1.0)
    }
}

/// The texels of a cache line of a storage.
pub(super) fn line(profile: &Profile, storage: StorageKind) -> LineShape {
    let row = [profile.line_bytes / TEXEL_BYTES as u32, 1];
    let [width, height] = match storage {
        StorageKind::Buffer => row,
        StorageKind::Image => profile.image_line(TEXEL_BYTES as u32).unwrap_or(row),
    };
    LineShape { width: width.max(1), height: height.max(1) }
}
