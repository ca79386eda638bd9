//! Cross entropy and its gradient: shaders `cross_entropy`, `sum_rows`, `cross_entropy_back`.

use super::dispatch::Builder;
use super::{Access, Arg, Call, Lowered, Operand, Refusal, Scratch, StorageKind};
use crate::graph::{DType, rows};
use crate::layout::{Axis, Digit, Layout};

const FACTOR: u32 = 16;

/// One partial sum per row, then their sum.
pub(super) fn cross_entropy(call: Call<'_>) -> Result<Lowered, Refusal> {
    let x = &call.inputs[0];
    let count = rows(&x.shape());
    let count = u32::try_from(count).map_err(|_| Refusal(format!("{}: {count} rows exceed 32 bits", Arg::Input(0))))?;
    let layout = partial_sums(count);
    let partials = Operand {
        dtype: DType::F32,
        view: layout.view(),
        flat: false,
        storage: StorageKind::Buffer,
        pitch: layout.width(),
    };
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

/// [1, rows], a texel per row, so that workgroups of different rows write different texels.
fn partial_sums(rows: u32) -> Layout {
    let lanes = DType::F32.lanes();
    let layout = Layout {
        axes: vec![Axis { extent: 1, padded: lanes }, Axis { extent: rows, padded: rows }],
        lane: vec![Digit { axis: 0, stride: 1, radix: lanes }],
        x: vec![Digit { axis: 1, stride: 1, radix: rows }],
        y: Vec::new(),
    };
    layout.normalize()
}
