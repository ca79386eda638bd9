//! MUL_MAT and OUT_PROD.

use fblayout::graph::{DType, Op, Operand, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

/// (k, m, n): the reduction, and the two extents of the output. Odd ones for edges, a language model's for the rest: width 576,
/// 192 for keys and values, 1536 inside; rank 8.
const SHAPES: &[(u32, u32, u32)] = &[
    (1, 1, 1),
    (2, 3, 5),
    (3, 1, 7),
    (5, 9, 2),
    (9, 2, 1),
    (7, 17, 33),
    (33, 65, 3),
    (65, 33, 17),
    (64, 64, 64),
    (130, 50, 13),
    (576, 8, 33),
    (8, 576, 33),
    (576, 192, 32),
];

/// The same for weights in other types, whose blocks need k, or m in OUT_PROD, to be a multiple of 32.
const WEIGHTS: &[(u32, u32, u32)] = &[(32, 1, 3), (64, 7, 5), (96, 33, 2), (576, 65, 17), (1536, 64, 33)];

const DTYPES: [DType; 3] = [DType::F16, DType::Q8_0, DType::Q4_1];

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for &(k, m, n) in SHAPES {
        let size = format!("k {k} m {m} n {n}");
        cases.push(product(&size, Op::MulMat, DType::F32, [k, m, 1, 1], [k, n, 1, 1], Fill::Integers));
        cases.push(product(&size, Op::OutProd, DType::F32, [m, k, 1, 1], [n, k, 1, 1], Fill::Integers));
    }
    for dtype in DTYPES {
        for &(k, m, n) in WEIGHTS {
            let size = format!("{dtype:?} k {k} m {m} n {n}");
            cases.push(product(&size, Op::MulMat, dtype, [k, m, 1, 1], [k, n, 1, 1], Fill::Integers));
            cases.push(input_gradient(dtype, k, m, n));
        }
        let odd = Fill::Floats(1.0);
        cases.push(product(&format!("{dtype:?} floats"), Op::MulMat, dtype, [96, 33, 1, 1], [96, 17, 1, 1], odd));
        cases.push(product(
            &format!("{dtype:?} floats"),
            Op::OutProd,
            dtype,
            [96, 33, 1, 1],
            [17, 33, 1, 1],
            Fill::Floats(1.0),
        ));
        cases.push(product(
            &format!("{dtype:?} heads"),
            Op::MulMat,
            dtype,
            [32, 9, 2, 1],
            [32, 5, 4, 3],
            Fill::Integers,
        ));
    }
    cases.push(product("floats", Op::MulMat, DType::F32, [300, 33, 1, 1], [300, 17, 1, 1], Fill::Floats(1.0)));
    cases.push(product("floats", Op::OutProd, DType::F32, [33, 300, 1, 1], [17, 300, 1, 1], Fill::Floats(1.0)));
    cases.push(product("batches", Op::MulMat, DType::F32, [7, 9, 2, 3], [7, 5, 2, 3], Fill::Integers));
    cases.push(product("shared heads", Op::MulMat, DType::F32, [12, 9, 3, 1], [12, 5, 9, 2], Fill::Integers));
    cases.push(product("shared heads", Op::OutProd, DType::F32, [9, 12, 3, 1], [5, 12, 9, 2], Fill::Integers));
    // Sums in parts, the last of which is short.
    cases.push(product("long k", Op::OutProd, DType::Q8_0, [64, 8201, 1, 1], [5, 8201, 1, 1], Fill::Integers));
    cases.push(product("long k, heads", Op::MulMat, DType::F32, [8201, 9, 2, 1], [8201, 3, 4, 1], Fill::Integers));
    cases.extend(transposed());
    for tokens in [5, 33] {
        cases.extend(attention(tokens, 9, 3, 64));
    }
    cases.extend(attention(17, 4, 4, 20));
    cases.extend(lanes_on_a_batch_axis());
    cases.extend(large());
    cases.extend(beyond_halves());
    cases.extend(range_of_f32());
    cases
}

/// Factors anywhere in the range of F32: magnitudes by rows and along k, rows that are all small or large, numbers that are not finite, and
/// some of 18 bits whose sums are exact.
fn range_of_f32() -> [Case; 6] {
    let (k, m, n) = (70, 33, 17);
    let number = |row: u32, k: u32| f64::from((37 * row + 11 * k) % 101) / 50.0 - 1.013;
    let left = |row: u32, k: u32| {
        let exponent = match row % 3 {
            0 => 30,
            1 => -30,
            _ => 20 * (k as i32 / 16) - 50,
        };
        number(row, k) * 10_f64.powi(exponent)
    };
    let right = |row: u32, k: u32| number(row + 5, k) * [1.0, 1e-30, 1e4][row as usize % 3];
    let odd = |row: u32, k: u32| match (row, k) {
        (3, 40) => f64::INFINITY,
        (5, 2) => f64::NEG_INFINITY,
        (7, 69) => f64::NAN,
        _ => number(row, k),
    };
    let odd_right = |row: u32, k: u32| match (row, k) {
        (2, 9) => f64::INFINITY,
        (4, 40) => 0.0,
        _ => number(row + 5, k),
    };
    let small = |row: u32, k: u32| 1e-30 * number(row, k);
    let large = |row: u32, k: u32| 1e30 * number(row + 5, k);
    // Sums are below 70 * 2^17.
    let wide = |row: u32, k: u32| f64::from((40_503 * row + 30_011 * k) % 262_139) - 131_069.0;
    let narrow = |row: u32, k: u32| f64::from((row + 2 * k) % 3) - 1.0;
    type Numbers<'a> = &'a dyn Fn(u32, u32) -> f64;
    let case = |name: &str, op: Op, a: Numbers<'_>, b: Numbers<'_>| {
        let mut s = Setup::new();
        let mut input = |rows: u32, value: Numbers<'_>| {
            let [n0, n1] = if op == Op::MulMat { [k, rows] } else { [rows, k] };
            let of = |x: u32, y: u32| if op == Op::MulMat { value(y, x) } else { value(x, y) };
            s.f32(
                [n0, n1, 1, 1],
                Fill::Given((0..n1).flat_map(|y| (0..n0).map(move |x| (x, y))).map(|(x, y)| of(x, y) as f32).collect()),
            )
        };
        let inputs = vec![input(m, a), input(n, b)];
        s.case(format!("range of F32, {name}"), op, inputs)
    };
    [
        case("all magnitudes", Op::MulMat, &left, &right),
        case("all magnitudes", Op::OutProd, &left, &right),
        case("small by large", Op::OutProd, &small, &large),
        case("wide integers", Op::MulMat, &wide, &narrow),
        case("wide integers", Op::OutProd, &narrow, &wide),
        case("infinities", Op::MulMat, &odd, &odd_right),
    ]
}

/// Products whose right factor may be rounded to bytes: every type, one to eight columns, rows and blocks that are edges of tiles, views,
/// heads, and magnitudes that no byte has.
pub fn dots() -> Vec<Case> {
    let odd = Fill::Floats(1.0);
    let tiles = [DType::Q8_0, DType::Q4_1];
    let blocks = [DType::Q4_0, DType::IQ4_NL, DType::Q5_0, DType::Q5_1, DType::Q4_K, DType::Q5_K, DType::Q6_K];
    let mut cases = Vec::new();
    for (dtype, n) in tiles.into_iter().chain(blocks).zip([1, 2, 3, 5].into_iter().cycle()) {
        let block = dtype.block();
        let mut floats = |k: u32, m: u32, n: u32| {
            let name = format!("{dtype:?} k {k} m {m} n {n}, floats");
            cases.push(product(&name, Op::MulMat, dtype, [k, m, 1, 1], [k, n, 1, 1], odd.clone()));
        };
        floats(3 * block, 33, n);
        // The rest once for each way that weights are read.
        if ![DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K].contains(&dtype) {
            continue;
        }
        floats(11 * block, 9, 8 - n);
        let (k, n) = (2 * block, 7);
        let mut s = Setup::new();
        let right = Fill::Given((0..k * n).map(|i| odd_magnitudes(i / k, i % k)).collect());
        let inputs = vec![s.input(dtype, [k, 9, 1, 1], odd.clone()), s.f32([k, n, 1, 1], right)];
        cases.push(s.case(format!("{dtype:?} odd magnitudes"), Op::MulMat, inputs));
    }
    for dtype in [DType::Q4_1, DType::Q5_1] {
        let name = format!("{dtype:?} shared heads, floats");
        cases.push(product(&name, Op::MulMat, dtype, [64, 9, 2, 1], [64, 3, 4, 2], odd.clone()));
    }
    // A cache with a row for every token, read by head: rows that do not follow each other.
    let mut s = Setup::new();
    let cache = s.input(DType::Q8_0, [3 * 64, 12, 1, 1], odd.clone());
    let heads = Operand { shape: [64, 7, 3, 1], strides: [1, 192, 64, 0], ..cache };
    let inputs = vec![heads, s.f32([64, 2, 6, 1], odd)];
    cases.push(s.case("Q8_0 cache by head, floats", Op::MulMat, inputs));
    cases
}

/// Columns of zeros, of the least numbers beside others, of the greatest, and with infinities and a NaN.
fn odd_magnitudes(column: u32, k: u32) -> f32 {
    let x = ((37 * column + 11 * k) % 101) as f32 / 50.0 - 1.013;
    match (column, k) {
        (0, _) => 0.0,
        (1, _) => x * if (k / 32).is_multiple_of(2) { 1e-38 } else { 1e-30 },
        (2, _) => 1e30 * x,
        (3, 17) => f32::INFINITY,
        (4, 3 | 40) => {
            if k == 3 {
                f32::NEG_INFINITY
            } else {
                f32::INFINITY
            }
        }
        (5, 62) => f32::NAN,
        _ => x,
    }
}

/// Sums of factors that F16 holds, each of them of either sign far beyond 65504, which F16 ends at.
fn beyond_halves() -> [Case; 2] {
    let (k, m, n) = (520, 33, 17);
    [Op::MulMat, Op::OutProd].map(|op| {
        // From 20 to 40, and from 15 to 35 or their negatives: sums from 156,000 to 728,000, which F32 holds exactly.
        let shape = |rows: u32| if op == Op::MulMat { [k, rows, 1, 1] } else { [rows, k, 1, 1] };
        let fill = |rows: u32, value: fn(u32, u32) -> i32| {
            let [n0, n1, ..] = shape(rows);
            let of_row = |x: u32, y: u32| if op == Op::MulMat { value(y, x) } else { value(x, y) };
            Fill::Given((0..n1).flat_map(|y| (0..n0).map(move |x| of_row(x, y) as f32)).collect())
        };
        let left = |row: u32, k: u32| 20 + ((3 * row + 7 * k) % 21) as i32;
        let right =
            |row: u32, k: u32| (15 + ((5 * row + 4 * k) % 21) as i32) * if row.is_multiple_of(2) { 1 } else { -1 };
        let mut s = Setup::new();
        let inputs = vec![s.input(DType::F16, shape(m), fill(m, left)), s.f32(shape(n), fill(n, right))];
        s.case("F16 sums beyond 65504", op, inputs)
    })
}

/// Operands whose texels run along neither m, n nor k: they are gathered element by element.
fn lanes_on_a_batch_axis() -> [Case; 2] {
    let heads = 5;
    let turned = |s: &mut Setup, dtype, rows| {
        let operand = s.input(dtype, [heads, 7, rows, 1], Fill::Integers);
        operand.permute([1, 2, 0, 3]).expect("a permutation of four axes")
    };
    [DType::F32, DType::F16].map(|dtype| {
        let mut s = Setup::new();
        let inputs = vec![turned(&mut s, dtype, 9), turned(&mut s, DType::F32, 6)];
        s.case(format!("{dtype:?} lanes along heads"), Op::MulMat, inputs)
    })
}

/// Right factors in 16 bits, which matrix units alone take, both ways and in heads; and products so large that their factors are copied to 16 bits.
pub fn narrow() -> Vec<Case> {
    let mut cases = Vec::new();
    for (dtype, right) in
        [(DType::F16, DType::F16), (DType::Q8_0, DType::F16), (DType::F16, DType::BF16), (DType::Q4_1, DType::BF16)]
    {
        for (op, k, m, n) in [(Op::MulMat, 96, 33, 17), (Op::OutProd, 45, 64, 19)] {
            let [a, b] = if op == Op::MulMat { [[k, m, 3, 1], [k, n, 6, 1]] } else { [[m, k, 3, 1], [n, k, 6, 1]] };
            let mut s = Setup::new();
            let inputs = vec![s.input(dtype, a, Fill::Integers), s.input(right, b, Fill::Integers)];
            cases.push(s.case(format!("{dtype:?} by {right:?}"), op, inputs));
            let mut s = Setup::new();
            let turned = s.input(right, [b[1], b[0], 6, 1], Fill::Integers).transpose();
            let inputs = vec![s.input(dtype, a, Fill::Integers), turned];
            cases.push(s.case(format!("{dtype:?} by {right:?}, b transposed"), op, inputs));
        }
    }
    let large = [
        (Op::MulMat, DType::F16, [1362, 4098, 1, 1], [1362, 387, 1, 1]),
        (Op::MulMat, DType::Q8_0, [1056, 1003, 1, 1], [1056, 387, 1, 1]),
        (Op::OutProd, DType::Q4_1, [1056, 1003, 1, 1], [387, 1003, 1, 1]),
    ];
    cases.extend(
        large.map(|(op, dtype, a, b)| product(&format!("{dtype:?} copied"), op, dtype, a, b, Fill::Floats(1.0))),
    );
    cases
}

fn product(name: &str, op: Op, dtype: DType, a: Shape, b: Shape, fill: Fill) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, a, fill.clone()), s.f32(b, fill)];
    s.case(name, op, inputs)
}

/// dx = OUT_PROD(w, transpose(dy)): the weight [k, m] in its other direction, against a transposed operand.
fn input_gradient(dtype: DType, k: u32, m: u32, n: u32) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, [k, m, 1, 1], Fill::Integers), s.f32([m, n, 1, 1], Fill::Integers).transpose()];
    s.case(format!("{dtype:?} k {k} m {m} n {n}, b transposed"), Op::OutProd, inputs)
}

/// Every combination of transposed operands that the autodiff of products gives.
fn transposed() -> Vec<Case> {
    let mut cases = Vec::new();
    for (k, m, n) in [(7, 5, 3), (33, 17, 9), (64, 32, 48)] {
        for (a_t, b_t) in [(true, false), (false, true), (true, true)] {
            for op in [Op::MulMat, Op::OutProd] {
                // Axes of an operand as the op sees it: reduction first for MUL_MAT, last for OUT_PROD.
                let seen = |rows: u32| if op == Op::MulMat { [k, rows, 1, 1] } else { [rows, k, 1, 1] };
                let mut s = Setup::new();
                let mut operand = |rows: u32, transposed: bool| {
                    let [n0, n1, ..] = seen(rows);
                    if transposed {
                        s.f32([n1, n0, 1, 1], Fill::Integers).transpose()
                    } else {
                        s.f32([n0, n1, 1, 1], Fill::Integers)
                    }
                };
                let inputs = vec![operand(m, a_t), operand(n, b_t)];
                let which = if a_t && b_t {
                    "a and b"
                } else if a_t {
                    "a"
                } else {
                    "b"
                };
                cases.push(s.case(format!("k {k} m {m} n {n}, {which} transposed"), op, inputs));
            }
        }
    }
    cases
}

/// The products of attention and of its gradient: values [hd, heads, T] seen by head, keys and values shared by the heads of a group.
fn attention(tokens: u32, heads: u32, kv_heads: u32, hd: u32) -> Vec<Case> {
    let [q, kv] = [heads, kv_heads].map(|h| [hd, h, tokens, 1]);
    let scores = [tokens, tokens, heads, 1];
    let what = |name: &str| format!("{name}, {heads}/{kv_heads} heads of {hd}, {tokens} tokens");
    let mut cases = Vec::new();

    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32(kv, Fill::Integers)), by_head(s.f32(q, Fill::Integers))];
    cases.push(s.case(what("scores"), Op::MulMat, inputs));

    // The value seen as [T, hd, heads].
    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32(kv, Fill::Integers)).transpose(), s.f32(scores, Fill::Integers)];
    cases.push(s.case(what("mixed values"), Op::MulMat, inputs));

    let mut s = Setup::new();
    let inputs = vec![s.f32([tokens, hd, kv_heads, 1], Fill::Integers), s.f32(scores, Fill::Integers)];
    cases.push(s.case(what("mixed copied values"), Op::MulMat, inputs));

    // Gradient of the queries: keys by head and shared, scores transposed.
    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32(kv, Fill::Integers)), s.f32(scores, Fill::Integers).transpose()];
    cases.push(s.case(what("gradient of queries"), Op::OutProd, inputs));

    // Gradient of the keys, before the sum over a group.
    let mut s = Setup::new();
    let inputs = vec![by_head(s.f32(q, Fill::Integers)), s.f32(scores, Fill::Integers)];
    cases.push(s.case(what("gradient of keys"), Op::OutProd, inputs));

    // Gradient of the values [T, hd, heads]: scores against the gradient of the output by head.
    let mut s = Setup::new();
    let inputs = vec![s.f32(scores, Fill::Integers), by_head(s.f32(q, Fill::Integers))];
    cases.push(s.case(what("gradient of values"), Op::OutProd, inputs));
    cases
}

/// Work that schedules treat in its own way: much of it, a long k, a tied head whose rows are the vocabulary.
fn large() -> Vec<Case> {
    let matrices = |dtype: DType, k: u32, m: u32, n: u32| {
        product(&format!("{dtype:?} k {k} m {m} n {n}"), Op::MulMat, dtype, [k, m, 1, 1], [k, n, 1, 1], Fill::Integers)
    };
    vec![
        matrices(DType::F32, 576, 576, 57),
        matrices(DType::Q8_0, 576, 600, 84),
        matrices(DType::Q4_1, 576, 576, 96),
        matrices(DType::F32, 8200, 9, 5),
        matrices(DType::Q8_0, 64, 49152, 3),
        input_gradient(DType::Q8_0, 64, 16384, 3),
        input_gradient(DType::Q4_1, 64, 49152, 5),
    ]
}
