//! A training step of every model, in small, on the Vulkan device present, against the same step in f64.

mod common;

use common::bounds::eval_with_bounds;
use common::{TRAININGS, externals, options, train_contents};
use fblayout::device::Preset;
use fblayout::graph::{ValueId, decode, encode};
use fblayout::plan::{PlanOptions, Policy, Selector, Replaced, StorageChoice, replace_attention};
use fblayout_models::{Config, MODELS, Training, train_graph};
use fblayout_spirv_tests::{Device, VulkanDevice};

fn assert_step(device: &VulkanDevice, config: &Config, training: Training) {
    let options = options(training);
    let train = train_graph(config, &options).expect("a training step");
    let graph = &train.model.graph;
    let before = train_contents(config, &options, &train);
    let bytes = |id: ValueId| {
        let numbers: Vec<f32> = before[&id].data.iter().map(|&x| x as f32).collect();
        encode(graph.values[id.index()].dtype, &numbers).expect("plain types")
    };
    let data: Vec<_> = externals(graph).map(|id| (id, bytes(id))).collect();
    let updated = train.updates.iter().flat_map(|u| [u.parameter, u.m, u.v]);
    let read: Vec<ValueId> = [train.model.loss].into_iter().chain(updated).collect();
    let outcome = device.run(graph, &data, &read).unwrap_or_else(|e| panic!("{} {training:?}: {e}", config.name));

    // Errors are those of the nodes that run.
    let (replaced, attention) = replace_attention(graph, device.engine().limits(), Replaced::All);
    assert_eq!((attention.replaced, &attention.refused[..]), (config.layers as usize, &[][..]), "{}", config.name);
    let run = if device.options().policy == Policy::Full { &*replaced } else { graph };
    let (after, bounds) = eval_with_bounds(run, &before, outcome.rounded);
    for (id, bytes) in read.iter().zip(&outcome.bytes) {
        let name = format!("{} {training:?}: {}", config.name, graph.values[id.index()].name);
        let got = decode(graph.values[id.index()].dtype, bytes).expect("whole elements");
        let (want, bound) = (&after[id].data, &bounds[id].data);
        for (at, ((got, want), bound)) in got.iter().zip(want).zip(bound).enumerate() {
            assert!((got - want).abs() <= *bound, "{name}: element {at} is {got:e}, not {want:e} +- {bound:e}");
        }
        // A bound as wide as what the step did would prove nothing.
        let widest = bound.iter().copied().fold(0.0, f64::max);
        let done = match before.get(id) {
            Some(before) => before.data.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max),
            None => want[0].abs(),
        };
        assert!(widest < 0.05 * done, "{name}: the step does {done:e}, the bound is {widest:e}");
    }
}

fn assert_model(number: usize, storage: StorageChoice) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    TRAININGS.into_iter().for_each(|training| assert_step(&device, &MODELS[number].tiny(), training));
    device.assert_valid();
}

#[test]
fn llama_3_2() {
    assert_model(0, StorageChoice::Image);
}

#[test]
fn qwen_2_5() {
    assert_model(1, StorageChoice::Image);
}

#[test]
fn qwen_3() {
    assert_model(2, StorageChoice::Image);
}

#[test]
fn gemma_2() {
    assert_model(3, StorageChoice::Image);
}

#[test]
fn gemma_3() {
    assert_model(4, StorageChoice::Image);
}

/// Whatever moves and whatever does not, the step is the same: heads shared and normed, layers local and global.
#[test]
fn every_policy_does_the_same_step() {
    for (_, policy) in Policy::ALL {
        let plan = PlanOptions { storage: StorageChoice::Image, policy, ..PlanOptions::default() };
        let device = VulkanDevice::open_with(plan, None).expect("a Vulkan device");
        assert_step(&device, &MODELS[4].tiny(), TRAININGS[1]);
        device.assert_valid();
    }
}

/// Wherever selected layouts put its results, the step is the same.
#[test]
fn every_selector_does_the_same_step() {
    let profile = Preset::find("adreno-830").and_then(|preset| preset.profile.as_ref()).expect("a machine");
    for (_, selector) in Selector::ALL {
        let plan = PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() };
        let device = VulkanDevice::open_selecting(plan, selector, profile).expect("a Vulkan device");
        assert_step(&device, &MODELS[2].tiny(), TRAININGS[1]);
        device.assert_valid();
    }
}

/// The model with the most kinds of ops, in the other storage.
#[test]
fn gemma_2_in_buffers() {
    assert_model(3, StorageChoice::Buffer);
}
