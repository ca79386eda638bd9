//! L9: reduced index arithmetic equals the naive one, in words of 16 and of 32 bits, and so does what a machine computes.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::naive::{Naive, indices};
use super::shapes::{self, Draw};
use crate::layout::{Expr, Layout, Ops, Place, Position, Transform};

/// Asserts that all forms of an expression agree at these indices, in every word that holds the naive one.
fn assert_forms(naive: &Expr, at: impl Iterator<Item = Vec<u32>>) {
    let forms = [naive.machine(), naive.reduced(), naive.reduced().machine()];
    assert!(naive.word_bits().is_some(), "{naive} does not fit 32 bits");
    for index in at {
        let expected = naive.evaluate(&index, 32);
        assert!(u64::from(expected) <= naive.most());
        for expr in &forms {
            assert!(u64::from(expected) <= expr.most(), "{expr} is more than {} at {index:?}", expr.most());
            for bits in [16, 32].into_iter().filter(|&bits| expr.word_bits().is_some_and(|least| least <= bits)) {
                assert_eq!(expr.evaluate(&index, bits), expected, "{naive} as {expr} at {index:?} in {bits} bits");
            }
        }
    }
}

/// One step of a random expression: operation, constant, other operand.
type Step = (usize, u32, Index);

fn steps(constants: &'static [u32]) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0usize..5, select(constants), any::<Index>()), 1..9)
}

/// An expression over some indices; steps that would leave 32 bits are skipped.
fn expression(indices: &[Expr], steps: &[Step]) -> Expr {
    let mut known = indices.to_vec();
    for &(operation, constant, other) in steps {
        let last = &known[known.len() - 1];
        let next = match operation {
            0 => last.add(&known[other.index(known.len())]),
            1 => last.mul(constant.into()),
            2 => last.div(constant.into()),
            3 => last.modulo(constant.into()),
            _ => last.add(&Expr::constant(constant.into())),
        };
        if next.word_bits().is_some() {
            known.push(next);
        }
    }
    known[known.len() - 1].clone()
}

const SMALL: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 18, 24];
const LARGE: [u32; 20] =
    [1, 2, 3, 4, 5, 7, 12, 64, 96, 127, 129, 255, 1000, 4095, 4096, 32_767, 32_769, 65_535, 65_536, 4_194_303];

/// Extents on both sides of the limits that the rules speak of.
const EDGES: [u32; 9] = [32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 4_194_303, 4_194_304, 4_194_305];

/// Indices near the ends of an extent and near multiples of the constants.
fn edges(extent: u32) -> Vec<u32> {
    let near = |n: u32| [n.saturating_sub(1), n, n + 1];
    let multiples = LARGE.into_iter().flat_map(|c| [c, extent / c / 2 * c, (extent - 1) / c * c]);
    let mut at: Vec<u32> = multiples.chain([0, extent - 1]).flat_map(near).filter(|&i| i < extent).collect();
    at.sort_unstable();
    at.dedup();
    at
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn l9_every_index_of_small_boxes(extents in [1u32..40, 1u32..25], steps in steps(&SMALL)) {
        let leaves = [0, 1].map(|axis| Expr::index(axis, extents[axis]));
        assert_forms(&expression(&leaves, &steps), indices(&extents));
    }

    #[test]
    fn l9_edges_of_large_boxes(extent in select(&EDGES[..]), steps in steps(&LARGE)) {
        let naive = expression(&[Expr::index(0, extent)], &steps);
        assert_forms(&naive, edges(extent).into_iter().map(|i| vec![i]));
    }
}

/// Every quotient and remainder of a range by every divisor, with the multiplier of S10.
#[test]
fn l9_division_by_multiplication_is_exact() {
    for extent in [2, 3, 100, 1 << 10, 32_768, 65_536] {
        let x = Expr::index(0, extent);
        for by in (1..=64).chain([127, 129, 1000, 32_767, 65_535]) {
            let (quotient, remainder) = (x.div(by).machine(), x.modulo(by).machine());
            let all = if (8..=64).contains(&by) { 61 } else { 1 };
            for i in (0..extent).step_by(all).chain([extent - 1]) {
                assert_eq!(u64::from(quotient.evaluate(&[i], 32)), u64::from(i) / by);
                assert_eq!(u64::from(remainder.evaluate(&[i], 32)), u64::from(i) % by);
            }
        }
    }
}

/// What the rules' conditions are there for.
#[test]
fn l9_false_rules_are_not_used() {
    let text = |expr: Expr| expr.reduced().to_string();
    let x = Expr::index(0, 1000);
    let y = Expr::index(1, 3);
    // S1 read the other way round, ((x mod a) b) ÷ a, is false at x = 1, a = b = 2.
    assert_eq!(text(x.div(2).modulo(2)), "(i0 / 2) % 2");
    // S3 and S5 need b to divide a.
    assert_eq!(text(x.modulo(12).modulo(8)), "(i0 % 12) % 8");
    assert_eq!(text(x.modulo(12).div(8)), "(i0 % 12) / 8");
    // S7 and S8 need y < c.
    assert_eq!(text(x.mul(2).add(&y).div(4)), "(2 * i0 + i1) / 4");
    assert_eq!(text(x.mul(2).add(&y).modulo(4)), "(2 * i0 + i1) % 4");
}

/// The rules by their text.
#[test]
fn l9_rules_reduce() {
    let text = |expr: Expr| expr.reduced().to_string();
    let x = Expr::index(0, 1000);
    let y = Expr::index(1, 4);
    assert_eq!(text(x.modulo(12).div(3)), "(i0 / 3) % 4", "S1, S5");
    assert_eq!(text(x.div(3).div(4)), "i0 / 12", "S2");
    assert_eq!(text(x.modulo(12).modulo(4)), "i0 % 4", "S3");
    assert_eq!(text(x.modulo(4).modulo(12)), "i0 % 4", "S4");
    assert_eq!(text(x.mul(4).add(&y).div(4)), "i0", "S6");
    assert_eq!(text(x.mul(4).add(&y).modulo(4)), "i1", "S6");
    assert_eq!(text(x.mul(4).add(&y).div(12)), "i0 / 3", "S7");
    assert_eq!(text(x.mul(4).add(&y).modulo(12)), "4 * (i0 % 3) + i1", "S8");
    assert_eq!(text(x.modulo(1000).add(&x.div(1000))), "i0", "S9");
    assert_eq!(text(x.modulo(7).add(&x.div(7).mul(7))), "i0", "S12");
    assert_eq!(x.div(3).modulo(4).machine().to_string(), "((i0 * 1366 >> 12) & 3)", "S10, S13");
    assert_eq!(x.modulo(3).machine().to_string(), "i0 - (3 * (i0 * 1366 >> 12))", "S12");
}

/// S11, which is left to drivers: right below 2^22, wrong before 2^23.
#[test]
fn l9_division_in_floats_ends_at_two_to_the_22() {
    let quotient = |x: u32, a: u32| ((x as f32 + 0.5) * (1.0 / a as f32)) as u32;
    let right = |x: u32| (1..200).all(|a| quotient(x, a) == x / a);
    assert!(edges(1 << 22).into_iter().all(right));
    assert!(((1 << 22)..(1 << 23)).step_by(101).any(|x| !right(x)));
}

/// Where the element of a box is in the box before a transform.
fn before(transform: &Transform, old: &[u32], index: Vec<Expr>) -> Vec<Expr> {
    let dense = |extents: &[u32]| -> Vec<u64> {
        (0..extents.len()).map(|axis| extents[..axis].iter().map(|&n| u64::from(n)).product()).collect()
    };
    let number = |strides: &[u64], offset: u64| {
        let moved = index.iter().zip(strides).map(|(i, &stride)| i.mul(stride));
        moved.fold(Expr::constant(offset), |sum, moved| sum.add(&moved))
    };
    let numbered = |number: Expr| -> Vec<Expr> {
        old.iter().zip(dense(old)).map(|(&extent, stride)| number.div(stride).modulo(extent.into())).collect()
    };
    let mut source = index.clone();
    match transform {
        Transform::Permute(order) => order.iter().zip(&index).for_each(|(&axis, i)| source[axis] = i.clone()),
        &Transform::Split { axis, inner } => {
            let outer = source.remove(axis + 1);
            source[axis] = source[axis].add(&outer.mul(inner.into()));
        }
        &Transform::Merge { inner, outer } => {
            source.insert(outer, Expr::constant(0));
            let (joined, n) = (source[inner].clone(), u64::from(old[inner]));
            source[inner] = joined.modulo(n);
            source[outer] = joined.div(n);
        }
        &Transform::Slice { axis, start, .. } => source[axis] = source[axis].add(&Expr::constant(start.into())),
        &Transform::RepeatEach { axis, fan } => source[axis] = source[axis].div(fan.into()),
        &Transform::RepeatWhole { axis, .. } => source[axis] = source[axis].modulo(old[axis].into()),
        &Transform::Squeeze(axis) => source.insert(axis, Expr::constant(0)),
        &Transform::Unsqueeze(axis) => drop(source.remove(axis)),
        Transform::Reshape(extents) => source = numbered(number(&dense(extents), 0)),
        Transform::Strided { strides, offset, .. } => source = numbered(number(strides, *offset)),
    }
    source
}

/// The coordinates of a root's element as the definition of its layout has them.
fn naive_coordinates(layout: &Layout, index: &[Expr]) -> [Expr; 3] {
    [&layout.x, &layout.y, &layout.lane].map(|digits| {
        let mut step = 1;
        let mut sum = Expr::constant(0);
        for digit in digits {
            let value = index[usize::from(digit.axis)].div(digit.stride.into()).modulo(digit.radix.into());
            sum = sum.add(&value.mul(step));
            step *= u64::from(digit.radix);
        }
        sum
    })
}

/// The steps of a chain that make sense, the boxes before them and what the whole chain shows.
fn chain(layout: &Layout, draws: &[Draw]) -> (Vec<(Transform, Vec<u32>)>, Naive) {
    let mut naive = Naive::root(&layout.extents());
    let mut steps = Vec::new();
    for draw in draws {
        let transform = shapes::transform(&naive.extents, draw);
        let Some(moved) = naive.apply(&transform).filter(|moved| moved.ids.len() <= 600) else { continue };
        steps.push((transform, naive.extents.clone()));
        naive = moved;
    }
    (steps, naive)
}

/// Chains of transforms become nested divisions; reduced, they show the elements that really moved, whether the chain is digits or
/// not. Where it is, they are the coordinates of its view.
#[test]
fn l9_chains_reduce_to_the_coordinates_of_their_view() {
    let (views, same, saved) = (Cell::new(0), Cell::new(0), Cell::new((0, 0)));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(800));
    let check = |(layout, draws): (Layout, Vec<Draw>)| {
        let (steps, shown) = chain(&layout, &draws);
        let leaves: Vec<Expr> = shown.extents.iter().enumerate().map(|(axis, &n)| Expr::index(axis, n)).collect();
        let source = steps.iter().rev().fold(leaves, |index, (transform, old)| before(transform, old, index));
        let naive = naive_coordinates(&layout, &source);
        naive.iter().for_each(|expr| assert_forms(expr, indices(&shown.extents)));
        let reduced = naive.clone().map(|expr| expr.reduced());
        let root = layout.extents();
        for (index, &id) in indices(&shown.extents).zip(&shown.ids) {
            let Position { x, y, lane } = layout.address(&super::naive::index_of(&root, id));
            assert_eq!(reduced.clone().map(|expr| expr.evaluate(&index, 32)), [x, y, lane]);
        }
        let legal = steps.iter().try_fold(layout.view(), |view, (transform, _)| view.apply(transform));
        if let Ok(view) = legal {
            let coordinates = view.coordinates();
            for index in indices(&shown.extents) {
                let values = |exprs: &[Expr; 3]| exprs.clone().map(|expr| expr.evaluate(&index, 32));
                assert_eq!(values(&coordinates), values(&reduced));
            }
            views.set(views.get() + 1);
            same.set(same.get() + usize::from(coordinates == reduced));
        }
        let cost = |exprs: &[Expr]| {
            let Ops { simple, mul, mul_high } = Ops::of(exprs);
            simple + mul + mul_high
        };
        let (before, after) = saved.get();
        saved.set((before + cost(&naive), after + cost(&reduced)));
        Ok(())
    };
    runner.run(&(shapes::layout(200), shapes::draws(1..6)), check).unwrap();
    let (before, after) = saved.get();
    println!("{} of {} views found again by the rules alone; operations {before} -> {after}", same.get(), views.get());
    assert!(views.get() > 200, "{} chains are views", views.get());
    assert!(same.get() * 10 >= views.get() * 8, "{} of {} views", same.get(), views.get());
    assert!(after * 2 <= before, "{before} operations become {after}");
}

/// The attention view of a projection: no division is left of reshape, permutation and tile.
#[test]
fn l9_heads_cost_no_division() {
    let layout = Layout::rtile(&[64 * 9, 96, 1, 1], 4, 1, 4, 16384, 16384).unwrap();
    let view = layout.view().reshape(&[64, 9, 96, 1]).unwrap().permute(&[0, 2, 1, 3]).unwrap();
    let [x, y, lane] = view.coordinates();
    assert_eq!(
        [x.to_string(), y.to_string(), lane.to_string()],
        ["64 * i2 + 4 * (i0 / 4) + i1 % 4", "i1 / 4", "i0 % 4"]
    );
    assert_eq!(Ops::of(&[x.clone(), y.clone(), lane]), Ops { simple: 8, mul: 0, mul_high: 0 });
    let tripled = x.add(&y.mul(3));
    assert_eq!(Ops::of(&[tripled]).mul, 1);
}

#[test]
fn places_without_digits_are_constants() {
    let layout = Layout::rtile(&[4, 3, 1, 1], 4, 1, 1, 64, 64).unwrap();
    let view = layout.view().slice(1, 2, 1).unwrap();
    let [x, y, lane] = view.coordinates();
    assert_eq!([x.to_string(), y.to_string(), lane.to_string()], ["0", "2", "i0"]);
    assert_eq!(view.address(&[1, 0, 0, 0]), Position { x: 0, y: 2, lane: 1 });
    assert!(view.axes.iter().flat_map(|axis| &axis.terms).all(|term| matches!(term.at, Some((Place::Lane, 1)))));
}
