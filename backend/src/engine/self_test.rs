//! Each schedule of products that a device has, tested on that device: a small product of ragged extents, run a few times, must have the same
//! bits each time, and be as near to the f64 oracle as its arithmetic is.
//!
//! `U` is the unit roundoff of f32. A sum of K products in any order is off by at most `(K + 2) U` times the sum S of their magnitudes, two for
//! what is decoded and scaled. What factors are rounded to adds the difference between S of factors that are as far off as they may be and S itself:
//!
//! | schedule | a factor x is off by |
//! |---|---|
//! | direct, across, staged | nothing |
//! | dots | of the right factor, a 254th of the greatest of 32 k, and four roundings on the way there: less than 2^-14 of that |
//! | matrix-f16 | 2^-10 x where drivers cut, 2^-24 where it is not normal; nothing where it is stored as F16 |
//! | matrix-bf16 | 2^-8 x |
//! | matrix-parts | 2^-21 x, and 2^-37 of the greatest of its operand; the product of both lesser parts, 2^-22, is left out |
//!
//! Units sum in an order, and round in ways, that nobody tells: four times as much for each term, as is allowed for the parts' three products.

use std::sync::Arc;

use super::{Engine, Error};
use crate::device::{
    ByteDots, Limits, MatrixType, MatrixUnit, Outcome, ProductSchedule, Products, Tested, TestedSchedule,
};
use crate::graph::{self, Array, DType, Graph, Op, Shape, ValueId};
use crate::kernels::tested_schedule;

/// Runs of each product.
const RUNS: usize = 4;

/// Rows, and columns of products of many sums and of few.
const M: u32 = 70;
const N: u32 = 37;
const FEW_N: u32 = 5;

/// NaN, so that what a run leaves unwritten shows.
const POISON: u32 = 0x7fc0_dead;

const U: f64 = 1.0 / (1 << 24) as f64;
/// What flushing subnormals costs.
const FLUSH: f64 = f32::MIN_POSITIVE as f64;

/// A product that a schedule computes.
struct Case {
    schedule: TestedSchedule,
    asked: ProductSchedule,
    op: Op,
    /// Element type of the left factor.
    dtype: DType,
    n: u32,
    k: u32,
}

/// The schedules with what they are tested by; K is ragged, but of whole blocks.
fn cases() -> [Case; 7] {
    use ProductSchedule::{Across, Direct, Matrix, Staged};
    let case = |schedule, asked, op, dtype, n, k| Case { schedule, asked, op, dtype, n, k };
    [
        case(TestedSchedule::Direct, Direct, Op::MulMat, DType::Q8_0, N, 224),
        case(TestedSchedule::Across, Across, Op::MulMat, DType::F16, FEW_N, 200),
        case(TestedSchedule::Dots, Across, Op::MulMat, DType::Q8_0, FEW_N, 224),
        case(TestedSchedule::Staged, Staged, Op::MulMat, DType::Q8_0, N, 224),
        case(TestedSchedule::MatrixF16, Matrix, Op::MulMat, DType::Q8_0, N, 224),
        case(TestedSchedule::MatrixBf16, Matrix, Op::OutProd, DType::F16, N, 200),
        case(TestedSchedule::MatrixParts, Matrix, Op::MulMat, DType::F32, N, 200),
    ]
}

impl Case {
    /// The limits under which a device computes it by its schedule, if it can have that.
    fn limits(&self, own: &Limits) -> Option<Limits> {
        let units = |wanted| own.matrix_units.iter().copied().filter(|unit| unit.factors == wanted).collect();
        let matrix_units: Vec<MatrixUnit> = match self.schedule {
            TestedSchedule::MatrixF16 | TestedSchedule::MatrixParts => units(MatrixType::F16),
            TestedSchedule::MatrixBf16 => units(MatrixType::Bf16),
            _ => Vec::new(),
        };
        let dots = self.schedule == TestedSchedule::Dots;
        if self.asked == ProductSchedule::Matrix && matrix_units.is_empty() || dots && own.byte_dots == ByteDots::None {
            return None;
        }
        let products = Products { schedule: Some(self.asked), dots: Some(dots), ..own.products };
        Some(Limits { matrix_units, products, ..own.clone() })
    }

    /// Shapes of both factors and of the product.
    fn shapes(&self) -> [Shape; 3] {
        let &Self { n, k, .. } = self;
        match self.op {
            Op::OutProd => [[M, k, 1, 1], [n, k, 1, 1], [M, n, 1, 1]],
            _ => [[k, M, 1, 1], [k, n, 1, 1], [M, n, 1, 1]],
        }
    }

    fn graph(&self) -> Result<(Graph, [ValueId; 3]), Error> {
        let [a, b, _] = self.shapes();
        let mut graph = Graph::new();
        let a = graph.external("a", self.dtype, a);
        let b = graph.external("b", DType::F32, b);
        let product = graph.node("product", self.op, vec![graph.whole(a), graph.whole(b)])?;
        graph.keep(product);
        Ok((graph, [a, b, product]))
    }

    /// Bytes of both factors, and what they stand for.
    fn factors(&self) -> [(Vec<u8>, Array); 2] {
        let [a, b, _] = self.shapes();
        [(self.dtype, a, 1), (DType::F32, b, 2)].map(|(dtype, shape, seed)| {
            let bytes = graph::encode(dtype, &numbers(graph::elements(&shape), seed)).expect("rows are whole blocks");
            let data = graph::decode(dtype, &bytes).expect("they were encoded");
            (bytes, Array { shape, data })
        })
    }

    /// What the oracle says.
    fn product(&self, factors: &[Array]) -> Array {
        let [.., shape] = self.shapes();
        graph::oracle(&self.op, factors, shape).remove(0)
    }

    /// How far each element may be from it.
    fn bound(&self, factors: &[Array; 2]) -> Array {
        let magnitudes = factors.each_ref().map(|factor| factor.map(f64::abs));
        let [a, b] = &magnitudes;
        let greatest = |x: &Array| x.data.iter().copied().fold(0.0, f64::max);
        let half = |x: &Array| x.map(|x| x * (1.0 + 2.0_f64.powi(-10)) + U);
        let (off, roundings) = match self.schedule {
            TestedSchedule::Direct | TestedSchedule::Across | TestedSchedule::Staged => ([a.clone(), b.clone()], 1.0),
            TestedSchedule::Dots => ([a.clone(), b.zip(&steps_of_bytes(b), |x, step| x + step)], 1.0),
            TestedSchedule::MatrixF16 if self.dtype == DType::F16 => ([a.clone(), half(b)], 4.0),
            TestedSchedule::MatrixF16 => ([half(a), half(b)], 4.0),
            TestedSchedule::MatrixBf16 => ([a, b].map(|x| x.map(|x| x * (1.0 + 2.0_f64.powi(-8)) + FLUSH)), 4.0),
            TestedSchedule::MatrixParts => {
                let part = |x: &Array| {
                    let least = 2.0_f64.powi(-37) * greatest(x);
                    x.map(|x| x * (1.0 + 8.0 * U) + least)
                };
                ([part(a), part(b)], 4.0)
            }
        };
        let sums = self.product(&magnitudes);
        let terms = f64::from(self.k) + 2.0;
        // The lesser parts' product is four U of a product.
        let left_out = if self.schedule == TestedSchedule::MatrixParts { 4.0 } else { 0.0 };
        self.product(&off)
            .zip(&sums, |most, sum| most - sum + (roundings * terms + left_out) * U * most + FLUSH * f64::from(self.k))
    }

    /// What came of it on an engine under its limits.
    fn test(&self, engine: &Engine) -> Result<Outcome, Error> {
        let (graph, [a, b, product]) = self.graph()?;
        let factors = self.factors();
        let mut externals = Vec::new();
        for (id, dtype, (bytes, array)) in [(a, self.dtype, &factors[0]), (b, DType::F32, &factors[1])] {
            let tensor = engine.create(dtype, array.shape)?;
            engine.write(&tensor, bytes)?;
            externals.push((id, tensor));
        }
        let plan = engine.plan(&graph)?;
        let taken: Vec<_> =
            plan.steps.iter().filter_map(|step| tested_schedule(step.shader, &step.constants)).collect();
        if taken.iter().any(|&schedule| schedule != self.schedule) || taken.is_empty() {
            let names: Vec<_> = taken.iter().map(ToString::to_string).collect();
            return Ok(Outcome::Unused(names.join(", ")));
        }
        let mut program = engine.realise(&graph, plan, &externals)?;
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            engine.poison(&program, POISON)?;
            program.run()?;
            let kept = program.kept(product).expect("the graph keeps it");
            runs.push(bytemuck::pod_collect_to_vec::<u8, f32>(&engine.read(kept)?));
        }
        let factors = factors.map(|(_, array)| array);
        Ok(match compare(&runs, &self.product(&factors), &self.bound(&factors)) {
            Ok(()) => Outcome::Passed,
            Err(why) => Outcome::Failed(why),
        })
    }
}

/// Tests every schedule of products that the device's limits allow, those that failed before among them. What it computes is small; compiling
/// takes the time. Nothing is kept: see [`crate::probe::keep`].
///
/// A schedule that a driver does not compile or run has failed; where it loses the device, those after it are untested.
///
/// # Errors
/// There is no memory for a test, which says nothing of its schedule.
pub fn self_test(engine: &Engine) -> Result<Vec<Tested>, Error> {
    let mut tested = Vec::new();
    for case in cases() {
        let Some(limits) = case.limits(engine.gpu.limits()) else { continue };
        let options = super::EngineOptions { budget: None, selection: None, ..engine.options.clone() };
        let under = Engine::over(Arc::clone(&engine.gpu), options, limits, None);
        let outcome = match case.test(&under) {
            Ok(outcome) => outcome,
            Err(why) if is_of_memory(&why) => return Err(why),
            // A refusal says nothing of what a kernel computes.
            Err(Error::Device(why)) if !matches!(why, crate::vulkan::Error::LimitExceeded { .. }) => {
                Outcome::Failed(why.to_string())
            }
            Err(why) => Outcome::Unused(why.to_string()),
        };
        tested.push(Tested { schedule: case.schedule, outcome });
        if engine.gpu.is_lost() {
            break;
        }
    }
    Ok(tested)
}

fn is_of_memory(error: &Error) -> bool {
    use crate::vulkan::Error::{NoMemory, OutOfDeviceMemory, OutOfHostMemory};
    matches!(error, Error::Device(NoMemory { .. } | OutOfDeviceMemory { .. } | OutOfHostMemory { .. }))
}

/// Whether all runs have the bits of the first, and that one is within the bounds.
///
/// # Errors
/// The first element that is not, in words.
fn compare(runs: &[Vec<f32>], wanted: &Array, bound: &Array) -> Result<(), String> {
    let first = runs.first().filter(|run| run.len() == wanted.data.len()).ok_or("a result of another length")?;
    for (number, run) in runs.iter().enumerate().skip(1) {
        if run.len() != first.len() {
            return Err(format!("run {} has a result of another length", number + 1));
        }
        let differs = |&at: &usize| run[at].to_bits() != first[at].to_bits();
        if let Some(at) = (0..first.len()).find(differs) {
            return Err(format!("run {} has {:e} at {at}, run 1 has {:e}", number + 1, run[at], first[at]));
        }
    }
    for (at, (&got, (want, bound))) in first.iter().zip(wanted.data.iter().zip(&bound.data)).enumerate() {
        let off = (f64::from(got) - want).abs();
        // NaN is within nothing.
        if off.is_nan() || off > *bound {
            return Err(format!("{got:e} at {at}, which is {want:e} within {bound:e}"));
        }
    }
    Ok(())
}

/// How far the elements of a right factor are from the bytes that 32 of a column are rounded to.
fn steps_of_bytes(magnitudes: &Array) -> Array {
    let mut off = magnitudes.clone();
    for block in off.rows_mut().flat_map(|column| column.chunks_mut(32)) {
        let greatest = block.iter().copied().fold(0.0, f64::max);
        block.fill(greatest / 254.0 * (1.0 + 2.0_f64.powi(-14)) + 2.0_f64.powi(-119));
    }
    off
}

/// Numbers between -1 and 1, the same for the same seed.
fn numbers(count: u64, seed: u64) -> Vec<f32> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(2 * seed + 1);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // 24 bits, all of which an f32 holds.
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Preset, SchedulesOff};
    use crate::engine::EngineOptions;
    use crate::probe;
    use crate::vulkan::GpuOptions;

    fn from_env() -> EngineOptions {
        EngineOptions {
            gpu: GpuOptions { cache_folder: None, ..GpuOptions::from_env().unwrap() },
            ..Default::default()
        }
    }

    /// What a device computes as a processor would: the oracle's numbers, rounded.
    fn faithful(case: &Case) -> (Vec<f32>, Array, Array) {
        let factors = case.factors().map(|(_, array)| array);
        let (wanted, bound) = (case.product(&factors), case.bound(&factors));
        (wanted.data.iter().map(|&x| x as f32).collect(), wanted, bound)
    }

    /// One bit in one of the runs, however low, and a number that is wrong in all of them.
    #[test]
    fn spoiled_results_fail() {
        for case in cases() {
            let (run, wanted, bound) = faithful(&case);
            let runs = vec![run; RUNS];
            compare(&runs, &wanted, &bound).unwrap();
            for at in [0, 1234 % wanted.data.len(), wanted.data.len() - 1] {
                let spoiled = |which: std::ops::Range<usize>, spoil: &dyn Fn(f32) -> f32| {
                    let mut runs = runs.clone();
                    runs[which].iter_mut().for_each(|run| run[at] = spoil(run[at]));
                    compare(&runs, &wanted, &bound).unwrap_err()
                };
                let low_bit = |x: f32| f32::from_bits(x.to_bits() ^ 1);
                let once = spoiled(2..3, &low_bit);
                assert!(once.contains("run 3") && once.contains(&format!("at {at}")), "{once}");
                assert!(spoiled(0..1, &low_bit).contains("run 2"));
                for wrong in [f32::NAN, f32::INFINITY, wanted.data[at] as f32 + 2.0 * bound.data[at] as f32] {
                    let all = spoiled(0..RUNS, &|_| wrong);
                    assert!(all.contains("within"), "{}: {all}", case.schedule);
                }
            }
            let mut short = runs.clone();
            short[1].pop();
            assert!(compare(&short, &wanted, &bound).is_err() && compare(&[], &wanted, &bound).is_err());
        }
    }

    /// A product that does not sum the last element of k is beyond the bounds somewhere, whatever its factors are rounded to.
    #[test]
    fn bounds_tell_a_missing_term() {
        for case in cases() {
            let (run, wanted, bound) = faithful(&case);
            let [(_, mut a), (_, b)] = case.factors();
            for m in 0..M {
                let last = if case.op == Op::OutProd { [m, case.k - 1, 0, 0] } else { [case.k - 1, m, 0, 0] };
                let at = a.position(last);
                a.data[at] = 0.0;
            }
            let lost = case.product(&[a, b]).data.iter().map(|&x| x as f32).collect();
            assert_ne!(run, lost);
            assert!(compare(&[lost], &wanted, &bound).is_err(), "{}", case.schedule);
        }
    }

    /// Cases ask for what a device has, by the units of their type alone.
    #[test]
    fn schedules_that_a_device_lacks_are_not_tested() {
        let tested = |limits: &Limits| {
            let has = |case: &Case| case.limits(limits).map(|_| case.schedule.to_string());
            cases().iter().filter_map(has).collect::<Vec<_>>().join(" ")
        };
        let unit = |factors| MatrixUnit { factors, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
        let plain = Limits::for_tests();
        assert_eq!(tested(&plain), "direct across dots staged");
        assert_eq!(tested(&Limits { byte_dots: ByteDots::None, ..plain.clone() }), "direct across staged");
        let units = |matrix_units| Limits { matrix_units, ..plain.clone() };
        assert_eq!(tested(&units(vec![unit(MatrixType::Bf16)])), "direct across dots staged matrix-bf16");
        let half = tested(&units(vec![unit(MatrixType::F16)]));
        assert_eq!(half, "direct across dots staged matrix-f16 matrix-parts");
    }

    /// The device at hand passes in everything that it has, and what is off is told as such.
    #[test]
    fn the_device_passes() {
        let engine = Engine::open(0, &from_env()).unwrap();
        let tested = self_test(&engine).unwrap();
        let wanted: Vec<_> =
            cases().iter().filter(|case| case.limits(engine.limits()).is_some()).map(|c| c.schedule).collect();
        assert_eq!(tested.iter().map(|tested| tested.schedule).collect::<Vec<_>>(), wanted);
        for Tested { schedule, outcome } in &tested {
            assert_eq!(outcome, &Outcome::Passed, "{schedule}");
        }
        let mut limits = engine.gpu.limits().clone();
        limits.products.off.staged = true;
        let staged = cases().into_iter().find(|case| case.schedule == TestedSchedule::Staged).unwrap();
        let limits = staged.limits(&limits).unwrap();
        let under = Engine::over(Arc::clone(&engine.gpu), engine.options.clone(), limits, None);
        assert_eq!(staged.test(&under).unwrap(), Outcome::Unused("direct".into()));
        assert_eq!(engine.gpu.validation_messages(), [""; 0]);
    }

    /// What a kept file says has failed, an engine leaves alone: the same limits in plans, `supports` and those it would open with.
    #[test]
    fn an_engine_leaves_alone_what_failed() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = from_env();
        options.gpu.cache_folder = Some(folder.path().to_owned());
        let untested = Engine::open(0, &options).unwrap();
        assert_eq!(untested.limits(), untested.gpu.limits());
        let (_, profile) = Preset::machines().next().unwrap();
        let failed = [TestedSchedule::Across, TestedSchedule::Staged, TestedSchedule::Dots]
            .map(|schedule| Tested { schedule, outcome: Outcome::Failed("other bits".into()) });
        probe::keep(&untested.gpu, profile, &failed).unwrap();
        // A profile that is measured again leaves the tests as they are.
        probe::keep(&untested.gpu, profile, &[]).unwrap();

        let engine = Engine::open(0, &options).unwrap();
        let off = SchedulesOff { across: true, staged: true, parts: false };
        assert_eq!((engine.limits().products.off, engine.limits().byte_dots), (off, ByteDots::None));
        assert_eq!(engine.beside(&options).limits(), engine.limits());
        let adapter = engine.gpu.adapter();
        assert_eq!(&options.clone().tested_on(adapter).limits(adapter), engine.limits());
        // They are tested all the same.
        assert!(cases().iter().all(|case| case.limits(engine.gpu.limits()) == case.limits(untested.gpu.limits())));
    }
}
