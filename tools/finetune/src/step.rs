//! One training step as one graph: forward, masked cross-entropy, backward, AdamW.
//!
//! Only supervised tokens reach the head: their rows are picked before it and padded to a fixed count. Padding rows are
//! multiplied by zero before the head and have zero labels. The loss op still divides by all rows, so its result is
//! multiplied by rows / supervised rows; the gradient flows through that product and is rescaled alike.

use std::collections::BTreeMap;

use ggml_host::gguf::Writer;
use ggml_host::{Backend, Context, Graph, Plan, Tensor, Type, Usage};

use crate::dataset::Sample;
use crate::error::Result;
use crate::forward::{Forward, Tokens};
use crate::lora::Lora;
use crate::model::{Hyper, Weights};
use crate::output::Output;

const BETA1: f32 = 0.9;
const BETA2: f32 = 0.999;
const EPSILON: f32 = 1e-8;
const WEIGHT_DECAY: f32 = 0.01;

/// Fixed extents of a step.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Tokens of a step, padding included.
    pub tokens: usize,
    /// Supervised rows of a step, padding included.
    pub rows: usize,
}

/// Tensors that the host writes. They live beside the adapter in the device's memory, outside of the graph's own.
pub struct Inputs<'c> {
    shape: Shape,
    tokens: Tokens<'c>,
    /// I32 `[rows]`: which tokens are supervised.
    rows: Tensor<'c>,
    /// F32 `[width, rows]`: 1 for supervised rows, 0 for padding.
    keep: Tensor<'c>,
    /// F32 `[vocabulary, rows]`: one-hot targets.
    labels: Tensor<'c>,
    /// F32 `[1]`: rows / supervised rows.
    rescale: Tensor<'c>,
    /// F32 `[1]`: gradient of the loss, always 1.
    seed: Tensor<'c>,
    /// F32 `[7]`: what AdamW needs.
    adamw: Tensor<'c>,
}

impl<'c> Inputs<'c> {
    /// Number of tensors that [`Inputs::new`] makes.
    pub const TENSORS: usize = 9;

    /// The inputs, without memory yet.
    pub fn new(context: &'c Context, h: &Hyper, shape: Shape) -> Result<Inputs<'c>> {
        let new = |name: &str, dtype, extents: &[usize]| context.tensor(dtype, extents).named(name);
        Ok(Inputs {
            shape,
            tokens: Tokens {
                ids: new("ids", Type::I32, &[shape.tokens])?,
                positions: new("positions", Type::I32, &[shape.tokens])?,
                mask: new("mask", Type::F32, &[shape.tokens, shape.tokens])?,
            },
            rows: new("rows", Type::I32, &[shape.rows])?,
            keep: new("keep", Type::F32, &[h.width, shape.rows])?,
            labels: new("labels", Type::F32, &[h.vocabulary, shape.rows])?,
            rescale: new("rescale", Type::F32, &[1])?,
            seed: new("loss_gradient", Type::F32, &[1])?,
            adamw: new("adamw", Type::F32, &[7])?,
        })
    }

    /// Uploads what is the same in every step.
    pub fn init(&self) -> Result<()> {
        let n = self.shape.tokens;
        let positions: Vec<i32> = (0..n as i32).collect();
        let mask: Vec<f32> = (0..n * n).map(|i| if i % n <= i / n { 0.0 } else { f32::NEG_INFINITY }).collect();
        self.tokens.positions.set_i32(&positions)?;
        self.tokens.mask.set_f32(&mask)?;
        self.seed.set_f32(&[1.0])?;
        Ok(())
    }

    /// Uploads a sample. Padding tokens stand behind the sample, where the causal mask hides them from it.
    fn set_sample(&self, sample: &Sample) -> Result<()> {
        let (width, vocabulary) = (self.keep.extents()[0], self.labels.extents()[0]);
        let mut ids = sample.inputs().to_vec();
        ids.resize(self.shape.tokens, 0);
        let mut rows = vec![0i32; self.shape.rows];
        let mut keep = vec![0.0f32; width * self.shape.rows];
        let mut labels = vec![0.0f32; vocabulary * self.shape.rows];
        for (i, (row, target)) in sample.targets().enumerate() {
            rows[i] = row as i32;
            keep[i * width..(i + 1) * width].fill(1.0);
            labels[i * vocabulary + target as usize] = 1.0;
        }
        self.tokens.ids.set_i32(&ids)?;
        self.rows.set_i32(&rows)?;
        self.keep.set_f32(&keep)?;
        self.labels.set_f32(&labels)?;
        self.rescale.set_f32(&[self.shape.rows as f32 / sample.targets().count() as f32])?;
        Ok(())
    }

    /// Uploads the optimizer's numbers for step `t`, from 1.
    fn set_adamw(&self, lr: f32, t: usize) -> Result<()> {
        let bias = |beta: f32| (1.0 / (1.0 - f64::from(beta).powf(t as f64))) as f32;
        self.adamw.set_f32(&[lr, BETA1, BETA2, EPSILON, WEIGHT_DECAY, bias(BETA1), bias(BETA2)])?;
        Ok(())
    }
}

/// What a step tells.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Mean cross-entropy over supervised tokens, before the update.
    pub loss: f32,
    /// Share of supervised tokens whose likeliest prediction is right, before the update.
    pub accuracy: f32,
}

/// Which results stay readable besides loss and predictions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// Gradients of the adapter.
    pub gradients: bool,
    /// Logits of the supervised rows.
    pub logits: bool,
}

/// The training step of a model, placed on backends.
pub struct Step<'a, 'c> {
    plan: Plan<'c>,
    inputs: &'a Inputs<'c>,
    lora: &'a Lora<'c>,
    logits: Tensor<'c>,
    best: Tensor<'c>,
    loss: Tensor<'c>,
    gradients: Vec<Tensor<'c>>,
    /// Pieces into which the scheduler cut the graph.
    pub splits: usize,
    /// Nodes that the CPU computes instead of the device.
    pub cpu_nodes: usize,
    /// Bytes of the graph's own memory on the device.
    pub compute_bytes: usize,
}

impl<'a, 'c> Step<'a, 'c> {
    /// Tensors and graph nodes that the step of a model of so many layers needs at most.
    pub fn room(layers: usize) -> (usize, usize) {
        let nodes = 256 + 384 * layers;
        (2 * nodes, nodes)
    }

    /// Builds the graph in `context` and places it on `backends`, the device first.
    pub fn new(
        context: &'c Context,
        hyper: &Hyper,
        weights: &'a Weights<'c>,
        lora: &'a Lora<'c>,
        inputs: &'a Inputs<'c>,
        backends: &[Backend],
        keep: Keep,
    ) -> Result<Step<'a, 'c>> {
        let mut graph = Graph::new(context, Step::room(hyper.layers).1);
        let forward = Forward { context, hyper, weights, lora };
        let hidden = forward.hidden(inputs.tokens);
        let picked = forward.norm(context.get_rows(hidden, inputs.rows), weights.output_norm);
        let logits = context.mul_mat(weights.head, context.mul(picked, inputs.keep)).named("logits")?;
        let best = context.argmax(logits).named("best")?.mark_output();
        let mean = context.cross_entropy_loss(logits, inputs.labels);
        let loss = context.mul(mean, inputs.rescale).named("loss")?.mark_loss().mark_output();
        if keep.logits {
            logits.mark_output();
        }
        graph.expand(best);
        graph.expand(loss);
        graph.backward(loss, inputs.seed)?;
        let mut gradients = Vec::new();
        for param in lora.params() {
            let no_gradient = || ggml_host::Error::Graph(format!("{:?} has no gradient", param.value));
            let gradient = graph.gradient(param.value).ok_or_else(no_gradient)?;
            if keep.gradients {
                gradient.mark_output();
            }
            gradients.push(gradient);
            graph.expand(context.opt_step_adamw(param.value, gradient, param.m, param.v, inputs.adamw));
        }
        let plan = Plan::new(backends, graph)?;
        let device = &backends[0];
        Ok(Step {
            splits: plan.splits(),
            cpu_nodes: plan.nodes_elsewhere(device).len(),
            compute_bytes: plan.compute_bytes(device),
            plan,
            inputs,
            lora,
            logits,
            best,
            loss,
            gradients,
        })
    }

    /// Trains on one sample; `t` is the number of the step, from 1. With a rate of 0 the adapter keeps its values.
    pub fn run(&mut self, sample: &Sample, lr: f32, t: usize) -> Result<Outcome> {
        self.inputs.set_sample(sample)?;
        self.inputs.set_adamw(lr, t)?;
        self.plan.compute()?;
        let loss = self.loss.get_f32()?[0];
        let best = self.best.get_i32()?;
        let targets = sample.targets().count();
        let hits = sample.targets().zip(&best).filter(|((_, target), best)| target == *best).count();
        Ok(Outcome { loss, accuracy: hits as f32 / targets as f32 })
    }

    /// Writes the gradients of the last run, under the names of the adapter's tensors. Needs [`Keep::gradients`].
    pub fn write_gradients(&self, out: Output) -> Result<()> {
        let mut file = Writer::new(self.gradients.len());
        for (param, gradient) in self.lora.params().zip(&self.gradients) {
            let mut bytes = vec![0u8; gradient.bytes()];
            gradient.get_bytes(0, &mut bytes)?;
            file.add(&param.value.name(), Type::F32, &gradient.extents()[..2], bytes)?;
        }
        out.write_gguf(&file)
    }

    /// Writes tokens, supervised rows and their logits of the last run. Needs [`Keep::logits`].
    pub fn write_logits(&self, sample: &Sample, out: Output) -> Result<()> {
        let le = |values: Vec<i32>| values.into_iter().flat_map(i32::to_le_bytes).collect::<Vec<u8>>();
        let tokens = sample.inputs();
        let rows: Vec<i32> = sample.targets().map(|(row, _)| row as i32).collect();
        let vocabulary = self.logits.extents()[0];
        let mut logits = vec![0u8; vocabulary * rows.len() * size_of::<f32>()];
        self.logits.get_bytes(0, &mut logits)?;
        let mut file = Writer::new(3);
        file.add("tokens", Type::I32, &[tokens.len()], le(tokens.to_vec()))?;
        file.add("logits", Type::F32, &[vocabulary, rows.len()], logits)?;
        file.add("rows", Type::I32, &[rows.len()], le(rows))?;
        out.write_gguf(&file)
    }

    /// One line per distinct op with its operands, and how often it occurs; most frequent kinds of op together.
    pub fn list_ops(&self) -> String {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for node in self.plan.graph().nodes() {
            *counts.entry(node.describe_op()).or_default() += 1;
        }
        counts.into_iter().map(|(op, n)| format!("{n:5}  {op}\n")).collect()
    }
}

/// Memory for adapter and inputs: allocates them on the device and uploads their start values.
pub fn allocate(context: &Context, backend: &Backend) -> Result<usize> {
    Ok(context.allocate(backend.device(), Usage::Any, "the adapter, its moments and the inputs")?)
}
