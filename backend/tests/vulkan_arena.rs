//! Arenas: storages that share bytes, footprints, block boundaries.

mod vulkan_support;

use fblayout::device::LimitsClamp;
use fblayout::kernels::StorageKind::{Buffer, Image};
use fblayout::plan::{Footprint, UpperBound};
use fblayout::vulkan::{Arena, Error, GpuOptions, Operand, Step, Storage, Tape, TapeOptions, Work};
use vulkan_support::{affine, affine_constants, affine_of, groups, options, pattern_for, with_gpu};

const ONE_BUFFER: TapeOptions = TapeOptions { steps_per_buffer: usize::MAX, timing: false, pieces_in_order: false };

#[test]
fn neighbours_by_footprint_do_not_touch() {
    for force_staging in [false, true] {
        with_gpu(&GpuOptions { force_staging, ..options() }, |gpu| {
            let mut end = 0;
            let places: Vec<_> = [(Buffer, 3, 3), (Image, 5, 2), (Buffer, 1, 1), (Image, 33, 17), (Buffer, 7, 9)]
                .map(|(kind, w, h)| {
                    let footprint = gpu.storage_footprint(kind, w, h).unwrap();
                    assert!(footprint.bytes >= u64::from(w * h) * 16);
                    let offset = u64::next_multiple_of(end, footprint.alignment);
                    end = offset + footprint.bytes;
                    (kind, offset, w, h)
                })
                .into();
            let arena = Arena::new(gpu, &[end]).unwrap();
            assert_eq!(arena.bytes(), end);
            let storages: Vec<Storage> = places
                .into_iter()
                .map(|(kind, offset, w, h)| match kind {
                    Buffer => arena.place_buffer(offset, w, h).unwrap(),
                    Image => arena.place_image(offset, w, h).unwrap(),
                })
                .collect();
            drop(arena);
            let data: Vec<_> = storages.iter().zip(0..).map(|(s, i)| pattern_for(s, i)).collect();
            for (storage, data) in storages.iter().zip(&data) {
                gpu.upload(storage, data).unwrap();
            }
            for (storage, data) in storages.iter().zip(&data) {
                assert_eq!(&gpu.download(storage).unwrap(), data, "{storage:?}");
            }
        });
    }
}

#[test]
fn buffers_at_one_offset_are_the_same_bytes() {
    with_gpu(&options(), |gpu| {
        let arena = Arena::new(gpu, &[4096]).unwrap();
        let wide = arena.place_buffer(1024, 12, 2).unwrap();
        let tall = arena.place_buffer(1024, 3, 8).unwrap();
        let data = pattern_for(&wide, 8);
        gpu.upload(&wide, &data).unwrap();
        assert_eq!(gpu.download(&tall).unwrap(), data);
    });
}

/// Two images and a buffer take turns in the same bytes within one tape, three runs over.
#[test]
fn aliased_images_are_discarded_before_their_first_write() {
    with_gpu(&options(), |gpu| {
        let shader = affine();
        let (width, height) = (31, 9);
        let bytes = gpu.storage_footprint(Image, width, height).unwrap().bytes.max(u64::from(width * height) * 16);
        let arena = Arena::new(gpu, &[bytes]).unwrap();
        let shared = [
            arena.place_image(0, width, height).unwrap(),
            arena.place_buffer(0, width, height).unwrap(),
            arena.place_image(0, width, height).unwrap(),
        ];
        assert!(matches!(gpu.download(&shared[0]), Err(Error::Invalid { .. })), "never written");
        let input = gpu.create_buffer(width, height).unwrap();
        let results: Vec<_> = shared.iter().map(|_| gpu.create_buffer(width, height).unwrap()).collect();

        let passes: Vec<_> = shared
            .iter()
            .zip(&results)
            .zip(1_u32..)
            .map(|((shared, result), i)| {
                let write = gpu.pipeline(&shader, &affine_constants(&input, shared, i, 0)).unwrap();
                let read = gpu.pipeline(&shader, &affine_constants(shared, result, 1, i)).unwrap();
                let write = (write, [Operand::new(0, &input), Operand::new(1, shared)]);
                let read = (read, [Operand::new(0, shared), Operand::new(1, result)]);
                (write, read, [shared])
            })
            .collect();
        let mut steps = Vec::new();
        for ((write, write_operands), (read, read_operands), first_written) in &passes {
            let work = Work::Dispatch { pipeline: write, operands: write_operands, groups: groups(&input) };
            let is_image = first_written[0].kind() == Image;
            let discard: &[&Storage] = if is_image { first_written } else { &[] };
            steps.push(Step { work, barrier_before: true, discard });
            let work = Work::Dispatch { pipeline: read, operands: read_operands, groups: groups(&input) };
            steps.push(Step { work, barrier_before: true, discard: &[] });
        }
        let mut tape = Tape::record(gpu, &steps, &ONE_BUFFER).unwrap();
        for run in 0..3 {
            let data = pattern_for(&input, run);
            gpu.upload(&input, &data).unwrap();
            tape.submit().unwrap();
            tape.wait().unwrap();
            for (result, i) in results.iter().zip(1_u32..) {
                assert_eq!(gpu.download(result).unwrap(), affine_of(&data, i, i), "run {run}, storage {i}");
            }
        }
    });
}

#[test]
fn an_arena_larger_than_an_allocation_has_blocks() {
    let clamp = LimitsClamp { max_allocation: Some(1 << 16), ..LimitsClamp::default() };
    with_gpu(&GpuOptions { limits_clamp: Some(clamp), staging_bytes: 4096, ..options() }, |gpu| {
        assert_eq!(gpu.arena_block_bytes(), 1 << 16);
        let arena = Arena::new(gpu, &[1 << 16, (1 << 16) - 4096, 1 << 14]).unwrap();
        let storages: Vec<_> =
            [0_u64, 1 << 16, (2 << 16) + 4096].map(|offset| arena.place_buffer(offset, 16, 16).unwrap()).into();
        for (storage, seed) in storages.iter().zip(0..) {
            gpu.upload(storage, &pattern_for(storage, seed)).unwrap();
        }
        for (storage, seed) in storages.iter().zip(0..) {
            assert_eq!(gpu.download(storage).unwrap(), pattern_for(storage, seed));
        }
        let straddling = arena.place_buffer((1 << 16) - 2048, 16, 16);
        assert!(matches!(straddling, Err(Error::Invalid { .. })));
        let outside = arena.place_buffer(arena.bytes(), 1, 1);
        assert!(matches!(outside, Err(Error::Invalid { .. })));
        let crooked = arena.place_buffer(8, 1, 1);
        assert!(matches!(crooked, Err(Error::Invalid { .. })));
    });
}

/// What a plan for limits alone says of memory holds on the device that has these limits.
#[test]
fn footprints_stay_below_the_bound_from_limits() {
    with_gpu(&options(), |gpu| {
        let bound = UpperBound(gpu.limits());
        for kind in [Buffer, Image] {
            for (width, height) in [(1, 1), (1, 300), (63, 65), (64, 64), (65, 1), (1000, 7), (4096, 128)] {
                let footprint = gpu.storage_footprint(kind, width, height).unwrap();
                let size = bound.size(kind, width, height).unwrap();
                assert!(footprint.bytes <= size.bytes, "{kind:?} {width} x {height}: {footprint:?} {size:?}");
                assert!(footprint.alignment <= size.alignment, "{kind:?} {width} x {height}: {footprint:?} {size:?}");
            }
        }
    });
}
