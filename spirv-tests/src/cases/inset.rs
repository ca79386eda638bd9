//! SET, ACC and SET_ROWS: whole texels and parts of them, into a value of its own and in place.

use fblayout::graph::{DType, Inset, Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let inset = |shape, strides, offset| Inset { shape, strides, offset };
    let rows = inset([16, 3, 1, 1], [1, 16, 96, 96], 2 * 16);
    let odd = inset([5, 3, 1, 1], [1, 9, 63, 63], 12);
    let turned = inset([3, 8, 2, 1], [20, 1, 60, 120], 9);
    let columns = inset([1, 40, 1, 1], [1, 1, 40, 40], 0);
    let mut cases = Vec::new();
    for in_place in [false, true] {
        for dtype in [DType::F32, DType::F16, DType::I32] {
            cases.push(set(dtype, [16, 6, 1, 1], rows, in_place));
            cases.push(set(dtype, [9, 7, 1, 1], odd, in_place));
        }
        cases.push(set(DType::F16, [20, 6, 1, 1], turned, in_place));
        cases.push(acc([16, 6, 1, 1], rows, in_place));
        cases.push(acc([20, 6, 1, 1], turned, in_place));
        for dtype in [DType::F32, DType::F16] {
            // The cache of keys: rows of a [24, 12] root; that of values: elements of a [8, 5] root, stored turned.
            let keys = inset([24, 12, 1, 1], [1, 24, 288, 288], 0);
            cases.push(set_rows(dtype, [24, 12, 1, 1], keys, vec![7.0, 0.0, 11.0], in_place));
            let places = [3, 8, 13, 18, 23, 28, 33, 38, 4, 9].map(|n| n as f32).to_vec();
            cases.push(set_rows(dtype, [8, 5, 1, 1], columns, places, in_place));
        }
    }
    for dtype in [DType::Q8_0, DType::Q4_0, DType::Q5_1] {
        // Caches in blocks, of an odd number of rows: of two heads' keys, and a part of rows that begins within them.
        let keys = inset([64, 7, 1, 1], [1, 64, 448, 448], 0);
        cases.push(set_rows(dtype, [64, 7, 1, 1], keys, vec![5.0, 0.0, 6.0], true));
        cases.push(set(dtype, [64, 7, 1, 1], inset([32, 3, 1, 1], [1, 64, 192, 192], 96), false));
    }
    cases.push(set_rows(
        DType::F32,
        [33, 9, 1, 1],
        inset([33, 9, 1, 1], [1, 33, 297, 297], 0),
        vec![8.0, -1.0, 2.0, 40.0],
        true,
    ));
    cases
}

fn name(dtype: DType, base: Shape, inset: Inset, in_place: bool) -> String {
    let Inset { shape, strides, offset } = inset;
    let way = if in_place { "in place" } else { "into another" };
    format!("{dtype:?} {base:?} {shape:?} by {strides:?} from {offset} {way}")
}

fn case(s: Setup, name: String, op: Op, inputs: Vec<fblayout::graph::Operand>, in_place: bool) -> Case {
    let base = inputs[0].value;
    if in_place { s.case_into(name, op, inputs, base) } else { s.case(name, op, inputs) }
}

/// Type of what is written: floats convert.
fn part(base: DType) -> DType {
    if base == DType::I32 || base.is_quantized() { base } else { DType::F32 }
}

fn set(dtype: DType, base: Shape, inset: Inset, in_place: bool) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, base, Fill::Ids(99)), s.input(part(dtype), inset.shape, Fill::Integers)];
    case(s, name(dtype, base, inset, in_place), Op::Set(inset), inputs, in_place)
}

fn acc(base: Shape, inset: Inset, in_place: bool) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(base, Fill::Floats(2.0)), s.f32(inset.shape, Fill::Floats(2.0))];
    case(s, name(DType::F32, base, inset, in_place), Op::Acc(inset), inputs, in_place)
}

fn set_rows(dtype: DType, base: Shape, inset: Inset, ids: Vec<f32>, in_place: bool) -> Case {
    let mut s = Setup::new();
    let count = ids.len() as u32;
    let inputs = vec![
        s.input(dtype, base, Fill::Floats(2.0)),
        s.input(part(dtype), [inset.shape[0], count, inset.shape[2], inset.shape[3]], Fill::Floats(2.0)),
        s.input(DType::I32, [count, 1, 1, 1], Fill::Given(ids)),
    ];
    case(s, name(dtype, base, inset, in_place), Op::SetRows(inset), inputs, in_place)
}
