//! The ops' gradient rules, of existing ops alone. A rule reads a forward tensor only where the gradient depends on it, for what
//! it reads decides the op's class.

use super::Call;
pub(crate) use super::attention::*;
pub(crate) use super::functions::*;
pub(crate) use super::places::*;
use crate::graph::{Binary, GraphError, Op, Operand, Rope, Shape, Unary};

pub(super) type Gradient = Result<Option<Operand>, GraphError>;

pub(super) const MUL: Op = Op::Binary(Binary::Mul);
pub(super) const DIV: Op = Op::Binary(Binary::Div);
pub(super) const NEG: Op = Op::Unary(Unary::Neg);

/// `y[m, n] = sum_k a[k, m] b[k, n]`: `da[k, m] = sum_n b[k, n] dy[m, n]`, `db[k, n] = sum_m a[k, m] dy[m, n]`.
pub(crate) fn mul_mat(call: &mut Call<'_>) -> Gradient {
    let (a, b, dy) = (call.input(0), call.input(1), call.dy);
    match call.operand {
        0 => shared(call, b, dy),
        _ => call.add(Op::OutProd, &[a, dy.transpose()]).map(Some),
    }
}

/// `y[m, n] = sum_k a[m, k] b[n, k]`: `da[m, k] = sum_n dy[m, n] b[n, k]`, `db[n, k] = sum_m a[m, k] dy[m, n]`.
pub(crate) fn out_prod(call: &mut Call<'_>) -> Gradient {
    let (a, b, dy) = (call.input(0), call.input(1), call.dy);
    match call.operand {
        0 => shared(call, dy, b.transpose()),
        _ => Ok(Some(call.add(Op::MulMat, &[a, dy])?.transpose())),
    }
}

/// The gradient of operand 0, which consecutive heads share: `sum_n x[.., n] y[.., n]`, summed over the heads that share it too.
fn shared(call: &mut Call<'_>, x: Operand, y: Operand) -> Gradient {
    let a = call.shape();
    let (x, y) = match (along_n(&x, &a), along_n(&y, &a)) {
        (Some(x), Some(y)) => (x, y),
        _ => (x, y),
    };
    let d = call.add(Op::OutProd, &[x, y])?;
    let [n0, n1, n2, n3] = d.shape;
    // Heads that share are neighbours, so that they are an axis of a reshape.
    let (Some(outer), Some(inner)) = (a[2].checked_mul(n3), n1.checked_mul(a[2])) else {
        return Err(call.refusal("its gradient sums over heads on an axis of more elements than 32 bits count"));
    };
    let d = call.reshaped(d, [n0, n1, n2 / a[2], outer])?;
    let d = call.summed(d, [n0, n1, 1, outer])?;
    let d = call.reshaped(d, [n0, inner, n3 / a[3], a[3]])?;
    let d = call.summed(d, [n0, inner, 1, a[3]])?;
    call.reshaped(d, a).map(Some)
}

/// A factor of such a product with the heads that share laid along the summed axis 1, if its window allows and its rows stay whole:
/// then the product sums over them, and no gradient per head has to exist.
fn along_n(factor: &Operand, a: &Shape) -> Option<Operand> {
    let [n0, n1, n2, n3] = factor.shape;
    let shape = if a[2] == 1 {
        [n0, n1.checked_mul(n2)?.checked_mul(n3 / a[3])?, 1, a[3]]
    } else {
        [n0, n1.checked_mul(n2 / a[2])?, a[2], n3]
    };
    factor.reshape(shape).ok().filter(|window| window.strides[0] == 1)
}

pub(crate) fn add(call: &mut Call<'_>) -> Gradient {
    call.summed(call.dy, call.shape()).map(Some)
}

pub(crate) fn sub(call: &mut Call<'_>) -> Gradient {
    let d = call.summed(call.dy, call.shape())?;
    if call.operand == 0 { Ok(Some(d)) } else { call.add(NEG, &[d]).map(Some) }
}

pub(crate) fn mul(call: &mut Call<'_>) -> Gradient {
    let other = call.input(1 - call.operand);
    let d = call.add(MUL, &[call.dy, other])?;
    call.summed(d, call.shape()).map(Some)
}

/// `da = dy / b`, `db = -dy y / b`.
pub(crate) fn div(call: &mut Call<'_>) -> Gradient {
    let b = call.input(1);
    let d = call.add(DIV, &[call.dy, b])?;
    if call.operand == 0 {
        return Ok(Some(d));
    }
    let d = call.add(MUL, &[d, call.output()])?;
    let d = call.summed(d, call.shape())?;
    call.add(NEG, &[d]).map(Some)
}

pub(crate) fn scale(call: &mut Call<'_>) -> Gradient {
    let Op::Scale { scale, .. } = call.node.op else { unreachable!("the row belongs to Scale") };
    call.add(Op::Scale { scale, bias: 0.0 }, &[call.dy]).map(Some)
}

pub(crate) fn neg(call: &mut Call<'_>) -> Gradient {
    call.add(NEG, &[call.dy]).map(Some)
}

/// `2 x dy`
pub(crate) fn sqr(call: &mut Call<'_>) -> Gradient {
    let d = call.add(MUL, &[call.dy, call.input(0)])?;
    call.add(Op::Scale { scale: 2.0, bias: 0.0 }, &[d]).map(Some)
}

/// `dy / (2 y)`
pub(crate) fn sqrt(call: &mut Call<'_>) -> Gradient {
    let d = call.add(DIV, &[call.dy, call.output()])?;
    call.add(Op::Scale { scale: 0.5, bias: 0.0 }, &[d]).map(Some)
}

pub(crate) fn silu(call: &mut Call<'_>) -> Gradient {
    call.add(Op::SiluBack, &[call.dy, call.input(0)]).map(Some)
}

pub(crate) fn gelu(call: &mut Call<'_>) -> Gradient {
    call.add(Op::GeluBack, &[call.dy, call.input(0)]).map(Some)
}

pub(crate) fn tanh(call: &mut Call<'_>) -> Gradient {
    call.add(Op::TanhBack, &[call.dy, call.output()]).map(Some)
}

pub(crate) fn swiglu(call: &mut Call<'_>) -> Gradient {
    gated(call, Op::SiluBack)
}

pub(crate) fn geglu(call: &mut Call<'_>) -> Gradient {
    gated(call, Op::GeluBack)
}

/// `y = f(gate) up`: `dgate = f'(gate) (dy up)`, `dup = f(gate) dy`, which is the op itself with dy for up.
fn gated(call: &mut Call<'_>, back: Op) -> Gradient {
    let (gate, up) = (call.input(0), call.input(1));
    if call.operand == 1 {
        return call.add(call.node.op, &[gate, call.dy]).map(Some);
    }
    let d = call.add(MUL, &[call.dy, up])?;
    call.add(back, &[d, gate]).map(Some)
}

pub(crate) fn rms_norm(call: &mut Call<'_>) -> Gradient {
    let Op::RmsNorm { eps } = call.node.op else { unreachable!("the row belongs to RmsNorm") };
    call.add(Op::RmsNormBack { eps }, &[call.dy, call.input(0)]).map(Some)
}

/// The mean's own gradient goes through the difference to it: `x - mean` with an RMS norm behind.
pub(crate) fn norm(call: &mut Call<'_>) -> Gradient {
    let Op::Norm { eps } = call.node.op else { unreachable!("the row belongs to Norm") };
    let centred = centred(call, call.input(0))?;
    let d = call.add(Op::RmsNormBack { eps }, &[call.dy, centred])?;
    self::centred(call, d).map(Some)
}

/// Rows without their means.
fn centred(call: &mut Call<'_>, x: Operand) -> Result<Operand, GraphError> {
    let mean = call.add(Op::Mean, &[x])?;
    call.add(Op::Binary(Binary::Sub), &[x, mean])
}

/// Of all elements or of rows: the gradient repeats.
pub(crate) fn sum(call: &mut Call<'_>) -> Gradient {
    call.add_as(Op::Repeat, &[call.dy], call.shape()).map(Some)
}

pub(crate) fn mean(call: &mut Call<'_>) -> Gradient {
    let scale = 1.0 / call.shape()[0] as f32;
    let d = call.add(Op::Scale { scale, bias: 0.0 }, &[call.dy])?;
    call.add_as(Op::Repeat, &[d], call.shape()).map(Some)
}

/// Mask and sinks are data.
pub(crate) fn soft_max(call: &mut Call<'_>) -> Gradient {
    let Op::SoftMax { scale, .. } = call.node.op else { unreachable!("the row belongs to SoftMax") };
    match call.operand {
        0 => call.add(Op::SoftMaxBack { scale }, &[call.dy, call.output()]).map(Some),
        _ => Ok(None),
    }
}

/// A rotation turned back, with the positions and factors of the forward op, which are data.
pub(crate) fn rope(call: &mut Call<'_>) -> Gradient {
    let Op::Rope(rope) = call.node.op else { unreachable!("the row belongs to Rope") };
    if call.operand != 0 {
        return Ok(None);
    }
    let mut inputs = call.node.inputs.clone();
    inputs[0] = call.dy;
    call.add(Op::Rope(Rope { back: !rope.back, ..rope }), &inputs).map(Some)
}

pub(crate) fn repeat(call: &mut Call<'_>) -> Gradient {
    call.summed(call.dy, call.shape()).map(Some)
}

pub(crate) fn repeat_back(call: &mut Call<'_>) -> Gradient {
    call.add_as(Op::Repeat, &[call.dy], call.shape()).map(Some)
}

/// A copy back. A window would do in many cases, but which ones is the plan's to say.
pub(crate) fn copy(call: &mut Call<'_>) -> Gradient {
    let shape = call.shape();
    if call.dy.shape == shape { Ok(Some(call.dy)) } else { call.add_as(Op::Copy, &[call.dy], shape).map(Some) }
}

/// The gradient of a box set among zeros is the box.
pub(crate) fn pad(call: &mut Call<'_>) -> Gradient {
    let Op::Pad { before } = call.node.op else { unreachable!("the row belongs to Pad") };
    let shape = call.shape();
    let cut = (0..4).try_fold(call.dy, |window, axis| window.slice(axis, before[axis], shape[axis]));
    cut.map(Some).map_err(|e| call.refusal(e.to_string()))
}

/// The ids are data.
pub(crate) fn get_rows(call: &mut Call<'_>) -> Gradient {
    match call.operand {
        0 => call.add_as(Op::GetRowsBack, &[call.dy, call.input(1)], call.shape()).map(Some),
        _ => Ok(None),
    }
}

pub(crate) fn get_rows_back(call: &mut Call<'_>) -> Gradient {
    match call.operand {
        0 => call.add(Op::GetRows, &[call.dy, call.input(1)]).map(Some),
        _ => Ok(None),
    }
}

/// The kernel lends its extents alone.
pub(crate) fn im2col(call: &mut Call<'_>) -> Gradient {
    let Op::Im2Col { window, plane } = call.node.op else { unreachable!("the row belongs to Im2Col") };
    match call.operand {
        1 => call.add_as(Op::Im2ColBack { window, plane }, &[call.dy, call.input(0)], call.shape()).map(Some),
        _ => Ok(None),
    }
}

pub(crate) fn pool_2d(call: &mut Call<'_>) -> Gradient {
    let Op::Pool2d(pool) = call.node.op else { unreachable!("the row belongs to Pool2d") };
    call.add(Op::Pool2dBack(pool), &[call.dy, call.input(0)]).map(Some)
}

/// The labels are data; each of their rows is taken to sum to 1.
pub(crate) fn cross_entropy(call: &mut Call<'_>) -> Gradient {
    match call.operand {
        0 => call.add(Op::CrossEntropyLossBack, &[call.dy, call.input(0), call.input(1)]).map(Some),
        _ => Ok(None),
    }
}

/// The base's gradient is zero where the part lies, the part's is what lies there.
pub(crate) fn set(call: &mut Call<'_>) -> Gradient {
    let Op::Set(inset) = *call.op() else { return Ok(None) };
    let part = call.inset(inset)?;
    if call.operand == 1 {
        return Ok(Some(part));
    }
    let zeros = call.add(Op::Scale { scale: 0.0, bias: 0.0 }, &[part])?;
    call.add(Op::Set(inset), &[call.dy, zeros]).map(Some)
}

/// The base's gradient is that of the sum, the part's is what lies there.
pub(crate) fn acc(call: &mut Call<'_>) -> Gradient {
    let Op::Acc(inset) = *call.op() else { return Ok(None) };
    if call.operand == 0 { Ok(Some(call.dy)) } else { call.inset(inset).map(Some) }
}
