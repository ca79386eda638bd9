//! L7: the decision about tiles against the definition, element by element: sound, and complete on small shapes.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use super::naive::{Naive, index_of, indices};
use super::shapes;
use crate::layout::{Chain, Layout, Legality, Side, TileMap, Tiling, Transform};

/// Tile number and position (row, column) of an element.
fn tile_of(tiling: &Tiling, index: &[u32]) -> (u32, [u32; 2]) {
    let &Tiling { row, col, h, w, .. } = tiling;
    let mut number = index[col] / w;
    let mut count = tiling.extents[col].div_ceil(w);
    number += index[row] / h * count;
    count *= tiling.extents[row].div_ceil(h);
    for axis in (0..index.len()).filter(|&axis| axis != row && axis != col) {
        number += index[axis] * count;
        count *= tiling.extents[axis];
    }
    (number, [index[row] % h, index[col] % w])
}

/// The definition: the source tile of every destination tile, when all its elements lie at their own positions of one
/// tile.
fn by_definition(source: &Tiling, seen: &Naive, row: usize, col: usize, exchanged: bool) -> Option<Vec<u32>> {
    let (h, w) = if exchanged { (source.w, source.h) } else { (source.h, source.w) };
    let destination = Tiling { extents: seen.extents.clone(), row, col, h, w };
    let mut map: Vec<Option<u32>> = Vec::new();
    for (index, &id) in indices(&seen.extents).zip(&seen.ids) {
        let (tile, mut at) = tile_of(&destination, &index);
        let (from, from_at) = tile_of(source, &index_of(&source.extents, id));
        if exchanged {
            at.reverse();
        }
        let tile = tile as usize;
        map.resize(map.len().max(tile + 1), None);
        if at != from_at || *map[tile].get_or_insert(from) != from {
            return None;
        }
    }
    map.into_iter().collect()
}

fn table(map: &TileMap) -> Vec<u32> {
    (0..map.count()).map(|tile| map.evaluate(tile)).collect()
}

/// Numbers of tiles along each axis, in the order in which tiles are counted.
fn tile_counts(tiling: &Tiling) -> Vec<u32> {
    let &Tiling { row, col, h, w, .. } = tiling;
    let others = (0..tiling.extents.len()).filter(|&axis| axis != row && axis != col);
    let mut counts = vec![tiling.extents[col].div_ceil(w), tiling.extents[row].div_ceil(h)];
    counts.extend(others.map(|axis| tiling.extents[axis]));
    counts
}

/// Whether a table is a sum over the axes of mixed-radix digits times strides, which is what a kernel can follow.
fn is_digit_map(table: &[u32], counts: &[u32]) -> bool {
    let along = |axis: usize| -> Vec<i64> {
        let inner: u32 = counts[..axis].iter().product();
        (0..counts[axis]).map(|i| i64::from(table[(i * inner) as usize]) - i64::from(table[0])).collect()
    };
    let axes: Vec<Vec<i64>> = (0..counts.len()).map(along).collect();
    axes.iter().all(|axis| is_digit_run(axis))
        && indices(counts).zip(table).all(|(index, &at)| {
            let sum: i64 = axes.iter().zip(&index).map(|(axis, &i)| axis[i as usize]).sum();
            sum == i64::from(at) - i64::from(table[0])
        })
}

/// Whether a function of one index is a sum of mixed-radix digits times strides.
fn is_digit_run(run: &[i64]) -> bool {
    let mut inner = 1;
    while inner < run.len() {
        let step = run[inner];
        let values = run.iter().step_by(inner).zip(0..).take_while(|&(&at, i)| at == i * step).count();
        let block = inner * values;
        if step < 0 || !run.len().is_multiple_of(block) {
            return false;
        }
        if (0..block).any(|i| run[i] != run[i % inner] + (i / inner) as i64 * step) {
            return false;
        }
        inner = block;
    }
    true
}

/// Compares one decision with the definition; returns its kind.
fn check(source: &Tiling, chain: &Chain, seen: &Naive, row: usize, col: usize) -> &'static str {
    let legality = source.legality(chain, row, col);
    let same = by_definition(source, seen, row, col, false);
    let exchanged = by_definition(source, seen, row, col, true);
    let context = || format!("{source:?} {chain:?} row {row} col {col}: {legality:?}");
    // A map that no digits describe (two cuts of one axis, say) may be refused even when it keeps tiles together, and
    // so may a part of an axis that starts within a digit and is so short that its carry looks like one.
    let must_be_refused = || {
        let seen_tiles = |h, w| tile_counts(&Tiling { extents: seen.extents.clone(), row, col, h, w });
        let found = [(&same, seen_tiles(source.h, source.w)), (&exchanged, seen_tiles(source.w, source.h))]
            .into_iter()
            .any(|(map, counts)| map.as_ref().is_some_and(|map| is_digit_map(map, &counts)));
        let elements = chain.apply(&Layout::linear(&source.extents).unwrap().view());
        let is_part = |step: &Transform| matches!(step, Transform::Strided { .. } | Transform::Slice { .. });
        assert!(!found || chain.0.iter().any(is_part) || elements.is_err(), "{}", context());
    };
    match &legality {
        Legality::Strict(map) => {
            assert_eq!(Some(table(map)), same, "{}", context());
            "strict"
        }
        Legality::Broadcast(map, fan) => {
            assert_eq!(Some(table(map)), same, "{}", context());
            assert!(*fan > 1 && *fan == map.fan());
            "broadcast"
        }
        Legality::Transposed(map) => {
            assert_eq!(same, None, "{}", context());
            assert_eq!(Some(table(map)), exchanged, "{}", context());
            "transposed"
        }
        Legality::SubTile(map, (h, w)) => {
            assert!(source.h.is_multiple_of(*h) && source.w.is_multiple_of(*w) && h * w < source.h * source.w);
            let smaller = Tiling { h: *h, w: *w, ..source.clone() };
            assert_eq!(Some(table(map)), by_definition(&smaller, seen, row, col, false), "{}", context());
            must_be_refused();
            "sub-tile"
        }
        Legality::NeedsPad { side, axis, to } => {
            let (extent, size) = match side {
                Side::Source => (source.extents[*axis], if *axis == source.row { source.h } else { source.w }),
                Side::Destination => (seen.extents[*axis], if *axis == row { source.h } else { source.w }),
            };
            assert!(extent < *to && *to - extent < size && to.is_multiple_of(size), "{}", context());
            must_be_refused();
            "needs pad"
        }
        Legality::Illegal { at_step, .. } => {
            must_be_refused();
            match chain.apply(&Layout::linear(&source.extents).unwrap().view()) {
                Err(broken) => assert_eq!(broken.at_step, *at_step),
                Ok(_) => assert_eq!(*at_step, chain.0.len()),
            }
            "illegal"
        }
    }
}

#[test]
fn l7_decisions_agree_with_the_definition() {
    let extents = prop::collection::vec(select(&[1u32, 2, 3, 4, 5, 6, 7, 8, 12][..]), 2..=4);
    let tile = (select(&[1u32, 2, 3, 4, 8][..]), select(&[1u32, 2, 4, 6, 8][..]));
    let cases = (extents, tile, any::<[prop::sample::Index; 4]>(), shapes::draws(0..5));
    let counts: [(&str, Cell<u32>); 6] =
        ["strict", "broadcast", "transposed", "sub-tile", "needs pad", "illegal"].map(|kind| (kind, Cell::new(0)));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(4000));
    runner
        .run(&cases, |(mut extents, (h, w), axes, draws)| {
            let mut room = 400;
            for extent in &mut extents {
                *extent = (*extent).min(room);
                room /= *extent;
            }
            let pair = |a: &prop::sample::Index, b: &prop::sample::Index, rank: usize| {
                let row = a.index(rank);
                (row, (row + 1 + b.index(rank - 1)) % rank)
            };
            let (row, col) = pair(&axes[0], &axes[1], extents.len());
            let source = Tiling { extents: extents.clone(), row, col, h, w };
            let mut seen = Naive::root(&extents);
            let mut steps = Vec::new();
            for draw in &draws {
                let step = shapes::transform(&seen.extents, draw);
                if let Some(moved) = seen.apply(&step).filter(|moved| moved.ids.len() <= 1000) {
                    seen = moved;
                    steps.push(step);
                }
            }
            if seen.extents.len() >= 2 {
                let (row, col) = pair(&axes[2], &axes[3], seen.extents.len());
                let kind = check(&source, &Chain(steps), &seen, row, col);
                let count = &counts.iter().find(|(name, _)| *name == kind).expect("a kind").1;
                count.set(count.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    for (kind, count) in &counts {
        assert!(count.get() >= 10, "{kind}: {}", count.get());
    }
}

/// `[D, S, B]` to `[hd, S, H, B]`: the head split of attention.
fn head_split(hd: u32) -> Chain {
    Chain(vec![Transform::Split { axis: 0, inner: hd }, Transform::Permute(vec![0, 2, 1, 3])])
}

/// Every head split of a small family, with the closed form of its map; what needs padding is strict once padded.
#[test]
fn l7_head_splits() {
    for (hd, heads, tokens, batch) in
        [(8, 3, 8, 2), (12, 2, 8, 1), (8, 2, 7, 3), (8, 2, 1, 2), (6, 2, 4, 2), (16, 1, 12, 2), (4, 4, 4, 4)]
    {
        for (h, w) in [(1, 1), (4, 4), (2, 8), (4, 8), (1, 16), (4, 2)] {
            let source = |tokens| Tiling { extents: vec![hd * heads, tokens, batch], row: 1, col: 0, h, w };
            let chain = head_split(hd);
            let mut seen = Naive::root(&source(tokens).extents);
            for step in &chain.0 {
                seen = seen.apply(step).unwrap();
            }
            check(&source(tokens), &chain, &seen, 1, 0);
            let legality = source(tokens).legality(&chain, 1, 0);
            let whole = hd % w == 0 && tokens % h == 0;
            if !whole {
                continue;
            }
            let Legality::Strict(map) = legality else { panic!("{hd} {heads} {tokens} {batch} {h} {w}: {legality:?}") };
            let (wt, st) = (hd / w, tokens / h);
            for t in 0..map.count() {
                let closed = ((t / (wt * st * heads)) * st + (t / wt) % st) * (heads * wt)
                    + ((t / (wt * st)) % heads) * wt
                    + t % wt;
                assert_eq!(map.evaluate(t), closed);
            }
            // The gradient goes back through the inverse.
            let inverse = map.inverse().unwrap();
            assert_eq!(map.after(&inverse).unwrap(), TileMap::identity(map.count()));
        }
    }
}

#[test]
fn l7_the_cases_of_the_design() {
    let tiling = |extents: &[u32], h, w| Tiling { extents: extents.to_vec(), row: 1, col: 0, h, w };
    // A tile wider than a head is refined to whole heads.
    let wide = tiling(&[256, 16, 1], 4, 128).legality(&head_split(64), 1, 0);
    assert!(matches!(wide, Legality::SubTile(_, (4, 64))), "{wide:?}");
    // 12 columns in tiles of 8: tiles of 4.
    let uneven = tiling(&[24, 16, 1], 4, 8).legality(&head_split(12), 1, 0);
    assert!(matches!(uneven, Legality::SubTile(_, (4, 4))), "{uneven:?}");
    // Batches of 7 rows that are one axis of 21 rows: tiles of 4 straddle, unless each batch has 8.
    let split = |rows| Chain(vec![Transform::Split { axis: 1, inner: rows }]);
    let straddling = tiling(&[16, 21], 4, 4).legality(&split(7), 1, 0);
    assert_eq!(straddling, Legality::NeedsPad { side: Side::Destination, axis: 1, to: 8 });
    assert!(matches!(tiling(&[16, 24], 4, 4).legality(&split(8), 1, 0), Legality::Strict(_)));
    let merge = Chain(vec![Transform::Merge { inner: 1, outer: 2 }]);
    let straddling = tiling(&[16, 7, 4], 4, 4).legality(&merge, 1, 0);
    assert_eq!(straddling, Legality::NeedsPad { side: Side::Source, axis: 1, to: 8 });
    assert!(matches!(tiling(&[16, 8, 4], 4, 4).legality(&merge, 1, 0), Legality::Strict(_)));
    // A transpose is a direction.
    let transpose = Chain(vec![Transform::Permute(vec![1, 0])]);
    assert!(matches!(tiling(&[16, 12], 4, 8).legality(&transpose, 1, 0), Legality::Transposed(_)));
    // Query heads over key heads: a broadcast; with K transposed, a broadcast read in the other direction.
    let grouped = Chain([head_split(8).0, vec![Transform::RepeatEach { axis: 2, fan: 3 }]].concat());
    let Legality::Broadcast(map, 3) = tiling(&[16, 8, 2], 4, 4).legality(&grouped, 1, 0) else { panic!("a broadcast") };
    assert_eq!(map.count(), 3 * 2 * 2 * 2 * 2);
    let Legality::Transposed(map) = tiling(&[16, 8, 2], 4, 4).legality(&grouped, 0, 1) else { panic!("a transpose") };
    assert_eq!(map.fan(), 3);
    // 48 = 4 x 12 transposed and cut at 6 is no digit map; the step that cuts is named.
    let scrambled =
        Chain(vec![Transform::Permute(vec![1, 0]), Transform::Reshape(vec![48]), Transform::Reshape(vec![5, 48])]);
    assert!(matches!(tiling(&[4, 12], 1, 1).legality(&scrambled, 1, 0), Legality::Illegal { at_step: 2, .. }));
    let scrambled = Chain(vec![Transform::Permute(vec![1, 0]), Transform::Reshape(vec![8, 6])]);
    assert!(matches!(tiling(&[4, 12], 1, 1).legality(&scrambled, 1, 0), Legality::Illegal { at_step: 1, .. }));
    // Tiles that do not exist.
    assert!(matches!(tiling(&[4, 12], 0, 1).legality(&Chain::default(), 1, 0), Legality::Illegal { .. }));
    assert!(matches!(tiling(&[4, 12], 1, 1).legality(&Chain::default(), 1, 1), Legality::Illegal { .. }));
}
