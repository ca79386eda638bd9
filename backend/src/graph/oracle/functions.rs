//! Functions of one element, and the gated units that multiply one with another.

use super::elementwise::{gelu, sigmoid};
use crate::graph::{Array, Gate, Op, Shape, Unary};

/// `2 / sqrt(pi)`
const FRAC_2_SQRT_PI: f64 = std::f64::consts::FRAC_2_SQRT_PI;

/// `1 - erf(z)`: up to 2 by the series of erf, whose terms all have one sign, above by a continued fraction, evaluated from a depth at
/// which it no longer changes.
fn erfc(z: f64) -> f64 {
    if z < 0.0 {
        return 2.0 - erfc(-z);
    }
    if z < 2.0 {
        let mut term = z;
        let mut sum = z;
        for n in 1..60 {
            term *= 2.0 * z * z / f64::from(2 * n + 1);
            sum += term;
        }
        return 1.0 - FRAC_2_SQRT_PI * (-z * z).exp() * sum;
    }
    let fraction = (1..=120).rev().fold(z, |below, n| z + f64::from(n) / 2.0 / below);
    FRAC_2_SQRT_PI / 2.0 * (-z * z).exp() / fraction
}

/// What an op of one operand makes of an element.
pub(super) fn value(kind: Unary, x: f64) -> f64 {
    let elu = |x: f64| if x > 0.0 { x } else { x.exp_m1() };
    match kind {
        Unary::Silu => x * sigmoid(x),
        Unary::Neg => -x,
        Unary::Sqr => x * x,
        Unary::Sqrt => x.sqrt(),
        Unary::Tanh => x.tanh(),
        Unary::Gelu => gelu(x).0,
        Unary::Abs => x.abs(),
        Unary::Sgn => f64::from(i8::from(x > 0.0) - i8::from(x < 0.0)),
        Unary::Step => f64::from(u8::from(x > 0.0)),
        Unary::Elu => elu(x),
        Unary::Relu => x.max(0.0),
        Unary::Sigmoid => sigmoid(x),
        Unary::GeluQuick => x * sigmoid(1.702 * x),
        Unary::HardSwish => x * value(Unary::HardSigmoid, x),
        Unary::HardSigmoid => ((x + 3.0) / 6.0).clamp(0.0, 1.0),
        Unary::Exp => x.exp(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
        Unary::GeluErf => x * 0.5 * erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Unary::XIelu { alpha_n, alpha_p, beta, eps } => {
            let [alpha_n, alpha_p, beta, eps] = [alpha_n, alpha_p, beta, eps].map(f64::from);
            let curve = if x > 0.0 { alpha_p * x * x } else { alpha_n * (x.min(eps).exp_m1() - x) };
            curve + beta * x
        }
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round(),
        Unary::Trunc => x.trunc(),
        Unary::Log => x.ln(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Clamp { min, max } => x.min(f64::from(max)).max(f64::from(min)),
        Unary::LeakyRelu { slope } => x.max(0.0) + f64::from(slope) * x.min(0.0),
    }
}

/// Operands gate, up.
pub(crate) fn gated(op: &Op, inputs: &[Array], _: Shape) -> Vec<Array> {
    let &Op::Gated(gate) = op else { unreachable!("the row belongs to Gated") };
    let limited =
        |g: f64, u: f64, limit: f32| (g.min(f64::from(limit)), u.min(f64::from(limit)).max(-f64::from(limit)));
    vec![inputs[0].zip(&inputs[1], |g, u| match gate {
        Gate::ReGlu => value(Unary::Relu, g) * u,
        Gate::GeGluErf => value(Unary::GeluErf, g) * u,
        Gate::GeGluQuick => value(Unary::GeluQuick, g) * u,
        Gate::SwiGluOai { alpha, limit } => {
            let (g, u) = limited(g, u, limit);
            g * sigmoid(f64::from(alpha) * g) * (1.0 + u)
        }
        Gate::SwiGluClamp { limit } => {
            let (g, u) = limited(g, u, limit);
            g * sigmoid(g) * u
        }
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against 17 digits from tables; the last two sides meet where the methods change.
    #[test]
    fn the_complement_of_erf_is_right_to_the_last_digits() {
        let known = [
            (0.5, 0.479_500_122_186_953_5),
            (1.0, 0.157_299_207_050_285_13),
            (3.0, 2.209_049_699_858_544e-5),
            (5.0, 1.537_459_794_428_035e-12),
            (-1.0, 1.842_700_792_949_714_9),
        ];
        for (z, want) in known {
            assert!((erfc(z) / want - 1.0).abs() < 1e-13, "erfc({z}) = {} instead of {want}", erfc(z));
        }
        assert!((erfc(2.0 - 1e-15) / erfc(2.0) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!([-2.5, -0.5, 0.5, 1.4999].map(|x| value(Unary::Round, x)), [-3.0, -1.0, 1.0, 1.0]);
    }
}
