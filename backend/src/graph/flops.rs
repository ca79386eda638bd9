//! Arithmetic of the ops: what a cost model weighs against bytes.

use super::{Desc, Op, elements, product, rows, sliding};

/// Arithmetic of an op as a function of its shapes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A multiplication and an addition for every term of every sum of a matrix product.
    Product,
    /// The products of attention: each query with each key, and with each value.
    Attention,
    /// The products of its gradients: scores and the values' gradients again, and one more product each.
    AttentionBack,
    /// A product for every id.
    Experts,
    /// This many operations for every element of the largest operand; a transcendental function counts as one.
    Each(u32),
    /// By the windows that slide over an input.
    Windows,
}

/// Floating point operations of an op on operands and an output that satisfy [`super::infer`], as far as 64 bits count.
pub fn flops(op: &Op, inputs: &[Desc], output: Desc) -> u64 {
    let largest = inputs.iter().map(|d| elements(&d.shape)).max().unwrap_or(0);
    match (op.row().work, inputs) {
        // Each element of b meets each of the m values it is multiplied with.
        (Work::Product, [_, b, ..]) => product([2, elements(&b.shape), output.shape[0].into()]),
        (Work::Attention, [q, k, v, ..]) => pairs(q, k).saturating_mul(u64::from(q.shape[0]) + u64::from(v.shape[0])),
        (Work::AttentionBack, [q, k, v, ..]) => {
            let (size_k, size_v) = (u64::from(q.shape[0]), u64::from(v.shape[0]));
            let values = if matches!(op, Op::FlashAttnBackKv(_)) { 2 * size_v } else { size_v };
            pairs(q, k).saturating_mul(2 * size_k + values)
        }
        (Work::Experts, [a, ..]) => product([2, elements(&output.shape), a.shape[0].into()]),
        (Work::Product | Work::Attention | Work::AttentionBack | Work::Experts, _) => 0,
        (Work::Each(n), _) => product([n.into(), largest]),
        (Work::Windows, _) => sliding::flops(op, inputs, output),
    }
}

/// Twice the pairs of a query and a key, over all heads.
fn pairs(q: &Desc, k: &Desc) -> u64 {
    product([2, rows(&q.shape), k.shape[1].into()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Binary, DType, FlashAttn, infer};

    #[test]
    fn products_count_two_per_term() {
        let a = Desc { dtype: DType::F16, shape: [64, 10, 3, 1] };
        let (op, b) = (Op::MulMat, Desc::f32([64, 7, 9, 1]));
        let out = infer(&op, &[a, b], None).unwrap();
        assert_eq!(flops(&op, &[a, b], out), 2 * 64 * 10 * 7 * 9);
        let (op, a, b) = (Op::OutProd, Desc::f32([10, 64, 1, 1]), Desc::f32([7, 64, 1, 1]));
        let out = infer(&op, &[a, b], None).unwrap();
        assert_eq!(flops(&op, &[a, b], out), 2 * 64 * 10 * 7);
    }

    #[test]
    fn attention_counts_both_of_its_products() {
        let op = Op::FlashAttn(FlashAttn {
            scale: 1.0,
            max_bias: 0.0,
            softcap: 0.0,
            mask: false,
            sinks: false,
            logs: false,
        });
        let (q, k, v) = (Desc::f32([64, 5, 9, 2]), Desc::f32([64, 7, 3, 2]), Desc::f32([32, 7, 3, 2]));
        let out = infer(&op, &[q, k, v], None).unwrap();
        assert_eq!(flops(&op, &[q, k, v], out), 2 * (64 + 32) * 7 * 5 * 9 * 2);
    }

    #[test]
    fn a_product_for_every_id_is_counted() {
        let (a, b) = (Desc::f32([64, 10, 8, 1]), Desc::f32([64, 1, 5, 1]));
        let ids = Desc { dtype: DType::I32, shape: [3, 5, 1, 1] };
        let out = infer(&Op::MulMatId, &[a, b, ids], None).unwrap();
        assert_eq!(flops(&Op::MulMatId, &[a, b, ids], out), 2 * 64 * 10 * 3 * 5);
    }

    #[test]
    fn counts_beyond_64_bits_are_the_greatest() {
        let many = Desc::f32([1 << 31, 1 << 31, 1, 1]);
        assert_eq!(flops(&Op::MulMat, &[many, many], many), u64::MAX);
    }

    #[test]
    fn other_ops_count_per_element_of_the_largest_operand() {
        let (x, bias) = (Desc::f32([8, 4, 2, 1]), Desc::f32([8, 1, 1, 1]));
        assert_eq!(flops(&Op::Binary(Binary::Add), &[x, bias], x), 64);
        assert_eq!(flops(&Op::RepeatBack, &[x], bias), 64, "every element is added once");
        assert_eq!(flops(&Op::Copy, &[x], x), 0, "moving is no arithmetic");
    }
}
