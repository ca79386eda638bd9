//! Memory of a training step on the Vulkan device present: what a plan says is what is taken, and a step does the same with whatever
//! memory it gets.

mod common;

use common::bounds::eval_with_bounds;
use common::{TRAININGS, externals, options, train_contents};
use fblayout::engine::{Engine, EngineOptions, Tensor};
use fblayout::graph::{Graph, ValueId, decode, encode};
use fblayout::plan::{Budget, PlanError, PlanOptions, Planner, Policy, Report, Rewritten, StorageChoice, UpperBound};
use fblayout_models::{Config, MODELS, TrainGraph, Training, train_graph};
use fblayout_spirv_tests::{Device, Outcome, STORAGES, VulkanDevice};

fn step(config: &Config, training: Training) -> TrainGraph {
    train_graph(config, &options(training)).expect("a training step")
}

/// Host bytes of the external values.
fn data(config: &Config, training: Training, train: &TrainGraph) -> Vec<(ValueId, Vec<u8>)> {
    let before = train_contents(config, &options(training), train);
    let graph = &train.model.graph;
    let bytes = |id: ValueId| {
        let numbers: Vec<f32> = before[&id].data.iter().map(|&x| x as f32).collect();
        encode(graph.values[id.index()].dtype, &numbers).expect("plain types")
    };
    externals(graph).map(|id| (id, bytes(id))).collect()
}

/// What a step must leave.
fn outcome(device: &VulkanDevice, graph: &Graph, data: &[(ValueId, Vec<u8>)], train: &TrainGraph) -> Outcome {
    device.run(graph, data, &read(train)).expect("a step")
}

/// The loss and what the step updates.
fn read(train: &TrainGraph) -> Vec<ValueId> {
    let updated = train.updates.iter().flat_map(|u| [u.parameter, u.m, u.v]);
    [train.model.loss].into_iter().chain(updated).collect()
}

/// By policies, the same step with results in place and with all of them apart: no bit differs.
fn assert_apart(config: &Config, storage: StorageChoice, policy: Policy, training: Training) {
    let train = step(config, training);
    let (graph, data) = (&train.model.graph, data(config, training, &train));
    let outcome = |apart: bool| {
        let plan = PlanOptions { storage, policy, apart, ..PlanOptions::default() };
        let device = VulkanDevice::open_with(plan, None).expect("a Vulkan device");
        let taken = device.engine().plan(graph).expect("a plan").report.in_place;
        assert_eq!(taken == 0, apart, "{} {policy}: {taken} in place", config.name);
        let outcome = outcome(&device, graph, &data, &train).bytes;
        device.assert_valid();
        outcome
    };
    assert!(outcome(false) == outcome(true), "{} {policy} {training:?}", config.name);
}

#[test]
fn results_in_place_are_the_same() {
    for (number, storage, policy) in [
        (0, StorageChoice::Buffer, Policy::RTileMaps),
        (1, StorageChoice::Image, Policy::Full),
        (2, StorageChoice::Buffer, Policy::Full),
        (3, StorageChoice::Image, Policy::RTileMaps),
        (4, StorageChoice::Buffer, Policy::Full),
    ] {
        let training = TRAININGS[number % 2];
        assert_apart(&MODELS[number].tiny(), storage, policy, training);
    }
}

/// Recomputed to fit half of what can be saved, and to fit the least there is: to the last bit the same.
fn assert_same_step(number: usize, storage: StorageChoice, training: Training) {
    let config = MODELS[number].tiny();
    let train = step(&config, training);
    let (graph, data) = (&train.model.graph, data(&config, training, &train));
    let plan = PlanOptions { storage, policy: Policy::RTileMaps, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(plan, None).expect("a Vulkan device");
    let want = outcome(&device, graph, &data, &train).bytes;
    let least = device.engine().recompute(graph, None).expect("a plan");
    let smallest = least.plan.report.total_bytes();
    let half = Budget(smallest + least.recomputed.bytes_saved / 2);
    let between = device.engine().recompute(graph, Some(half)).expect("a plan");
    for Rewritten { graph, recomputed, .. } in [least, between] {
        assert!(recomputed.nodes > 0 && recomputed.bytes_saved > 0, "{} {training:?}: {recomputed}", config.name);
        let same = want == outcome(&device, &graph, &data, &train).bytes;
        assert!(same, "{} {training:?}: {recomputed}", config.name);
    }
    device.assert_valid();
}

/// Where nodes run together, second runs may find other company, and are as near to f64 as the first.
#[test]
fn recomputed_steps_of_fused_nodes_are_within_bounds() {
    let (config, training) = (MODELS[3].tiny(), TRAININGS[1]);
    let train = step(&config, training);
    let (graph, data) = (&train.model.graph, data(&config, training, &train));
    let plan = PlanOptions { storage: StorageChoice::Buffer, policy: Policy::Full, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(plan, None).expect("a Vulkan device");
    let least = device.engine().recompute(graph, None).expect("a plan");
    assert!(least.recomputed.nodes > 0, "{}", least.recomputed);
    let got = outcome(&device, &least.graph, &data, &train);
    let (after, bounds) = eval_with_bounds(graph, &train_contents(&config, &options(training), &train), got.rounded);
    for (id, bytes) in read(&train).iter().zip(&got.bytes) {
        let value = &graph.values[id.index()];
        let got = decode(value.dtype, bytes).expect("whole elements");
        for ((got, want), bound) in got.iter().zip(&after[id].data).zip(&bounds[id].data) {
            assert!((got - want).abs() <= *bound, "{}: {got:e} is not {want:e} +- {bound:e}", value.name);
        }
    }
    device.assert_valid();
}

/// Models, each with the storage and a training that its recomputed step is tested in.
const RECOMPUTED: [(usize, StorageChoice, Training); 5] = [
    (0, StorageChoice::Image, TRAININGS[1]),
    (1, StorageChoice::Image, TRAININGS[0]),
    (2, StorageChoice::Buffer, TRAININGS[1]),
    (3, StorageChoice::Buffer, TRAININGS[0]),
    (4, StorageChoice::Image, TRAININGS[1]),
];

#[test]
fn recomputed_steps_are_the_same_in_images() {
    let images = RECOMPUTED.into_iter().filter(|(_, storage, _)| *storage == StorageChoice::Image);
    images.for_each(|(number, storage, training)| assert_same_step(number, storage, training));
}

#[test]
fn recomputed_steps_are_the_same_in_buffers() {
    let buffers = RECOMPUTED.into_iter().filter(|(_, storage, _)| *storage == StorageChoice::Buffer);
    buffers.for_each(|(number, storage, training)| assert_same_step(number, storage, training));
}

#[test]
#[ignore = "the other training of each model takes a minute; ./x test --full runs it"]
fn recomputed_steps_of_the_other_training_are_the_same() {
    for (number, storage, training) in RECOMPUTED {
        let other = TRAININGS.into_iter().find(|&other| other != training).expect("there are two");
        assert_same_step(number, storage, other);
    }
}

fn engine(plan: PlanOptions, budget: Option<Budget>) -> std::sync::Arc<Engine> {
    let options = EngineOptions { plan, budget, ..EngineOptions::from_env().expect("options") };
    Engine::open(0, &options).expect("a Vulkan device")
}

fn tensors(engine: &Engine, graph: &Graph) -> Vec<(ValueId, Tensor)> {
    let create = |id: ValueId| {
        let desc = graph.values[id.index()].desc();
        (id, engine.create(desc.dtype, desc.shape).expect("a tensor"))
    };
    externals(graph).map(create).collect()
}

/// Each model in one of the storages, both of which have both trainings.
#[test]
fn the_peak_is_known_before_it_is_taken() {
    assert_peaks(STORAGES);
}

#[test]
#[ignore = "each model in the other storage takes a minute; ./x test --full runs it"]
fn the_peak_in_the_other_storage_is_known_before_it_is_taken() {
    let [buffers, images] = STORAGES;
    assert_peaks([images, buffers]);
}

/// Tensors, results and arena take what the plan says, byte for byte, and the bound from limits is not below.
fn assert_peaks(storages: [StorageChoice; 2]) {
    let trainings = TRAININGS.into_iter().cycle();
    for (number, (config, training)) in MODELS.iter().map(Config::tiny).zip(trainings).enumerate() {
        let storage = storages[number / 2 % 2];
        let train = step(&config, training);
        let graph = &train.model.graph;
        let policy = if training == TRAININGS[0] { Policy::RTileMaps } else { Policy::Full };
        let options = PlanOptions { storage, policy, ..PlanOptions::default() };
        let engine = engine(options, None);
        let report = engine.plan(graph).expect("a plan").report;
        let in_use = || engine.gpu().memory().in_use;
        let idle = in_use();
        let tensors = tensors(&engine, graph);
        assert_eq!(in_use() - idle, report.external_bytes, "{} {storage:?}: external", config.name);
        let program = engine.compile(graph, &tensors).expect("a program");
        assert_eq!(in_use() - idle, report.total_bytes(), "{} {storage:?}: {report}", config.name);
        assert_eq!(program.plan().report, report);

        let limits = engine.limits();
        let bound = Planner::new(limits, options, None).plan(graph, &UpperBound(limits)).expect("a plan").report;
        let parts: [fn(&Report) -> u64; 4] =
            [Report::total_bytes, |r| r.external_bytes, |r| r.kept_bytes, |r| r.peak.bytes];
        for part in parts {
            assert!(part(&bound) >= part(&report), "{} {storage:?}: {bound} is below {report}", config.name);
        }
    }
}

/// An engine with a budget takes no more, and says what it would need.
#[test]
fn an_engine_keeps_to_its_budget() {
    let config = MODELS[0].tiny();
    let train = step(&config, TRAININGS[0]);
    let graph = &train.model.graph;
    let options = PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() };
    let free = engine(options, None);
    let total = free.plan(graph).expect("a plan").report.total_bytes();
    let least = free.recompute(graph, None).expect("a plan").plan.report.total_bytes();
    assert!(least < total);
    let tight = engine(options, Some(Budget(least)));
    let idle = tight.gpu().memory().in_use;
    let mut program = tight.compile(graph, &tensors(&tight, graph)).expect("a program");
    let taken = tight.gpu().memory().in_use - idle;
    assert_eq!(taken, program.plan().report.total_bytes());
    assert!(taken <= least, "{taken} of {least} bytes");
    program.run().expect("a run");
    match engine(options, Some(Budget(least - 1))).plan(graph) {
        Err(fblayout::engine::Error::Plan(e)) => {
            assert_eq!(e, PlanError::Budget { budget: least - 1, smallest: least });
        }
        other => panic!("{:?}", other.map(|plan| plan.report)),
    }
}
