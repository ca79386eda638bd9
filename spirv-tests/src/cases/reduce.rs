//! Sums of rows and of all, means, running sums, norms of groups.

use fblayout::graph::{DType, Op, Shape};

use crate::{Case, Fill, Setup};

const EACH: [Op; 4] = [Op::Sum, Op::SumRows, Op::Mean, Op::CumSum];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for shape in [[1, 1, 1, 1], [5, 3, 1, 1], [33, 7, 3, 2], [300, 5, 1, 1]] {
        cases.extend(EACH.map(|op| of(op, shape, Fill::Integers)));
    }
    for op in EACH {
        cases.push(of(op, [1030, 3, 1, 1], Fill::Floats(2.0)));
        let mut s = Setup::new();
        let inputs = vec![s.f32([7, 33, 2, 1], Fill::Integers).transpose()];
        cases.push(s.case("transposed", op, inputs));
    }
    cases.push(of(Op::CumSum, [9000, 2, 1, 1], Fill::Floats(1.0)));
    for (shape, groups) in [([9, 5, 6, 2], 3), ([8, 4, 7, 1], 3), ([1, 3, 4, 1], 1)] {
        cases.push(of(Op::GroupNorm { groups, eps: 1e-5 }, shape, Fill::Floats(2.0)));
    }
    cases.extend([[5, 1, 1, 1], [33, 7, 3, 2]].map(count));
    cases
}

fn count(shape: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = (0..2).map(|_| s.input(DType::I32, shape, Fill::Ids(3))).collect();
    s.case(format!("{shape:?}"), Op::CountEqual, inputs)
}

fn of(op: Op, shape: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(shape, fill)];
    let groups = if let Op::GroupNorm { groups, .. } = op { format!(" in {groups} groups") } else { String::new() };
    s.case(format!("{shape:?}{groups}"), op, inputs)
}
