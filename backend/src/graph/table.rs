//! The op table: one row per op, under ggml's name.

use super::flops::Work;
use super::oracle::{self, Oracle};
use super::rules::{self, Rule, ShapeError};
use super::{Array, Binary, Desc, Op, Rope, Shape, Unary};

/// Which kernels compute an op: one file of `kernels/` and one group of shaders each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Matrix products in any direction.
    Gemm,
    /// Each element of the output from the same element of the operands.
    Elementwise,
    /// Values moved, repeated, or converted to another dtype.
    Copy,
    /// Each row from its own row: norms, softmax, their gradients, argmax.
    Rows,
    /// Rotary embedding.
    Rope,
    /// Rows picked or scattered by ids.
    Gather,
    /// Sums over repeats.
    RepeatBack,
    /// Cross-entropy and its gradient.
    CrossEntropy,
    /// Optimizer steps, in place.
    Optimizer,
}

/// What there is to know of an op.
#[derive(Debug)]
pub struct Row {
    /// ggml's name.
    pub name: &'static str,
    /// Fewest operands.
    pub min_operands: usize,
    /// Most operands.
    pub max_operands: usize,
    /// Operands that the op writes in place; the first one is its output.
    pub updates: &'static [usize],
    /// Who computes it.
    pub family: Family,
    pub(super) work: Work,
    rule: Rule,
    oracle: Oracle,
}

const fn row(name: &'static str, operands: (usize, usize), family: Family, rule: Rule, oracle: Oracle) -> Row {
    let work = match family {
        Family::Gemm => Work::Product,
        Family::Copy | Family::Gather => Work::Each(0),
        _ => Work::Each(1),
    };
    Row { name, min_operands: operands.0, max_operands: operands.1, updates: &[], family, work, rule, oracle }
}

impl Row {
    /// The row with `n` operations per element of its largest operand.
    const fn each(self, n: u32) -> Self {
        Self { work: Work::Each(n), ..self }
    }
}

macro_rules! table {
    ($($id:ident = $row:expr;)*) => {
        $(static $id: Row = $row;)*
        /// Every row of the table.
        pub static ROWS: &[&Row] = &[$(&$id),*];
    };
}

table! {
    MUL_MAT = row("MUL_MAT", (2, 2), Family::Gemm, rules::mul_mat, oracle::gemm::mul_mat);
    OUT_PROD = row("OUT_PROD", (2, 2), Family::Gemm, rules::out_prod, oracle::gemm::out_prod);
    ADD = row("ADD", (2, 2), Family::Elementwise, rules::binary, oracle::elementwise::binary);
    SUB = row("SUB", (2, 2), Family::Elementwise, rules::binary, oracle::elementwise::binary);
    MUL = row("MUL", (2, 2), Family::Elementwise, rules::binary, oracle::elementwise::binary);
    DIV = row("DIV", (2, 2), Family::Elementwise, rules::binary, oracle::elementwise::binary);
    SCALE = row("SCALE", (1, 1), Family::Elementwise, rules::same_shape, oracle::elementwise::scale).each(2);
    SILU = row("SILU", (1, 1), Family::Elementwise, rules::same_shape, oracle::elementwise::unary).each(4);
    NEG = row("NEG", (1, 1), Family::Elementwise, rules::same_shape, oracle::elementwise::unary);
    SQR = row("SQR", (1, 1), Family::Elementwise, rules::same_shape, oracle::elementwise::unary);
    SQRT = row("SQRT", (1, 1), Family::Elementwise, rules::same_shape, oracle::elementwise::unary);
    SILU_BACK = row("SILU_BACK", (2, 2), Family::Elementwise, rules::same_shape, oracle::elementwise::silu_back).each(7);
    SWIGLU = row("SWIGLU", (2, 2), Family::Elementwise, rules::same_shape, oracle::elementwise::swiglu).each(5);
    RMS_NORM = row("RMS_NORM", (1, 1), Family::Rows, rules::same_shape, oracle::rows::rms_norm).each(3);
    RMS_NORM_BACK = row("RMS_NORM_BACK", (2, 2), Family::Rows, rules::same_shape, oracle::rows::rms_norm_back).each(7);
    SOFT_MAX = row("SOFT_MAX", (1, 2), Family::Rows, rules::soft_max, oracle::rows::soft_max).each(7);
    SOFT_MAX_BACK = row("SOFT_MAX_BACK", (2, 2), Family::Rows, rules::same_shape, oracle::rows::soft_max_back).each(5);
    ARGMAX = row("ARGMAX", (1, 1), Family::Rows, rules::arg_max, oracle::rows::arg_max);
    ROPE = row("ROPE", (2, 3), Family::Rope, rules::rope, oracle::rope::rope).each(5);
    ROPE_BACK = row("ROPE_BACK", (2, 3), Family::Rope, rules::rope, oracle::rope::rope).each(5);
    REPEAT = row("REPEAT", (1, 1), Family::Copy, rules::repeat, oracle::moves::repeat);
    REPEAT_BACK = row("REPEAT_BACK", (1, 1), Family::RepeatBack, rules::repeat_back, oracle::moves::repeat_back);
    CPY = row("CPY", (1, 1), Family::Copy, rules::copy, oracle::moves::copy);
    GET_ROWS = row("GET_ROWS", (2, 2), Family::Gather, rules::get_rows, oracle::moves::get_rows);
    GET_ROWS_BACK = row("GET_ROWS_BACK", (2, 2), Family::Gather, rules::get_rows_back, oracle::moves::get_rows_back).each(1);
    CROSS_ENTROPY_LOSS =
        row("CROSS_ENTROPY_LOSS", (2, 2), Family::CrossEntropy, rules::cross_entropy, oracle::loss::cross_entropy).each(7);
    CROSS_ENTROPY_LOSS_BACK = row(
        "CROSS_ENTROPY_LOSS_BACK",
        (3, 3),
        Family::CrossEntropy,
        rules::cross_entropy_back,
        oracle::loss::cross_entropy_back
    )
    .each(7);
    OPT_STEP_ADAMW = Row {
        updates: &[0, 2, 3],
        ..row("OPT_STEP_ADAMW", (5, 5), Family::Optimizer, rules::adamw, oracle::optimizer::adamw).each(15)
    };
}

impl Op {
    /// The op's row of the table.
    pub fn row(&self) -> &'static Row {
        match self {
            Self::MulMat => &MUL_MAT,
            Self::OutProd => &OUT_PROD,
            Self::Binary(Binary::Add) => &ADD,
            Self::Binary(Binary::Sub) => &SUB,
            Self::Binary(Binary::Mul) => &MUL,
            Self::Binary(Binary::Div) => &DIV,
            Self::Scale { .. } => &SCALE,
            Self::Unary(Unary::Silu) => &SILU,
            Self::Unary(Unary::Neg) => &NEG,
            Self::Unary(Unary::Sqr) => &SQR,
            Self::Unary(Unary::Sqrt) => &SQRT,
            Self::SiluBack => &SILU_BACK,
            Self::SwiGlu => &SWIGLU,
            Self::RmsNorm { .. } => &RMS_NORM,
            Self::RmsNormBack { .. } => &RMS_NORM_BACK,
            Self::Rope(Rope { back: false, .. }) => &ROPE,
            Self::Rope(Rope { back: true, .. }) => &ROPE_BACK,
            Self::SoftMax { .. } => &SOFT_MAX,
            Self::SoftMaxBack { .. } => &SOFT_MAX_BACK,
            Self::Repeat => &REPEAT,
            Self::RepeatBack => &REPEAT_BACK,
            Self::Copy => &CPY,
            Self::GetRows => &GET_ROWS,
            Self::GetRowsBack => &GET_ROWS_BACK,
            Self::CrossEntropyLoss => &CROSS_ENTROPY_LOSS,
            Self::CrossEntropyLossBack => &CROSS_ENTROPY_LOSS_BACK,
            Self::ArgMax => &ARGMAX,
            Self::AdamW => &OPT_STEP_ADAMW,
        }
    }
}

/// The output an op gives for these operands. `asked` is what the node declares: it decides for ops that take their output
/// from the node (Copy, Repeat, RepeatBack, GetRowsBack) and must agree with the rule for all others.
pub fn infer(op: &Op, inputs: &[Desc], asked: Option<Desc>) -> Result<Desc, ShapeError> {
    let row = op.row();
    rules::apply(row.name, row.min_operands..=row.max_operands, row.rule, op, inputs, asked)
}

/// What the op gives in f64: its output of shape `output`, and for AdamW the new w, m and v. Integer operands hold integers.
/// The operands must satisfy [`infer`]; ids of GetRows and GetRowsBack must be rows of the table.
pub fn oracle(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    (op.row().oracle)(op, inputs, output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = ROWS.iter().map(|r| r.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
