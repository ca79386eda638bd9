//! Elements that move, and writes into parts of tensors: copies of every type, rows, accumulators, caches.

use ggml_host::{Rope, RopeMode, Type};

use super::{Cases, WEIGHTS, dims};
use crate::own::bound::Bound;
use crate::own::kit::View;

const VIEWS: [View; 7] =
    [View::Dense, View::TRANSPOSED, View::HEADS, View::TURNED, View::Sliced, View::Strided, View::SlicedTransposed];
const PLAIN: [Type; 4] = [Type::F32, Type::F16, Type::BF16, Type::I32];
/// What caches may be made of.
const CACHED: [&str; 7] = ["q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl", "q4_K"];

pub fn add(cases: &mut Cases) {
    copies(cases);
    copies_into_views(cases);
    quantized_copies(cases);
    gathers(cases);
    scatters(cases);
    parts(cases);
    whole(cases);
    caches(cases);
}

/// Conversions round once, to the nearest on both sides.
fn converted(from: Type, to: Type) -> Bound {
    if from == to || to == Type::F32 { Bound::Exact } else { Bound::roundings(1) }
}

fn copies(cases: &mut Cases) {
    for shape in [&[1][..], &[33, 3], &[129, 2, 3], &[5, 7, 3, 2], &[64, 8, 2]] {
        for view in VIEWS {
            for dtype in PLAIN {
                cases.add(10, format!("CONT {dtype} {} {}", dims(shape), view.name()), move |k| {
                    let x = k.input(dtype, shape, view, k.values(shape.iter().product(), -9.0, 9.0));
                    k.result(k.ops().cont(x), Bound::Exact);
                });
            }
            for (from, to) in PLAIN.into_iter().flat_map(|a| PLAIN.map(|b| (a, b))) {
                if (from == Type::I32) != (to == Type::I32) {
                    continue;
                }
                cases.add(28, format!("CAST {from} to {to} {} {}", dims(shape), view.name()), move |k| {
                    let x = k.input(from, shape, view, k.values(shape.iter().product(), -9.0, 9.0));
                    k.result(k.ops().cast(x, to), converted(from, to));
                });
            }
        }
    }
    for view in [View::Dense, View::TRANSPOSED] {
        cases.add(1, format!("DUP {}", view.name()), move |k| {
            k.result(k.ops().dup(k.f32(&[33, 5], view)), Bound::Exact);
        });
    }
}

/// Copies whose destination is a window, the rest of which stays.
fn copies_into_views(cases: &mut Cases) {
    for (from, to) in [Type::F32, Type::F16].into_iter().flat_map(|a| PLAIN[..3].iter().map(move |&b| (a, b))) {
        for source in [View::Dense, View::TRANSPOSED, View::HEADS, View::Sliced] {
            for target in [View::Sliced, View::TRANSPOSED, View::HEADS, View::Strided] {
                let name = format!("CPY {from} {} into {to} {}", source.name(), target.name());
                cases.add(6, name, move |k| {
                    let x = k.floats(from, &[13, 6, 3], source);
                    let y = k.floats(to, &[13, 6, 3], target);
                    k.result(k.ops().cpy(x, y), converted(from, to));
                });
            }
        }
    }
    // Other extents of as many elements, counted on in order.
    for (from, to) in [(&[33, 4][..], &[11, 12][..]), (&[6, 5, 4], &[120]), (&[24], &[2, 3, 4])] {
        for view in [View::Dense, View::Strided] {
            cases.add(1, format!("CPY {} {} into {}", dims(from), view.name(), dims(to)), move |k| {
                let (x, y) = (k.f32(from, view), k.f32(to, View::Dense));
                k.result(k.ops().cpy(x, y), Bound::Exact);
            });
        }
    }
}

fn quantized_copies(cases: &mut Cases) {
    for name in CACHED {
        let dtype = Type::by_name(name).expect("a type of the engine");
        let x = 2 * dtype.block_len();
        for view in [View::Dense, View::HEADS, View::Sliced] {
            cases.add(3, format!("CPY f32 {} into {name}", view.name()), move |k| {
                let (a, b) = (k.f32(&[x, 3, 2], view), k.floats(dtype, &[x, 3, 2], View::Dense));
                k.result(k.ops().cpy(a, b), Bound::Quanta);
            });
            cases.add(3, format!("CPY {name} {} into f32", view.name()), move |k| {
                let (a, b) = (k.floats(dtype, &[x, 3, 2], view), k.f32(&[x, 3, 2], View::Dense));
                k.result(k.ops().cpy(a, b), Bound::roundings(2));
            });
            cases.add(3, format!("CPY f32 into {name} {}", view.name()), move |k| {
                let (a, b) = (k.f32(&[x, 3, 2], View::Dense), k.floats(dtype, &[x, 3, 2], view));
                k.result(k.ops().cpy(a, b), Bound::Quanta);
            });
        }
    }
}

fn gathers(cases: &mut Cases) {
    for name in WEIGHTS {
        let Some(dtype) = Type::by_name(name) else { continue };
        let x = if dtype.block_len() == 1 { 33 } else { 2 * dtype.block_len() };
        for (rows, count, planes) in [(7, 1, 1), (5, 9, 1), (3, 4, 3)] {
            for view in [View::Dense, View::Sliced, View::Strided] {
                cases.add(16, format!("GET_ROWS {name} {x}x{rows}x{planes} {count} {}", view.name()), move |k| {
                    let table = k.weight(dtype, &[x, rows, planes], view);
                    let ids = k.input(Type::I32, &[count, planes], View::Dense, k.indices(count * planes, rows));
                    // Blocks are decoded by a product and a sum.
                    k.result(k.ops().get_rows(table, ids), Bound::Near { relative: 4e-7, absolute: 4e-7 });
                });
            }
        }
    }
    for view in [View::Strided, View::TRANSPOSED] {
        cases.add(1, format!("GET_ROWS ids {}", view.name()), move |k| {
            let table = k.f32(&[33, 5, 3], View::Dense);
            let ids = k.input(Type::I32, &[4, 3], view, k.indices(12, 5));
            k.result(k.ops().get_rows(table, ids), Bound::Exact);
        });
    }
    cases.add(1, "GET_ROWS i32".into(), |k| {
        let table = k.input(Type::I32, &[3, 5], View::Dense, k.indices(15, 1000));
        let ids = k.input(Type::I32, &[4], View::Dense, k.indices(4, 5));
        k.result(k.ops().get_rows(table, ids), Bound::Exact);
    });
}

fn scatters(cases: &mut Cases) {
    for name in ["f32", "f16", "bf16"].into_iter().chain(CACHED) {
        let dtype = Type::by_name(name).expect("a type of the engine");
        let x = if dtype.block_len() == 1 { 33 } else { 2 * dtype.block_len() };
        let bound = if dtype.is_quantized() { Bound::Quanta } else { converted(Type::F32, dtype) };
        for ids in [Type::I32, Type::I64] {
            for (target, source) in [
                (View::Dense, View::Dense),
                (View::Sliced, View::Dense),
                (View::Dense, View::Sliced),
                (View::HEADS, View::HEADS),
            ] {
                let case = format!("SET_ROWS {name} {ids} {} from {}", target.name(), source.name());
                cases.add(8, case, move |k| {
                    let a = k.floats(dtype, &[x, 7, 2], target);
                    let b = k.f32(&[x, 4, 2], source);
                    let rows = k.input(ids, &[4], View::Dense, k.distinct(4, 7));
                    k.result(k.ops().set_rows(a, b, rows), bound);
                });
            }
        }
    }
    // A cache of V that is transposed: one element of every row per token, by the number of the element.
    for dtype in [Type::F32, Type::F16] {
        cases.add(1, format!("SET_ROWS {dtype} single elements of a transposed cache"), move |k| {
            let (c, cells, width) = (k.ops(), 13, 9);
            let cache = k.floats(dtype, &[cells, width], View::Dense);
            let cache = c.reshape(cache, [1, cells * width, 1, 1]);
            let token = c.reshape(k.f32(&[width, 2], View::Dense), [1, width * 2, 1, 1]);
            let ids = (0..2).flat_map(|t| (0..width).map(move |i| (i * cells + 5 + t) as f32)).collect();
            let ids = k.input(Type::I64, &[width * 2], View::Dense, ids);
            k.result(c.set_rows(cache, token, ids), converted(Type::F32, dtype));
        });
    }
}

/// SET and ACC: a box of a tensor.
fn parts(cases: &mut Cases) {
    let (wide, high) = (11, 7);
    for view in [View::Dense, View::TRANSPOSED, View::HEADS, View::Sliced, View::Comb] {
        for (in_place, adds) in [(false, false), (false, true), (true, false), (true, true)] {
            for offset in [0, 4 * (wide + 3)] {
                let op = if adds { "ACC" } else { "SET" };
                let how = if in_place { " in place" } else { "" };
                cases.add(3, format!("{op}{how} {} at {offset}", view.name()), move |k| {
                    let (c, a, b) = (k.ops(), k.f32(&[wide, high, 3], View::Dense), k.f32(&[5, 4, 2], view));
                    let (row, plane) = (4 * wide, 4 * wide * high);
                    let node = match (in_place, adds) {
                        (false, false) => c.set(a, b, row, plane, 3 * plane, offset),
                        (true, false) => c.set_in_place(a, b, row, plane, 3 * plane, offset),
                        (false, true) => c.acc(a, b, row, plane, 3 * plane, offset),
                        (true, true) => c.acc_in_place(a, b, row, plane, 3 * plane, offset),
                    };
                    k.result(node, if adds { Bound::roundings(1) } else { Bound::Exact });
                });
            }
        }
    }
    cases.add(1, "ACC in place into a view".into(), move |k| {
        let (c, a, b) = (k.ops(), k.f32(&[wide, high, 3], View::Dense), k.f32(&[5, 4], View::Dense));
        let rows = c.view(a, [wide, 5, 1, 1], [4 * wide, 4 * wide * high, 4 * wide * high], 4 * wide);
        k.result(c.acc_in_place(rows, b, 4 * wide, 16 * wide, 16 * wide, 8), Bound::roundings(1));
    });
}

fn whole(cases: &mut Cases) {
    for axis in 0..4 {
        for (a, b) in [(View::Dense, View::Dense), (View::HEADS, View::Sliced), (View::TRANSPOSED, View::Strided)] {
            for dtype in [Type::F32, Type::F16, Type::I32] {
                cases.add(8, format!("CONCAT {dtype} axis {axis} {} {}", a.name(), b.name()), move |k| {
                    let (mut first, mut second) = ([5, 4, 3, 2], [5, 4, 3, 2]);
                    (first[axis], second[axis]) = (3, 4);
                    let count = |s: [usize; 4]| s.iter().product();
                    let x = k.input(dtype, &first, a, k.values(count(first), -9.0, 9.0));
                    let y = k.input(dtype, &second, b, k.values(count(second), -9.0, 9.0));
                    k.result(k.ops().concat(x, y, axis as i32), Bound::Exact);
                });
            }
        }
    }
    for view in VIEWS {
        cases.add(2, format!("REPEAT {}", view.name()), move |k| {
            k.result(k.ops().repeat_to(k.f32(&[5, 3, 2], view), 15, 3, 4, 2), Bound::Exact);
        });
        cases.add(2, format!("REPEAT_BACK {}", view.name()), move |k| {
            let (x, like) = (k.f32(&[15, 3, 4, 2], view), k.f32(&[5, 3, 2], View::Dense));
            k.result(k.ops().repeat_back(x, like), Bound::Sum(12));
        });
        for past in [0, 3] {
            cases.add(3, format!("DIAG_MASK_ZERO past {past} {}", view.name()), move |k| {
                k.result(k.ops().diag_mask_zero(k.f32(&[13, 9, 2], view), past), Bound::Exact);
            });
            cases.add(3, format!("DIAG_MASK_INF past {past} {}", view.name()), move |k| {
                k.result(k.ops().diag_mask_inf(k.f32(&[13, 9, 2], view), past), Bound::Exact);
            });
        }
    }
    for view in [View::Dense, View::Sliced] {
        cases.add(1, format!("DIAG_MASK_ZERO in place {}", view.name()), move |k| {
            k.result(k.ops().diag_mask_zero_in_place(k.f32(&[13, 9], view), 2), Bound::Exact);
        });
        cases.add(1, format!("PAD {}", view.name()), move |k| {
            k.result(k.ops().pad(k.f32(&[5, 4, 3], view), 3, 1, 2, 1), Bound::Exact);
        });
        cases.add(1, format!("ROLL {}", view.name()), move |k| {
            k.result(k.ops().roll(k.f32(&[5, 4, 3], view), 2, -1, 1, 0), Bound::Exact);
        });
    }
    cases.add(1, "PAD_REFLECT_1D".into(), |k| {
        k.result(k.ops().pad_reflect(k.f32(&[9, 3], View::Dense), 4, 2), Bound::Exact);
    });
    cases.add(1, "DIAG".into(), |k| {
        k.result(k.ops().diag(k.f32(&[9, 1, 3], View::Dense)), Bound::Exact);
    });
}

/// What an engine does to a cache: rows of a new token, and the rotation of all positions.
fn caches(cases: &mut Cases) {
    for mode in [RopeMode::Normal, RopeMode::Neox] {
        for dtype in [Type::F32, Type::F16] {
            for at in [0, 2] {
                cases.add(1, format!("ROPE {mode:?} {dtype} in place on rows of a cache from {at} on"), move |k| {
                    let (c, size) = (k.ops(), dtype.block_bytes());
                    let cache = k.floats(dtype, &[32 * 2, 7], View::Dense);
                    let rows = c.view(cache, [32, 2, 4, 1], [32 * size, 64 * size, 256 * size], at * 64 * size);
                    let positions = k.input(Type::I32, &[4], View::Dense, vec![3.0, 0.0, 11.0, 60.0]);
                    let rope = Rope { dims: 32, mode, freq_base: 10000.0, freq_scale: 1.0 };
                    // An angle of up to 60 is good to 2^-18, its sine to 2^-11.
                    let bound = Bound::Near { relative: 0.0, absolute: 2.0f64.powi(-10) };
                    k.result(c.rope_in_place(rows, positions, &rope), bound);
                });
            }
        }
    }
    cases.add(1, "a q8_0 cache decoded, rotated and encoded again".into(), |k| {
        let (c, row) = (k.ops(), Type::Q8_0.row_bytes(64));
        let cache = k.floats(Type::Q8_0, &[64, 7], View::Dense);
        let rows = c.view(cache, [32, 2, 5, 1], [row / 2, row, 5 * row], row);
        let positions = k.input(Type::I32, &[5], View::Dense, k.indices(5, 9));
        let rope = Rope { dims: 32, mode: RopeMode::Neox, freq_base: 10000.0, freq_scale: 1.0 };
        let decoded = k.step(c.cast(rows, Type::F32), Bound::roundings(2));
        let rotated = c.rope(decoded, positions, None, &rope);
        let rotated = k.step(rotated, Bound::Near { relative: 0.0, absolute: 2.0f64.powi(-10) });
        // Sines that are good to 2^-11 move elements to the next of 127 steps.
        k.end(c.cpy(rotated, rows), Bound::Quanta, Bound::Nmse(1e-4));
    });
    for dtype in [Type::F32, Type::F16, Type::Q8_0] {
        cases.add(1, format!("CPY into {dtype} rows of a cache, twice"), move |k| {
            let (c, row) = (k.ops(), dtype.row_bytes(64));
            let cache = k.floats(dtype, &[64, 7], View::Dense);
            let bound = if dtype.is_quantized() { Bound::Quanta } else { converted(Type::F32, dtype) };
            for (at, rows) in [(1, 2), (3, 1)] {
                let target = c.view(cache, [64, rows, 1, 1], [row, rows * row, rows * row], at * row);
                k.result(c.cpy(k.f32(&[64, rows], View::Dense), target), bound);
            }
        });
    }
}
