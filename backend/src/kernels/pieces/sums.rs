//! Ops cut along what they sum over: products along k, attention along the keys.

use std::ops::Range;

use super::super::{Arg, Call, Lowered, Operand, Refusal, Scratch, attention, copy, gemm};
use super::{Piece, Span, Stages, TEXEL_BYTES, UNITS, bytes_of, check_bound, sliced};
use crate::device::Limits;
use crate::graph::Op;

/// Most parts that a sum is cut into; what is still too large then is cut again.
const MOST_PARTS: u32 = 64;

/// The axis of every operand that an op sums over; nothing for ops that do not.
fn summed_axes(op: &Op) -> Option<Vec<Option<usize>>> {
    match op {
        Op::FlashAttn(attention) if attention.logs => None,
        Op::FlashAttn(attention) => {
            let mut axes = vec![None, Some(1), Some(1)];
            axes.extend(attention.mask.then_some(Some(0)));
            axes.extend(attention.sinks.then_some(None));
            Some(axes)
        }
        _ => gemm::reduced_axis(op).map(|axis| vec![Some(axis); 2]),
    }
}

/// Elements of a part, whole blocks of them.
fn part_len(k: u32, parts: u32) -> u32 {
    let len = k.div_ceil(parts);
    let unit = UNITS.into_iter().find(|&unit| unit <= len).unwrap_or(1);
    len.checked_next_multiple_of(unit).unwrap_or(len)
}

impl Piece<'_> {
    /// Elements that are summed, where parts of them can be.
    fn summed_over(&self) -> Option<u32> {
        let axes = summed_axes(&self.op)?;
        // Parts of a product have a place each on axis 3; those of an attention are not such that parts of them could be joined.
        let whole = match self.op {
            Op::FlashAttn(_) => !self.span.partial,
            _ => self.output.shape()[3] == 1,
        };
        let extent = axes.get(1).copied().flatten().map(|axis| self.inputs[1].shape()[axis]);
        extent.filter(|_| whole)
    }

    /// In how many parts a sum is best cut, and what is in excess then; nothing for ops that sum nothing.
    pub(super) fn parts(&self) -> Option<(u32, u64)> {
        let k = self.summed_over()?;
        let Limits { max_storage_buffer_range, max_bound_bytes, .. } = *self.limits;
        let output = bytes_of(&self.output, &(0..self.output.rows().end));
        let most = max_storage_buffer_range.min(max_bound_bytes.saturating_sub(output));
        let excess = |parts: u32| {
            let len = part_len(k, parts);
            let part = self.part(&(0..len.min(k)))?;
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

    /// Where so many parts leave their sums: one after the other along axis 3.
    fn sums(&self, parts: u32) -> Result<(Scratch, Operand), Refusal> {
        match self.op {
            Op::FlashAttn(_) => attention::part_sums(&self.inputs, parts),
            _ => {
                let [m, n, b2, _] = self.output.shape();
                gemm::part_sums([m, n, b2, parts], 4)
            }
        }
    }

    /// The op over a part of what it sums.
    fn part(&self, range: &Range<u32>) -> Option<Self> {
        let axes = summed_axes(&self.op)?;
        let inputs = self.inputs.iter().zip(axes).map(|(input, axis)| match axis {
            Some(axis) => sliced(input, axis, range),
            None => Some(input.clone()),
        });
        let span = Span { partial: matches!(self.op, Op::FlashAttn(_)), ..self.span };
        Some(Self { inputs: inputs.collect::<Option<_>>()?, span, ..self.clone() })
    }

    /// The op as the sum of parts.
    pub(super) fn summed(&self, parts: u32) -> Result<Lowered, Refusal> {
        let none = || Refusal(format!("{}: is not cut along what it sums", self.op.row().name));
        let k = self.summed_over().ok_or_else(none)?;
        let len = part_len(k, parts);
        let ranges: Vec<_> = (0..k.div_ceil(len)).map(|i| i * len..(i * len).saturating_add(len).min(k)).collect();
        let parts = ranges.len() as u32;
        let (scratch, sums) = self.sums(parts)?;
        let batches = self.output.shape()[3];
        let mut all = Stages::over(vec![scratch]);
        for (range, i) in ranges.iter().zip(0..) {
            let part = self.part(range).ok_or_else(none)?;
            let own = sliced(&sums, 3, &(i * batches..(i + 1) * batches)).ok_or_else(none)?;
            let lowered = Self { output: own, ..part }.in_pieces()?;
            all.add(lowered, |arg| if arg == Arg::Output { Arg::Scratch(0) } else { arg });
        }
        let behind = Arg::Input(self.inputs.len());
        let joined = self.joined(behind, &sums, parts)?;
        let last = all.count();
        all.add_from(last, joined, |arg| if arg == behind { Arg::Scratch(0) } else { arg });
        Ok(all.finish())
    }

    /// The dispatch that makes the result of the sums, which it calls `arg`.
    fn joined(&self, arg: Arg, sums: &Operand, parts: u32) -> Result<Lowered, Refusal> {
        let Self { ref inputs, span, limits, .. } = *self;
        let (output, rows) = self.output.narrowed(limits.storage_buffer_alignment);
        let call = |inputs| Call { inputs, output: &output, tail: None, span, limits };
        let mut joined = match self.op {
            Op::FlashAttn(ref attention) => attention::join(&call(inputs), attention, (arg, sums), parts)?.into(),
            _ => {
                let mut added = copy::repeat_back(call(std::slice::from_ref(sums)))?;
                added.rename(|_| arg);
                added
            }
        };
        for dispatch in &mut joined.dispatches {
            let output =
                |(slot, &(arg, _)): (usize, &(Arg, _))| Some((slot, (arg == Arg::Output).then(|| rows.clone())??));
            dispatch.rows = dispatch.args.iter().enumerate().filter_map(output).collect();
        }
        check_bound(&joined, |of| if of == arg { Some(sums) } else { self.operand(of) }, limits)?;
        Ok(joined)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DType;
    use crate::kernels::StorageKind;
    use crate::layout::Layout;

    #[test]
    fn parts_are_whole_blocks_as_far_as_32_bits_count() {
        assert_eq!([part_len(1000, 3), part_len(10, 4), part_len(1, 1)], [512, 3, 1]);
        assert_eq!([part_len(u32::MAX, 1), part_len(u32::MAX, 2)], [u32::MAX, 1 << 31]);
    }

    #[test]
    fn sums_of_vast_parts_are_refused() {
        let row = Layout::rtile(&[4, 1, 1, 1], 4, 1, 1, 1, 1).unwrap();
        let batches = |n| row.view().repeat_each(3, n).unwrap();
        let operand =
            |n| Operand { dtype: DType::F32, view: batches(n), flat: false, storage: StorageKind::Buffer, pitch: 1 };
        let vast = [operand(1 << 28), operand(1), operand(1)];
        let refusal = attention::part_sums(&vast, 64).unwrap_err().to_string();
        assert!(refusal.ends_with("sums of 64 parts exceed 32 bits"), "{refusal}");
    }
}
