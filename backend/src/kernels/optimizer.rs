//! Optimizer steps, in place: shaders `adamw` and `sgd`.

use super::{Access, Arg, Call, Lowered, Refusal};

pub(super) fn adamw(call: Call<'_>) -> Result<Lowered, Refusal> {
    let [w, g, m, v, parameters] = call.inputs else {
        return Err(Refusal(format!("AdamW has 5 operands, {} given", call.inputs.len())));
    };
    let dispatch = call
        .builder("adamw")?
        .operand(Arg::Input(0), w, Access::ReadWrite)?
        .operand(Arg::Input(1), g, Access::Read)?
        .operand(Arg::Input(2), m, Access::ReadWrite)?
        .operand(Arg::Input(3), v, Access::ReadWrite)?
        .operand(Arg::Input(4), parameters, Access::Read)?
        .texels(w)?;
    Ok(dispatch.into())
}

pub(super) fn sgd(call: Call<'_>) -> Result<Lowered, Refusal> {
    let [w, g, parameters] = call.inputs else {
        return Err(Refusal(format!("SGD has 3 operands, {} given", call.inputs.len())));
    };
    let dispatch = call
        .builder("sgd")?
        .operand(Arg::Input(0), w, Access::ReadWrite)?
        .operand(Arg::Input(1), g, Access::Read)?
        .operand(Arg::Input(2), parameters, Access::Read)?
        .texels(w)?;
    Ok(dispatch.into())
}
