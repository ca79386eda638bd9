use super::across::Fetches;
use super::schedule::{Dots, Factors, Kind, Schedule, Size, Stage};
use crate::device::{
    AcrossTile, ByteDots, Limits, MatrixType, MatrixUnit, ProductSchedule, Products, SchedulesOff, StagedTile,
    TestedSchedule,
};

const PLAIN: Size = Size {
    quads_m: 144,
    n: 96,
    k: 576,
    batches: [1, 1],
    a_along_k: true,
    step_k: 4,
    b_along_k: true,
    dots: None,
    halves: None,
    factors: Factors::Whole(MatrixType::F16),
    kind: Kind::Single,
    quantized: false,
};

fn limits(subgroup_size: u32, shuffle_width: u32) -> Limits {
    Limits { subgroup_size, shuffle_width, ..Limits::for_tests() }
}

fn asking(schedule: Option<ProductSchedule>, limits: Limits) -> Limits {
    Limits { products: Products { schedule, ..limits.products }, ..limits }
}

fn unit(factors: MatrixType, k: u32) -> MatrixUnit {
    MatrixUnit { factors, m: 16, n: 16, k, subgroup: 32, max_invocations: 1024 }
}

fn choose(size: Size, limits: &Limits) -> Schedule {
    Schedule::choose(size, limits).expect("room for heads")
}

/// What `gemm.comp` presumes of its constants, for every kind of device and every schedule asked for.
#[test]
fn schedules_keep_what_the_shader_presumes() {
    use ProductSchedule::{Across, Direct, Matrix, Staged};
    for subgroup in [0, 1, 4, 8, 16, 32, 64, 128] {
        for (shuffle, most, shared) in
            [(0, 1024, 49152), (subgroup, 1024, 16384), (subgroup, 4, 32768), (subgroup, 1, 0)]
        {
            let limits = Limits {
                max_workgroup_invocations: most,
                max_shared_memory: shared,
                matrix_units: vec![unit(MatrixType::F16, 16), unit(MatrixType::F16, 8)],
                ..limits(subgroup, shuffle)
            };
            for asked in [None, Some(Direct), Some(Staged), Some(Across), Some(Matrix)] {
                let limits = asking(asked, limits.clone());
                for quads_m in [1, 2, 3, 48, 144, 12288] {
                    for (n, k) in [(1, 1), (4, 9000), (8, 576), (33, 49152), (96, 576), (4096, 65536)] {
                        for (a_along_k, step_k) in [(true, 4), (true, 16), (false, 4)] {
                            for kind in [Kind::Single, Kind::Normed, Kind::Twin] {
                                let batches = [3, 1];
                                let size = Size { quads_m, n, k, batches, a_along_k, step_k, kind, ..PLAIN };
                                assert_presumptions(size, choose(size, &limits), &limits);
                            }
                        }
                    }
                }
            }
        }
    }
}

fn assert_presumptions(size: Size, s: Schedule, limits: &Limits) {
    let what = format!("{size:?} {s:?}");
    assert!(s.invocations() <= limits.max_workgroup_invocations && s.parts >= 1, "{what}");
    let by_units = s.stage.is_some_and(|stage| stage.unit.is_some());
    assert!(by_units || (1..=2).contains(&s.tile_m) && (s.tile_n.is_multiple_of(4) || s.tile_n >= size.n), "{what}");
    assert!(s.share == 1 || (s.lanes_n == 1 && s.lanes_k == 1 && s.share <= limits.shuffle_width), "{what}");
    assert!(s.share.is_power_of_two() && s.invocations().is_multiple_of(s.share), "{what}");
    assert!(s.lanes_k.is_power_of_two(), "{what}");
    if s.lanes_k > 1 {
        let sums = size.kind.sums(s.tile_m, s.tile_n);
        assert!(s.stage.is_none() && 16 * s.invocations() * sums <= limits.max_shared_memory, "{what}");
        assert!(!size.kind.is_normed() || s.parts == 1, "{what}");
    }
    if let Some(Stage { quads_k, unit: Some(unit), .. }) = s.stage {
        let [m, n, k] = unit.shape;
        assert!(s.invocations() == s.lanes_m * s.lanes_n * unit.subgroup && (4 * quads_k).is_multiple_of(k), "{what}");
        assert!(s.extents() == [m * s.tile_m * s.lanes_m, n * s.tile_n * s.lanes_n], "{what}");
        assert!(16 * s.shared_texels() <= limits.max_shared_memory, "{what}");
    } else if let Some(stage) = s.stage {
        let numbers = [s.tile_m, s.tile_n, s.lanes_m, s.lanes_n, stage.quads_k];
        assert!(numbers.iter().all(|n| n.is_power_of_two()) && s.invocations() >= stage.quads_k, "{what}");
        let quads = s.tile_m * s.lanes_m + s.tile_n / 4 * s.lanes_n;
        assert!(64 * stage.buffers * stage.quads_k * quads <= limits.max_shared_memory, "{what}");
    }
}

#[test]
fn only_products_without_axis_3_are_cut() {
    let head = Size { n: 40, k: 49152, ..PLAIN };
    assert_eq!(choose(head, &limits(8, 8)).parts, 12);
    assert_eq!(choose(Size { batches: [1, 2], ..head }, &limits(8, 8)).parts, 1);
    let projection = Size { k: 576, ..head };
    assert_eq!(choose(projection, &limits(8, 8)).parts, 1);
    assert_eq!(choose(projection, &asking(Some(ProductSchedule::Direct), limits(32, 32))).parts, 4);
    let wide = Size { quads_m: 12288, n: 4096, ..head };
    assert_eq!(choose(wide, &limits(8, 8)).parts, 1, "the parts' sums would take gigabytes");
}

/// The rows of B are fetched once for a subgroup only where the device shuffles.
#[test]
fn shuffles_are_used_where_present() {
    assert_eq!(choose(PLAIN, &limits(8, 8)).share, 8);
    assert_eq!(choose(PLAIN, &limits(4, 4)).share, 4);
    assert_eq!(choose(PLAIN, &limits(8, 0)).share, 1);
    let preset = asking(Some(ProductSchedule::Direct), limits(64, 8));
    assert_eq!(choose(PLAIN, &preset).share, 1, "a preset may claim wider subgroups");
}

/// Which schedule a shape has on which device.
#[test]
fn shapes_and_devices_choose() {
    let gpu = Limits { max_shared_memory: 48 << 10, ..limits(32, 32) };
    let large = Size { quads_m: 2048, n: 512, k: 2048, step_k: 8, ..PLAIN };
    let chosen = choose(large, &gpu);
    assert_eq!((chosen.tile_m * chosen.lanes_m * 4, chosen.tile_n * chosen.lanes_n, chosen.parts), (128, 128, 1));
    // 16 such tiles would leave most of the device idle.
    let narrow = choose(Size { quads_m: 512, n: 128, ..large }, &gpu);
    assert!(narrow.stage.is_some() && narrow.parts >= 4, "{narrow:?}");

    let decode = choose(Size { quads_m: 3584, n: 1, k: 4096, step_k: 8, ..PLAIN }, &gpu);
    assert_eq!((decode.tile_n, decode.lanes_m, decode.lanes_k, decode.parts), (1, 1, 64, 1));
    let few_rows = choose(Size { quads_m: 64, n: 1, k: 65536, step_k: 8, ..PLAIN }, &gpu);
    assert!(few_rows.lanes_k >= 64 && few_rows.parts > 1, "{few_rows:?}");
    let turned = choose(Size { quads_m: 512, n: 4, k: 2048, a_along_k: false, ..PLAIN }, &gpu);
    assert!(turned.lanes_m >= 4 && turned.lanes_k > 1, "whole lines: {turned:?}");
    let lora = choose(Size { quads_m: 2, n: 128, k: 2048, ..PLAIN }, &gpu);
    assert!(lora.stage.is_none() && lora.lanes_k >= 64, "{lora:?}");

    let phone = Limits { products: Products { from_caches: true, ..Products::default() }, ..gpu.clone() };
    assert!(choose(large, &phone).stage.is_none());
    assert!(choose(large, &limits(8, 8)).stage.is_none());

    let tile = StagedTile { quads_m: 1, quads_n: 1, lanes_m: 8, lanes_n: 4, quads_k: 2, buffers: 1 };
    let swept = Limits { products: Products { tile: Some(tile), parts: Some(1), ..Products::default() }, ..gpu };
    let chosen = choose(Size { quads_m: 512, n: 128, ..large }, &swept);
    assert_eq!((chosen.lanes_m, chosen.lanes_n, chosen.stage.map(|s| s.buffers), chosen.parts), (8, 4, Some(1), 1));
}

/// Quads that are rotated together are with one invocation.
#[test]
fn halves_of_heads_stay_together() {
    for subgroup in [8, 32] {
        for halves in [8, 10, 16, 32] {
            for n in [1, 33, 512] {
                let size = Size { quads_m: 8 * halves, n, halves: Some(halves), ..PLAIN };
                let s = choose(size, &limits(subgroup, 0));
                assert_eq!((s.tile_m, s.lanes_m), (2, halves), "{size:?} {s:?}");
            }
        }
    }
    let few = Limits { max_workgroup_invocations: 8, ..limits(32, 0) };
    assert!(Schedule::choose(Size { halves: Some(16), ..PLAIN }, &few).is_err());
}

/// Weights of 16 bits and quantized ones go to matrix units of a type that they may be rounded to, factors of F32 in parts to those of F16.
#[test]
fn matrix_units_by_what_factors_may_be() {
    let rounded = |factors| Size { quads_m: 512, n: 512, k: 2048, factors: Factors::Rounded(factors), ..PLAIN };
    let gpu = |matrix_units| Limits { max_shared_memory: 48 << 10, matrix_units, ..limits(32, 32) };
    let used = |size, limits: &Limits| {
        choose(size, limits).stage.and_then(|stage| stage.unit).map(|unit| (unit.factors, unit.pieces, unit.shape))
    };
    let shape = [16, 16, 16];
    let both = gpu(vec![unit(MatrixType::F16, 8), unit(MatrixType::F16, 16), unit(MatrixType::Bf16, 16)]);
    for factors in [MatrixType::F16, MatrixType::Bf16] {
        assert_eq!(used(rounded(factors), &both), Some((factors, 1, shape)));
    }
    let half = gpu(vec![unit(MatrixType::F16, 16)]);
    assert_eq!(used(rounded(MatrixType::Bf16), &half), None);
    assert_eq!(used(rounded(MatrixType::F16), &gpu(Vec::new())), None);
    let whole = Size { factors: Factors::Whole(MatrixType::F16), ..rounded(MatrixType::F16) };
    assert_eq!(used(whole, &both), Some((MatrixType::F16, 2, shape)));
    assert_eq!(used(whole, &gpu(vec![unit(MatrixType::Bf16, 16)])), None);
    assert_eq!(used(Size { k: 8, ..whole }, &half), None);
    // Two products in one are staged, and rounded where units are asked for.
    let pair = Size { kind: Kind::Pair, ..whole };
    assert_eq!(used(pair, &both), None);
    assert_eq!(used(pair, &asking(Some(ProductSchedule::Matrix), half)), Some((MatrixType::F16, 1, shape)));
    // One round of workgroups instead of two that are half empty; blocks lie in tiles of whole scales.
    let layer = Size { quads_m: 2240, k: 1536, ..rounded(MatrixType::F16) };
    assert_eq!(choose(layer, &both).extents(), [144, 256]);
    assert!(choose(Size { quantized: true, ..layer }, &both).extents()[0].is_multiple_of(32));
    // Halves of heads of 256 in one tile.
    let heads = Size { halves: Some(32), ..rounded(MatrixType::F16) };
    assert!(choose(heads, &both).extents()[0].is_multiple_of(256));
}

/// Steps of bytes where the device has dot products of them accelerated, or they are asked for; never for many columns.
#[test]
fn right_factors_become_bytes() {
    let dots = Some(Dots { k: 32, texels: 2 });
    let rounded = Factors::Rounded(MatrixType::F16);
    let decode = Size { quads_m: 1024, n: 1, k: 14336, step_k: 16, dots, factors: rounded, quantized: true, ..PLAIN };
    let gpu = |byte_dots| Limits { max_shared_memory: 48 << 10, byte_dots, ..limits(32, 32) };
    let fast = gpu(ByteDots::Accelerated);
    let chosen = choose(decode, &fast);
    assert!(chosen.dots && chosen.lanes_k >= 64 && chosen.parts == 1, "{chosen:?}");
    assert_eq!((chosen.tile_m, chosen.shader(Kind::Single)), (2, "gemm_dots"));
    assert_eq!(choose(Size { quads_m: 128, ..decode }, &fast).tile_m, 1, "few rows: more workgroups");
    for (size, limits) in [
        (Size { n: 9, quads_m: 4, ..decode }, &fast),
        (Size { kind: Kind::Pair, ..decode }, &fast),
        (Size { b_along_k: false, ..decode }, &fast),
        (Size { dots: None, ..decode }, &fast),
        (decode, &gpu(ByteDots::Emulated)),
        (decode, &gpu(ByteDots::None)),
    ] {
        assert!(!choose(size, limits).dots, "{size:?}");
    }
    let asked = |dots, byte_dots| {
        let limits = gpu(byte_dots);
        Limits { products: Products { dots: Some(dots), ..limits.products }, ..limits }
    };
    assert!(choose(decode, &asked(true, ByteDots::Emulated)).dots);
    assert!(!choose(decode, &asked(true, ByteDots::None)).dots);
    assert!(!choose(decode, &asked(false, ByteDots::Accelerated)).dots);
}

/// Products of few sums in a training step, and those of decoding: a workgroup for every core, in one part, with all that an
/// invocation reads of a step on its way.
#[test]
fn few_sums_fill_a_gpu() {
    let gpu = Limits { max_shared_memory: 48 << 10, ..limits(32, 32) };
    let (along_k, along_m) = ((true, true), (false, false));
    for (quads_m, n, k, (a_along_k, b_along_k), step_k) in [
        (512, 8, 512, along_m, 4),
        (2048, 8, 512, along_m, 4),
        (2, 512, 2048, along_k, 4),
        (2, 512, 8192, (false, true), 4),
        (2, 8192, 512, along_m, 4),
        (2, 2048, 128, along_m, 4),
        (1024, 1, 14336, along_k, 8),
        (1024, 1, 14336, along_k, 16),
        (1024, 1, 14336, along_k, 32),
        (1024, 8, 14336, along_k, 16),
    ] {
        let size = Size { quads_m, n, k, a_along_k, b_along_k, step_k, ..PLAIN };
        let s = choose(size, &gpu);
        let [rows, columns] = s.extents();
        let groups = (4 * quads_m).div_ceil(rows) * n.div_ceil(columns);
        assert!(groups >= 128 && s.parts == 1 && s.lanes_k >= 16, "{size:?} {s:?}");
        // Four quads, 256 bytes, side by side.
        assert!(a_along_k || s.lanes_m >= quads_m.min(4) / s.tile_m, "{size:?} {s:?}");
        let Fetches { ahead, group_b } = Fetches::of(&size, &s, &gpu);
        // Where many invocations share a row, few steps are left that could be ahead.
        let waits = s.tile_m * s.tile_n <= 8 && step_k <= 16 && s.lanes_k < 128;
        assert!((ahead > 1 || !waits) && (n > 1 || group_b == step_k / 4), "{s:?}");
        let asked = Limits { products: Products { ahead: Some(1), ..Products::default() }, ..gpu.clone() };
        assert_eq!(Fetches::of(&size, &s, &asked).ahead, 1);
    }
    let tile = AcrossTile { quads_m: 2, columns: 4, lanes_m: 1, lanes_n: 1, lanes_k: 256 };
    let swept = Limits { products: Products { across: Some(tile), ..Products::default() }, ..gpu };
    let chosen = choose(Size { quads_m: 2, n: 512, k: 2048, ..PLAIN }, &swept);
    assert_eq!((chosen.tile_m, chosen.tile_n, chosen.lanes_k), (2, 4, 256));
}

/// A product whose schedule is off has the next one that suits it, also where the one that is off is asked for.
#[test]
fn schedules_that_are_off_have_others_in_their_place() {
    use ProductSchedule::{Across, Matrix, Staged};
    use TestedSchedule as Found;
    let on = SchedulesOff::default();
    let [no_across, no_staged, no_parts] =
        [SchedulesOff { across: true, ..on }, SchedulesOff { staged: true, ..on }, SchedulesOff { parts: true, ..on }];
    let found = |size: Size, limits: &Limits, off, asked| {
        let products = Products { off, schedule: asked, ..limits.products };
        choose(size, &Limits { products, ..limits.clone() }).tested()
    };
    let plain = Limits { max_shared_memory: 48 << 10, byte_dots: ByteDots::Accelerated, ..limits(32, 32) };
    let units = Limits { matrix_units: vec![unit(MatrixType::F16, 16)], ..plain.clone() };
    let phone = Limits { products: Products { from_caches: true, ..Products::default() }, ..plain.clone() };
    let large = Size { quads_m: 512, n: 512, k: 2048, ..PLAIN };
    let few = Size { n: 4, ..large };
    let dots = Size { dots: Some(Dots { k: 32, texels: 2 }), factors: Factors::Rounded(MatrixType::F16), ..few };
    let none = SchedulesOff { across: true, staged: true, parts: true };
    for (size, limits, off, before, after) in [
        (few, &plain, no_across, Found::Across, Found::Staged),
        (few, &units, no_across, Found::Across, Found::MatrixParts),
        (few, &phone, no_across, Found::Across, Found::Direct),
        (dots, &plain, no_across, Found::Dots, Found::Staged),
        (few, &plain, none, Found::Across, Found::Direct),
        (large, &plain, no_staged, Found::Staged, Found::Direct),
        (large, &units, no_parts, Found::MatrixParts, Found::Staged),
        (large, &units, none, Found::MatrixParts, Found::Direct),
        (large, &units, no_staged, Found::MatrixParts, Found::MatrixParts),
    ] {
        assert_eq!(found(size, limits, on, None), before, "{size:?}");
        assert_eq!(found(size, limits, off, None), after, "{size:?} without {off:?}");
    }
    assert_eq!(found(large, &plain, on, Some(Across)), Found::Across);
    assert_eq!(found(large, &plain, no_across, Some(Across)), Found::Staged);
    assert_eq!(found(few, &plain, no_staged, Some(Staged)), Found::Across);
    // Factors of F32 are not rounded because they cannot be in parts.
    assert_eq!(found(large, &units, no_parts, Some(Matrix)), Found::Staged);
    // Kernels that only across has are refused, not computed another way unseen.
    let off = Limits { products: Products { off: no_across, ..plain.products }, ..plain };
    assert_eq!(choose(Size { kind: Kind::Normed, ..few }, &off).lanes_k, 1);
}
