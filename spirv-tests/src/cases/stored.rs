//! Element types whose traffic the cost model estimates: blocks as the host has them, BF16, 64-bit integers, and conversions between
//! numbers and integers.

use fblayout::graph::{DType, Desc, Op, Operand, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

/// Types in blocks as the host has them.
fn blocks() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|dtype| dtype.is_quantized() && dtype.quant_texels().is_none())
}

/// Cases of every op that reads such types.
pub fn stored() -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in blocks() {
        let row = 2 * dtype.block();
        cases.extend(products(dtype, row));
        cases.push(rows_of(dtype, [row, 9, 1, 1]));
        cases.push(copy("to F32", dtype, [row, 9, 1, 1], DType::F32, Fill::Floats(3.0)));
    }
    for dtype in [DType::Q5_1, DType::MXFP4, DType::Q4_K] {
        cases.extend(views(dtype));
    }
    for dtype in [DType::Q8_0, DType::Q4_0] {
        // A cache with a row for every token, read by head: the tokens so far.
        let mut s = Setup::new();
        let cache = s.input(dtype, [3 * 64, 9, 1, 1], Fill::Integers);
        let heads = Operand { shape: [64, 7, 3, 1], strides: [1, 192, 64, 0], ..cache };
        let inputs = vec![heads, s.f32([64, 2, 6, 1], Fill::Integers)];
        cases.push(s.case(format!("{dtype:?} cache by head"), Op::MulMat, inputs));
    }
    // Windows that are no digits of any home of blocks.
    let mut s = Setup::new();
    let fifths = Operand {
        shape: [32, 5, 1, 1],
        strides: [1, 160, 0, 0],
        offset: 32,
        ..s.input(DType::Q4_0, [96, 9, 1, 1], Fill::Integers)
    };
    let inputs = vec![fifths, s.f32([32, 3, 1, 1], Fill::Integers)];
    cases.push(s.case("every fifth block of Q4_0", Op::MulMat, inputs));
    // Sums in parts, and enough rows for the tiles of large products.
    cases.push(product("long k", Op::OutProd, DType::Q4_0, [64, 8201, 1, 1], [5, 8201, 1, 1], Fill::Integers));
    cases.push(product("large", Op::MulMat, DType::Q6_K, [512, 192, 1, 1], [512, 57, 1, 1], Fill::Integers));
    cases.push(product("floats", Op::MulMat, DType::Q4_0, [96, 33, 1, 1], [96, 17, 1, 1], Fill::Floats(1.0)));
    cases.push(product("floats", Op::OutProd, DType::Q5_1, [96, 33, 1, 1], [17, 33, 1, 1], Fill::Floats(1.0)));

    cases.extend(products(DType::BF16, 33));
    cases.push(rows_of(DType::BF16, [33, 9, 1, 1]));
    cases.push(rows_of(DType::I32, [33, 9, 1, 1]));
    cases.push(copy("to F32", DType::BF16, [65, 9, 1, 1], DType::F32, Fill::Floats(3.0)));
    cases.push(copy("to BF16", DType::F32, [65, 9, 1, 1], DType::BF16, Fill::Floats(3.0)));
    cases.push(copy("to BF16", DType::F16, [7, 5, 1, 1], DType::BF16, Fill::Floats(3.0)));
    cases.push(copy("to BF16, ties", DType::F32, [8, 1, 1, 1], DType::BF16, ties()));
    for (from, to) in [
        (DType::I64, DType::I64),
        (DType::I64, DType::I32),
        (DType::I32, DType::I64),
        (DType::I32, DType::F32),
        (DType::F32, DType::I32),
    ] {
        cases.push(copy(&format!("to {to:?}"), from, [5, 3, 2, 1], to, Fill::Given(numbers(from, to))));
    }
    cases
}

/// Blocks copied to the same type, whole, by heads and from a window, each with the bytes that the copy must have.
pub fn copied_blocks() -> Vec<(Case, Vec<u8>)> {
    let mut cases = Vec::new();
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_quantized()) {
        let (row, size) = (3 * dtype.block(), dtype.block_bytes() as usize);
        let mut copied = |name: &str, window: fn(Operand, u32) -> Operand, shape: Shape, blocks: &[usize]| {
            let mut s = Setup::new();
            let source = s.input(dtype, [row, 5, 2, 1], Fill::Integers);
            let from = window(source, dtype.block());
            let case = s.case_as(format!("{dtype:?} {name}"), Op::Copy, vec![from], Desc { dtype, shape });
            let bytes = &case.data[0].1;
            let expected = blocks.iter().flat_map(|&block| bytes[block * size..(block + 1) * size].to_vec()).collect();
            cases.push((case, expected));
        };
        let all: Vec<usize> = (0..30).collect();
        copied("whole", |a, _| a, [row, 5, 2, 1], &all);
        copied("in longer rows", |a, _| a, [5 * row, 2, 1, 1], &all);
        // Two blocks of three rows of the second matrix, from the second block of its row 1 on.
        let part = |a: Operand, block| Operand { shape: [2 * block, 3, 1, 1], offset: u64::from(block) * 19, ..a };
        copied("window", part, [2 * dtype.block(), 3, 1, 1], &[19, 20, 22, 23, 25, 26]);
    }
    cases
}

fn product(name: &str, op: Op, dtype: DType, a: Shape, b: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, a, fill.clone()), s.f32(b, fill)];
    s.case(format!("{dtype:?} {name}"), op, inputs)
}

/// Both directions of the same weights.
fn products(dtype: DType, row: u32) -> [Case; 2] {
    [
        product("along rows", Op::MulMat, dtype, [row, 9, 1, 1], [row, 5, 1, 1], Fill::Integers),
        product("along columns", Op::OutProd, dtype, [row, 9, 1, 1], [3, 9, 1, 1], Fill::Integers),
    ]
}

/// Heads that share matrices, rows seen by head, and windows that begin within rows.
fn views(dtype: DType) -> Vec<Case> {
    let block = dtype.block();
    let heads = product("heads", Op::MulMat, dtype, [block, 9, 2, 1], [block, 5, 4, 3], Fill::Integers);
    let mut s = Setup::new();
    let inputs =
        vec![by_head(s.input(dtype, [block, 3, 7, 1], Fill::Integers)), s.f32([block, 5, 3, 1], Fill::Integers)];
    let seen = s.case(format!("{dtype:?} by head"), Op::MulMat, inputs);
    let mut s = Setup::new();
    let whole = s.input(dtype, [3 * block, 9, 1, 1], Fill::Integers);
    let part = Operand { shape: [2 * block, 5, 1, 1], offset: u64::from(block) * 7, ..whole };
    let window = s.case_as(format!("{dtype:?} window"), Op::Copy, vec![part], Desc::f32([2 * block, 5, 1, 1]));
    vec![heads, seen, window]
}

fn rows_of(dtype: DType, shape: Shape) -> Case {
    let mut s = Setup::new();
    let ids = Fill::Ids(shape[1]);
    let inputs = vec![s.input(dtype, shape, Fill::Integers), s.input(DType::I32, [5, 1, 1, 1], ids)];
    s.case(format!("{dtype:?} {shape:?}"), Op::GetRows, inputs)
}

fn copy(name: &str, from: DType, shape: Shape, to: DType, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(from, shape, fill)];
    s.case_as(format!("{from:?} {shape:?} {name}"), Op::Copy, inputs, Desc { dtype: to, shape })
}

/// Ties between neighbours of BF16, overflow, a subnormal.
fn ties() -> Fill {
    let step = 1.0 / 128.0;
    Fill::Given(vec![1.0 + step / 2.0, 1.0 + 1.5 * step, -1.0 - step / 2.0, f32::MAX, 1e-39, -0.0, f32::INFINITY, 3.0])
}

/// Thirty numbers that both types hold, of both signs, some beyond 32 bits; fractions are cut off on the way to integers.
fn numbers(from: DType, to: DType) -> Vec<f32> {
    let scale = if [from, to] == [DType::I64, DType::I64] { 2.0_f32.powi(30) } else { 1.0 };
    let fraction = if from == DType::F32 { 0.75 } else { 0.0 };
    (0..30_i16).map(|i| f32::from(i * 7 - 100) * scale).map(|x| x + fraction * x.signum()).collect()
}
