//! ggml's unary ops and gated units: the kind is parameter word 0, what else there is follows.

use fblayout::graph::{Gate, Op, Unary};

use crate::abi::MAX_OP_PARAMS;

/// An op of one operand; the list is in the order of `ggml_unary_op`.
pub(super) fn unary(params: &[i32; MAX_OP_PARAMS]) -> Result<Unary, String> {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let kinds = [
        Unary::Abs,
        Unary::Sgn,
        Unary::Neg,
        Unary::Step,
        Unary::Tanh,
        Unary::Elu,
        Unary::Relu,
        Unary::Sigmoid,
        Unary::Gelu,
        Unary::GeluQuick,
        Unary::Silu,
        Unary::HardSwish,
        Unary::HardSigmoid,
        Unary::Exp,
        Unary::Expm1,
        Unary::Softplus,
        Unary::GeluErf,
        Unary::XIelu { alpha_n: float(1), alpha_p: float(2), beta: float(3), eps: float(4) },
        Unary::Floor,
        Unary::Ceil,
        Unary::Round,
        Unary::Trunc,
    ];
    listed(&kinds, params[0]).ok_or_else(|| format!("unary op {} is not supported", params[0]))
}

/// A gated unit; the list is in the order of `ggml_glu_op`. Word 1 says whether gate and linear operand are swapped.
pub(super) fn gated_unit(params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let kinds = [
        Op::Gated(Gate::ReGlu),
        Op::GeGlu,
        Op::SwiGlu,
        Op::Gated(Gate::SwiGluOai { alpha: float(2), limit: float(3) }),
        Op::Gated(Gate::GeGluErf),
        Op::Gated(Gate::GeGluQuick),
        Op::Gated(Gate::SwiGluClamp { limit: float(3) }),
    ];
    listed(&kinds, params[0]).ok_or_else(|| format!("gated unit {} is not supported", params[0]))
}

fn listed<T: Copy>(kinds: &[T], kind: i32) -> Option<T> {
    kinds.get(usize::try_from(kind).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(kind: i32, floats: [f32; 4]) -> [i32; MAX_OP_PARAMS] {
        let mut params = [0; MAX_OP_PARAMS];
        params[0] = kind;
        params[1..5].iter_mut().zip(floats).for_each(|(word, float)| *word = float.to_bits() as i32);
        params
    }

    #[test]
    fn kinds_have_ggmls_numbers_and_their_parameters() {
        let of = |kind| unary(&words(kind, [1.0, 2.0, 3.0, 4.0]));
        assert_eq!(
            [2, 4, 8, 10, 16, 21].map(|kind| of(kind).expect("a unary op")),
            [Unary::Neg, Unary::Tanh, Unary::Gelu, Unary::Silu, Unary::GeluErf, Unary::Trunc]
        );
        assert_eq!(of(17), Ok(Unary::XIelu { alpha_n: 1.0, alpha_p: 2.0, beta: 3.0, eps: 4.0 }));
        assert_eq!(of(22), Err("unary op 22 is not supported".into()));
        assert_eq!(of(-1), Err("unary op -1 is not supported".into()));
        let of = |kind| gated_unit(&words(kind, [0.0, 1.5, 7.0, 0.0]));
        assert_eq!((of(1), of(2)), (Ok(Op::GeGlu), Ok(Op::SwiGlu)));
        assert_eq!(of(3), Ok(Op::Gated(Gate::SwiGluOai { alpha: 1.5, limit: 7.0 })));
        assert_eq!(of(6), Ok(Op::Gated(Gate::SwiGluClamp { limit: 7.0 })));
        assert_eq!(of(7), Err("gated unit 7 is not supported".into()));
    }
}
