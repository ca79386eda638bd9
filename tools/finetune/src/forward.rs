//! The forward graph of a llama model with LoRA pairs.

use ggml_host::{Context, Tensor};

use crate::lora::{Lora, Module};
use crate::model::{Hyper, Weights};

/// What the forward pass reads besides weights.
#[derive(Clone, Copy)]
pub struct Tokens<'c> {
    /// I32 `[T]`.
    pub ids: Tensor<'c>,
    /// I32 `[T]`.
    pub positions: Tensor<'c>,
    /// F32 `[T, T]`: 0 where a token (row) may look at another (column), minus infinity elsewhere.
    pub mask: Tensor<'c>,
}

/// Builds forward passes in one context.
pub struct Forward<'a, 'c> {
    /// Context of the results.
    pub context: &'c Context,
    /// Shape of the model.
    pub hyper: &'a Hyper,
    /// Frozen weights.
    pub weights: &'a Weights<'c>,
    /// Trained pairs.
    pub lora: &'a Lora<'c>,
}

impl<'c> Forward<'_, 'c> {
    /// The residual stream above the last layer, `[width, T]`.
    pub fn hidden(&self, tokens: Tokens<'c>) -> Tensor<'c> {
        let c = self.context;
        let mut x = c.get_rows(self.weights.embedding, tokens.ids);
        for (il, layer) in self.weights.layers.iter().enumerate() {
            x = c.add(x, self.attention(il, self.norm(x, layer.attention_norm), tokens));
            x = c.add(x, self.feed_forward(il, self.norm(x, layer.feed_forward_norm)));
        }
        x
    }

    /// Normalized rows times a norm weight.
    pub fn norm(&self, x: Tensor<'c>, weight: Tensor<'c>) -> Tensor<'c> {
        self.context.mul(self.context.rms_norm(x, self.hyper.epsilon), weight)
    }

    /// `W x + scale * B (A x)`, in the order in which llama.cpp applies an adapter.
    fn linear(&self, layer: usize, module: Module, x: Tensor<'c>) -> Tensor<'c> {
        let c = self.context;
        let y = c.mul_mat(self.weights.layers[layer].projection(module), x);
        match self.lora.pair(layer, module) {
            Some(pair) => {
                let low = c.mul_mat(pair.a.value, x);
                c.add(y, c.scale(c.mul_mat(pair.b.value, low), self.lora.scale))
            }
            None => y,
        }
    }

    /// Causal attention with grouped heads. Queries and keys stay permuted views; only what ggml wants dense is copied:
    /// values as rows of `T`, and the result before its heads are joined.
    fn attention(&self, layer: usize, x: Tensor<'c>, tokens: Tokens<'c>) -> Tensor<'c> {
        let (c, h) = (self.context, self.hyper);
        let length = x.extents()[1];
        let heads = |module, n| c.reshape(self.linear(layer, module, x), [h.head_width, n, length, 1]);
        let rope = |x| c.rope(x, tokens.positions, self.weights.rope_factors, &h.rope);
        let q = c.permute(rope(heads(Module::Q, h.heads)), [0, 2, 1, 3]);
        let k = c.permute(rope(heads(Module::K, h.kv_heads)), [0, 2, 1, 3]);
        let v = c.cont(c.permute(heads(Module::V, h.kv_heads), [1, 2, 0, 3]));
        let scale = 1.0 / (h.head_width as f32).sqrt();
        let weights = c.soft_max(c.mul_mat(k, q), Some(tokens.mask), scale);
        let y = c.cont(c.permute(c.mul_mat(v, weights), [0, 2, 1, 3]));
        self.linear(layer, Module::O, c.reshape(y, [h.head_width * h.heads, length, 1, 1]))
    }

    fn feed_forward(&self, layer: usize, x: Tensor<'c>) -> Tensor<'c> {
        let gated = self.context.swiglu(self.linear(layer, Module::Gate, x), self.linear(layer, Module::Up, x));
        self.linear(layer, Module::Down, gated)
    }
}
