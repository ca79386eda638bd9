//! Recurrences over tokens, and triangular solves.

use fblayout::graph::{Array, DType, Op, Operand, Shape};

use crate::{Case, Fill, Setup};

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    // Two sequences of three tokens; sizes in whole texels, and not.
    for (size, heads) in [(8, 3), (5, 2)] {
        let tokens = [size, heads, 6, 1];
        let gla = Op::GatedLinearAttn { scale: 0.5 };
        cases.push(square(gla, &[tokens; 4], size, heads));
        let bonus = [size, heads, 1, 1];
        cases.push(square(Op::RwkvWkv6, &[tokens, tokens, tokens, bonus, tokens], size, heads));
        cases.push(square(Op::RwkvWkv7, &[tokens; 6], size, heads));
    }
    // A gate per head or per element; shared heads and sequences; states before the first token.
    cases.push(delta_net([8, 4, 5, 2], [8, 2, 5, 1], 1, 1));
    cases.push(delta_net([16, 2, 3, 1], [16, 2, 3, 1], 16, 4));
    cases.push(delta_net([6, 2, 3, 2], [6, 1, 3, 2], 6, 2));
    // Heads of one channel with rates per element; heads of several with one rate.
    cases.push(scan([16, 1, 8, 3], 4, 2, 1, 1, true));
    cases.push(scan([32, 6, 4, 2], 3, 2, 2, 2, false));
    cases.push(scan([5, 3, 1, 1], 2, 1, 1, 3, false));
    cases.push(conv([9, 5, 2, 1], [4, 5, 1, 1]));
    cases.push(conv([4, 33, 1, 1], [4, 33, 1, 1]));
    for (n, columns) in [(9, 7), (20, 4)] {
        cases.push(solve(n, columns));
    }
    cases
}

/// Numbers of a magnitude that lets states neither vanish nor grow.
fn floats(s: &mut Setup, shape: Shape) -> Operand {
    s.f32(shape, Fill::Floats(0.6))
}

fn square(op: Op, vectors: &[Shape], size: u32, heads: u32) -> Case {
    let mut s = Setup::new();
    let mut inputs: Vec<Operand> = vectors.iter().map(|&shape| floats(&mut s, shape)).collect();
    inputs.push(floats(&mut s, [size * size * heads, 2, 1, 1]));
    s.case(format!("{heads} heads of {size}"), op, inputs)
}

fn delta_net(v: Shape, shared: Shape, gates: u32, snapshots: u32) -> Case {
    let [size, heads, tokens, sequences] = v;
    let mut s = Setup::new();
    let shapes = [
        shared,
        shared,
        v,
        [gates, heads, tokens, sequences],
        [1, heads, tokens, sequences],
        [size, size, heads, sequences],
    ];
    let inputs = shapes.map(|shape| floats(&mut s, shape)).to_vec();
    let name = format!("{v:?}, keys {shared:?}, {gates} gates, {snapshots} states");
    s.case(name, Op::GatedDeltaNet { snapshots }, inputs)
}

fn scan(states: Shape, tokens: u32, sequences: u32, groups: u32, snapshots: u32, each: bool) -> Case {
    let [size, dim, heads, first] = states;
    let mut s = Setup::new();
    let mut inputs = vec![
        floats(&mut s, states),
        floats(&mut s, [dim, heads, tokens, sequences]),
        floats(&mut s, [heads, tokens, sequences, 1]),
        floats(&mut s, [if each { size } else { 1 }, heads, 1, 1]),
        floats(&mut s, [size, groups, tokens, sequences]),
        floats(&mut s, [size, groups, tokens, sequences]),
    ];
    inputs.push(s.input(DType::I32, [sequences, 1, 1, 1], Fill::Ids(first)));
    let name = format!("{states:?}, {tokens} tokens, {groups} groups, {snapshots} states");
    s.case(name, Op::SsmScan { snapshots }, inputs)
}

fn conv(x: Shape, kernel: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(x, Fill::Integers), s.f32(kernel, Fill::Integers)];
    s.case(format!("{kernel:?} along {x:?}"), Op::SsmConv, inputs)
}

/// A triangle whose diagonal outweighs its rows; what is above it must not matter.
fn solve(n: u32, columns: u32) -> Case {
    let mut s = Setup::new();
    let shape = [n, n, 2, 1];
    let below = Fill::Floats(0.2).make(DType::F32, &shape, 7);
    let triangle = Array::from_fn(shape, |[j, row, i2, i3]| match j {
        j if j > row => f64::NAN,
        j if j == row => 1.5,
        j => f64::from(below[(j + n * (row + n * (i2 + 2 * i3))) as usize]),
    });
    let triangle = Fill::Given(triangle.data.iter().map(|&x| x as f32).collect());
    let inputs = vec![s.f32(shape, triangle), floats(&mut s, [columns, n, 2, 1])];
    s.case(format!("{n} rows, {columns} columns"), Op::SolveTri, inputs)
}
