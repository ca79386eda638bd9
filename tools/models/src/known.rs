//! The models by name, with the values of their published configurations.

use fblayout::graph::RopeMode;

use crate::{Config, Gate, Llama3Scaling, Rotary, Sliding};

/// The models.
pub const MODELS: [Config; 6] = [LLAMA_3_2_1B, QWEN_2_5_1_5B, QWEN_3_1_7B, GEMMA_2_2B, GEMMA_3_1B, SMOLLM2_135M];

/// A name that is no model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no model is named {name:?}; use one of {}", MODELS.map(|m| m.name).join(", "))]
pub struct UnknownModel {
    /// The name.
    pub name: String,
}

/// The model of that name.
pub fn find(name: &str) -> Result<Config, UnknownModel> {
    MODELS.into_iter().find(|m| m.name == name).ok_or_else(|| UnknownModel { name: name.to_owned() })
}

/// The common shape of Llama and its successors; the models below say how they differ.
const LLAMA_3_2_1B: Config = Config {
    name: "llama-3.2-1b",
    layers: 16,
    width: 2048,
    heads: 32,
    kv_heads: 8,
    head_dim: 64,
    ffn: 8192,
    vocab: 128_256,
    norm_eps: 1e-5,
    rotary: Rotary {
        // As GGUF files have it, whose converter reorders the rows of queries and keys.
        mode: RopeMode::Normal,
        base: 500_000.0,
        context: 131_072,
        scaling: Some(Llama3Scaling { factor: 32.0, low: 1.0, high: 4.0, context: 8192 }),
    },
    sliding: None,
    qkv_bias: false,
    qk_norm: false,
    post_norms: false,
    gate: Gate::SwiGlu,
    score_cap: None,
    logit_cap: None,
    tied_head: true,
    scaled_embedding: false,
};

const QWEN_2_5_1_5B: Config = Config {
    name: "qwen2.5-1.5b",
    layers: 28,
    width: 1536,
    heads: 12,
    kv_heads: 2,
    head_dim: 128,
    ffn: 8960,
    vocab: 151_936,
    norm_eps: 1e-6,
    rotary: Rotary { mode: RopeMode::Neox, base: 1e6, context: 131_072, scaling: None },
    qkv_bias: true,
    ..LLAMA_3_2_1B
};

const QWEN_3_1_7B: Config = Config {
    name: "qwen3-1.7b",
    layers: 28,
    width: 2048,
    heads: 16,
    kv_heads: 8,
    head_dim: 128,
    ffn: 6144,
    vocab: 151_936,
    norm_eps: 1e-6,
    rotary: Rotary { mode: RopeMode::Neox, base: 1e6, context: 40_960, scaling: None },
    qk_norm: true,
    ..LLAMA_3_2_1B
};

const GEMMA_2_2B: Config = Config {
    name: "gemma-2-2b",
    layers: 26,
    width: 2304,
    heads: 8,
    kv_heads: 4,
    head_dim: 256,
    ffn: 9216,
    vocab: 256_000,
    norm_eps: 1e-6,
    rotary: Rotary { mode: RopeMode::Neox, base: 10_000.0, context: 8192, scaling: None },
    sliding: Some(Sliding { window: 4096, period: 2, local_base: None }),
    post_norms: true,
    gate: Gate::GeGlu,
    score_cap: Some(50.0),
    logit_cap: Some(30.0),
    scaled_embedding: true,
    ..LLAMA_3_2_1B
};

const GEMMA_3_1B: Config = Config {
    name: "gemma-3-1b",
    layers: 26,
    width: 1152,
    heads: 4,
    kv_heads: 1,
    head_dim: 256,
    ffn: 6912,
    vocab: 262_144,
    norm_eps: 1e-6,
    rotary: Rotary { mode: RopeMode::Neox, base: 1e6, context: 32_768, scaling: None },
    sliding: Some(Sliding { window: 512, period: 6, local_base: Some(10_000.0) }),
    qk_norm: true,
    post_norms: true,
    gate: Gate::GeGlu,
    scaled_embedding: true,
    ..LLAMA_3_2_1B
};

const SMOLLM2_135M: Config = Config {
    name: "smollm2-135m",
    layers: 30,
    width: 576,
    heads: 9,
    kv_heads: 3,
    head_dim: 64,
    ffn: 1536,
    vocab: 49_152,
    norm_eps: 1e-5,
    rotary: Rotary { mode: RopeMode::Normal, base: 100_000.0, context: 8192, scaling: None },
    ..LLAMA_3_2_1B
};
