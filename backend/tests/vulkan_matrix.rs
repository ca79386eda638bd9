//! Matrix units: every one that the device lists computes, in subgroups that are full; where it lists none, modules that need them
//! are refused.

mod vulkan_support;

use std::sync::Arc;

use fblayout::device::{LimitsClamp, MatrixType, MatrixUnit};
use fblayout::vulkan::{Error, Gpu, GpuOptions, Operand, Step, Storage, Tape, TapeOptions, Work};
use fblayout_shaders::{Binding, BindingKind, Shader, Spirv};
use vulkan_support::{options, with_gpu};

/// `vulkan_shaders/matrix.comp`: operand 2 = operand 0 times operand 1, a part of the rows for each subgroup.
fn product(factors: MatrixType) -> Shader {
    const BINDINGS: [Binding; 3] = [
        Binding { binding: 0, kind: BindingKind::Buffer },
        Binding { binding: 2, kind: BindingKind::Buffer },
        Binding { binding: 4, kind: BindingKind::Buffer },
    ];
    let bytes: &[u8] = match factors {
        MatrixType::F16 => include_bytes!("vulkan_shaders/matrix.spv"),
        MatrixType::Bf16 => include_bytes!("vulkan_shaders/matrix_bf16.spv"),
    };
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let found = fblayout_shaders::reflect(&words).unwrap();
    assert_eq!(found.bindings, BINDINGS.map(|b| (b.binding, b.kind)));
    assert_eq!(found.constants, [0, 1, 2, 16, 17, 18]);
    assert!(found.matrix);
    let constants = &[0, 1, 2, 16, 17, 18];
    Shader {
        name: "matrix",
        spirv: Spirv::new(words.leak()),
        bindings: &BINDINGS,
        constants,
        matrix: found.matrix,
        matrix_sums: false,
        dots: false,
    }
}

fn constants(unit: &MatrixUnit, width: u32) -> [(u32, u32); 6] {
    [(0, width), (1, 1), (2, 1), (16, unit.m), (17, unit.n), (18, unit.k)]
}

/// Bits of a small integer, which both types hold exactly.
fn bits(factors: MatrixType, value: i32) -> u16 {
    match factors {
        MatrixType::F16 => half::f16::from_f32(value as f32).to_bits(),
        MatrixType::Bf16 => half::bf16::from_f32(value as f32).to_bits(),
    }
}

fn buffer(gpu: &Arc<Gpu>, bytes: u32) -> Storage {
    gpu.create_buffer(bytes / 16, 1).unwrap()
}

/// The device computes a tile for each of `subgroups` subgroups exactly.
fn check(gpu: &Arc<Gpu>, unit: &MatrixUnit, subgroups: u32) {
    let &MatrixUnit { factors, m, n, k, .. } = unit;
    let rows = m * subgroups;
    let [a, b, c] = [buffer(gpu, 2 * rows * k), buffer(gpu, 2 * k * n), buffer(gpu, 4 * rows * n)];
    // Small integers, different in every row and column, so that all sums are exact.
    let left = |row: u32, i: u32| (row * 5 + i * 3) as i32 % 17 - 8;
    let right = |i: u32, column: u32| (i * 7 + column * 2) as i32 % 13 - 6;
    let bytes = |height: u32, width: u32, value: &dyn Fn(u32, u32) -> i32| -> Vec<u8> {
        let all = (0..height).flat_map(|y| (0..width).map(move |x| (y, x)));
        all.flat_map(|(y, x)| bits(factors, value(y, x)).to_le_bytes()).collect()
    };
    gpu.upload(&a, &bytes(rows, k, &left)).unwrap();
    gpu.upload(&b, &bytes(k, n, &right)).unwrap();
    let pipeline = gpu.pipeline(&product(factors), &constants(unit, unit.subgroup * subgroups)).unwrap();
    let operands = [Operand::new(0, &a), Operand::new(1, &b), Operand::new(2, &c)];
    let work = Work::Dispatch { pipeline: &pipeline, operands: &operands, groups: [1, 1, 1] };
    let steps = [Step { work, barrier_before: false, discard: &[] }];
    let mut tape = Tape::record(gpu, &steps, &TapeOptions::default()).unwrap();
    tape.submit().unwrap();
    tape.wait().unwrap();
    let found: Vec<f32> =
        gpu.download(&c).unwrap().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    for row in 0..rows {
        for column in 0..n {
            let want: i32 = (0..k).map(|i| left(row, i) * right(i, column)).sum();
            assert_eq!(
                found[(row * n + column) as usize],
                want as f32,
                "{unit:?}, {subgroups}: row {row}, column {column}"
            );
        }
    }
}

#[test]
fn every_unit_multiplies_in_full_subgroups() {
    with_gpu(&options(), |gpu| {
        println!("{}: {:?}", gpu.adapter().name, gpu.limits().matrix_units);
        assert!(gpu.limits().matrix_units.is_sorted());
        for unit in &gpu.limits().matrix_units {
            assert!(unit.subgroup.is_power_of_two() && unit.max_invocations >= unit.subgroup, "{unit:?}");
            // Texels of the test's shader hold eight elements.
            if unit.k % 8 == 0 && unit.n % 8 == 0 {
                for subgroups in [1, 3] {
                    check(gpu, unit, subgroups);
                }
            }
        }
    });
}

#[test]
fn workgroups_that_are_not_of_full_subgroups_are_refused() {
    with_gpu(&options(), |gpu| {
        let Some(unit) = gpu.limits().matrix_units.first() else { return };
        let refused = |width| gpu.pipeline(&product(unit.factors), &constants(unit, width)).unwrap_err();
        let uneven = refused(unit.subgroup + 1).to_string();
        assert!(uneven.contains(&format!("subgroups of {} are full", unit.subgroup)), "{uneven}");
        if unit.max_invocations < gpu.limits().max_workgroup_invocations {
            let wide = refused(unit.max_invocations + unit.subgroup);
            assert!(matches!(wide, Error::LimitExceeded { .. }), "{wide}");
        }
    });
}

#[test]
fn without_units_modules_that_need_them_are_refused() {
    let off = LimitsClamp { matrix_units: Some(Vec::new()), ..LimitsClamp::default() };
    with_gpu(&GpuOptions { limits_clamp: Some(off), ..options() }, |gpu| {
        assert_eq!(gpu.limits().matrix_units, []);
        let refused = gpu.pipeline(&product(MatrixType::F16), &[(0, 8)]).unwrap_err().to_string();
        assert!(refused.contains("matrix units"), "{refused}");
    });
}
