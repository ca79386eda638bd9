//! The ops, with the parameters that change what they compute.

use super::Shape;

/// How RoPE pairs the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeMode {
    /// Pairs (2i, 2i+1).
    Normal,
    /// Pairs (i, i + n_dims/2).
    Neox,
    /// MROPE: pairs as `Neox`; a token has four positions, of which the sections of the pairs take one each, in turn.
    Multi,
    /// IMROPE: the same with the first three positions dealt to the pairs one by one, as far as their sections are long.
    Interleaved,
    /// Vision: pairs (i, i + n_dims) of all of the row, which has 2 n_dims elements; every section counts its pairs from 0.
    Vision,
}

impl RopeMode {
    /// Whether a token has four positions, and pairs belong to sections.
    pub const fn has_sections(self) -> bool {
        matches!(self, Self::Multi | Self::Interleaved | Self::Vision)
    }
}

/// Parameters of rotary embedding, as ggml's `ggml_rope_ext`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    /// Pairing of elements.
    pub mode: RopeMode,
    /// Number of elements of axis 0 that are rotated, from `offset` on; the rest is copied. [`RopeMode::Vision`] rotates twice as many.
    pub n_dims: u32,
    /// First element that is rotated.
    pub offset: u32,
    /// Pairs of each section, where the mode has them; zeros otherwise.
    pub sections: [u32; 4],
    /// Context length the model was trained with (YaRN correction).
    pub n_ctx_orig: u32,
    /// Base of the angles.
    pub freq_base: f32,
    /// Scale of the positions.
    pub freq_scale: f32,
    /// YaRN extrapolation mix.
    pub ext_factor: f32,
    /// YaRN magnitude factor.
    pub attn_factor: f32,
    /// YaRN upper bound of rotations.
    pub beta_fast: f32,
    /// YaRN lower bound of rotations.
    pub beta_slow: f32,
    /// True for the gradient: the sign of the sine is flipped.
    pub back: bool,
}

impl Rope {
    /// A forward rotation without YaRN.
    pub const fn plain(mode: RopeMode, n_dims: u32, n_ctx_orig: u32, freq_base: f32) -> Self {
        Self {
            mode,
            n_dims,
            offset: 0,
            sections: [0; 4],
            n_ctx_orig,
            freq_base,
            freq_scale: 1.0,
            ext_factor: 0.0,
            attn_factor: 1.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            back: false,
        }
    }

    /// Elements of a row that are rotated.
    pub const fn rotated(&self) -> u32 {
        match self.mode {
            RopeMode::Vision => self.n_dims.saturating_mul(2),
            _ => self.n_dims,
        }
    }
}

/// Where a smaller tensor lies among the elements of another, counted in that one's linear order: element `(i0, i1, i2, i3)` is element
/// `offset + sum(i * strides)`. No element is met twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Inset {
    /// Extents; of SetRows all rows that an id can name, on axis 1.
    pub shape: Shape,
    /// Elements per step of each axis.
    pub strides: [u32; 4],
    /// Element that (0, 0, 0, 0) is.
    pub offset: u32,
}

impl Inset {
    /// The last element; `None` beyond 64 bits.
    pub fn last(&self) -> Option<u64> {
        let steps =
            self.shape.iter().zip(self.strides).map(|(&n, s)| u64::from(n.saturating_sub(1)).checked_mul(s.into()));
        steps.into_iter().try_fold(u64::from(self.offset), |sum, step| sum.checked_add(step?))
    }

    /// The element at an index.
    pub fn element(&self, index: Shape) -> u64 {
        let steps = index.iter().zip(self.strides).map(|(&i, s)| u64::from(i) * u64::from(s));
        u64::from(self.offset) + steps.sum::<u64>()
    }
}

/// Elementwise ops of two operands; operand 1 is repeated to operand 0's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// a + b
    Add,
    /// a - b
    Sub,
    /// a * b
    Mul,
    /// a / b
    Div,
}

/// Elementwise ops of one operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// x * sigmoid(x)
    Silu,
    /// -x
    Neg,
    /// x * x
    Sqr,
    /// square root
    Sqrt,
    /// hyperbolic tangent
    Tanh,
    /// GELU by its tanh approximation: `x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`
    Gelu,
    /// |x|
    Abs,
    /// -1, 0 or 1
    Sgn,
    /// 1 above 0, else 0
    Step,
    /// x above 0, else `exp(x) - 1`
    Elu,
    /// x above 0, else 0
    Relu,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
    /// GELU by a sigmoid: `x sigmoid(1.702 x)`
    GeluQuick,
    /// `x` times its [`Unary::HardSigmoid`]
    HardSwish,
    /// `(x + 3) / 6` within 0 and 1
    HardSigmoid,
    /// exponential
    Exp,
    /// `exp(x) - 1`
    Expm1,
    /// `log(1 + exp(x))`
    Softplus,
    /// GELU as it is defined: `x / 2 (1 + erf(x / sqrt(2)))`
    GeluErf,
    /// `alpha_p x^2 + beta x` above 0, else `alpha_n (exp(min(x, eps)) - 1 - x) + beta x`; the parameters are those that ggml's
    /// builder stores.
    XIelu {
        /// Factor of the exponential.
        alpha_n: f32,
        /// Factor of the square.
        alpha_p: f32,
        /// Slope at 0.
        beta: f32,
        /// Greatest exponent.
        eps: f32,
    },
    /// Greatest integer that is not above x.
    Floor,
    /// Least integer that is not below x.
    Ceil,
    /// Nearest integer, halves away from 0.
    Round,
    /// The integer part.
    Trunc,
    /// natural logarithm
    Log,
    /// sine of an angle in radians
    Sin,
    /// cosine of an angle in radians
    Cos,
    /// x within two bounds
    Clamp {
        /// Lower bound.
        min: f32,
        /// Upper bound.
        max: f32,
    },
    /// x above 0, else `slope x`
    LeakyRelu {
        /// Slope below 0.
        slope: f32,
    },
}

/// Gated units other than SwiGLU and GEGLU: operands gate g and up u.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Gate {
    /// `relu(g) u`
    ReGlu,
    /// `gelu(g) u` with [`Unary::GeluErf`]
    GeGluErf,
    /// `gelu(g) u` with [`Unary::GeluQuick`]
    GeGluQuick,
    /// `g sigmoid(alpha g) (1 + u)`, g at most the limit, u within the limit on either side
    SwiGluOai {
        /// Factor within the sigmoid.
        alpha: f32,
        /// Bound of the operands.
        limit: f32,
    },
    /// `silu(g) u`, g at most the limit, u within the limit on either side
    SwiGluClamp {
        /// Bound of the operands.
        limit: f32,
    },
}

/// How a tensor is sampled at other extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sampling {
    /// The element at or before the place.
    Nearest,
    /// Linear between neighbours along axes 0 and 1.
    Bilinear,
    /// The mean under a triangle as wide as two steps along axes 0 and 1, of the coarser of both grids.
    Antialiased,
    /// Cubic convolution along axes 0 and 1 with a = -0.75.
    Bicubic,
}

/// Which elements of a square matrix are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Triangle {
    /// Those above the diagonal, and the diagonal.
    UpperDiagonal,
    /// Those above the diagonal: axis 0 beyond axis 1.
    Upper,
    /// Those below the diagonal, and the diagonal.
    LowerDiagonal,
    /// Those below the diagonal.
    Lower,
}

/// One op. Operand order and semantics are ggml's; floats are F32 unless a row says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// MUL_MAT: `dst[m, n, ..] = sum_k a[k, m, ..] b[k, n, ..]`; a may be of any type that is no integer; axes 2, 3 of a repeat blockwise (GQA).
    MulMat,
    /// OUT_PROD: `dst[m, n, ..] = sum_k a[m, k, ..] b[n, k, ..]`; same types and broadcast as `MulMat`.
    OutProd,
    /// Elementwise of two operands.
    Binary(Binary),
    /// `x * scale + bias`
    Scale {
        /// Factor.
        scale: f32,
        /// Added after scaling.
        bias: f32,
    },
    /// Elementwise of one operand.
    Unary(Unary),
    /// Gradient of SiLU: operands dy, x.
    SiluBack,
    /// Gradient of Tanh: operands dy, y.
    TanhBack,
    /// Gradient of Gelu: operands dy, x.
    GeluBack,
    /// Split SwiGLU: `silu(gate) * up`.
    SwiGlu,
    /// Split GEGLU: `gelu(gate) * up`, with Gelu's approximation.
    GeGlu,
    /// Another split gated unit.
    Gated(Gate),
    /// `x / sqrt(mean(x^2) + eps)` along axis 0.
    RmsNorm {
        /// Added to the mean square.
        eps: f32,
    },
    /// Gradient of RmsNorm: operands dy, x.
    RmsNormBack {
        /// Added to the mean square.
        eps: f32,
    },
    /// Rotary embedding or its gradient: operands x `[hd, heads, T, B]`, positions I32 `[T]` or four times as many in modes with
    /// sections, optional frequency factors F32, one for each pair.
    Rope(Rope),
    /// `softmax(scale * x + slope * mask)` along axis 0; the next operand, the F32 or F16 mask, is optional and repeats over axes 2, 3
    /// by modulo. A row without any finite logit becomes zero.
    SoftMax {
        /// Factor on x.
        scale: f32,
        /// ALiBi: the slope of head h (index of axis 2) is `2^(-max_bias (h + 1) / n)` for the first n heads, n the greatest power of
        /// two up to their number, and `2^(-max_bias (h - n + 1/2) / n)` for the others; 1 for all where this is 0.
        max_bias: f32,
        /// Whether the last operand is a logit F32 `[heads]` that enters the sum of every row of its head and gets no weight.
        sinks: bool,
    },
    /// Gradient of SoftMax: operands dy, y; whatever mask, slopes and sinks made y.
    SoftMaxBack {
        /// Factor on x of the forward op.
        scale: f32,
    },
    /// Repeats the operand to the output's shape.
    Repeat,
    /// Sums the operand over its repeats down to the output's shape.
    RepeatBack,
    /// Copies values to a tensor of the same number of elements (CONT, CPY, DUP).
    Copy,
    /// The operand as a box within zeros: its element i is element `before + i` of the output.
    Pad {
        /// Elements of the output before the box, per axis.
        before: Shape,
    },
    /// SET, and CPY to a view: operands base, part; the base with the part at the inset. Plain types convert, others must agree.
    Set(Inset),
    /// ACC: operands base, part, F32; the base with the part added at the inset.
    Acc(Inset),
    /// SET_ROWS: operands base, rows, ids `[r]` (I32 or I64, repeated over axes 2 and 3 as the rows have it); the base with row i of the rows at
    /// row `ids[i]` of the inset. An id that is no row is left out; of equal ids one row remains.
    SetRows(Inset),
    /// Operands a, b of one plain dtype, side by side along an axis.
    Concat {
        /// The axis.
        axis: u32,
    },
    /// The operand repeated without end: element i of the output is element `i - before` modulo the extents.
    PadCircular {
        /// Elements of the output before the operand, per axis.
        before: Shape,
    },
    /// The operand mirrored at both ends of axis 0, its first and last elements once.
    PadReflect {
        /// Elements of the output before the operand.
        before: u32,
    },
    /// The elements moved along every axis, round its end.
    Roll {
        /// Steps per axis, fewer than its extent.
        shift: [i32; 4],
    },
    /// UPSCALE: the operand sampled at the output's extents, by the nearest element along axes 2 and 3.
    Upscale {
        /// How along axes 0 and 1.
        sampling: Sampling,
        /// First and last elements of axes 0 and 1 meet, instead of their outer edges.
        align_corners: bool,
    },
    /// Rows `[n, 1, ..]` as the diagonals of matrices.
    Diag,
    /// Minus infinity where axis 0 is beyond axis 1 by more than `past`.
    DiagMaskInf {
        /// Elements of the first row that stay, but one.
        past: u32,
    },
    /// Zero there.
    DiagMaskZero {
        /// Elements of the first row that stay, but one.
        past: u32,
    },
    /// Zero outside a triangle of axes 0 and 1.
    Tri(Triangle),
    /// No operands; one value everywhere. The tensor that ggml's node names as source gives it nothing but its shape.
    Fill {
        /// The value.
        value: f32,
    },
    /// No operands; `start + i step` along axis 0.
    Arange {
        /// First element.
        start: f32,
        /// Difference of neighbours.
        step: f32,
    },
    /// Cosines, then sines, of each element of a vector at frequencies that fall from 1 to `1 / max_period`: `[t]` -> `[n, t]`; an odd
    /// last element is zero.
    TimestepEmbedding {
        /// Ratio of the frequencies.
        max_period: u32,
    },
    /// GET_ROWS: operands table `[n, rows]` of any type but I64, ids I32 `[r]` -> F32 `[n, r]`, or I32 of I32.
    GetRows,
    /// GET_ROWS_BACK: operands dy `[n, r]`, ids I32 `[r]` -> `[n, rows]`, zero where no id points; duplicates add.
    GetRowsBack,
    /// `-(1/rows) sum labels * log_softmax(x)`: operands x, labels -> one scalar.
    CrossEntropyLoss,
    /// `(softmax(x) - labels) * g / rows`: operands g (scalar), x, labels.
    CrossEntropyLossBack,
    /// Index of the last greatest element of each row -> I32 `[rows]`.
    ArgMax,
    /// The sum of all elements -> one scalar.
    Sum,
    /// The sum of each row -> `[1, ..]`.
    SumRows,
    /// The mean of each row -> `[1, ..]`.
    Mean,
    /// Each element with all before it in its row, summed.
    CumSum,
    /// `(x - mean) / sqrt(variance + eps)` along axis 0.
    Norm {
        /// Added to the variance.
        eps: f32,
    },
    /// The same over axes 0 and 1 and groups of neighbours of axis 2, as many as make `groups` of them (the last may have less).
    GroupNorm {
        /// Groups that axis 2 is cut into.
        groups: u32,
        /// Added to the variance.
        eps: f32,
    },
    /// `x / max(sqrt(sum(x^2)), eps)` along axis 0.
    L2Norm {
        /// Least divisor.
        eps: f32,
    },
    /// ADD_ID: operands x `[n, u, t, ..]`, table `[n, rows]`, ids I32 `[u, t]`: row (i, j) of x plus the row of the table that id (i, j)
    /// names.
    AddId,
    /// Indices that sort each row -> I32; equal elements keep their order.
    ArgSort {
        /// Greatest first.
        descending: bool,
    },
    /// Indices of the greatest elements of each row -> I32 `[k, ..]`, greatest first; of equal ones the first.
    TopK,
    /// SGD step: operands w, g, params F32`[2]` {alpha, wd}; w is updated in place.
    Sgd,
    /// AdamW step: operands w, g, m, v, params F32`[7]` {alpha, beta1, beta2, eps, wd, 1/(1-beta1^t), 1/(1-beta2^t)}; w, m, v are updated in place.
    AdamW,
}

impl Op {
    /// A softmax without ALiBi and sinks.
    pub const fn soft_max(scale: f32) -> Self {
        Self::SoftMax { scale, max_bias: 0.0, sinks: false }
    }
}
