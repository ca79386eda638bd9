//! Rows picked, added or scattered by ids: shaders `get_rows`, `add_id`, `get_rows_back`.

use super::{Call, Lowered, Refusal};

pub(super) fn get_rows(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows")?.texels(call.output)?.into())
}

pub(super) fn get_rows_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows_back")?.texels(call.output)?.into())
}

pub(super) fn add_id(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("add_id")?.texels(call.output)?.into())
}
