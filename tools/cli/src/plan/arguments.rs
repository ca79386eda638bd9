//! What `fblayout plan` is asked.

use clap::{Args, ValueEnum};
use fblayout::graph::DType;
use fblayout::plan::{Policy, Selector, StorageChoice};
use fblayout_models::Training;

#[derive(Args)]
pub struct Arguments {
    /// llama-3.2-1b, qwen2.5-1.5b, qwen3-1.7b, gemma-2-2b or gemma-3-1b
    #[arg(long)]
    pub model: String,
    /// Tokens of a sequence
    #[arg(long, default_value_t = 512)]
    pub seq: u32,
    /// Sequences of a step
    #[arg(long, default_value_t = 1)]
    pub batch: u32,
    /// Rank of the LoRA pairs that are trained
    #[arg(long, default_value_t = 8, conflicts_with = "full")]
    pub rank: u32,
    /// Train every parameter, in F32
    #[arg(long)]
    pub full: bool,
    /// Element type of the matrices that LoRA leaves frozen
    #[arg(long, value_enum, default_value_t = Base::F16, conflicts_with = "full")]
    pub base: Base,
    /// present (this machine's first Vulkan device), a preset such as adreno-830, or limits as JSON
    #[arg(long, default_value = "present")]
    pub device: String,
    /// What tensors live in: auto, buffer or image
    #[arg(long, default_value = "auto")]
    pub storage: StorageChoice,
    /// How layouts are treated: rtile+maps, rtile, honest-rowmajor, layout-reuse or convert-always
    #[arg(long, default_value = "rtile+maps")]
    pub policy: Policy,
    /// How layouts of computed tensors are selected: rule, paper-greedy, chain-dp or pbqp; chain-dp where a preset tells how fast
    /// the device is, rule elsewhere
    #[arg(long)]
    pub selector: Option<Selector>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Base {
    F32,
    F16,
    #[value(name = "q8_0")]
    Q8,
    #[value(name = "q4_1")]
    Q4,
}

impl From<Base> for DType {
    fn from(base: Base) -> Self {
        match base {
            Base::F32 => Self::F32,
            Base::F16 => Self::F16,
            Base::Q8 => Self::Q8_0,
            Base::Q4 => Self::Q4_1,
        }
    }
}

impl Arguments {
    /// Alpha of llama.cpp's adapters when none is given is the rank; the plan does not depend on it.
    pub fn training(&self) -> Training {
        let Self { rank, base, .. } = *self;
        if self.full { Training::Full } else { Training::Lora { rank, alpha: rank as f32, base: base.into() } }
    }
}
