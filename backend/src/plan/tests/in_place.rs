//! Which results take over the storage of an operand, and which do not.

use crate::device::Limits;
use crate::graph::{Binary, DType, Graph, Op, Operand, Rope, RopeMode, Unary, ValueId};
use crate::plan::{Owner, PlanOptions, plan};

use super::{Exact, planned};

/// Slots of the arena, and results that took over one, of a graph that is planned with and without it.
fn taken_over(graph: &Graph) -> (usize, usize) {
    let apart = plan(graph, &Limits::for_tests(), PlanOptions { apart: true, ..super::ONE_BY_ONE }, &Exact).unwrap();
    let plan = planned(graph);
    assert_eq!(plan.slots.len() + plan.report.in_place, apart.slots.len());
    assert_eq!(plan.report.peak.bytes + plan.report.in_place_bytes, apart.report.peak.bytes);
    assert_eq!(apart.report.in_place, 0);
    let own = plan.slots.iter().filter(|slot| matches!(slot.owner, Owner::Arena { .. })).count();
    (own, plan.report.in_place)
}

#[test]
fn results_take_over_what_nobody_reads_again() {
    let scale = Op::Scale { scale: 2.0, bias: 0.0 };
    let (shape, softmax) = ([8, 4, 1, 1], Op::soft_max(1.0));
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, shape);
    let a = g.node("a", scale, vec![g.whole(x)]).unwrap();
    let b = g.node("b", softmax, vec![g.whole(a)]).unwrap();
    let c = g.node("c", Op::Binary(Binary::Mul), vec![g.whole(b), g.whole(b)]).unwrap();
    let end = g.node("end", Op::Unary(Unary::Neg), vec![g.whole(c)]).unwrap();
    g.keep(end);
    assert_eq!(taken_over(&g), (1, 2), "neither the external operand nor the kept result");

    let mut read_later = g.clone();
    let sum = read_later.node("sum", Op::Binary(Binary::Add), vec![g.whole(a), g.whole(end)]).unwrap();
    read_later.keep(sum);
    assert_eq!(taken_over(&read_later), (2, 1), "a is read again");
}

#[test]
fn only_equal_addresses_are_taken_over() {
    let scale = Op::Scale { scale: 2.0, bias: 0.0 };
    let of = |op: Op, window: fn(&Graph, ValueId) -> Operand| {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [8, 8, 1, 1]);
        let a = g.node("a", scale, vec![g.whole(x)]).unwrap();
        let operand = window(&g, a);
        let mut operands = vec![operand];
        if matches!(op, Op::Rope(_)) {
            let positions = g.external("positions", DType::I32, [1, 1, 1, 1]);
            operands.push(g.whole(positions));
        }
        let b = g.node("b", op, operands).unwrap();
        let end = g.node("end", Op::Binary(Binary::Add), vec![g.whole(b), g.whole(x)]).unwrap();
        g.keep(end);
        taken_over(&g).1
    };
    assert_eq!(of(scale, Graph::whole), 1);
    assert_eq!(of(scale, |g, id| g.whole(id).transpose()), 0, "a transpose reads what others write");
    let rope = Rope::plain(RopeMode::Neox, 8, 512, 1e4);
    assert_eq!(of(Op::Rope(rope), Graph::whole), 0, "a rotation reads the other half of a pair");
}
