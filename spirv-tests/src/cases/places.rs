//! Values at other places, left out, or between those of an operand.

use fblayout::graph::{DType, Desc, Op, Sampling, Shape, Triangle};

use crate::{Case, Fill, Setup};

pub fn moves() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, fill) in
        [(DType::F32, Fill::Floats(3.0)), (DType::F16, Fill::Floats(3.0)), (DType::I32, Fill::Ids(1 << 30))]
    {
        for axis in 0..4 {
            cases.push(concat(dtype, [11, 5, 3, 2], 7, axis, fill.clone()));
        }
    }
    // Quads of the first operand stay quads.
    cases.push(concat(DType::F32, [12, 5, 1, 1], 5, 0, Fill::Floats(3.0)));
    for axis in [0, 2] {
        cases.push(concat(DType::BF16, [11, 5, 3, 1], 7, axis, Fill::Integers));
        cases.push(concat(DType::I64, [11, 5, 3, 1], 7, axis, Fill::Ids(1 << 20)));
    }
    cases.push(concat(DType::Q4_0, [64, 3, 2, 1], 96, 0, Fill::Floats(2.0)));
    cases.push(concat(DType::Q8_0, [64, 3, 2, 1], 5, 1, Fill::Floats(2.0)));
    let mut s = Setup::new();
    let a = s.f32([7, 5, 1, 1], Fill::Floats(3.0)).transpose();
    let b = s.f32([9, 7, 1, 1], Fill::Floats(3.0)).slice(0, 3, 5).expect("columns 3..8 of 9");
    cases.push(s.case("of a transposed operand and a window", Op::Concat { axis: 1 }, vec![a, b]));

    let circular = |before| Op::PadCircular { before };
    cases.push(one(circular([1, 3, 5, 0]), [11, 6, 5, 2], Some([14, 13, 11, 2])));
    cases.push(one(circular([4, 0, 0, 0]), [5, 3, 1, 1], Some([17, 3, 1, 1])));
    cases.push(one(Op::PadReflect { before: 2 }, [5, 3, 2, 1], Some([11, 3, 2, 1])));
    cases.push(one(Op::PadReflect { before: 0 }, [65, 2, 1, 1], Some([70, 2, 1, 1])));
    cases.push(one(Op::Roll { shift: [3, -2, 1, -1] }, [10, 5, 4, 3], None));
    cases.push(one(Op::Roll { shift: [-64, 0, 0, 0] }, [65, 3, 1, 1], None));
    cases.push(one(Op::Diag, [10, 1, 4, 3], None));
    for op in [Op::DiagMaskInf { past: 0 }, Op::DiagMaskInf { past: 5 }, Op::DiagMaskZero { past: 2 }] {
        cases.push(one(op, [10, 7, 3, 1], None));
    }
    for triangle in [Triangle::UpperDiagonal, Triangle::Upper, Triangle::LowerDiagonal, Triangle::Lower] {
        cases.push(one(Op::Tri(triangle), [9, 9, 2, 1], None));
    }
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 6, 1, 1], Fill::Floats(3.0)).transpose()];
    cases.push(s.case("a transposed operand", Op::Roll { shift: [2, 4, 0, 0] }, inputs));
    cases
}

pub fn samples() -> Vec<Case> {
    let mut cases = Vec::new();
    let (small, large) = ([2, 5, 7, 3], [5, 7, 11, 4]);
    for sampling in [Sampling::Nearest, Sampling::Bilinear, Sampling::Bicubic, Sampling::Antialiased] {
        let op = Op::Upscale { sampling, align_corners: false };
        cases.push(one(op, small, Some(large)));
        cases.push(one(op, large, Some(small)));
        cases.push(one(op, [8, 6, 3, 1], Some([16, 12, 3, 1])));
    }
    for sampling in [Sampling::Nearest, Sampling::Bilinear, Sampling::Bicubic] {
        let op = Op::Upscale { sampling, align_corners: true };
        cases.push(one(op, small, Some(large)));
        cases.push(one(op, [1, 4, 3, 2], Some([2, 8, 3, 2])));
        cases.push(one(op, [4, 1, 3, 2], Some([1, 1, 3, 2])));
    }
    cases
}

fn one(op: Op, shape: Shape, output: Option<Shape>) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Floats(3.0))];
    match output {
        Some(output) => s.case_as(format!("{op:?} {shape:?} to {output:?}"), op, inputs, Desc::f32(output)),
        None => s.case(format!("{op:?} {shape:?}"), op, inputs),
    }
}

fn concat(dtype: DType, a: Shape, more: u32, axis: u32, fill: Fill) -> Case {
    let mut s = Setup::new();
    let mut b = a;
    b[axis as usize] = more;
    let inputs = vec![s.input(dtype, a, fill.clone()), s.input(dtype, b, fill)];
    s.case(format!("{dtype:?} {a:?} and {more} on axis {axis}"), Op::Concat { axis }, inputs)
}
