//! The micro-benchmarks on a Vulkan device: shaders `probe`, `probe_matrix`, `probe_matrix_bf16`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use fblayout_shaders::Shader;

use super::{Axis, GROUP, Machine, Unit, Work, profile};
use crate::device::{MatrixType, MatrixUnit, Profile};
use crate::kernels::StorageKind;
use crate::vulkan::{Error, Gpu, Operand, Pipeline, Step, Storage, TEXEL_BYTES, Tape, TapeOptions, Work as Do};

/// Runs of a piece of work that are timed, behind one that warms up.
const RUNS: usize = 5;
/// Subgroups of a workgroup that multiplies by matrix units, and products of a step of each: eight rounds of eight.
const MATRIX_SUBGROUPS: u32 = 4;
const MATRIX_PRODUCTS: u32 = 64;
/// Regions are at most 256 MiB, well beyond the caches of today's machines.
const LARGEST_REGION: u32 = 24;
/// Regions whose lines are measured have as many columns and rows, logarithms.
const SPREAD_REGION: [u32; 2] = [10, 10];

/// What the device does, by micro-benchmarks; takes seconds. The device must have nothing else to do.
///
/// # Errors
/// As running anything on the device: no memory for two regions, or a lost device.
pub fn measure(gpu: &Arc<Gpu>) -> Result<Profile, Error> {
    profile(&mut Device::new(gpu)?)
}

struct Device {
    gpu: Arc<Gpu>,
    /// Parameters, and the texel that no result ever gets to.
    exchange: Storage,
    /// A buffer and an image of the largest region, so that they are one size.
    regions: HashMap<StorageKind, Storage>,
    largest: u32,
}

impl Device {
    fn new(gpu: &Arc<Gpu>) -> Result<Self, Error> {
        let limits = gpu.limits();
        let bytes = limits.max_storage_buffer_range.min(limits.max_allocation).min(limits.max_bound_bytes);
        // Two regions and a copy; a device that is nearly full has smaller ones.
        let room = bytes.min(limits.heap_bytes / 8);
        let largest = (room / TEXEL_BYTES).max(1).ilog2().min(LARGEST_REGION).min(2 * limits.max_image_2d.ilog2());
        if largest < SPREAD_REGION[0] + SPREAD_REGION[1] {
            return Err(Error::invalid(
                format!("micro-benchmarks in regions of 2^{largest} texels"),
                "a storage of 16 MiB, eight times over",
            ));
        }
        let [columns, rows] = region(StorageKind::Image, largest);
        let mut regions = HashMap::new();
        let values = noise((TEXEL_BYTES as usize / size_of::<u64>()) << largest);
        for kind in [StorageKind::Buffer, StorageKind::Image] {
            let storage = gpu.create(kind, 1 << columns, 1 << rows)?;
            gpu.upload(&storage, bytemuck::cast_slice(&values))?;
            regions.insert(kind, storage);
        }
        let device = Self { gpu: Arc::clone(gpu), exchange: gpu.create_buffer(2, 1)?, regions, largest };
        // Ahead of all that is timed: while a driver compiles, the device's clock falls.
        for unit in [MatrixType::F16, MatrixType::Bf16].into_iter().filter_map(|factors| device.unit(factors)) {
            device.matrix_pipeline(&unit)?;
        }
        Ok(device)
    }

    fn pipeline(&self, work: u32, storage: StorageKind) -> Result<Arc<Pipeline>, Error> {
        let shader: &Shader = fblayout_shaders::get("probe").expect("the shader is in the manifest");
        self.gpu.pipeline(shader, &[(0, GROUP), (16, work), (17, u32::from(storage == StorageKind::Image))])
    }

    /// Seconds of a dispatch, each run of it behind a barrier.
    fn dispatch(
        &self,
        work: u32,
        kind: StorageKind,
        region: [u32; 2],
        groups: u32,
        [steps, stride]: [u32; 2],
    ) -> Result<Vec<f64>, Error> {
        let [columns, rows] = region;
        self.gpu.upload(&self.exchange, bytemuck::cast_slice(&[steps, columns, rows, stride, 0, 0, 0, 0]))?;
        let (pipeline, operands) = (self.pipeline(work, kind)?, self.operands(kind));
        self.steps(Do::Dispatch { pipeline: &pipeline, operands: &operands, groups: [groups, 1, 1] })
    }

    /// The unit of most multiplications.
    fn unit(&self, factors: MatrixType) -> Option<MatrixUnit> {
        let of_type = |unit: &&MatrixUnit| unit.factors == factors;
        self.gpu.limits().matrix_units.iter().filter(of_type).max_by_key(|unit| unit.m * unit.n * unit.k).copied()
    }

    /// Invocations of a workgroup of a unit's subgroups.
    fn invocations(&self, unit: &MatrixUnit) -> u32 {
        let most = unit.max_invocations.min(self.gpu.limits().largest_group()) / unit.subgroup;
        unit.subgroup * MATRIX_SUBGROUPS.min(most).max(1)
    }

    fn matrix_pipeline(&self, unit: &MatrixUnit) -> Result<Arc<Pipeline>, Error> {
        let name = match unit.factors {
            MatrixType::F16 => "probe_matrix",
            MatrixType::Bf16 => "probe_matrix_bf16",
        };
        let shader: &Shader = fblayout_shaders::get(name).expect("the shader is in the manifest");
        self.gpu.pipeline(shader, &[(0, self.invocations(unit)), (10, unit.m), (11, unit.n), (13, unit.k)])
    }

    fn matrices(&self, unit: &MatrixUnit, groups: u32, steps: u32) -> Result<Vec<f64>, Error> {
        let pipeline = self.matrix_pipeline(unit)?;
        self.gpu.upload(&self.exchange, bytemuck::cast_slice(&[steps, 0, 0, 0, 0, 0, 0, 0]))?;
        let operands = [Operand::new(0, &self.exchange)];
        self.steps(Do::Dispatch { pipeline: &pipeline, operands: &operands, groups: [groups, 1, 1] })
    }

    fn operands(&self, kind: StorageKind) -> [Operand<'_>; 2] {
        [Operand::new(0, &self.regions[&kind]), Operand::new(1, &self.exchange)]
    }

    fn steps(&self, work: Do<'_>) -> Result<Vec<f64>, Error> {
        let step = Step { work, barrier_before: true, discard: &[] };
        let timing = self.gpu.has_timestamps();
        let count = if timing { RUNS + 1 } else { 1 };
        let options = TapeOptions { timing, ..TapeOptions::default() };
        let mut tape = Tape::record(&self.gpu, &vec![step; count], &options)?;
        if !timing {
            return timed(&mut tape);
        }
        tape.submit()?;
        let nanoseconds = tape.step_nanoseconds()?.unwrap_or_default();
        Ok(nanoseconds.into_iter().skip(1).map(|t| t * 1e-9).collect())
    }
}

/// Seconds from submission to the end, by the host's clock.
fn timed(tape: &mut Tape) -> Result<Vec<f64>, Error> {
    let mut run = || -> Result<f64, Error> {
        let began = Instant::now();
        tape.submit()?;
        tape.wait()?;
        Ok(began.elapsed().as_secs_f64())
    };
    run()?;
    (0..RUNS).map(|_| run()).collect()
}

impl Machine for Device {
    type Error = Error;

    fn seconds(&mut self, work: Work) -> Result<Vec<f64>, Error> {
        match work {
            Work::Arithmetic { unit, groups, steps } => {
                let number = match unit {
                    Unit::Fma => 0,
                    Unit::Add => 1,
                    Unit::Mul => 2,
                    Unit::MulHigh => 3,
                };
                self.dispatch(number, StorageKind::Buffer, [0, 0], groups, [steps, 0])
            }
            Work::Matrices { factors, groups, steps } => {
                let unit = self.unit(factors).expect("only units that are there are asked");
                self.matrices(&unit, groups, steps)
            }
            Work::Stream { storage, texels, groups, steps } => {
                self.dispatch(4, storage, region(storage, texels), groups, [steps, 1])
            }
            Work::Spread { storage, axis, stride, groups, steps } => {
                let number = if axis == Axis::X { 5 } else { 6 };
                self.dispatch(number, storage, SPREAD_REGION, groups, [steps, stride])
            }
            Work::Copy { bytes } => {
                const WIDTH: u32 = 1024;
                let rows = (bytes / TEXEL_BYTES / u64::from(WIDTH)) as u32;
                let [from, to] = [self.gpu.create_buffer(WIDTH, rows)?, self.gpu.create_buffer(WIDTH, rows)?];
                self.steps(Do::Copy { from: &from, to: &to })
            }
            Work::Dispatches { count, barriers } => {
                self.gpu.upload(&self.exchange, bytemuck::cast_slice(&[0_u32; 8]))?;
                let pipeline = self.pipeline(0, StorageKind::Buffer)?;
                let operands = self.operands(StorageKind::Buffer);
                let work = Do::Dispatch { pipeline: &pipeline, operands: &operands, groups: [1, 1, 1] };
                let step = Step { work, barrier_before: barriers, discard: &[] };
                timed(&mut Tape::record(&self.gpu, &vec![step; count as usize], &TapeOptions::default())?)
            }
        }
    }

    fn matrix_operations(&self, factors: MatrixType) -> Option<f64> {
        self.unit(factors).map(|unit| {
            let subgroups = self.invocations(&unit) / unit.subgroup;
            f64::from(subgroups * MATRIX_PRODUCTS) * 2.0 * f64::from(unit.m * unit.n * unit.k)
        })
    }

    fn subgroups(&self) -> [u32; 2] {
        [self.gpu.limits().subgroup_size; 2]
    }

    fn largest_region(&self) -> u32 {
        self.largest
    }
}

/// Logarithms of the columns and rows of a region: a row of a buffer, about a square of an image.
fn region(storage: StorageKind, texels: u32) -> [u32; 2] {
    match storage {
        StorageKind::Buffer => [texels, 0],
        StorageKind::Image => [texels.div_ceil(2), texels / 2],
    }
}

/// Words that no machine compresses.
fn noise(words: usize) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..words).map(|_| next()).collect()
}
