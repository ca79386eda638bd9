//! Training steps of a model on the device present, with its steps measured.

use std::path::Path;

use clap::Args;
use fblayout::engine::{Engine, EngineOptions, Tensor};
use fblayout::graph::{DType, ValueId};
use fblayout::roofline::Measured;
use fblayout_models::{Config, MODELS, Options, Training, contents, find, train_graph};

/// Which step is run, and how often.
#[derive(Args)]
pub struct Step {
    #[arg(long, help = format!("Run training steps of a model here: {}", MODELS.map(|m| m.name).join(", ")))]
    pub model: Option<String>,
    /// Layers that are left of the model
    #[arg(long, default_value_t = 2, requires = "model")]
    layers: u32,
    /// Tokens of its vocabulary that are left; the head's cost goes with them
    #[arg(long, default_value_t = 4096, requires = "model")]
    vocab: u32,
    /// Take the model's small form instead of its true widths
    #[arg(long, requires = "model", conflicts_with_all = ["layers", "vocab"])]
    tiny: bool,
    /// Tokens of the sequence
    #[arg(long, default_value_t = 128, requires = "model")]
    seq: u32,
    /// Rank of the LoRA pairs that are trained
    #[arg(long, default_value_t = 8, requires = "model")]
    rank: u32,
    /// Element type of the matrices that LoRA leaves frozen: f16 or q8_0
    #[arg(long, default_value = "f16", value_parser = base, requires = "model")]
    base: DType,
    /// Steps that are measured, after a first one
    #[arg(long, default_value_t = 9, requires = "model")]
    steps: u32,
    /// Number of the Vulkan device, as `fblayout doctor` lists them
    #[arg(long, default_value_t = 0, requires = "model")]
    adapter: usize,
}

fn base(name: &str) -> Result<DType, String> {
    match name {
        "f16" => Ok(DType::F16),
        "q8_0" => Ok(DType::Q8_0),
        _ => Err(format!("{name:?} is neither f16 nor q8_0")),
    }
}

/// Seed of weights and tokens.
const SEED: u64 = 1;

/// Runs a model's training step some times; what its steps took, which is also kept in a file.
pub fn run(model: &str, arguments: &Step, file: &Path) -> Result<Measured, Box<dyn std::error::Error>> {
    let &Step { layers, vocab, tiny, seq, rank, base, steps, adapter, .. } = arguments;
    let whole = find(model)?;
    let config = match tiny {
        true => whole.tiny(),
        false => Config { layers: layers.min(whole.layers), vocab: vocab.min(whole.vocab), ..whole },
    };
    let options = Options::new(1, seq, Training::Lora { rank, alpha: rank as f32, base });
    let train = train_graph(&config, &options)?;
    let engine =
        Engine::open(adapter, &EngineOptions { roofline: Some(file.to_owned()), ..EngineOptions::from_env()? })?;
    let mut externals: Vec<(ValueId, Tensor)> = Vec::new();
    for (id, bytes) in contents(&config, &options, &train, SEED)? {
        let desc = train.model.graph.values[id.index()].desc();
        let tensor = engine.create(desc.dtype, desc.shape)?;
        engine.write(&tensor, &bytes)?;
        externals.push((id, tensor));
    }
    let mut program = engine.compile(&train.model.graph, &externals)?;
    (0..=steps).try_for_each(|_| program.run())?;
    engine.keep_measured();
    Ok(Measured::read(engine.measured_file().unwrap_or(file))?)
}
