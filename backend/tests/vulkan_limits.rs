//! Devices, limits, memory budget, pipeline cache, and validation that really counts.

mod vulkan_support;

use std::sync::Arc;

use fblayout::device::LimitsClamp;
use fblayout::vulkan::{AdapterKind, Arena, Error, Gpu, GpuOptions, adapters};
use fblayout_shaders::{Shader, Spirv};
use vulkan_support::{affine, affine_constants, options, with_gpu};

fn clamped(clamp: LimitsClamp) -> GpuOptions {
    GpuOptions { limits_clamp: Some(clamp), ..options() }
}

#[test]
fn devices_are_listed_best_first() {
    let found = adapters().unwrap();
    assert!(found.iter().enumerate().all(|(i, a)| a.index == i && !a.name.is_empty() && a.memory > 0), "{found:?}");
    assert!(found.is_sorted_by_key(|a| a.kind), "{found:?}");
    assert!(AdapterKind::Discrete < AdapterKind::Cpu);
    let gpu = Gpu::open(0, &options()).unwrap();
    assert_eq!(gpu.adapter(), &found[0]);
    let missing = Gpu::open(found.len(), &options()).unwrap_err();
    assert!(matches!(missing, Error::NoDevice { .. }), "{missing}");
}

#[test]
fn limits_meet_what_vulkan_promises_and_clamps_hold() {
    with_gpu(&options(), |gpu| {
        let limits = gpu.limits();
        assert!(limits.max_image_2d >= 4096 && limits.max_storage_buffer_range >= 1 << 27);
        assert!(limits.storage_buffer_alignment.is_power_of_two() && limits.max_allocation >= 1 << 30);
        assert!(limits.subgroup_size > 0 && limits.heap_bytes > 0);
    });
    with_gpu(&clamped(LimitsClamp::parse("vulkan-minimum").unwrap()), |gpu| {
        assert_eq!(gpu.limits().max_image_2d, 4096);
        assert_eq!(gpu.limits().storage_buffer_alignment, 256);
        let size = gpu.create_image(4097, 1).unwrap_err();
        assert!(matches!(size, Error::LimitExceeded { value: 4097, limit: 4096, .. }), "{size}");
        gpu.create_image(4096, 1).unwrap();
    });
}

#[test]
fn images_the_device_cannot_hold_are_refused() {
    with_gpu(&options(), |gpu| {
        let side = gpu.limits().max_image_2d;
        for (width, height) in [(side + 1, 1), (1, side + 1), (u32::MAX, u32::MAX)] {
            let refused = gpu.create_image(width, height).unwrap_err();
            assert!(matches!(refused, Error::LimitExceeded { .. }), "{refused}");
            assert!(refused.to_string().contains("image"), "{refused}");
        }
        assert!(matches!(gpu.create_buffer(u32::MAX, u32::MAX), Err(Error::LimitExceeded { .. })));
    });
}

#[test]
fn memory_beyond_the_clamped_heap_is_refused_and_comes_back() {
    let mib = 1 << 20;
    with_gpu(&clamped(LimitsClamp { heap_bytes: Some(4 * mib), ..LimitsClamp::default() }), |gpu| {
        let idle = gpu.memory();
        assert_eq!(idle.limit, 4 * mib);
        let half = gpu.create_buffer(1 << 10, 1 << 7).unwrap();
        assert_eq!(gpu.memory().in_use, idle.in_use + 2 * mib);
        let check = |refused: Error| match refused {
            Error::OutOfDeviceMemory { requested, in_use, limit, .. } => {
                assert!(requested >= 2 * mib && in_use >= 2 * mib && limit == 4 * mib);
            }
            other => panic!("{other}"),
        };
        check(gpu.create_buffer(1 << 10, 1 << 7).map(drop).unwrap_err());
        check(gpu.create_image(1 << 10, 1 << 7).map(drop).unwrap_err());
        check(Arena::new(gpu, &[2 * mib]).map(drop).unwrap_err());
        drop(half);
        assert_eq!(gpu.memory().in_use, idle.in_use);
        Arena::new(gpu, &[2 * mib]).unwrap();
    });
}

#[test]
fn the_pipeline_cache_drops_the_least_recently_used() {
    with_gpu(&GpuOptions { max_pipelines: 2, ..options() }, |gpu| {
        let storage = gpu.create_buffer(8, 4).unwrap();
        let get = |bias| gpu.pipeline(&affine(), &affine_constants(&storage, &storage, 1, bias)).unwrap();
        let (first, second) = (get(1), get(2));
        assert!(Arc::ptr_eq(&first, &get(1)), "kept and now the more recent one");
        get(3);
        assert_eq!(gpu.cached_pipelines(), 2);
        assert!(Arc::ptr_eq(&first, &get(1)));
        assert!(!Arc::ptr_eq(&second, &get(2)), "dropped, so built anew");
    });
}

#[test]
fn many_pipelines_are_each_built_once_and_kept_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let options = GpuOptions { cache_folder: Some(folder.path().to_owned()), ..options() };
    let file = || std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).next();
    let all = |gpu: &Arc<Gpu>| {
        let storage = gpu.create_buffer(8, 4).unwrap();
        let constants: Vec<_> = [1, 2, 1, 3, 2].map(|bias| affine_constants(&storage, &storage, 1, bias)).into();
        let shader = affine();
        let wanted: Vec<_> = constants.iter().map(|constants| (&shader, &**constants)).collect();
        let pipelines = gpu.pipelines(&wanted).unwrap();
        assert_eq!(gpu.cached_pipelines(), 3);
        for (i, j) in [(0, 2), (1, 4)] {
            assert!(Arc::ptr_eq(&pipelines[i], &pipelines[j]));
        }
        let refused = gpu.pipelines(&[(&shader, &constants[0]), (&shader, &[(16, 4), (16, 5)])]).unwrap_err();
        assert!(matches!(refused, Error::Pipeline { .. }), "{refused}");
    };
    with_gpu(&options, all);
    let kept = file().expect("a file of this device");
    with_gpu(&options, all);
    std::fs::write(&kept, b"no pipelines at all, but more bytes than the head of a file has").unwrap();
    with_gpu(&options, all);
    // A folder that cannot be written costs nothing but the file.
    with_gpu(&GpuOptions { cache_folder: Some(kept), ..options }, all);
}

#[test]
fn constants_are_a_set_and_unknown_ids_do_not_count() {
    with_gpu(&options(), |gpu| {
        let one = gpu.pipeline(&affine(), &[(16, 4), (17, 2)]).unwrap();
        let same = gpu.pipeline(&affine(), &[(17, 2), (99, 1), (16, 4)]).unwrap();
        assert!(Arc::ptr_eq(&one, &same));
        let twice = gpu.pipeline(&affine(), &[(16, 4), (16, 5)]).unwrap_err();
        assert!(matches!(&twice, Error::Pipeline { shader, .. } if shader == "affine"), "{twice}");
    });
}

#[test]
fn pipelines_beyond_the_limits_are_refused() {
    let clamp = LimitsClamp { max_workgroup_invocations: Some(128), ..LimitsClamp::default() };
    with_gpu(&clamped(clamp), |gpu| {
        let refused = gpu.pipeline(&affine(), &[(0, 16), (1, 16)]).unwrap_err();
        assert!(matches!(refused, Error::LimitExceeded { value: 256, limit: 128, .. }), "{refused}");
        let text = gpu.pipeline(&Shader { spirv: Spirv::new(&[0; 16]), ..affine() }, &[]).unwrap_err().to_string();
        assert!(text.contains("affine") && text.contains("SPIR-V"), "{text}");
    });
    with_gpu(&clamped(LimitsClamp { max_storage_bindings: Some(1), ..LimitsClamp::default() }), |gpu| {
        let refused = gpu.pipeline(&affine(), &[]).unwrap_err();
        assert!(matches!(refused, Error::LimitExceeded { value: 2, limit: 1, .. }), "{refused}");
    });
}
