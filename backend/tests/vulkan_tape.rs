//! Tapes: dispatches with every combination of storages, barriers, replay, splitting, timing and what they refuse.

mod vulkan_support;

use std::sync::Arc;

use fblayout::device::LimitsClamp;
use fblayout::kernels::StorageKind::{Buffer, Image};
use fblayout::vulkan::{Error, Gpu, GpuOptions, Operand, Pipeline, Step, Storage, Tape, TapeOptions, Work};
use vulkan_support::{affine, affine_constants, affine_of, groups, options, pattern_for, with_gpu};

const ONE_BUFFER: TapeOptions = TapeOptions { steps_per_buffer: usize::MAX, timing: false, pieces_in_order: false };

fn pipeline(gpu: &Gpu, input: &Storage, output: &Storage, factor: u32, bias: u32) -> Arc<Pipeline> {
    gpu.pipeline(&affine(), &affine_constants(input, output, factor, bias)).unwrap()
}

fn dispatch<'a>(pipeline: &'a Arc<Pipeline>, operands: &'a [Operand<'a>], barrier_before: bool) -> Step<'a> {
    let work = Work::Dispatch { pipeline, operands, groups: groups(operands[0].storage) };
    Step { work, barrier_before, discard: &[] }
}

fn run(tape: &mut Tape) {
    tape.submit().unwrap();
    tape.wait().unwrap();
}

#[test]
fn a_dispatch_reads_and_writes_both_kinds() {
    with_gpu(&options(), |gpu| {
        for input_kind in [Buffer, Image] {
            for output_kind in [Buffer, Image] {
                let input = gpu.create(input_kind, 19, 7).unwrap();
                let output = gpu.create(output_kind, 19, 7).unwrap();
                let data = pattern_for(&input, 2);
                gpu.upload(&input, &data).unwrap();
                let affine = pipeline(gpu, &input, &output, 3, 5);
                let operands = [Operand::new(0, &input), Operand::new(1, &output)];
                let mut tape = Tape::record(gpu, &[dispatch(&affine, &operands, false)], &ONE_BUFFER).unwrap();
                run(&mut tape);
                assert_eq!(gpu.download(&output).unwrap(), affine_of(&data, 3, 5), "{input_kind:?} {output_kind:?}");
            }
        }
    });
}

#[test]
fn a_chain_with_barriers_replays_however_it_is_split() {
    with_gpu(&options(), |gpu| {
        for steps_per_buffer in [1, 2, 100] {
            let a = gpu.create_buffer(33, 9).unwrap();
            let b = gpu.create_image(33, 9).unwrap();
            let there = pipeline(gpu, &a, &b, 3, 1);
            let back = pipeline(gpu, &b, &a, 5, 2);
            let (to_b, to_a) = ([Operand::new(0, &a), Operand::new(1, &b)], [Operand::new(0, &b), Operand::new(1, &a)]);
            let steps: Vec<_> =
                (0..3).flat_map(|_| [dispatch(&there, &to_b, true), dispatch(&back, &to_a, true)]).collect();
            let options = TapeOptions { steps_per_buffer, ..TapeOptions::default() };
            let mut tape = Tape::record(gpu, &steps, &options).unwrap();
            assert_eq!(tape.steps(), 6);
            let mut expected = pattern_for(&a, 4);
            gpu.upload(&a, &expected).unwrap();
            for _ in 0..2 {
                run(&mut tape);
                for _ in 0..3 {
                    expected = affine_of(&affine_of(&expected, 3, 1), 5, 2);
                }
                assert_eq!(gpu.download(&a).unwrap(), expected, "{steps_per_buffer} steps per command buffer");
            }
        }
    });
}

#[test]
fn transfers_queue_behind_a_run_in_flight() {
    for force_staging in [false, true] {
        with_gpu(&GpuOptions { force_staging, ..options() }, |gpu| {
            let a = gpu.create_buffer(256, 64).unwrap();
            let double = pipeline(gpu, &a, &a, 2, 1);
            let operands = [Operand::new(0, &a), Operand::new(1, &a)];
            let steps: Vec<_> = (0..16).map(|_| dispatch(&double, &operands, true)).collect();
            let mut tape = Tape::record(gpu, &steps, &ONE_BUFFER).unwrap();
            tape.submit().unwrap();
            let word = (1_u32 << 16) - 1;
            assert!(gpu.download(&a).unwrap().chunks(4).all(|w| w == word.to_le_bytes()));
            tape.submit().unwrap();
            gpu.fill(&a, 7).unwrap();
            assert!(gpu.download(&a).unwrap().chunks(4).all(|w| w == 7_u32.to_le_bytes()));
        });
    }
}

#[test]
fn a_tape_keeps_alive_what_it_uses() {
    with_gpu(&GpuOptions { max_pipelines: 1, ..options() }, |gpu| {
        let output = gpu.create_buffer(8, 8).unwrap();
        let mut tape = {
            let input = gpu.create_image(8, 8).unwrap();
            gpu.fill(&input, 11).unwrap();
            let affine = pipeline(gpu, &input, &output, 2, 0);
            let operands = [Operand::new(0, &input), Operand::new(1, &output)];
            Tape::record(gpu, &[dispatch(&affine, &operands, false)], &ONE_BUFFER).unwrap()
        };
        // Pushes the tape's pipeline out of the cache.
        pipeline(gpu, &output, &output, 9, 9);
        tape.submit().unwrap();
        assert!(gpu.download(&output).unwrap().chunks(4).all(|w| w == 22_u32.to_le_bytes()));
        tape.submit().unwrap();
        drop(tape);
    });
}

#[test]
fn copies_and_fills_are_steps() {
    with_gpu(&options(), |gpu| {
        let a = gpu.create_buffer(5, 4).unwrap();
        let b = gpu.create_image(5, 4).unwrap();
        let c = gpu.create_image(5, 4).unwrap();
        let step = |work| Step { work, barrier_before: true, discard: &[] };
        let steps = [
            step(Work::Fill { storage: &a, pattern: 3 }),
            step(Work::Copy { from: &a, to: &b }),
            step(Work::Copy { from: &b, to: &c }),
            step(Work::Fill { storage: &b, pattern: 4 }),
            step(Work::Copy { from: &b, to: &a }),
        ];
        run(&mut Tape::record(gpu, &steps, &ONE_BUFFER).unwrap());
        for (storage, word) in [(&a, 4_u32), (&b, 4), (&c, 3)] {
            assert!(gpu.download(storage).unwrap().chunks(4).all(|w| w == word.to_le_bytes()), "{storage:?}");
        }
    });
}

#[test]
fn rows_of_a_buffer_are_bound_alone() {
    with_gpu(&options(), |gpu| {
        // 16 texels a row: 256 bytes, the strictest binding alignment Vulkan allows.
        let input = gpu.create_buffer(16, 3).unwrap();
        let whole = gpu.create_buffer(16, 8).unwrap();
        let data = pattern_for(&input, 1);
        gpu.upload(&input, &data).unwrap();
        let affine = pipeline(gpu, &input, &input, 1, 1);
        let output = Operand { slot: 1, storage: &whole, rows: Some(2..5) };
        let operands = [Operand::new(0, &input), output];
        run(&mut Tape::record(gpu, &[dispatch(&affine, &operands, false)], &ONE_BUFFER).unwrap());
        let got = gpu.download(&whole).unwrap();
        let (start, end) = (2 * 256, 5 * 256);
        assert_eq!(got[start..end], affine_of(&data, 1, 1));
        assert!(got[..start].iter().chain(&got[end..]).all(|&b| b == 0));

        for rows in [5..9, 3..3] {
            let operands = [Operand::new(0, &input), Operand { slot: 1, storage: &whole, rows: Some(rows) }];
            let refused = Tape::record(gpu, &[dispatch(&affine, &operands, false)], &ONE_BUFFER);
            assert!(matches!(refused, Err(Error::Invalid { .. })));
        }
    });
}

#[test]
fn an_empty_tape_runs() {
    with_gpu(&options(), |gpu| {
        for timing in [false, true] {
            run(&mut Tape::record(gpu, &[], &TapeOptions { timing, ..ONE_BUFFER }).unwrap());
        }
    });
}

#[test]
fn timing_gives_one_figure_per_step() {
    with_gpu(&options(), |gpu| {
        let a = gpu.create_buffer(64, 64).unwrap();
        let b = gpu.create_buffer(64, 64).unwrap();
        let affine = pipeline(gpu, &a, &b, 3, 5);
        let operands = [Operand::new(0, &a), Operand::new(1, &b)];
        let steps = [dispatch(&affine, &operands, true), dispatch(&affine, &operands, true)];
        let mut tape =
            Tape::record(gpu, &steps, &TapeOptions { steps_per_buffer: 1, timing: true, ..TapeOptions::default() })
                .unwrap();
        assert_eq!(tape.step_nanoseconds().unwrap(), None, "before the first run");
        for _ in 0..2 {
            run(&mut tape);
            let times = tape.step_nanoseconds().unwrap().unwrap();
            assert_eq!(times.len(), 2);
            assert!(times.iter().all(|t| (0.0..1e10).contains(t)), "{times:?}");
            assert!(times.iter().sum::<f64>() > 0.0, "{times:?}");
        }
        let mut untimed = Tape::record(gpu, &steps, &ONE_BUFFER).unwrap();
        run(&mut untimed);
        assert_eq!(untimed.step_nanoseconds().unwrap(), None);
    });
}

#[test]
fn steps_beyond_the_limits_are_refused_when_recorded() {
    let clamp = LimitsClamp {
        max_workgroup_count: Some([4, 4, 4]),
        max_storage_buffer_range: Some(16 * 64),
        max_bound_bytes: Some(16 * 96),
        ..LimitsClamp::default()
    };
    with_gpu(&GpuOptions { limits_clamp: Some(clamp), ..options() }, |gpu| {
        let record = |extent: (u32, u32), groups| {
            let a = gpu.create_buffer(extent.0, extent.1).unwrap();
            let b = gpu.create_buffer(extent.0, extent.1).unwrap();
            let affine = pipeline(gpu, &a, &b, 3, 5);
            let operands = [Operand::new(0, &a), Operand::new(1, &b)];
            let work = Work::Dispatch { pipeline: &affine, operands: &operands, groups };
            Tape::record(gpu, &[Step { work, barrier_before: false, discard: &[] }], &ONE_BUFFER).map(drop)
        };
        assert_eq!(record((8, 6), [4, 4, 4]), Ok(()));
        let limit = |result| match result {
            Err(Error::LimitExceeded { value, limit, .. }) => (value, limit),
            other => panic!("{other:?}"),
        };
        assert_eq!(limit(record((8, 6), [1, 5, 1])), (5, 4), "workgroup count");
        assert_eq!(limit(record((8, 9), [1, 1, 1])), (16 * 72, 16 * 64), "one binding");
        assert_eq!(limit(record((8, 7), [1, 1, 1])), (16 * 112, 16 * 96), "sum of bindings");
    });
}

#[test]
fn operands_the_shader_does_not_have_are_refused() {
    with_gpu(&options(), |gpu| {
        let a = gpu.create_buffer(8, 4).unwrap();
        let affine = pipeline(gpu, &a, &a, 1, 0);
        let record =
            |operands: &[Operand<'_>]| Tape::record(gpu, &[dispatch(&affine, operands, false)], &ONE_BUFFER).map(drop);
        let rule = |result| match result {
            Err(Error::Invalid { what, rule }) => format!("{what}: {rule}"),
            other => panic!("{other:?}"),
        };
        let unknown = rule(record(&[Operand::new(2, &a)]));
        assert!(unknown.contains("operand 2 of affine"), "{unknown}");
        let twice = rule(record(&[Operand::new(0, &a), Operand::new(0, &a)]));
        assert!(twice.contains("operand 0 of affine"), "{twice}");
        assert_eq!(record(&[Operand::new(0, &a)]), Ok(()), "an absent operand gets a dummy");
    });
}
