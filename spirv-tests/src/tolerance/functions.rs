//! Functions of one element, and gated units.

use super::{DIVIDE, FLUSH, U, exp, sigmoid};
use fblayout::graph::{Array, Gate, Op, Unary, oracle};

/// Tolerance of `y`, the function of `x`.
pub(super) fn value(kind: Unary, x: f64, y: f64) -> f64 {
    match kind {
        Unary::Abs
        | Unary::Sgn
        | Unary::Step
        | Unary::Relu
        | Unary::Floor
        | Unary::Ceil
        | Unary::Round
        | Unary::Trunc
        | Unary::Clamp { .. } => 0.0,
        Unary::LeakyRelu { .. } => 2.0 * U * y.abs() + FLUSH,
        Unary::Sigmoid => scaled_sigmoid(1.0, x) * y + FLUSH,
        Unary::GeluQuick => (scaled_sigmoid(1.702, x) + U) * y.abs() + FLUSH * (1.0 + x.abs()),
        // A sum, a quotient and, for HardSwish, a product.
        Unary::HardSigmoid | Unary::HardSwish => (2.0 * U + DIVIDE) * y.abs() + FLUSH,
        Unary::Exp => exp(x) * y + FLUSH,
        Unary::Expm1 => exp_minus_one(x),
        Unary::Elu => {
            if x > 0.0 {
                0.0
            } else {
                exp_minus_one(x)
            }
        }
        Unary::Softplus => {
            // The exponential's error reaches its logarithm by a share below 1; the quotient, and seven terms that fall by 9.
            let logarithm = (-x.abs()).exp().ln_1p();
            logarithm * (exp(x) + DIVIDE + 8.0 * U) + U * y + FLUSH
        }
        Unary::GeluErf => gelu_erf(x, y),
        Unary::XIelu { alpha_n, alpha_p, beta, eps } => {
            let [alpha_n, alpha_p, beta] = [alpha_n, alpha_p, beta].map(|p| f64::from(p).abs());
            let limited = x.min(f64::from(eps));
            let curve = match x > 0.0 {
                true => 4.0 * U * alpha_p * x * x,
                false => alpha_n * (exp_minus_one(limited) + 3.0 * U * (limited.exp_m1().abs() + x.abs())),
            };
            curve + 3.0 * U * beta * x.abs() + FLUSH
        }
        Unary::Log if (0.5..=2.0).contains(&x) => 1.0 / f64::from(1 << 21),
        Unary::Log => 6.0 * U * y.abs(),
        // `cos_sin.glsl` promises 1e-7 up to an angle of 2^13; one rounding of the result.
        Unary::Sin | Unary::Cos => 1e-7 + U * y.abs(),
        Unary::Silu | Unary::Neg | Unary::Sqr | Unary::Sqrt | Unary::Tanh | Unary::Gelu => {
            unreachable!("steps of epilogues have their bounds in the table")
        }
    }
}

/// Relative error of `sigmoid(a x)`: a and the product are rounded; of the exponential's error what is its share of the sum.
fn scaled_sigmoid(a: f64, x: f64) -> f64 {
    let z = a * x;
    (2.0 * U * z.abs() + exp(z)) * sigmoid(-z) + U + DIVIDE
}

/// `exp(x) - 1`: below 1/2 a series, each of whose steps rounds three times next to 1 and passes on at most half of the error of the
/// one before.
fn exp_minus_one(x: f64) -> f64 {
    match x.abs() < 0.5 {
        true => 8.0 * U * x.exp_m1().abs() + FLUSH,
        false => exp(x) * x.exp() + U * x.exp_m1().abs() + FLUSH,
    }
}

/// `x Phi(x)`. Half of erfc(z) at z = |x| / sqrt(2) is t exp(p - z^2): the polynomial p is off by 7.5e-8, its terms are below 2 and
/// follow t with a slope below 4; z^2 is rounded five times over; the rest is the exponential's own error.
fn gelu_erf(x: f64, y: f64) -> f64 {
    let z = x.abs() * std::f64::consts::FRAC_1_SQRT_2;
    let exponent = z * z + 1.3;
    let relative = 7.5e-8 + 16.0 * U + 5.0 * DIVIDE + 6.0 * U * z * z + exp(exponent);
    let tail = if x < 0.0 { y.abs() } else { x - y };
    tail * relative + 3.0 * U * y.abs() + FLUSH * (1.0 + x.abs())
}

/// Tolerances of a gated unit's output: the gate's, times the linear operand, and a product.
pub(super) fn gated(gate: Gate, inputs: &[Array], out: &Array) -> Array {
    let function = |kind| {
        let activated = oracle(&Op::Unary(kind), &inputs[..1], out.shape).remove(0);
        let bound = inputs[0].zip(&activated, |g, y| value(kind, g, y)).zip(&inputs[1], |bound, u| bound * u.abs());
        bound.zip(out, |bound, y| bound + U * y.abs() + FLUSH)
    };
    match gate {
        Gate::ReGlu => function(Unary::Relu),
        Gate::GeGluErf => function(Unary::GeluErf),
        Gate::GeGluQuick => function(Unary::GeluQuick),
        // Three products and a sum.
        Gate::SwiGluOai { alpha, limit } => inputs[0].zip(out, |g, y| {
            (scaled_sigmoid(f64::from(alpha), g.min(f64::from(limit))) + 4.0 * U) * y.abs() + FLUSH * (1.0 + g.abs())
        }),
        Gate::SwiGluClamp { limit } => inputs[0].zip(out, |g, y| {
            (scaled_sigmoid(1.0, g.min(f64::from(limit))) + 2.0 * U) * y.abs() + FLUSH * (1.0 + g.abs())
        }),
    }
}
