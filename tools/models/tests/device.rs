//! A training step of every model, in small, on the Vulkan device present, against the same step in f64.

mod common;

use common::bounds::eval_with_bounds;
use common::{Noise, TRAININGS, externals, options, train_contents};
use fblayout::device::Preset;
use fblayout::graph::{Array, Contents, DType, Graph, Op, Operand, ValueId, decode, encode};
use fblayout::plan::{AttentionScope, PlanOptions, Policy, Selector, StorageChoice, chunk_head, replace_attention};
use fblayout_models::{Config, MODELS, Training, train_graph};
use fblayout_spirv_tests::{Device, STORAGES, VulkanDevice};

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
    let (replaced, attention) = replace_attention(graph, device.engine().limits(), AttentionScope::All);
    assert_eq!((attention.replaced, &attention.refused[..]), (config.layers as usize, &[][..]), "{}", config.name);
    let (chunked, head) = chunk_head(&replaced, device.engine().limits(), VulkanDevice::HEAD);
    assert_eq!((&head.chunks[..], &head.refused[..]), (&[4][..], &[][..]), "{}", config.name);
    let run = if device.options().policy == Policy::Full { &*chunked } else { graph };
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

/// A head as hosts write it who ask for the likeliest ids, and rescale the loss: nothing but its gradient's product and the ids are joined.
#[test]
fn a_head_with_its_ids() {
    let mut graph = Graph::new();
    let [w, h, labels, seed] = [[15, 37, 1, 1], [15, 11, 1, 1], [37, 11, 1, 1], [1; 4]]
        .map(|shape| graph.external(format!("{shape:?}"), DType::F32, shape));
    let [w_all, h_all, labels_all, seed_all] = [w, h, labels, seed].map(|id| graph.whole(id));
    let rescaled = Op::Scale { scale: 11.0 / 7.0, bias: 0.0 };
    let mut add = |name: &str, op: Op, inputs: Vec<Operand>| {
        let id = graph.node(name, op, inputs).expect("a node");
        graph.whole(id)
    };
    let logits = add("logits", Op::MulMat, vec![w_all, h_all]);
    let mean = add("mean", Op::CrossEntropyLoss, vec![logits, labels_all]);
    let loss = add("loss", rescaled, vec![mean]);
    let d_mean = add("d mean", rescaled, vec![seed_all]);
    let d = add("d logits", Op::CrossEntropyLossBack, vec![d_mean, logits, labels_all]);
    let dh = add("dh", Op::OutProd, vec![w_all, d.transpose()]);
    let best = graph.external("best", DType::I32, [11, 1, 1, 1]);
    graph.node_into("best", Op::ArgMax, vec![logits], best);
    graph.keep(loss.value);
    graph.keep(dh.value);

    let mut contents = Contents::new();
    for (id, center, spread) in [(w, 0.0, 0.5), (h, 0.0, 1.0), (seed, 1.0, 0.0)] {
        contents.insert(id, Noise::new(id.index()).array(graph.values[id.index()].shape, center, spread));
    }
    let one_hot = |[i, row, ..]: [u32; 4]| if i == row * 5 % 37 && row != 3 { 1.0 } else { 0.0 };
    contents.insert(labels, Array::from_fn([37, 11, 1, 1], one_hot));
    let bytes = |id: &ValueId| {
        let numbers: Vec<f32> = contents[id].data.iter().map(|&x| x as f32).collect();
        (*id, encode(DType::F32, &numbers).expect("plain types"))
    };
    let mut data: Vec<_> = [w, h, labels, seed].iter().map(bytes).collect();
    data.push((best, vec![0xff; 4 * 11]));
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let (chunked, head) = chunk_head(&graph, device.engine().limits(), VulkanDevice::HEAD);
        assert_eq!((&head.chunks[..], &head.refused[..]), (&[4][..], &[][..]));
        let outcome = device.run(&graph, &data, &[loss.value, dh.value, best]).expect("a run");
        let mut contents = contents.clone();
        contents.insert(best, Array::zeros([11, 1, 1, 1]));
        let (after, bounds) = eval_with_bounds(&chunked, &contents, outcome.rounded);
        for (id, bytes) in [loss.value, dh.value].iter().zip(&outcome.bytes) {
            let got = decode(DType::F32, bytes).expect("whole elements");
            for ((got, want), bound) in got.iter().zip(&after[id].data).zip(&bounds[id].data) {
                assert!((got - want).abs() <= *bound, "{storage:?}: {got:e}, not {want:e} +- {bound:e}");
            }
        }
        // Logits are further apart than they are wrong.
        let ids: Vec<f64> = outcome.bytes[2]
            .chunks_exact(4)
            .map(|id| f64::from(i32::from_le_bytes(id.try_into().expect("four bytes"))))
            .collect();
        assert_eq!(ids, after[&best].data, "{storage:?}");
        device.assert_valid();
    }
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
