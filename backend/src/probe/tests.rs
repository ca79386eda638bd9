//! Machines whose figures are known, as times of what they are asked: the figures must come back.

use std::collections::HashSet;
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;

/// A machine with two caches. Rates are per second, sizes in texels.
#[derive(Clone, Debug)]
struct Simulated {
    subgroup: u32,
    fma: f64,
    /// Operations of matrix units on F16, and of one step; none on BF16.
    matrices: Option<[f64; 2]>,
    /// What a simple operation, a product and its high half take, a multiply-add taking 1.
    integers: [f64; 3],
    invocations: f64,
    l1: f64,
    l2: f64,
    /// Texels from the first cache, from the second, from memory.
    texels: [f64; 3],
    line: [u32; 2],
    copy: f64,
    launch: f64,
    barrier: f64,
    /// Runs differ by so much.
    noise: f64,
}

impl Simulated {
    fn once(&self, work: Work) -> f64 {
        match work {
            Work::Arithmetic { unit, groups, steps } => {
                let cost = match unit {
                    Unit::Fma => 1.0,
                    Unit::Add => self.integers[0],
                    Unit::Mul => self.integers[1],
                    Unit::MulHigh => self.integers[2],
                };
                let busy = (f64::from(groups * GROUP) / self.invocations).min(1.0);
                f64::from(groups) * f64::from(GROUP * OPERATIONS) * f64::from(steps) * cost / (self.fma * busy)
            }
            Work::Matrices { groups, steps, .. } => {
                let [rate, each] = self.matrices.expect("only what is there is asked for");
                f64::from(groups) * f64::from(steps) * each / rate
            }
            Work::Stream { texels, groups, steps, .. } => {
                let size = 2_f64.powi(texels as i32);
                let rate = match size {
                    _ if size <= self.l1 => self.texels[0],
                    _ if size <= self.l2 => self.texels[1],
                    _ => self.texels[2],
                };
                f64::from(groups) * f64::from(GROUP) * f64::from(steps) / rate
            }
            Work::Spread { storage, axis, stride, groups, steps } => {
                let [w, h] = if storage == StorageKind::Buffer { [self.line[0] * self.line[1], 1] } else { self.line };
                let lanes = (0..self.subgroup).map(|lane| lane * stride / if axis == Axis::X { w } else { h });
                let lines = lanes.collect::<HashSet<_>>().len() as f64;
                let instructions = f64::from(groups) * f64::from(steps) * f64::from(GROUP / self.subgroup);
                instructions * lines * f64::from(w * h) / self.texels[1]
            }
            Work::Copy { bytes } => 2.0 * bytes as f64 / self.copy,
            Work::Dispatches { count, barriers } => {
                1e-4 + f64::from(count) * (self.launch + if barriers { self.barrier } else { 0.0 })
            }
        }
    }
}

impl Machine for Simulated {
    type Error = Infallible;

    fn seconds(&mut self, work: Work) -> Result<Vec<f64>, Infallible> {
        let noise = [0.0, 0.7, 0.2, 1.0, 0.4];
        Ok(noise.map(|part| self.once(work) * (1.0 + self.noise * part)).into())
    }

    fn matrix_operations(&self, factors: MatrixType) -> Option<f64> {
        self.matrices.filter(|_| factors == MatrixType::F16).map(|[_, each]| each)
    }

    fn subgroups(&self) -> [u32; 2] {
        [self.subgroup; 2]
    }

    fn largest_region(&self) -> u32 {
        22
    }
}

fn machines() -> impl Strategy<Value = Simulated> {
    let lines = prop::sample::select(vec![[4, 1], [8, 1], [2, 2], [1, 4], [4, 2], [1, 1]]);
    let matrices = prop::option::of((1e11..1e15_f64, 1e4..1e7_f64).prop_map(<[f64; 2]>::from));
    let arithmetic =
        (1e10..1e14_f64, matrices, (0.5..1.5_f64, 1.0..4.0_f64, 1.0..8.0_f64).prop_map(<[f64; 3]>::from), 6..16_u32);
    let caches = (6..10_u32, 4..8_u32, 1e9..1e12_f64, 2.0..8.0_f64, 2.0..8.0_f64);
    let rest = (1e9..1e12_f64, 1e-7..1e-4_f64, 1e-7..1e-4_f64, 0.0..0.05_f64);
    (prop::sample::select(vec![16_u32, 32, 64]), lines, arithmetic, caches, rest).prop_map(
        |(
            subgroup,
            line,
            (fma, matrices, integers, busy),
            (l1, more, nearest, second, third),
            (copy, launch, barrier, noise),
        )| {
            Simulated {
                subgroup,
                fma,
                matrices,
                integers,
                invocations: f64::from(1 << busy),
                l1: f64::from(1 << l1),
                l2: f64::from(1 << (l1 + more)),
                texels: [nearest, nearest / second, nearest / second / third],
                line,
                copy,
                launch,
                barrier,
                noise,
            }
        },
    )
}

fn holds(estimate: Estimate, value: f64, tolerance: f64) -> bool {
    estimate.lo <= estimate.mid
        && estimate.mid <= estimate.hi
        && estimate.lo <= value * (1.0 + tolerance)
        && value <= estimate.hi * (1.0 + tolerance)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// Sizes lie between two regions, line shapes are exact, and rates are off by the noise alone.
    #[test]
    fn hidden_figures_are_found(machine in machines()) {
        let found = profile(&mut machine.clone()).unwrap_or_else(|never| match never {});
        let off = 1.01 * machine.noise + 1e-6;
        prop_assert_eq!(found.image_lines.texel16, machine.line);
        prop_assert_eq!(found.line_bytes, 16 * machine.line[0] * machine.line[1]);
        prop_assert_eq!(found.subgroups, [machine.subgroup; 2]);
        prop_assert!(holds(found.l1_bytes, 16.0 * machine.l1, 0.0), "{:?}", found.l1_bytes);
        prop_assert!(holds(found.l2_bytes, 16.0 * machine.l2, 0.0), "{:?}", found.l2_bytes);
        prop_assert!(holds(found.flops_f32, 2.0 * machine.fma, off), "{:?}", found.flops_f32);
        let matrices = found.matrix_f16.zip(machine.matrices);
        prop_assert!(matrices.is_none_or(|(found, [rate, _])| holds(found, rate, off)), "{:?}", found.matrix_f16);
        prop_assert_eq!((found.matrix_f16.is_some(), found.matrix_bf16), (machine.matrices.is_some(), None));
        let IntegerCosts { simple, mul, mul_high } = found.integers;
        for (cost, hidden) in [simple, mul, mul_high].into_iter().zip(machine.integers) {
            prop_assert!(holds(cost, hidden, 2.0 * off), "{cost:?}");
        }
        prop_assert!(holds(found.texels, machine.texels[0], off));
        prop_assert!(holds(found.buffer_bytes, 16.0 * machine.texels[0], off));
        prop_assert!(holds(found.l2_rate, 16.0 * machine.texels[1], off));
        prop_assert!(holds(found.memory_rate, 16.0 * machine.texels[2], off));
        prop_assert!(holds(found.copy_rate, machine.copy, off));
        prop_assert!(holds(found.invocations, machine.invocations, 0.2), "{:?}", found.invocations);
        // A submission's own noise is spread over the dispatches.
        let spread = machine.noise * (machine.launch + machine.barrier) * 1.2 + 4e-8;
        prop_assert!((found.launch.mid - machine.launch).abs() <= spread, "{:?}", found.launch);
        prop_assert!((found.barrier.mid - machine.barrier).abs() <= 2.0 * spread, "{:?}", found.barrier);
    }
}

/// One cache, then memory; and a machine that is all cache.
#[test]
fn fewer_caches_than_two_are_no_trouble() {
    let point = |texels: u32, rate: f64| (texels, Estimate::known(rate));
    let one = Curve((6..20).map(|t| point(t, if t <= 10 { 8.0 } else { 1.0 })).collect());
    assert_eq!((one.first_cache().lo, one.last_cache().lo), (1024.0, 1024.0));
    assert_eq!((one.nearest().mid, one.farthest().mid), (8.0, 1.0));
    let all = Curve((6..20).map(|t| point(t, 8.0)).collect());
    assert_eq!((all.first_cache().lo, all.second().mid, all.farthest().mid), (2_f64.powi(19), 8.0, 8.0));
}
