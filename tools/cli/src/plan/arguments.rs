//! What `fblayout plan` is asked.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use fblayout::device::PRESETS;
use fblayout::graph::DType;
use fblayout::plan::{Budget, HeadChoice, Objective, PlanOptions, Policy, Selector, StorageChoice};
use fblayout_models::{MODELS, Training};

use crate::model::Part;

#[derive(Args)]
pub struct Arguments {
    #[arg(long, help = format!("{}, or the path of a GGUF file", MODELS.map(|m| m.name).join(", ")))]
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
    /// Plan the forward pass and its loss alone, as for inference
    #[arg(long)]
    pub forward: bool,
    /// Element type of the matrices that LoRA leaves frozen; a file's own where it is a file's model, else f16
    #[arg(long, value_enum, conflicts_with = "full")]
    pub base: Option<Base>,
    #[arg(long, default_value = "present", help = format!(
        "present (this machine's first Vulkan device), measured (the same as `fblayout probe` found it), limits as JSON, or one of {}",
        PRESETS.each_ref().map(|p| p.name).join(", ")
    ))]
    pub device: String,
    /// What tensors live in: auto, buffer or image
    #[arg(long, default_value = "auto")]
    pub storage: StorageChoice,
    #[arg(long, default_value_t, help = format!("How layouts are treated: {}", Policy::ALL.map(|p| p.0).join(", ")))]
    pub policy: Policy,
    /// How the head and its loss are computed by policy full: whole, chunked, or in chunks of so many tokens at most
    #[arg(long, default_value = "chunked")]
    pub head: HeadChoice,
    #[arg(long, help = format!(
        "How layouts of computed tensors are selected: {}; chain-dp where a preset tells how fast the device is, rule elsewhere",
        Selector::ALL.map(|s| s.0).join(", ")
    ))]
    pub selector: Option<Selector>,
    /// What layouts are selected by: time, or paper, the mean efficiency weighted by operations that the paper maximises
    #[arg(long, default_value_t)]
    pub objective: Objective,
    /// Select among all tiles that have whole lanes, and tell what leaving out rules C1 to C3 costs in time
    #[arg(long)]
    pub no_pruning: bool,
    /// Plan again for sequences of so many tokens, with what is known from the first plan
    #[arg(long, value_name = "SEQ", conflicts_with = "recompute")]
    pub replan: Option<u32>,
    /// Compute values again instead of keeping them, until the step takes no more than --budget; without one, as little as it can
    #[arg(long)]
    pub recompute: bool,
    /// Bytes that the step may take, or KiB, MiB, GiB; it is refused where it takes more
    #[arg(long)]
    pub budget: Option<Budget>,
    /// Tell of one node: where its tensors live, what it dispatches, what that costs; by name, part of a name or #NUMBER
    #[arg(long, value_name = "NODE")]
    pub explain: Option<String>,
    /// Write a page that draws the step, and every policy beside it
    #[arg(long, value_name = "OUT")]
    pub html: Option<PathBuf>,
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
        let base = base.unwrap_or(Base::F16).into();
        if self.full { Training::Full } else { Training::Lora { rank, alpha: rank as f32, base } }
    }

    /// What of a step is planned.
    pub fn part(&self) -> Part {
        if self.forward { Part::Forward } else { Part::Step }
    }

    /// Whether the matrices of a file's model have the file's types.
    pub fn keeps_types(&self) -> bool {
        self.base.is_none() && !self.full
    }

    /// How a plan is made, by the policy and the rules that are asked for.
    pub fn options(&self) -> PlanOptions {
        let Self { storage, policy, no_pruning, objective, .. } = *self;
        PlanOptions { storage, policy, unpruned: no_pruning, objective, ..PlanOptions::default() }
    }
}
