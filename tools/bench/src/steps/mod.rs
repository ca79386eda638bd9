//! `fblayout-bench steps`: training steps of a model cut to few layers at true widths, by every policy in both storages, measured in
//! turns on the device present.

mod contender;

use clap::Args;
use fblayout::engine::{Engine, EngineOptions};
use fblayout::graph::DType;
use fblayout::plan::{Policy, StorageChoice};
use fblayout_models::{Config, Options, Training, contents, train_graph};
use serde::Serialize;

use crate::numbers::{mib, or_dash, short};
use crate::plans::Way;
use crate::reference::{self, Machine};
use crate::table::Table;
use crate::{Failure, Output};

use contender::{Contender, Row};
pub use contender::{Stand, timed};

/// What tensors can live in.
pub const STORAGES: [(&str, StorageChoice); 2] = [("buffer", StorageChoice::Buffer), ("image", StorageChoice::Image)];

#[derive(Args)]
pub struct Arguments {
    /// Model whose widths are taken
    #[arg(long, default_value = "qwen2.5-1.5b")]
    model: String,
    /// Take the model's small form instead of its true widths
    #[arg(long)]
    tiny: bool,
    /// Layers that are left
    #[arg(long, default_value_t = 2)]
    layers: u32,
    /// Tokens of the vocabulary that are left; the head's cost goes with them
    #[arg(long, default_value_t = 4096)]
    vocab: u32,
    /// Tokens of the sequence
    #[arg(long, default_value_t = 128)]
    seq: u32,
    /// Type of the frozen weights
    #[arg(long, value_parser = reference::dtype, default_value = "f16")]
    dtype: DType,
    /// Train every weight, in F32, instead of LoRA pairs
    #[arg(long)]
    full: bool,
    /// Steps of every policy that are timed
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Policies; all if none is named
    #[arg(long = "policy")]
    policies: Vec<Policy>,
    /// Storages, buffer or image; both if none is named
    #[arg(long = "storage")]
    storages: Vec<String>,
    /// Preset that is the device present, so that layouts can be selected for it
    #[arg(long)]
    profile: Option<String>,
    /// Policies that are made ready at once; their plans, records and first steps then share the processors
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Number of the Vulkan device
    #[arg(long, default_value_t = 0)]
    adapter: usize,
    /// Seed of weights and tokens
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Told {
    /// How the numbers came about; always `measured`.
    stand: &'static str,
    device: String,
    driver: String,
    model: &'static str,
    layers: u32,
    vocab: u32,
    seq: u32,
    /// What is trained.
    training: String,
    rounds: usize,
    /// Policies that were made ready at once.
    jobs: usize,
    rows: Vec<Row>,
}

/// Runs, compares and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.rounds == 0 {
        return Err("--rounds: a comparison takes at least one round".into());
    }
    let config = cut(arguments)?;
    let training = match arguments {
        Arguments { full: true, .. } => Training::Full,
        // Its widths are no whole blocks of quantized types, but any other does.
        Arguments { tiny: true, .. } => Training::Lora { rank: 2, alpha: 2.0, base: DType::F32 },
        Arguments { dtype, .. } => {
            Training::Lora { rank: reference::RANK, alpha: reference::RANK as f32, base: *dtype }
        }
    };
    let options = Options::new(1, arguments.seq, training);
    let train = train_graph(&config, &options)?;
    let storages = storages(&arguments.storages)?;
    let profile = arguments.profile.as_deref().map(Machine::find).transpose()?.map(|machine| machine.profile);
    let stand = Stand { adapter: arguments.adapter, options: EngineOptions::from_env()?, profile };
    let adapters = Engine::adapters()?;
    let adapter =
        adapters.get(arguments.adapter).ok_or_else(|| format!("no device has number {}", arguments.adapter))?;
    eprintln!("measured on {} ({})", adapter.name, adapter.driver);

    let contents = contents(&config, &options, &train, arguments.seed)?;
    let ways = ways(&arguments.policies, profile.is_some());
    let all: Vec<_> = storages.iter().flat_map(|&storage| ways.iter().map(move |&way| (way, storage))).collect();
    let mut contenders = Vec::with_capacity(all.len());
    for some in all.chunks(arguments.jobs.max(1)) {
        contenders.extend(side_by_side(some, |(way, storage)| {
            Contender::new(&stand, way, storage, &train, &contents).map_err(|e| format!("{way} in {}s: {e}", storage.0))
        })?);
    }
    for round in 0..arguments.rounds {
        // Each has every place in the order once, as far as the rounds go.
        let n = contenders.len();
        (0..n).try_for_each(|i| contenders[(i + round) % n].round())?;
    }
    let own = contenders.iter().position(|c| c.way.policy == reference::POLICY).unwrap_or(0);
    let learned = contenders[own].learned().clone();
    let rows = contenders.into_iter().map(|c| c.finish(&learned)).collect::<Result<Vec<_>, _>>()?;
    let told = Told {
        stand: "measured",
        device: adapter.name.clone(),
        driver: adapter.driver.clone(),
        model: config.name,
        layers: config.layers,
        vocab: config.vocab,
        seq: arguments.seq,
        training: format!("{training:?}"),
        rounds: arguments.rounds,
        jobs: arguments.jobs,
        rows,
    };
    arguments.output.print(&told, &[told.table()])
}

/// What a task gives for each of these, each in a thread of its own.
fn side_by_side<T: Copy + Send, R: Send>(
    tasks: &[T],
    task: impl Fn(T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let task = &task;
    std::thread::scope(|scope| {
        let threads: Vec<_> = tasks.iter().map(|&of| scope.spawn(move || task(of))).collect();
        threads.into_iter().map(|thread| thread.join().map_err(|_| "a task panicked".to_owned())?).collect()
    })
}

/// The model with fewer layers and tokens; a model whose layers differ keeps at least one of each kind if it has two.
fn cut(arguments: &Arguments) -> Result<Config, Failure> {
    let config = fblayout_models::find(&arguments.model)?;
    let config = if arguments.tiny { config.tiny() } else { config };
    let Arguments { layers, vocab, .. } = *arguments;
    let sliding = config.sliding.map(|s| fblayout_models::Sliding { period: s.period.min(layers.max(1)), ..s });
    Ok(Config { layers: config.layers.min(layers), vocab: config.vocab.min(vocab), sliding, ..config })
}

/// The named storages, or both.
pub fn storages(names: &[String]) -> Result<Vec<(&'static str, StorageChoice)>, Failure> {
    if names.is_empty() {
        return Ok(STORAGES.to_vec());
    }
    let find = |name: &String| STORAGES.into_iter().find(|(known, _)| known == name);
    names
        .iter()
        .map(|name| find(name).ok_or_else(|| format!("storage {name:?} is not buffer or image").into()))
        .collect()
}

/// The policies by the rule, and the reference with layouts selected where the machine is known.
fn ways(policies: &[Policy], selecting: bool) -> Vec<Way> {
    let all: Vec<Policy> = if policies.is_empty() { reference::policies().collect() } else { policies.to_vec() };
    let selected = (selecting && all.contains(&reference::POLICY)).then(|| Way::selected(reference::POLICY));
    all.into_iter().map(Way::rule).chain(selected).collect()
}

impl Told {
    fn table(&self) -> Table {
        let mut table = Table::new(
            "steps",
            [
                "policy",
                "storage",
                "dispatches",
                "of them conversions",
                "measured ms a step",
                "p10–p90",
                "over the reference",
                "conversions ms",
                "% of all dispatches",
                "MiB",
                "plan ms",
                "record ms",
                "first step ms",
                "first and last loss",
                "loss differs by",
                "worst gradient by",
            ],
        );
        for row in &self.rows {
            let ours = |other: &&Row| other.storage == row.storage && other.way == Way::rule(reference::POLICY);
            let over =
                self.rows.iter().find(ours).map(|ours| format!("{:.2}", row.step_ms.median / ours.step_ms.median));
            table.row([
                row.way.to_string(),
                row.storage.to_owned(),
                row.dispatches.to_string(),
                row.conversions.to_string(),
                short(row.step_ms.median),
                format!("{}–{}", short(row.step_ms.p10), short(row.step_ms.p90)),
                or_dash(over),
                or_dash(row.timestamps.map(|t| short(t.conversions_ms))),
                or_dash(row.timestamps.map(|t| format!("{:.1}", 100.0 * t.conversions_ms / t.all_ms))),
                mib(row.peak_bytes),
                short(row.plan_ms),
                short(row.record_ms),
                short(row.first_step_ms),
                format!("{:.4}, {:.4}", row.loss, row.last_loss),
                format!("{:.0e}", row.loss_difference),
                format!("{:.0e}", row.gradient_difference),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_takes_part_and_the_reference_twice_where_it_can() {
        assert_eq!(ways(&[], false).len(), Policy::ALL.len());
        assert_eq!(ways(&[], true).len(), Policy::ALL.len() + 1);
        assert_eq!(ways(&[Policy::ConvertAlways], true), [Way::rule(Policy::ConvertAlways)]);
    }

    #[test]
    fn tasks_keep_their_order_and_errors() {
        let half = |n: u32| if n.is_multiple_of(2) { Ok(n / 2) } else { Err(format!("{n} is odd")) };
        assert_eq!(side_by_side(&[4, 2, 8], half), Ok(vec![2, 1, 4]));
        assert_eq!(side_by_side(&[4, 3, 8], half), Err("3 is odd".into()));
    }

    #[test]
    fn storages_are_named() {
        assert_eq!(storages(&["image".into()]).unwrap(), [STORAGES[1]]);
        assert!(storages(&["texture".into()]).unwrap_err().to_string().contains("texture"));
    }
}
