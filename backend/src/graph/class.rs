//! Operator classes, derived from gradient rules and access patterns.
//!
//! An operator is forward-tensor dependent (FTD) if its backward pass reads a tensor of its forward pass, else independent (FTI).
//! It is divergent (D) if the backward pass takes elements together along other axes than the forward pass, or finds them at
//! another index; else consistent (C). What is compared is each forward tensor that the backward pass reads; where it reads none,
//! each operand with the output's gradient, which the backward pass reads in its place.

use super::access::Axes;
use super::{Access, Desc, Graph, GraphError, Node, Op, Operand, Shape, ValueId, elements, linear_strides};

/// Class of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// FTD: the backward pass reads a forward tensor.
    pub dependent: bool,
    /// D: it is read along other axes, or at other indices, than forward.
    pub divergent: bool,
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (dependent, divergent) =
            (if self.dependent { "FTD" } else { "FTI" }, if self.divergent { "D" } else { "C" });
        write!(f, "{dependent}-{divergent}")
    }
}

impl Op {
    /// Class of the op on whole operands, when every operand that has a gradient is given one.
    ///
    /// # Errors
    /// The operands break the op's shape rule.
    pub fn class(&self, inputs: &[Desc], output: Desc) -> Result<Class, GraphError> {
        let mut graph = Graph::new();
        let ids: Vec<ValueId> =
            inputs.iter().enumerate().map(|(i, d)| graph.external(format!("operand {i}"), d.dtype, d.shape)).collect();
        let operands = ids.iter().map(|&id| graph.whole(id)).collect();
        let (name, updated) = (self.row().name, self.row().updates.first().and_then(|&i| ids.get(i)));
        let output = match updated {
            Some(&updated) => {
                graph.node_into(name, *self, operands, updated);
                updated
            }
            None => graph.node_as(name, *self, operands, output)?,
        };
        graph.verify()?;
        Class::of(&graph, output, &ids)
    }
}

impl Class {
    /// Class of all nodes of a graph as one operator with this output, windows included, when those of `operands` that have a
    /// gradient are given one.
    ///
    /// # Errors
    /// An operand that has a gradient by itself breaks a rule of [`Graph::backward`] together with the others.
    pub fn of(graph: &Graph, output: ValueId, operands: &[ValueId]) -> Result<Self, GraphError> {
        let has_gradient = |id: &ValueId| graph.clone().backward(output, &[*id]).is_ok();
        let wanted: Vec<ValueId> = operands.iter().copied().filter(has_gradient).collect();
        let mut backward = graph.clone();
        let seed = backward.backward(output, &wanted)?.seed;
        let computed = graph.nodes.iter().map(|n| n.output);
        // Data such as positions and labels is no forward tensor: nothing flows back to it.
        let tensors: Vec<ValueId> = graph.ids().filter(has_gradient).chain(computed).collect();

        let added = &backward.nodes[graph.nodes.len()..];
        let read = |id: &ValueId| added.iter().any(|n| n.inputs.iter().any(|i| i.value == *id));
        let (before, after) = (patterns(graph, &graph.nodes), patterns(&backward, added));
        let differ = |a: &Pattern, b: &Pattern| a != b || a.elsewhere;
        let saved: Vec<ValueId> = tensors.into_iter().filter(read).collect();
        let divergent = match saved.is_empty() {
            true => wanted.iter().any(|id| differ(&before[id.index()], &after[seed.index()])),
            false => saved.iter().any(|id| differ(&before[id.index()], &after[id.index()])),
        };
        Ok(Self { dependent: !saved.is_empty(), divergent })
    }
}

/// How a value is read or written by some nodes, and by what becomes of it in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Pattern {
    along: Axes,
    elsewhere: bool,
}

impl Pattern {
    fn join(&mut self, other: Self) {
        self.along = self.along.union(other.along);
        self.elsewhere |= other.elsewhere;
    }
}

/// The pattern of each value. An element read at its own index goes on in the result: how that is read counts too.
fn patterns(graph: &Graph, nodes: &[Node]) -> Vec<Pattern> {
    let mut found = vec![Pattern::default(); graph.values.len()];
    for node in nodes.iter().rev() {
        let shapes: Vec<Shape> = node.inputs.iter().map(|i| i.shape).collect();
        let mut accesses = node.op.accesses(&shapes, &graph.values[node.output.index()].shape);
        if let Some(Access::Along(along)) = accesses.pop() {
            found[node.output.index()].join(Pattern { along, elsewhere: false });
        }
        let result = found[node.output.index()];
        for (operand, access) in node.inputs.iter().zip(accesses) {
            let value = graph.values[operand.value.index()].shape;
            let pattern = match access {
                Access::Own => Pattern {
                    along: through(operand, &value, result.along),
                    elsewhere: result.elsewhere || !operand.is_whole(&value),
                },
                Access::Along(axes) => Pattern { along: through(operand, &value, axes), elsewhere: false },
                Access::Elsewhere => Pattern { along: Axes::default(), elsewhere: true },
            };
            found[operand.value.index()].join(pattern);
        }
    }
    found
}

/// The axes of a value that axes of a window over it run through.
pub(crate) fn through(window: &Operand, value: &Shape, axes: Axes) -> Axes {
    let first = linear_strides(value);
    let beyond = |b: usize| if b == 3 { elements(value) } else { first[b + 1] };
    let crosses = |a: usize, b: usize| {
        let (step, reach) = (window.strides[a], window.strides[a] * (u64::from(window.shape[a]) - 1));
        axes.contains(a) && reach > 0 && value[b] > 1 && step < beyond(b) && reach >= first[b]
    };
    Axes::of(|b| (0..4).any(|a| crosses(a, b)))
}

#[cfg(test)]
mod tests {
    use super::super::{
        Binary, DType, FlashAttn, Gate, Inset, Pool, PoolKind, ROWS, Rope, RopeMode, Row, Sampling, Triangle, Unary,
        Window,
    };
    use super::*;

    const ADD: Op = Op::Binary(Binary::Add);
    const MUL: Op = Op::Binary(Binary::Mul);
    const ATTENTION: FlashAttn =
        FlashAttn { scale: 0.5, max_bias: 0.0, softcap: 0.0, mask: false, sinks: false, logs: false };
    const ROPE: Rope = Rope::plain(RopeMode::Neox, 8, 64, 1e4);

    /// Every op with operands, their output, and the class that the theory gives it.
    fn table() -> Vec<(Op, Vec<Desc>, Desc, &'static str)> {
        let x = Desc::f32([8, 6, 4, 1]);
        let matrix = |n0, n1| Desc::f32([n0, n1, 1, 1]);
        let ids2 = |n0, n1| Desc { dtype: DType::I32, shape: [n0, n1, 1, 1] };
        let ids = |n| Desc { dtype: DType::I32, shape: [n, 1, 1, 1] };
        let weight = Desc { dtype: DType::Q8_0, shape: [32, 5, 1, 1] };
        let (window, kernel) = (Window::PLAIN, Desc::f32([2, 2, 4, 3]));
        let pool = Pool { kind: PoolKind::Max, extent: [2, 1], stride: [2, 1], pad: [0; 2] };
        let inset = Inset { shape: [4, 2, 1, 1], strides: [2, 16, 48, 48], offset: 9 };
        let mut table = vec![
            (Op::MulMat, vec![matrix(8, 5), x], Desc::f32([5, 6, 4, 1]), "FTD-D"),
            (Op::MulMat, vec![weight, matrix(32, 3)], matrix(5, 3), "FTD-D"),
            (Op::OutProd, vec![matrix(5, 6), x], Desc::f32([5, 8, 4, 1]), "FTD-D"),
            (Op::FlashAttn(ATTENTION), vec![x, matrix(8, 3), matrix(8, 3)], Desc::f32([8, 4, 6, 1]), "FTD-D"),
            (
                Op::MulMatId,
                vec![Desc::f32([8, 5, 3, 1]), Desc::f32([8, 1, 4, 1]), ids2(2, 4)],
                Desc::f32([5, 2, 4, 1]),
                "FTI-C",
            ),
            (ADD, vec![x, x], x, "FTI-C"),
            (Op::Binary(Binary::Sub), vec![x, x], x, "FTI-C"),
            (MUL, vec![x, x], x, "FTD-C"),
            (Op::Binary(Binary::Div), vec![x, x], x, "FTD-C"),
            // The gradient of an operand that repeats is a sum over its repeats.
            (ADD, vec![x, matrix(8, 1)], x, "FTI-D"),
            (MUL, vec![x, matrix(8, 1)], x, "FTD-D"),
            (Op::Scale { scale: 2.0, bias: 1.0 }, vec![x], x, "FTI-C"),
            (Op::Unary(Unary::Neg), vec![x], x, "FTI-C"),
            (Op::SwiGlu, vec![x, x], x, "FTD-C"),
            (Op::GeGlu, vec![x, x], x, "FTD-C"),
            // One row's gradient needs that row again, along the same axis.
            (Op::RmsNorm { eps: 1e-5 }, vec![x], x, "FTD-C"),
            (Op::soft_max(1.0), vec![x, matrix(8, 6)], x, "FTD-C"),
            (Op::Rope(ROPE), vec![x, ids(4), matrix(4, 1)], x, "FTI-C"),
            (Op::Rope(Rope { back: true, ..ROPE }), vec![x, ids(4)], x, "FTI-C"),
            (Op::Repeat, vec![x], Desc::f32([8, 6, 8, 1]), "FTI-D"),
            (Op::RepeatBack, vec![x], Desc::f32([8, 6, 2, 1]), "FTI-D"),
            (Op::Copy, vec![x], Desc { dtype: DType::F16, ..x }, "FTI-C"),
            (Op::Copy, vec![x], matrix(48, 4), "FTI-D"),
            (Op::Pad { before: [0, 1, 0, 0] }, vec![x], Desc::f32([8, 7, 4, 1]), "FTI-D"),
            (Op::Set(inset), vec![matrix(8, 6), matrix(4, 2)], matrix(8, 6), "FTI-D"),
            (Op::Acc(inset), vec![matrix(8, 6), matrix(4, 2)], matrix(8, 6), "FTI-D"),
            (Op::GetRows, vec![matrix(8, 6), ids(3)], matrix(8, 3), "FTI-D"),
            (Op::GetRowsBack, vec![matrix(8, 3), ids(3)], matrix(8, 6), "FTI-D"),
            (Op::CrossEntropyLoss, vec![matrix(8, 6), matrix(8, 6)], matrix(1, 1), "FTD-D"),
            (Op::CrossEntropyLossBack, vec![matrix(1, 1), x, x], x, "FTI-C"),
            (Op::SiluBack, vec![x, x], x, "FTI-C"),
            (Op::GeluBack, vec![x, x], x, "FTI-C"),
            (Op::TanhBack, vec![x, x], x, "FTI-C"),
            (Op::RmsNormBack { eps: 1e-5 }, vec![x, x], x, "FTI-C"),
            (Op::SoftMaxBack { scale: 1.0 }, vec![x, x], x, "FTI-C"),
            (Op::ArgMax, vec![matrix(8, 6)], Desc { dtype: DType::I32, shape: [6, 1, 1, 1] }, "FTI-C"),
            (Op::AdamW, vec![x, x, x, x, matrix(7, 1)], x, "FTI-C"),
            (Op::Im2Col { window, plane: true }, vec![kernel, x], Desc::f32([16, 7, 5, 1]), "FTI-D"),
            // The input is read again, for where the maxima are.
            (Op::Pool2d(pool), vec![x], Desc::f32([4, 6, 4, 1]), "FTD-D"),
            (Op::Sgd, vec![x, x, matrix(2, 1)], x, "FTI-C"),
            (Op::Sum, vec![x], matrix(1, 1), "FTI-D"),
            (Op::CountEqual, vec![ids(5), ids(5)], Desc { dtype: DType::I64, shape: [1; 4] }, "FTI-C"),
            (Op::SumRows, vec![x], Desc::f32([1, 6, 4, 1]), "FTI-D"),
            (Op::Mean, vec![x], Desc::f32([1, 6, 4, 1]), "FTI-D"),
            (Op::CumSum, vec![x], x, "FTI-C"),
            (Op::Norm { eps: 1e-5 }, vec![x], x, "FTD-C"),
            (Op::GroupNorm { groups: 2, eps: 1e-5 }, vec![x], x, "FTI-C"),
            (Op::L2Norm { eps: 1e-5 }, vec![x], x, "FTI-C"),
            (Op::AddId, vec![x, matrix(8, 5), ids2(6, 4)], x, "FTI-C"),
            (Op::ArgSort { descending: false }, vec![x], Desc { dtype: DType::I32, ..x }, "FTI-C"),
            (Op::TopK, vec![x], Desc { dtype: DType::I32, shape: [3, 6, 4, 1] }, "FTI-C"),
        ];
        for unary in [Unary::Silu, Unary::Sqr, Unary::Sqrt, Unary::Tanh, Unary::Gelu] {
            table.push((Op::Unary(unary), vec![x], x, "FTD-C"));
        }
        let bounds = Unary::Clamp { min: -1.0, max: 1.0 };
        let dependent =
            [Unary::Abs, Unary::Relu, Unary::Sigmoid, Unary::Exp, Unary::Expm1, Unary::Softplus, Unary::Log];
        for unary in dependent.into_iter().chain([Unary::Sin, Unary::Cos, bounds, Unary::LeakyRelu { slope: 0.1 }]) {
            table.push((Op::Unary(unary), vec![x], x, "FTD-C"));
        }
        // Without a gradient, or with one that is zero.
        let xielu = Unary::XIelu { alpha_n: 1.0, alpha_p: 1.0, beta: 0.5, eps: 0.0 };
        let steps = [Unary::Sgn, Unary::Step, Unary::Floor, Unary::Ceil, Unary::Round, Unary::Trunc];
        let curves = [Unary::Elu, Unary::GeluQuick, Unary::HardSwish, Unary::HardSigmoid, Unary::GeluErf, xielu];
        for unary in steps.into_iter().chain(curves) {
            table.push((Op::Unary(unary), vec![x], x, "FTI-C"));
        }
        table.push((Op::Gated(Gate::ReGlu), vec![x, x], x, "FTD-C"));
        let (square, taller) = (Desc::f32([6, 6, 4, 1]), Desc::f32([8, 6, 8, 1]));
        let padded = Desc::f32([10, 6, 4, 1]);
        table.extend([
            (Op::Concat { axis: 2 }, vec![x, x], taller, "FTI-D"),
            (Op::Roll { shift: [1, 0, -2, 0] }, vec![x], x, "FTI-D"),
            (Op::DiagMaskInf { past: 1 }, vec![x], x, "FTI-C"),
            (Op::DiagMaskZero { past: 1 }, vec![x], x, "FTI-C"),
            (Op::Tri(Triangle::Upper), vec![square], square, "FTI-C"),
            // Without a gradient.
            (Op::PadCircular { before: [1, 0, 0, 0] }, vec![x], padded, "FTI-C"),
            (Op::PadReflect { before: 1 }, vec![x], padded, "FTI-C"),
            (Op::Diag, vec![matrix(8, 1)], matrix(8, 8), "FTI-C"),
            (Op::Upscale { sampling: Sampling::Bicubic, align_corners: false }, vec![x], taller, "FTI-C"),
            (Op::Fill { value: 1.0 }, vec![], x, "FTI-C"),
            (Op::Arange { start: 0.0, step: 1.0 }, vec![], matrix(9, 1), "FTI-C"),
            (Op::TimestepEmbedding { max_period: 100 }, vec![matrix(4, 1)], matrix(8, 4), "FTI-C"),
        ]);
        let oai = Gate::SwiGluOai { alpha: 1.0, limit: 7.0 };
        for gate in [Gate::GeGluErf, Gate::GeGluQuick, oai, Gate::SwiGluClamp { limit: 7.0 }] {
            table.push((Op::Gated(gate), vec![x, x], x, "FTI-C"));
        }
        table
    }

    #[test]
    fn every_op_with_a_gradient_has_the_class_of_the_theory() {
        let table = table();
        for (op, inputs, output, class) in &table {
            assert_eq!(op.class(inputs, *output).unwrap().to_string(), *class, "{op:?} {inputs:?}");
        }
        let listed = |row: &Row| table.iter().any(|(op, ..)| std::ptr::eq(op.row(), row));
        let missing = ROWS.iter().filter(|row| row.gradient.is_ok() && !listed(row));
        assert_eq!(missing.map(|row| row.name).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn accesses_name_each_operand_and_the_output() {
        for (op, inputs, output, _) in table() {
            let shapes: Vec<Shape> = inputs.iter().map(|d| d.shape).collect();
            assert_eq!(op.accesses(&shapes, &output.shape).len(), inputs.len() + 1, "{op:?}");
        }
    }

    fn class(build: impl Fn(&mut Graph, Operand, Operand) -> ValueId, frozen: bool) -> String {
        let mut g = Graph::new();
        let (x, w) = (g.external("x", DType::F32, [8, 6, 4, 1]), g.external("w", DType::F32, [8, 1, 1, 1]));
        let (x_all, w_all) = (g.whole(x), g.whole(w));
        let output = build(&mut g, x_all, w_all);
        let wanted = if frozen { vec![x] } else { vec![x, w] };
        Class::of(&g, output, &wanted).unwrap().to_string()
    }

    /// The theory's RMSNorm has a weight, whose gradient sums over tokens what the norm sums over features.
    #[test]
    fn a_norm_with_its_weight_is_dependent_and_divergent() {
        let norm = |g: &mut Graph, x, w| {
            let y = g.node("norm", Op::RmsNorm { eps: 1e-5 }, vec![x]).unwrap();
            g.node("weighted", MUL, vec![g.whole(y), w]).unwrap()
        };
        assert_eq!(class(norm, false), "FTD-D");
    }

    #[test]
    fn transposes_are_independent_and_divergent() {
        let copy =
            |shape| move |g: &mut Graph, window| g.node_as("copy", Op::Copy, vec![window], Desc::f32(shape)).unwrap();
        assert_eq!(class(|g, x, _| copy([6, 8, 4, 1])(g, x.transpose()), true), "FTI-D");
        assert_eq!(class(|g, x, _| copy([8, 4, 6, 1])(g, x.permute([0, 2, 1, 3]).unwrap()), true), "FTI-D");
        assert_eq!(class(|g, x, _| copy([4, 6, 4, 1])(g, x.slice(0, 4, 4).unwrap()), true), "FTI-D");
        assert_eq!(class(|g, x, _| copy([8, 6, 4, 1])(g, x), true), "FTI-C");
    }

    #[test]
    fn what_is_frozen_sums_nothing() {
        let add = |g: &mut Graph, x, w| g.node("bias", ADD, vec![x, w]).unwrap();
        let mul = |g: &mut Graph, x, w| g.node("gain", MUL, vec![x, w]).unwrap();
        assert_eq!((class(add, true), class(add, false)), ("FTI-C".into(), "FTI-D".into()));
        assert_eq!((class(mul, true), class(mul, false)), ("FTD-C".into(), "FTD-D".into()));
    }
}
