//! Cross entropy and its gradient: shaders `cross_entropy`, `sum_rows`, `cross_entropy_back`.

use super::reduce::{by_rows, sum_total};
use super::{Access, Arg, Call, Dispatch, Lowered, Operand, Refusal};
use crate::graph::DType;

/// Rows of the whole.
const ROWS: u32 = 16;

/// One partial sum per row, then their sum.
pub(super) fn cross_entropy(call: Call<'_>) -> Result<Lowered, Refusal> {
    by_rows(&call, DType::F32, 1, losses, cross_entropy_total)
}

fn losses(call: &Call<'_>, arg: Arg, partials: &Operand) -> Result<Dispatch, Refusal> {
    let x = &call.inputs[0];
    call.builder("cross_entropy")?
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(Arg::Input(1), &call.inputs[1], Access::Read)?
        .operand(arg, partials, Access::Write)?
        .rows(x, x.shape()[0])
}

/// The mean of the losses of so many rows.
pub(super) fn cross_entropy_total(call: &Call<'_>, arg: Arg, count: u64) -> Result<Dispatch, Refusal> {
    sum_total(call, arg, 1, count, -1.0 / count as f32)
}

pub(super) fn cross_entropy_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    let [elements, rows @ ..] = call.span.whole;
    let rows = rows.into_iter().try_fold(1_u32, |product, n| product.checked_mul(n));
    let rows = rows.ok_or_else(|| Refusal(format!("{}: its rows exceed 32 bits", Arg::Output)))?;
    Ok(call.dispatch("cross_entropy_back")?.set(ROWS, rows).rows(call.output, elements)?.into())
}
