//! MUL_MAT_ID.

use fblayout::graph::{DType, Op};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("one of each", DType::F32, [1, 1, 1], [1, 1, 1], Fill::Integers),
        case("odd extents", DType::F32, [7, 9, 3], [2, 5, 2], Fill::Integers),
        case("one column for all experts", DType::F32, [36, 17, 8], [3, 4, 1], Fill::Integers),
        case("floats", DType::F32, [300, 33, 4], [2, 3, 2], Fill::Floats(1.0)),
        strangers(),
    ];
    for dtype in [DType::F16, DType::Q8_0, DType::Q4_1] {
        cases.push(case("integers", dtype, [96, 33, 5], [2, 7, 1], Fill::Integers));
        cases.push(case("floats", dtype, [64, 20, 5], [4, 3, 4], Fill::Floats(1.0)));
    }
    cases.push(case("blocks as the host has them", DType::Q5_0, [64, 20, 5], [2, 3, 1], Fill::Floats(1.0)));
    cases.push(case("large blocks", DType::Q4_K, [256, 9, 3], [2, 3, 1], Fill::Floats(1.0)));
    cases
}

/// The ids are the first ones of longer rows, as those of a sort are.
fn case(name: &str, dtype: DType, [k, m, experts]: [u32; 3], [used, tokens, columns]: [u32; 3], fill: Fill) -> Case {
    let mut s = Setup::new();
    let a = s.input(dtype, [k, m, experts, 1], fill.clone());
    let b = s.f32([k, columns, tokens, 1], fill);
    let ids = s.input(DType::I32, [used + 3, tokens, 1, 1], Fill::Ids(experts));
    let ids = ids.slice(0, 0, used).expect("rows are longer");
    let name = format!("{name}: {dtype:?} k {k} m {m}, {used} of {experts} for {tokens} tokens of {columns} columns");
    s.case(name, Op::MulMatId, vec![a, b, ids])
}

/// Ids that name no expert give zeros.
fn strangers() -> Case {
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([8, 6, 3, 1], Fill::Integers),
        s.f32([8, 1, 4, 1], Fill::Integers),
        s.input(DType::I32, [2, 4, 1, 1], Fill::Given(vec![2.0, 3.0, -1.0, 0.0, 1e9, 1.0, 2.0, -7.0])),
    ];
    s.case("ids of no expert", Op::MulMatId, inputs)
}
