//! What the Vulkan tests share: a device under validation, a shader, patterns.
#![allow(dead_code, reason = "every test binary uses a part of it")]

use std::sync::Arc;

use fblayout::vulkan::{Gpu, GpuOptions, Storage, Validation};
use fblayout_shaders::{Binding, BindingKind, Shader, Spirv};

/// Options of the tests: synchronization validation, unless the environment chooses otherwise.
pub fn options() -> GpuOptions {
    let from_env = GpuOptions::from_env().expect("environment");
    let validation = match std::env::var_os("FBL_VALIDATION") {
        Some(_) => from_env.validation,
        None => Validation::Sync,
    };
    GpuOptions { validation, ..from_env }
}

/// A device on which `check` must leave no validation message, nor its end, where what was leaked would show.
pub fn with_gpu(options: &GpuOptions, check: impl FnOnce(&Arc<Gpu>)) {
    let gpu = Gpu::open(0, options).expect("a Vulkan device");
    let log = Arc::clone(gpu.validation());
    check(&gpu);
    drop(gpu);
    assert_eq!(log.messages(), Vec::<String>::new());
}

/// Bytes whose period, a prime, divides no row length, so that swapped or shifted pieces show.
pub fn pattern(len: u64, seed: u64) -> Vec<u8> {
    (0..len).map(|i| ((i * 7 + seed * 31) % 251) as u8).collect()
}

/// The pattern that fills a storage.
pub fn pattern_for(storage: &Storage, seed: u64) -> Vec<u8> {
    pattern(storage.bytes(), seed)
}

/// `vulkan_shaders/affine.comp`: operand 1 = operand 0 * factor + bias, word by word.
pub fn affine() -> Shader {
    const fn bind(binding: u32, kind: BindingKind) -> Binding {
        Binding { binding, kind }
    }
    const BINDINGS: [Binding; 4] = [
        bind(0, BindingKind::Buffer),
        bind(1, BindingKind::Image),
        bind(2, BindingKind::Buffer),
        bind(3, BindingKind::Image),
    ];
    const CONSTANTS: [u32; 9] = [0, 1, 2, 16, 17, 18, 19, 64, 112];
    let bytes = include_bytes!("../vulkan_shaders/affine.spv");
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    Shader {
        name: "affine",
        spirv: Spirv::new(words.leak()),
        bindings: &BINDINGS,
        constants: &CONSTANTS,
        matrix: false,
        matrix_sums: false,
        dots: false,
    }
}

/// Specialization of the affine shader for storages of one extent.
pub fn affine_constants(input: &Storage, output: &Storage, factor: u32, bias: u32) -> Vec<(u32, u32)> {
    let image = |s: &Storage| u32::from(s.kind() == fblayout::kernels::StorageKind::Image);
    vec![
        (0, 8),
        (1, 4),
        (2, 1),
        (16, input.width()),
        (17, input.height()),
        (18, factor),
        (19, bias),
        (64, image(input)),
        (112, image(output)),
    ]
}

/// Workgroups of 8 x 4 invocations that cover a storage.
pub fn groups(storage: &Storage) -> [u32; 3] {
    [storage.width().div_ceil(8), storage.height().div_ceil(4), 1]
}

/// `words * factor + bias` of bytes.
pub fn affine_of(data: &[u8], factor: u32, bias: u32) -> Vec<u8> {
    data.chunks_exact(4)
        .flat_map(|b| {
            u32::from_le_bytes([b[0], b[1], b[2], b[3]]).wrapping_mul(factor).wrapping_add(bias).to_le_bytes()
        })
        .collect()
}
