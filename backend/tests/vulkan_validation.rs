//! Validation is on when asked for: it sees a mistake and a hazard, and says so through the device.

mod vulkan_support;

use fblayout::vulkan::{Gpu, GpuOptions, Operand, Step, Tape, TapeOptions, Validation, Work};
use fblayout_shaders::Shader;
use vulkan_support::{affine, affine_constants, groups};

#[test]
fn core_validation_counts_a_mistake() {
    let gpu = Gpu::open(0, &GpuOptions { validation: Validation::Core, ..GpuOptions::default() }).unwrap();
    assert_eq!(gpu.validation().count(), 0);
    let whole = affine();
    // Reflection that forgets the last binding: the pipeline's layout lacks what the shader uses.
    let forgetful = Shader { bindings: &whole.bindings[..3], ..whole };
    let _ = gpu.pipeline(&forgetful, &[(112, 1)]);
    assert!(gpu.validation().count() > 0);
    let messages = gpu.validation_messages();
    assert!(messages.iter().any(|m| m.contains("VUID-VkComputePipelineCreateInfo-layout")), "{messages:?}");
}

#[test]
fn sync_validation_sees_a_missing_barrier() {
    let gpu = Gpu::open(0, &GpuOptions { validation: Validation::Sync, ..GpuOptions::default() }).unwrap();
    let [a, b, c] = [(); 3].map(|()| gpu.create_buffer(8, 4).unwrap());
    let pipeline = gpu.pipeline(&affine(), &affine_constants(&a, &b, 1, 1)).unwrap();
    let first = [Operand::new(0, &a), Operand::new(1, &b)];
    let second = [Operand::new(0, &b), Operand::new(1, &c)];
    let record = |barrier_before| {
        let steps = [&first, &second].map(|operands| Step {
            work: Work::Dispatch { pipeline: &pipeline, operands, groups: groups(&a) },
            barrier_before,
            discard: &[],
        });
        let options = TapeOptions { steps_per_buffer: usize::MAX, timing: false, pieces_in_order: false };
        Tape::record(&gpu, &steps, &options).unwrap();
        gpu.validation_messages()
    };
    assert_eq!(record(true), Vec::<String>::new());
    let messages = record(false);
    assert!(messages.iter().any(|m| m.contains("SYNC-HAZARD-READ-AFTER-WRITE")), "{messages:?}");
}
