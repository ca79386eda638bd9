//! Products on the device present: their factors, copies of them beyond the caches, their times.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use fblayout::engine::{Engine, EngineOptions, Program, Tensor};
use fblayout::graph::{Desc, ValueId};
use fblayout::kernels::schedule_in_words;
use fblayout::plan::Plan;
use fblayout::vulkan::TapeOptions;
use serde::Serialize;

use super::case::{Case, Repeated};
use super::data;
use crate::Failure;
use crate::numbers::Quantiles;

/// Nanoseconds of a product that are not counted: clocks rise, pages come.
const WARM: f64 = 3e6;

/// Runs that are not counted, at most.
const WARM_RUNS: usize = 20;

/// Nanoseconds or products that are enough.
const ENOUGH: f64 = 20e6;
const ENOUGH_PRODUCTS: usize = 50;

/// Products of a submission, each with factors of its own: so few even of large ones, so many even of small ones.
const PRODUCTS: [u64; 2] = [8, 64];

/// Part of the device's memory that the factors of a case may take; those of one type of weights are kept together.
const SHARE_OF_MEMORY: u64 = 8;

/// An engine, and the factors that its cases share.
pub struct Clock {
    engine: Arc<Engine>,
    tape: TapeOptions,
    /// By what they are and by their side of the product.
    tensors: HashMap<(Desc, usize), Vec<Tensor>>,
}

/// A case that is planned.
pub struct Planned {
    repeated: Repeated,
    plan: Plan,
}

/// What is told of a case.
#[derive(Clone, Debug, Serialize)]
pub struct Times {
    /// Copies of the factors, which are the products of a submission.
    pub copies: usize,
    /// Products that were timed.
    pub products: usize,
    pub median_us: f64,
    pub best_us: f64,
    /// By the median.
    pub tflops: f64,
    /// Host bytes of factors and result, each once, by the median.
    pub gb_per_s: f64,
    /// Dispatches of one product.
    pub dispatches: usize,
    /// Of these, such as only move bytes.
    pub conversions: usize,
    /// Shaders and schedules of the dispatches, in words.
    pub schedule: String,
}

impl Clock {
    /// Opens the device for cases of one storage and policy.
    pub fn open(adapter: usize, options: &EngineOptions, case: &Case) -> Result<Self, Failure> {
        let mut options = options.clone();
        (options.plan.storage, options.plan.policy) = (case.choice, case.policy);
        let engine = Engine::open(adapter, &options)?;
        if !engine.gpu().has_timestamps() {
            return Err(
                format!("{}: has no timestamps, by which products are timed", engine.gpu().adapter().name).into()
            );
        }
        let tape = TapeOptions { timing: true, ..options.tape };
        Ok(Self { engine, tape, tensors: HashMap::new() })
    }

    /// Its engine.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// A case's graph and plan, of so many copies that they have `distinct` bytes together, or of a given number of them.
    pub fn plan(&self, case: &Case, distinct: u64, copies: Option<u32>) -> Result<Planned, Failure> {
        let bytes: u64 = case.factors().iter().map(Desc::bytes).sum();
        let room = self.engine.limits().heap_bytes / SHARE_OF_MEMORY / bytes.max(1);
        let [least, most] = PRODUCTS;
        let chosen = distinct.div_ceil(bytes.max(1)).clamp(least, most).min(room.max(1)) as u32;
        let repeated = case.graph(copies.unwrap_or(chosen))?;
        let plan = self.engine.plan(&repeated.graph)?;
        Ok(Planned { repeated, plan })
    }

    /// Makes the pipelines of all plans at once, on all cores. What cannot be made is told where it is used.
    pub fn prepare<'p>(&self, plans: impl Iterator<Item = &'p Planned>) {
        let mut met = HashSet::new();
        let steps = plans.flat_map(|planned| &planned.plan.steps);
        let new = steps.filter(|step| met.insert((step.shader, &step.constants[..])));
        let wanted: Vec<_> =
            new.filter_map(|step| Some((fblayout_shaders::get(step.shader)?, &step.constants[..]))).collect();
        if let Err(e) = self.engine.gpu().pipelines(&wanted) {
            eprintln!("of {} pipelines not all could be made at once: {e}", wanted.len());
        }
    }

    /// Lets go of all factors.
    pub fn forget(&mut self) {
        self.tensors.clear();
    }

    /// Records a case.
    pub fn record(&mut self, planned: Planned) -> Result<Recorded, Failure> {
        let Planned { repeated: Repeated { graph, factors, result }, plan } = planned;
        let mut externals: Vec<(ValueId, Tensor)> = Vec::new();
        for side in [0, 1] {
            let desc = graph.values[factors[0][side].index()].desc();
            let tensors = self.copies(desc, factors.len(), side)?;
            externals.extend(factors.iter().map(|pair| pair[side]).zip(tensors.iter().cloned()));
        }
        let desc = graph.values[result.index()].desc();
        externals.push((result, self.engine.create(desc.dtype, desc.shape)?));
        let program = self.engine.realise_as(&graph, plan, &externals, &self.tape)?;
        Ok(Recorded { program, products: factors.len() })
    }

    /// So many tensors of the same random numbers; the first comes from the host, the others from it.
    fn copies(&mut self, desc: Desc, count: usize, side: usize) -> Result<&[Tensor], Failure> {
        let tensors = self.tensors.entry((desc, side)).or_default();
        while tensors.len() < count {
            let tensor = self.engine.create(desc.dtype, desc.shape)?;
            match tensors.first() {
                Some(first) => self.engine.gpu().copy(first.storage(), tensor.storage())?,
                None => self.engine.write(&tensor, &data::bytes(desc, side as u64)?)?,
            }
            tensors.push(tensor);
        }
        Ok(&tensors[..count])
    }
}

/// A case whose commands are recorded.
pub struct Recorded {
    program: Program,
    products: usize,
}

impl Recorded {
    /// Times it: a few runs to get warm, then as many as are enough.
    pub fn time(mut self, case: &Case) -> Result<Times, Failure> {
        let mut warm = 0.0;
        for _ in 0..WARM_RUNS {
            warm += self.run()?.iter().sum::<f64>();
            if warm >= WARM {
                break;
            }
        }
        let mut counted: Vec<f64> = Vec::new();
        while counted.len() < ENOUGH_PRODUCTS && counted.iter().sum::<f64>() < ENOUGH {
            counted.extend(self.run()?);
        }
        self.told(case, &counted)
    }

    /// Nanoseconds of each product of a run: all of its dispatches.
    fn run(&mut self) -> Result<Vec<f64>, Failure> {
        self.program.run()?;
        let nanoseconds = self.program.step_nanoseconds()?.ok_or("the tape took no timestamps")?;
        let mut products = vec![0.0; self.products];
        for (step, ns) in self.program.plan().steps.iter().zip(&nanoseconds) {
            products[step.node] += ns;
        }
        Ok(products)
    }

    fn told(&self, case: &Case, nanoseconds: &[f64]) -> Result<Times, Failure> {
        let median = Quantiles::of(nanoseconds).ok_or("no product was timed")?.median;
        let best = nanoseconds.iter().copied().fold(f64::INFINITY, f64::min);
        if best <= 0.0 {
            return Err("a product took no time by its timestamps".into());
        }
        // The last product, to which nothing clings that only the first has to do.
        let steps: Vec<_> = self.program.plan().steps.iter().filter(|s| s.node + 1 == self.products).collect();
        let words =
            steps.iter().map(|s| format!("{}: {}", s.shader, schedule_in_words(s.shader, &s.constants, s.groups)));
        Ok(Times {
            copies: self.products,
            products: nanoseconds.len(),
            median_us: median / 1e3,
            best_us: best / 1e3,
            tflops: case.size.flops() / median / 1e3,
            gb_per_s: case.bytes() as f64 / median,
            dispatches: steps.len(),
            conversions: steps.iter().filter(|s| s.conversion).count(),
            schedule: words.collect::<Vec<_>>().join("; "),
        })
    }
}
