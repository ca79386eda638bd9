//! CPY, REPEAT and PAD.

use fblayout::graph::{DType, Desc, Op, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [[1, 1, 1, 1], [3, 5, 1, 1], [9, 33, 2, 1], [65, 3, 2, 2], [300, 9, 1, 1]] {
        cases.push(copy(format!("{shape:?}"), DType::F32, shape, DType::F32, Fill::Floats(3.0)));
    }
    for (n, m) in [(1, 7), (5, 3), (33, 17), (65, 64)] {
        let mut s = Setup::new();
        let inputs = vec![s.f32([n, m, 1, 1], Fill::Floats(3.0)).transpose()];
        cases.push(s.case_as(format!("[{n}, {m}] transposed"), Op::Copy, inputs, Desc::f32([m, n, 1, 1])));
    }
    for (hd, heads, tokens) in [(64, 9, 33), (20, 3, 5), (5, 3, 7)] {
        let heads_merged = [hd * heads, tokens, 1, 1];
        let mut s = Setup::new();
        let inputs = vec![by_head(s.f32([hd, tokens, heads, 1], Fill::Floats(3.0)))];
        cases.push(s.case_as(format!("{heads} heads of {hd} merged"), Op::Copy, inputs, Desc::f32(heads_merged)));
        let mut s = Setup::new();
        let inputs = vec![by_head(s.f32([hd, heads, tokens, 1], Fill::Floats(3.0))).transpose()];
        let output = Desc::f32([tokens, hd, heads, 1]);
        cases.push(s.case_as(format!("{heads} heads of {hd}, tokens innermost"), Op::Copy, inputs, output));
    }
    cases.push(reshaped([12, 5, 1, 1], [4, 3, 5, 1]));
    cases.push(reshaped([64, 9, 3, 1], [576, 3, 1, 1]));
    // Rows that are no whole number of texels, regrouped.
    cases.push(reshaped([6, 5, 1, 1], [30, 1, 1, 1]));
    cases.push(reshaped([30, 3, 1, 1], [3, 10, 3, 1]));
    for shape in [[7, 5, 1, 1], [65, 9, 1, 1]] {
        cases.push(copy(format!("{shape:?} to F16"), DType::F32, shape, DType::F16, Fill::Floats(3.0)));
        cases.push(copy(format!("{shape:?} from F16"), DType::F16, shape, DType::F32, Fill::Floats(3.0)));
    }
    cases.push(copy("F16 rounding".into(), DType::F32, [8, 1, 1, 1], DType::F16, halves()));
    cases.push(copy("I32".into(), DType::I32, [33, 3, 1, 1], DType::I32, Fill::Ids(49152)));
    for dtype in [DType::Q8_0, DType::Q4_1] {
        cases.push(copy(format!("from {dtype:?}"), dtype, [96, 9, 1, 1], DType::F32, Fill::Floats(3.0)));
    }
    for from in [DType::F32, DType::F16] {
        cases.push(copy(format!("{from:?} cut to I32"), from, [9, 5, 1, 1], DType::I32, Fill::Floats(90.0)));
    }
    for to in [DType::F32, DType::F16] {
        cases.push(copy(format!("I32 to {to:?}"), DType::I32, [9, 5, 1, 1], to, Fill::Integers));
    }
    for dtype in [DType::I32, DType::F16] {
        let mut s = Setup::new();
        let inputs = vec![s.input(dtype, [5, 3, 1, 1], Fill::Ids(2000))];
        let output = Desc { dtype, shape: [10, 3, 2, 1] };
        cases.push(s.case_as(format!("{dtype:?}"), Op::Repeat, inputs, output));
    }
    for (from, to) in [
        ([5, 1, 1, 1], [5, 33, 1, 1]),
        ([1, 1, 1, 1], [9, 5, 2, 1]),
        ([1, 7, 1, 1], [33, 7, 1, 1]),
        ([12, 3, 2, 1], [12, 6, 4, 2]),
        ([3, 2, 1, 1], [9, 4, 1, 1]),
    ] {
        let mut s = Setup::new();
        let inputs = vec![s.f32(from, Fill::Floats(3.0))];
        cases.push(s.case_as(format!("{from:?} to {to:?}"), Op::Repeat, inputs, Desc::f32(to)));
    }
    for (from, before, to) in [
        ([1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 1, 1]),
        ([5, 3, 1, 1], [0, 0, 0, 0], [9, 7, 2, 1]),
        ([12, 5, 2, 1], [8, 2, 0, 0], [40, 9, 2, 1]),
        ([7, 3, 2, 2], [3, 1, 2, 1], [65, 4, 5, 3]),
        ([64, 33, 1, 1], [512, 0, 0, 0], [576, 33, 1, 1]),
    ] {
        let mut s = Setup::new();
        let inputs = vec![s.f32(from, Fill::Floats(3.0))];
        cases.push(s.case_as(
            format!("{from:?} after {before:?} in {to:?}"),
            Op::Pad { before },
            inputs,
            Desc::f32(to),
        ));
    }
    let mut s = Setup::new();
    let inputs = vec![s.f32([9, 6, 1, 1], Fill::Floats(3.0)).transpose()];
    let pad = Op::Pad { before: [2, 4, 0, 0] };
    cases.push(s.case_as("a transposed operand", pad, inputs, Desc::f32([11, 13, 1, 1])));
    cases
}

fn copy(name: String, from: DType, shape: Shape, to: DType, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(from, shape, fill)];
    s.case_as(name, Op::Copy, inputs, Desc { dtype: to, shape })
}

fn reshaped(from: Shape, to: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(from, Fill::Floats(3.0))];
    s.case_as(format!("{from:?} as {to:?}"), Op::Copy, inputs, Desc::f32(to))
}

/// Ties between halves, overflow, subnormals.
fn halves() -> Fill {
    Fill::Given(vec![1.0 + 1.0 / 2048.0, 1.0 + 3.0 / 2048.0, 65504.0, 65520.0, -1e6, 3.0e-8, 6.0e-5, -0.0])
}
