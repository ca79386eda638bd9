//! Sums of rows and of all, running sums, norms of groups: shaders `row_sums`, `sum_rows`, `count_equal`,
//! `count_total`, `cumsum`, `group_stats`, `group_norm`.

use super::dispatch::Builder;
use super::{Access, Arg, Call, Dispatch, Lowered, Operand, Refusal, Scratch};
use crate::graph::{DType, elements, rows};
use crate::layout::{Axis, Digit, Layout};

const FACTOR: u32 = 16;
const PAIRS: u32 = 17;
/// A sum and what was rounded off of it.
pub(super) const PAIR: u32 = 2;
const EPS: u32 = 16;
const CHANNELS: u32 = 17;

/// One sum for each row, times a factor.
pub(super) fn sum_rows(call: Call<'_>, factor: f32) -> Result<Lowered, Refusal> {
    let elements = call.inputs[0].shape()[0];
    Ok(call.dispatch("row_sums")?.set_f32(FACTOR, factor).set(PAIRS, 0).rows(call.output, elements)?.into())
}

pub(super) fn mean(call: Call<'_>) -> Result<Lowered, Refusal> {
    let elements = call.inputs[0].shape()[0];
    sum_rows(call, 1.0 / elements as f32)
}

/// One sum for each row and what was rounded off of it, then theirs.
pub(super) fn sum(call: Call<'_>) -> Result<Lowered, Refusal> {
    by_rows(&call, DType::F32, PAIR, pairs, |call, arg, count| sum_total(call, arg, PAIR, count, 1.0))
}

/// What `per_row` leaves of every row, then what `total` makes of so many rows; of a piece the rows alone.
pub(super) fn by_rows(
    call: &Call<'_>,
    dtype: DType,
    values: u32,
    per_row: impl Fn(&Call<'_>, Arg, &Operand) -> Result<Dispatch, Refusal>,
    total: impl Fn(&Call<'_>, Arg, u64) -> Result<Dispatch, Refusal>,
) -> Result<Lowered, Refusal> {
    if call.span.partial {
        return Ok(per_row(call, Arg::Output, call.output)?.into());
    }
    let x = &call.inputs[0];
    let (scratch, partials) = partials(dtype, values, x)?;
    let per_row = per_row(call, Arg::Scratch(0), &partials)?;
    let total = total(call, Arg::Scratch(0), rows(&x.shape()))?;
    Ok(Lowered { dispatches: vec![per_row, total], scratch: vec![scratch] })
}

fn pairs(call: &Call<'_>, arg: Arg, partials: &Operand) -> Result<Dispatch, Refusal> {
    let x = &call.inputs[0];
    call.builder("row_sums")?
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(arg, partials, Access::Write)?
        .set_f32(FACTOR, 1.0)
        .set(PAIRS, 1)
        .rows(partials, x.shape()[0])
}

/// The sum of the sums of so many rows, times a factor. A row has one value, or [`PAIR`].
pub(super) fn sum_total(call: &Call<'_>, arg: Arg, values: u32, count: u64, factor: f32) -> Result<Dispatch, Refusal> {
    let pairs = u32::from(values == PAIR);
    total(call, "sum_rows", (arg, DType::F32), values, count, |b| b.set_f32(FACTOR, factor).set(PAIRS, pairs))
}

/// One count for each row, then their sum.
pub(super) fn count_equal(call: Call<'_>) -> Result<Lowered, Refusal> {
    by_rows(&call, DType::I32, 1, counts, count_total)
}

fn counts(call: &Call<'_>, arg: Arg, partials: &Operand) -> Result<Dispatch, Refusal> {
    let a = &call.inputs[0];
    call.builder("count_equal")?
        .operand(Arg::Input(0), a, Access::Read)?
        .operand(Arg::Input(1), &call.inputs[1], Access::Read)?
        .operand(arg, partials, Access::Write)?
        .rows(partials, a.shape()[0])
}

/// The sum of the counts of so many rows.
pub(super) fn count_total(call: &Call<'_>, arg: Arg, count: u64) -> Result<Dispatch, Refusal> {
    let elements = elements(&call.inputs[0].shape());
    if elements > u64::from(u32::MAX) {
        return Err(Refusal(format!("{}: {elements} elements are counted in 32 bits", Arg::Input(0))));
    }
    total(call, "count_total", (arg, DType::I32), 1, count, |builder| builder)
}

/// Where a dispatch leaves one or more values of each row of `x`: the temporary, and the operand that shows it as rows of so many elements.
pub(super) fn partials(dtype: DType, values: u32, x: &Operand) -> Result<(Scratch, Operand), Refusal> {
    let [_, n1, n2, n3] = x.shape();
    let count = rows(&x.shape());
    if count > u64::from(u32::MAX) {
        return Err(Refusal(format!("{}: {count} rows exceed 32 bits", Arg::Input(0))));
    }
    let layout = texel_per_row(values, [n1, n2, n3]);
    let partials = Operand::scratch(dtype, &layout);
    Ok((Scratch { dtype, layout }, partials))
}

/// The dispatch that sums the values of so many rows: their texels, numbered along one axis.
fn total<'a>(
    call: &Call<'a>,
    shader: &'static str,
    (arg, dtype): (Arg, DType),
    values: u32,
    count: u64,
    with: impl FnOnce(Builder<'a>) -> Builder<'a>,
) -> Result<Dispatch, Refusal> {
    let count = u32::try_from(count).map_err(|_| Refusal(format!("{arg}: {count} rows exceed 32 bits")))?;
    let partials = Operand::scratch(dtype, &texel_per_row(values, [count, 1, 1]));
    let builder = Builder::new(shader, call.limits).operand(arg, &partials, Access::Read)?.operand(
        Arg::Output,
        call.output,
        Access::Write,
    )?;
    with(builder).single(call.output, count)
}

pub(super) fn cumsum(call: Call<'_>) -> Result<Lowered, Refusal> {
    Ok(call.dispatch("cumsum")?.rows(call.output, call.output.shape()[0])?.into())
}

/// Mean and scale of each group, then every element by those of its own.
pub(super) fn group_norm(call: Call<'_>, groups: u32, eps: f32) -> Result<Lowered, Refusal> {
    let x = &call.inputs[0];
    let [n0, n1, n2, n3] = x.shape();
    let channels = n2.div_ceil(groups);
    let too_many = |count: u64| Refusal(format!("{}: {count} elements of a group exceed 32 bits", Arg::Input(0)));
    let elements = [n1, channels].iter().fold(u64::from(n0), |product, &n| product.saturating_mul(n.into()));
    let elements = u32::try_from(elements).map_err(|_| too_many(elements))?;
    let count = n2
        .div_ceil(channels)
        .checked_mul(n3)
        .ok_or_else(|| Refusal(format!("{}: groups of {n3} samples exceed 32 bits", Arg::Input(0))))?;
    let layout = texel_per_row(2, [count, 1, 1]);
    let statistics = Operand::scratch(DType::F32, &layout);
    let reduced = call
        .builder("group_stats")?
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(Arg::Scratch(0), &statistics, Access::Write)?
        .set_f32(EPS, eps)
        .set(CHANNELS, channels)
        .rows(&statistics, elements)?;
    let applied = Builder::new("group_norm", call.limits)
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(Arg::Scratch(0), &statistics, Access::Read)?
        .operand(Arg::Output, call.output, Access::Write)?
        .set(CHANNELS, channels)
        .texels(call.output)?;
    Ok(Lowered { dispatches: vec![reduced, applied], scratch: vec![Scratch { dtype: DType::F32, layout }] })
}

/// `[values, ..]` over these extents, a texel per row, so that workgroups of different rows write different texels.
fn texel_per_row(values: u32, rows: [u32; 3]) -> Layout {
    let lanes = DType::F32.lanes();
    let axes = rows.map(|extent| Axis { extent, padded: extent });
    let digits = rows.into_iter().zip(1..).map(|(radix, axis)| Digit { axis, stride: 1, radix });
    let layout = Layout {
        axes: [Axis { extent: values, padded: lanes }].into_iter().chain(axes).collect(),
        lane: vec![Digit { axis: 0, stride: 1, radix: lanes }],
        x: digits.collect(),
        y: Vec::new(),
    };
    layout.normalize()
}
