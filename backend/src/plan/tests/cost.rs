//! Predictions: cases counted by hand, and what must hold of all of them.

use proptest::prelude::*;

use super::{Exact, copy, planned};
use crate::device::{Estimate, ImageLines, IntegerCosts, Limits, PRESETS, Preset, Products, Profile};
use crate::graph::{Binary, DType, Desc, Graph, Op};
use crate::plan::{Bound, Objective, PlanOptions, Policy, Prediction, StepCost, StorageChoice, plan, predict};

/// Round numbers: only memory takes time, 1 byte a nanosecond, and launches, 1 microsecond.
fn slow_memory() -> Profile {
    let (huge, fast) = (Estimate::known(1e18), Estimate::known(1e18));
    Profile {
        subgroups: [8, 8],
        line_bytes: 64,
        image_lines: ImageLines { texel4: [16, 1], texel8: [8, 1], texel16: [4, 1] },
        l1_bytes: Estimate::known(32768.0),
        l2_bytes: huge,
        interleaved_subgroups: Estimate::known(1.0),
        invocations: Estimate::known(1.0),
        flops_f32: fast,
        flops_f16: fast,
        matrix_f16: None,
        matrix_bf16: None,
        integers: IntegerCosts {
            simple: Estimate::known(1.0),
            mul: Estimate::known(4.0),
            mul_high: Estimate::known(8.0),
        },
        texels: fast,
        buffer_bytes: fast,
        l2_rate: fast,
        memory_rate: Estimate::known(1e9),
        copy_rate: Estimate::known(1e9),
        launch: Estimate::known(1e-6),
        barrier: Estimate::known(0.0),
    }
}

fn of(graph: &Graph, profile: &Profile) -> Prediction {
    predict(&planned(graph), graph, profile)
}

fn product(dtype: DType, [m, n, k]: [u32; 3]) -> Graph {
    let mut g = Graph::new();
    let (a, b) = (g.external("a", dtype, [k, m, 1, 1]), g.external("b", DType::F32, [k, n, 1, 1]));
    let operands = vec![g.whole(a), g.whole(b)];
    let out = g.node("out", Op::MulMat, operands).unwrap();
    g.keep(out);
    g
}

#[test]
fn an_addition_by_hand() {
    let mut g = Graph::new();
    let (a, b) = (g.external("a", DType::F32, [64, 32, 1, 1]), g.external("b", DType::F32, [64, 1, 1, 1]));
    let operands = vec![g.whole(a), g.whole(b)];
    let sum = g.node("sum", Op::Binary(Binary::Add), operands).unwrap();
    g.keep(sum);
    let p = of(&g, &slow_memory());
    // a and the sum are 8 KiB each, the bias 256 bytes, of which every texel of the sum asks for one.
    assert_eq!(p.bytes_moved, 2 * 8192 + 256);
    assert_eq!(p.requests, 3 * 512);
    assert_eq!(p.flops, 64 * 32);
    assert!((p.time_ms - (16640e-6 + 1e-3)).abs() < 1e-9, "{} ms", p.time_ms);
    assert_eq!(p.steps[0].bound, Bound::Memory);
    assert_eq!(p.steps[0].efficiency, 1.0, "neighbouring texels are neighbouring lanes");
}

#[test]
fn a_product_by_hand() {
    let p = of(&product(DType::F32, [64, 32, 128]), &slow_memory());
    assert_eq!(p.flops, 2 * 64 * 32 * 128);
    assert_eq!(p.bytes_moved, 4 * (64 * 128 + 32 * 128 + 64 * 32));
    // On 8 lanes along m that share the loads of b: 16 quads of m by tiles of 8, so 2 x 4 workgroups of 8. Each invocation loads
    // 4 texels of a and, with 8 sharing, 1 of b for every 4 k, and stores 8.
    assert_eq!(p.requests, 64 * (32 * (4 + 1) + 8));
    assert_eq!(p.steps[0].efficiency, 1.0, "an R-Tile is read line by line");
}

#[test]
fn quantized_weights_count_their_texels() {
    let bytes = |dtype| of(&product(dtype, [64, 32, 128]), &slow_memory()).bytes_moved - 4 * (32 * 128 + 64 * 32);
    assert_eq!(bytes(DType::F16), 2 * 64 * 128);
    assert_eq!(bytes(DType::Q8_0), 64 * 4 * 36);
    assert_eq!(bytes(DType::Q4_1), 64 * 4 * 20);
}

#[test]
fn a_table_counts_the_rows_that_are_read() {
    let mut g = Graph::new();
    let (table, ids) = (g.external("t", DType::F32, [64, 1000, 1, 1]), g.external("ids", DType::I32, [8, 1, 1, 1]));
    let operands = vec![g.whole(table), g.whole(ids)];
    let rows = g.node("rows", Op::GetRows, operands).unwrap();
    g.keep(rows);
    assert_eq!(of(&g, &slow_memory()).bytes_moved, 2 * 64 * 8 * 4 + 8 * 4);
}

/// Where only operations take time, a window whose digits are no powers of two costs its divisions.
#[test]
fn index_arithmetic_is_paid() {
    let flops = Estimate::known(1e9);
    let profile = Profile { flops_f32: flops, memory_rate: Estimate::known(1e18), ..slow_memory() };
    let scaled = |heads: u32| {
        let mut g = Graph::new();
        let x = g.external("x", DType::F32, [16 * heads, 64, 1, 1]);
        let window = g.whole(x).reshape([16, heads, 64, 1]).unwrap().permute([0, 2, 1, 3]).unwrap();
        let merged = g.node_as("merged", Op::Copy, vec![window], Desc::f32([16, 64 * heads, 1, 1])).unwrap();
        let y = g.node("y", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(merged)]).unwrap();
        g.keep(y);
        let p = of(&g, &profile);
        assert_eq!(p.steps.len(), 1, "one step that reads heads after tokens");
        ((p.time_ms * 1e6 - 1e3 - p.flops as f64) / p.requests as f64).round()
    };
    // Source: 4 (i0) + i1 % 4 + 128 (i1 / 4 % 16) + 16 (i1 / 64): three additions, seven shifts and masks. Result: i1 % 4 + 4 (i0) +
    // 16 (i1 / 4): six. Two flops each, half of the requests are to either.
    assert_eq!(scaled(8), 2.0 * (10.0 + 6.0) / 2.0);
    // Nine heads: 144 (i1 / 4 % 16) is a product, which takes as long as four of the others.
    assert_eq!(scaled(9), 2.0 * (9.0 + 4.0 + 6.0) / 2.0);
}

/// What does not stay in the shared cache comes from memory again.
#[test]
fn sweeps_beyond_the_shared_cache_are_paid() {
    let g = product(DType::F32, [512, 512, 512]);
    let small = Profile { l2_bytes: Estimate::known(262144.0), ..slow_memory() };
    let (once, again) = (of(&g, &slow_memory()).bytes_moved, of(&g, &small).bytes_moved);
    // 512 / (8 lanes of 4) workgroups along m, each of which reads all of b; its 64 KiB of a stay.
    assert_eq!(again - once, 15 * 512 * 512 * 4);
    let tiny = Profile { l2_bytes: Estimate::known(65536.0), ..slow_memory() };
    // Nor do they here: 512 / 16 workgroups along n read them again.
    assert_eq!(of(&g, &tiny).bytes_moved - again, 31 * 512 * 512 * 4);
}

#[test]
fn only_conversions_have_a_share() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [64, 96, 1, 1]);
    let y = g.node("y", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(x)]).unwrap();
    g.keep(y);
    assert_eq!(of(&g, &slow_memory()).conversion_share, 0.0);
    let transposed = g.whole(y).transpose();
    let z = copy(&mut g, transposed);
    g.keep(z);
    let p = of(&g, &slow_memory());
    assert_eq!(p.steps.iter().filter(|s| s.conversion).count(), 1);
    assert!((p.conversion_share - 0.5).abs() < 1e-9, "as many bytes as the scaling: {}", p.conversion_share);
    assert!(p.to_string().lines().all(|line| line.starts_with("simulated: ")), "{p}");
}

/// Rows that lie by themselves are read a texel of a line at a time where lanes are on rows; R-Tiles are not.
#[test]
fn row_major_homes_waste_lines() {
    let profile = Preset::find("adreno-730").unwrap().profile.as_ref().unwrap();
    let products = Products { from_caches: true, ..Products::default() };
    let limits = Limits { subgroup_size: 64, shuffle_width: 64, products, ..Limits::for_tests() };
    let g = product(DType::F32, [512, 64, 512]);
    let of = |policy| {
        let options = PlanOptions { policy, ..PlanOptions::default() };
        predict(&plan(&g, &limits, options, &Exact).unwrap(), &g, profile)
    };
    let (rows, tiles) = (of(Policy::HonestRowmajor), of(Policy::RTileMaps));
    assert_eq!((rows.bytes_moved, rows.requests, rows.flops), (tiles.bytes_moved, tiles.requests, tiles.flops));
    assert!(rows.paper_efficiency < 0.5 && tiles.paper_efficiency > 0.9, "{rows} {tiles}");
    assert!(rows.steps[0].cache_bytes > 2 * tiles.steps[0].cache_bytes, "{:?} {:?}", rows.steps[0], tiles.steps[0]);
    assert!(rows.time_ms >= tiles.time_ms, "{} {}", rows.time_ms, tiles.time_ms);
}

/// Products measured on two cores, GFLOP/s from buffers and from images (`kernels/gemm`), are within what the profile's ranges
/// predict.
#[test]
fn lavapipe_is_met() {
    let profile = Preset::find("lavapipe").unwrap().profile.as_ref().unwrap();
    for (size, measured) in [
        ([576, 96, 576], [39.0, 61.0]),
        ([576, 96, 1536], [39.0, 56.0]),
        ([49152, 40, 576], [27.0, 61.0]),
        ([8, 96, 576], [14.0, 26.0]),
        ([576, 96, 8], [13.0, 11.0]),
    ] {
        let g = product(DType::F32, size);
        for (storage, measured) in [StorageChoice::Buffer, StorageChoice::Image].into_iter().zip(measured) {
            let options = PlanOptions { storage, ..PlanOptions::default() };
            let p = predict(&plan(&g, &Limits::for_tests(), options, &Exact).unwrap(), &g, profile);
            let [fast, slow] = p.time_ms_range.map(|ms| p.flops as f64 / 1e6 / ms);
            assert!(
                slow <= measured && measured <= fast,
                "{size:?} {storage:?}: {measured} not in {slow:.1} to {fast:.1}"
            );
        }
    }
}

/// The weighted mean of efficiencies prefers (1, 0.1) to (0.5, 0.5), which takes 11 units of time and not 4.
#[test]
fn the_papers_objective_may_choose_one_direction() {
    let step = |efficiency: f64| StepCost {
        node: 0,
        conversion: false,
        flops: 1,
        requests: 1,
        cache_bytes: 1,
        memory_bytes: 1,
        efficiency,
        seconds: 1.0 / efficiency,
        times: [0.0, 0.0, 1.0 / efficiency, 0.0],
        bound: Bound::SharedCache,
    };
    let (one, both) = ([step(1.0), step(0.1)], [step(0.5), step(0.5)]);
    assert!(Objective::PaperArithmetic.cost(&one) < Objective::PaperArithmetic.cost(&both));
    assert!(Objective::TimeHarmonic.cost(&one) > Objective::TimeHarmonic.cost(&both));
    assert_eq!(Objective::TimeHarmonic.cost(&both), 4.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A larger product moves more, on every machine (its loads may be fewer: other schedules share more of them); and the slow end of a
    /// range is never fast.
    #[test]
    fn larger_products_move_more(m in 1u32..40, n in 1u32..40, k in 1u32..40, more in 1u32..5, axis in 0usize..3) {
        let size = [16 * m, 4 * n, 32 * k];
        let mut larger = size;
        larger[axis] *= 1 + more;
        for preset in PRESETS.iter() {
            let Some(profile) = &preset.profile else { continue };
            for dtype in [DType::F32, DType::Q8_0] {
                let (less, more) = (of(&product(dtype, size), profile), of(&product(dtype, larger), profile));
                prop_assert!(less.bytes_moved < more.bytes_moved && less.flops < more.flops, "{}", preset.name);
                let [fast, slow] = more.time_ms_range;
                prop_assert!(fast <= more.time_ms && more.time_ms <= slow, "{}: {:?}", preset.name, more.time_ms_range);
            }
        }
    }

    /// An elementwise op takes as long as its bytes, whatever the machine.
    #[test]
    fn more_bytes_never_take_less_time(rows in 1u32..60, cols in 1u32..60, more in 1u32..60) {
        let graph = |rows: u32| {
            let mut g = Graph::new();
            let x = g.external("x", DType::F32, [4 * cols, 4 * rows, 1, 1]);
            let y = g.node("y", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(x)]).unwrap();
            g.keep(y);
            g
        };
        for profile in PRESETS.iter().filter_map(|p| p.profile.as_ref()) {
            let (less, more) = (of(&graph(rows), profile), of(&graph(rows + more), profile));
            prop_assert!(less.bytes_moved < more.bytes_moved);
            prop_assert!(less.time_ms <= more.time_ms * (1.0 + 1e-9), "{} {}", less.time_ms, more.time_ms);
        }
    }
}
