//! Ops beyond a limit of the device, in pieces: sub-ranges of an axis of the result, or of what a product sums over.
//!
//! A dispatch binds no more of a buffer than a device lets it, per operand and altogether, and has no more workgroups than it counts. Where an
//! op as a whole breaks one of these rules, its result is cut in two along an axis, and each half lowered by itself, until all is within
//! them. Nothing is copied: a piece reads and writes windows of the same storages, and of a buffer binds only the rows of texels that its
//! windows touch; its constants count rows from the first of these. Pieces of one result write different elements, so that none waits for
//! another ([`super::Dispatch::beside`]).
//!
//! A product whose operands are too large along the axis that it sums over is cut there: every part is a product that goes to sums of its
//! own, and one more dispatch adds these in a fixed order.

use std::ops::Range;

use super::{Arg, Call, Dispatch, Lowered, Operand, Refusal, Scratch, StorageKind, by_family, copy, gemm, turned};
use crate::device::Limits;
use crate::graph::{Op, Shape};

/// Bytes of a texel.
const TEXEL_BYTES: u64 = 16;

/// Most parts that a sum is cut into; what is still too large then is cut again.
const MOST_PARTS: u32 = 64;

/// Where an axis is cut: near its middle, at a multiple of one of these, so that blocks, tiles of rows and texels stay in one piece.
const UNITS: [u32; 5] = [256, 64, 16, 4, 1];

/// Lowers an op whose operands satisfy its rule, in as many pieces as the limits ask for.
pub(super) fn lower(op: &Op, inputs: &[Operand], output: &Operand, limits: &Limits) -> Result<Lowered, Refusal> {
    let whole = Piece { op, inputs: inputs.to_vec(), output: output.clone(), limits };
    match whole.at_once(Rows::FromTheFirst) {
        Err(refusal) if refusal.is_of_size() => whole.in_pieces(),
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
    op: &'a Op,
    inputs: Vec<Operand>,
    output: Operand,
    limits: &'a Limits,
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
        let Self { op, limits, .. } = *self;
        if rows == Rows::FromTheFirst {
            let lowered = uncut(op, &self.inputs, &self.output, limits)?;
            check_bound(&lowered, |arg| self.operand(arg), limits)?;
            return Ok(lowered);
        }
        let narrowed = |operand: &Operand| operand.narrowed(limits.storage_buffer_alignment);
        let (inputs, input_rows): (Vec<_>, Vec<_>) = self.inputs.iter().map(narrowed).unzip();
        let (output, output_rows) = narrowed(&self.output);
        let mut lowered = uncut(op, &inputs, &output, limits)?;
        for dispatch in &mut lowered.dispatches {
            let of = |arg: Arg| match arg {
                Arg::Input(i) => input_rows[i].clone(),
                Arg::Output => output_rows.clone(),
                Arg::Scratch(_) | Arg::Extra(_) => None,
            };
            let rows = dispatch.args.iter().enumerate().filter_map(|(slot, &(arg, _))| Some((slot, of(arg)?)));
            dispatch.rows = rows.collect();
        }
        check_bound(&lowered, |arg| self.operand(arg), limits)?;
        Ok(lowered)
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
        let halves = (0..4).filter_map(|axis| self.halves(axis));
        // Of cuts that are as good, the one along the longest axis.
        let best = halves.min_by_key(|(axis, halves)| {
            let excess = halves.iter().map(Self::excess).max().unwrap_or(u64::MAX);
            (excess, u32::MAX - self.output.shape()[*axis])
        });
        let halved = best.as_ref().map(|(_, halves)| halves.iter().map(Self::excess).max().unwrap_or(u64::MAX));
        let excess = self.excess();
        if let Some((parts, left)) = self.parts().filter(|&(_, left)| halved.is_none_or(|halved| left < halved))
            && left < excess
        {
            return self.summed(parts);
        }
        let Some((_, halves)) = best.filter(|_| excess == 0 || halved < Some(excess)) else {
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
        let bytes: Vec<u64> = self.inputs.iter().chain([&self.output]).map(bytes).collect();
        let each: u64 = bytes.iter().map(|bytes| bytes.saturating_sub(max_storage_buffer_range)).sum();
        each + bytes.iter().sum::<u64>().saturating_sub(max_bound_bytes)
    }

    /// The op on the two halves of an axis of the output, where it knows no other index.
    fn halves(&self, axis: usize) -> Option<(usize, [Self; 2])> {
        let along = cut_along(self.op, axis, &self.inputs, &self.output)?;
        let extent = self.output.shape()[axis];
        // Halves, where its digits allow them; then what is left behind a larger unit.
        let [even, uneven] =
            [true, false].map(|even| UNITS.into_iter().filter(move |&unit| (unit <= extent / 2) == even));
        let at =
            even.chain(uneven).map(|unit| (extent / 2).next_multiple_of(unit)).filter(|at| (1..extent).contains(at));
        at.into_iter().find_map(|at| {
            let [first, last] = [0..at, at..extent].map(|range| self.range(&along, axis, &range));
            Some((axis, [first?, last?]))
        })
    }

    /// The op on a range of an axis of the output, and of axes of the inputs.
    fn range(&self, along: &[Option<usize>], axis: usize, range: &Range<u32>) -> Option<Self> {
        let inputs = self.inputs.iter().zip(along).map(|(input, axis)| match axis {
            Some(axis) => sliced(input, *axis, range),
            None => Some(input.clone()),
        });
        let output = sliced(&self.output, axis, range)?;
        Some(Self { inputs: inputs.collect::<Option<_>>()?, output, ..*self })
    }

    /// In how many parts a product's sum is best cut, and what is in excess then; nothing for other ops.
    fn parts(&self) -> Option<(u32, u64)> {
        let reduce = gemm::reduced_axis(self.op)?;
        let k = self.inputs[1].shape()[reduce];
        if self.output.shape()[3] > 1 {
            return None;
        }
        let Limits { max_storage_buffer_range, max_bound_bytes, .. } = *self.limits;
        let output = bytes_of(&self.output, &(0..self.output.rows().end));
        let most = max_storage_buffer_range.min(max_bound_bytes.saturating_sub(output));
        let excess = |parts: u32| {
            let len = part_len(k, parts);
            let part = self.part(reduce, &(0..len.min(k)))?;
            // The last dispatch has all sums. Where these are too many, a part is cut again and has sums of its own.
            let (sums, _) = self.sums(k.div_ceil(len)).ok()?;
            (parts == 1 || sums.layout.slots() * TEXEL_BYTES <= most).then(|| (parts, part.excess()))
        };
        let mut best = excess(1)?;
        for parts in (1..).map(|log| 1 << log).take_while(|&parts| parts <= MOST_PARTS.min(k)) {
            match excess(parts) {
                Some(next) if next.1 < best.1 => best = next,
                _ => break,
            }
        }
        Some(best)
    }

    /// Where so many parts leave their sums.
    fn sums(&self, parts: u32) -> Result<(Scratch, Operand), Refusal> {
        let [m, n, b2, _] = self.output.shape();
        gemm::part_sums([m, n, b2, parts], 4)
    }

    /// The product over a part of what it sums.
    fn part(&self, reduce: usize, range: &Range<u32>) -> Option<Self> {
        let inputs = self.inputs.iter().map(|input| sliced(input, reduce, range)).collect::<Option<_>>()?;
        Some(Self { inputs, ..self.clone() })
    }

    /// A product as the sum of parts.
    fn summed(&self, parts: u32) -> Result<Lowered, Refusal> {
        let Self { op, limits, .. } = *self;
        let axis = gemm::reduced_axis(op).unwrap_or_default();
        let k = self.inputs[1].shape()[axis];
        let len = part_len(k, parts);
        let ranges: Vec<_> = (0..k.div_ceil(len)).map(|i| i * len..((i + 1) * len).min(k)).collect();
        let (scratch, sums) = self.sums(ranges.len() as u32)?;
        let mut all = Stages { scratch: vec![scratch], ..Stages::default() };
        for (range, i) in ranges.iter().zip(0..) {
            let none = || Refusal(format!("{}: is not cut along axis {axis}", op.row().name));
            let part = self.part(axis, range).ok_or_else(none)?;
            let own = sliced(&sums, 3, &(i..i + 1)).ok_or_else(none)?;
            let lowered = Self { output: own, ..part }.in_pieces()?;
            all.add(lowered, |arg| if arg == Arg::Output { Arg::Scratch(0) } else { arg });
        }
        let (output, rows) = self.output.narrowed(limits.storage_buffer_alignment);
        let call = Call { inputs: std::slice::from_ref(&sums), output: &output, tail: None, limits };
        let mut sum = copy::repeat_back(call)?;
        for dispatch in &mut sum.dispatches {
            let output =
                |(slot, &(arg, _)): (usize, &(Arg, _))| Some((slot, (arg == Arg::Output).then(|| rows.clone())??));
            dispatch.rows = dispatch.args.iter().enumerate().filter_map(output).collect();
        }
        check_bound(&sum, |arg| Some(if arg == Arg::Output { &self.output } else { &sums }), limits)?;
        let last = all.stages.len();
        all.add_from(last, sum, |arg| if arg == Arg::Input(0) { Arg::Scratch(0) } else { arg });
        Ok(all.finish())
    }
}

/// Elements of a part, whole blocks of them.
fn part_len(k: u32, parts: u32) -> u32 {
    let len = k.div_ceil(parts);
    let unit = UNITS.into_iter().find(|&unit| unit <= len).unwrap_or(1);
    len.next_multiple_of(unit)
}

/// A range of an axis; the last one keeps the padding.
fn sliced(operand: &Operand, axis: usize, range: &Range<u32>) -> Option<Operand> {
    if operand.flat {
        return None;
    }
    let mut whole = operand.view.clone();
    let own = whole.axes.get_mut(axis)?;
    let len = range.end - range.start;
    let padding = if range.end == own.extent { own.padded - own.extent } else { 0 };
    own.extent += padding;
    let mut view = whole.slice(axis, range.start, len + padding).ok()?;
    view.axes[axis].extent = len;
    Some(Operand { view, ..*operand })
}

/// The op on these very operands.
fn uncut(op: &Op, inputs: &[Operand], output: &Operand, limits: &Limits) -> Result<Lowered, Refusal> {
    match turned::turned(op, inputs, output) {
        Some((op, inputs, output)) => by_family(&op, Call { inputs: &inputs, output: &output, tail: None, limits }),
        None => by_family(op, Call { inputs, output, tail: None, limits }),
    }
}

/// The axis of every operand that is cut with an axis of the output; `None` for those that are needed whole. Nothing for ops that
/// know where in the output they are, or that look elsewhere.
fn cut_along(op: &Op, axis: usize, inputs: &[Operand], output: &Operand) -> Option<Vec<Option<usize>>> {
    let whole: Shape = output.shape();
    // What is at the same index, or repeats from one element.
    let same = |input: &Operand, axis: usize, whole: u32| match input.shape()[axis] {
        1 if whole > 1 => Some(None),
        own => (own == whole).then_some(Some(axis)),
    };
    let along_with = |input: &Operand| same(input, axis, whole[axis]);
    match *op {
        Op::MulMat | Op::OutProd => {
            let side = if *op == Op::MulMat { 1 } else { 0 };
            match axis {
                0 => Some(vec![Some(side), None]),
                1 => Some(vec![None, Some(side)]),
                _ => inputs.iter().map(along_with).collect(),
            }
        }
        Op::Copy if inputs[0].shape() != whole => None,
        Op::Repeat | Op::Copy => inputs.iter().map(along_with).collect(),
        _ if op.row().family.is_by_element() => inputs.iter().map(along_with).collect(),
        Op::Sgd | Op::AdamW => {
            let (_, operands) = inputs.split_last()?;
            operands.iter().map(along_with).chain([Some(None)]).collect()
        }
        Op::RmsNorm { .. }
        | Op::RmsNormBack { .. }
        | Op::Norm { .. }
        | Op::L2Norm { .. }
        | Op::SoftMaxBack { .. }
        | Op::SumRows
        | Op::Mean
        | Op::CumSum
            if axis > 0 =>
        {
            inputs.iter().map(along_with).collect()
        }
        // Slopes and sinks belong to heads.
        Op::SoftMax { max_bias, sinks, .. } if axis > 0 && (axis != 2 || (max_bias <= 0.0 && !sinks)) => {
            inputs.iter().map(along_with).collect()
        }
        // Positions belong to axis 2.
        Op::Rope(_) if axis == 1 || axis == 3 => {
            let (first, rest) = inputs.split_first()?;
            [along_with(first)].into_iter().chain(rest.iter().map(|_| Some(None))).collect()
        }
        Op::GetRows if axis == 1 => Some(vec![None, Some(0)]),
        _ => None,
    }
}

/// Dispatches of pieces: those of a stage wait for the stage before, and not for each other.
#[derive(Default)]
struct Stages {
    stages: Vec<Vec<Dispatch>>,
    scratch: Vec<Scratch>,
}

impl Stages {
    /// Adds a piece, whose operands have these names in the whole.
    fn add(&mut self, piece: Lowered, name: impl Fn(Arg) -> Arg) {
        self.add_from(0, piece, name);
    }

    /// The same, from this stage on.
    fn add_from(&mut self, first: usize, piece: Lowered, name: impl Fn(Arg) -> Arg) {
        let before = self.scratch.len();
        let named = |arg| match arg {
            Arg::Scratch(i) => Arg::Scratch(before + i),
            arg => name(arg),
        };
        self.scratch.extend(piece.scratch);
        let mut stage = first;
        for (i, mut dispatch) in piece.dispatches.into_iter().enumerate() {
            stage += usize::from(i > 0 && !dispatch.beside);
            dispatch.args.iter_mut().for_each(|(arg, _)| *arg = named(*arg));
            self.stages.resize_with(self.stages.len().max(stage + 1), Vec::new);
            dispatch.beside = !self.stages[stage].is_empty();
            self.stages[stage].push(dispatch);
        }
    }

    fn finish(self) -> Lowered {
        Lowered { dispatches: self.stages.into_iter().flatten().collect(), scratch: self.scratch }
    }
}
