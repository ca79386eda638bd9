//! Windows that are no digits of any home: their elements are found by number.

use fblayout::graph::{Binary, DType, Desc, Op, Operand, Shape};

use crate::{Case, Fill, Setup};

/// Copies of windows.
pub fn copies() -> Vec<Case> {
    let mut cases = vec![
        // Values of a cache that is stored token by token, read with the tokens innermost: every head's rows of one extent.
        copied("V cache transposed", DType::F32, [24, 40, 1, 1], [17, 12, 2, 1], [1, 40, 480, 0], 0),
        copied("rows of a part", DType::F32, [10, 9, 1, 1], [7, 3, 2, 1], [1, 13, 31, 0], 5),
        copied("aligned rows", DType::F32, [64, 1, 1, 1], [7, 5, 1, 1], [1, 12, 0, 0], 4),
        copied("overlapping rows", DType::F32, [50, 1, 1, 1], [9, 8, 3, 1], [1, 3, 7, 0], 1),
        copied("steps longer than the rows", DType::F32, [37, 9, 1, 1], [3, 4, 5, 1], [41, 7, 13, 0], 2),
        copied("one element", DType::F32, [41, 3, 1, 1], [1, 1, 1, 1], [7, 9, 9, 9], 101),
        copied("one element repeated", DType::F32, [41, 3, 1, 1], [5, 3, 1, 1], [0, 0, 0, 0], 97),
        copied("odd halves", DType::F16, [33, 5, 1, 1], [11, 6, 1, 1], [3, 19, 0, 0], 7),
        copied("aligned halves", DType::F16, [120, 1, 1, 1], [9, 5, 2, 1], [1, 20, 4, 0], 12),
        copied("I32", DType::I32, [21, 4, 1, 1], [6, 5, 1, 1], [5, 11, 0, 0], 3),
        copied("aligned I32", DType::I32, [48, 1, 1, 1], [6, 5, 1, 1], [1, 8, 0, 0], 4),
        copied("four axes turned", DType::F32, [5, 3, 7, 2], [2, 7, 4, 3], [106, 14, 1, 5], 0),
    ];
    for dtype in [DType::Q8_0, DType::Q4_1] {
        cases.push(copied("every fifth block", dtype, [96, 9, 1, 1], [32, 5, 1, 1], [1, 160, 0, 0], 32));
    }
    cases
}

/// Sums of windows, of which the second repeats to the first.
pub fn sums() -> Vec<Case> {
    let mut s = Setup::new();
    let a = s.f32([10, 9, 1, 1], Fill::Floats(3.0));
    let b = s.f32([70, 1, 1, 1], Fill::Floats(2.0));
    let inputs = vec![window(a, [7, 3, 2, 1], [1, 13, 31, 0], 5), window(b, [7, 1, 2, 1], [3, 0, 29, 0], 11)];
    let sum = s.case("of rows that are no digits", Op::Binary(Binary::Add), inputs);
    let mut s = Setup::new();
    let b = s.f32([70, 1, 1, 1], Fill::Floats(2.0));
    let a = s.f32([9, 4, 2, 1], Fill::Floats(3.0));
    let repeated = s.case(
        "repeating elements by number",
        Op::Binary(Binary::Mul),
        vec![a, window(b, [3, 1, 2, 1], [7, 0, 29, 0], 1)],
    );
    vec![sum, repeated]
}

/// Products, which take dense copies of such windows.
pub fn products() -> Vec<Case> {
    let weights = [(DType::F32, 3.0), (DType::Q8_0, 1.0)].map(|(dtype, most)| {
        let mut s = Setup::new();
        let w = s.input(dtype, [96, 9, 1, 1], Fill::Floats(most));
        let x = s.f32([32, 3, 1, 1], Fill::Floats(1.0));
        let inputs = vec![window(w, [32, 5, 1, 1], [1, 160, 0, 0], 32), x];
        s.case(format!("every fifth block of {dtype:?}"), Op::MulMat, inputs)
    });
    weights.into()
}

fn copied(what: &str, dtype: DType, root: Shape, shape: Shape, strides: [u64; 4], offset: u64) -> Case {
    let mut s = Setup::new();
    let fill = if dtype == DType::I32 { Fill::Ids(49152) } else { Fill::Floats(3.0) };
    let whole = s.input(dtype, root, fill);
    let output = if dtype.quant_texels().is_some() { DType::F32 } else { dtype };
    let name = format!("{what}: {shape:?} strides {strides:?} of {dtype:?} {root:?}");
    s.case_as(name, Op::Copy, vec![window(whole, shape, strides, offset)], Desc { dtype: output, shape })
}

fn window(whole: Operand, shape: Shape, strides: [u64; 4], offset: u64) -> Operand {
    Operand { shape, strides, offset, ..whole }
}
