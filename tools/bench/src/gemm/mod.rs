//! `fblayout-bench gemm`: matrix products on the device present, timed by timestamps. Each product of a submission has factors of its
//! own, together more than caches hold, and waits for the one before it.

mod case;
mod clock;
pub mod data;
mod sets;

use clap::Args;
use fblayout::engine::EngineOptions;
use fblayout::graph::DType;
use fblayout::plan::{Policy, StorageChoice};
use fblayout::probe;
use serde::Serialize;

use crate::numbers::{or_dash, short};
use crate::reference::{self, dtype};
use crate::steps::storages;
use crate::table::Table;
use crate::{Failure, Measured};

use case::{Case, Direction, Size};
use clock::{Clock, Times};
use sets::{Set, Variants};

/// What products of given shapes are called where sets have names.
const SHAPES: &str = "shapes";

#[derive(Args)]
pub struct Arguments {
    /// Sets: gemm, gradient, gemv, lora, policies; all if neither a set nor a shape is named
    #[arg(long = "set")]
    sets: Vec<Set>,
    /// Products of this shape in the four directions, NxMxK: columns (tokens), rows, terms
    #[arg(long = "shape", value_name = "NxMxK")]
    shapes: Vec<Size>,
    /// Types of weights, as F16 or Q4_K; those of the sets if none is named
    #[arg(long = "dtype", value_parser = dtype)]
    dtypes: Vec<DType>,
    /// Type of right factors: F32, F16 or BF16
    #[arg(long, value_parser = dtype, default_value = "F32")]
    right: DType,
    /// Directions of the shapes and of set gemm: NN, NT, TN or TT (A, then B: N summed along its lanes, T across); all if none is named
    #[arg(long = "direction")]
    directions: Vec<Direction>,
    /// Storages, buffer or image; both if none is named
    #[arg(long = "storage")]
    storages: Vec<String>,
    /// Layout policies of the shapes and of set policies; full and all of them if none is named
    #[arg(long = "policy")]
    policies: Vec<Policy>,
    /// MiB of copies that the factors of a submission have together; 256, and 1024 of gemv, unless it is said
    #[arg(long, value_name = "MIB")]
    distinct: Option<u64>,
    /// Copies of the factors, whatever they have together
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    copies: Option<u32>,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Default, Serialize)]
struct Told {
    /// How the numbers came about; always `measured`.
    stand: &'static str,
    device: String,
    driver: String,
    /// Arithmetic in registers as `fblayout probe` found it, if it was kept.
    fma_tflops: Option<f64>,
    /// Bytes that a copy reads and writes, likewise.
    copy_gb_per_s: Option<f64>,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    case: Case,
    /// The graph's op, and what it sees transposed.
    op: String,
    #[serde(flatten)]
    times: Option<Times>,
    /// Why it was not timed.
    refused: Option<String>,
    /// Its rate over that of the first product of its group.
    over_first: Option<f64>,
}

/// Times and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let storages = storages(&arguments.storages)?;
    let cases = arguments.cases(&storages);
    let options = EngineOptions::from_env()?;
    let mut told = Told { stand: "measured", ..Told::default() };
    for cases in by_engine(cases) {
        let mut clock = Clock::open(arguments.measured.adapter, &options, &cases[0])?;
        if told.rows.is_empty() {
            let gpu = clock.engine().gpu();
            (told.device, told.driver) = (gpu.adapter().name.clone(), gpu.adapter().driver.clone());
            // A device that was never probed has no shares.
            let profile = probe::kept(gpu).ok();
            told.fma_tflops = profile.as_ref().map(|profile| profile.flops_f32.mid / 1e12);
            told.copy_gb_per_s = profile.map(|profile| profile.copy_rate.mid / 1e9);
            eprintln!("measured on {} ({})", told.device, told.driver);
        }
        told.rows.extend(arguments.timed(&mut clock, cases));
        match clock.engine().gpu().validation_count() {
            0 => {}
            count => return Err(format!("{count} messages from validation").into()),
        }
    }
    compare(&mut told.rows);
    if told.rows.iter().all(|row| row.times.is_none()) {
        let why = told.rows.first().and_then(|row| row.refused.clone()).unwrap_or_else(|| "nothing to time".into());
        return Err(why.into());
    }
    arguments.measured.output.print(&told, &told.tables())
}

impl Arguments {
    fn cases(&self, storages: &[(&'static str, StorageChoice)]) -> Vec<Case> {
        let Self { dtypes, right, directions, policies, .. } = self;
        let variants = Variants { storages, dtypes, right: *right, directions, policies };
        let sets = match (&self.sets[..], &self.shapes[..]) {
            ([], []) => Set::ALL.map(|(_, set)| set).to_vec(),
            (sets, _) => sets.to_vec(),
        };
        let policies = if policies.is_empty() { &[reference::POLICY][..] } else { policies };
        let of_shapes = policies.iter().flat_map(|&policy| {
            let cases = variants.in_directions(SHAPES, &self.shapes, &[DType::F16]);
            cases.into_iter().map(move |case| Case { policy, ..case })
        });
        sets.into_iter().flat_map(|set| variants.of(set)).chain(of_shapes).collect()
    }

    fn distinct(&self, case: &Case) -> u64 {
        self.distinct.unwrap_or(if case.set == "gemv" { 1024 } else { 256 }) << 20
    }

    /// Cases of one engine: all are planned, then their pipelines made, then those of one type of weights run one after the other.
    fn timed(&self, clock: &mut Clock, cases: Vec<Case>) -> Vec<Row> {
        let planned: Vec<_> = cases.iter().map(|case| clock.plan(case, self.distinct(case), self.copies)).collect();
        clock.prepare(planned.iter().flatten());
        let mut rows: Vec<Row> = Vec::new();
        for (case, planned) in cases.into_iter().zip(planned) {
            if rows.last().is_some_and(|Row { case: last, .. }| (last.set, last.dtype) != (case.set, case.dtype)) {
                clock.forget();
            }
            let times = planned.and_then(|planned| clock.record(planned)?.time(&case));
            let (times, refused) = match times {
                Ok(times) => (Some(times), None),
                Err(why) => (None, Some(why.to_string())),
            };
            rows.push(Row { op: case.direction.words(), case, times, refused, over_first: None });
        }
        rows
    }
}

/// The cases of each storage and policy, in their order.
fn by_engine(cases: Vec<Case>) -> Vec<Vec<Case>> {
    let key = |case: &Case| (case.storage, case.policy);
    let mut engines: Vec<Vec<Case>> = Vec::new();
    for case in cases {
        match engines.iter_mut().find(|others| key(&others[0]) == key(&case)) {
            Some(others) => others.push(case),
            None => engines.push(vec![case]),
        }
    }
    engines
}

/// Sets every row's rate over that of the first of its group.
fn compare(rows: &mut [Row]) {
    let key = |row: &Row| {
        let Case { set, group, storage, policy, .. } = row.case;
        (set, group, storage, policy)
    };
    for i in 0..rows.len() {
        let first = rows.iter().find(|row| key(row) == key(&rows[i])).and_then(|row| row.times.as_ref());
        let over = rows[i].times.as_ref().zip(first).map(|(own, first)| own.tflops / first.tflops);
        rows[i].over_first = over;
    }
}

impl Told {
    /// A table for each set.
    fn tables(&self) -> Vec<Table> {
        let sets = Set::ALL.into_iter().map(|(name, _)| name).chain([SHAPES]);
        sets.filter_map(|set| {
            let rows: Vec<&Row> = self.rows.iter().filter(|row| row.case.set == set).collect();
            (!rows.is_empty()).then(|| self.table(set, &rows))
        })
        .collect()
    }

    fn table(&self, set: &'static str, rows: &[&Row]) -> Table {
        let head = [
            "product",
            "direction",
            "op",
            "n x m x k",
            "weights",
            "storage",
            "policy",
            "copies",
            "measured µs",
            "best µs",
            "TFLOP/s",
            "GB/s",
            "over the first",
            "% of multiply-adds",
            "% of copies",
            "dispatches",
            "schedule",
        ];
        let mut table = Table::new(set, head);
        for Row { case, op, times, refused, over_first } in rows.iter().copied() {
            let number = |of: fn(&Times) -> f64| or_dash(times.as_ref().map(|times| short(of(times))));
            let share = |of: fn(&Times) -> f64, most: Option<f64>| {
                or_dash(times.as_ref().zip(most).map(|(times, most)| short(100.0 * of(times) / most)))
            };
            let refused = refused.as_ref().map(|why| format!("refused: {why}"));
            table.row([
                case.what.clone(),
                case.direction.name().to_owned(),
                op.clone(),
                case.size.to_string(),
                format!("{:?}", case.dtype),
                case.storage.to_owned(),
                case.policy.to_string(),
                or_dash(times.as_ref().map(|times| times.copies)),
                number(|times| times.median_us),
                number(|times| times.best_us),
                number(|times| times.tflops),
                number(|times| times.gb_per_s),
                or_dash(over_first.map(|over| format!("{over:.2}"))),
                share(|times| times.tflops, self.fma_tflops),
                share(|times| times.gb_per_s, self.copy_gb_per_s),
                or_dash(times.as_ref().map(|times| times.dispatches)),
                or_dash(times.as_ref().map(|times| times.schedule.clone()).or(refused)),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(set: &'static str, direction: Direction, dtype: DType, tflops: f64) -> Row {
        let size = Size { n: 1, m: 2, k: 3 };
        let case = Case {
            set,
            what: String::new(),
            group: 0,
            direction,
            size,
            dtype,
            right: DType::F32,
            storage: "buffer",
            choice: StorageChoice::Buffer,
            policy: Policy::Full,
        };
        let times = Times {
            copies: 1,
            products: 1,
            median_us: 1.0,
            best_us: 1.0,
            tflops,
            gb_per_s: 1.0,
            dispatches: 1,
            conversions: 0,
            schedule: String::new(),
        };
        Row { case, op: String::new(), times: Some(times), refused: None, over_first: None }
    }

    #[test]
    fn products_are_compared_with_the_first_of_their_group() {
        let mut rows = vec![
            row("gemm", case::NN, DType::F16, 4.0),
            row("gemm", case::TT, DType::F16, 1.0),
            row("gradient", case::NN, DType::F32, 2.0),
            row("policies", case::NN, DType::F16, 2.0),
            row("policies", case::TT, DType::F32, 3.0),
        ];
        rows[2].times = None;
        compare(&mut rows);
        let over: Vec<_> = rows.iter().map(|row| row.over_first).collect();
        assert_eq!(over, [Some(1.0), Some(0.25), None, Some(1.0), Some(1.5)]);
    }

    #[test]
    fn an_engine_is_opened_once_for_a_storage_and_policy() {
        let cases: Vec<Case> = ["buffer", "image", "buffer"]
            .map(|storage| Case { storage, ..row("gemm", case::NN, DType::F16, 1.0).case })
            .to_vec();
        let storages: Vec<Vec<_>> =
            by_engine(cases).iter().map(|cases| cases.iter().map(|case| case.storage).collect()).collect();
        assert_eq!(storages, [vec!["buffer", "buffer"], vec!["image"]]);
    }
}
