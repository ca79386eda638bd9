//! The forward pass: tokens to logits to masked cross entropy.

use fblayout::graph::{Binary, DType, Desc, Graph, Op, Operand, Shape, Unary, ValueId};

use crate::{Config, Error, Gate, Options, Training};

/// A model's graph up to its loss.
#[derive(Clone, Debug)]
pub struct Model {
    /// Forward pass and loss; the loss is kept.
    pub graph: Graph,
    /// Weights, and the pairs beside them, in the order of their first use.
    pub parameters: Vec<Parameter>,
    /// What a step reads besides parameters.
    pub inputs: Inputs,
    /// `[vocab, targets]`, after the cap.
    pub logits: ValueId,
    /// Mean cross entropy of the targets, a scalar.
    pub loss: ValueId,
}

/// A weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// As GGUF files name it; a pair's are `NAME.lora_a` and `NAME.lora_b`.
    pub name: String,
    /// Matrices are `[inputs, outputs]`.
    pub value: ValueId,
    /// Whether the step trains it.
    pub trained: bool,
}

impl Parameter {
    /// Whether it is one of a LoRA pair, which a model's file does not have.
    pub fn is_pair(&self) -> bool {
        self.name.ends_with(".lora_a") || self.name.ends_with(".lora_b")
    }
}

/// What a step reads besides parameters. Sequences of a batch follow each other; position p of sequence b is number `b * seq + p`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inputs {
    /// I32 `[batch * seq]`: ids of tokens.
    pub tokens: ValueId,
    /// I32 `[seq]`: positions in a sequence.
    pub positions: ValueId,
    /// F32 `[seq, seq]` (keys, queries), see [`causal_mask`]; `None` without global layers.
    pub mask: Option<ValueId>,
    /// The same for local layers.
    pub local_mask: Option<ValueId>,
    /// F32 `[head_dim / 2]`, see [`Config::frequency_divisors`].
    pub frequency_divisors: Option<ValueId>,
    /// I32 `[targets]`: numbers of the positions that the loss looks at.
    pub targets: ValueId,
    /// F32 `[vocab, targets]`: what each should predict, a distribution.
    pub labels: ValueId,
}

/// The mask of `seq` tokens in which each looks at itself and those before it, no further back than `window` tokens in all.
pub fn causal_mask(seq: u32, window: Option<u32>) -> Vec<f32> {
    let visible = |query: u32, key: u32| key <= query && window.is_none_or(|w| query - key < w);
    let row = |query| (0..seq).map(move |key| if visible(query, key) { 0.0 } else { f32::NEG_INFINITY });
    (0..seq).flat_map(row).collect()
}

/// Builds the graph of a model's loss.
///
/// # Errors
/// Options that make no sense, or a configuration whose tensors break a shape rule; both are named.
pub fn loss_graph(config: &Config, options: &Options) -> Result<Model, Error> {
    let tokens = options.tokens()?;
    let mut graph = Graph::new();
    let vector = |n| [n, 1, 1, 1];
    let Options { seq, targets, .. } = *options;
    let layers = || 0..config.layers;
    let mut mask = |name: &str, wanted: bool| wanted.then(|| graph.external(name, DType::F32, [seq, seq, 1, 1]));
    let (global, local) = (layers().any(|l| config.is_global(l)), layers().any(|l| !config.is_global(l)));
    let (mask, local_mask) = (mask("mask", global), mask("local_mask", local));
    let divisors = config.rotary.scaling.map(|_| vector(config.head_dim / 2));
    let inputs = Inputs {
        tokens: graph.external("tokens", DType::I32, vector(tokens)),
        positions: graph.external("positions", DType::I32, vector(seq)),
        mask,
        local_mask,
        frequency_divisors: divisors.map(|shape| graph.external("frequency_divisors", DType::F32, shape)),
        targets: graph.external("targets", DType::I32, vector(targets)),
        labels: graph.external("labels", DType::F32, [config.vocab, targets, 1, 1]),
    };
    let mut net = Net { config, options, graph, parameters: Vec::new(), inputs };
    let (logits, loss) = net.loss(tokens)?;
    let Net { mut graph, parameters, .. } = net;
    graph.keep(loss);
    Ok(Model { graph, parameters, inputs, logits, loss })
}

struct Net<'a> {
    config: &'a Config,
    options: &'a Options,
    graph: Graph,
    parameters: Vec<Parameter>,
    inputs: Inputs,
}

impl Net<'_> {
    /// Logits and loss.
    fn loss(&mut self, tokens: u32) -> Result<(ValueId, ValueId), Error> {
        let c = self.config;
        let table = self.matrix("token_embd", c.width, c.vocab);
        let ids = self.graph.whole(self.inputs.tokens);
        let mut x = self.op("embedding", Op::GetRows, &[table, ids])?;
        if c.scaled_embedding {
            x = self.scale("embedding_scaled", x, (c.width as f32).sqrt())?;
        }
        for layer in 0..c.layers {
            x = self.block(layer, x)?;
        }
        debug_assert_eq!(x.shape, [c.width, tokens, 1, 1]);

        let targets = self.graph.whole(self.inputs.targets);
        let picked = self.op("targets", Op::GetRows, &[x, targets])?;
        let picked = self.norm("output_norm", picked)?;
        let head = if c.tied_head { table } else { self.matrix("output", c.width, c.vocab) };
        let mut logits = self.op("logits", Op::MulMat, &[head, picked])?;
        if let Some(cap) = c.logit_cap {
            logits = self.cap("logits", logits, 1.0, cap)?;
        }
        let labels = self.graph.whole(self.inputs.labels);
        let loss = self.op("loss", Op::CrossEntropyLoss, &[logits, labels])?;
        Ok((logits.value, loss.value))
    }

    fn block(&mut self, layer: u32, x: Operand) -> Result<Operand, Error> {
        let name = |part: &str| format!("blk.{layer}.{part}");
        let normed = self.norm(&name("attn_norm"), x)?;
        let mut y = self.attention(layer, normed)?;
        if self.config.post_norms {
            y = self.norm(&name("post_attention_norm"), y)?;
        }
        let x = self.op(&name("attn_residual"), Op::Binary(Binary::Add), &[x, y])?;
        let normed = self.norm(&name("ffn_norm"), x)?;
        let mut y = self.feed_forward(layer, normed)?;
        if self.config.post_norms {
            y = self.norm(&name("post_ffw_norm"), y)?;
        }
        self.op(&name("ffn_residual"), Op::Binary(Binary::Add), &[x, y])
    }

    /// Causal attention with grouped heads: queries `[head_dim, seq, heads, batch]`, keys and values alike with kv heads.
    fn attention(&mut self, layer: u32, x: Operand) -> Result<Operand, Error> {
        let (c, Options { batch, seq, .. }) = (self.config, *self.options);
        let name = |part: &str| format!("blk.{layer}.{part}");
        let mut heads = |part: &str, n: u32| -> Result<Operand, Error> {
            let mut y = self.linear(&name(part), x, c.heads_width(n))?;
            if c.qkv_bias {
                let bias = self.vector(&format!("{}.bias", name(part)), c.heads_width(n));
                y = self.op(&name(&format!("{part}_biased")), Op::Binary(Binary::Add), &[y, bias])?;
            }
            Ok(y.reshape([c.head_dim, n, seq, batch])?)
        };
        let (q, k, v) = (heads("attn_q", c.heads)?, heads("attn_k", c.kv_heads)?, heads("attn_v", c.kv_heads)?);
        let q = self.rotated(layer, "attn_q", q)?.permute([0, 2, 1, 3])?;
        let k = self.rotated(layer, "attn_k", k)?.permute([0, 2, 1, 3])?;
        let v = v.permute([2, 0, 1, 3])?;

        let mut scores = self.op(&name("scores"), Op::MulMat, &[k, q])?;
        let mut scale = 1.0 / (c.head_dim as f32).sqrt();
        if let Some(cap) = c.score_cap {
            scores = self.cap(&name("scores"), scores, scale, cap)?;
            scale = 1.0;
        }
        let mask = if c.is_global(layer) { self.inputs.mask } else { self.inputs.local_mask };
        let mask = mask.map(|mask| self.graph.whole(mask));
        let operands: Vec<Operand> = [scores].into_iter().chain(mask).collect();
        let weights = self.op(&name("weights"), Op::soft_max(scale), &operands)?;
        let y = self.op(&name("heads"), Op::MulMat, &[v, weights])?;

        let joined = Desc::f32([c.heads_width(c.heads), seq * batch, 1, 1]);
        let y = self.graph.node_as(name("joined"), Op::Copy, vec![y.permute([0, 2, 1, 3])?], joined)?;
        let y = self.graph.whole(y);
        self.linear(&name("attn_output"), y, c.width)
    }

    /// Queries or keys with their norm, if any, and their rotation; `[head_dim, heads, seq, batch]`.
    fn rotated(&mut self, layer: u32, part: &str, x: Operand) -> Result<Operand, Error> {
        let name = format!("blk.{layer}.{part}");
        let x = if self.config.qk_norm { self.norm(&format!("{name}_norm"), x)? } else { x };
        let divisors = self.inputs.frequency_divisors.map(|id| self.graph.whole(id));
        let operands: Vec<Operand> = [x, self.graph.whole(self.inputs.positions)].into_iter().chain(divisors).collect();
        self.op(&format!("{name}_rotated"), Op::Rope(self.config.rope(layer)), &operands)
    }

    fn feed_forward(&mut self, layer: u32, x: Operand) -> Result<Operand, Error> {
        let c = self.config;
        let name = |part: &str| format!("blk.{layer}.{part}");
        let gate = self.linear(&name("ffn_gate"), x, c.ffn)?;
        let up = self.linear(&name("ffn_up"), x, c.ffn)?;
        let op = match c.gate {
            Gate::SwiGlu => Op::SwiGlu,
            Gate::GeGlu => Op::GeGlu,
        };
        let gated = self.op(&name("ffn_gated"), op, &[gate, up])?;
        self.linear(&name("ffn_down"), gated, c.width)
    }

    /// `W x`, and beside it `alpha / rank * B (A x)`.
    fn linear(&mut self, name: &str, x: Operand, outputs: u32) -> Result<Operand, Error> {
        let inputs = x.shape[0];
        let weight = self.matrix(name, inputs, outputs);
        let y = self.op(name, Op::MulMat, &[weight, x])?;
        let Training::Lora { rank, alpha, .. } = self.options.training else { return Ok(y) };
        let a = self.parameter(format!("{name}.weight.lora_a"), DType::F32, [inputs, rank, 1, 1], true);
        let b = self.parameter(format!("{name}.weight.lora_b"), DType::F32, [rank, outputs, 1, 1], true);
        let low = self.op(&format!("{name}.lora_a"), Op::MulMat, &[a, x])?;
        let pair = self.op(&format!("{name}.lora_b"), Op::MulMat, &[b, low])?;
        let pair = self.scale(&format!("{name}.lora"), pair, alpha / rank as f32)?;
        self.op(&format!("{name}.adapted"), Op::Binary(Binary::Add), &[y, pair])
    }

    /// Normalized rows times the norm's weight.
    fn norm(&mut self, name: &str, x: Operand) -> Result<Operand, Error> {
        let weight = self.vector(&format!("{name}.weight"), x.shape[0]);
        let rows = self.op(&format!("{name}.rows"), Op::RmsNorm { eps: self.config.norm_eps }, &[x])?;
        self.op(name, Op::Binary(Binary::Mul), &[rows, weight])
    }

    /// `cap * tanh(scale * x / cap)`
    fn cap(&mut self, name: &str, x: Operand, scale: f32, cap: f32) -> Result<Operand, Error> {
        let x = self.scale(&format!("{name}_scaled"), x, scale / cap)?;
        let x = self.op(&format!("{name}_tanh"), Op::Unary(Unary::Tanh), &[x])?;
        self.scale(&format!("{name}_capped"), x, cap)
    }

    fn scale(&mut self, name: &str, x: Operand, scale: f32) -> Result<Operand, Error> {
        self.op(name, Op::Scale { scale, bias: 0.0 }, &[x])
    }

    fn op(&mut self, name: &str, op: Op, inputs: &[Operand]) -> Result<Operand, Error> {
        let id = self.graph.node(name, op, inputs.to_vec())?;
        Ok(self.graph.whole(id))
    }

    fn matrix(&mut self, name: &str, inputs: u32, outputs: u32) -> Operand {
        let (dtype, trained) = match self.options.training {
            Training::Full => (DType::F32, true),
            Training::Lora { base, .. } => (base, false),
        };
        self.parameter(format!("{name}.weight"), dtype, [inputs, outputs, 1, 1], trained)
    }

    fn vector(&mut self, name: &str, extent: u32) -> Operand {
        let trained = self.options.training == Training::Full;
        self.parameter(name.to_owned(), DType::F32, [extent, 1, 1, 1], trained)
    }

    fn parameter(&mut self, name: String, dtype: DType, shape: Shape, trained: bool) -> Operand {
        let value = self.graph.external(name.clone(), dtype, shape);
        self.parameters.push(Parameter { name, value, trained });
        self.graph.whole(value)
    }
}
