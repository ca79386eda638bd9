//! ggml's ops as ours: parameter words, which sources are operands. Pure.

mod attention;
mod convolution;
mod functions;
mod numbers;
mod places;
mod recurrent;
mod rope;
mod rows;

pub use numbers::check_numbers;

use fblayout::graph::{Binary, Op, Unary};

use crate::abi::MAX_OP_PARAMS;
use crate::record::Geometry;
use numbers::*;

/// True for ops that compute nothing: leaves and views.
pub fn is_empty(op: i32) -> bool {
    matches!(op, NONE | RESHAPE | VIEW | PERMUTE | TRANSPOSE)
}

/// An op that writes a part of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// SET.
    Set,
    /// ACC.
    Acc,
    /// SET_ROWS.
    Rows,
}

/// Which of those an op is.
pub fn insertion(op: i32) -> Option<Insertion> {
    match op {
        SET => Some(Insertion::Set),
        ACC => Some(Insertion::Acc),
        SET_ROWS => Some(Insertion::Rows),
        _ => None,
    }
}

/// Where SET and ACC write, in bytes of the result: the strides of `part` and its offset. Words: nb1, nb2, nb3, offset.
pub fn part(params: &[i32; MAX_OP_PARAMS], mut part: Geometry) -> Result<(Geometry, usize), String> {
    let bytes = |word: i32| usize::try_from(word).map_err(|_| format!("a stride or offset of {word} bytes"));
    for (stride, &word) in part.nb[1..].iter_mut().zip(params) {
        *stride = bytes(word)?;
    }
    Ok((part, bytes(params[3])?))
}

/// An operand of a mapped op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// All of a source.
    All(usize),
    /// The first half of each row of a source.
    FirstHalf(usize),
    /// The second half of each row of a source.
    SecondHalf(usize),
}

/// Our op for a ggml node, with its operands in our order. `has` says which sources the node has.
pub fn map(op: i32, params: &[i32; MAX_OP_PARAMS], has: impl Fn(usize) -> bool) -> Result<(Op, Vec<Pick>), String> {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let all = |count: usize| (0..count).map(Pick::All).collect::<Vec<_>>();
    let mapped = match op {
        ADD | ADD1 => (Op::Binary(Binary::Add), all(2)),
        SUB => (Op::Binary(Binary::Sub), all(2)),
        MUL => (Op::Binary(Binary::Mul), all(2)),
        DIV => (Op::Binary(Binary::Div), all(2)),
        SQR => (Op::Unary(Unary::Sqr), all(1)),
        SQRT => (Op::Unary(Unary::Sqrt), all(1)),
        UNARY => (Op::Unary(functions::unary(params)?), all(1)),
        LOG => (Op::Unary(Unary::Log), all(1)),
        SIN => (Op::Unary(Unary::Sin), all(1)),
        COS => (Op::Unary(Unary::Cos), all(1)),
        CLAMP => (Op::Unary(Unary::Clamp { min: float(0), max: float(1) }), all(1)),
        LEAKY_RELU => (Op::Unary(Unary::LeakyRelu { slope: float(0) }), all(1)),
        GLU => (functions::gated_unit(params)?, gate_and_up(params[1] != 0, has(1))),
        SCALE => (Op::Scale { scale: float(0), bias: float(1) }, all(1)),
        // CPY and CONT name where they write as a source, or nothing; the values come from source 0.
        DUP | CPY | CONT => (Op::Copy, all(1)),
        PAD => (places::pad(params)?, all(1)),
        PAD_REFLECT_1D => (Op::PadReflect { before: places::count(params[0], "padding")? }, all(1)),
        ROLL => (places::roll(params), all(1)),
        CONCAT => (Op::Concat { axis: places::count(params[0], "axis")? }, all(2)),
        UPSCALE => (places::upscale(params[0])?, all(1)),
        DIAG => (Op::Diag, all(1)),
        DIAG_MASK_INF => (Op::DiagMaskInf { past: places::count(params[0], "past")? }, all(1)),
        DIAG_MASK_ZERO => (Op::DiagMaskZero { past: places::count(params[0], "past")? }, all(1)),
        TRI => (places::triangle(params[0])?, all(1)),
        // The source has but the shape of the result.
        FILL => (Op::Fill { value: float(0) }, all(0)),
        ARANGE => (Op::Arange { start: float(0), step: float(2) }, all(0)),
        TIMESTEP_EMBEDDING => (Op::TimestepEmbedding { max_period: places::count(params[1], "period")? }, all(1)),
        REPEAT => (Op::Repeat, all(1)),
        REPEAT_BACK => (Op::RepeatBack, all(1)),
        SILU_BACK => (Op::SiluBack, all(2)),
        RMS_NORM => (Op::RmsNorm { eps: float(0) }, all(1)),
        RMS_NORM_BACK => (Op::RmsNormBack { eps: float(0) }, all(2)),
        MUL_MAT => (Op::MulMat, all(2)),
        OUT_PROD => (Op::OutProd, all(2)),
        FLASH_ATTN_EXT => attention::flash_attn(params, &has),
        MUL_MAT_ID => (Op::MulMatId, all(3)),
        GET_ROWS => (Op::GetRows, all(2)),
        GET_ROWS_BACK => (Op::GetRowsBack, all(2)),
        SOFT_MAX => rows::soft_max(params, has(1), has(2)),
        // Whatever slopes the mask had, the gradient of x is that of the result.
        SOFT_MAX_BACK => (Op::SoftMaxBack { scale: float(0) }, all(2)),
        ROPE | ROPE_BACK => (Op::Rope(rope::rope(params, op == ROPE_BACK)?), all(if has(2) { 3 } else { 2 })),
        CROSS_ENTROPY_LOSS => (Op::CrossEntropyLoss, all(2)),
        CROSS_ENTROPY_LOSS_BACK => (Op::CrossEntropyLossBack, all(3)),
        ARGMAX => (Op::ArgMax, all(1)),
        SUM => (Op::Sum, all(1)),
        SUM_ROWS => (Op::SumRows, all(1)),
        MEAN => (Op::Mean, all(1)),
        CUMSUM => (Op::CumSum, all(1)),
        COUNT_EQUAL => (Op::CountEqual, all(2)),
        NORM => (Op::Norm { eps: float(0) }, all(1)),
        GROUP_NORM => (rows::group_norm(params)?, all(1)),
        L2_NORM => (Op::L2Norm { eps: float(0) }, all(1)),
        ADD_ID => (Op::AddId, all(3)),
        ARGSORT => (rows::arg_sort(params)?, all(1)),
        TOP_K => (Op::TopK, all(1)),
        OPT_STEP_ADAMW => (Op::AdamW, all(5)),
        IM2COL | IM2COL_BACK | IM2COL_3D | COL2IM_1D | CONV_2D | CONV_2D_DW | CONV_3D | CONV_TRANSPOSE_1D
        | CONV_TRANSPOSE_2D | POOL_1D | POOL_2D | POOL_2D_BACK => {
            let mapped = convolution::map(op, params)?;
            let operands = mapped.row().max_operands;
            (mapped, all(operands))
        }
        SSM_CONV | SSM_SCAN | RWKV_WKV6 | RWKV_WKV7 | GATED_LINEAR_ATTN | GATED_DELTA_NET | SOLVE_TRI
        | LIGHTNING_INDEXER | DSV4_HC_COMB | DSV4_HC_PRE | DSV4_HC_POST => {
            let mapped = recurrent::map(op, params)?;
            // Without mixing, streams stay as they are.
            let operands = if op == DSV4_HC_POST && !has(3) { 3 } else { mapped.row().max_operands };
            (mapped, all(operands))
        }
        OPT_STEP_SGD => (Op::Sgd, all(3)),
        _ => return Err("the op is not supported".into()),
    };
    let missing = mapped.1.iter().find_map(|pick| {
        let (Pick::All(source) | Pick::FirstHalf(source) | Pick::SecondHalf(source)) = *pick;
        (!has(source)).then_some(source)
    });
    match missing {
        Some(source) => Err(format!("source {source} is missing")),
        None => Ok(mapped),
    }
}

/// Gate and linear operand of a gated unit: two sources, or the halves of one, which may be swapped.
fn gate_and_up(swapped: bool, split: bool) -> Vec<Pick> {
    match (split, swapped) {
        (true, _) => vec![Pick::All(0), Pick::All(1)],
        (false, false) => vec![Pick::FirstHalf(0), Pick::SecondHalf(0)],
        (false, true) => vec![Pick::SecondHalf(0), Pick::FirstHalf(0)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parameters of which these words are set.
    pub(super) fn words(values: &[(usize, i32)]) -> [i32; MAX_OP_PARAMS] {
        let mut params = [0; MAX_OP_PARAMS];
        for &(word, value) in values {
            params[word] = value;
        }
        params
    }

    fn bits(value: f32) -> i32 {
        value.to_bits() as i32
    }

    #[test]
    fn floats_and_words_are_read_from_their_places() {
        let scale = map(SCALE, &words(&[(0, bits(2.5)), (1, bits(-1.0))]), |s| s == 0);
        assert_eq!(scale, Ok((Op::Scale { scale: 2.5, bias: -1.0 }, vec![Pick::All(0)])));
    }

    #[test]
    fn gated_units_split_or_halve() {
        let swiglu = |swapped| words(&[(0, 2), (1, swapped)]);
        assert_eq!(map(GLU, &swiglu(0), |s| s < 2), Ok((Op::SwiGlu, vec![Pick::All(0), Pick::All(1)])));
        assert_eq!(map(GLU, &swiglu(0), |s| s < 1), Ok((Op::SwiGlu, vec![Pick::FirstHalf(0), Pick::SecondHalf(0)])));
        assert_eq!(map(GLU, &swiglu(1), |s| s < 1), Ok((Op::SwiGlu, vec![Pick::SecondHalf(0), Pick::FirstHalf(0)])));
    }

    #[test]
    fn what_the_kernels_lack_is_refused_with_the_reason() {
        let reason =
            |op, params: &[(usize, i32)], sources| map(op, &words(params), |s| s < sources).expect_err("not supported");
        assert!(reason(PAD, &[(2, -3)], 1).contains("-3 elements on axis 1"));
        assert!(reason(MUL_MAT, &[], 1).contains("source 1"));
        assert!(reason(MAP_CUSTOM1, &[], 4).contains("not supported"));
    }
}
