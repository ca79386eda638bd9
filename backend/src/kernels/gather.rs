//! Rows picked, added or scattered by ids: shaders `get_rows`, `add_id`, `get_rows_back`.

use super::dispatch::Builder;
use super::{Call, Lowered, Refusal};

/// Constants of `picked.glsl`: of what ids pick, the first that is here, and how many there are in all, 0 where all are here.
const FIRST: u32 = 16;
const ALL: u32 = 17;

/// The first row of the output.
const FIRST_ROW: u32 = 16;

impl Builder<'_> {
    /// What part of all that ids pick this has.
    pub(super) fn picking(self, call: &Call<'_>) -> Self {
        let (first, all) = call.span.picked.unwrap_or((0, 0));
        self.set(FIRST, first).set(ALL, all)
    }
}

pub(super) fn get_rows(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows")?.picking(&call).texels(call.output)?.into())
}

pub(super) fn get_rows_back(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("get_rows_back")?.set(FIRST_ROW, call.span.first[1]).texels(call.output)?.into())
}

pub(super) fn add_id(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("add_id")?.texels(call.output)?.into())
}
