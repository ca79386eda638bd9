//! `fblayout-bench train`: LoRA steps of one host (`bench_train`) by our plugin and by a peer's backend, in turns on the device present.
//! The host builds the graph by the engine's own autodiff, so that both do the same work; ratios are of one session alone.

mod compare;
mod host;
mod place;
mod told;

use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use fblayout::engine::Engine;
use serde::Serialize;

use crate::numbers::{or_dash, short};
use crate::table::Table;
use crate::{Failure, Output};

use compare::{Compared, Contender, order};
use host::Host;
use told::Told;

/// How backends call their devices.
const OWN: &str = "FBLayout";
const PEER: &str = "Vulkan";

/// The shapes of the comparison.
const MODELS: [&str; 2] = ["llama1b", "qwen1.5b"];
const TOKENS: [u32; 2] = [128, 512];
const WEIGHTS: [&str; 2] = ["f16", "q8_0"];

#[derive(Args)]
pub struct Arguments {
    /// Folder of `bench_train`, the engine's libraries and the peer's backend
    #[arg(long, value_name = "DIR")]
    peers: PathBuf,
    /// Our plugin, built for that engine
    #[arg(long, value_name = "FILE")]
    plugin: PathBuf,
    /// Models of the host: llama1b, qwen1.5b or tiny; the first two if none is named
    #[arg(long = "model")]
    models: Vec<String>,
    /// Tokens; 128 and 512 if none are said
    #[arg(long = "seq")]
    tokens: Vec<u32>,
    /// Types of weights; f16 and q8_0 if none is named
    #[arg(long = "wtype")]
    weights: Vec<String>,
    /// Layers of the model
    #[arg(long, default_value_t = 2)]
    layers: u32,
    /// Turns of every contender
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Steps of a turn that are timed
    #[arg(long, default_value_t = 5)]
    steps: u32,
    /// Steps before them
    #[arg(long, default_value_t = 2)]
    warmup: u32,
    /// Seconds after which a turn is given up
    #[arg(long, default_value_t = 600)]
    timeout: u64,
    /// Our device, by the engine's name; the first one if it is not said
    #[arg(long, value_name = "NAME")]
    own_device: Option<String>,
    /// The peer's device, which may then be another than ours; the first one if it is not said
    #[arg(long, value_name = "NAME")]
    peer_device: Option<String>,
    /// Folder that the results are written to
    #[arg(long, value_name = "DIR", default_value = "tools/bench/results")]
    results: PathBuf,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Results {
    /// How the numbers came about; always `measured`.
    stand: &'static str,
    date: String,
    device: String,
    /// Of the device, where this process finds it as well.
    driver: Option<String>,
    peer_device: String,
    rounds: usize,
    steps: u32,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    #[serde(flatten)]
    job: Job,
    compared: Option<Compared>,
    /// Why it was not compared.
    refused: Option<String>,
    /// Every turn, in its order.
    runs: Vec<Run>,
}

#[derive(Serialize)]
struct Run {
    contender: Contender,
    #[serde(flatten)]
    told: Told,
}

/// One shape.
#[derive(Clone, Serialize)]
struct Job {
    model: String,
    seq: u32,
    wtype: String,
    layers: u32,
}

/// Runs in turns, keeps the results and prints the ratios.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.rounds == 0 {
        return Err("--rounds: a comparison takes at least one round".into());
    }
    let bench = Bench::open(arguments)?;
    eprintln!("measured on {} and {}", bench.own.description, bench.peer.description);
    let rows: Vec<Row> = arguments.jobs().into_iter().map(|job| bench.compared(job)).collect();
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let results = Results {
        stand: "measured",
        date: place::day(now),
        device: bench.own.description.clone(),
        driver: driver(&bench.own.description),
        peer_device: bench.peer.description.clone(),
        rounds: arguments.rounds,
        steps: arguments.steps,
        rows,
    };
    if let Some(Row { refused: Some(why), .. }) = results.rows.first()
        && results.rows.iter().all(|row| row.compared.is_none())
    {
        return Err(why.clone().into());
    }
    std::fs::create_dir_all(&arguments.results)?;
    let file = arguments.results.join(place::file_name(&results.date, &results.device));
    std::fs::write(&file, serde_json::to_string_pretty(&results)? + "\n")
        .map_err(|e| format!("{}: {e}", file.display()))?;
    eprintln!("kept in {}", file.display());
    arguments.output.print(&results, &[results.table()])
}

/// The driver of the Vulkan device of this name.
fn driver(device: &str) -> Option<String> {
    let adapters = Engine::adapters().ok()?;
    adapters.into_iter().find(|adapter| adapter.name == device).map(|adapter| adapter.driver)
}

impl Arguments {
    fn jobs(&self) -> Vec<Job> {
        let named = |given: &[String], all: &[&str]| -> Vec<String> {
            if given.is_empty() { all.iter().map(|&name| name.to_owned()).collect() } else { given.to_vec() }
        };
        let tokens = if self.tokens.is_empty() { TOKENS.to_vec() } else { self.tokens.clone() };
        let weights = named(&self.weights, &WEIGHTS);
        let mut jobs = Vec::new();
        for model in named(&self.models, &MODELS) {
            for &seq in &tokens {
                let of = |wtype: &String| Job { model: model.clone(), seq, wtype: wtype.clone(), layers: self.layers };
                jobs.extend(weights.iter().map(of));
            }
        }
        jobs
    }
}

/// The host and the devices of both sides.
struct Bench<'a> {
    arguments: &'a Arguments,
    host: Host,
    plugin: String,
    own: told::Device,
    peer: told::Device,
}

impl<'a> Bench<'a> {
    fn open(arguments: &'a Arguments) -> Result<Self, Failure> {
        let host = Host::in_folder(&arguments.peers, Duration::from_secs(arguments.timeout))?;
        let plugin =
            arguments.plugin.canonicalize().map_err(|e| format!("--plugin {}: {e}", arguments.plugin.display()))?;
        let plugin = plugin.to_str().ok_or("--plugin: its path is no text")?.to_owned();
        let devices = told::devices(&host.run(&["--list", "--load", &plugin])?);
        let own = told::device(&devices, arguments.own_device.as_deref(), OWN)?.clone();
        let peer = told::device(&devices, arguments.peer_device.as_deref(), PEER)?.clone();
        if arguments.peer_device.is_none() && own.description != peer.description {
            return Err(format!(
                "{} is {}, {} is {}: name two that are one with --own-device and --peer-device",
                own.name, own.description, peer.name, peer.description
            )
            .into());
        }
        Ok(Self { arguments, host, plugin, own, peer })
    }

    fn compared(&self, job: Job) -> Row {
        let mut runs: Vec<(Contender, Told)> = Vec::new();
        let mut failure = None;
        'rounds: for round in 0..self.arguments.rounds {
            for contender in order(round, &runs) {
                match self.turn(&job, contender) {
                    Ok(told) => {
                        eprintln!(
                            "{} {} {}: {contender:?} {} ms",
                            job.model,
                            job.seq,
                            job.wtype,
                            short(told.ms_median)
                        );
                        runs.push((contender, told));
                    }
                    Err(why) => {
                        failure = Some(why);
                        break 'rounds;
                    }
                }
            }
        }
        let compared = failure.map_or_else(|| Compared::of(&runs), Err);
        let (compared, refused) = match compared {
            Ok(compared) => (Some(compared), None),
            Err(why) => (None, Some(why)),
        };
        let runs = runs.into_iter().map(|(contender, told)| Run { contender, told }).collect();
        Row { job, compared, refused, runs }
    }

    /// A process of its own, so that no side finds what the other left.
    fn turn(&self, job: &Job, contender: Contender) -> Result<Told, String> {
        let [layers, seq, steps, warmup] =
            [job.layers, job.seq, self.arguments.steps, self.arguments.warmup].map(|n| n.to_string());
        let device = if contender.is_peer() { &self.peer } else { &self.own };
        let mut arguments = vec!["--dev", &device.name, "--model", &job.model, "--layers", &layers, "--seq", &seq];
        arguments.extend(["--wtype", &job.wtype, "--grad", contender.graph()]);
        arguments.extend(["--steps", &steps, "--warmup", &warmup]);
        if !contender.is_peer() {
            arguments.extend(["--load", &self.plugin]);
        }
        let told = told::result(&self.host.run(&arguments)?)?;
        let asked = (&*device.name, &*job.model, job.seq, &*job.wtype, contender.graph());
        match (&*told.dev, &*told.model, told.seq, &*told.wtype, &*told.grad) == asked {
            true => Ok(told),
            false => Err(format!("asked for {asked:?}, the host ran {told:?}")),
        }
    }
}

impl Results {
    fn table(&self) -> Table {
        let head = [
            "model",
            "tokens",
            "weights",
            "measured ms a step",
            "peer, stock graph",
            "peer, rewritten graph",
            "better peer over ours",
            "nodes on the CPU",
            "peer's",
            "losses differ by",
        ];
        let mut table = Table::new("train", head);
        for Row { job, compared, refused, .. } in &self.rows {
            let side = |contender| compared.as_ref().and_then(|compared| compared.side(contender));
            let ms = |contender| or_dash(side(contender).map(|side| short(side.median_ms)));
            let better = compared.as_ref().and_then(|compared| compared.side(compared.better_peer));
            let refused = refused.as_ref().map(|why| format!("refused: {}", why.lines().next().unwrap_or_default()));
            table.row([
                job.model.clone(),
                job.seq.to_string(),
                job.wtype.clone(),
                ms(Contender::Own),
                ms(Contender::PeerStock),
                ms(Contender::PeerRewritten),
                or_dash(compared.as_ref().map(|compared| format!("{:.2}", compared.ratio)).or(refused)),
                or_dash(side(Contender::Own).map(|side| side.cpu_nodes)),
                or_dash(better.map(|side| side.cpu_nodes)),
                or_dash(compared.as_ref().map(|compared| format!("{:.0e}", compared.loss_difference))),
            ]);
        }
        table
    }
}
