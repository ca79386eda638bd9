//! The head of a model of 1.7 billion parameters, forward and its input gradient: 330 MB of weights, more than a dispatch binds on
//! `adreno-830`.
//!
//! Ignored unless asked for: it takes a minute and 3 GB.

use fblayout::device::LimitsClamp;
use fblayout::graph::{DType, Graph, Op, decode};
use fblayout::plan::{PlanOptions, StorageChoice};
use fblayout_spirv_tests::{Device, VulkanDevice};

const WIDTH: usize = 2048;
const VOCABULARY: usize = 151_936;
const TOKENS: usize = 128;

/// Integers from `-most` to `most`, the same on every machine.
fn integers(count: usize, most: i32, seed: u64) -> Vec<i8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) % (2 * most as u64 + 1)) as i32 - most
    };
    std::iter::repeat_with(next).take(count).map(|n| n as i8).collect()
}

/// Blocks of Q8_0 of scale 1.
fn blocks(quants: &[i8]) -> Vec<u8> {
    const ONE: [u8; 2] = [0, 0x3c];
    quants.chunks_exact(32).flat_map(|block| ONE.into_iter().chain(block.iter().map(|&q| q as u8))).collect()
}

fn floats(integers: &[i8]) -> Vec<u8> {
    integers.iter().flat_map(|&n| f32::from(n).to_le_bytes()).collect()
}

/// Every sum of these integers, in whatever order and parts, is below 2^24: f32 holds it exactly.
fn assert_head(storage: StorageChoice) {
    let (w, x, g) =
        (integers(WIDTH * VOCABULARY, 5, 1), integers(WIDTH * TOKENS, 3, 2), integers(VOCABULARY * TOKENS, 2, 3));
    let [width, vocabulary, tokens] = [WIDTH, VOCABULARY, TOKENS].map(|n| n as u32);
    let mut graph = Graph::default();
    let weights = graph.external("weights", DType::Q8_0, [width, vocabulary, 1, 1]);
    let hidden = graph.external("hidden", DType::F32, [width, tokens, 1, 1]);
    let dlogits = graph.external("dlogits", DType::F32, [vocabulary, tokens, 1, 1]);
    let data = [(weights, blocks(&w)), (hidden, floats(&x)), (dlogits, floats(&g))];
    let all = [weights, hidden, dlogits].map(|value| graph.whole(value));
    let turned = all[2].permute([1, 0, 2, 3]).expect("a permutation");
    let logits = graph.node("logits", Op::MulMat, vec![all[0], all[1]]).expect("a product");
    let gradient = graph.node("gradient", Op::OutProd, vec![all[0], turned]).expect("a product");
    [logits, gradient].into_iter().for_each(|value| graph.keep(value));

    let clamp = LimitsClamp::parse("adreno-830").expect("a preset");
    let options = PlanOptions { storage, ..PlanOptions::default() };
    let device = VulkanDevice::open_with(options, Some(clamp)).expect("a Vulkan device");
    let plan = device.engine().plan(&graph).expect("a plan");
    println!("{storage:?}: {} dispatches, {} barriers", plan.steps.len(), plan.report.barriers);
    let start = std::time::Instant::now();
    let outcome = device.run(&graph, &data, &[logits, gradient]).unwrap_or_else(|e| panic!("{storage:?}: {e}"));
    println!("{storage:?}: {:.1} s, uploads and checks of padding among them", start.elapsed().as_secs_f64());
    let [logits, gradient] = [0, 1].map(|i| decode(DType::F32, &outcome.bytes[i]).expect("floats"));

    let product = |a: i8, b: i8| i32::from(a) * i32::from(b);
    // Rows from all of the vocabulary, those beside every place where it can be cut among them.
    let cuts = (0..VOCABULARY).step_by(64).flat_map(|at| [at, at + 63]).filter(|&row| row < VOCABULARY);
    for row in cuts.step_by(3).chain([VOCABULARY - 1]) {
        for token in 0..TOKENS {
            let pairs = w[row * WIDTH..].iter().zip(&x[token * WIDTH..]).take(WIDTH);
            let want: i32 = pairs.map(|(&a, &b)| product(a, b)).sum();
            assert_eq!(logits[token * VOCABULARY + row], f64::from(want), "{storage:?}: logit {row} of token {token}");
        }
    }
    for column in (0..WIDTH).step_by(61).chain([WIDTH - 1]) {
        let of_column: Vec<i8> = w.iter().skip(column).step_by(WIDTH).copied().collect();
        for token in (0..TOKENS).step_by(5) {
            let pairs = of_column.iter().zip(&g[token * VOCABULARY..]);
            let want: i32 = pairs.map(|(&a, &b)| product(a, b)).sum();
            assert_eq!(gradient[token * WIDTH + column], f64::from(want), "{storage:?}: gradient {column} of {token}");
        }
    }
    device.assert_valid();
}

#[test]
#[ignore = "a minute and 3 GB"]
fn weights_in_an_image() {
    assert_head(StorageChoice::Auto);
}

#[test]
#[ignore = "a minute and 3 GB"]
fn weights_in_pieces_of_a_buffer() {
    assert_head(StorageChoice::Buffer);
}
