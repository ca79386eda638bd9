//! Indices by the order of elements, which equal ones keep.

use fblayout::graph::{DType, Desc, Op, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (shape, fill) in [
        ([1, 3, 1, 1], Fill::Floats(1.0)),
        ([2, 8, 9, 1], Fill::Integers),
        ([33, 7, 3, 2], Fill::Floats(2.0)),
        ([300, 3, 1, 1], Fill::Integers),
        ([1024, 1, 1, 1], Fill::Floats(2.0)),
        ([1027, 3, 1, 2], Fill::Floats(2.0)),
        ([5000, 2, 1, 1], Fill::Integers),
    ] {
        let descending = shape[0] % 2 == 0;
        let mut s = Setup::new();
        let inputs = vec![s.f32(shape, fill)];
        cases.push(s.case(format!("{shape:?}, descending {descending}"), Op::ArgSort { descending }, inputs));
    }
    let mut s = Setup::new();
    let inputs = vec![s.f32([5, 33, 2, 1], Fill::Floats(2.0)).transpose()];
    cases.push(s.case("transposed", Op::ArgSort { descending: true }, inputs));
    for (shape, k) in
        [([5, 9, 1, 1], 1), ([60, 3, 2, 2], 7), ([2100, 2, 1, 1], 1030), ([5000, 2, 1, 1], 40), ([9, 2, 1, 1], 9)]
    {
        cases.push(top(shape, k));
    }
    cases
}

fn top(shape: Shape, k: u32) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, Fill::Integers)];
    let output = Desc { dtype: DType::I32, shape: [k, shape[1], shape[2], shape[3]] };
    s.case_as(format!("{k} of {shape:?}"), Op::TopK, inputs, output)
}
