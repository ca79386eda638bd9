//! Optimizer steps, in place: shaders `adamw`, or `adamw_moments` and `adamw_weights`, and `sgd`.

use super::{Access, Arg, Call, Lowered, Refusal, most_operands};

pub(super) fn adamw(call: Call<'_>) -> Result<Lowered, Refusal> {
    let [w, g, m, v, parameters] = call.inputs else {
        return Err(Refusal(format!("AdamW has 5 operands, {} given", call.inputs.len())));
    };
    if most_operands(call.limits) < call.inputs.len() {
        let moments = call
            .builder("adamw_moments")?
            .operand(Arg::Input(1), g, Access::Read)?
            .operand(Arg::Input(2), m, Access::ReadWrite)?
            .operand(Arg::Input(3), v, Access::ReadWrite)?
            .operand(Arg::Input(4), parameters, Access::Read)?
            .texels(m)?;
        let weights = call
            .builder("adamw_weights")?
            .operand(Arg::Input(0), w, Access::ReadWrite)?
            .operand(Arg::Input(2), m, Access::Read)?
            .operand(Arg::Input(3), v, Access::Read)?
            .operand(Arg::Input(4), parameters, Access::Read)?
            .texels(w)?;
        return Ok(Lowered { dispatches: vec![moments, weights], scratch: Vec::new() });
    }
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
