//! The gradient of every parameter of every model, in small and with its attention replaced, against differences of the loss in f64.

mod common;

use common::{Noise, TRAININGS, contents, options, train_contents};
use fblayout::device::Limits;
use fblayout::graph::{Array, Contents, ValueId, eval};
use fblayout::plan::{AttentionScope, replace_attention};
use fblayout_models::{Config, MODELS, Model, Training, loss_graph, train_graph};

const STEP: f64 = 2e-4;

/// Roundoff of the loss in f64: less than 10^5 roundings of numbers that matter as much as the loss lie on any way to it.
const LOSS_ERROR: f64 = 1e5 * f64::EPSILON;

/// Derivative of the loss along a direction of one parameter, and how far it may be off.
///
/// With D(h) the central difference of step h, `(4 D(h) - D(2 h)) / 3` has an error of order h^4; what D(h) and D(2 h) differ by is
/// three times the error of order h^2 that was removed, and bounds what is left as long as the series falls at all. Roundoff
/// adds that of two losses over `2 h` and, a quarter as much, over `4 h`, weighed 4/3 and 1/3.
fn slope(model: &Model, contents: &Contents, parameter: ValueId, direction: &Array) -> (f64, f64) {
    let loss = |t: f64| {
        let mut moved = contents.clone();
        moved.insert(parameter, contents[&parameter].zip(direction, |w, d| w + t * d));
        eval(&model.graph, moved).expect("a well-formed graph")[&model.loss].data[0]
    };
    let difference = |h: f64| (loss(h) - loss(-h)) / (2.0 * h);
    let (near, far) = (difference(STEP), difference(2.0 * STEP));
    let roundoff = LOSS_ERROR * loss(0.0).abs().max(1.0) / STEP * (4.0 / 3.0 + 1.0 / 6.0);
    ((4.0 * near - far) / 3.0, (near - far).abs() + roundoff)
}

/// Random signs find an error in any element; single elements say where it is.
fn directions(shape: [u32; 4], seed: usize) -> Vec<Array> {
    let mut noise = Noise::new(seed);
    let zeros = Array::zeros(shape);
    let mut directions: Vec<Array> = (0..3).map(|_| Array::from_fn(shape, |_| noise.next().signum())).collect();
    let count = zeros.data.len();
    directions.extend((0..count).step_by(count.div_ceil(4)).map(|at| {
        let mut one = zeros.clone();
        one.data[at] = 1.0;
        one
    }));
    directions
}

fn assert_gradients(config: &Config, training: Training) {
    let options = options(training);
    let model = loss_graph(config, &options).expect("a loss");
    let train = train_graph(config, &options).expect("a training step");
    let contents = contents(config, &options, &model);
    let (graph, attention) = replace_attention(&train.model.graph, &Limits::USUAL, AttentionScope::All);
    assert_eq!(attention.replaced, config.layers as usize, "{}: {:?}", config.name, attention.refused);
    let after = eval(&graph, train_contents(config, &options, &train)).expect("a training step in f64");
    assert!(!train.updates.is_empty());
    for update in &train.updates {
        let name = &model.graph.values[update.parameter.index()].name;
        let gradient = &after[&update.gradient];
        let mut seen = false;
        for direction in directions(gradient.shape, update.parameter.index()) {
            let (want, bound) = slope(&model, &contents, update.parameter, &direction);
            let got = gradient.dot(&direction);
            let what = format!("{} {training:?}: {name}: {got:e} instead of {want:e} +- {bound:e}", config.name);
            assert!((got - want).abs() <= bound, "{what}");
            seen |= want.abs() > 100.0 * bound;
        }
        assert!(seen, "{} {training:?}: no difference of {name} rises above its own error", config.name);
    }
}

fn assert_model(number: usize) {
    let tiny = MODELS[number].tiny();
    TRAININGS.into_iter().for_each(|training| assert_gradients(&tiny, training));
}

#[test]
fn llama_3_2() {
    assert_model(0);
}

#[test]
fn qwen_2_5() {
    assert_model(1);
}

#[test]
fn qwen_3() {
    assert_model(2);
}

#[test]
fn gemma_2() {
    assert_model(3);
}

#[test]
fn gemma_3() {
    assert_model(4);
}

#[test]
fn an_untied_head_and_a_single_sequence() {
    let config = Config { tied_head: false, ..MODELS[0].tiny() };
    assert_gradients(&config, Training::Full);
}
