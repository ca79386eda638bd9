//! Outputs whose texels do not run along axis 0. A kernel writes along axis 0, but some ops do not care which axis that is.

use super::{Operand, gemm};
use crate::graph::{Desc, Op};
use crate::layout::View;

/// Axes of the output that the lanes of its texels may run along.
pub fn lane_axes(op: &Op, inputs: &[Desc], output: &Desc) -> &'static [usize] {
    let plain = !output.dtype.is_quantized();
    let same_axes = inputs.iter().all(|input| *op != Op::Copy || input.shape == output.shape);
    match op {
        Op::MulMat | Op::OutProd if gemm::is_symmetric(inputs) => &[0, 1],
        _ if plain && same_axes && with_axes(op, [0, 1, 2, 3]).is_some() => &[0, 1, 2, 3],
        _ => &[0],
    }
}

/// The op on the same elements with the axes of all operands in another order: new axis k is old axis `order[k]`. Nothing for
/// ops that tell axes apart.
fn with_axes(op: &Op, order: [usize; 4]) -> Option<Op> {
    match *op {
        Op::Pad { before } => Some(Op::Pad { before: order.map(|axis| before[axis]) }),
        Op::Repeat | Op::RepeatBack | Op::Copy => Some(*op),
        _ if op.row().family.is_by_element() => Some(*op),
        _ => None,
    }
}

/// Op, operands and output with the lanes of the output on axis 0, where they are elsewhere and the op allows it.
pub(super) fn turned(op: &Op, inputs: &[Operand], output: &Operand) -> Option<(Op, Vec<Operand>, Operand)> {
    let lanes = output.view.lane_axis(output.dtype.lanes()).ok()?.filter(|&axis| axis > 0)?;
    let mut order = [0, 1, 2, 3];
    order[..=lanes].rotate_right(1);
    let view = |view: &View| view.permute(&order).ok();
    let turned = |operand: &Operand| Some(Operand { view: view(&operand.view)?, ..operand.clone() });
    let moved = |input: &Operand| input.shape() != output.shape();
    if *op == Op::Copy && inputs.iter().any(moved) {
        return None;
    }
    let inputs = inputs.iter().map(turned).collect::<Option<Vec<_>>>()?;
    Some((with_axes(op, order)?, inputs, turned(output)?))
}
