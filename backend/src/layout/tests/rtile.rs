//! The R-Tile home: its digits, its folds, and the rule that chooses it.

use proptest::prelude::*;

use super::shapes;
use crate::layout::{Digit, Illegal, Layout, TileTarget, tile_rule};

const PHONE: TileTarget = TileTarget { warp: 64, line_texels: 4 };

fn digit(axis: u8, stride: u32, radix: u32) -> Digit {
    Digit { axis, stride, radix }
}

#[test]
fn an_rtile_interleaves_the_rows_of_a_tile() {
    let layout = Layout::rtile(&[64, 9, 130, 2], 4, 2, 4, 16384, 16384).unwrap();
    assert_eq!(layout.lane, [digit(0, 1, 4)]);
    assert_eq!(layout.x, [digit(2, 1, 4), digit(0, 4, 16), digit(1, 1, 9)]);
    assert_eq!(layout.y, [digit(2, 4, 33), digit(3, 1, 2)]);
    assert_eq!(layout.axes.iter().map(|axis| axis.padded).collect::<Vec<_>>(), [64, 9, 132, 2]);
}

#[test]
fn heads_tiled_on_tokens_have_the_positions_of_the_flat_matrix() {
    let heads = Layout::rtile(&[64, 9, 128, 1], 4, 2, 4, 16384, 16384).unwrap();
    let flat = Layout::rtile(&[576, 128, 1, 1], 4, 1, 4, 16384, 16384).unwrap();
    assert_eq!(heads.view().reshape(&[576, 128, 1, 1]).unwrap(), flat.view());
    assert_eq!(flat.view().reshape(&[64, 9, 128, 1]).unwrap(), heads.view());
}

#[test]
fn a_wide_axis_is_folded_onto_the_rows() {
    // 151 936 / 4 slots in three folds of 12 662 pad two slots; four folds of 9 496 pad none and are preferred.
    let logits = Layout::rtile(&[151_936, 128, 1, 1], 4, 1, 1, 16384, 16384).unwrap();
    assert_eq!(logits.x, [digit(0, 4, 9496)]);
    assert_eq!(logits.y, [digit(1, 1, 128), digit(0, 37_984, 4)]);
    assert_eq!(logits.axes[0].padded, 151_936);
    // A prime number of slots has to pad.
    let prime = Layout::rtile(&[4 * 32_771, 8, 1, 1], 4, 1, 4, 16384, 16384).unwrap();
    assert!(prime.axes[0].padded > 4 * 32_771 && prime.width() <= 16384);
    assert!(prime.axes[0].padded < 4 * 32_771 + 64);
    // The rows of an embedding are too many for a picture, its columns few.
    let embedding = Layout::rtile(&[2048, 151_936, 1, 1], 8, 1, 4, 16384, 16384).unwrap();
    assert!(embedding.height() <= 16384 && embedding.width() <= 16384);
    let too_large = Layout::rtile(&[65_536, 65_536, 4, 1], 4, 1, 4, 16384, 16384);
    assert!(matches!(too_large, Err(Illegal::TooWide { .. } | Illegal::TooHigh { .. })), "{too_large:?}");
}

#[test]
fn image_limits_are_kept_to_the_texel() {
    for (slots, folds) in [(16_383, 1), (16_384, 1), (16_385, 2), (32_769, 3)] {
        let layout = Layout::rtile(&[slots * 4, 3, 1, 1], 4, 1, 1, 16_384, 16_384).unwrap();
        assert!(layout.width() <= 16_384);
        assert_eq!(layout.height(), 3 * folds, "{slots} slots");
    }
}

#[test]
fn bad_tiles_are_refused() {
    assert_eq!(Layout::rtile(&[8, 8], 4, 0, 4, 64, 64), Err(Illegal::NoSuchAxis { axis: 0, rank: 2 }));
    assert_eq!(Layout::rtile(&[8, 8], 4, 2, 4, 64, 64), Err(Illegal::NoSuchAxis { axis: 2, rank: 2 }));
    assert_eq!(Layout::rtile(&[8, 0], 4, 1, 4, 64, 64), Err(Illegal::Empty { axis: 1 }));
    assert_eq!(Layout::rtile(&[8, 8], 0, 1, 4, 64, 64), Err(Illegal::EmptyTile { h: 4, lanes: 0 }));
    assert!(matches!(Layout::rtile(&[u32::MAX, u32::MAX], 4, 1, 4, 16384, 16384), Err(Illegal::TooLong { .. })));
}

/// Ways to fold a digit are as many as its radix has divisors, not as many as it has values: this takes no time.
#[test]
fn digits_of_large_primes_are_folded() {
    let prime = 0x7fff_ffff;
    for (extents, h) in [([4, u32::MAX], prime), ([4, prime], 1), ([prime, 4], 4), ([4, 2 * prime], prime)] {
        let folded = Layout::rtile(&extents, 4, 1, h, 64, 1 << 25);
        assert!(folded.is_err() || folded.is_ok_and(|layout| layout.verify(4, 64, 1 << 25).is_ok()));
    }
}

#[test]
fn the_rule_prefers_tall_tiles_that_do_not_pad() {
    let chosen = |extents: [u32; 4]| tile_rule(&extents, PHONE);
    assert_eq!(chosen([64, 9, 128, 1]), (2, 4));
    assert_eq!(chosen([128, 128, 9, 1]), (1, 4));
    assert_eq!(chosen([64, 8, 128, 1]), (2, 4));
    assert_eq!(chosen([64, 8, 32, 1]), (1, 4));
    assert_eq!(chosen([576, 1536, 1, 1]), (1, 4));
    assert_eq!(chosen([576, 130, 1, 1]), (1, 4));
    assert_eq!(chosen([576, 9, 1, 1]), (1, 1));
    assert_eq!(chosen([576, 6, 1, 1]), (1, 2));
    assert_eq!(chosen([576, 1, 1, 1]), (1, 1));
    assert_eq!(chosen([1, 1, 1, 1]), (1, 1));
    assert_eq!(tile_rule(&[576, 128, 1, 1], TileTarget { line_texels: 2, ..PHONE }), (1, 2));
}

proptest! {
    #[test]
    fn the_rule_keeps_its_promises(extents in shapes::extents(4_000_000), warp in 8u32..128, line_texels in 1u32..9) {
        let target = TileTarget { warp, line_texels };
        let (row_axis, h) = tile_rule(&extents, target);
        prop_assert!(h <= line_texels);
        let rows = extents[row_axis];
        prop_assert!(rows.div_ceil(h) * h * 10 < rows * 11);
        let layout = Layout::rtile(&extents, 4, row_axis, h, 16384, u32::MAX).unwrap();
        prop_assert!(layout.verify(4, 16384, u32::MAX).is_ok());
    }
}
