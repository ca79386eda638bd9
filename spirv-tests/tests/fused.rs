//! Every fused case on the device, in buffers and in images; no validation message.

use std::collections::BTreeSet;

use fblayout::graph::{Binary, DType, Family, Op, ROWS, decode};
use fblayout::kernels::{Epilogue, SecondProduct, Source};
use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{Fill, FusedCase, FusedSetup, STORAGES, Setup, VulkanDevice, cases};

fn assert_fused(storage: StorageChoice) {
    let device = VulkanDevice::open(storage).expect("a Vulkan device");
    let failures: Vec<String> =
        cases::fused().iter().filter_map(|case| Some(format!("{storage:?} {}", case.check(&device).err()?))).collect();
    assert!(failures.is_empty(), "{} cases fail\n{}", failures.len(), failures.join("\n"));
    device.assert_valid();
}

#[test]
fn fused_in_buffers() {
    assert_fused(StorageChoice::Buffer);
}

#[test]
fn fused_in_images() {
    assert_fused(StorageChoice::Image);
}

/// Every elementwise op is a step of some case.
#[test]
fn every_elementwise_op_is_a_step() {
    let steps = |case: FusedCase| case.fused.epilogue.steps.into_iter().map(|step| step.op.row().name);
    let run: BTreeSet<_> = cases::fused().into_iter().flat_map(steps).collect();
    let all: BTreeSet<_> = ROWS.iter().filter(|row| row.family == Family::Elementwise).map(|row| row.name).collect();
    assert_eq!(run, all);
}

/// A dispatch that does something else than the graph says is found out: another op in the last step, a step left out, another
/// factor on the second product, a stored result from another place.
#[test]
fn spoiled_dispatches_fail() {
    let device = VulkanDevice::open(StorageChoice::Buffer).expect("a Vulkan device");
    let mut spoiled = 0;
    for case in cases::fused().into_iter().step_by(5) {
        let fails = |spoil: &dyn Fn(&mut FusedCase)| {
            let mut other = case.clone();
            spoil(&mut other);
            assert!(other.check(&device).is_err(), "{} passes though its dispatch differs", case.name);
        };
        if !case.fused.epilogue.steps.is_empty() {
            fails(&|case| {
                let last = case.fused.epilogue.steps.last_mut().expect("a step");
                let other = match last.inputs.len() {
                    1 => Op::Scale { scale: 0.9, bias: 0.3 },
                    _ => Op::Binary(if last.op == Op::Binary(Binary::Add) { Binary::Sub } else { Binary::Add }),
                };
                last.op = other;
            });
            spoiled += 1;
        }
        if let Some(second) = case.fused.second {
            fails(&|case| case.fused.second = Some(SecondProduct { scale: 3.0, ..second }));
            spoiled += 1;
        }
        if let Epilogue { store_root: Some(extra), steps, .. } = &case.fused.epilogue
            && steps.last().is_some_and(|step| step.store.is_none())
        {
            fails(&|case| {
                case.fused.epilogue.store_root = None;
                case.fused.epilogue.steps.last_mut().expect("a step").store = Some(*extra);
            });
            spoiled += 1;
        }
    }
    assert!(spoiled >= 20, "{spoiled}");
}

/// `<A x, dy> == <x, A^T dy>` for `A x = w x / 2 + r` at r = 0, and for the same with an adapter beside w; all sums are exact.
#[test]
fn products_with_epilogues_are_linear() {
    let (k, m, n) = (96, 33, 17);
    let (half, add) = (Op::Scale { scale: 0.5, bias: 0.0 }, Op::Binary(Binary::Add));
    let finish = |mut s: FusedSetup, shape| {
        let scaled = s.step(half, &[Source::Result(0)]);
        let zeros = s.extra_f32(shape, Fill::Given(vec![0.0; (shape[0] * shape[1]) as usize]));
        s.step(add, &[scaled, zeros]);
        s.case("linear")
    };
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        for adapted in [false, true] {
            // Operands are numbered as they are added, and filled by their number: w is 0, x 1; dy 1 below.
            let mut s = Setup::new();
            let inputs = vec![s.input(DType::Q8_0, [k, m, 1, 1], Fill::Integers), s.f32([k, n, 1, 1], Fill::Integers)];
            let x = inputs[1];
            let mut s = FusedSetup::new(s, Op::MulMat, inputs);
            let up = s.setup().f32([k, m, 1, 1], Fill::Integers);
            if adapted {
                s.second(Op::MulMat, vec![up, x], 0.25);
            }
            let forward = finish(s, [m, n, 1, 1]);

            let mut s = Setup::new();
            let w = s.input(DType::Q8_0, [k, m, 1, 1], Fill::Integers);
            let dy = s.f32([m, n, 1, 1], Fill::Integers);
            let mut s = FusedSetup::new(s, Op::OutProd, vec![w, dy.transpose()]);
            let up = s.setup().f32([k, m, 1, 1], Fill::Integers);
            if adapted {
                s.second(Op::OutProd, vec![up, dy.transpose()], 0.25);
            }
            let backward = finish(s, [k, n, 1, 1]);

            let shown =
                |case: &FusedCase, number: usize| decode(DType::F32, &case.data[number].1).expect("whole elements");
            let run = |case: &FusedCase| case.run(&device).unwrap_or_else(|e| panic!("{storage:?}: {e}")).remove(0);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (y, dx) = (run(&forward), run(&backward));
            assert_eq!(dot(&y, &shown(&backward, 1)), dot(&shown(&forward, 1), &dx), "{storage:?} {adapted}");
            assert!(y.iter().any(|&y| y != 0.0));
        }
        device.assert_valid();
    }
}
