//! Cross entropy and its gradient: shaders `cross_entropy`, `sum_rows`, `cross_entropy_back`.

use super::dispatch::Builder;
use super::reduce::texel_per_row;
use super::{Access, Arg, Call, Lowered, Operand, Refusal, Scratch};
use crate::graph::{DType, rows};

const FACTOR: u32 = 16;

/// One partial sum per row, then their sum.
pub(super) fn cross_entropy(call: Call<'_>) -> Result<Lowered, Refusal> {
    let x = &call.inputs[0];
    let count = rows(&x.shape());
    let count = u32::try_from(count).map_err(|_| Refusal(format!("{}: {count} rows exceed 32 bits", Arg::Input(0))))?;
    let layout = texel_per_row([count, 1, 1]);
    let partials = Operand::scratch(DType::F32, &layout);
    let per_row = call
        .builder("cross_entropy")?
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(Arg::Input(1), &call.inputs[1], Access::Read)?
        .operand(Arg::Scratch(0), &partials, Access::Write)?
        .rows(x, x.shape()[0])?;
    let total = Builder::new("sum_rows", call.limits)
        .operand(Arg::Scratch(0), &partials, Access::Read)?
        .operand(Arg::Output, call.output, Access::Write)?
        .set_f32(FACTOR, -1.0 / count as f32)
        .single(call.output, count)?;
    Ok(Lowered { dispatches: vec![per_row, total], scratch: vec![Scratch { dtype: DType::F32, layout }] })
}

pub(super) fn cross_entropy_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    let elements = call.output.shape()[0];
    Ok(call.dispatch("cross_entropy_back")?.rows(call.output, elements)?.into())
}
