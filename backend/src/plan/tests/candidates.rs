//! Candidates: the rules' counts, and that the home by the one rule is among them.

use crate::device::{Estimate, PRESETS, Preset, Profile};
use crate::graph::{DType, Desc, Shape};
use crate::kernels::StorageKind;
use crate::layout::{Illegal, Layout, TileTarget, tile_rule};
use crate::plan::{Candidates, candidates};

fn profiles() -> impl Iterator<Item = (&'static str, &'static Profile)> {
    PRESETS.iter().filter_map(|p| Some((p.name, p.profile.as_ref()?)))
}

fn of(dtype: DType, shape: Shape, storage: StorageKind, profile: &Profile) -> Candidates {
    candidates(Desc { dtype, shape }, storage, profile, true).unwrap()
}

/// Tensors of decoders at 512 tokens: weights, activations, heads, adapters, one row, one element.
const SHAPES: [Shape; 14] = [
    [2048, 8192, 1, 1],
    [2048, 512, 1, 1],
    [64, 32, 512, 1],
    [64, 512, 32, 1],
    [512, 512, 32, 1],
    [128, 8, 512, 1],
    [2048, 8, 1, 1],
    [8, 2048, 1, 1],
    [8, 512, 1, 1],
    [1536, 130, 1, 1],
    [64, 9, 128, 1],
    [576, 6, 1, 1],
    [2048, 1, 1, 1],
    [1, 1, 1, 1],
];

/// In a buffer the home of the one rule is a candidate, everywhere and for every shape; where a tensor has more than one row of
/// tiles to choose from, its strip is the best there is.
#[test]
fn the_one_rules_home_is_a_candidate_in_buffers() {
    for (name, profile) in profiles() {
        for (dtype, shape) in SHAPES.iter().flat_map(|&s| [(DType::F32, s), (DType::F16, s)]) {
            let target = TileTarget { warp: profile.subgroups[0], line_texels: 4 };
            let (row_axis, strip) = tile_rule(&shape, target);
            let found = of(dtype, shape, StorageKind::Buffer, profile);
            let place = found.homes.iter().position(|c| (c.row_axis, c.strip) == (row_axis, strip));
            assert!(place.is_some(), "{name} {dtype:?} {shape:?}: ({row_axis}, {strip}) not in {:?}", found.homes);
        }
    }
}

/// In an image whose line is 2 by 2 texels it is a candidate too, but pairs of rows are better: a fragment of 4 rows then lies in one
/// line, not in two. The one rule gives both storages the same home, so it takes what a buffer wants.
#[test]
fn square_lines_want_pairs_of_rows() {
    let profile = Preset::find("adreno-830").unwrap().profile.as_ref().unwrap();
    let found = of(DType::F32, [2048, 8192, 1, 1], StorageKind::Image, profile);
    let strips: Vec<(u32, u64)> = found.homes.iter().map(|c| (c.strip, c.fragment_lines)).collect();
    assert_eq!(strips, [(2, 1), (1, 2), (4, 2)]);
    let buffer = of(DType::F32, [2048, 8192, 1, 1], StorageKind::Buffer, profile);
    assert_eq!(buffer.homes[0].strip, 4);
}

/// Counted by hand: 3 strips x 21 heights x 19 widths for one choice of rows; C0 leaves heights that are whole strips, 21 + 20 + 19.
#[test]
fn counts_after_each_rule() {
    let profile = Preset::find("adreno-830").unwrap().profile.as_ref().unwrap();
    let found = of(DType::F32, [2048, 8192, 1, 1], StorageKind::Buffer, profile);
    let c = found.counts;
    assert_eq!((c.all, c.c0), (3 * 21 * 19, 60 * 19));
    assert!(c.c0 > c.c1 && c.c1 > c.c2 && c.c2 >= c.c3 && c.c3 > 0, "{c:?}");
    assert!(!found.relaxed);
    // 64 texels, 1 KiB, are all that C1 and C2 leave on waves of 64 and half of 2 KiB.
    assert!(found.homes.iter().all(|t| t.h * t.w / 4 == 64), "{:?}", found.homes);

    let ragged = of(DType::F32, [2048, 130, 1, 1], StorageKind::Buffer, profile).counts;
    assert!((ragged.c1, ragged.c2) == (c.c1, c.c2) && ragged.c3 < c.c3, "130 rows fill few heights: {ragged:?}");

    let desc = Desc::f32([2048, 8192, 1, 1]);
    let all = candidates(desc, StorageKind::Buffer, profile, false).unwrap();
    assert_eq!(all.counts, c, "the counts tell what pruning would do");
    assert_eq!(all.homes.len(), 3, "the homes differ by strip alone");
}

#[test]
fn a_larger_cache_prunes_less() {
    let profile = Preset::find("mali-g715").unwrap().profile.clone().unwrap();
    let mut last = 0;
    for l1 in [1024.0, 2048.0, 4096.0, 32768.0] {
        let profile = Profile { l1_bytes: Estimate::known(l1), ..profile.clone() };
        let c2 = of(DType::F32, [2048, 8192, 1, 1], StorageKind::Buffer, &profile).counts.c2;
        assert!(c2 >= last, "{c2} of {l1}");
        last = c2;
    }
    assert!(last > 0);
}

#[test]
fn short_tensors_keep_a_home() {
    for (_, profile) in profiles() {
        let one = of(DType::F32, [1, 1, 1, 1], StorageKind::Buffer, profile);
        assert!(one.relaxed && one.homes.iter().any(|c| (c.h, c.w) == (1, 4)), "{one:?}");
        for dtype in [DType::Q8_0, DType::Q4_1] {
            let weights = of(dtype, [2048, 8192, 1, 1], StorageKind::Buffer, profile);
            assert_eq!(weights.homes.iter().map(|c| (c.row_axis, c.strip)).collect::<Vec<_>>(), [(1, 4)]);
        }
    }
}

#[test]
fn an_empty_axis_is_refused() {
    let profile = Preset::find("lavapipe").unwrap().profile.as_ref().unwrap();
    let refused = candidates(Desc::f32([8, 0, 1, 1]), StorageKind::Buffer, profile, true);
    assert_eq!(refused, Err(Illegal::Empty { axis: 1 }));
}

/// Lines that are counted without looking at texels are those under the texels of the home.
#[test]
fn lines_are_those_under_the_texels() {
    for (name, profile) in profiles() {
        for (shape, storage) in SHAPES.iter().flat_map(|&s| [(s, StorageKind::Buffer), (s, StorageKind::Image)]) {
            let line = crate::plan::cost::line(profile, storage);
            for c in candidates(Desc::f32(shape), storage, profile, false).unwrap().homes {
                let fragment = shape[c.row_axis].min(4);
                let home = Layout::rtile(&[c.w, c.h.max(fragment)], 4, 1, c.strip, u32::MAX, u32::MAX).unwrap();
                let lines = |rows: u32, slots: u32| {
                    let texels = (0..rows).flat_map(|row| (0..slots).map(move |slot| [4 * slot, row]));
                    line.covered(texels.map(|index| home.address(&index)).map(|at| [at.x, at.y]))
                };
                let counted = (lines(fragment, 1), lines(1, c.w / 4) + lines(c.h, 1));
                assert_eq!((c.fragment_lines, c.row_and_column_lines), counted, "{name} {shape:?} {c:?}");
            }
        }
    }
}
