//! Rows picked or scattered by ids: shaders `get_rows`, `get_rows_back`.

use super::{Call, Lowered, Refusal};

pub(super) fn get_rows(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows")?.texels(call.output)?.into())
}

pub(super) fn get_rows_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows_back")?.texels(call.output)?.into())
}
