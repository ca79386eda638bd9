//! Arithmetic of the ops: what a cost model weighs against bytes.

use super::{Desc, Op, elements, sliding};

/// Arithmetic of an op as a function of its shapes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A multiplication and an addition for every term of every sum of a matrix product.
    Product,
    /// This many operations for every element of the largest operand; a transcendental function counts as one.
    Each(u32),
    /// By the windows that slide over an input.
    Windows,
}

/// Floating point operations of an op on operands and an output that satisfy [`super::infer`].
pub fn flops(op: &Op, inputs: &[Desc], output: Desc) -> u64 {
    let largest = inputs.iter().map(|d| elements(&d.shape)).max().unwrap_or(0);
    match (op.row().work, inputs) {
        // Each element of b meets each of the m values it is multiplied with.
        (Work::Product, [_, b, ..]) => 2 * elements(&b.shape) * u64::from(output.shape[0]),
        (Work::Product, _) => 0,
        (Work::Each(n), _) => u64::from(n) * largest,
        (Work::Windows, _) => sliding::flops(op, inputs, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Binary, DType, infer};

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
    fn other_ops_count_per_element_of_the_largest_operand() {
        let (x, bias) = (Desc::f32([8, 4, 2, 1]), Desc::f32([8, 1, 1, 1]));
        assert_eq!(flops(&Op::Binary(Binary::Add), &[x, bias], x), 64);
        assert_eq!(flops(&Op::RepeatBack, &[x], bias), 64, "every element is added once");
        assert_eq!(flops(&Op::Copy, &[x], x), 0, "moving is no arithmetic");
    }
}
