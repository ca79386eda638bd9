//! What the tests share: small steps of the models and contents for them.
#![allow(dead_code, reason = "every test binary uses a part of it")]

pub mod bounds;

use fblayout::graph::{Array, Contents, DType, Graph, Kind, Shape, ValueId};
use fblayout_models::{Config, Model, Options, TrainGraph, Training, causal_mask};

/// Both ways of training, frozen weights in F32.
pub const TRAININGS: [Training; 2] = [Training::Full, Training::Lora { rank: 3, alpha: 6.0, base: DType::F32 }];

/// Two sequences of five tokens, three of the ten positions masked.
pub fn options(training: Training) -> Options {
    Options { targets: 7, ..Options::new(2, 5, training) }
}

/// A sequence of numbers in [-1, 1) that looks random, the same in every run.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: usize) -> Self {
        Self(seed as u64 + 1)
    }

    pub fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / f64::from(1 << 23) - 1.0
    }

    /// `center + spread * noise`, rounded to F32, which both sides of a comparison hold exactly.
    pub fn array(&mut self, shape: Shape, center: f64, spread: f64) -> Array {
        Array::from_fn(shape, |_| f64::from((center + spread * self.next()) as f32))
    }
}

/// What the external values of a loss graph hold: weights that keep activations near 1, distinct tokens, labels on and between
/// tokens.
pub fn contents(config: &Config, options: &Options, model: &Model) -> Contents {
    let g = &model.graph;
    let mut contents = Contents::new();
    let shape = |id: ValueId| g.values[id.index()].shape;
    for parameter in &model.parameters {
        let [n, rows, ..] = shape(parameter.value);
        // A vector is a norm's weight or a bias.
        let (center, spread) = match rows {
            1 if parameter.name.ends_with("bias") => (0.0, 0.3),
            1 => (1.0, 0.3),
            _ => (0.0, 1.0 / f64::from(n).sqrt()),
        };
        let array = Noise::new(parameter.value.index()).array(shape(parameter.value), center, spread);
        contents.insert(parameter.value, array);
    }
    let mut set = |id: ValueId, f: &dyn Fn([u32; 4]) -> f64| {
        contents.insert(id, Array::from_fn(shape(id), f));
    };
    let Options { seq, batch, .. } = *options;
    let inputs = model.inputs;
    set(inputs.tokens, &|[i, ..]| f64::from((i * 7 + 3) % config.vocab));
    set(inputs.positions, &|[i, ..]| f64::from(i));
    set(inputs.targets, &|[i, ..]| f64::from((i * 3 + 1) % (seq * batch)));
    set(inputs.labels, &|[i, row, ..]| match (i + config.vocab - row * 5 % config.vocab) % config.vocab {
        0 => 0.75,
        4 => 0.25,
        _ => 0.0,
    });
    let window = config.sliding.map(|s| s.window);
    for (id, window) in [(inputs.mask, None), (inputs.local_mask, window)] {
        let mask = causal_mask(seq, window);
        id.into_iter().for_each(|id| set(id, &|[key, query, ..]| f64::from(mask[(query * seq + key) as usize])));
    }
    if let (Some(id), Some(divisors)) = (inputs.frequency_divisors, config.frequency_divisors()) {
        set(id, &|[i, ..]| f64::from(divisors[i as usize]));
    }
    contents
}

/// [`contents`] and those of the optimizer: moments as after some steps, so that the step is smooth in the gradient.
pub fn train_contents(config: &Config, options: &Options, train: &TrainGraph) -> Contents {
    let mut contents = contents(config, options, &train.model);
    contents.insert(train.seed, Array { shape: [1; 4], data: vec![1.0] });
    let parameters = [0.05, 0.9, 0.99, 1e-6, 0.01, 1.0 / (1.0 - 0.9_f64.powi(4)), 1.0 / (1.0 - 0.99_f64.powi(4))];
    let data = parameters.iter().map(|&p| f64::from(p as f32)).collect();
    contents.insert(train.optimizer, Array { shape: [7, 1, 1, 1], data });
    for update in &train.updates {
        let shape = train.model.graph.values[update.parameter.index()].shape;
        contents.insert(update.m, Noise::new(update.m.index()).array(shape, 0.0, 0.05));
        contents.insert(update.v, Noise::new(update.v.index()).array(shape, 0.02, 0.01));
    }
    contents
}

/// Every external value of a graph.
pub fn externals(graph: &Graph) -> impl Iterator<Item = ValueId> + '_ {
    graph.ids().filter(|id| graph.values[id.index()].kind == Kind::External)
}
