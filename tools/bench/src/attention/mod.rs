//! `fblayout-bench attention`: attention on the device present, forward and with its gradients, as products and a softmax and in one
//! sweep, timed by timestamps.

mod case;

use std::time::{Duration, Instant};

use clap::Args;
use fblayout::engine::{AttentionChoice, Engine, EngineOptions, Program, Tensor};
use fblayout::graph::{DType, Desc};
use fblayout::vulkan::TapeOptions;
use serde::Serialize;

use crate::gemm::data;
use crate::numbers::{Quantiles, mib, or_dash, short};
use crate::table::Table;
use crate::{Failure, Measured};

use case::{Case, Made, What};

/// A GPU's clock rises for tenths of a second: until then attention takes up to five times as long.
const WARM: Duration = Duration::from_millis(500);

/// Nanoseconds of runs that count, at least.
const ENOUGH: f64 = 50e6;

/// Most of them.
const MOST_RUNS: usize = 50;

#[derive(Args)]
pub struct Arguments {
    /// Tokens: queries and keys of one sequence
    #[arg(long = "tokens", value_name = "N", default_values_t = [512, 1024, 2048, 4096, 8192, 16384, 32768])]
    tokens: Vec<u32>,
    /// Queries, of the last tokens alone; all of them where none are given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    queries: Option<u32>,
    /// Elements of a head
    #[arg(long, default_value_t = 64)]
    size: u32,
    /// Heads of the queries
    #[arg(long, default_value_t = 32)]
    heads: u32,
    /// Heads of keys and values
    #[arg(long, default_value_t = 8)]
    kv_heads: u32,
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
    #[serde(flatten)]
    case: Case,
    #[serde(flatten)]
    times: Option<Times>,
    /// Why it was not timed.
    refused: Option<String>,
}

#[derive(Serialize)]
struct Times {
    runs: usize,
    median_us: f64,
    best_us: f64,
    /// Of pairs that see each other, by the median.
    tflops: f64,
    /// Memory for what is computed on the way.
    compute_bytes: u64,
    dispatches: usize,
    shaders: Vec<&'static str>,
}

/// Times and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = EngineOptions::from_env()?;
    let tape = TapeOptions { timing: true, ..options.tape };
    let engine =
        |attention| Engine::open(arguments.measured.adapter, &EngineOptions { attention, tape, ..options.clone() });
    let [unfused, fused] = [engine(AttentionChoice::Unfused)?, engine(AttentionChoice::Fused)?];
    let adapter = fused.gpu().adapter();
    if !fused.gpu().has_timestamps() {
        return Err(format!("{}: has no timestamps, by which dispatches are timed", adapter.name).into());
    }
    let (device, driver) = (adapter.name.clone(), adapter.driver.clone());
    eprintln!("measured on {device} ({driver})");
    let mut rows = Vec::new();
    for case in arguments.cases() {
        let engine = if case.fused { &fused } else { &unfused };
        let (times, refused) = match time(engine, &case) {
            Ok(times) => (Some(times), None),
            Err(why) => (None, Some(why.to_string())),
        };
        rows.push(Row { case, times, refused });
    }
    for engine in [&unfused, &fused] {
        match engine.gpu().validation_count() {
            0 => {}
            count => return Err(format!("{count} messages from validation").into()),
        }
    }
    let told = Told { stand: "measured", device, driver, rows };
    arguments.measured.output.print(&told, &[told.table()])
}

impl Arguments {
    fn cases(&self) -> Vec<Case> {
        let &Self { size, heads, kv_heads, .. } = self;
        let kinds = [(What::Forward, DType::F16), (What::Forward, DType::F32), (What::Training, DType::F32)];
        let of = |tokens: u32| {
            let queries = self.queries.map_or(tokens, |queries| queries.min(tokens));
            kinds.into_iter().flat_map(move |(what, dtype)| {
                [false, true].map(|fused| Case { what, fused, tokens, queries, size, heads, kv_heads, dtype })
            })
        };
        self.tokens.iter().copied().flat_map(of).collect()
    }
}

fn time(engine: &Engine, case: &Case) -> Result<Times, Failure> {
    let Made { graph, given, mask } = case.graph()?;
    // What has no room is told before anything is written.
    let plan = engine.plan(&graph)?;
    let compute_bytes = plan.report.arena_bytes;
    let room = engine.limits().heap_bytes;
    if plan.report.total_bytes() > room {
        return Err(format!("{} MiB, the device has {}", mib(plan.report.total_bytes()), mib(room)).into());
    }
    let mut externals = Vec::new();
    for (id, seed) in given.into_iter().zip(0..) {
        let desc = graph.values[id.index()].desc();
        externals.push((id, filled(engine, desc, &data::bytes(desc, seed)?)?));
    }
    let desc = graph.values[mask.index()].desc();
    externals.push((mask, filled(engine, desc, &case.mask())?));
    timed(engine.compile(&graph, &externals)?, case, compute_bytes)
}

fn filled(engine: &Engine, desc: Desc, bytes: &[u8]) -> Result<Tensor, Failure> {
    let tensor = engine.create(desc.dtype, desc.shape)?;
    engine.write(&tensor, bytes)?;
    Ok(tensor)
}

fn timed(mut program: Program, case: &Case, compute_bytes: u64) -> Result<Times, Failure> {
    let mut run = || -> Result<f64, Failure> {
        program.run()?;
        Ok(program.step_nanoseconds()?.ok_or("the tape took no timestamps")?.iter().sum())
    };
    let start = Instant::now();
    while start.elapsed() < WARM {
        run()?;
    }
    let mut counted: Vec<f64> = Vec::new();
    while counted.len() < MOST_RUNS && counted.iter().sum::<f64>() < ENOUGH {
        counted.push(run()?);
    }
    let median = Quantiles::of(&counted).ok_or("no run was timed")?.median;
    let best = counted.iter().copied().fold(f64::INFINITY, f64::min);
    let steps = &program.plan().steps;
    Ok(Times {
        runs: counted.len(),
        median_us: median / 1e3,
        best_us: best / 1e3,
        tflops: case.flops() / median / 1e3,
        compute_bytes,
        dispatches: steps.len(),
        shaders: steps.iter().map(|step| step.shader).collect(),
    })
}

impl Told {
    fn table(&self) -> Table {
        let head = [
            "attention",
            "tokens",
            "heads",
            "keys, values",
            "way",
            "measured µs",
            "best µs",
            "TFLOP/s",
            "compute MiB",
            "dispatches",
            "shaders",
        ];
        let mut table = Table::new("attention", head);
        for Row { case, times, refused } in &self.rows {
            let what = match case.what {
                What::Forward => "forward",
                What::Training => "forward and gradients",
            };
            let number = |of: fn(&Times) -> f64| or_dash(times.as_ref().map(|times| short(of(times))));
            let refused = refused.as_ref().map(|why| format!("refused: {why}"));
            table.row([
                what.to_owned(),
                case.tokens.to_string(),
                format!("{}/{} of {}", case.heads, case.kv_heads, case.size),
                format!("{:?}", case.dtype),
                if case.fused { "one sweep" } else { "products" }.to_owned(),
                number(|times| times.median_us),
                number(|times| times.best_us),
                number(|times| times.tflops),
                or_dash(times.as_ref().map(|times| mib(times.compute_bytes))),
                or_dash(times.as_ref().map(|times| times.dispatches)),
                or_dash(times.as_ref().map(|times| times.shaders.join(", ")).or(refused)),
            ]);
        }
        table
    }
}
