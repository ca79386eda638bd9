//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use ggml_host::Type;

use crate::error::{Error, Result};
use crate::lora::Module;

/// Fine-tunes a GGUF language model with LoRA on any ggml device, and writes the adapter as GGUF.
#[derive(Clone, Debug, Parser)]
#[command(name = "fblayout-finetune", version)]
pub struct Options {
    /// GGUF model of the llama architecture [default: SmolLM2-135M-Instruct, fetched into models/]
    #[arg(long, value_name = "PATH")]
    pub model: Option<PathBuf>,

    /// Type of the frozen base weights on the device; norm weights are always f32
    #[arg(long, value_name = "TYPE", default_value = "keep")]
    pub base_type: BaseType,

    /// Chat data, one JSON object {"messages": [{"role", "content"}, ...]} a line [default: the built-in FAQ]
    #[arg(long, value_name = "PATH")]
    pub data: Option<PathBuf>,

    /// ggml device that runs the training step
    #[arg(long, value_name = "NAME", default_value = "FBLayout0")]
    pub device: String,

    /// Number of optimizer steps, one dialogue each
    #[arg(long, value_name = "N", default_value_t = 60)]
    pub steps: usize,

    /// Tokens of a step; longer dialogues are left out, shorter ones padded
    #[arg(long, value_name = "N", default_value_t = 96)]
    pub seq: usize,

    /// Rank of the LoRA pairs
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub rank: usize,

    /// Strength of the adapter: its output is scaled by alpha / rank
    #[arg(long, value_name = "X", default_value_t = 16.0)]
    pub alpha: f32,

    /// Projections that get a LoRA pair: "all" or a list of q,k,v,o,gate,up,down
    #[arg(long, value_name = "LIST", default_value = "all")]
    pub modules: String,

    /// Learning rate of AdamW
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    pub lr: f32,

    /// Seed of the adapter's start values and of the order of the dialogues
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Jinja chat template [default: the model's own, else ChatML]
    #[arg(long, value_name = "FILE")]
    pub chat_template: Option<PathBuf>,

    /// Adapter to write
    #[arg(long, value_name = "PATH", default_value = "out/adapter.gguf")]
    pub out: PathBuf,

    /// Metrics to write, one JSON object a step
    #[arg(long, value_name = "PATH", default_value = "out/metrics.jsonl")]
    pub metrics: PathBuf,

    /// Question asked before and after training [default: the first one of the data]
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,

    /// ggml plugin to load when the device is not there without it
    /// [default: libggml-fblayout.so beside the executable, else libggml_fblayout.so]
    #[arg(long, value_name = "PATH")]
    pub plugin: Option<PathBuf>,

    /// Skip the answers before and after training
    #[arg(long)]
    pub no_generate: bool,

    /// Start values of the adapter (random: for comparing devices, since zero-b has no gradient for A at step 1)
    #[arg(long, value_name = "HOW", default_value = "zero-b", help_heading = "For tests")]
    pub init: Init,

    /// Write the gradients of step 1 as GGUF, under the adapter's tensor names
    #[arg(long, value_name = "FILE", help_heading = "For tests")]
    pub grads_out: Option<PathBuf>,

    /// Write the trained model's logits for the first dialogue as GGUF: tokens, rows (indices into tokens), logits
    #[arg(long, value_name = "FILE", help_heading = "For tests")]
    pub logits_out: Option<PathBuf>,

    /// Print the ops of the training graph with types, shapes and counts, and stop
    #[arg(long, help_heading = "For tests")]
    pub list_ops: bool,
}

/// What the frozen weights are turned into at load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum BaseType {
    /// The types of the file.
    Keep,
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// Blocks of 32 8-bit quants.
    #[value(name = "q8_0")]
    Q8_0,
}

impl BaseType {
    /// The type of a matrix that the file holds as `stored`.
    pub fn of(self, stored: Type) -> Type {
        match self {
            BaseType::Keep => stored,
            BaseType::F32 => Type::F32,
            BaseType::F16 => Type::F16,
            BaseType::Q8_0 => Type::Q8_0,
        }
    }
}

/// Start values of a LoRA pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Init {
    /// A random, B zero: training starts from the base model.
    ZeroB,
    /// Both random.
    Random,
}

impl Options {
    /// Checks what the types of the options cannot, and returns the modules to train.
    pub fn check(&self) -> Result<Vec<Module>> {
        let fail = |option, value: String, rule: &str| Err(Error::Option { option, value, rule: rule.to_owned() });
        if self.steps == 0 {
            return fail("--steps", self.steps.to_string(), "at least one step is needed");
        }
        if !(2..=65536).contains(&self.seq) {
            return fail("--seq", self.seq.to_string(), "must be from 2 to 65536 tokens");
        }
        if !(1..=1024).contains(&self.rank) {
            return fail("--rank", self.rank.to_string(), "must be from 1 to 1024");
        }
        if !(self.alpha.is_finite() && self.alpha > 0.0) {
            return fail("--alpha", self.alpha.to_string(), "must be a positive number");
        }
        if !(self.lr.is_finite() && self.lr >= 0.0) {
            return fail("--lr", self.lr.to_string(), "must be a number that is not negative");
        }
        Module::parse_list(&self.modules)
    }
}
