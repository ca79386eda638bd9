//! Indices by the order of elements: shaders `sort_rows`, `sort_merge`.
//!
//! Chunks of a row are sorted in shared memory to runs, and neighbouring runs merged until one is left. A choice of the first k keeps
//! no more than that of any run.

use super::dispatch::Builder;
use super::{Access, Arg, Call, Lowered, Operand, Refusal, Scratch};
use crate::graph::{DType, rows};
use crate::layout::Layout;

const DESCENDING: u32 = 16;
const CHUNK: u32 = 17;
const ENTRIES: u32 = 18;
const CHUNKS: u32 = 19;
const RUN: u32 = 20;
const SPAN: u32 = 17;
const STRIDE: u32 = 18;
const STRIDE_OUT: u32 = 19;

/// Most elements of a chunk: with their indices they take 8 KiB of shared memory, half of what every device has.
const MOST_ENTRIES: u32 = 1024;

/// Elements that short rows of a workgroup have together.
const PACKED_ENTRIES: u32 = 256;

pub(super) fn arg_sort(call: Call<'_>, descending: bool) -> Result<Lowered, Refusal> {
    sort(call, descending)
}

pub(super) fn top_k(call: Call<'_>) -> Result<Lowered, Refusal> {
    sort(call, true)
}

/// Runs of a row's indices.
#[derive(Clone, Copy)]
struct Runs {
    /// Elements of the row that a run covers.
    span: u32,
    /// Indices of a run that are stored.
    stride: u32,
    /// Runs of a row.
    count: u32,
}

impl Runs {
    fn new(elements: u32, span: u32, kept: u32) -> Self {
        Self { span, stride: span.min(kept), count: elements.div_ceil(span) }
    }

    /// The temporary tensor that holds the runs of all rows.
    fn layout(&self, output: &Operand) -> Result<Layout, Refusal> {
        let [_, n1, n2, n3] = output.shape();
        let fail = |rule: String| Refusal(format!("{}: {rule}", Arg::Input(0)));
        let n0 = self.stride.checked_mul(self.count).ok_or_else(|| fail("runs of a row exceed 32 bits".into()))?;
        Layout::rtile(&[n0, n1, n2, n3], DType::I32.lanes(), 1, 1, u32::MAX, u32::MAX).map_err(|e| fail(e.to_string()))
    }
}

fn sort(call: Call<'_>, descending: bool) -> Result<Lowered, Refusal> {
    let (x, output) = (&call.inputs[0], call.output);
    let elements = x.shape()[0];
    if elements > i32::MAX as u32 {
        return Err(Refusal(format!("{}: rows of {elements} elements have indices beyond 31 bits", Arg::Input(0))));
    }
    let chunk = elements.next_power_of_two().clamp(4, MOST_ENTRIES);
    // Whole texels of what is asked for.
    let kept = output.shape()[0].next_multiple_of(DType::I32.lanes());
    let mut runs = Runs::new(elements, chunk, kept.max(4));
    let mut lowered = Lowered::default();
    let mut target = Target::new(&runs, output, &mut lowered)?;
    let boxed = target.operand.padded();
    let all = rows(&boxed).saturating_mul(runs.count.into());
    let packed = match runs.count {
        1 => u64::from(PACKED_ENTRIES / chunk).clamp(1, all) as u32,
        _ => 1,
    };
    let sorted = call
        .builder("sort_rows")?
        .operand(Arg::Input(0), x, Access::Read)?
        .operand(target.arg, &target.operand, Access::Write)?
        .set(DESCENDING, descending.into())
        .set(CHUNK, chunk)
        .set(ENTRIES, chunk * packed)
        .set(CHUNKS, runs.count)
        .set(RUN, runs.stride)
        .shared(&target.operand, all.div_ceil(packed.into()), chunk * packed)?;
    lowered.dispatches.push(sorted);
    while runs.count > 1 {
        let merged = Runs::new(elements, runs.span.saturating_mul(2), kept);
        let source = target;
        target = Target::new(&merged, output, &mut lowered)?;
        let dispatch = Builder::new("sort_merge", call.limits)
            .operand(Arg::Input(0), x, Access::Read)?
            .operand(source.arg, &source.operand, Access::Read)?
            .operand(target.arg, &target.operand, Access::Write)?
            .set(DESCENDING, descending.into())
            .set(SPAN, runs.span)
            .set(STRIDE, runs.stride)
            .set(STRIDE_OUT, merged.stride)
            .texels(&target.operand)?;
        lowered.dispatches.push(dispatch);
        runs = merged;
    }
    Ok(lowered)
}

/// Where runs go: the last one to the output, the others to two temporary tensors in turn, each as large as it ever needs to be.
struct Target {
    arg: Arg,
    operand: Operand,
}

impl Target {
    fn new(runs: &Runs, output: &Operand, lowered: &mut Lowered) -> Result<Self, Refusal> {
        if runs.count == 1 {
            return Ok(Self { arg: Arg::Output, operand: output.clone() });
        }
        let (layout, turn) = (runs.layout(output)?, lowered.dispatches.len() % 2);
        let operand = Operand::scratch(DType::I32, &layout);
        match lowered.scratch.get_mut(turn) {
            Some(scratch) if scratch.layout.slots() >= layout.slots() => {}
            Some(scratch) => scratch.layout = layout,
            None => lowered.scratch.push(Scratch { dtype: DType::I32, layout }),
        }
        Ok(Self { arg: Arg::Scratch(turn), operand })
    }
}
