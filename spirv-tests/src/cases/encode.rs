//! Numbers copied into blocks of 32.

use fblayout::graph::{DType, Desc, Op, Operand, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

const ENCODED: [DType; 6] = [DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::IQ4_NL];

/// Every type from floats within a step of the host's quants, and from numbers that it holds exactly; then the views that a cache is
/// written from.
pub fn encoded() -> Vec<Case> {
    let shape = [96, 5, 3, 1];
    let mut cases = Vec::new();
    for dtype in ENCODED {
        cases.push(case("floats", DType::F32, shape, dtype, shape, Fill::Floats(3.0), |x| x));
        cases.push(case("exact", DType::F32, shape, dtype, shape, exact(dtype, shape), |x| x));
    }
    for dtype in [DType::Q8_0, DType::Q4_1, DType::Q5_0] {
        let case = |name, from, shape, to, window: fn(Operand) -> Operand| {
            case(name, from, shape, dtype, to, Fill::Floats(3.0), window)
        };
        cases.push(case("halves", DType::F16, [64, 3, 1, 1], [64, 3, 1, 1], |x| x));
        cases.push(case("turned", DType::F32, [7, 64, 1, 1], [64, 7, 1, 1], |x| x.transpose()));
        cases.push(case("heads merged", DType::F32, [64, 5, 3, 1], [192, 5, 1, 1], by_head));
        cases.push(case("rows across blocks", DType::F32, [40, 8, 1, 1], [64, 5, 1, 1], |x| x));
        let slanted = |x: Operand| Operand { shape: [64, 3, 1, 1], strides: [1, 70, 0, 0], offset: 3, ..x };
        cases.push(case("any strides", DType::F32, [75, 4, 1, 1], [64, 3, 1, 1], slanted));
    }
    // Nothing but zeros has no scale.
    for dtype in ENCODED {
        cases.push(case("zeros", DType::F32, [32, 1, 1, 1], dtype, [32, 1, 1, 1], Fill::Given(vec![0.0; 32]), |x| x));
    }
    cases
}

fn case(
    name: &str,
    from: DType,
    shape: Shape,
    dtype: DType,
    to: Shape,
    fill: Fill,
    window: fn(Operand) -> Operand,
) -> Case {
    let mut s = Setup::new();
    let inputs = vec![window(s.input(from, shape, fill))];
    s.case_as(format!("{from:?} to {dtype:?}, {name}"), Op::Copy, inputs, Desc { dtype, shape: to })
}

/// Numbers that survive this type.
fn exact(dtype: DType, shape: Shape) -> Fill {
    Fill::Given(Fill::Integers.make(dtype, &shape, 1))
}
