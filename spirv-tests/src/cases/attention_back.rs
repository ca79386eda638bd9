//! FLASH_ATTN_EXT with logs, and its gradients.

use fblayout::graph::{Array, DType, FlashAttn, Op, Operand, oracle};

use super::attention::{MASKED, PLAIN, mask};
use super::by_head;
use crate::{Case, Fill, Setup};

const KEEPING: FlashAttn = FlashAttn { logs: true, ..PLAIN };
const MASKED_KEEPING: FlashAttn = FlashAttn { logs: true, ..MASKED };

/// Extents of an attention.
#[derive(Clone, Copy)]
struct Size {
    /// Elements of a row.
    size: u32,
    queries: u32,
    keys: u32,
    heads: u32,
    kv_heads: u32,
    batches: u32,
}

const SMALL: Size = Size { size: 64, queries: 7, keys: 7, heads: 4, kv_heads: 2, batches: 1 };

pub fn cases() -> Vec<Case> {
    let capped = FlashAttn { softcap: 5.0, scale: 0.5, ..MASKED_KEEPING };
    let sloped = FlashAttn { max_bias: 8.0, ..MASKED_KEEPING };
    let mut cases: Vec<Case> = [
        ("plain", KEEPING, SMALL),
        ("one token", MASKED_KEEPING, Size { queries: 1, keys: 1, heads: 1, kv_heads: 1, ..SMALL }),
        ("masked", MASKED_KEEPING, Size { size: 40, queries: 33, keys: 33, heads: 6, batches: 2, ..SMALL }),
        ("more keys", MASKED_KEEPING, Size { size: 80, queries: 7, keys: 70, heads: 2, ..SMALL }),
        ("queries enough for parts", MASKED_KEEPING, Size { size: 16, queries: 70, keys: 9, ..SMALL }),
        ("long rows", KEEPING, Size { size: 256, queries: 33, keys: 20, heads: 3, kv_heads: 1, ..SMALL }),
        ("capped", capped, Size { size: 8, heads: 9, kv_heads: 3, queries: 5, ..SMALL }),
        ("slopes of 6 heads", sloped, Size { heads: 6, ..SMALL }),
    ]
    .into_iter()
    .flat_map(|(name, attention, size)| case(name, attention, size))
    .collect();
    cases.extend(hidden());
    cases
}

/// The attention and both gradients of it; each gets what the one before gives.
fn case(name: &str, attention: FlashAttn, size: Size) -> [Case; 3] {
    let mask = mask([size.keys, size.queries, 1, 1]);
    with_mask(name, attention, size, mask)
}

fn with_mask(name: &str, attention: FlashAttn, at: Size, mask: Vec<f32>) -> [Case; 3] {
    let Size { size, queries, keys, heads, kv_heads, batches } = at;
    let name = format!("{name}: {queries} queries, {keys} keys, {heads}/{kv_heads} heads of {size}");
    let operands = |s: &mut Setup| -> Vec<Operand> {
        let q = by_head(s.f32([size, heads, queries, batches], Fill::Floats(2.0)));
        let mut shared = || by_head(s.f32([size, kv_heads, keys, batches], Fill::Floats(2.0)));
        let mut operands = vec![q, shared(), shared()];
        if attention.mask {
            operands.push(s.input(DType::F16, [keys, queries, 1, 1], Fill::Given(mask.clone())));
        }
        operands
    };
    let mut s = Setup::new();
    let inputs = operands(&mut s);
    let forward = s.case(&name, Op::FlashAttn(attention), inputs);
    let back = |op: Op, kept: &Array| {
        let mut s = Setup::new();
        let mut inputs = operands(&mut s);
        let numbers = kept.data.iter().map(|&x| x as f32).collect();
        inputs.push(s.f32(kept.shape, Fill::Given(numbers)));
        inputs.push(s.f32([size, heads, queries, batches], Fill::Floats(2.0)));
        s.case(&name, op, inputs)
    };
    let result = |case: &Case| {
        let shape = case.desc(case.node().output).shape;
        oracle(&case.node().op, &case.inputs(), shape).remove(0)
    };
    let of_queries = back(Op::FlashAttnBackQ(attention), &result(&forward));
    let of_keys = back(Op::FlashAttnBackKv(attention), &result(&of_queries));
    [forward, of_queries, of_keys]
}

/// A query that sees nothing, keys that nobody sees, and whole tiles of pairs that do not see each other.
fn hidden() -> [Case; 3] {
    let size = Size { queries: 40, keys: 70, heads: 1, kv_heads: 1, size: 32, batches: 1 };
    let seen = |at: usize| {
        let (key, query) = (at % 70, at / 70);
        query != 2 && key % 5 != 1 && key <= query
    };
    let mask = (0..40 * 70).map(|at| if seen(at) { 0.0 } else { f32::NEG_INFINITY }).collect();
    with_mask("hidden", MASKED_KEEPING, size, mask)
}
