//! `fblayout-bench transfer`: tensors written to the device present and read back, repacked by the processor and by the device, by the
//! host's clock: what a host waits for.

use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use fblayout::engine::{Engine, EngineOptions};
use fblayout::graph::{DType, Desc, Shape};
use fblayout::plan::{PlanOptions, StorageChoice};
use fblayout::vulkan::{GpuOptions, Repacking};
use serde::Serialize;

use crate::numbers::{Quantiles, mib, short};
use crate::table::Table;
use crate::{Failure, Measured};

/// Seconds of transfers that are counted, after the first, which builds pipelines.
const ENOUGH: f64 = 0.5;
const MOST_RUNS: usize = 50;

/// Activations of a prompt, and weights.
const SHAPES: [(DType, Shape); 6] = [
    (DType::F32, [2048, 512, 1, 1]),
    (DType::F32, [2048, 8192, 1, 1]),
    (DType::F16, [2048, 16384, 1, 1]),
    (DType::Q8_0, [2048, 16384, 1, 1]),
    (DType::Q4_1, [2048, 16384, 1, 1]),
    (DType::Q4_0, [2048, 16384, 1, 1]),
];

#[derive(Args)]
pub struct Arguments {
    #[command(flatten)]
    measured: Measured,
}

#[derive(Serialize)]
struct Told {
    /// How the numbers came about; always `measured`.
    stand: &'static str,
    device: String,
    driver: String,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    dtype: DType,
    shape: Shape,
    bytes: u64,
    storage: &'static str,
    /// Who was asked to repack; nobody need where texels are the host's bytes.
    by: &'static str,
    write_ms: f64,
    read_ms: f64,
}

/// Times and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut rows = Vec::new();
    let mut present = None;
    for (storage, kind) in [("buffer", StorageChoice::Buffer), ("image", StorageChoice::Image)] {
        let open = |repacking| {
            let options = EngineOptions::from_env()?;
            let gpu = GpuOptions { repacking, ..options.gpu };
            let plan = PlanOptions { storage: kind, ..options.plan };
            Engine::open(arguments.measured.adapter, &EngineOptions { gpu, plan, ..options })
        };
        for (by, repacking) in [("processor", Repacking::Host), ("device", Repacking::Device)] {
            let engine = open(repacking)?;
            for (dtype, shape) in SHAPES {
                let desc = Desc { dtype, shape };
                let (write_ms, read_ms) = timed(&engine, desc)?;
                let by = if engine.home(dtype, shape)?.is_linear() { "nobody" } else { by };
                rows.push(Row { dtype, shape, bytes: desc.bytes(), storage, by, write_ms, read_ms });
            }
            present = Some(engine.gpu().adapter().clone());
        }
    }
    let present = present.ok_or("no device was opened")?;
    let told = Told { stand: "measured", device: present.name, driver: present.driver, rows };
    eprintln!("measured on {} ({})", told.device, told.driver);
    arguments.measured.output.print(&told, &[told.table()])
}

/// Milliseconds that a write and a read take, in the median.
fn timed(engine: &Arc<Engine>, Desc { dtype, shape }: Desc) -> Result<(f64, f64), Failure> {
    let tensor = engine.create(dtype, shape)?;
    // Bytes of a period that no row has.
    let bytes: Vec<u8> = (0..tensor.desc().bytes()).map(|i| (i % 251) as u8).collect();
    let write = median(|| Ok(engine.write(&tensor, &bytes)?))?;
    let read = median(|| engine.read(&tensor).map(drop).map_err(Failure::from))?;
    if engine.read(&tensor)? != bytes {
        return Err(format!("{dtype:?} {shape:?} came back otherwise").into());
    }
    Ok((write, read))
}

fn median(mut call: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
    call()?;
    let mut times: Vec<f64> = Vec::new();
    while times.len() < MOST_RUNS && times.iter().sum::<f64>() < ENOUGH {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(1e3 * Quantiles::of(&times).ok_or("nothing was timed")?.median)
}

impl Told {
    fn table(&self) -> Table {
        let head = ["tensor", "MiB", "storage", "repacked by", "write ms", "GB/s", "read ms", "GB/s"];
        let mut table = Table::new("transfer", head);
        for Row { dtype, shape: [n0, n1, ..], bytes, storage, by, write_ms, read_ms } in &self.rows {
            let rate = |ms: &f64| short(*bytes as f64 / ms / 1e6);
            table.row([
                format!("{dtype:?} {n0} x {n1}"),
                mib(*bytes),
                (*storage).to_owned(),
                (*by).to_owned(),
                short(*write_ms),
                rate(write_ms),
                short(*read_ms),
                rate(read_ms),
            ]);
        }
        table
    }
}
