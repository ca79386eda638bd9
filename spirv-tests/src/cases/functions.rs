//! Functions of one element, and gated units.

use fblayout::graph::{Gate, Op, Shape, Unary};

use crate::{Case, Fill, Setup};

const SHAPE: Shape = [13, 3, 2, 1];

/// Where exponentials overflow or vanish, sides of the limits, halves, and numbers without a bit for a half.
const CORNERS: [f32; 16] = [
    -1e4,
    -200.0,
    -88.0,
    -3.0,
    -2.5,
    -0.5,
    -0.499_999_97,
    -0.0,
    0.0,
    0.499_999_97,
    0.5,
    1.5,
    3.0,
    88.0,
    200.0,
    8_388_609.0,
];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let xielu = Unary::XIelu { alpha_n: 0.8, alpha_p: 1.25, beta: 0.5, eps: -1e-6 };
    let clamp = Unary::Clamp { min: -1.5, max: 2.0 };
    let leaky = Unary::LeakyRelu { slope: 0.1 };
    let steps =
        [Unary::Abs, Unary::Sgn, Unary::Step, Unary::Relu, Unary::Floor, Unary::Ceil, Unary::Round, Unary::Trunc];
    let curves = [
        Unary::Elu,
        Unary::Sigmoid,
        Unary::GeluQuick,
        Unary::HardSwish,
        Unary::HardSigmoid,
        Unary::Softplus,
        Unary::GeluErf,
        xielu,
        clamp,
        leaky,
    ];
    for kind in steps.into_iter().chain(curves) {
        cases.push(one(kind, SHAPE, Fill::Floats(6.0)));
        cases.push(one(kind, [16, 1, 1, 1], Fill::Given(CORNERS.to_vec())));
    }
    for kind in [Unary::Exp, Unary::Expm1] {
        cases.push(one(kind, SHAPE, Fill::Floats(0.7)));
        cases.push(one(kind, [5, 1, 1, 1], Fill::Given(vec![-1e4, -100.0, -10.0, 20.0, 88.0])));
    }
    cases.push(one(Unary::Log, SHAPE, Fill::Positive));
    cases.push(one(Unary::Log, [4, 1, 1, 1], Fill::Given(vec![1e-30, 0.999_999_9, 1.000_000_1, 1e30])));
    for kind in [Unary::Sin, Unary::Cos] {
        cases.push(one(kind, SHAPE, Fill::Floats(7.0)));
        cases.push(one(kind, [65, 2, 1, 1], Fill::Floats(8000.0)));
    }
    let limits = [Gate::SwiGluOai { alpha: 1.702, limit: 2.0 }, Gate::SwiGluClamp { limit: 2.0 }];
    for gate in [Gate::ReGlu, Gate::GeGluErf, Gate::GeGluQuick].into_iter().chain(limits) {
        let mut s = Setup::new();
        let inputs = vec![s.f32(SHAPE, Fill::Floats(5.0)), s.f32(SHAPE, Fill::Floats(5.0))];
        cases.push(s.case("", Op::Gated(gate), inputs));
    }
    cases.extend(views());
    cases
}

fn one(kind: Unary, shape: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let name = match fill {
        Fill::Given(_) => "corners".into(),
        _ => format!("{shape:?}"),
    };
    let inputs = vec![s.f32(shape, fill)];
    s.case(name, Op::Unary(kind), inputs)
}

/// Transposed operands, the halves of one, and work in place.
fn views() -> Vec<Case> {
    let mut s = Setup::new();
    let inputs = vec![s.f32([5, 7, 1, 1], Fill::Floats(3.0)).transpose()];
    let transposed = s.case("transposed", Op::Unary(Unary::Sigmoid), inputs);
    let mut s = Setup::new();
    let both = s.f32([18, 5, 1, 1], Fill::Floats(3.0));
    let half = |start| both.slice(0, start, 9).expect("a half of 18 elements");
    let halves = s.case("halves", Op::Gated(Gate::GeGluQuick), vec![half(9), half(0)]);
    let mut s = Setup::new();
    let x = s.f32([9, 5, 1, 1], Fill::Floats(3.0));
    let in_place = s.case_into("in place", Op::Unary(Unary::Relu), vec![x], x.value);
    vec![transposed, halves, in_place]
}
