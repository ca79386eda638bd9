//! The op table: one row per op, under ggml's name.

use super::access;
use super::flops::Work;
use super::gradient::{self, rules as gradients};
use super::oracle::{self, Oracle};
use super::rules::{self, Rule, ShapeError};
use super::{Array, Binary, Desc, Gate, Op, Rope, Shape, Unary};

/// Which kernels compute an op: one file of `kernels/` and one group of shaders each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// Matrix products in any direction.
    Gemm,
    /// Attention in one sweep over the keys.
    Attention,
    /// Products with a matrix that ids pick.
    Experts,
    /// Each element of the output from the same element of the operands.
    Elementwise,
    /// The same by a function that no other kernel applies to its result.
    Function,
    /// Values moved, repeated, or converted to another dtype.
    Copy,
    /// Each row from its own row: norms, softmax, their gradients, argmax.
    Rows,
    /// Rotary embedding.
    Rope,
    /// Values at other places, or left out.
    Move,
    /// Values between those of the operand.
    Sample,
    /// Values of a formula.
    Generate,
    /// Rows picked or scattered by ids.
    Gather,
    /// Sums over repeats.
    RepeatBack,
    /// Cross-entropy and its gradient.
    CrossEntropy,
    /// Optimizer steps, in place.
    Optimizer,
    /// Convolutions and the patches that they multiply.
    Convolution,
    /// Pools over windows.
    Pool,
    /// Recurrences over tokens and triangular solves.
    Recurrent,
    /// Weighted sums over heads and residual streams.
    Mixing,
    /// Sums over rows or over all, running sums, norms of groups.
    Reduce,
    /// Indices by the order of elements.
    Sort,
    /// Operand 0 with a part of it written anew.
    Inset,
}

impl Family {
    /// Whether every element of the output needs the same element of the operands and no other.
    pub fn is_by_element(self) -> bool {
        matches!(self, Self::Elementwise | Self::Function)
    }
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
    /// Its arithmetic.
    pub(super) work: Work,
    rule: Rule,
    oracle: Oracle,
    /// Gradients of the operands, or why the op has none.
    pub(super) gradient: Result<gradient::Rule, &'static str>,
    /// Which elements of the operands an element of the output needs.
    pub(super) access: access::Rule,
}

/// Why some ops have no gradient.
const SECOND: &str = "it is part of one, and second derivatives are not built";
const INDEX: &str = "its result is an index";
const STEPS: &str = "it is flat wherever it has a derivative";
const NOTHING: &str = "it has no operands";
const FUNCTION: &str = "ggml has no rule for it either";
const PICKED: &str = "ids pick its matrices, and gradients of picked matrices are not built";
const SCATTER: &str = "it is made for caches, which are not trained through";
const IN_PLACE: &str = "it updates its operands in place";
const BY_PATCHES: &str = "only convolutions by patches (IM2COL) are trained";
const RECURRENT: &str = "recurrences are not trained through";
const INFERENCE: &str = "it is made for inference";
const BY_PLANES: &str = "only pools of planes (POOL_2D) are trained";
const COUNT: &str = "its result is a count";
const FORWARD: &str = "ggml trains without it";

macro_rules! gradient {
    (none $why:ident) => {
        Err($why)
    };
    ($rule:ident) => {
        Ok(gradients::$rule)
    };
}

macro_rules! work {
    (product) => {
        Work::Product
    };
    (attention) => {
        Work::Attention
    };
    (attention_back) => {
        Work::AttentionBack
    };
    (experts) => {
        Work::Experts
    };
    (windows) => {
        Work::Windows
    };
    ($each:literal) => {
        Work::Each($each)
    };
}

macro_rules! table {
    ($($id:ident $min:literal ..= $max:literal $family:ident $work:tt $rule:ident $module:ident :: $oracle:ident
        $gradient:ident $(($why:ident))? $access:ident $(updates $($updated:literal),+)?;)*) => {
        $(static $id: Row = Row {
            name: stringify!($id),
            min_operands: $min,
            max_operands: $max,
            updates: &[$($($updated),+)?],
            family: Family::$family,
            work: work!($work),
            rule: rules::$rule,
            oracle: oracle::$module::$oracle,
            gradient: gradient!($gradient $($why)?),
            access: access::$access,
        };)*
        /// Every row of the table.
        pub static ROWS: &[&Row] = &[$(&$id),*];
    };
}

table! {
    // name                 operands family       flops   shape rule         oracle                   gradient      access
    MUL_MAT                 2..=2    Gemm         product mul_mat            gemm::mul_mat            mul_mat       mul_mat;
    OUT_PROD                2..=2    Gemm         product out_prod           gemm::out_prod           out_prod      out_prod;
    FLASH_ATTN_EXT          3..=5    Attention    attention flash_attn     attention::flash_attn    flash_attn    flash_attn;
    FLASH_ATTN_BACK_Q       5..=6    Attention    attention_back flash_attn_back_q attention_back::queries none(SECOND) flash_attn_back;
    FLASH_ATTN_BACK_KV      5..=6    Attention    attention_back flash_attn_back_kv attention_back::keys_values none(SECOND) flash_attn_back;
    MUL_MAT_ID              3..=3    Experts      experts mul_mat_id       gemm::mul_mat_id         none(PICKED)  mul_mat_id;
    ADD                     2..=2    Elementwise  1       binary             elementwise::binary      add           own;
    SUB                     2..=2    Elementwise  1       binary             elementwise::binary      sub           own;
    MUL                     2..=2    Elementwise  1       binary             elementwise::binary      mul           own;
    DIV                     2..=2    Elementwise  1       binary             elementwise::binary      div           own;
    SCALE                   1..=1    Elementwise  2       same_shape         elementwise::scale       scale         own;
    SILU                    1..=1    Elementwise  4       same_shape         elementwise::unary       silu          own;
    NEG                     1..=1    Elementwise  1       same_shape         elementwise::unary       neg           own;
    SQR                     1..=1    Elementwise  1       same_shape         elementwise::unary       sqr           own;
    SQRT                    1..=1    Elementwise  1       same_shape         elementwise::unary       sqrt          own;
    TANH                    1..=1    Elementwise  1       same_shape         elementwise::unary       tanh          own;
    GELU                    1..=1    Elementwise  9       same_shape         elementwise::unary       gelu          own;
    SILU_BACK               2..=2    Elementwise  8       same_shape         elementwise::silu_back   none(SECOND)  own;
    TANH_BACK               2..=2    Elementwise  3       same_shape         elementwise::tanh_back   none(SECOND)  own;
    GELU_BACK               2..=2    Elementwise  19      same_shape         elementwise::gelu_back   none(SECOND)  own;
    SWIGLU                  2..=2    Elementwise  5       same_shape         elementwise::swiglu      swiglu        own;
    GEGLU                   2..=2    Elementwise  10      same_shape         elementwise::geglu       geglu         own;
    ABS                     1..=1    Function     1       same_shape         elementwise::unary       abs           own;
    SGN                     1..=1    Function     1       same_shape         elementwise::unary       flat          own;
    STEP                    1..=1    Function     1       same_shape         elementwise::unary       flat          own;
    ELU                     1..=1    Function     3       same_shape         elementwise::unary       none(FUNCTION) own;
    RELU                    1..=1    Function     1       same_shape         elementwise::unary       relu          own;
    SIGMOID                 1..=1    Function     3       same_shape         elementwise::unary       sigmoid       own;
    GELU_QUICK              1..=1    Function     5       same_shape         elementwise::unary       none(FUNCTION) own;
    HARDSWISH               1..=1    Function     5       same_shape         elementwise::unary       none(FUNCTION) own;
    HARDSIGMOID             1..=1    Function     4       same_shape         elementwise::unary       none(FUNCTION) own;
    EXP                     1..=1    Function     1       same_shape         elementwise::unary       exp           own;
    EXPM1                   1..=1    Function     2       same_shape         elementwise::unary       expm1         own;
    SOFTPLUS                1..=1    Function     4       same_shape         elementwise::unary       softplus      own;
    GELU_ERF                1..=1    Function     24      same_shape         elementwise::unary       none(FUNCTION) own;
    XIELU                   1..=1    Function     7       same_shape         elementwise::unary       none(FUNCTION) own;
    FLOOR                   1..=1    Function     1       same_shape         elementwise::unary       none(STEPS)   own;
    CEIL                    1..=1    Function     1       same_shape         elementwise::unary       none(STEPS)   own;
    ROUND                   1..=1    Function     1       same_shape         elementwise::unary       none(STEPS)   own;
    TRUNC                   1..=1    Function     1       same_shape         elementwise::unary       none(STEPS)   own;
    LOG                     1..=1    Function     1       same_shape         elementwise::unary       log           own;
    SIN                     1..=1    Function     1       same_shape         elementwise::unary       sin           own;
    COS                     1..=1    Function     1       same_shape         elementwise::unary       cos           own;
    CLAMP                   1..=1    Function     2       same_shape         elementwise::unary       clamp         own;
    LEAKY_RELU              1..=1    Function     3       same_shape         elementwise::unary       leaky_relu    own;
    REGLU                   2..=2    Function     2       same_shape         functions::gated         reglu         own;
    GEGLU_ERF               2..=2    Function     25      same_shape         functions::gated         none(FUNCTION) own;
    GEGLU_QUICK             2..=2    Function     6       same_shape         functions::gated         none(FUNCTION) own;
    SWIGLU_OAI              2..=2    Function     9       same_shape         functions::gated         none(FUNCTION) own;
    SWIGLU_CLAMP            2..=2    Function     8       same_shape         functions::gated         none(FUNCTION) own;
    RMS_NORM                1..=1    Rows         3       same_shape         rows::rms_norm           rms_norm      rows;
    RMS_NORM_BACK           2..=2    Rows         7       same_shape         rows::rms_norm_back      none(SECOND)  rows;
    SOFT_MAX                1..=3    Rows         7       soft_max           rows::soft_max           soft_max      rows;
    SOFT_MAX_BACK           2..=2    Rows         5       same_shape         rows::soft_max_back      none(SECOND)  rows;
    ARGMAX                  1..=1    Rows         1       arg_max            rows::arg_max            none(INDEX)   arg_max;
    SUM                     1..=1    Reduce       1       sum                reduce::sum              sum           all;
    SUM_ROWS                1..=1    Reduce       1       sum_rows           reduce::sum_rows         sum           sum_rows;
    MEAN                    1..=1    Reduce       1       sum_rows           reduce::mean             mean          sum_rows;
    CUMSUM                  1..=1    Reduce       1       same_shape         reduce::cumsum           none(FORWARD) rows;
    COUNT_EQUAL             2..=2    Reduce       1       count_equal        reduce::count_equal      none(COUNT)   all;
    NORM                    1..=1    Rows         5       same_shape         norm::norm               norm          rows;
    GROUP_NORM              1..=1    Reduce       5       group_norm         norm::group_norm         none(FORWARD) group_norm;
    L2_NORM                 1..=1    Rows         3       same_shape         norm::l2_norm            none(FORWARD) rows;
    ADD_ID                  3..=3    Gather       1       add_id             moves::add_id            none(FORWARD) add_id;
    ARGSORT                 1..=1    Sort         16      arg_sort           sort::arg_sort           none(INDEX)   rows;
    TOP_K                   1..=1    Sort         16      top_k              sort::top_k              none(INDEX)   rows;
    OPT_STEP_SGD            3..=3    Optimizer    4       sgd                optimizer::sgd           none(IN_PLACE) sgd updates 0;
    ROPE                    2..=3    Rope         5       rope               rope::rope               rope          rope;
    ROPE_BACK               2..=3    Rope         5       rope               rope::rope               rope          rope;
    REPEAT                  1..=1    Copy         0       repeat             moves::repeat            repeat        moved;
    REPEAT_BACK             1..=1    RepeatBack   1       repeat_back        moves::repeat_back       repeat_back   repeat_back;
    CPY                     1..=1    Copy         0       copy               moves::copy              copy          moved;
    PAD                     1..=1    Copy         0       pad                moves::pad               pad           looked_up;
    CONCAT                  2..=2    Move         0       concat             places::concat           concat        looked_up;
    PAD_CIRCULAR            1..=1    Move         0       pad_circular       places::pad_circular     none(FUNCTION) looked_up;
    PAD_REFLECT_1D          1..=1    Move         0       pad_reflect        places::pad_reflect      none(FUNCTION) looked_up;
    ROLL                    1..=1    Move         0       roll               places::roll             roll          looked_up;
    DIAG                    1..=1    Move         0       diag               places::diag             none(FUNCTION) looked_up;
    DIAG_MASK_INF           1..=1    Move         0       same_shape         places::band             band          own;
    DIAG_MASK_ZERO          1..=1    Move         0       same_shape         places::band             band          own;
    TRI                     1..=1    Move         0       tri                places::band             band          own;
    UPSCALE                 1..=1    Sample       16      upscale            samples::upscale         none(FUNCTION) looked_up;
    FILL                    0..=0    Generate     0       fill               generate::fill           none(NOTHING) own;
    ARANGE                  0..=0    Generate     2       arange             generate::arange         none(NOTHING) own;
    TIMESTEP_EMBEDDING      1..=1    Generate     4       timestep           generate::timestep       none(FUNCTION) looked_up;
    SET                     2..=2    Inset        0       set                insets::set              set           inset;
    ACC                     2..=2    Inset        1       acc                insets::set              acc           inset;
    SET_ROWS                3..=3    Inset        0       set_rows           insets::set_rows         none(SCATTER) inset;
    GET_ROWS                2..=2    Gather       0       get_rows           moves::get_rows          get_rows      looked_up;
    GET_ROWS_BACK           2..=2    Gather       1       get_rows_back      moves::get_rows_back     get_rows_back looked_up;
    CROSS_ENTROPY_LOSS      2..=2    CrossEntropy 7       cross_entropy      loss::cross_entropy      cross_entropy cross_entropy;
    CROSS_ENTROPY_LOSS_BACK 3..=3    CrossEntropy 7       cross_entropy_back loss::cross_entropy_back none(SECOND)  cross_entropy_back;
    OPT_STEP_ADAMW          5..=5    Optimizer    15      adamw              optimizer::adamw         none(IN_PLACE) adamw updates 0, 2, 3;
    IM2COL                  2..=2    Convolution  windows im2col             convolution::im2col      im2col        looked_up;
    IM2COL_BACK             2..=2    Convolution  windows im2col_back        convolution::im2col_back none(SECOND)  looked_up;
    IM2COL_3D               2..=2    Convolution  windows im2col_3d          convolution::im2col_3d   none(BY_PATCHES) looked_up;
    COL2IM_1D               1..=1    Convolution  windows col2im_1d          convolution::col2im_1d   none(BY_PATCHES) looked_up;
    CONV_2D                 2..=2    Convolution  windows conv_2d            convolution::conv_2d     none(BY_PATCHES) looked_up;
    CONV_2D_DW              2..=2    Convolution  windows conv_2d_dw         convolution::conv_2d_dw  none(BY_PATCHES) looked_up;
    CONV_3D                 2..=2    Convolution  windows conv_3d            convolution::conv_3d     none(BY_PATCHES) looked_up;
    CONV_TRANSPOSE_1D       2..=2    Convolution  windows conv_transpose_1d  convolution::conv_transpose_1d none(BY_PATCHES) looked_up;
    CONV_TRANSPOSE_2D       2..=2    Convolution  windows conv_transpose_2d  convolution::conv_transpose_2d none(BY_PATCHES) looked_up;
    POOL_1D                 1..=1    Pool         windows pool               convolution::pool        none(BY_PLANES) looked_up;
    POOL_2D                 1..=1    Pool         windows pool               convolution::pool        pool_2d       looked_up;
    POOL_2D_BACK            2..=2    Pool         windows pool_2d_back       convolution::pool_2d_back none(SECOND)  looked_up;
    SSM_CONV                2..=2    Recurrent    8       ssm_conv           recurrent::ssm_conv      none(RECURRENT) looked_up;
    SSM_SCAN                7..=7    Recurrent    6       ssm_scan           recurrent::ssm_scan      none(RECURRENT) looked_up;
    RWKV_WKV6               6..=6    Recurrent    8       rwkv_wkv6          recurrent::rwkv_wkv6     none(RECURRENT) looked_up;
    RWKV_WKV7               7..=7    Recurrent    10      rwkv_wkv7          recurrent::rwkv_wkv7     none(RECURRENT) looked_up;
    GATED_LINEAR_ATTN       5..=5    Recurrent    6       gated_linear_attn  recurrent::gated_linear_attn none(RECURRENT) looked_up;
    GATED_DELTA_NET         6..=6    Recurrent    8       gated_delta_net    recurrent::gated_delta_net none(RECURRENT) looked_up;
    SOLVE_TRI               2..=2    Recurrent    2       solve_tri          recurrent::solve_tri     none(INFERENCE) looked_up;
    LIGHTNING_INDEXER       4..=4    Mixing       2       lightning_indexer  mixing::lightning_indexer none(INFERENCE) looked_up;
    DSV4_HC_COMB            3..=3    Mixing       20      dsv4_hc_comb       mixing::dsv4_hc_comb     none(INFERENCE) looked_up;
    DSV4_HC_PRE             2..=2    Mixing       2       dsv4_hc_pre        mixing::dsv4_hc_pre      none(INFERENCE) looked_up;
    DSV4_HC_POST            3..=4    Mixing       8       dsv4_hc_post       mixing::dsv4_hc_post     none(INFERENCE) looked_up;
}

impl Op {
    /// The op's row of the table.
    pub fn row(&self) -> &'static Row {
        match self {
            Self::MulMat => &MUL_MAT,
            Self::OutProd => &OUT_PROD,
            Self::FlashAttn(_) => &FLASH_ATTN_EXT,
            Self::FlashAttnBackQ(_) => &FLASH_ATTN_BACK_Q,
            Self::FlashAttnBackKv(_) => &FLASH_ATTN_BACK_KV,
            Self::MulMatId => &MUL_MAT_ID,
            Self::Binary(Binary::Add) => &ADD,
            Self::Binary(Binary::Sub) => &SUB,
            Self::Binary(Binary::Mul) => &MUL,
            Self::Binary(Binary::Div) => &DIV,
            Self::Scale { .. } => &SCALE,
            Self::Unary(Unary::Silu) => &SILU,
            Self::Unary(Unary::Neg) => &NEG,
            Self::Unary(Unary::Sqr) => &SQR,
            Self::Unary(Unary::Sqrt) => &SQRT,
            Self::Unary(Unary::Tanh) => &TANH,
            Self::Unary(Unary::Gelu) => &GELU,
            Self::Unary(Unary::Abs) => &ABS,
            Self::Unary(Unary::Sgn) => &SGN,
            Self::Unary(Unary::Step) => &STEP,
            Self::Unary(Unary::Elu) => &ELU,
            Self::Unary(Unary::Relu) => &RELU,
            Self::Unary(Unary::Sigmoid) => &SIGMOID,
            Self::Unary(Unary::GeluQuick) => &GELU_QUICK,
            Self::Unary(Unary::HardSwish) => &HARDSWISH,
            Self::Unary(Unary::HardSigmoid) => &HARDSIGMOID,
            Self::Unary(Unary::Exp) => &EXP,
            Self::Unary(Unary::Expm1) => &EXPM1,
            Self::Unary(Unary::Softplus) => &SOFTPLUS,
            Self::Unary(Unary::GeluErf) => &GELU_ERF,
            Self::Unary(Unary::XIelu { .. }) => &XIELU,
            Self::Unary(Unary::Floor) => &FLOOR,
            Self::Unary(Unary::Ceil) => &CEIL,
            Self::Unary(Unary::Round) => &ROUND,
            Self::Unary(Unary::Trunc) => &TRUNC,
            Self::Unary(Unary::Log) => &LOG,
            Self::Unary(Unary::Sin) => &SIN,
            Self::Unary(Unary::Cos) => &COS,
            Self::Unary(Unary::Clamp { .. }) => &CLAMP,
            Self::Unary(Unary::LeakyRelu { .. }) => &LEAKY_RELU,
            Self::SiluBack => &SILU_BACK,
            Self::TanhBack => &TANH_BACK,
            Self::GeluBack => &GELU_BACK,
            Self::SwiGlu => &SWIGLU,
            Self::GeGlu => &GEGLU,
            Self::Gated(Gate::ReGlu) => &REGLU,
            Self::Gated(Gate::GeGluErf) => &GEGLU_ERF,
            Self::Gated(Gate::GeGluQuick) => &GEGLU_QUICK,
            Self::Gated(Gate::SwiGluOai { .. }) => &SWIGLU_OAI,
            Self::Gated(Gate::SwiGluClamp { .. }) => &SWIGLU_CLAMP,
            Self::RmsNorm { .. } => &RMS_NORM,
            Self::RmsNormBack { .. } => &RMS_NORM_BACK,
            Self::Rope(Rope { back: false, .. }) => &ROPE,
            Self::Rope(Rope { back: true, .. }) => &ROPE_BACK,
            Self::SoftMax { .. } => &SOFT_MAX,
            Self::SoftMaxBack { .. } => &SOFT_MAX_BACK,
            Self::Repeat => &REPEAT,
            Self::RepeatBack => &REPEAT_BACK,
            Self::Copy => &CPY,
            Self::Pad { .. } => &PAD,
            Self::Concat { .. } => &CONCAT,
            Self::PadCircular { .. } => &PAD_CIRCULAR,
            Self::PadReflect { .. } => &PAD_REFLECT_1D,
            Self::Roll { .. } => &ROLL,
            Self::Diag => &DIAG,
            Self::DiagMaskInf { .. } => &DIAG_MASK_INF,
            Self::DiagMaskZero { .. } => &DIAG_MASK_ZERO,
            Self::Tri(_) => &TRI,
            Self::Upscale { .. } => &UPSCALE,
            Self::Fill { .. } => &FILL,
            Self::Arange { .. } => &ARANGE,
            Self::TimestepEmbedding { .. } => &TIMESTEP_EMBEDDING,
            Self::Set(_) => &SET,
            Self::Acc(_) => &ACC,
            Self::SetRows(_) => &SET_ROWS,
            Self::GetRows => &GET_ROWS,
            Self::GetRowsBack => &GET_ROWS_BACK,
            Self::CrossEntropyLoss => &CROSS_ENTROPY_LOSS,
            Self::CrossEntropyLossBack => &CROSS_ENTROPY_LOSS_BACK,
            Self::ArgMax => &ARGMAX,
            Self::Sum => &SUM,
            Self::SumRows => &SUM_ROWS,
            Self::CountEqual => &COUNT_EQUAL,
            Self::Mean => &MEAN,
            Self::CumSum => &CUMSUM,
            Self::Norm { .. } => &NORM,
            Self::GroupNorm { .. } => &GROUP_NORM,
            Self::L2Norm { .. } => &L2_NORM,
            Self::AddId => &ADD_ID,
            Self::ArgSort { .. } => &ARGSORT,
            Self::TopK => &TOP_K,
            Self::Sgd => &OPT_STEP_SGD,
            Self::AdamW => &OPT_STEP_ADAMW,
            Self::Im2Col { .. } => &IM2COL,
            Self::Im2ColBack { .. } => &IM2COL_BACK,
            Self::Im2Col3d { .. } => &IM2COL_3D,
            Self::Col2Im1d { .. } => &COL2IM_1D,
            Self::Conv2d(_) => &CONV_2D,
            Self::Conv2dDw(_) => &CONV_2D_DW,
            Self::Conv3d { .. } => &CONV_3D,
            Self::ConvTranspose1d { .. } => &CONV_TRANSPOSE_1D,
            Self::ConvTranspose2d { .. } => &CONV_TRANSPOSE_2D,
            Self::Pool1d(_) => &POOL_1D,
            Self::Pool2d(_) => &POOL_2D,
            Self::Pool2dBack(_) => &POOL_2D_BACK,
            Self::SsmConv => &SSM_CONV,
            Self::SsmScan { .. } => &SSM_SCAN,
            Self::RwkvWkv6 => &RWKV_WKV6,
            Self::RwkvWkv7 => &RWKV_WKV7,
            Self::GatedLinearAttn { .. } => &GATED_LINEAR_ATTN,
            Self::GatedDeltaNet { .. } => &GATED_DELTA_NET,
            Self::SolveTri => &SOLVE_TRI,
            Self::LightningIndexer => &LIGHTNING_INDEXER,
            Self::Dsv4HcComb { .. } => &DSV4_HC_COMB,
            Self::Dsv4HcPre { .. } => &DSV4_HC_PRE,
            Self::Dsv4HcPost => &DSV4_HC_POST,
        }
    }
}

/// The output an op gives for these operands. `asked` is what the node declares: it decides for ops that take their output
/// from the node (Copy, Pad, Repeat, RepeatBack, GetRowsBack, Im2ColBack, pools, TopK) and must agree with the rule for all others.
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
