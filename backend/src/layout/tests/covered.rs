//! L11: lines covered by a rectangle; L12: both directions of a reduction visit the same texels of every tile; a cache
//! that is large enough fills each line once.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::shapes;
use crate::layout::{Layout, LineShape, Loads, Spread};

fn spread(axis: usize, count: u32, step: u32) -> Spread {
    Spread { axis, count, step }
}

/// L11, for every offset and every size that tells two of them apart.
#[test]
fn the_closed_form_counts_the_lines_of_a_rectangle() {
    for (width, height) in [(1, 1), (4, 1), (2, 2), (1, 4), (4, 2), (3, 5)] {
        let line = LineShape { width, height };
        for (x, y) in (0..width).flat_map(|x| (0..height).map(move |y| (x, y))) {
            for (w, h) in (0..=2 * width + 1).flat_map(|w| (0..=2 * height + 1).map(move |h| (w, h))) {
                let texels = (x..x + w).flat_map(|x| (y..y + h).map(move |y| [x, y]));
                let counted = line.covered(texels);
                assert_eq!(line.covered_by_rectangle([x, y], [w, h]), counted, "{line:?} at {x},{y}: {w} x {h}");
            }
        }
    }
    let line = LineShape { width: 4, height: 1 };
    assert_eq!(line.covered_by_rectangle([u32::MAX, 0], [u32::MAX, 1]), (1 << 30) + 1, "no overflow at the far end");
}

proptest! {
    /// L12. A tile is 4 rows by 4 slots; forward the slots of a row come one after the other, backward the rows.
    #[test]
    fn both_directions_visit_the_same_texels_of_a_tile(
        extents in shapes::extents(100_000), h in prop_oneof![Just(1u32), Just(2), Just(4)], tile in any::<u32>(),
    ) {
        let layout = Layout::rtile(&extents, 4, 1, h, u32::MAX, u32::MAX).unwrap();
        let view = layout.view();
        let [slots, rows] = [view.axes[0].padded / 4, view.axes[1].padded];
        let [cols, tall] = [slots.div_ceil(4), rows.div_ceil(4)];
        let (c0, r0) = (tile % cols * 16, tile / cols % tall * 4);
        let across = [spread(0, 4, 4), spread(1, 4, 1)];
        let visit = |order: [Spread; 2]| {
            let loads = Loads { lanes: vec![order[0]], instructions: vec![order[1]], together: 1 };
            let at = |i: [u32; 4]| [c0 + i[0], r0 + i[1], 0, 0];
            let inside = |i: &[u32; 4]| i[0] < 4 * slots && i[1] < rows;
            loads.indices().flatten().map(at).filter(inside).map(|i| {
                let p = view.address(&i[..view.axes.len()]);
                (p.x, p.y)
            }).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(visit(across), visit([across[1], across[0]]));
    }

    #[test]
    fn a_larger_cache_never_fills_more(
        extents in shapes::extents(100_000), h in prop_oneof![Just(1u32), Just(4)], lanes in 1u32..64, steps in 1u32..40, together in 0u32..5,
    ) {
        let view = Layout::rtile(&extents, 4, 1, h, u32::MAX, u32::MAX).unwrap().view();
        let line = LineShape { width: 4, height: 1 };
        let loads = Loads { lanes: vec![spread(1, lanes, 4)], instructions: vec![spread(1, 4, 1), spread(0, steps, 4)], together };
        let mut last = u64::MAX;
        for capacity in [1, 4, 16, 64, 1 << 20] {
            let c = view.coverage(&loads, line, capacity);
            prop_assert!(c.fills <= last && c.efficiency(line) <= 1.0 && c.efficiency(line) > 0.0);
            last = c.fills;
        }
        let texels = loads.indices().flatten().filter(|i| i[0] < view.axes[0].padded && i[1] < view.axes[1].padded);
        let lines = line.covered(texels.map(|i| view.address(&i[..view.axes.len()])).map(|p| [p.x, p.y]));
        prop_assert_eq!(last, lines, "every line once");
    }
}

/// The reason for R-Tiles, in lines of 4 texels and a cache of 64 of them: lanes 4 rows apart, as a product has them.
#[test]
fn an_rtile_is_read_in_both_directions_line_by_line() {
    let line = LineShape { width: 4, height: 1 };
    // k along axis 0, rows along axis 1; 64 lanes on rows, and 16 of them.
    let along_k =
        Loads { lanes: vec![spread(1, 64, 4)], instructions: vec![spread(1, 4, 1), spread(0, 8, 4)], together: 1 };
    let along_rows = Loads { lanes: vec![spread(0, 64, 4)], instructions: vec![spread(1, 32, 1)], together: 1 };
    let efficiency = |h: u32, loads: &Loads| {
        let view = Layout::rtile(&[1024, 1024], 4, 1, h, u32::MAX, u32::MAX).unwrap().view();
        view.coverage(loads, line, 64).efficiency(line)
    };
    assert_eq!((efficiency(4, &along_k), efficiency(4, &along_rows)), (1.0, 1.0));
    assert_eq!((efficiency(1, &along_k), efficiency(1, &along_rows)), (0.25, 1.0), "row-major serves one direction");
    let view = Layout::rtile(&[1024, 1024], 4, 1, 1, u32::MAX, u32::MAX).unwrap().view();
    assert_eq!(view.coverage(&along_k, line, 64).lines_per_instruction(), 64.0);
    assert_eq!(view.coverage(&along_rows, line, 64).lines_per_instruction(), 16.0);

    // In a cache of one line, an R-Tile still pays for itself where the four rows of a fragment are loaded together.
    let tiles = Layout::rtile(&[1024, 1024], 4, 1, 4, u32::MAX, u32::MAX).unwrap().view();
    let fragments = Loads { together: 4, ..along_k.clone() };
    assert_eq!(tiles.coverage(&along_k, line, 1).efficiency(line), 0.25);
    assert_eq!(tiles.coverage(&fragments, line, 1).efficiency(line), 1.0);
    assert_eq!(view.coverage(&fragments, line, 1).efficiency(line), 0.25);
}
