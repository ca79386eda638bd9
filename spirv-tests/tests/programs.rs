//! Graphs of many nodes: elided copies, shared memory, order of in-place updates.

use std::collections::HashSet;

use fblayout::device::Preset;
use fblayout::graph::{Kind, decode};
use fblayout::plan::{Plan, PlanOptions, Policy, Rewritten, Selector, StorageChoice, UpperBound, plan};
use fblayout_spirv_tests::{Device, ExactProgram, Reference, VulkanDevice, exact_program};

/// Every value that the program must leave, bit for bit.
fn assert_exact(device: &dyn Device, program: &ExactProgram, name: &str) {
    let mut read: Vec<_> = program.expected.keys().copied().collect();
    read.sort_unstable();
    let outcome = device.run(&program.graph, &program.data, &read).unwrap_or_else(|e| panic!("{name}: {e}"));
    for (id, bytes) in read.iter().zip(&outcome.bytes) {
        let value = program.graph.value(*id).expect("a value of the graph");
        let got = decode(value.dtype, bytes).expect("whole elements");
        let differ = got.iter().zip(&program.expected[id].data).filter(|(a, b)| a != b).count();
        assert_eq!(differ, 0, "{name}: elements of {:?} {:?}; {:#?}", value.name, value.shape, program.graph.nodes);
    }
}

#[test]
fn programs_are_well_formed_and_do_much() {
    let mut nodes = 0;
    let mut in_place = 0;
    for program in (0..16).map(|number| exact_program(number, 20)) {
        program.graph.verify().expect("the generator obeys the rules");
        assert_exact(&Reference::faithful(), &program, "reference");
        nodes += program.graph.nodes.len();
        in_place +=
            program.expected.keys().filter(|id| program.graph.values[id.index()].kind == Kind::External).count();
    }
    assert!(nodes >= 160 && in_place >= 8, "{nodes} nodes, {in_place} in place");
}

fn assert_programs(plan: PlanOptions, numbers: std::ops::Range<u32>) {
    let device = VulkanDevice::open_with(plan, None).expect("a Vulkan device");
    for number in numbers {
        assert_exact(&device, &exact_program(number, 16), &format!("{plan:?} program {number}"));
    }
    device.assert_valid();
}

#[test]
fn random_programs_are_exact_in_buffers() {
    assert_programs(PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() }, 0..6);
}

#[test]
fn random_programs_are_exact_in_images() {
    assert_programs(PlanOptions { storage: StorageChoice::Image, ..PlanOptions::default() }, 4..10);
}

#[test]
fn random_programs_are_exact_under_every_policy() {
    for (_, policy) in Policy::ALL {
        assert_programs(PlanOptions { policy, ..PlanOptions::default() }, 1..3);
    }
}

/// Storages taken over, shared and computed again: every result stays exact.
#[test]
fn random_programs_are_exact_with_the_least_memory() {
    let mut saved = 0;
    for storage in [StorageChoice::Buffer, StorageChoice::Image] {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        for (number, program) in gradient_programs().into_iter().take(8) {
            let Rewritten { graph, recomputed, .. } = device.engine().recompute(&program.graph, None).expect("a plan");
            saved += recomputed.bytes_saved;
            assert_exact(&device, &ExactProgram { graph, ..program }, &format!("{storage:?} {number}: {recomputed}"));
        }
        device.assert_valid();
    }
    assert!(saved > 0, "nothing was recomputed");
}

/// Selected layouts change where results live and which loads reach them, and nothing else.
///
/// In images the rate of texels bounds programs as small as these whatever the layout, so that only those in buffers change.
fn assert_selected(storage: StorageChoice, numbers: std::ops::Range<u32>) {
    let profile = Preset::find("adreno-830").and_then(|preset| preset.profile.as_ref()).expect("a machine");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    for (_, selector) in Selector::ALL {
        let device = VulkanDevice::open_selecting(options, selector, profile).expect("a Vulkan device");
        let limits = device.engine().limits();
        let mut moved = 0;
        for number in numbers.clone() {
            let program = exact_program(number, 16);
            assert_exact(&device, &program, &format!("{selector:?} program {number}"));
            let homes = |plan: Plan| plan.slots.into_iter().map(|slot| slot.home).collect::<Vec<_>>();
            let rule = plan(&program.graph, limits, options, &UpperBound(limits)).expect("a plan");
            moved += usize::from(homes(device.engine().plan(&program.graph).expect("a plan")) != homes(rule));
        }
        let changes = selector != Selector::Rule && storage == StorageChoice::Buffer;
        assert_eq!(moved > 0, changes, "{selector:?} changed the homes of {moved} programs");
        device.assert_valid();
    }
}

#[test]
fn random_programs_are_exact_under_every_selector_in_buffers() {
    assert_selected(StorageChoice::Buffer, 0..4);
}

#[test]
fn random_programs_are_exact_under_every_selector_in_images() {
    assert_selected(StorageChoice::Image, 8..10);
}

/// Programs that have exact gradients, with these.
fn gradient_programs() -> Vec<(u32, ExactProgram)> {
    (100..116).filter_map(|number| Some((number, exact_program(number, 8).with_gradients()?))).collect()
}

#[test]
fn gradient_programs_are_many_and_undo_windows() {
    let programs = gradient_programs();
    let mut ops = HashSet::new();
    for (number, program) in &programs {
        program.graph.verify().expect("gradients obey the rules");
        assert_exact(&Reference::faithful(), program, &format!("reference, gradients of program {number}"));
        ops.extend(program.graph.nodes.iter().map(|n| n.op.row().name));
    }
    assert!(programs.len() >= 12, "{} programs", programs.len());
    let wanted = ["PAD", "REPEAT_BACK", "OUT_PROD", "MUL_MAT", "CPY", "NEG"];
    assert!(wanted.iter().all(|op| ops.contains(op)), "only {ops:?}");
}

/// Every other program from the `first` on.
fn assert_gradients(storage: StorageChoice, first: usize) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    for (number, program) in gradient_programs().into_iter().skip(first).step_by(2) {
        assert_exact(&device, &program, &format!("{storage:?} gradients of program {number}"));
    }
    device.assert_valid();
}

#[test]
fn gradients_of_random_programs_are_exact_in_buffers() {
    assert_gradients(StorageChoice::Buffer, 0);
}

#[test]
fn gradients_of_random_programs_are_exact_in_images() {
    assert_gradients(StorageChoice::Image, 1);
}
