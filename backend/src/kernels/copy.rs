//! Values moved, repeated, converted to another dtype, and summed back over their repeats: shaders `copy`, `repeat_back`.

use super::{Arg, Call, Lowered, Refusal};

const WRAP: u32 = 16;

pub(super) fn copy(call: Call<'_>) -> Result<Lowered, Refusal> {
    let (input, output) = (call.inputs[0].shape(), call.output.shape());
    if input != output {
        let rule = format!("its view {input:?} must have the output's shape {output:?}");
        return Err(Refusal(format!("{}: {rule}", Arg::Input(0))));
    }
    Ok(call.dispatch("copy")?.set(WRAP, 0).texels(call.output)?.into())
}

pub(super) fn repeat(call: Call<'_>) -> Result<Lowered, Refusal> {
    let wrap = call.inputs[0].repeats_to(call.output);
    Ok(call.dispatch("copy")?.set(WRAP, wrap).texels(call.output)?.into())
}

pub(super) fn repeat_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("repeat_back")?.texels(call.output)?.into())
}
