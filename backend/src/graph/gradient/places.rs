//! Gradients of ops that move values or leave some out.

use super::Call;
use super::rules::Gradient;
use crate::graph::Op;

/// The part of dy where the operand went.
pub(crate) fn concat(call: &mut Call<'_>) -> Gradient {
    let Op::Concat { axis } = call.node.op else { unreachable!("the row belongs to Concat") };
    let axis = axis as usize;
    let start = if call.operand == 0 { 0 } else { call.input(0).shape[axis] };
    call.dy.slice(axis, start, call.shape()[axis]).map(Some).map_err(|e| call.refusal(e.to_string()))
}

/// Rolled back.
pub(crate) fn roll(call: &mut Call<'_>) -> Gradient {
    let Op::Roll { shift } = call.node.op else { unreachable!("the row belongs to Roll") };
    call.add(Op::Roll { shift: shift.map(|steps| -steps) }, &[call.dy]).map(Some)
}

/// What was left out has none: zero there.
pub(crate) fn band(call: &mut Call<'_>) -> Gradient {
    let op = match call.node.op {
        Op::DiagMaskInf { past } => Op::DiagMaskZero { past },
        op => op,
    };
    call.add(op, &[call.dy]).map(Some)
}
