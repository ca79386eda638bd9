//! Ops that are cut as other ops on windows: what writes a part of a tensor as what it does to that part, what puts tensors side by side as a
//! copy of each, copies to another shape as copies of a view of that shape, sums of all as sums of rows and theirs.

use super::super::{Arg, Call, Lowered, Refusal, copy, inset, loss, reduce};
use super::{Piece, Span, Stages, check_bound, sliced};
use crate::graph::{Binary, DType, Inset, Op, linear_strides, rows};

impl Piece<'_> {
    /// Lowers the op as others, in as many pieces as these take; nothing for ops that are cut themselves.
    pub(super) fn as_others(&self) -> Option<Result<Lowered, Refusal>> {
        match self.op {
            Op::Set(_) | Op::Acc(_) | Op::SetRows(_) => self.to_window().map(|window| window.in_pieces()),
            Op::Copy => self.reshaped().map(|copy| copy.in_pieces()),
            Op::Concat { axis } => self.side_by_side(axis as usize).map(|copies| {
                let mut all = Stages::default();
                for copy in &copies {
                    all.add(copy.in_pieces()?, |arg| arg);
                }
                Ok(all.finish())
            }),
            Op::Sum | Op::CountEqual | Op::CrossEntropyLoss => Some(self.by_rows()),
            _ => None,
        }
    }

    /// What is done to a part that is whole texels, to these alone.
    fn to_window(&self) -> Option<Self> {
        let (Op::Set(inset) | Op::Acc(inset) | Op::SetRows(inset)) = self.op else { return None };
        let window = inset::window(&self.output, inset)?;
        let span = Span::all(&window);
        let [base, part, ..] = [0, 1].map(Arg::Input);
        let (op, inputs, names) = match self.op {
            Op::Set(_) => (Op::Copy, vec![self.inputs[1].clone()], vec![part]),
            Op::Acc(_) => {
                (Op::Binary(Binary::Add), vec![window.clone(), self.inputs[1].clone()], vec![Arg::Output, part])
            }
            _ => {
                let shape = window.shape();
                let strides = linear_strides(&shape).map(|stride| u32::try_from(stride).unwrap_or(u32::MAX));
                let inputs = [std::slice::from_ref(&window), &self.inputs[1..]].concat();
                (Op::SetRows(Inset { shape, strides, offset: 0 }), inputs, vec![base, part, Arg::Input(2)])
            }
        };
        Some(Self { op, inputs, names, output: window, span, ..*self })
    }

    /// A copy to another shape as one of a view of that shape.
    fn reshaped(&self) -> Option<Self> {
        let moved = self.inputs[0].shape() != self.output.shape();
        let input = copy::in_shape_of(&self.inputs[0], &self.output).filter(|_| moved)?;
        Some(Self { inputs: vec![input], names: self.names.clone(), output: self.output.clone(), ..*self })
    }

    /// A copy of each operand to its own place.
    fn side_by_side(&self, axis: usize) -> Option<Vec<Self>> {
        let mut end = 0;
        let copies = self.inputs.iter().zip(&self.names).map(|(input, &name)| {
            let start = end;
            end += input.shape()[axis];
            let output = sliced(&self.output, axis, &(start..end))?;
            let writable = output.dtype.is_quantized() || output.check_writable(Arg::Output).is_ok();
            let span = Span::all(&output);
            writable.then(|| Self {
                op: Op::Copy,
                inputs: vec![input.clone()],
                names: vec![name],
                output,
                span,
                ..*self
            })
        });
        copies.collect()
    }

    /// A value for every row, then the sum of these.
    fn by_rows(&self) -> Result<Lowered, Refusal> {
        let Self { op, ref inputs, ref output, limits, left, .. } = *self;
        let (dtype, values) = match op {
            Op::CountEqual => (DType::I32, 1),
            Op::Sum => (DType::F32, reduce::PAIR),
            _ => (DType::F32, 1),
        };
        let (scratch, partials) = reduce::partials(dtype, values, &inputs[0])?;
        let span = Span { partial: true, ..Span::all(&partials) };
        let (inputs_of_rows, names) = (inputs.clone(), self.names.clone());
        let of_rows = Self { op, output: partials.clone(), span, inputs: inputs_of_rows, names, limits, left };
        let mut all = Stages::over(vec![scratch]);
        all.add(of_rows.in_pieces()?, |arg| if arg == Arg::Output { Arg::Scratch(0) } else { arg });

        let behind = Arg::Input(inputs.len());
        let call = Call { inputs, output, tail: None, span: self.span, limits };
        let count = rows(&inputs[0].shape());
        let total: Lowered = match op {
            Op::Sum => reduce::sum_total(&call, behind, values, count, 1.0),
            Op::CountEqual => reduce::count_total(&call, behind, count),
            _ => loss::cross_entropy_total(&call, behind, count),
        }?
        .into();
        let operand = |arg| if arg == behind { Some(&partials) } else { self.operand(arg) };
        check_bound(&total, operand, limits)?;
        let last = all.count();
        all.add_from(last, total, |arg| if arg == behind { Arg::Scratch(0) } else { arg });
        Ok(all.finish())
    }
}
