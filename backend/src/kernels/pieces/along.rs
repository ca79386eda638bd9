//! Which axes of its result an op treats by themselves, and what of its operands each range of such an axis needs: a row of data for every
//! operand.

use std::ops::Range;

use super::super::Arg;
use crate::graph::{Op, Shape};

/// What of an operand goes with a range of an axis of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum With {
    /// The op does not treat this axis of the result by itself.
    No,
    /// All of the operand.
    All,
    /// The same range of this axis; all of it, where that is one element that all share.
    Same(usize),
    /// Neighbours share the elements of this axis, each as many.
    Shared(usize),
    /// So many groups of neighbours on both axes.
    Groups(usize, u32),
    /// The elements of this axis in turns.
    Turns(usize),
    /// Of a vector of four rows, one after the other, the range of each.
    FourTimes,
}

use With::{All, FourTimes, Groups, No, Same, Shared, Turns};

/// What a range needs of an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Need {
    /// All of it.
    All,
    /// A range of an axis.
    Range(usize, Range<u32>),
    /// Of a vector of four rows of so many elements, the range of each.
    FourTimes(u32, Range<u32>),
}

impl With {
    /// What an operand of this shape gives to a range of the `n` elements of the result's axis; nothing where it is no range of its own.
    pub(super) fn need(self, shape: &Shape, n: u32, range: &Range<u32>) -> Option<Need> {
        let whole_groups = |n: u32| range.start.is_multiple_of(n) && range.end.is_multiple_of(n);
        match self {
            No => None,
            All => Some(Need::All),
            Same(axis) => match shape[axis] {
                1 if n > 1 => Some(Need::All),
                own => (own >= n).then(|| Need::Range(axis, range.clone())),
            },
            Shared(axis) => Groups(axis, shape[axis]).need(shape, n, range),
            Groups(axis, groups) => {
                let [of_result, own] = [n, shape[axis]].map(|extent| extent / groups);
                let [first, last] = [range.start / of_result, (range.end - 1) / of_result];
                let inside = own == 1 && first == last;
                (inside || whole_groups(of_result)).then(|| Need::Range(axis, first * own..(last + 1) * own))
            }
            Turns(axis) => {
                let own = shape[axis];
                let first = range.start % own;
                let last = first + (range.end - range.start);
                match whole_groups(own) {
                    true => Some(Need::All),
                    false => (last <= own).then_some(Need::Range(axis, first..last)),
                }
            }
            FourTimes => Some(Need::FourTimes(n, range.clone())),
        }
    }

    /// Elements of the result's axis that are best left together.
    pub(super) fn unit(self, shape: &Shape, n: u32) -> u32 {
        match self {
            Shared(axis) => n / shape[axis],
            Groups(_, groups) => n / groups,
            Turns(axis) => shape[axis] % n,
            No | All | Same(_) | FourTimes => 0,
        }
        .max(1)
    }
}

/// For each axis of the result, what of an operand.
type Row = [With; 4];

const SAME: Row = [Same(0), Same(1), Same(2), Same(3)];
const TURNS: Row = [Turns(0), Turns(1), Turns(2), Turns(3)];
/// Whole rows, whole planes, whole boxes.
const ROWS: Row = [No, Same(1), Same(2), Same(3)];
const PLANES: Row = [No, No, Same(2), Same(3)];
const BOXES: Row = [No, No, No, Same(3)];
const ALL: Row = [All; 4];

/// What of every operand goes with a range of an axis of the result. Nothing for axes that the op does not treat by themselves.
pub(super) fn along(op: &Op, axis: usize, inputs: &[Shape], output: &Shape) -> Option<Vec<With>> {
    let rows = rows(op, inputs, output)?;
    let along: Vec<With> = rows.iter().map(|row| row[axis]).collect();
    (!along.contains(&No)).then_some(along)
}

/// A row for every operand; nothing for ops that are not cut along any axis.
fn rows(op: &Op, inputs: &[Shape], output: &Shape) -> Option<Vec<Row>> {
    let each = |row: Row| vec![row; inputs.len()];
    let first = |row: Row, rest: Row| (0..inputs.len()).map(|i| if i == 0 { row } else { rest }).collect();
    let last = |row: Row, rest: Row| (0..inputs.len()).map(|i| if i + 1 < inputs.len() { row } else { rest }).collect();
    let unmoved = |is_unmoved: &dyn Fn(usize) -> bool| {
        vec![std::array::from_fn(|axis| if is_unmoved(axis) { Same(axis) } else { No })]
    };
    Some(match *op {
        Op::MulMat => vec![[Same(1), All, Shared(2), Shared(3)], [All, Same(1), Shared(2), Shared(3)]],
        Op::OutProd => vec![[Same(0), All, Shared(2), Shared(3)], [All, Same(0), Shared(2), Shared(3)]],
        // Operands a, b, ids: rows of every matrix.
        Op::MulMatId => vec![[Same(1), All, All, No], [All, Turns(1), Same(2), No], [All, Same(0), Same(1), No]],
        // The result's axes are heads, then queries.
        Op::FlashAttn(ref attention) => {
            let keys = [No, Shared(2), All, Shared(3)];
            let mut rows = vec![[No, Same(2), Same(1), Same(3)], keys, keys];
            rows.extend(attention.mask.then_some([No, Turns(2), Same(1), Turns(3)]));
            rows.extend(attention.sinks.then_some([No, Same(0), All, All]));
            if attention.logs {
                // These lie behind all heads.
                rows.iter_mut().for_each(|row| row[1] = No);
            }
            rows
        }
        Op::Copy if inputs[0] != *output => return None,
        Op::Copy => each(SAME),
        Op::Repeat => each(TURNS),
        _ if op.row().family.is_by_element() => each(TURNS),
        Op::Sgd | Op::AdamW => last(SAME, ALL),
        Op::RmsNorm { .. }
        | Op::RmsNormBack { .. }
        | Op::Norm { .. }
        | Op::L2Norm { .. }
        | Op::SoftMaxBack { .. }
        | Op::SumRows
        | Op::Mean
        | Op::CumSum
        | Op::ArgSort { .. }
        | Op::TopK
        | Op::PadReflect { .. }
        | Op::Pool1d(_) => each(ROWS),
        Op::CrossEntropyLossBack => first(ALL, ROWS),
        Op::SoftMax { sinks, .. } => {
            let mut rows = vec![ROWS];
            rows.extend((inputs.len() > 1 + usize::from(sinks)).then_some([No, Same(1), Turns(2), Turns(3)]));
            rows.extend(sinks.then_some([No, All, Same(0), All]));
            rows
        }
        Op::ArgMax => vec![[Same(1), No, No, No]],
        // Where they leave a value of every row.
        Op::CrossEntropyLoss | Op::CountEqual | Op::Sum => each(ROWS),
        Op::GroupNorm { .. } => each(BOXES),
        // A position for every index of axis 2, in modes with sections four of them.
        Op::Rope(ref rope) => {
            let position = if rope.mode.has_sections() { FourTimes } else { Same(0) };
            let mut rows = vec![ROWS, [No, All, position, All], ALL];
            rows.truncate(inputs.len());
            rows
        }
        Op::RepeatBack => unmoved(&|axis| inputs[0][axis] == output[axis]),
        Op::Pad { .. } | Op::PadCircular { .. } => unmoved(&|axis| inputs[0][axis] == output[axis]),
        Op::Roll { shift } => unmoved(&|axis| shift[axis] == 0),
        Op::Upscale { .. } => {
            let shared = |axis: usize| if output[axis].is_multiple_of(inputs[0][axis]) { Shared(axis) } else { No };
            vec![[No, No, shared(2), shared(3)]]
        }
        Op::Diag | Op::DiagMaskInf { .. } | Op::DiagMaskZero { .. } | Op::Tri(_) => each(SAME),
        Op::Fill { .. } => Vec::new(),
        Op::TimestepEmbedding { .. } => vec![[No, Same(0), No, No]],
        Op::SetRows(_) => {
            vec![[Same(0), No, Same(2), Same(3)], [Same(0), No, Same(2), Same(3)], [All, No, Turns(1), Turns(2)]]
        }
        Op::GetRows => vec![[Same(0), All, Same(2), Same(3)], [All, Same(0), Same(1), Same(2)]],
        Op::GetRowsBack => vec![[Same(0), All, No, No], ALL],
        Op::AddId => vec![SAME, [Same(0), All, All, All], [All, Same(0), Same(1), Same(2)]],
        // Operands kernel, of which only the extents matter, and image.
        Op::Im2Col { plane: true, .. } => vec![ALL, [No, All, All, Same(3)]],
        Op::Im2Col { plane: false, .. } => vec![ALL, [No, All, Same(2), No]],
        Op::Im2Col3d { channels, .. } => vec![ALL, [No, All, All, Groups(3, inputs[1][3] / channels)]],
        Op::Im2ColBack { plane, .. } => vec![if plane { BOXES } else { PLANES }, ALL],
        Op::Conv2d(_) => vec![[No, All, Same(3), All], [No, All, All, Same(3)]],
        Op::Conv2dDw(_) => vec![[No, All, Same(3), All], [No, All, Same(2), Same(3)]],
        Op::Conv3d { channels, .. } => vec![[No, All, All, All], [No, All, All, Groups(3, inputs[1][3] / channels)]],
        Op::ConvTranspose1d { .. } => vec![[No, Same(1), No, No], ALL],
        Op::ConvTranspose2d { .. } => vec![[No, No, Same(2), All], [No, No, All, Same(3)]],
        Op::Pool2d(_) | Op::Pool2dBack(_) => each(PLANES),
        Op::SsmConv => vec![[Same(1), No, Same(2), No], [Same(1), All, All, All]],
        Op::SolveTri => vec![[All, No, Same(2), Same(3)], [Same(0), No, Same(2), Same(3)]],
        // Operands q, k, weights, mask.
        Op::LightningIndexer => vec![
            [All, Same(2), No, Same(3)],
            [Same(2), All, No, Same(3)],
            [All, Same(1), No, Same(3)],
            [Same(0), Same(1), No, Turns(3)],
        ],
        Op::Dsv4HcComb { .. } => vec![[No, No, Same(1), No], ALL, ALL],
        Op::Dsv4HcPre { gated, .. } => {
            vec![
                [Same(0), Same(2), No, No],
                [if gated { Same(0) } else { All }, if gated { Same(2) } else { Same(1) }, No, No],
            ]
        }
        Op::Dsv4HcPost => {
            let rows = [
                [Same(0), No, Same(1), No],
                [Same(0), No, Same(2), No],
                [All, No, Same(1), No],
                [All, No, Same(2), No],
            ];
            rows[..inputs.len()].to_vec()
        }
        _ => return None,
    })
}

/// The axis along which ids pick, of an operand or of the result: a range of it is all that is touched by the elements whose ids are in it.
pub(super) fn picked(op: &Op) -> Option<(Arg, usize)> {
    match op {
        Op::GetRows => Some((Arg::Input(0), 1)),
        Op::MulMatId => Some((Arg::Input(0), 2)),
        Op::SetRows(_) => Some((Arg::Output, 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_shared_elements_keep_them_whole_or_lie_within_one() {
        let shape = [1, 1, 3, 1];
        let need = |range| Shared(2).need(&shape, 12, &range);
        assert_eq!(need(4..12), Some(Need::Range(2, 1..3)));
        assert_eq!(need(5..7), Some(Need::Range(2, 1..2)));
        assert_eq!(need(3..5), None);
        assert_eq!(Shared(2).unit(&shape, 12), 4);
        // Three images of two channels each, to five outputs each.
        assert_eq!(Groups(3, 3).need(&[1, 1, 1, 6], 15, &(5..15)), Some(Need::Range(3, 2..6)));
        assert_eq!(Groups(3, 3).need(&[1, 1, 1, 6], 15, &(5..14)), None);
    }

    #[test]
    fn ranges_of_turns_are_whole_turns_or_lie_within_one() {
        let need = |range| Turns(0).need(&[4, 1, 1, 1], 12, &range);
        assert_eq!(need(4..12), Some(Need::All));
        assert_eq!(need(5..7), Some(Need::Range(0, 1..3)));
        assert_eq!(need(3..5), None);
        assert_eq!(Turns(0).need(&[1, 1, 1, 1], 12, &(5..7)), Some(Need::All));
        assert_eq!((Turns(0).unit(&[4, 1, 1, 1], 12), Turns(0).unit(&[12, 1, 1, 1], 12)), (4, 1));
    }

    #[test]
    fn what_is_one_element_is_needed_whole() {
        assert_eq!(Same(1).need(&[7, 1, 1, 1], 9, &(3..5)), Some(Need::All));
        assert_eq!(Same(1).need(&[7, 9, 1, 1], 9, &(3..5)), Some(Need::Range(1, 3..5)));
        assert_eq!(Same(1).need(&[7, 4, 1, 1], 9, &(3..5)), None);
    }
}
