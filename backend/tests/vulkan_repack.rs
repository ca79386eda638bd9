//! What the device packs is what the processor packs, bit for bit, and comes back: any type, shape, home and part, through staging that
//! holds little of it.

mod vulkan_support;

use std::sync::Arc;

use fblayout::device::LimitsClamp;
use fblayout::engine::{Engine, EngineOptions, Tensor};
use fblayout::graph::{DType, Desc, Shape};
use fblayout::kernels::{StorageKind, Way};
use fblayout::plan::{PlanOptions, Policy, StorageChoice};
use fblayout::vulkan::{GpuOptions, Repacking};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use vulkan_support::options;

/// Plain types of every size, both tiles, and blocks that fill texels and that do not.
const DTYPES: [DType; 9] =
    [DType::F32, DType::F16, DType::BF16, DType::I64, DType::Q8_0, DType::Q4_1, DType::Q4_0, DType::MXFP4, DType::Q6_K];

/// Opens an engine whose device repacks all that it can, runs `check`, and wants no message of validation.
fn with_engine(staging_bytes: u64, plan: PlanOptions, clamp: LimitsClamp, check: impl FnOnce(&Engine)) {
    let gpu = GpuOptions { staging_bytes, repacking: Repacking::Device, limits_clamp: Some(clamp), ..options() };
    let engine = Engine::open(0, &EngineOptions { gpu, plan, ..EngineOptions::default() }).expect("a Vulkan device");
    let log = Arc::clone(engine.gpu().validation());
    check(&engine);
    drop(engine);
    assert_eq!(log.messages(), Vec::<String>::new());
}

/// Any bits, NaNs of all kinds among them.
fn bytes(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn shape(dtype: DType, [blocks, n1, n2, n3]: [u32; 4]) -> Shape {
    [if dtype.block() > 1 { blocks.div_ceil(dtype.block() / 16) * dtype.block() } else { blocks }, n1, n2, n3]
}

/// A tensor whose storage holds no zero, padding included.
fn poisoned(engine: &Engine, dtype: DType, shape: Shape) -> Tensor {
    let tensor = engine.create(dtype, shape).unwrap();
    engine.gpu().fill(tensor.storage(), 0xffff_ffff).unwrap();
    tensor
}

/// Whether the kernel moves a whole tensor: nothing else does but what is linear anyway.
fn by_device(engine: &Engine, tensor: &Tensor) -> bool {
    let size = tensor.desc().bytes();
    let moves = |way| {
        let room = engine.gpu().repack_room(tensor.storage(), way, size);
        tensor.home().repack(way, 0..size, room, engine.limits()).is_some()
    };
    !tensor.home().is_linear() && moves(Way::In) && moves(Way::Out)
}

/// Writes a tensor, compares its texels, and reads it again; true if the device did both.
fn round_trips(engine: &Engine, dtype: DType, shape: Shape, seed: u64) -> bool {
    let tensor = poisoned(engine, dtype, shape);
    let linear = bytes(Desc { dtype, shape }.bytes() as usize, seed);
    engine.write(&tensor, &linear).unwrap();
    let home = tensor.home();
    let texels = engine.gpu().download(tensor.storage()).unwrap();
    assert!(texels == home.pack(&linear).unwrap(), "{dtype:?} {shape:?} to {home:?}");
    assert!(engine.read(&tensor).unwrap() == linear, "{dtype:?} {shape:?} from {home:?}");
    by_device(engine, &tensor)
}

fn cases() -> impl Strategy<Value = (DType, [u32; 4], u64)> {
    let extents = prop_oneof![
        (1..70_u32, 1..50_u32, Just(1), Just(1)),
        (1..40_u32, 1..12_u32, 1..9_u32, 1..4_u32),
        (200..1500_u32, 1..6_u32, 1..3_u32, Just(1)),
    ];
    (0..DTYPES.len(), extents, any::<u64>())
        .prop_map(|(dtype, (n0, n1, n2, n3), seed)| (DTYPES[dtype], [n0, n1, n2, n3], seed))
}

#[test]
fn the_device_packs_as_the_processor_does() {
    // Much of a tensor in a piece, a few rows, and less than a row.
    for (staging, storage) in
        [(1 << 20, StorageChoice::Buffer), (1 << 13, StorageChoice::Image), (1 << 10, StorageChoice::Buffer)]
    {
        let plan = PlanOptions { storage, ..PlanOptions::default() };
        with_engine(staging, plan, LimitsClamp::default(), |engine| {
            let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::with_cases(60) });
            let ran = runner.run(&cases(), |(dtype, extents, seed)| {
                round_trips(engine, dtype, shape(dtype, extents), seed);
                Ok(())
            });
            ran.unwrap_or_else(|why| panic!("{storage:?}, staging {staging}: {why}"));
            for dtype in DTYPES {
                // Four rows of a block are what the smallest staging holds.
                let shape = [dtype.block().max(19), 11, 3, 1];
                assert!(round_trips(engine, dtype, shape, 7), "{dtype:?} is not moved");
            }
        });
    }
}

/// Rows beyond the image limit lie beside others, long ones above each other.
#[test]
fn folded_homes_are_packed() {
    let plan = PlanOptions { storage: StorageChoice::Image, ..PlanOptions::default() };
    let clamp = LimitsClamp { max_image_2d: Some(48), ..LimitsClamp::default() };
    with_engine(1 << 13, plan, clamp, |engine| {
        for (dtype, shape) in [
            (DType::F32, [5, 403, 1, 1]),
            (DType::F16, [9, 50, 12, 1]),
            (DType::F32, [700, 9, 1, 1]),
            (DType::Q8_0, [32, 300, 1, 1]),
            (DType::Q4_1, [64, 150, 1, 1]),
            // Seven blocks in eight columns.
            (DType::Q8_0, [224, 20, 1, 1]),
        ] {
            assert!(round_trips(engine, dtype, shape, 3), "{dtype:?} {shape:?}");
        }
        // Blocks of several rows in a row of texels are left to the processor.
        assert!(!round_trips(engine, DType::MXFP4, [64, 150, 1, 1], 3));
    });
}

/// A buffer that no binding holds is bound by rows.
#[test]
fn large_buffers_are_bound_in_part() {
    let plan = PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() };
    let clamp = LimitsClamp {
        max_storage_buffer_range: Some(16 << 10),
        storage_buffer_alignment: Some(256),
        ..LimitsClamp::default()
    };
    with_engine(1 << 13, plan, clamp, |engine| {
        for (dtype, shape) in [
            (DType::F32, [20, 1003, 1, 1]),
            (DType::F16, [17, 9, 130, 1]),
            (DType::F32, [6, 5, 8, 30]),
            (DType::Q8_0, [96, 301, 2, 1]),
            (DType::MXFP4, [96, 301, 2, 1]),
        ] {
            assert!(round_trips(engine, dtype, shape, 5), "{dtype:?} {shape:?}");
        }
    });
}

/// What a dispatch binds altogether is shared with staging, however little of that a transfer needs.
#[test]
fn bindings_leave_room_for_staging() {
    let plan = PlanOptions { storage: StorageChoice::Buffer, ..PlanOptions::default() };
    let clamp = LimitsClamp { max_bound_bytes: Some(16 << 20), ..LimitsClamp::default() };
    with_engine(16 << 20, plan, clamp, |engine| {
        assert!(round_trips(engine, DType::F32, [1001, 3003, 1, 1], 5));
    });
}

/// Any part comes back, and is written, by whoever does it, without a change of what is beside it.
#[test]
fn parts_are_read_and_written() {
    for (storage, policy) in [(StorageChoice::Buffer, Policy::Full), (StorageChoice::Image, Policy::HonestRowmajor)] {
        let plan = PlanOptions { storage, policy, ..PlanOptions::default() };
        with_engine(1 << 11, plan, LimitsClamp::default(), |engine| {
            let mut by_device = 0;
            for (dtype, shape, row) in [
                (DType::F32, [64, 13, 3, 1], 256),
                (DType::F16, [19, 12, 5, 1], 38),
                (DType::Q8_0, [64, 12, 2, 1], 68),
                (DType::MXFP4, [96, 7, 2, 1], 51),
            ] {
                let tensor = engine.create(dtype, shape).unwrap();
                let total = Desc { dtype, shape }.bytes() as usize;
                let mut linear = bytes(total, 1);
                engine.write(&tensor, &linear).unwrap();
                let parts = [(0, total), (0, 8 * row), (4 * row, 12 * row), (5, 6), (total - 3 * row, total), (7, 7)];
                for (start, end) in parts {
                    let part = bytes(end - start, 9 + start as u64);
                    linear[start..end].copy_from_slice(&part);
                    engine.write_part(&tensor, start as u64, &part).unwrap();
                    let texels = engine.gpu().download(tensor.storage()).unwrap();
                    assert!(texels == tensor.home().pack(&linear).unwrap(), "{dtype:?} {shape:?} {start}..{end}");
                    let mut read = vec![0; end - start];
                    engine.read_part(&tensor, start as u64, &mut read).unwrap();
                    assert!(read == part, "{dtype:?} {shape:?} {start}..{end}");
                    let room = engine.gpu().repack_room(tensor.storage(), Way::In, part.len() as u64);
                    let range = start as u64..end as u64;
                    let way = tensor.home().repack(Way::In, range, room, engine.limits());
                    by_device += usize::from(way.is_some());
                }
            }
            assert!((8..24).contains(&by_device), "{by_device} of 24 parts fill texels");
        });
    }
}

/// Zeros are zeros in every home, and do not travel.
#[test]
fn zeros_are_set_on_the_device() {
    with_engine(1 << 12, PlanOptions::default(), LimitsClamp::default(), |engine| {
        for (dtype, shape) in
            [(DType::F16, [19, 12, 5, 1]), (DType::Q8_0, [64, 12, 2, 1]), (DType::Q6_K, [256, 5, 1, 1])]
        {
            let tensor = poisoned(engine, dtype, shape);
            engine.zero(&tensor).unwrap();
            assert!(engine.read(&tensor).unwrap().iter().all(|&byte| byte == 0), "{dtype:?}");
            assert!(engine.gpu().download(tensor.storage()).unwrap().iter().all(|&byte| byte == 0), "{dtype:?}");
        }
    });
}

/// Transfers of any length use the same few pipelines, and leave nothing behind.
#[test]
fn what_transfers_need_is_bounded() {
    with_engine(1 << 12, PlanOptions::default(), LimitsClamp::default(), |engine| {
        let run = || {
            for n in 1..20 {
                assert!(round_trips(engine, DType::F32, [3 * n, 31, n, 1], n.into()));
            }
        };
        run();
        let census = engine.gpu().census();
        assert_eq!(census.pipelines, 2, "one each way");
        run();
        assert_eq!(engine.gpu().census(), census);
        let kind = engine.home(DType::F32, [3, 31, 1, 1]).unwrap().kind;
        assert_eq!(kind, StorageKind::Buffer);
    });
}
