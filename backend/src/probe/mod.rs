//! What does the machine really do? Micro-benchmarks fill a [`Profile`]; `fblayout probe` runs them and keeps what they find.
//!
//! `profile` asks a `Machine` for the times of small pieces of `Work` and concludes from them; the device is one machine, and a simulated
//! one whose figures are known proves the conclusions.

mod curve;
mod device;
mod kept;
#[cfg(test)]
mod tests;

use crate::device::{Estimate, ImageLines, IntegerCosts, MatrixType, Profile};
use crate::kernels::StorageKind;
use curve::{Curve, saturation};
pub use device::measure;
pub use kept::{KeptError, keep, kept, kept_tests};

/// What the units of a machine are asked to do, by workgroups of [`GROUP`] invocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Every invocation takes so many steps of [`OPERATIONS`] operations, in registers.
    Arithmetic { unit: Unit, groups: u32, steps: u32 },
    /// Every workgroup takes so many steps of products by matrix units, in registers.
    Matrices { factors: MatrixType, groups: u32, steps: u32 },
    /// All workgroups together stream through a region of `1 << texels` texels, once or many times; neighbours load neighbours.
    Stream { storage: StorageKind, texels: u32, groups: u32, steps: u32 },
    /// Every instruction loads texels `stride` apart along an axis of a large region, at another place each time.
    Spread { storage: StorageKind, axis: Axis, stride: u32, groups: u32, steps: u32 },
    /// A copy of so many bytes between buffers.
    Copy { bytes: u64 },
    /// Dispatches that do nothing, each behind a barrier or not.
    Dispatches { count: u32, barriers: bool },
}

/// What an arithmetic step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// Fused multiply-adds on f32.
    Fma,
    /// Additions of 32-bit words.
    Add,
    /// Their products, low halves.
    Mul,
    /// High halves of their products.
    MulHigh,
}

/// Axis of a region of texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    X,
    Y,
}

/// Invocations of a workgroup.
const GROUP: u32 = 64;
/// Operations of an arithmetic step of one invocation: eight rounds of eight.
const OPERATIONS: u32 = 64;
/// Bytes of a texel.
const TEXEL: f64 = 16.0;
/// Workgroups that fill any machine.
const MANY: u32 = 4096;
/// A piece of work is repeated until it takes as long, seconds; what is shorter is told from the clock's steps no more.
const LONG_ENOUGH: f64 = 1e-3;

/// What can be timed.
trait Machine {
    /// Why it cannot.
    type Error;

    /// Seconds that a piece of work takes, a few times over.
    fn seconds(&mut self, work: Work) -> Result<Vec<f64>, Self::Error>;

    /// Operations of a step of one workgroup by matrix units; none where no unit takes such factors.
    fn matrix_operations(&self, factors: MatrixType) -> Option<f64>;

    /// Lanes of a subgroup, narrowest and widest.
    fn subgroups(&self) -> [u32; 2];

    /// Binary logarithm of the texels that a region may have.
    fn largest_region(&self) -> u32;
}

/// Asks for more and more steps until these take [`LONG_ENOUGH`]; `amount` per second.
fn rate<M: Machine>(machine: &mut M, work: impl Fn(u32) -> (Work, f64)) -> Result<Estimate, M::Error> {
    const MOST_STEPS: u32 = 1 << 14;
    let mut steps = 4;
    loop {
        let (piece, amount) = work(steps);
        let mut seconds = machine.seconds(piece)?;
        seconds.sort_by(f64::total_cmp);
        let median = seconds[seconds.len() / 2];
        if median >= LONG_ENOUGH || steps >= MOST_STEPS {
            let per_second = |seconds: f64| amount / seconds.max(1e-9);
            return Ok(Estimate::range(
                per_second(seconds[seconds.len() - 1]),
                per_second(median),
                per_second(seconds[0]),
            ));
        }
        let wanted = f64::from(steps) * 1.5 * LONG_ENOUGH / median.max(1e-9);
        steps = (wanted as u32).max(2 * steps).min(MOST_STEPS);
    }
}

/// Runs all micro-benchmarks: what the machine does.
fn profile<M: Machine>(machine: &mut M) -> Result<Profile, M::Error> {
    let flops = arithmetic(machine, Unit::Fma, MANY)?;
    let against = |operations: Estimate| {
        // Of the rates of multiply-adds, which are two operations of the former.
        let fma = flops.mid / 2.0;
        Estimate::range(fma / operations.hi, fma / operations.mid, fma / operations.lo)
    };
    let integers = IntegerCosts {
        simple: against(arithmetic(machine, Unit::Add, MANY)?),
        mul: against(arithmetic(machine, Unit::Mul, MANY)?),
        mul_high: against(arithmetic(machine, Unit::MulHigh, MANY)?),
    };
    let buffers = stream(machine, StorageKind::Buffer)?;
    let images = stream(machine, StorageKind::Image)?;
    let (l1, l2) = (images.first_cache(), buffers.last_cache());
    let line = spread(machine, StorageKind::Buffer, Axis::X)?;
    let shape = [spread(machine, StorageKind::Image, Axis::X)?, spread(machine, StorageKind::Image, Axis::Y)?];
    let (launch, barrier) = dispatches(machine)?;
    Ok(Profile {
        subgroups: machine.subgroups(),
        line_bytes: line * TEXEL as u32,
        image_lines: lines(shape),
        l1_bytes: l1.scaled(TEXEL),
        l2_bytes: l2.scaled(TEXEL),
        // Not measured: what most machines have.
        interleaved_subgroups: Estimate::range(1.0, 4.0, 16.0),
        invocations: invocations(machine, flops)?,
        flops_f32: flops,
        // Not measured: no kernel computes in f16.
        flops_f16: Estimate { hi: 2.0 * flops.hi, ..flops },
        matrix_f16: matrices(machine, MatrixType::F16)?,
        matrix_bf16: matrices(machine, MatrixType::Bf16)?,
        integers,
        texels: images.nearest(),
        buffer_bytes: buffers.nearest().scaled(TEXEL),
        l2_rate: buffers.second().scaled(TEXEL),
        memory_rate: buffers.farthest().scaled(TEXEL),
        copy_rate: copies(machine)?,
        launch,
        barrier,
    })
}

/// Operations per second; a multiply-add is two.
fn arithmetic<M: Machine>(machine: &mut M, unit: Unit, groups: u32) -> Result<Estimate, M::Error> {
    let each = f64::from(GROUP * OPERATIONS * if unit == Unit::Fma { 2 } else { 1 });
    rate(machine, |steps| (Work::Arithmetic { unit, groups, steps }, f64::from(groups) * f64::from(steps) * each))
}

/// Operations per second of matrix units; a multiply-add is two.
fn matrices<M: Machine>(machine: &mut M, factors: MatrixType) -> Result<Option<Estimate>, M::Error> {
    let Some(each) = machine.matrix_operations(factors) else { return Ok(None) };
    let work = |steps| (Work::Matrices { factors, groups: MANY, steps }, f64::from(MANY) * f64::from(steps) * each);
    rate(machine, work).map(Some)
}

/// Invocations from which on nearly all of the operations are done.
fn invocations<M: Machine>(machine: &mut M, most: Estimate) -> Result<Estimate, M::Error> {
    let mut groups = 1;
    while groups < MANY && arithmetic(machine, Unit::Fma, groups)?.mid < 0.85 * most.mid {
        groups *= 2;
    }
    let enough = f64::from(groups * GROUP);
    Ok(Estimate::range(enough / 2.0, 0.75 * enough, enough))
}

/// Texels per second of regions of 1 KiB and more.
fn stream<M: Machine>(machine: &mut M, storage: StorageKind) -> Result<Curve, M::Error> {
    let regions = 6..=machine.largest_region();
    let point = |texels: u32| {
        let groups = MANY;
        let loads = f64::from(groups) * f64::from(GROUP);
        rate(machine, |steps| (Work::Stream { storage, texels, groups, steps }, loads * f64::from(steps)))
            .map(|rate| (texels, rate))
    };
    Ok(Curve(regions.map(point).collect::<Result<_, _>>()?))
}

/// Texels of a line along an axis: from that stride on loads cost no more, for each lane has a line of its own.
fn spread<M: Machine>(machine: &mut M, storage: StorageKind, axis: Axis) -> Result<u32, M::Error> {
    let cost = |stride: u32| {
        let groups = MANY / 4;
        let loads = f64::from(groups) * f64::from(GROUP);
        rate(machine, |steps| (Work::Spread { storage, axis, stride, groups, steps }, loads * f64::from(steps)))
            .map(|rate| (stride, 1.0 / rate.mid))
    };
    Ok(saturation(&[1, 2, 4, 8, 16].map(cost).into_iter().collect::<Result<Vec<_>, _>>()?))
}

/// Shapes of lines for smaller texels from that of 16 bytes: twice as many along the shorter side, or along the only one.
fn lines(texel16: [u32; 2]) -> ImageLines {
    let doubled = |[w, h]: [u32; 2]| if h == 1 || w <= h { [2 * w, h] } else { [w, 2 * h] };
    let texel8 = doubled(texel16);
    ImageLines { texel4: doubled(texel8), texel8, texel16 }
}

/// Bytes read and written per second.
fn copies<M: Machine>(machine: &mut M) -> Result<Estimate, M::Error> {
    let most = 1_u64 << (machine.largest_region() + 4);
    rate(machine, |steps| {
        let bytes = (u64::from(steps) << 18).min(most);
        (Work::Copy { bytes }, 2.0 * bytes as f64)
    })
}

/// Seconds of a dispatch, and of a barrier before one.
fn dispatches<M: Machine>(machine: &mut M) -> Result<(Estimate, Estimate), M::Error> {
    const FEW: u32 = 32;
    const MORE: u32 = 32 + 256;
    // What a submission costs by itself is in both.
    let mut each = |barriers| -> Result<Estimate, M::Error> {
        let mut bounds = [FEW, MORE].map(|count| machine.seconds(Work::Dispatches { count, barriers })).into_iter();
        let mut sorted = || -> Result<Vec<f64>, M::Error> {
            let mut seconds = bounds.next().expect("two of them")?;
            seconds.sort_by(f64::total_cmp);
            Ok(seconds)
        };
        let (few, more) = (sorted()?, sorted()?);
        let at = |i: usize| (more[i] - few[few.len() / 2]).max(0.0) / f64::from(MORE - FEW);
        Ok(Estimate::range(at(0), at(more.len() / 2), at(more.len() - 1)))
    };
    let (launch, both) = (each(false)?, each(true)?);
    let barrier = |both: f64| (both - launch.mid).max(0.0);
    Ok((launch, Estimate::range(barrier(both.lo), barrier(both.mid), barrier(both.hi))))
}
