//! One policy in one storage on the device present: compiled, run, read, timed.

use std::sync::Arc;
use std::time::Instant;

use fblayout::device::Profile;
use fblayout::engine::{Engine, EngineOptions, Program, Tensor};
use fblayout::graph::{Graph, ValueId, decode};
use fblayout::plan::{Selector, StorageChoice};
use fblayout::vulkan::TapeOptions;
use fblayout_models::{BETA1, TrainGraph};
use serde::Serialize;

use crate::Failure;
use crate::numbers::Quantiles;
use crate::plans::Way;

/// Timed runs whose dispatches are looked at one by one.
const TIMED_RUNS: usize = 3;

/// A policy at work.
pub struct Contender<'a> {
    pub way: Way,
    pub storage: &'static str,
    train: &'a TrainGraph,
    engine: Arc<Engine>,
    tensors: Vec<(ValueId, Tensor)>,
    program: Program,
    plan_ms: f64,
    record_ms: f64,
    first_ms: f64,
    rounds_ms: Vec<f64>,
    learned: Learned,
}

/// What the first step found out.
#[derive(Clone, Debug)]
pub struct Learned {
    loss: f64,
    /// Of every trained tensor.
    gradients: Vec<Vec<f64>>,
}

/// What is told of a contender; all of it measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub way: Way,
    pub storage: &'static str,
    pub dispatches: usize,
    /// Dispatches that only move bytes.
    pub conversions: usize,
    /// A step, from submission to the end.
    pub step_ms: Quantiles,
    /// Time of the conversions and of all dispatches by timestamps, medians of runs of their own.
    pub timestamps: Option<Timestamps>,
    /// Bytes of the device's memory that the process holds for this contender.
    pub peak_bytes: u64,
    /// From the graph to the plan.
    pub plan_ms: f64,
    /// From the plan to a recorded tape: memory, pipelines.
    pub record_ms: f64,
    /// The first step.
    pub first_step_ms: f64,
    pub loss: f64,
    /// Of the last round.
    pub last_loss: f64,
    /// Relative difference of the loss to the reference's.
    pub loss_difference: f64,
    /// Greatest relative difference (2-norms) of a trained tensor's gradient to the reference's.
    pub gradient_difference: f64,
}

/// Milliseconds by timestamps.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timestamps {
    pub conversions_ms: f64,
    pub all_ms: f64,
}

/// Where and how contenders run.
pub struct Stand {
    pub adapter: usize,
    pub options: EngineOptions,
    /// What the machine is like, for ways that select.
    pub profile: Option<&'static Profile>,
}

impl Stand {
    /// An engine for a way.
    pub fn open(&self, way: Way, storage: StorageChoice) -> Result<Arc<Engine>, Failure> {
        let selection = match (way.selector, self.profile) {
            (Selector::Rule, _) => None,
            (selector, Some(profile)) => Some((selector, profile)),
            (_, None) => return Err("selecting layouts takes --profile".into()),
        };
        let mut options = EngineOptions { selection, ..self.options.clone() };
        options.plan.storage = storage;
        options.plan.policy = way.policy;
        Ok(Engine::open(self.adapter, &options)?)
    }
}

impl<'a> Contender<'a> {
    /// Compiles the step, runs it once and reads what it learned.
    pub fn new(
        stand: &Stand,
        way: Way,
        (storage, choice): (&'static str, StorageChoice),
        train: &'a TrainGraph,
        contents: &[(ValueId, Vec<u8>)],
    ) -> Result<Self, Failure> {
        let graph = &train.model.graph;
        let engine = stand.open(way, choice)?;
        let tensors = contents.iter().map(|(id, bytes)| tensor(&engine, graph, *id, bytes));
        let tensors = tensors.collect::<Result<Vec<_>, Failure>>()?;
        let (plan, plan_ms) = timed(|| Ok(engine.plan(graph)?))?;
        let (mut program, record_ms) = timed(|| Ok(engine.realise(graph, plan, &tensors)?))?;
        let ((), first_ms) = timed(|| Ok(program.run()?))?;
        let learned = Learned::read(&engine, &program, train, &tensors)?;
        let rounds_ms = Vec::new();
        Ok(Self { way, storage, train, engine, tensors, program, plan_ms, record_ms, first_ms, rounds_ms, learned })
    }

    /// Runs one step on the clock.
    pub fn round(&mut self) -> Result<(), Failure> {
        let ((), ms) = timed(|| Ok(self.program.run()?))?;
        self.rounds_ms.push(ms);
        Ok(())
    }

    pub fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Looks at the dispatches one by one, and tells all.
    pub fn finish(self, reference: &Learned) -> Result<Row, Failure> {
        let Self { way, storage, train, engine, tensors, program, plan_ms, record_ms, first_ms, rounds_ms, learned } =
            self;
        let peak_bytes = engine.gpu().memory().in_use;
        let steps = &program.plan().steps;
        let (dispatches, conversions) = (steps.len(), steps.iter().filter(|s| s.conversion).count());
        let last_loss = read_loss(&engine, &program, train)?;
        drop(program);
        let timestamps = timestamps(&engine, &train.model.graph, &tensors)?;
        match engine.gpu().validation_count() {
            0 => {}
            count => return Err(format!("{way} in {storage}s: {count} messages from validation").into()),
        }
        Ok(Row {
            way,
            storage,
            dispatches,
            conversions,
            step_ms: Quantiles::of(&rounds_ms).ok_or("no step was timed")?,
            timestamps,
            peak_bytes,
            plan_ms,
            record_ms,
            first_step_ms: first_ms,
            loss: learned.loss,
            last_loss,
            loss_difference: (learned.loss - reference.loss).abs() / reference.loss.abs(),
            gradient_difference: learned.gradient_difference(reference),
        })
    }
}

impl Learned {
    fn read(
        engine: &Engine,
        program: &Program,
        train: &TrainGraph,
        tensors: &[(ValueId, Tensor)],
    ) -> Result<Self, Failure> {
        let loss = read_loss(engine, program, train)?;
        let gradient = |moment: ValueId| -> Result<Vec<f64>, Failure> {
            let (_, tensor) = tensors.iter().find(|(id, _)| *id == moment).ok_or("a moment has no tensor")?;
            Ok(numbers(engine, tensor)?.into_iter().map(|m| m / f64::from(1.0 - BETA1)).collect())
        };
        let gradients = train.updates.iter().map(|update| gradient(update.m)).collect::<Result<Vec<_>, _>>()?;
        if gradients.iter().flatten().any(|g| !g.is_finite()) {
            return Err("the step is not finite".into());
        }
        Ok(Self { loss, gradients })
    }

    fn gradient_difference(&self, reference: &Self) -> f64 {
        let norm = |numbers: &mut dyn Iterator<Item = f64>| numbers.map(|x| x * x).sum::<f64>().sqrt();
        let pairs = self.gradients.iter().zip(&reference.gradients);
        let relative = pairs.map(|(own, reference)| {
            let distance = norm(&mut own.iter().zip(reference).map(|(a, b)| a - b));
            distance / norm(&mut reference.iter().copied()).max(f64::MIN_POSITIVE)
        });
        relative.fold(0.0, f64::max)
    }
}

fn numbers(engine: &Engine, tensor: &Tensor) -> Result<Vec<f64>, Failure> {
    Ok(decode(tensor.desc().dtype, &engine.read(tensor)?)?)
}

/// The loss of the last step, if it is finite.
fn read_loss(engine: &Engine, program: &Program, train: &TrainGraph) -> Result<f64, Failure> {
    let loss = numbers(engine, program.kept(train.model.loss).ok_or("the loss is not kept")?)?[0];
    if loss.is_finite() { Ok(loss) } else { Err(format!("the loss is {loss}").into()) }
}

fn tensor(engine: &Engine, graph: &Graph, id: ValueId, bytes: &[u8]) -> Result<(ValueId, Tensor), Failure> {
    let desc = graph.values[id.index()].desc();
    let tensor = engine.create(desc.dtype, desc.shape)?;
    engine.write(&tensor, bytes)?;
    Ok((id, tensor))
}

/// Medians over a few runs that take a timestamp after every dispatch; nothing where the device has none.
fn timestamps(engine: &Engine, graph: &Graph, tensors: &[(ValueId, Tensor)]) -> Result<Option<Timestamps>, Failure> {
    let tape = TapeOptions { timing: true, ..TapeOptions::default() };
    let Ok(mut program) = engine.realise_as(graph, engine.plan(graph)?, tensors, &tape) else { return Ok(None) };
    let (mut conversions, mut all) = (Vec::new(), Vec::new());
    for _ in 0..TIMED_RUNS {
        program.run()?;
        let Some(nanoseconds) = program.step_nanoseconds()? else { return Ok(None) };
        let steps = program.plan().steps.iter().zip(&nanoseconds);
        let moving = steps.filter(|(step, _)| step.conversion).map(|(_, ns)| ns);
        // An empty sum of floats is -0.
        conversions.push(0.0 + moving.sum::<f64>() / 1e6);
        all.push(nanoseconds.iter().sum::<f64>() / 1e6);
    }
    let median = |ms: &[f64]| Quantiles::of(ms).map(|q| q.median);
    Ok(median(&conversions).zip(median(&all)).map(|(conversions_ms, all_ms)| Timestamps { conversions_ms, all_ms }))
}

/// What a task gives, and its milliseconds.
pub fn timed<T>(task: impl FnOnce() -> Result<T, Failure>) -> Result<(T, f64), Failure> {
    let start = Instant::now();
    let done = task()?;
    Ok((done, 1e3 * start.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_tensor_counts() {
        let reference = Learned { loss: 1.0, gradients: vec![vec![3.0, 4.0], vec![1.0]] };
        let own = Learned { loss: 1.0, gradients: vec![vec![3.0, 4.5], vec![1.25]] };
        assert_eq!(own.gradient_difference(&reference), 0.25);
        assert_eq!(reference.gradient_difference(&reference), 0.0);
    }
}
