//! L5, L6, L10: whatever chain of views is accepted shows the elements that plain index arithmetic finds, and the
//! chains of a transformer are accepted.

use std::cell::Cell;
use std::collections::HashSet;

use proptest::prelude::*;

use super::naive::{Naive, index_of, indices};
use super::shapes::{self, Draw};
use crate::layout::{Axis, Chain, Digit, Illegal, Layout, Place, Position, Transform, View};

/// Applies the draws that are legal, skips those that are not, and checks after each.
fn check_chain(layout: &Layout, draws: &[Draw]) -> (usize, usize) {
    let mut naive = Naive::root(&layout.extents());
    let mut view = layout.view();
    let (mut legal, mut refused) = (0, 0);
    for draw in draws {
        let transform = shapes::transform(&naive.extents, draw);
        let Some(moved) = naive.apply(&transform).filter(|moved| moved.ids.len() <= 1000) else { continue };
        match view.apply(&transform) {
            Ok(next) => {
                moved.assert_shown_by(&next, layout);
                assert_eq!(next.normalize(), next, "results are in normal form");
                naive = moved;
                view = next;
                legal += 1;
            }
            Err(_) => refused += 1,
        }
    }
    (legal, refused)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// A home is told to be linear exactly where its elements lie one after the other in their order.
    #[test]
    fn linear_homes_are_those_in_order(layout in shapes::layout(300)) {
        let (lanes, width) = (layout.lanes(), layout.width());
        let number = |at: Position| (at.y * width + at.x) * lanes + at.lane;
        let in_order = indices(&layout.extents()).zip(0..).all(|(index, n)| number(layout.address(&index)) == n);
        prop_assert_eq!(layout.view().is_linear(lanes, width), in_order, "{:?}", layout);
    }
}

/// Every accepted chain is right, on every kind of home; and the test sees both outcomes often.
#[test]
fn l6_l10_accepted_chains_show_the_right_elements() {
    let (legal, refused) = (Cell::new(0), Cell::new(0));
    let chains = (shapes::layout(300), shapes::draws(1..7));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2500));
    runner
        .run(&chains, |(layout, draws)| {
            let (ok, err) = check_chain(&layout, &draws);
            legal.set(legal.get() + ok);
            refused.set(refused.get() + err);
            Ok(())
        })
        .unwrap();
    assert!(legal.get() > 1500, "{} legal steps", legal.get());
    assert!(refused.get() > 300, "{} refused steps", refused.get());
}

/// All windows of one or two axes over all homes of a small box.
#[test]
fn l6_l10_all_small_windows() {
    let mut accepted = 0;
    for extents in [[4u32, 6], [6, 4], [3, 8], [5, 4], [8, 3]] {
        let naive = Naive::root(&extents);
        for (lanes, h) in [(1, 1), (2, 2), (4, 1), (4, 4)] {
            let layout = Layout::rtile(&extents, lanes, 1, h, 64, 64).unwrap();
            let view = layout.view();
            for (n0, s0, n1, s1) in (1..9).flat_map(|n0| {
                (0..13).flat_map(move |s0| (1..7).flat_map(move |n1| (0..13).map(move |s1| (n0, s0, n1, s1))))
            }) {
                for offset in [0, 1, 4, 6] {
                    let window = Transform::Strided { extents: vec![n0, n1], strides: vec![s0, s1], offset };
                    match (naive.apply(&window), view.apply(&window)) {
                        (Some(moved), Ok(view)) => {
                            moved.assert_shown_by(&view, &layout);
                            accepted += 1;
                        }
                        (None, Ok(view)) => panic!("{window:?} leaves {extents:?}, but gave {view:?}"),
                        (_, Err(_)) => {}
                    }
                }
            }
        }
    }
    assert!(accepted > 5_000, "{accepted} windows accepted");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A chain in one go and in two halves; the first illegal step is named.
    #[test]
    fn l5_chains_compose(layout in shapes::layout(600), draws in shapes::draws(1..6), cut: prop::sample::Index) {
        let mut extents = layout.extents();
        let mut steps = Vec::new();
        let mut view = Ok(layout.view());
        for draw in &draws {
            let step = shapes::transform(&extents, draw);
            view = view.and_then(|view| view.apply(&step));
            steps.push(step);
            match &view {
                Ok(view) => extents = view.extents(),
                Err(_) => break,
            }
        }
        let (first, second) = steps.split_at(cut.index(steps.len() + 1));
        let whole = Chain(steps.clone()).apply(&layout.view());
        let halves = Chain(first.to_vec()).apply(&layout.view()).and_then(|half| Chain(second.to_vec()).apply(&half));
        match (whole, halves, view) {
            (Ok(whole), Ok(halves), Ok(stepwise)) => {
                prop_assert_eq!(&whole, &halves);
                prop_assert_eq!(whole, stepwise);
            }
            (Err(broken), Err(_), Err(why)) => {
                prop_assert_eq!(broken.at_step, steps.len() - 1);
                prop_assert_eq!(broken.why, why);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    /// Regroupings and permutations keep padding outside the elements: what lies beyond an extent is no element of the
    /// root.
    #[test]
    fn padding_of_a_regrouping_is_padding_of_the_root(layout in shapes::layout(600), draws in shapes::draws(1..5)) {
        let root = layout.extents();
        let elements: HashSet<Position> =
            indices(&root).map(|index| layout.address(&index)).collect();
        let mut view = layout.view();
        for draw in &draws {
            let step = shapes::transform(&view.extents(), draw);
            use Transform::{Merge, Permute, Reshape, Split};
            if matches!(step, Permute(_) | Split { .. } | Merge { .. } | Reshape(_)) {
                view = view.apply(&step).unwrap_or(view);
            }
        }
        let extents = view.extents();
        let padded: Vec<u32> = view.axes.iter().map(|axis| axis.padded).collect();
        for index in indices(&padded) {
            let inside = index.iter().zip(&extents).all(|(i, extent)| i < extent);
            prop_assert_eq!(elements.contains(&view.address(&index)), inside);
        }
    }
}

/// Axis 0 in digits 3, 3, 3 (the top one for padding above 12): a window of elements 0 and 6 ends with the axis, within
/// its middle digit.
#[test]
fn a_window_inherits_the_padding_of_its_own_top_digit_only() {
    let digit = |stride| Digit { axis: 0, stride, radix: 3 };
    let layout = Layout {
        axes: vec![Axis { extent: 12, padded: 27 }],
        lane: vec![digit(1), digit(9)],
        x: vec![digit(3)],
        y: vec![],
    };
    let window = Transform::Strided { extents: vec![2], strides: vec![6], offset: 0 };
    assert_eq!(assert_chain(&layout, &[window]).axes[0].padded, 2);
}

fn plain(extents: [u32; 4], row_axis: usize) -> Layout {
    Layout::rtile(&extents, 4, row_axis, 4, 16384, 16384).unwrap()
}

fn assert_chain(layout: &Layout, steps: &[Transform]) -> View {
    let mut naive = Naive::root(&layout.extents());
    let mut view = layout.view();
    for step in steps {
        naive = naive.apply(step).expect("the test's own transform makes sense");
        view = view.apply(step).unwrap_or_else(|why| panic!("{step:?}: {why}"));
        naive.assert_shown_by(&view, layout);
    }
    view
}

fn ggml_permute(to: [usize; 4]) -> Transform {
    let mut order = vec![0; 4];
    to.iter().enumerate().for_each(|(axis, &to)| order[to] = axis);
    Transform::Permute(order)
}

/// Head split and merge with odd head counts and odd token counts; every chain here is met in a transformer.
#[test]
fn transformer_chains_are_coordinates() {
    for (hd, heads, kv, tokens) in [(64, 9, 3, 29), (40, 14, 2, 7), (80, 8, 1, 5), (12, 4, 4, 1), (8, 32, 8, 130)] {
        let q = plain([hd * heads, tokens, 1, 1], 1);
        let split = Transform::Reshape(vec![hd, heads, tokens, 1]);
        let by_head = ggml_permute([0, 2, 1, 3]);
        let transposed = Transform::Permute(vec![1, 0, 2, 3]);
        assert_chain(&q, &[split.clone(), by_head.clone(), transposed.clone(), transposed.clone()]);
        // Back to the flat matrix, by way of the permuted order: the CONT that is elided.
        let merge = Transform::Reshape(vec![hd * heads, tokens, 1, 1]);
        let back = assert_chain(&q, &[split.clone(), by_head.clone(), by_head.clone(), merge]);
        if tokens > 1 {
            assert_eq!(back, q.view());
        }
        // K and V: heads shared by groups of queries, read by head.
        let k = plain([hd * kv, tokens, 1, 1], 1);
        let fan = heads / kv;
        assert_chain(
            &k,
            &[Transform::Reshape(vec![hd, kv, tokens, 1]), by_head, Transform::RepeatEach { axis: 2, fan }, transposed],
        );
    }
}

/// One root that holds Q, K and V side by side, and the windows ggml cuts out of it.
#[test]
fn fused_projections_are_windows() {
    let (hd, heads, tokens) = (16u32, 3u32, 10u32);
    let root = plain([hd * heads * 3, tokens, 1, 1], 1);
    let row = u64::from(hd * heads * 3);
    for part in 0..3u64 {
        let window = Transform::Strided {
            extents: vec![hd, heads, tokens, 1],
            strides: vec![1, hd.into(), row, row * u64::from(tokens)],
            offset: part * u64::from(hd * heads),
        };
        let view = assert_chain(&root, &[window]);
        assert_eq!(view.axes[2].padded, 12, "the tokens keep the padding of the root");
    }
}

/// Windows of a cache: its first rows, the rows behind them, and one that starts within a tile.
#[test]
fn cache_windows() {
    let cache = plain([32, 24, 2, 1], 1);
    let window = |extents: [u32; 4], offset| cache.view().strided(&extents, &[1, 32, 32 * 24, 32 * 48], offset);
    assert!(window([32, 8, 2, 1], 0).is_ok());
    assert!(window([32, 7, 1, 1], 0).is_ok());
    assert!(window([32, 8, 2, 1], 8 * 32).is_ok());
    assert!(window([32, 2, 2, 1], 5 * 32).is_ok(), "rows 5 and 6 share a tile");
    assert_eq!(
        window([32, 8, 2, 1], 5 * 32),
        Err(Illegal::OffsetUnaligned { axis: 1, stride: 32, radix: 4 }),
        "rows 5 .. 12 do not"
    );
    assert!(window([32, 8, 1, 1], 20 * 32).is_ok(), "the rows of the next batch follow in the picture");
    assert!(matches!(window([32, 8, 2, 1], 20 * 32), Err(Illegal::OutOfBounds { axis: 2, .. })));
    assert_eq!(window([32, 1, 1, 1], 48 * 32), Err(Illegal::OutOfBounds { axis: 0, element: 1536, elements: 1536 }));
}

#[test]
fn what_does_not_divide_is_refused_with_its_cuts() {
    let tiled = Layout::rtile(&[48, 16, 1, 1], 16, 1, 4, 16384, 16384).unwrap().view();
    // 48 = 4 x 12 cuts at 4 and inside the second lane digit; 6 x 8 needs 6, which is no cut of 16.
    assert!(tiled.split(0, 12).is_err());
    assert!(tiled.split(0, 8).is_ok());
    assert!(tiled.split(0, 6).is_err());
    assert_eq!(tiled.split(0, 5), Err(Illegal::NonDivisible { axis: 0, cut_a: 5, cut_b: 48 }));
    // Six elements in two slots of four: the rows of the flat matrix are not the rows of the padded one.
    let padded = Layout::rtile(&[6, 4, 1, 1], 4, 1, 1, 64, 64).unwrap().view();
    assert_eq!(padded.merge(0, 1), Err(Illegal::CutsPadding { axis: 0, extent: 6, padded: 8 }));
    assert_eq!(padded.repeat_whole(0, 2), Err(Illegal::CutsPadding { axis: 0, extent: 6, padded: 8 }));
    assert_eq!(padded.reshape(&[5, 5]), Err(Illegal::ElementCount { from: 24, to: 25 }));
    assert_eq!(padded.squeeze(0), Err(Illegal::NotSqueezable { axis: 0, extent: 6 }));
    assert!(matches!(padded.permute(&[0, 1, 1, 3]), Err(Illegal::NotAPermutation { .. })));
    assert!(matches!(padded.merge(1, 1), Err(Illegal::NotAPermutation { .. })));
    assert_eq!(padded.slice(1, 3, 2), Err(Illegal::OutOfBounds { axis: 1, element: 4, elements: 4 }));
    assert_eq!(padded.slice(1, 3, 0), Err(Illegal::Empty { axis: 1 }));
    assert_eq!(padded.strided(&[2], &[1, 1], 0), Err(Illegal::RankMismatch { given: 2, rank: 1 }));
    assert!(padded.strided(&[u32::MAX, u32::MAX], &[u64::MAX, u64::MAX], u64::MAX).is_err());
    assert!(padded.repeat_each(0, u32::MAX).is_err());
    assert_eq!(padded.repeat_each(7, 2), Err(Illegal::NoSuchAxis { axis: 7, rank: 4 }));
}

#[test]
fn the_lane_is_found_on_the_axis_that_carries_it() {
    let view = plain([8, 5, 3, 1], 1).view();
    assert_eq!(view.lane_axis(4), Ok(Some(0)));
    assert_eq!(view.permute(&[2, 1, 0, 3]).unwrap().lane_axis(4), Ok(Some(2)));
    assert_eq!(view.repeat_each(0, 2).unwrap().lane_axis(4), Err(Illegal::SplitsLane { axis: 0, lanes: 4 }));
    assert_eq!(view.split(0, 2).unwrap().lane_axis(4), Err(Illegal::SplitsLane { axis: 1, lanes: 4 }));
    assert_eq!(view.slice(0, 1, 2).unwrap().lane_axis(4), Err(Illegal::SplitsLane { axis: 0, lanes: 4 }));
    assert_eq!(view.slice(0, 4, 3).unwrap().lane_axis(4), Ok(Some(0)));
    assert_eq!(view.slice(0, 4, 1).unwrap().lane_axis(4), Ok(None));
}

#[test]
fn an_address_is_the_sum_of_its_digits() {
    let view = plain([8, 5, 3, 1], 1).view();
    assert_eq!(view.address(&[6, 4, 2, 0]), Position { lane: 2, x: 4, y: 1 + 2 * 2 });
    assert_eq!(
        view.axes[1].terms.iter().map(|term| term.at).collect::<Vec<_>>(),
        [Some((Place::X, 1)), Some((Place::Y, 1))]
    );
    assert_eq!(index_of(&[8, 5, 3], 6 + 8 * (4 + 5 * 2)), [6, 4, 2]);
}

/// Padding behind an axis is inherited once: two windows over axes that go on in each other both end with the first of them, and together
/// would leave the tensor.
#[test]
fn padding_is_inherited_by_one_axis() {
    let layout = Layout::rtile(&[4, 1], 4, 1, 4, 64, 64).unwrap();
    let (mut view, mut naive) = (layout.view(), Naive::root(&[4, 1]));
    let window = Transform::Strided { extents: vec![2, 2], strides: vec![4, 4], offset: 0 };
    let repeat = |axis| Transform::RepeatEach { axis, fan: 2 };
    for step in [repeat(1), Transform::Unsqueeze(2), repeat(2), window] {
        view = view.apply(&step).unwrap();
        naive = naive.apply(&step).unwrap();
        naive.assert_shown_by(&view, &layout);
    }
    assert_eq!(view.axes.iter().map(|axis| axis.padded).collect::<Vec<_>>(), [8, 2]);
}

#[test]
fn slices_of_more_elements_than_64_bits_count_are_refused() {
    let mut view = Layout::rtile(&[2, 2], 2, 1, 1, 64, 64).unwrap().view().unsqueeze(2).unwrap();
    for axis in 0..3 {
        view = view.repeat_each(axis, 1 << 30).unwrap();
    }
    assert!(matches!(view.slice(2, 1 << 29, 1), Err(Illegal::TooLong { .. })));
}
