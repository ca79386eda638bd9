//! The gradient of attention. No weights of the keys are kept: the backward ops compute them again.

use super::Call;
use super::rules::Gradient;
use crate::graph::{FlashAttn, Op};

/// Mask and sinks are data. What the gradients need beside the result comes with it: attention that was computed without is computed again
/// with it.
pub(crate) fn flash_attn(call: &mut Call<'_>) -> Gradient {
    let Op::FlashAttn(attention) = *call.op() else { unreachable!("the row belongs to FlashAttn") };
    if call.operand > 2 {
        return Ok(None);
    }
    if attention.logs {
        return Err(
            call.refusal("FLASH_ATTN_EXT has no gradient: its logs are made for the gradient of attention without")
        );
    }
    let attention = FlashAttn { logs: true, ..attention };
    let with_logs = call.add_once(Op::FlashAttn(attention), &call.node.inputs.clone())?;
    let operands = 3 + usize::from(attention.mask);
    let mut inputs = call.node.inputs[..operands].to_vec();
    inputs.extend([with_logs, call.dy]);
    let queries = call.add_once(Op::FlashAttnBackQ(attention), &inputs)?;
    // Heads before tokens again.
    let [first, heads, back] = match call.operand {
        0 => [0, call.shape()[2], 0],
        operand => {
            inputs[operands] = queries;
            [if operand == 1 { 0 } else { call.shape()[2] }, call.shape()[2], 1]
        }
    };
    let all = if back == 0 { queries } else { call.add_once(Op::FlashAttnBackKv(attention), &inputs)? };
    let window = all.slice(1, first, heads).and_then(|window| window.permute([0, 2, 1, 3]));
    window.map(Some).map_err(|e| call.refusal(e.to_string()))
}
