//! The table: cases of every op.

mod attention;
mod attention_back;
mod convolution;
mod copy;
mod cross_entropy;
mod elementwise;
mod encode;
mod experts;
mod functions;
mod fused;
mod gather;
mod gemm;
mod generate;
mod inset;
mod mixing;
mod normed;
mod optimizer;
mod places;
mod pool;
mod recurrent;
mod reduce;
mod repeat;
mod rope;
mod rows;
mod sort;
mod stored;
mod windows;

pub use encode::encoded;
pub use fused::fused;
pub use gemm::{dots, narrow};
pub use normed::normed;
pub(crate) use rope::PLAIN as PLAIN_ROPE;
pub use stored::{copied_blocks, stored};

use fblayout::graph::{Family, Operand};

use crate::Case;

/// All cases of a family.
pub fn of(family: Family) -> Vec<Case> {
    match family {
        Family::Gemm => [gemm::cases(), windows::products()].concat(),
        Family::Attention => [attention::cases(), attention_back::cases()].concat(),
        Family::Experts => experts::cases(),
        Family::Elementwise => [elementwise::cases(), windows::sums()].concat(),
        Family::Function => functions::cases(),
        Family::Copy => [copy::cases(), windows::copies()].concat(),
        Family::Rows => rows::cases(),
        Family::Rope => rope::cases(),
        Family::Move => places::moves(),
        Family::Sample => places::samples(),
        Family::Generate => generate::cases(),
        Family::Gather => gather::cases(),
        Family::RepeatBack => repeat::cases(),
        Family::CrossEntropy => cross_entropy::cases(),
        Family::Optimizer => optimizer::cases(),
        Family::Convolution => convolution::cases(),
        Family::Pool => pool::cases(),
        Family::Recurrent => recurrent::cases(),
        Family::Mixing => mixing::cases(),
        Family::Reduce => reduce::cases(),
        Family::Sort => sort::cases(),
        Family::Inset => inset::cases(),
    }
}

/// Families whose loads and stores the cost model predicts to the texel: what decoder models train with.
pub const COUNTED: &[Family] = &[
    Family::Gemm,
    Family::Elementwise,
    Family::Copy,
    Family::Rows,
    Family::Rope,
    Family::Gather,
    Family::RepeatBack,
    Family::CrossEntropy,
    Family::Optimizer,
];

/// The others, which it takes to touch each texel once.
pub const ESTIMATED: &[Family] = &[
    Family::Attention,
    Family::Convolution,
    Family::Experts,
    Family::Function,
    Family::Generate,
    Family::Inset,
    Family::Mixing,
    Family::Move,
    Family::Pool,
    Family::Recurrent,
    Family::Reduce,
    Family::Sample,
    Family::Sort,
];

/// Every family.
pub fn families() -> impl Iterator<Item = Family> {
    COUNTED.iter().chain(ESTIMATED).copied()
}

/// Heads first: a view [hd, T, heads] of a value [hd, heads, T].
fn by_head(operand: Operand) -> Operand {
    operand.permute([0, 2, 1, 3]).expect("a permutation of four axes")
}
