//! What tells one decoder model from another, as plain data.

use fblayout::graph::{Rope, RopeMode};

/// A decoder: token embedding, `layers` blocks of attention and gated feed-forward, a head.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Name by which [`crate::find`] knows it.
    pub name: &'static str,
    /// Blocks.
    pub layers: u32,
    /// Width of the residual stream.
    pub width: u32,
    /// Heads of queries.
    pub heads: u32,
    /// Heads of keys and values; each serves `heads / kv_heads` neighbouring heads of queries.
    pub kv_heads: u32,
    /// Width of a head; `heads * head_dim` need not be `width`.
    pub head_dim: u32,
    /// Width of the feed-forward.
    pub ffn: u32,
    /// Tokens.
    pub vocab: u32,
    /// Added to mean squares in every norm.
    pub norm_eps: f32,
    /// Rotary embedding of queries and keys.
    pub rotary: Rotary,
    /// Sliding-window attention of some layers; `None` when every layer looks at all earlier tokens.
    pub sliding: Option<Sliding>,
    /// Biases on queries, keys and values.
    pub qkv_bias: bool,
    /// Norms over each head of queries and keys, before the rotation.
    pub qk_norm: bool,
    /// Norms of what attention and feed-forward give, before it joins the residual stream.
    pub post_norms: bool,
    /// Activation of the feed-forward's gate.
    pub gate: Gate,
    /// Attention scores `s` become `cap * tanh(s / cap)` before the mask.
    pub score_cap: Option<f32>,
    /// Logits `x` become `cap * tanh(x / cap)`.
    pub logit_cap: Option<f32>,
    /// The head is the embedding table.
    pub tied_head: bool,
    /// Embeddings are multiplied by the square root of `width`.
    pub scaled_embedding: bool,
}

/// Activation of a gated feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Gate {
    /// `silu(gate) * up`
    SwiGlu,
    /// `gelu(gate) * up`, with the tanh form of GELU.
    GeGlu,
}

/// Rotary embedding of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// Which elements of a head are pairs.
    pub mode: RopeMode,
    /// Base of the angles.
    pub base: f32,
    /// Longest sequence the model was trained on.
    pub context: u32,
    /// Stretching of low frequencies.
    pub scaling: Option<Llama3Scaling>,
}

/// Llama 3's stretching: pairs that turn less than `low` times within `context` tokens are slowed by `factor`, those that turn more
/// than `high` times are left alone, with a smooth transition between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llama3Scaling {
    /// Divisor of low frequencies.
    pub factor: f32,
    /// Turns below which the divisor holds in full.
    pub low: f32,
    /// Turns above which there is none.
    pub high: f32,
    /// Tokens in which turns are counted.
    pub context: u32,
}

/// Sliding-window attention: in every `period` layers the last one is global, the others are local.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sliding {
    /// Tokens that a token of a local layer looks at, itself included.
    pub window: u32,
    /// Layers per global layer.
    pub period: u32,
    /// Base of the angles in local layers, where it is another.
    pub local_base: Option<f32>,
}

impl Config {
    /// Width of `n` heads side by side.
    pub fn heads_width(&self, n: u32) -> u32 {
        self.head_dim * n
    }

    /// Whether tokens of a layer look at all earlier tokens.
    pub fn is_global(&self, layer: u32) -> bool {
        self.sliding.is_none_or(|s| (layer + 1).is_multiple_of(s.period))
    }

    /// The rotation in a layer. Frequency divisors are an operand of their own, see [`Config::frequency_divisors`].
    pub fn rope(&self, layer: u32) -> Rope {
        let local_base = self.sliding.filter(|_| !self.is_global(layer)).and_then(|s| s.local_base);
        let Rotary { mode, context, base, .. } = self.rotary;
        Rope::plain(mode, self.head_dim, context, local_base.unwrap_or(base))
    }

    /// What each pair's frequency is divided by, `head_dim / 2` numbers; `None` for a model without such divisors.
    pub fn frequency_divisors(&self) -> Option<Vec<f32>> {
        let Llama3Scaling { factor, low, high, context } = self.rotary.scaling?;
        let divisor = |pair: u32| {
            let frequency = f64::from(self.rotary.base).powf(-2.0 * f64::from(pair) / f64::from(self.head_dim));
            let turns = f64::from(context) * frequency / std::f64::consts::TAU;
            let share = (turns - f64::from(low)) / f64::from(high - low);
            let kept = share.clamp(0.0, 1.0);
            1.0 / ((1.0 - kept) / f64::from(factor) + kept)
        };
        Some((0..self.head_dim / 2).map(|pair| divisor(pair) as f32).collect())
    }

    /// The same structure in small: two layers, one local and one global where layers differ, widths that are no whole texels.
    /// Head widths stay whole texels, as in every real model; the ratio of heads to kv heads is kept.
    pub fn tiny(&self) -> Self {
        let group = self.heads / self.kv_heads;
        let kv_heads = self.kv_heads.min(2);
        let scaling = self.rotary.scaling.map(|s| Llama3Scaling { context: 16, ..s });
        Self {
            layers: 2,
            width: 15,
            heads: group * kv_heads,
            kv_heads,
            head_dim: 8,
            ffn: 21,
            vocab: 37,
            rotary: Rotary { context: 16, scaling, ..self.rotary },
            sliding: self.sliding.map(|s| Sliding { window: 3, period: 2, ..s }),
            ..self.clone()
        }
    }
}
