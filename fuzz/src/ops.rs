//! Any op, with parameters that mostly make sense.

use std::sync::LazyLock;

use arbitrary::{Result, Unstructured};
use fblayout::graph::{
    Binary, FlashAttn, Gate, Inset, Op, Pool, PoolKind, ROWS, Rope, RopeMode, Row, Sampling, Triangle, Unary, Window,
};

use crate::numbers::{number, numbers};

/// One of all ops.
pub fn op(u: &mut Unstructured<'_>) -> Result<Op> {
    let eps = 1e-5;
    Ok(match u.int_in_range(0..=79)? {
        0..=5 => Op::MulMat,
        6 | 7 => Op::OutProd,
        8 => Op::MulMatId,
        9 | 10 => Op::FlashAttn(attention(u)?),
        11 => Op::FlashAttnBackQ(attention(u)?),
        12 => Op::FlashAttnBackKv(attention(u)?),
        13..=18 => Op::Binary(pick(&[Binary::Add, Binary::Sub, Binary::Mul, Binary::Div], u)?),
        19 => Op::Scale { scale: 0.5, bias: 1.0 },
        20..=23 => Op::Unary(pick(&UNARY, u)?),
        24 => pick(&[Op::SiluBack, Op::TanhBack, Op::GeluBack, Op::SwiGlu, Op::GeGlu], u)?,
        25 => Op::Gated(pick(
            &[
                Gate::ReGlu,
                Gate::GeGluErf,
                Gate::GeGluQuick,
                Gate::SwiGluOai { alpha: 1.7, limit: 7.0 },
                Gate::SwiGluClamp { limit: 7.0 },
            ],
            u,
        )?),
        26 | 27 => Op::RmsNorm { eps },
        28 => Op::RmsNormBack { eps },
        29..=31 => Op::Rope(rope(u)?),
        32 | 33 => Op::SoftMax { scale: 0.1, max_bias: if u.arbitrary()? { 8.0 } else { 0.0 }, sinks: u.arbitrary()? },
        34 => Op::SoftMaxBack { scale: 0.1 },
        35 => Op::Repeat,
        36 => Op::RepeatBack,
        37..=39 => Op::Copy,
        40 => Op::Pad { before: numbers(u)? },
        41 => Op::Set(inset(u)?),
        42 => Op::Acc(inset(u)?),
        43 => Op::SetRows(inset(u)?),
        44 => Op::Concat { axis: number(u)?.wrapping_sub(1) },
        45 => Op::PadCircular { before: numbers(u)? },
        46 => Op::PadReflect { before: number(u)? },
        47 => Op::Roll { shift: numbers(u)?.map(|n: u32| n as i32) },
        48 => {
            use Sampling::{Antialiased, Bicubic, Bilinear, Nearest};
            let sampling = pick(&[Nearest, Bilinear, Antialiased, Bicubic], u)?;
            Op::Upscale { sampling, align_corners: u.arbitrary()? }
        }
        49 => Op::Diag,
        50 => Op::DiagMaskInf { past: number(u)? },
        51 => Op::DiagMaskZero { past: number(u)? },
        52 => {
            use Triangle::{Lower, LowerDiagonal, Upper, UpperDiagonal};
            Op::Tri(pick(&[UpperDiagonal, Upper, LowerDiagonal, Lower], u)?)
        }
        53 => pick(&[Op::Fill { value: 1.0 }, Op::Arange { start: 0.0, step: 1.0 }], u)?,
        54 => Op::TimestepEmbedding { max_period: number(u)? },
        55 | 56 => Op::GetRows,
        57 => Op::GetRowsBack,
        58 => Op::CrossEntropyLoss,
        59 => Op::CrossEntropyLossBack,
        60 => pick(&[Op::ArgMax, Op::Sum, Op::CountEqual, Op::SumRows, Op::Mean, Op::CumSum, Op::TopK, Op::AddId], u)?,
        61 => pick(&[Op::Norm { eps }, Op::L2Norm { eps }], u)?,
        62 => Op::GroupNorm { groups: number(u)?, eps },
        63 => Op::ArgSort { descending: u.arbitrary()? },
        64 => Op::Sgd,
        65 => Op::AdamW,
        66 => Op::Im2Col { window: window(u)?, plane: u.arbitrary()? },
        67 => Op::Im2ColBack { window: window(u)?, plane: u.arbitrary()? },
        68 => Op::Im2Col3d { window: window(u)?, channels: number(u)? },
        69 => Op::Col2Im1d { stride: number(u)?, channels: number(u)?, pad: number(u)?.wrapping_sub(1) },
        70 => pick(&[Op::Conv2d(window(u)?), Op::Conv2dDw(window(u)?)], u)?,
        71 => Op::Conv3d { window: window(u)?, channels: number(u)? },
        72 => Op::ConvTranspose1d { stride: number(u)? },
        73 => Op::ConvTranspose2d { stride: number(u)? },
        74 => pick(&[Op::Pool1d(pool(u)?), Op::Pool2d(pool(u)?), Op::Pool2dBack(pool(u)?)], u)?,
        75 => pick(&[Op::SsmConv, Op::SsmScan { snapshots: number(u)? }], u)?,
        76 => pick(&[Op::RwkvWkv6, Op::RwkvWkv7, Op::GatedLinearAttn { scale: 0.5 }], u)?,
        77 => pick(&[Op::GatedDeltaNet { snapshots: number(u)? }, Op::SolveTri], u)?,
        78 => pick(&[Op::LightningIndexer, Op::Dsv4HcComb { eps, iterations: number(u)? }], u)?,
        _ => pick(&[Op::Dsv4HcPre { scale: 1.0, gated: u.arbitrary()? }, Op::Dsv4HcPost], u)?,
    })
}

fn attention(u: &mut Unstructured<'_>) -> Result<FlashAttn> {
    let (mask, sinks, logs) = (u.arbitrary()?, u.arbitrary()?, u.arbitrary()?);
    Ok(FlashAttn { scale: 0.1, max_bias: if u.arbitrary()? { 8.0 } else { 0.0 }, softcap: 0.0, mask, sinks, logs })
}

fn rope(u: &mut Unstructured<'_>) -> Result<Rope> {
    use RopeMode::{Interleaved, Multi, Neox, Normal, Vision};
    let mode = pick(&[Normal, Neox, Multi, Interleaved, Vision], u)?;
    let offset = if u.ratio(1, 4)? { number(u)? } else { 0 };
    let sections = if mode.has_sections() { numbers(u)? } else { [0; 4] };
    Ok(Rope { offset, sections, back: u.arbitrary()?, ..Rope::plain(mode, number(u)?, 4096, 10_000.0) })
}

fn inset(u: &mut Unstructured<'_>) -> Result<Inset> {
    Ok(Inset { shape: numbers(u)?, strides: numbers(u)?, offset: number(u)?.wrapping_sub(1) })
}

fn window(u: &mut Unstructured<'_>) -> Result<Window> {
    Ok(Window { stride: numbers(u)?, pad: numbers(u)?.map(|n: u32| n.wrapping_sub(1)), dilation: numbers(u)? })
}

fn pool(u: &mut Unstructured<'_>) -> Result<Pool> {
    let kind = pick(&[PoolKind::Max, PoolKind::Average, PoolKind::AverageInside], u)?;
    Ok(Pool { kind, extent: numbers(u)?, stride: numbers(u)?, pad: numbers(u)?.map(|n: u32| n.wrapping_sub(1)) })
}

/// Every function of one operand that the table has, between minus a half and a half where it asks for numbers.
static UNARY: LazyLock<Vec<Unary>> = LazyLock::new(|| {
    let function = |row: &&Row| {
        let attributes: Vec<String> = row
            .attributes()
            .iter()
            .map(|a| format!("{}={}", a.name, if a.name == "min" { -0.5 } else { 0.5 }))
            .collect();
        match Op::named(row.name, &attributes.join(" ")) {
            Ok(Op::Unary(function)) => Some(function),
            _ => None,
        }
    };
    ROWS.iter().filter_map(function).collect()
});

/// One of these. They are made first, for they take from the same input.
fn pick<T: Copy>(all: &[T], u: &mut Unstructured<'_>) -> Result<T> {
    u.choose(all).copied()
}
