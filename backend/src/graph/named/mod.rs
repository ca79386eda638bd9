//! Ops by the names of the table, with attributes as text: how hosts ask for them that do not speak Rust.

mod attributes;

use attributes::Attributes;

pub use attributes::Attribute;

use super::{
    Binary, FlashAttn, Gate, Inset, Op, Pool, PoolKind, ROWS, Rope, RopeMode, Row, Sampling, Triangle, Unary, Window,
};

/// Why a name and attributes are no op.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NamedError {
    /// No row of the table has this name.
    #[error("there is no op {0:?}")]
    Unknown(String),
    /// An attribute is missing, unknown, or has a value that it cannot have.
    #[error("{op}: {rule}")]
    Attribute {
        /// Name of the op.
        op: &'static str,
        /// The attribute and the rule.
        rule: String,
    },
}

impl Op {
    /// The op that a row of the table names, with its attributes, such as `RMS_NORM` with `eps=1e-5`.
    ///
    /// # Errors
    /// There is no such op, or it has no such attribute.
    pub fn named(name: &str, attributes: &str) -> Result<Self, NamedError> {
        let row = ROWS.iter().find(|row| row.name == name).ok_or_else(|| NamedError::Unknown(name.to_owned()))?;
        let refusal = |rule| NamedError::Attribute { op: row.name, rule };
        let mut attributes = Attributes::parse(attributes).map_err(refusal)?;
        let op = make(row.name, &mut attributes).map_err(refusal)?;
        attributes.finish().map_err(refusal)?;
        Ok(op)
    }
}

impl Row {
    /// The attributes that [`Op::named`] takes.
    pub fn attributes(&self) -> Vec<Attribute> {
        let mut listening = Attributes::listening();
        make(self.name, &mut listening).expect("whatever is asked for is given");
        listening.asked()
    }

    /// Why gradients do not pass the op; `None` where they do.
    pub fn no_gradient(&self) -> Option<&'static str> {
        self.gradient.err()
    }
}

/// The op of a row, asking for its attributes.
fn make(name: &'static str, a: &mut Attributes<'_>) -> Result<Op, String> {
    Ok(match name {
        "MUL_MAT" => Op::MulMat,
        "OUT_PROD" => Op::OutProd,
        "FLASH_ATTN_EXT" => Op::FlashAttn(flash_attn(a)?),
        "FLASH_ATTN_BACK_Q" => Op::FlashAttnBackQ(flash_attn(a)?),
        "FLASH_ATTN_BACK_KV" => Op::FlashAttnBackKv(flash_attn(a)?),
        "MUL_MAT_ID" => Op::MulMatId,
        "ADD" => Op::Binary(Binary::Add),
        "SUB" => Op::Binary(Binary::Sub),
        "MUL" => Op::Binary(Binary::Mul),
        "DIV" => Op::Binary(Binary::Div),
        "SCALE" => Op::Scale { scale: a.number_or("scale", 1.0)?, bias: a.number_or("bias", 0.0)? },
        "SILU_BACK" => Op::SiluBack,
        "TANH_BACK" => Op::TanhBack,
        "GELU_BACK" => Op::GeluBack,
        "SWIGLU" => Op::SwiGlu,
        "GEGLU" => Op::GeGlu,
        "REGLU" => Op::Gated(Gate::ReGlu),
        "GEGLU_ERF" => Op::Gated(Gate::GeGluErf),
        "GEGLU_QUICK" => Op::Gated(Gate::GeGluQuick),
        "SWIGLU_OAI" => Op::Gated(Gate::SwiGluOai { alpha: a.number("alpha")?, limit: a.number("limit")? }),
        "SWIGLU_CLAMP" => Op::Gated(Gate::SwiGluClamp { limit: a.number("limit")? }),
        "RMS_NORM" => Op::RmsNorm { eps: a.number("eps")? },
        "RMS_NORM_BACK" => Op::RmsNormBack { eps: a.number("eps")? },
        "NORM" => Op::Norm { eps: a.number("eps")? },
        "GROUP_NORM" => Op::GroupNorm { groups: a.count("groups")?, eps: a.number("eps")? },
        "L2_NORM" => Op::L2Norm { eps: a.number("eps")? },
        "ROPE" => Op::Rope(rope(a, false)?),
        "ROPE_BACK" => Op::Rope(rope(a, true)?),
        "SOFT_MAX" => Op::SoftMax {
            scale: a.number_or("scale", 1.0)?,
            max_bias: a.number_or("max_bias", 0.0)?,
            sinks: a.flag("sinks")?,
        },
        "SOFT_MAX_BACK" => Op::SoftMaxBack { scale: a.number_or("scale", 1.0)? },
        "CROSS_ENTROPY_LOSS" => Op::CrossEntropyLoss,
        "CROSS_ENTROPY_LOSS_BACK" => Op::CrossEntropyLossBack,
        "ARGMAX" => Op::ArgMax,
        "ARGSORT" => Op::ArgSort { descending: a.flag("descending")? },
        "TOP_K" => Op::TopK,
        "SUM" => Op::Sum,
        "SUM_ROWS" => Op::SumRows,
        "MEAN" => Op::Mean,
        "CUMSUM" => Op::CumSum,
        "COUNT_EQUAL" => Op::CountEqual,
        "ADD_ID" => Op::AddId,
        "GET_ROWS" => Op::GetRows,
        "GET_ROWS_BACK" => Op::GetRowsBack,
        "OPT_STEP_SGD" => Op::Sgd,
        "OPT_STEP_ADAMW" => Op::AdamW,
        _ => return unary(name, a)?.map_or_else(|| moved(name, a), |unary| Ok(Op::Unary(unary))),
    })
}

fn unary(name: &str, a: &mut Attributes<'_>) -> Result<Option<Unary>, String> {
    Ok(Some(match name {
        "SILU" => Unary::Silu,
        "NEG" => Unary::Neg,
        "SQR" => Unary::Sqr,
        "SQRT" => Unary::Sqrt,
        "TANH" => Unary::Tanh,
        "GELU" => Unary::Gelu,
        "ABS" => Unary::Abs,
        "SGN" => Unary::Sgn,
        "STEP" => Unary::Step,
        "ELU" => Unary::Elu,
        "RELU" => Unary::Relu,
        "SIGMOID" => Unary::Sigmoid,
        "GELU_QUICK" => Unary::GeluQuick,
        "HARDSWISH" => Unary::HardSwish,
        "HARDSIGMOID" => Unary::HardSigmoid,
        "EXP" => Unary::Exp,
        "EXPM1" => Unary::Expm1,
        "SOFTPLUS" => Unary::Softplus,
        "GELU_ERF" => Unary::GeluErf,
        "XIELU" => Unary::XIelu {
            alpha_n: a.number("alpha_n")?,
            alpha_p: a.number("alpha_p")?,
            beta: a.number("beta")?,
            eps: a.number("eps")?,
        },
        "FLOOR" => Unary::Floor,
        "CEIL" => Unary::Ceil,
        "ROUND" => Unary::Round,
        "TRUNC" => Unary::Trunc,
        "LOG" => Unary::Log,
        "SIN" => Unary::Sin,
        "COS" => Unary::Cos,
        "CLAMP" => Unary::Clamp { min: a.number("min")?, max: a.number("max")? },
        "LEAKY_RELU" => Unary::LeakyRelu { slope: a.number("slope")? },
        _ => return Ok(None),
    }))
}

/// Ops that put values elsewhere, or make them.
fn moved(name: &'static str, a: &mut Attributes<'_>) -> Result<Op, String> {
    Ok(match name {
        "REPEAT" => Op::Repeat,
        "REPEAT_BACK" => Op::RepeatBack,
        "CPY" => Op::Copy,
        "PAD" => Op::Pad { before: a.list("before", Some(0))? },
        "PAD_CIRCULAR" => Op::PadCircular { before: a.list("before", Some(0))? },
        "PAD_REFLECT_1D" => Op::PadReflect { before: a.count_or("before", 0)? },
        "CONCAT" => Op::Concat { axis: a.count("axis")? },
        "ROLL" => Op::Roll { shift: a.list("shift", Some(0))? },
        "DIAG" => Op::Diag,
        "DIAG_MASK_INF" => Op::DiagMaskInf { past: a.count_or("past", 0)? },
        "DIAG_MASK_ZERO" => Op::DiagMaskZero { past: a.count_or("past", 0)? },
        "TRI" => Op::Tri(a.word(
            "keep",
            &[
                ("lower-diagonal", Triangle::LowerDiagonal),
                ("lower", Triangle::Lower),
                ("upper-diagonal", Triangle::UpperDiagonal),
                ("upper", Triangle::Upper),
            ],
        )?),
        "UPSCALE" => Op::Upscale {
            sampling: a.word(
                "sampling",
                &[
                    ("nearest", Sampling::Nearest),
                    ("bilinear", Sampling::Bilinear),
                    ("antialiased", Sampling::Antialiased),
                    ("bicubic", Sampling::Bicubic),
                ],
            )?,
            align_corners: a.flag("align_corners")?,
        },
        "FILL" => Op::Fill { value: a.number_or("value", 0.0)? },
        "ARANGE" => Op::Arange { start: a.number_or("start", 0.0)?, step: a.number_or("step", 1.0)? },
        "TIMESTEP_EMBEDDING" => Op::TimestepEmbedding { max_period: a.count_or("max_period", 10_000)? },
        "SET" => Op::Set(inset(a)?),
        "ACC" => Op::Acc(inset(a)?),
        "SET_ROWS" => Op::SetRows(inset(a)?),
        _ => return windowed(name, a),
    })
}

/// Convolutions, pools, recurrences and what mixes streams.
fn windowed(name: &'static str, a: &mut Attributes<'_>) -> Result<Op, String> {
    Ok(match name {
        "IM2COL" => Op::Im2Col { window: window(a)?, plane: a.flag("plane")? },
        "IM2COL_BACK" => Op::Im2ColBack { window: window(a)?, plane: a.flag("plane")? },
        "IM2COL_3D" => Op::Im2Col3d { window: window(a)?, channels: a.count("channels")? },
        "COL2IM_1D" => Op::Col2Im1d {
            stride: a.count_or("stride", 1)?,
            channels: a.count("channels")?,
            pad: a.count_or("pad", 0)?,
        },
        "CONV_2D" => Op::Conv2d(window(a)?),
        "CONV_2D_DW" => Op::Conv2dDw(window(a)?),
        "CONV_3D" => Op::Conv3d { window: window(a)?, channels: a.count("channels")? },
        "CONV_TRANSPOSE_1D" => Op::ConvTranspose1d { stride: a.count_or("stride", 1)? },
        "CONV_TRANSPOSE_2D" => Op::ConvTranspose2d { stride: a.count_or("stride", 1)? },
        "POOL_1D" => Op::Pool1d(pool(a)?),
        "POOL_2D" => Op::Pool2d(pool(a)?),
        "POOL_2D_BACK" => Op::Pool2dBack(pool(a)?),
        "SSM_CONV" => Op::SsmConv,
        "SSM_SCAN" => Op::SsmScan { snapshots: a.count_or("snapshots", 1)? },
        "RWKV_WKV6" => Op::RwkvWkv6,
        "RWKV_WKV7" => Op::RwkvWkv7,
        "GATED_LINEAR_ATTN" => Op::GatedLinearAttn { scale: a.number_or("scale", 1.0)? },
        "GATED_DELTA_NET" => Op::GatedDeltaNet { snapshots: a.count_or("snapshots", 1)? },
        "SOLVE_TRI" => Op::SolveTri,
        "LIGHTNING_INDEXER" => Op::LightningIndexer,
        "DSV4_HC_COMB" => Op::Dsv4HcComb { eps: a.number("eps")?, iterations: a.count("iterations")? },
        "DSV4_HC_PRE" => Op::Dsv4HcPre { scale: a.number_or("scale", 1.0)?, gated: a.flag("gated")? },
        "DSV4_HC_POST" => Op::Dsv4HcPost,
        _ => return Err("cannot be asked for by name".to_owned()),
    })
}

fn flash_attn(a: &mut Attributes<'_>) -> Result<FlashAttn, String> {
    Ok(FlashAttn {
        scale: a.number_or("scale", 1.0)?,
        max_bias: a.number_or("max_bias", 0.0)?,
        softcap: a.number_or("softcap", 0.0)?,
        mask: a.flag("mask")?,
        sinks: a.flag("sinks")?,
        logs: a.flag("logs")?,
    })
}

fn rope(a: &mut Attributes<'_>, back: bool) -> Result<Rope, String> {
    let modes = [
        ("normal", RopeMode::Normal),
        ("neox", RopeMode::Neox),
        ("multi", RopeMode::Multi),
        ("interleaved", RopeMode::Interleaved),
        ("vision", RopeMode::Vision),
    ];
    Ok(Rope {
        mode: a.word("mode", &modes)?,
        n_dims: a.count("n_dims")?,
        offset: a.count_or("offset", 0)?,
        sections: a.list("sections", Some(0))?,
        n_ctx_orig: a.count_or("n_ctx_orig", 0)?,
        freq_base: a.number_or("freq_base", 10_000.0)?,
        freq_scale: a.number_or("freq_scale", 1.0)?,
        ext_factor: a.number_or("ext_factor", 0.0)?,
        attn_factor: a.number_or("attn_factor", 1.0)?,
        beta_fast: a.number_or("beta_fast", 32.0)?,
        beta_slow: a.number_or("beta_slow", 1.0)?,
        back,
    })
}

fn inset(a: &mut Attributes<'_>) -> Result<Inset, String> {
    Ok(Inset { shape: a.list("shape", None)?, strides: a.list("strides", None)?, offset: a.count_or("offset", 0)? })
}

fn window(a: &mut Attributes<'_>) -> Result<Window, String> {
    Ok(Window {
        stride: a.list("stride", Some(1))?,
        pad: a.list("pad", Some(0))?,
        dilation: a.list("dilation", Some(1))?,
    })
}

fn pool(a: &mut Attributes<'_>) -> Result<Pool, String> {
    let kinds = [("max", PoolKind::Max), ("average", PoolKind::Average), ("average-inside", PoolKind::AverageInside)];
    Ok(Pool {
        kind: a.word("kind", &kinds)?,
        extent: a.list("extent", None)?,
        stride: a.list("stride", Some(1))?,
        pad: a.list("pad", Some(0))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_its_name() {
        for row in ROWS {
            let needed = row.attributes().into_iter().filter(|attribute| attribute.default.is_none());
            let text = |a: Attribute| match a.value.starts_with(|c: char| c.is_ascii_digit()) {
                true => format!("{}={}", a.name, vec!["1"; a.value[..1].parse().unwrap()].join(",")),
                false => format!("{}=1", a.name),
            };
            let text = needed.map(text).collect::<Vec<_>>().join(" ");
            let op = Op::named(row.name, &text).unwrap_or_else(|e| panic!("{} with {text:?}: {e}", row.name));
            assert!(std::ptr::eq(op.row(), *row), "{} is {:?}", row.name, op);
        }
    }

    #[test]
    fn attributes_are_read_by_name_in_any_order() {
        let named = |attributes| Op::named("ROPE", attributes).unwrap();
        let expected = Op::Rope(Rope::plain(RopeMode::Neox, 64, 0, 5e5));
        assert_eq!(named("mode=neox n_dims=64 freq_base=5e5"), expected);
        assert_eq!(named("  freq_base=500000 n_dims=64\tmode=neox"), expected);
        let window = Window { stride: [2, 1, 1], ..Window::PLAIN };
        assert_eq!(Op::named("CONV_2D", "stride=2"), Ok(Op::Conv2d(window)));
        assert_eq!(Op::named("ROLL", "shift=0,-3"), Ok(Op::Roll { shift: [0, -3, 0, 0] }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, attributes, rule) in [
            ("MULMAT", "", r#"there is no op "MULMAT""#),
            ("RMS_NORM", "", "RMS_NORM: attribute eps is missing: a number"),
            ("RMS_NORM", "eps=nan", r#"attribute eps is "nan", must be a number"#),
            ("RMS_NORM", "eps=1 eps=2", "attribute eps is given twice"),
            ("RMS_NORM", "eps", r#""eps" is not of the form name=value"#),
            ("RMS_NORM", "eps=1 bias=2", r#"there is no attribute "bias"; known are eps"#),
            ("ADD", "eps=1", r#"there is no attribute "eps", nor any other"#),
            ("ROPE", "n_dims=8 mode=gptj", "must be one of normal, neox, multi, interleaved, vision"),
            ("SET", "shape=1,2,3 strides=1,1,1,1", "must be 4 whole numbers"),
            ("PAD", "before=1,2,3,4,5", "must be up to 4 whole numbers"),
        ] {
            let error = Op::named(name, attributes).unwrap_err().to_string();
            assert!(error.contains(rule), "{error}");
        }
    }
}
