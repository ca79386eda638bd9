//! A fine-tuning run from options to adapter.

use std::time::Instant;

use ggml_host::{Context, Device, forward_logs};

use crate::answers;
use crate::chat::Template;
use crate::dataset::{Dataset, Sample};
use crate::device;
use crate::error::{Error, Result};
use crate::fetch;
use crate::lora::{Lora, Module};
use crate::metrics::{Metrics, MetricsFile};
use crate::model::{ModelFile, Weights};
use crate::options::Options;
use crate::output::Output;
use crate::progress::Progress;
use crate::rng::Rng;
use crate::spans::Encoder;
use crate::step::{self, Inputs, Keep, Shape, Step};

/// Row counts are rounded up to a multiple of this, so that data sets of similar answers share a graph.
const ROW_STEP: usize = 8;
/// Stream of the random numbers that order the samples; adapter tensors count up from 0.
const ORDER_STREAM: u64 = u64::MAX;

/// Runs the program.
pub fn run(options: &Options) -> Result<()> {
    let modules = options.check()?;
    forward_logs();
    let path = match &options.model {
        Some(path) => path.clone(),
        None => fetch::default_model()?,
    };
    let file = ModelFile::open(&path)?;
    if options.seq > file.hyper.context {
        let rule = format!("the model's context has {} tokens", file.hyper.context);
        return Err(Error::Option { option: "--seq", value: options.seq.to_string(), rule });
    }
    let vocabulary_only = file.load_vocabulary()?;
    let vocabulary = vocabulary_only.vocabulary();
    let spelling = |token: Option<i32>| token.map(|t| vocabulary.spelling(t)).unwrap_or_default();
    let (begin, end) = (spelling(vocabulary.begin()), spelling(vocabulary.end()));
    let template = Template::choose(options.chat_template.as_deref(), file.chat_template.as_deref(), begin, end)?;
    let encoder = Encoder { vocabulary, template };
    let data = Dataset::read(options.data.as_deref(), &encoder, options.seq)?;
    println!("data: {}: {}", data.origin, data.account(options.seq));

    let device = device::choose(&options.device, options.plugin.as_deref())?;
    let adapter = train(options, &modules, &file, &data, device)?;
    if adapter == Written::Nothing {
        return Ok(());
    }
    println!("adapter: {}; metrics: {}", options.out.display(), options.metrics.display());
    let question = options.prompt.as_ref().or(data.first_question.as_ref());
    if let (Some(question), false) = (question, options.no_generate) {
        let answers = answers::compare(&path, &options.out, &encoder, question)?;
        println!("question: {question}");
        println!("before:   {}", answers.before.trim());
        println!("after:    {}", answers.after.trim());
    }
    Ok(())
}

/// Whether a run got as far as an adapter.
#[derive(PartialEq)]
enum Written {
    Adapter,
    Nothing,
}

fn train(options: &Options, modules: &[Module], file: &ModelFile, data: &Dataset, device: Device) -> Result<Written> {
    let h = &file.hyper;
    let backends = device::open(device)?;
    let frozen = Context::new(file.tensors(), 0);
    let weights = file.load(&frozen, device, options.base_type)?;

    let shape = Shape { tokens: options.seq, rows: data.most_targets().next_multiple_of(ROW_STEP) };
    let state = Context::new(Lora::tensors(h.layers, modules) + Inputs::TENSORS, 0);
    let lora = Lora::new(&state, h, modules, options.rank, options.alpha)?;
    let inputs = Inputs::new(&state, h, shape)?;
    let state_bytes = step::allocate(&state, &backends[0])?;
    lora.init(options.init, options.seed)?;
    inputs.init()?;

    let keep = Keep { gradients: options.grads_out.is_some(), logits: options.logits_out.is_some() };
    let (tensors, nodes) = Step::room(h.layers);
    let graph = Context::new(tensors, nodes);
    let mut step = Step::new(&graph, h, &weights, &lora, &inputs, &backends, keep)?;
    if options.list_ops {
        print!("{}", step.list_ops());
        return Ok(Written::Nothing);
    }
    report(options, device, &weights, &lora, &step, shape, state_bytes);

    let mut metrics = MetricsFile::create(&options.metrics)?;
    let adapter = Output::create(&options.out)?;
    let mut order = Order::new(options.seed, data.samples.len());
    let progress = Progress::new(options.steps);
    for t in 1..=options.steps {
        let sample = &data.samples[order.next()];
        let start = Instant::now();
        let outcome = step.run(sample, options.lr, t)?;
        let seconds = start.elapsed().as_secs_f64();
        if !outcome.loss.is_finite() {
            return Err(Error::Diverged { step: t, loss: outcome.loss });
        }
        if let (1, Some(path)) = (t, &options.grads_out) {
            step.write_gradients(Output::create(path)?)?;
        }
        let tokens = sample.inputs().len();
        let line = Metrics {
            step: t,
            loss: outcome.loss,
            accuracy: outcome.accuracy,
            lr: options.lr,
            tokens,
            tokens_per_s: tokens as f64 / seconds,
            splits: step.splits,
            cpu_nodes: step.cpu_nodes,
        };
        metrics.add(&line)?;
        progress.show(&line);
    }
    progress.finish();
    if let Some(path) = &options.logits_out {
        write_trained_logits(&mut step, &data.samples[0], options.steps, Output::create(path)?)?;
    }
    lora.write(file.architecture(), adapter)?;
    metrics.commit()?;
    Ok(Written::Adapter)
}

/// A run at rate 0 gives the logits of the trained adapter and leaves it as it is.
fn write_trained_logits(step: &mut Step<'_, '_>, sample: &Sample, steps: usize, out: Output) -> Result<()> {
    step.run(sample, 0.0, steps + 1)?;
    step.write_logits(sample, out)
}

fn report(
    o: &Options,
    device: Device,
    w: &Weights<'_>,
    lora: &Lora<'_>,
    step: &Step<'_, '_>,
    shape: Shape,
    state: usize,
) {
    let mib = |bytes: usize| bytes as f64 / (1024.0 * 1024.0);
    println!("device: {device:?}, ggml {}", ggml_host::engine_version());
    println!(
        "step: {} tokens, {} supervised rows, {} trained values (rank {}, alpha {}, {}); {} split(s), {} node(s) on the CPU instead",
        shape.tokens,
        shape.rows,
        lora.trained_values(),
        o.rank,
        o.alpha,
        o.modules,
        step.splits,
        step.cpu_nodes
    );
    println!(
        "memory: base weights {:.1} MiB ({:?}), adapter and inputs {:.1} MiB, graph {:.1} MiB",
        mib(w.bytes),
        o.base_type,
        mib(state),
        mib(step.compute_bytes)
    );
}

/// Goes through the samples in a new random order each epoch.
struct Order {
    rng: Rng,
    samples: usize,
    left: Vec<usize>,
}

impl Order {
    fn new(seed: u64, samples: usize) -> Order {
        Order { rng: Rng::new(seed, ORDER_STREAM), samples, left: Vec::new() }
    }

    fn next(&mut self) -> usize {
        if self.left.is_empty() {
            self.left = self.rng.permutation(self.samples);
        }
        self.left.pop().expect("a data set has at least one sample")
    }
}

#[cfg(test)]
mod tests {
    use super::Order;

    #[test]
    fn every_sample_comes_once_an_epoch() {
        let mut order = Order::new(5, 7);
        for _ in 0..3 {
            let mut epoch: Vec<usize> = (0..7).map(|_| order.next()).collect();
            epoch.sort_unstable();
            assert_eq!(epoch, [0, 1, 2, 3, 4, 5, 6]);
        }
    }
}
