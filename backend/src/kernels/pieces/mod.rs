//! Ops beyond a limit of the device, in pieces: sub-ranges of an axis of the result, or of what a product sums over.
//!
//! A dispatch binds no more of a buffer than a device lets it, per operand and altogether, and has no more workgroups than it counts. Where an
//! op as a whole breaks one of these rules, its result is cut in two along an axis, and each half lowered by itself, until all is within
//! them. Nothing is copied: a piece reads and writes windows of the same storages, and of a buffer binds only the rows of texels that its
//! windows touch; its constants count rows from the first of these. Pieces of one result write different elements, so that none waits for
//! another ([`super::Dispatch::beside`]).
//!
//! [`along`] says which axes of its result an op treats by themselves, and what of its operands goes with them. What ids pick is cut along
//! the axis that they count: each piece has a range of it, and writes the elements whose ids are in the range. A product or an attention
//! whose operands are too large along the axis that it sums over is cut there ([`sums`]): every part leaves sums of its own, and one more
//! dispatch adds these in a fixed order. What writes a part of a tensor is cut as what it does to that part ([`others`]).

mod along;
mod others;
mod span;
mod stages;
mod sums;

use std::cell::Cell;
use std::ops::Range;

use super::{Arg, Call, Lowered, Operand, Refusal, StorageKind, by_family, turned};
use crate::device::Limits;
use crate::graph::{Family, Op};

use along::{Need, With};
pub(super) use span::Span;
use stages::Stages;

/// Bytes of a texel.
const TEXEL_BYTES: u64 = 16;

/// Dispatches of the pieces that an op is cut into at most, beside those that join them: a tensor of 512 GiB has as many pieces of the least that devices bind.
const MOST_DISPATCHES: usize = 1 << 12;

/// Where an axis is cut: near its middle, at a multiple of one of these, so that blocks, tiles of rows and texels stay in one piece.
const UNITS: [u32; 5] = [256, 64, 16, 4, 1];

/// Lowers an op whose operands satisfy its rule, in as many pieces as the limits ask for.
pub(super) fn lower(op: &Op, inputs: &[Operand], output: &Operand, limits: &Limits) -> Result<Lowered, Refusal> {
    let names = (0..inputs.len()).map(Arg::Input).collect();
    let span = Span::all(output);
    let left = Cell::new(MOST_DISPATCHES);
    let whole = Piece { op: *op, inputs: inputs.to_vec(), names, output: output.clone(), span, limits, left: &left };
    match whole.at_once(Rows::FromTheFirst) {
        Err(refusal) if refusal.is_of_size() => whole.as_others().unwrap_or_else(|| whole.in_pieces()),
        lowered => lowered,
    }
}

/// That no dispatch binds more than the device does.
pub(super) fn check_bound<'a>(
    lowered: &Lowered,
    operand: impl Fn(Arg) -> Option<&'a Operand>,
    limits: &Limits,
) -> Result<(), Refusal> {
    for dispatch in &lowered.dispatches {
        let mut sum = 0;
        for (slot, &(arg, _)) in dispatch.args.iter().enumerate() {
            let bytes = match arg {
                Arg::Scratch(i) => lowered.scratch[i].layout.slots() * TEXEL_BYTES,
                _ => operand(arg).map_or(0, |operand| match dispatch.rows_of(slot) {
                    Some(rows) => bytes_of(operand, rows),
                    None => bytes_of(operand, &(0..operand.rows().end)),
                }),
            };
            let most = limits.max_storage_buffer_range;
            if bytes > most {
                return Err(Refusal::of_size(format!("{arg}: {bytes} bytes, of {most} in a binding, are")));
            }
            sum += bytes;
        }
        let most = limits.max_bound_bytes;
        if sum > most {
            let rule = format!("shader {}: {sum} bytes in buffers, of {most} altogether, are", dispatch.shader);
            return Err(Refusal::of_size(rule));
        }
    }
    Ok(())
}

/// Bytes of rows of an operand's storage that count against the limits of buffers.
fn bytes_of(operand: &Operand, rows: &Range<u32>) -> u64 {
    match operand.storage {
        StorageKind::Buffer => u64::from(rows.end - rows.start) * u64::from(operand.pitch) * TEXEL_BYTES,
        StorageKind::Image => 0,
    }
}

impl Operand {
    /// Rows of texels that the padded box touches, the first of them and the last.
    pub(crate) fn rows(&self) -> Range<u32> {
        let (first, last) = (self.view.origin, self.view.reach());
        let row = |x: u32, y: u32| if self.flat { x / self.dtype.lanes() / self.pitch } else { y };
        row(first.x, first.y)..row(last.x, last.y) + 1
    }

    /// Of a buffer, the operand over the rows that it touches, which are bound alone, and these rows.
    fn narrowed(&self, alignment: u64) -> (Self, Option<Range<u32>>) {
        if self.storage == StorageKind::Image || self.flat {
            return (self.clone(), None);
        }
        let Range { start, end } = self.rows();
        // The least number of rows whose bytes are a multiple of the alignment, a power of two.
        let row_bytes = u64::from(self.pitch) * TEXEL_BYTES;
        let unit = alignment >> row_bytes.trailing_zeros().min(alignment.trailing_zeros());
        let start = (u64::from(start) / unit * unit) as u32;
        let mut narrowed = self.clone();
        narrowed.view.origin.y -= start;
        (narrowed, Some(start..end))
    }
}

/// Which rows of their storages dispatches bind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// All up to the last that is touched: the constants are those of the whole storage.
    FromTheFirst,
    /// Those that are touched.
    Touched,
}

/// An op on windows.
#[derive(Clone)]
struct Piece<'a> {
    op: Op,
    inputs: Vec<Operand>,
    /// What the inputs are in the op that all is a piece of.
    names: Vec<Arg>,
    output: Operand,
    span: Span,
    limits: &'a Limits,
    /// Dispatches that all pieces may yet have together.
    left: &'a Cell<usize>,
}

impl Piece<'_> {
    fn operand(&self, arg: Arg) -> Option<&Operand> {
        match arg {
            Arg::Input(i) => self.inputs.get(i),
            Arg::Output => Some(&self.output),
            Arg::Scratch(_) | Arg::Extra(_) => None,
        }
    }

    /// Lowers it without a cut; a refusal is of size where one can help.
    fn at_once(&self, rows: Rows) -> Result<Lowered, Refusal> {
        if rows == Rows::FromTheFirst {
            let lowered = self.uncut(&self.inputs, &self.output)?;
            check_bound(&lowered, |arg| self.operand(arg), self.limits)?;
            return Ok(lowered);
        }
        let narrowed = |operand: &Operand| operand.narrowed(self.limits.storage_buffer_alignment);
        let (inputs, input_rows): (Vec<_>, Vec<_>) = self.inputs.iter().map(narrowed).unzip();
        let (output, output_rows) = narrowed(&self.output);
        let mut lowered = self.uncut(&inputs, &output)?;
        for dispatch in &mut lowered.dispatches {
            let of = |arg: Arg| match arg {
                Arg::Input(i) => input_rows[i].clone(),
                Arg::Output => output_rows.clone(),
                Arg::Scratch(_) | Arg::Extra(_) => None,
            };
            let rows = dispatch.args.iter().enumerate().filter_map(|(slot, &(arg, _))| Some((slot, of(arg)?)));
            dispatch.rows = rows.collect();
        }
        check_bound(&lowered, |arg| self.operand(arg), self.limits)?;
        let Some(left) = self.left.get().checked_sub(lowered.dispatches.len()) else {
            let name = self.op.row().name;
            return Err(Refusal(format!(
                "{name}: more than {MOST_DISPATCHES} dispatches, as its size asks for, are too many"
            )));
        };
        self.left.set(left);
        lowered.rename(|i| self.names[i]);
        Ok(lowered)
    }

    /// The op on these operands, which are those of the piece.
    fn uncut(&self, inputs: &[Operand], output: &Operand) -> Result<Lowered, Refusal> {
        let Self { ref op, span, limits, .. } = *self;
        match turned::turned(op, inputs, output) {
            Some((op, inputs, output)) => {
                by_family(&op, Call { inputs: &inputs, output: &output, tail: None, span, limits })
            }
            None => by_family(op, Call { inputs, output, tail: None, span, limits }),
        }
    }

    /// Lowers it, in pieces where there must be some.
    fn in_pieces(&self) -> Result<Lowered, Refusal> {
        match self.at_once(Rows::Touched) {
            Err(refusal) if refusal.is_of_size() => self.cut(&refusal),
            lowered => lowered,
        }
    }

    /// Cuts it, for it was refused as a whole.
    fn cut(&self, refusal: &Refusal) -> Result<Lowered, Refusal> {
        let excess = self.excess();
        let left = |halves: &[Self; 2]| halves.iter().map(Self::excess).max().unwrap_or(u64::MAX);
        let halves = (0..4).filter_map(|axis| Some((self.output.shape()[axis], self.halves(axis)?)));
        // These have as many invocations as the whole: they help where bytes are too many.
        let picked = if excess > 0 { self.halves_of_picked() } else { None };
        let all = halves.chain(picked).map(|(extent, halves)| (left(&halves), extent, halves));
        // Of cuts that are as good, the one along the longest axis.
        let best = all.min_by_key(|&(left, extent, _)| (left, u32::MAX - extent));
        let best = best.filter(|&(left, ..)| excess == 0 || left < excess);
        if let Some((parts, left)) = self.parts()
            && left < best.as_ref().map_or(excess, |&(left, ..)| left)
        {
            return self.summed(parts);
        }
        let Some((_, _, halves)) = best else {
            return Err(Refusal(format!("{refusal}; {} is not cut in pieces that fit", self.op.row().name)));
        };
        let mut all = Stages::default();
        for half in &halves {
            all.add(half.in_pieces()?, |arg| arg);
        }
        Ok(all.finish())
    }

    /// Bytes beyond what the device binds: of every operand, and of all together.
    fn excess(&self) -> u64 {
        let Limits { max_storage_buffer_range, max_bound_bytes, storage_buffer_alignment, .. } = *self.limits;
        let bytes = |operand: &Operand| match operand.narrowed(storage_buffer_alignment) {
            (_, Some(rows)) => bytes_of(operand, &rows),
            (_, None) => bytes_of(operand, &(0..operand.rows().end)),
        };
        // What a part is written of is bound as the output alone.
        let base = usize::from(self.op.row().family == Family::Inset);
        let bytes: Vec<u64> = self.inputs.iter().skip(base).chain([&self.output]).map(bytes).collect();
        let each: u64 = bytes.iter().map(|bytes| bytes.saturating_sub(max_storage_buffer_range)).sum();
        each + bytes.iter().sum::<u64>().saturating_sub(max_bound_bytes)
    }

    /// The op on the two halves of an axis of the output, where it treats it by itself.
    fn halves(&self, axis: usize) -> Option<[Self; 2]> {
        let shapes: Vec<_> = self.inputs.iter().map(Operand::shape).collect();
        let output = self.output.shape();
        let along = along::along(&self.op, axis, &shapes, &output)?;
        let extent = output[axis];
        let units = along.iter().zip(&shapes).map(|(with, shape)| with.unit(shape, extent));
        let unit = units.fold(1, |all, unit| if unit < extent { common_multiple(all, unit) } else { all });
        middles(extent, unit).find_map(|at| {
            let [first, last] = [0..at, at..extent].map(|range| self.range(&along, axis, &range));
            Some([first?, last?])
        })
    }

    /// The op on a range of an axis of the output, and of axes of the inputs.
    fn range(&self, along: &[With], axis: usize, range: &Range<u32>) -> Option<Self> {
        let n = self.output.shape()[axis];
        let inputs = self.inputs.iter().zip(along).map(|(input, with)| match with.need(&input.shape(), n, range)? {
            Need::All => Some(input.clone()),
            Need::Range(axis, range) => sliced(input, axis, &range),
            Need::FourTimes(n, range) => four_times(input, n, &range),
        });
        let output = sliced(&self.output, axis, range)?;
        let span = self.span.from(axis, range.start);
        Some(Self { inputs: inputs.collect::<Option<_>>()?, output, span, ..self.clone() })
    }

    /// The op on the two halves of what ids pick, and how much that is in all. Every half goes over all ids.
    fn halves_of_picked(&self) -> Option<(u32, [Self; 2])> {
        let (arg, axis) = along::picked(&self.op)?;
        let all = self.operand(arg)?;
        let extent = all.shape()[axis];
        let half = |range: Range<u32>| {
            let mut half = self.clone();
            let own = sliced(all, axis, &range)?;
            match arg {
                Arg::Input(i) => {
                    half.inputs[i] = own;
                    half.span = self.span.picking(range.start, extent);
                }
                _ => {
                    half.output = own;
                    half.span = self.span.from(axis, range.start);
                }
            }
            Some(half)
        };
        middles(extent, 1).find_map(|at| Some((extent, [half(0..at)?, half(at..extent)?])))
    }
}

/// Where an axis can be cut in two: in the middle, as digits and `unit` allow it; then where less is left behind a larger unit.
fn middles(extent: u32, unit: u32) -> impl Iterator<Item = u32> {
    let [even, uneven] = [true, false].map(|even| UNITS.into_iter().filter(move |&of| (of <= extent / 2) == even));
    let at = move |of| (extent / 2).next_multiple_of(common_multiple(of, unit));
    even.chain(uneven).map(at).chain([(extent / 2).next_multiple_of(unit)]).filter(move |at| (1..extent).contains(at))
}

fn common_multiple(a: u32, b: u32) -> u32 {
    let (mut divisor, mut rest) = (a, b);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (a / divisor).saturating_mul(b)
}

/// A range of an axis, the last one of which keeps the padding; so do the other axes.
fn sliced(operand: &Operand, axis: usize, range: &Range<u32>) -> Option<Operand> {
    if operand.flat {
        return None;
    }
    let mut whole = operand.view.clone();
    let extents = whole.extents();
    let len = range.end - range.start;
    let padding = if range.end == *extents.get(axis)? { whole.axes[axis].padded - range.end } else { 0 };
    whole.axes.iter_mut().for_each(|axis| axis.extent = axis.padded);
    let mut view = whole.slice(axis, range.start, len + padding).ok()?;
    for (own, extent) in view.axes.iter_mut().zip(extents) {
        own.extent = extent;
    }
    view.axes[axis].extent = len;
    Some(Operand { view, ..*operand })
}

/// Of a vector of four rows of `n` elements, the range of each, one after the other.
fn four_times(operand: &Operand, n: u32, range: &Range<u32>) -> Option<Operand> {
    if operand.flat {
        return None;
    }
    let len = range.end - range.start;
    let rows = operand.view.reshape(&[n, 4, 1, 1]).ok()?.slice(0, range.start, len).ok()?;
    let view = rows.reshape(&[4 * len, 1, 1, 1]).ok()?;
    Some(Operand { view, ..*operand })
}
