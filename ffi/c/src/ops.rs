//! Ops that most graphs have, as functions of their own; each is an op of the table, and `fbl_op` makes the others.

use fblayout::graph::{Binary, FlashAttn, Op, Rope, RopeMode, Unary};

use crate::failure::Failure;
use crate::graph::{fbl_graph, made};
use crate::handle::fbl_tensor;
use crate::status::fbl_status;

/// # Safety
/// `graph` is NULL or a graph, `result` NULL or a place for a tensor.
unsafe fn op(entry: &str, graph: *mut fbl_graph, op: Op, inputs: &[fbl_tensor], result: *mut fbl_tensor) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { made(entry, graph, result, |serial, recipe| Ok(recipe.node(op, &serial.ids(inputs)?, None)?)) }
}

/// MUL_MAT: `w` {k, m} of any float or quantized type, `x` F32 {k, n, b, c} -> F32 {m, n, b, c}: every row of `x` times every row of `w`.
/// Axes 2 and 3 of `w` divide those of `x`, and are shared by neighbours.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_matmul(
    graph: *mut fbl_graph,
    w: fbl_tensor,
    x: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_matmul", graph, Op::MulMat, &[w, x], result) }
}

/// ADD: F32 `a + b`; `b` repeats to the shape of `a`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_add(
    graph: *mut fbl_graph,
    a: fbl_tensor,
    b: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_add", graph, Op::Binary(Binary::Add), &[a, b], result) }
}

/// MUL: F32 `a * b` by element; `b` repeats to the shape of `a`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_mul(
    graph: *mut fbl_graph,
    a: fbl_tensor,
    b: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_mul", graph, Op::Binary(Binary::Mul), &[a, b], result) }
}

/// SCALE: F32 `x * scale`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_scale(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    scale: f32,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_scale", graph, Op::Scale { scale, bias: 0.0 }, &[x], result) }
}

/// SILU: F32 `x / (1 + exp(-x))`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_silu(graph: *mut fbl_graph, x: fbl_tensor, result: *mut fbl_tensor) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_silu", graph, Op::Unary(Unary::Silu), &[x], result) }
}

/// SWIGLU: F32 `silu(gate) * up`, of one shape.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_swiglu(
    graph: *mut fbl_graph,
    gate: fbl_tensor,
    up: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_swiglu", graph, Op::SwiGlu, &[gate, up], result) }
}

/// RMS_NORM: every row of F32 `x` over the root of its mean square plus `eps`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_rms_norm(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    eps: f32,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_rms_norm", graph, Op::RmsNorm { eps }, &[x], result) }
}

/// ROPE: the first `n_dims` elements of each head of F32 `x` {head size, heads, tokens, batch} are turned by their token's position, I32
/// {tokens}; pairs are halves apart (`neox` is not 0) or neighbours. YaRN, sections and frequency factors: `fbl_op` with "ROPE".
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_rope(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    positions: fbl_tensor,
    n_dims: u32,
    neox: u32,
    freq_base: f32,
    result: *mut fbl_tensor,
) -> fbl_status {
    let mode = if neox == 0 { RopeMode::Normal } else { RopeMode::Neox };
    let rope = Op::Rope(Rope::plain(mode, n_dims, 0, freq_base));
    // SAFETY: this function's contract.
    unsafe { op("fbl_rope", graph, rope, &[x, positions], result) }
}

/// SOFT_MAX: every row of `scale * x + mask` as probabilities. `mask` is F32 or F16 with the rows' extents, repeating over axes 2 and 3, or 0.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_soft_max(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    mask: fbl_tensor,
    scale: f32,
    result: *mut fbl_tensor,
) -> fbl_status {
    let operands = [x, mask];
    let given = if mask == 0 { &operands[..1] } else { &operands[..] };
    // SAFETY: this function's contract.
    unsafe { op("fbl_soft_max", graph, Op::soft_max(scale), given, result) }
}

/// FLASH_ATTN_EXT: `softmax(scale q k + mask) v` per query and head, without memory for the scores, forward and backward. `q` F32
/// {size, tokens, heads, batch}, `k` and `v` {size, keys, kv heads, batch} F32 (F16 and quants forward only), `mask` {keys, tokens} F16 or F32, or 0 -> F32
/// {size, heads, tokens, batch}: heads before tokens.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_attention(
    graph: *mut fbl_graph,
    q: fbl_tensor,
    k: fbl_tensor,
    v: fbl_tensor,
    mask: fbl_tensor,
    scale: f32,
    result: *mut fbl_tensor,
) -> fbl_status {
    let operands = [q, k, v, mask];
    let given = if mask == 0 { &operands[..3] } else { &operands[..] };
    let attention = FlashAttn { scale, max_bias: 0.0, softcap: 0.0, mask: mask != 0, sinks: false, logs: false };
    // SAFETY: this function's contract.
    unsafe { op("fbl_attention", graph, Op::FlashAttn(attention), given, result) }
}

/// GET_ROWS: rows of a table {n, rows} of any type that `ids`, I32 {count}, name -> F32 {n, count}.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_get_rows(
    graph: *mut fbl_graph,
    table: fbl_tensor,
    ids: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_get_rows", graph, Op::GetRows, &[table, ids], result) }
}

/// CROSS_ENTROPY_LOSS: F32 `logits` and `labels` {classes, rows}, labels being probabilities -> one element, the mean over rows of
/// `-sum(labels * log_softmax(logits))`.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_cross_entropy(
    graph: *mut fbl_graph,
    logits: fbl_tensor,
    labels: fbl_tensor,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { op("fbl_cross_entropy", graph, Op::CrossEntropyLoss, &[logits, labels], result) }
}

/// CPY: the elements of `x` in their order as a tensor of type `type` that is no view; plain types, and F32 to those quants that a row alone
/// decides (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL).
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_copy(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    r#type: u32,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_copy", graph, result, |serial, recipe| {
            let id = serial.id(x)?;
            let copied = crate::dtype::dtype(r#type)?;
            recipe.copy(id, copied).map_err(Failure::from)
        })
    }
}
