//! GET_ROWS and its gradient.

use fblayout::graph::{DType, Desc, Op};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (n, rows, ids) in [(1, 1, 1), (3, 5, 7), (33, 9, 2), (300, 17, 33), (576, 65, 17)] {
        cases.push(gather(DType::F32, n, rows, ids));
        cases.push(scatter(n, rows, ids, Fill::Integers));
    }
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_1] {
        cases.push(gather(dtype, 96, 9, 5));
        cases.push(gather(dtype, 576, 65, 33));
    }
    cases.push(gather(DType::Q8_0, 64, 49152, 5));
    cases.push(scatter(33, 4, 65, Fill::Floats(2.0)));
    for dtype in [DType::F32, DType::Q8_0, DType::I32] {
        cases.push(batched(dtype));
    }
    cases
}

fn gather(dtype: DType, n: u32, rows: u32, ids: u32) -> Case {
    let mut s = Setup::new();
    let inputs =
        vec![s.input(dtype, [n, rows, 1, 1], Fill::Floats(3.0)), s.input(DType::I32, [ids, 1, 1, 1], Fill::Ids(rows))];
    s.case(format!("{dtype:?} [{n}, {rows}], {ids} ids"), Op::GetRows, inputs)
}

/// A table of its own for each axis 1 and 2 of the ids, which are rows of a larger value.
fn batched(dtype: DType) -> Case {
    let mut s = Setup::new();
    let fill = if dtype == DType::I32 { Fill::Ids(1 << 23) } else { Fill::Floats(3.0) };
    let table = s.input(dtype, [64, 9, 3, 2], fill);
    let ids = s.input(DType::I32, [7, 3, 2, 1], Fill::Ids(9));
    let some = ids.slice(0, 1, 5).expect("5 of 7 ids");
    s.case(format!("{dtype:?} [64, 9, 3, 2], 5 ids each"), Op::GetRows, vec![table, some])
}

/// More ids than rows, or rows that no id names, by the extents given.
fn scatter(n: u32, rows: u32, ids: u32, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32([n, ids, 1, 1], fill), s.input(DType::I32, [ids, 1, 1, 1], Fill::Ids(rows))];
    s.case_as(format!("[{n}, {rows}], {ids} ids"), Op::GetRowsBack, inputs, Desc::f32([n, rows, 1, 1]))
}
