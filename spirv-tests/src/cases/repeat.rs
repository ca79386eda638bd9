//! REPEAT_BACK.

use fblayout::graph::{Desc, Op, Shape};

use crate::{Case, Fill, Setup};

const SHAPES: &[(Shape, Shape)] = &[
    ([5, 3, 1, 1], [5, 3, 1, 1]),
    ([576, 33, 1, 1], [576, 1, 1, 1]),
    ([33, 7, 1, 1], [1, 7, 1, 1]),
    ([9, 5, 3, 2], [1, 1, 1, 1]),
    ([12, 6, 4, 2], [12, 3, 2, 1]),
    ([9, 4, 1, 1], [3, 2, 1, 1]),
    ([64, 17, 9, 1], [64, 17, 3, 1]),
];

pub fn cases() -> Vec<Case> {
    let mut cases: Vec<Case> = SHAPES.iter().map(|&(from, to)| sum(from, to, Fill::Integers)).collect();
    cases.push(sum([65, 33, 1, 1], [65, 1, 1, 1], Fill::Floats(2.0)));
    cases.push(group_sum());
    cases
}

fn sum(from: Shape, to: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(from, fill)];
    s.case_as(format!("{from:?} to {to:?}"), Op::RepeatBack, inputs, Desc::f32(to))
}

/// Gradients of the 3 heads of each of 3 groups, [hd, T, 9], summed over the group: seen as [hd, T, 3 groups, 3] with the
/// members of a group on axis 3.
fn group_sum() -> Case {
    let mut s = Setup::new();
    let heads = s.f32([20, 5, 9, 1], Fill::Integers).reshape([100, 1, 3, 3]).expect("whole values can be reshaped");
    let members =
        heads.permute([0, 1, 3, 2]).and_then(|h| h.reshape([20, 5, 3, 3])).expect("100 elements are contiguous");
    s.case_as("groups of heads", Op::RepeatBack, vec![members], Desc::f32([20, 5, 3, 1]))
}
