//! The ops, with the parameters that change what they compute.

use super::{Pool, Shape, Window};

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

/// Parameters of attention, as ggml's `ggml_flash_attn_ext`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlashAttn {
    /// Factor on the scores.
    pub scale: f32,
    /// ALiBi: the mask of each head is scaled by a slope of its own if this is positive, see [`FlashAttn::slope`].
    pub max_bias: f32,
    /// Scores are bounded to this magnitude by a hyperbolic tangent, before the mask is added; 0 leaves them as they are.
    pub softcap: f32,
    /// Whether there is a mask, operand 3.
    pub mask: bool,
    /// Whether there are sinks, the last operand.
    pub sinks: bool,
    /// Whether the result keeps what its gradients need: behind the heads, as many more as it takes, the logarithm of the sum of
    /// weights of each row of scores, see [`FlashAttn::log_place`].
    pub logs: bool,
}

impl FlashAttn {
    /// Heads that it takes to hold four elements for each of `heads`, where each has rows of `size` elements.
    pub fn log_heads(size: u32, heads: u32) -> u32 {
        heads.div_ceil((size / 4).max(1))
    }

    /// Where the four elements of a head begin: element of a row, and head. The first element is the logarithm of the sum of
    /// weights, 0 for a query that sees nothing; the second is what a gradient adds; the others are zero.
    pub fn log_place(size: u32, heads: u32, head: u32) -> [u32; 2] {
        let quads = (size / 4).max(1);
        [head % quads * 4, heads + head / quads]
    }

    /// Factor on the mask of a head.
    pub fn slope(&self, head: u32, heads: u32) -> f64 {
        if self.max_bias <= 0.0 {
            return 1.0;
        }
        let half = 1 << heads.ilog2();
        let step = -f64::from(self.max_bias) / f64::from(half);
        if head < half {
            (step * f64::from(head + 1)).exp2()
        } else {
            (step / 2.0 * f64::from(2 * (head - half) + 1)).exp2()
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
    /// MUL_MAT: `dst[m, n, ..] = sum_k a[k, m, ..] b[k, n, ..]`; a may be of any type that is no integer, b
    /// F32, or F16 or BF16 where matrix units multiply it; axes 2, 3 of a repeat blockwise (GQA).
    MulMat,
    /// OUT_PROD: `dst[m, n, ..] = sum_k a[m, k, ..] b[n, k, ..]`; same types and broadcast as `MulMat`.
    OutProd,
    /// FLASH_ATTN_EXT: `softmax(scale q k + slope mask) v` per query and head. Operands q `[hsk, n, heads, b]`, k `[hsk, kv, ..]`,
    /// v `[hsv, kv, ..]`, whose heads and batches are shared by as many neighbours of q's as it takes; then, where there are, a mask
    /// `[>= kv, >= n, ..]` (F16, BF16 or F32), which repeats over heads and batches by modulo, and sinks `[heads]`: logits of one more
    /// key without a value. Gives `[hsv, heads, n, b]`, and more heads with logs; a query that sees nothing gives zeros. k and v may be of any type that caches come in.
    FlashAttn(FlashAttn),
    /// Gradient of FlashAttn by the queries: operands q, k, v and a mask where there is one, all F32 but for the mask, v's extents those
    /// of k, rows of whole quads; the result y with logs; dy `[hsv, heads, n, b]`. Gives `[hsk, heads, n, b]` and behind
    /// these heads, for the other gradient, the logs and the sums of `dy y` beside them. Sinks are in the logs.
    FlashAttnBackQ(FlashAttn),
    /// Gradients of FlashAttn by keys and values: operands as before, but the result of FlashAttnBackQ for y, of which only what is
    /// behind the heads matters. Gives `[hs, 2 kv heads, kv, b]`: the keys', then the values'.
    FlashAttnBackKv(FlashAttn),
    /// MUL_MAT_ID: `dst[m, i, t] = sum_k a[k, m, ids[i, t]] b[k, i, t]`. Operands a `[k, m, experts]` of `MulMat`'s types,
    /// b `[k, used or fewer that repeat, tokens]`, ids I32 `[used, tokens]`; an id that names no expert gives zeros.
    MulMatId,
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
    /// GET_ROWS: operands table `[n, rows, b2, b3]` of any type but I64, ids I32 `[r, b2, b3]` -> F32 `[n, r, b2, b3]`, or I32 of I32.
    GetRows,
    /// GET_ROWS_BACK: operands dy `[n, r]`, ids I32 `[r or fewer]` -> `[n, rows]`, zero where no id points; duplicates add, rows without an
    /// id are left out.
    GetRowsBack,
    /// `-(1/rows) sum labels * log_softmax(x)`: operands x, labels -> one scalar.
    CrossEntropyLoss,
    /// `(softmax(x) - labels) * g / rows`: operands g (scalar), x, labels.
    CrossEntropyLossBack,
    /// Index of the last greatest element of each row -> I32 `[rows]`.
    ArgMax,
    /// The sum of all elements -> one scalar.
    Sum,
    /// How many elements of two I32 operands of one shape are equal -> I64, one scalar.
    CountEqual,
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
    /// IM2COL: the patches under a kernel's windows as columns of a matrix; operands kernel, of which only the extents matter, and
    /// image, zeros where a window leaves it.
    Im2Col {
        /// How the windows slide.
        window: Window,
        /// Kernel `[kw, kh, c, ..]`, image `[w, h, c, n]` -> `[kw kh c, ow, oh, n]`; else kernel `[kw, c, ..]`, image `[w, c, n]` ->
        /// `[kw c, ow, n]`.
        plane: bool,
    },
    /// IM2COL_BACK: gradient of the image; operands dy, kernel. Elements of patches add where they came from.
    Im2ColBack {
        /// How the windows slide.
        window: Window,
        /// As in `Im2Col`.
        plane: bool,
    },
    /// IM2COL_3D: kernel `[kw, kh, kd, oc c]`, images `[w, h, d, n c]` -> `[kw kh kd c, ow, oh, od n]`.
    Im2Col3d {
        /// How the windows slide.
        window: Window,
        /// Channels of an image.
        channels: u32,
    },
    /// COL2IM_1D: columns `[k c, t]` added at steps of the stride -> `[(t - 1) stride + k - 2 pad, c]`.
    Col2Im1d {
        /// Elements from one column to the next.
        stride: u32,
        /// Channels.
        channels: u32,
        /// Elements cut from both ends.
        pad: u32,
    },
    /// CONV_2D: kernel (F32, F16) `[kw, kh, c, oc]`, image `[w, h, c, n]` -> `[ow, oh, oc, n]`.
    Conv2d(Window),
    /// CONV_2D_DW: each channel by its own kernel (F32, F16) `[kw, kh, 1, c]`, image `[w, h, c, n]` -> `[ow, oh, c, n]`.
    Conv2dDw(Window),
    /// CONV_3D: kernel (F32, F16) `[kw, kh, kd, oc c]`, images `[w, h, d, n c]` -> `[ow, oh, od, n oc]`.
    Conv3d {
        /// How the windows slide.
        window: Window,
        /// Channels of an image.
        channels: u32,
    },
    /// CONV_TRANSPOSE_1D: kernel (F32, F16) `[kw, oc, c]`, input `[w, c]` -> `[(w - 1) stride + kw, oc]`.
    ConvTranspose1d {
        /// Outputs from one input to the next.
        stride: u32,
    },
    /// CONV_TRANSPOSE_2D: kernel (F32, F16) `[kw, kh, oc, c]`, image `[w, h, c, n]` -> `[(w - 1) stride + kw, .., oc, n]`.
    ConvTranspose2d {
        /// Outputs from one input to the next, on both axes.
        stride: u32,
    },
    /// POOL_1D: a pool along axis 0; the window has one element on axis 1.
    Pool1d(Pool),
    /// POOL_2D: a pool over axes 0 and 1.
    Pool2d(Pool),
    /// POOL_2D_BACK: gradient of Pool2d; operands dy, x.
    Pool2dBack(Pool),
    /// SSM_CONV: each channel by its own kernel along tokens; operands `[kernel - 1 + t, c, n]`, kernel `[kernel, c]` -> `[c, t, n]`.
    SsmConv,
    /// SSM_SCAN: `S = exp(d A) S + d x B`, `y = S . C` with `d = softplus(dt)`, for a state of every channel; operands first states
    /// `[s, dim, heads, any]`, x `[dim, heads, t, n]`, dt `[heads, t, n]`, A `[1 or s, heads]`, B and C `[s, groups, t, n]`, ids of the
    /// first states I32 `[n]` -> a vector: results like x, then states `[s, dim, heads, n, snapshots]`.
    SsmScan {
        /// States kept, after the last token and the ones before; zero before the first.
        snapshots: u32,
    },
    /// RWKV_WKV6: `y = r (k v bonus + S)`, `S = w S + k v` per head; operands k, v, r `[s, heads, t]`, bonus `[s, heads]`, w like k,
    /// first states `[s s heads, n]` of n sequences -> `[s heads, t + s n]`: results, then states. As ggml, only the number of states'
    /// elements and their axis 1 must be such, and the bonus may have any shape: their elements count in linear order.
    RwkvWkv6,
    /// RWKV_WKV7: `S = w S + v k + (S a) b`, `y = S r` per head; operands r, w, k, v, a, b `[s, heads, t]`, states as RwkvWkv6.
    RwkvWkv7,
    /// GATED_LINEAR_ATTN: `S = g S + k v`, `y = scale q S` per head; operands k, v, q, g `[s, heads, t]`, states as RwkvWkv6.
    GatedLinearAttn {
        /// Factor on q.
        scale: f32,
    },
    /// GATED_DELTA_NET: `S = exp(g) S`, `S += beta (v - S k) k`, `y = S q / sqrt(s)` per head; operands q, k `[s, .., t, ..]`, v
    /// `[s, heads, t, n]`, g `[1 or s, heads, t, n]`, beta `[1, heads, t, n]`, first states `[s, s, heads, n]` ->
    /// `[s heads, t n + s n snapshots]`: results, then states.
    GatedDeltaNet {
        /// As in `SsmScan`.
        snapshots: u32,
    },
    /// SOLVE_TRI: X with `A X = B`; operands lower triangular A `[n, n, ..]`, B `[k, n, ..]`.
    SolveTri,
    /// LIGHTNING_INDEXER: `sum_h max(q_h . k, 0) w_h + mask`; operands q `[e, heads, t, n]`, k (a weight's dtype) `[e, 1, keys, n]`, w
    /// `[heads, t, 1, n]`, mask (F32, F16) `[keys, t, 1, ..]` -> `[keys, t, 1, n]`.
    LightningIndexer,
    /// DSV4_HC_COMB: 4 x 4 mixing matrices `[to, from, t]` by softmax of rows, then columns and rows normalized in turns; operands
    /// mixes `[24, t]` with the logits behind 8 other weights, scales (the third counts), base `[24]`.
    Dsv4HcComb {
        /// Added to probabilities and to sums.
        eps: f32,
        /// Normalizations of columns; rows are normalized between them.
        iterations: u32,
    },
    /// DSV4_HC_PRE: residual streams `[n, h, t]` summed by weights `[h, t]`, or by the sigmoid of gates `[n, h, t]` -> `[n, t]`.
    Dsv4HcPre {
        /// Factor on the sum.
        scale: f32,
        /// Whether operand 1 has gates.
        gated: bool,
    },
    /// DSV4_HC_POST: `x w_to + sum_from mix[to, from] stream_from`, or each stream as it is; operands x `[n, t]`, streams `[n, h, t]`, w
    /// `[h, t]`, optional mix `[to, from, t]`.
    Dsv4HcPost,
}

impl Op {
    /// A softmax without ALiBi and sinks.
    pub const fn soft_max(scale: f32) -> Self {
        Self::SoftMax { scale, max_bias: 0.0, sinks: false }
    }
}
