//! FLASH_ATTN_EXT.

use fblayout::graph::{DType, FlashAttn, Op, Operand, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

pub(super) const PLAIN: FlashAttn =
    FlashAttn { scale: 0.125, max_bias: 0.0, softcap: 0.0, mask: false, sinks: false, logs: false };
pub(super) const MASKED: FlashAttn = FlashAttn { mask: true, ..PLAIN };

/// Extents of an attention whose keys and values are windows of a longer cache.
#[derive(Clone, Copy)]
struct Size {
    /// Elements of a key and of a value.
    heads_of: [u32; 2],
    queries: u32,
    keys: u32,
    /// Heads of the queries and of keys and values.
    heads: [u32; 2],
    batches: [u32; 2],
    /// Heads and batches of the mask.
    mask: [u32; 2],
}

const SMALL: Size = Size { heads_of: [64, 64], queries: 3, keys: 37, heads: [4, 2], batches: [1, 1], mask: [1, 1] };

pub fn cases() -> Vec<Case> {
    let kv = |dtype| [dtype, dtype];
    let mut cases = vec![
        case(
            "one query of three heads",
            MASKED,
            Size { queries: 1, keys: 300, heads: [9, 3], ..SMALL },
            kv(DType::F16),
        ),
        case("plain", PLAIN, SMALL, kv(DType::F32)),
        case("one key", PLAIN, Size { keys: 1, queries: 5, ..SMALL }, kv(DType::F32)),
        case("odd heads", MASKED, Size { heads_of: [40, 72], queries: 33, heads: [3, 3], ..SMALL }, kv(DType::F32)),
        case("extents that are no quads", MASKED, Size { heads_of: [13, 7], heads: [2, 1], ..SMALL }, kv(DType::F32)),
        case("long heads", PLAIN, Size { heads_of: [576, 512], heads: [5, 1], keys: 41, ..SMALL }, kv(DType::F16)),
        case("Q8_0", MASKED, Size { heads_of: [96, 64], ..SMALL }, kv(DType::Q8_0)),
        case("Q4_1 and F16", MASKED, SMALL, [DType::Q4_1, DType::F16]),
        case("IQ4_NL and Q5_1", MASKED, SMALL, [DType::IQ4_NL, DType::Q5_1]),
        case("Q5_0", PLAIN, SMALL, kv(DType::Q5_0)),
        case("BF16", PLAIN, SMALL, kv(DType::BF16)),
    ];
    let batched = Size { batches: [4, 2], mask: [2, 2], heads: [4, 4], queries: 5, ..SMALL };
    cases.push(case("batches and masks that repeat", MASKED, batched, kv(DType::F16)));
    let alibi = FlashAttn { max_bias: 8.0, ..MASKED };
    cases.push(case("slopes of 6 heads", alibi, Size { heads: [6, 2], ..SMALL }, kv(DType::F16)));
    // Four rows of one query ask its mask once.
    cases.push(case("four heads of a query", MASKED, Size { heads: [8, 2], ..SMALL }, kv(DType::F16)));
    cases.push(case("slopes of one query", alibi, Size { queries: 1, heads: [8, 2], ..SMALL }, kv(DType::F16)));
    let capped = FlashAttn { softcap: 5.0, scale: 0.5, ..MASKED };
    cases.push(case("capped", capped, SMALL, kv(DType::F32)));
    let sinks = FlashAttn { sinks: true, ..PLAIN };
    cases.push(case("sinks", sinks, SMALL, kv(DType::F32)));
    let all = FlashAttn { max_bias: 4.0, softcap: 20.0, mask: true, sinks: true, ..PLAIN };
    cases.push(case("all at once", all, Size { queries: 9, heads: [6, 3], ..SMALL }, [DType::F16, DType::Q8_0]));
    cases.push(case("all at once, with logs", FlashAttn { logs: true, ..all }, SMALL, kv(DType::F32)));
    // As when a text is continued: tiles of several teams, more than one each, and parts of them.
    let one = Size { heads_of: [32, 32], queries: 1, keys: 300, heads: [8, 2], ..SMALL };
    cases.push(case("all at once, of one query", all, one, kv(DType::F16)));
    cases.push(case("all at once, of one query, with logs", FlashAttn { logs: true, ..all }, one, kv(DType::BF16)));
    cases.push(case("one query, quantized", all, Size { heads: [6, 2], ..one }, [DType::Q8_0, DType::Q4_0]));
    cases.push(case("one query, heads of 128", MASKED, Size { heads_of: [128, 128], ..one }, kv(DType::F16)));
    cases.push(case("one query, odd heads", PLAIN, Size { heads_of: [40, 72], ..one }, kv(DType::F32)));
    cases.push(case("one query, long heads", alibi, Size { heads_of: [256, 256], ..one }, kv(DType::F16)));
    cases.push(case("one query, many keys", all, Size { keys: 1700, heads: [4, 1], ..one }, kv(DType::F16)));
    cases.push(hidden_tiles());
    cases.push(of_rows([DType::Q8_0, DType::Q4_0]));
    cases.push(hidden_rows());
    cases.push(long());
    cases
}

fn case(name: &str, attention: FlashAttn, size: Size, dtypes: [DType; 2]) -> Case {
    let Size { heads_of: [hsk, hsv], queries, keys, heads: [heads, kv_heads], batches: [b, kv_b], mask: [m2, m3] } =
        size;
    let mut s = Setup::new();
    let q = by_head(s.f32([hsk, heads, queries, b], Fill::Floats(2.0)));
    let mut cached = |n: u32, dtype| {
        let cache = s.input(dtype, [n, kv_heads, keys + 3, kv_b], Fill::Floats(2.0));
        by_head(cache).slice(1, 0, keys).expect("the cache is longer")
    };
    let mut inputs = vec![q, cached(hsk, dtypes[0]), cached(hsv, dtypes[1])];
    if attention.mask {
        let shape = [keys, queries + 2, m2, m3];
        let fill = Fill::Given(if queries == 1 { scattered(shape) } else { mask(shape) });
        inputs.push(s.input(DType::F16, [keys, queries + 2, m2, m3], fill));
    }
    if attention.sinks {
        inputs.push(s.f32([heads, 1, 1, 1], Fill::Floats(3.0)));
    }
    let name = format!("{name}: {queries} queries, {keys} keys, {heads}/{kv_heads} heads of {hsk}, {hsv}, {dtypes:?}");
    s.case(name, Op::FlashAttn(attention), inputs)
}

/// Heads side by side in the rows of a cache, as engines keep them.
fn of_rows(dtypes: [DType; 2]) -> Case {
    let (n, heads, keys, queries) = (64, 2, 37, 3);
    let mut s = Setup::new();
    let mut inputs = vec![by_head(s.f32([n, 2 * heads, queries, 1], Fill::Floats(2.0)))];
    for dtype in dtypes {
        let cache = s.input(dtype, [n * heads, keys + 4, 1, 1], Fill::Floats(2.0));
        let strides = [1, n * heads, n, 0].map(u64::from);
        inputs.push(Operand { shape: [n, keys, heads, 1], strides, ..cache });
    }
    s.case(format!("of a cache of rows, {dtypes:?}"), Op::FlashAttn(PLAIN), inputs)
}

/// Distances below the diagonal, nothing above; no row is hidden as a whole.
pub(super) fn mask([keys, rows, n2, n3]: Shape) -> Vec<f32> {
    let row = |row: u32| {
        let last = (keys - 1).min(row * 7 + 2);
        (0..keys).map(move |key| if key > last { f32::NEG_INFINITY } else { -0.25 * (last - key) as f32 })
    };
    (0..n2 * n3).flat_map(|at| (0..rows).flat_map(move |i| row(i + at))).collect()
}

/// Distances anywhere, and every thirteenth key hidden, as are the last ones: those of a cache that are to come.
fn scattered([keys, rows, n2, n3]: Shape) -> Vec<f32> {
    let distance = |i: u32| if i % 13 == 5 { f32::NEG_INFINITY } else { -0.25 * (i * 7 % 11) as f32 };
    let row =
        move |at: u32| (0..keys).map(move |key| if key + 9 > keys { f32::NEG_INFINITY } else { distance(key + at) });
    (0..rows * n2 * n3).flat_map(row).collect()
}

/// One query sees two of six tiles of keys; the others, and some at the end, are not numbers.
fn hidden_tiles() -> Case {
    let (n, keys) = (32, 300);
    let mut s = Setup::new();
    let hidden = |key: usize| key / 32 % 3 != 1 || key > 280;
    let cache = |seed| {
        let mut data = Fill::Floats(2.0).make(DType::F32, &[n, keys, 1, 1], seed);
        data.iter_mut().enumerate().filter(|(i, _)| hidden(i / n as usize)).for_each(|(_, x)| *x = f32::NAN);
        Fill::Given(data)
    };
    let mask = (0..keys as usize).map(|key| if hidden(key) { f32::NEG_INFINITY } else { 0.0 }).collect();
    let inputs = vec![
        by_head(s.f32([n, 3, 1, 1], Fill::Floats(2.0))),
        s.f32([n, keys, 1, 1], cache(1)),
        s.f32([n, keys, 1, 1], cache(2)),
        s.input(DType::F16, [keys, 1, 1, 1], Fill::Given(mask)),
    ];
    s.case("one query, hidden tiles that are not numbers", Op::FlashAttn(MASKED), inputs)
}

/// One query sees nothing and gives zeros; what no query sees is not a number.
fn hidden_rows() -> Case {
    let (n, keys, queries) = (32, 37, 6);
    let mut s = Setup::new();
    let hidden = |key: usize, query: usize| query == 2 || key % 5 == 1 || (key < 20 && query == 1);
    let unseen = |i: usize| i / n as usize % 5 == 1;
    let cache = |seed| {
        let mut data = Fill::Floats(2.0).make(DType::F32, &[n, keys, 1, 1], seed);
        data.iter_mut().enumerate().filter(|&(i, _)| unseen(i)).for_each(|(_, x)| *x = f32::NAN);
        Fill::Given(data)
    };
    let mask = (0..(keys * queries) as usize).map(|i| hidden(i % keys as usize, i / keys as usize));
    let mask = mask.map(|hidden| if hidden { f32::NEG_INFINITY } else { 0.0 }).collect();
    let inputs = vec![
        s.f32([n, queries, 1, 1], Fill::Floats(2.0)),
        s.f32([n, keys, 1, 1], cache(1)),
        s.f32([n, keys, 1, 1], cache(2)),
        s.input(DType::F16, [keys, queries, 1, 1], Fill::Given(mask)),
    ];
    s.case("with a hidden query and hidden keys that are not numbers", Op::FlashAttn(MASKED), inputs)
}

/// Scores that rise and fall by far more than an exponential holds.
fn long() -> Case {
    let mut s = Setup::new();
    let inputs = vec![
        s.f32([32, 2, 1, 1], Fill::Peaks),
        s.f32([32, 700, 1, 1], Fill::Peaks),
        s.f32([64, 700, 1, 1], Fill::Floats(2.0)),
    ];
    s.case("large scores of 700 keys", Op::FlashAttn(FlashAttn { scale: 0.05, ..PLAIN }), inputs)
}
