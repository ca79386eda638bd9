//! P3: a planner that has planned other graphs makes the plan that a fresh one makes, and P5: always the same one. And which tensors
//! other lengths make dirty.

use proptest::prelude::*;

use super::{Exact, copy};
use crate::device::{Limits, Preset, Profile};
use crate::graph::{Binary, DType, Graph, Op, Unary, ValueId};
use crate::plan::{Change, Objective, Plan, PlanOptions, Planner, Policy, Selector, StorageChoice};

fn profile(name: &str) -> &'static Profile {
    Preset::find(name).and_then(|preset| preset.profile.as_ref()).unwrap()
}

fn fresh<'p>(options: PlanOptions, selection: (Selector, &'p Profile)) -> Planner<'p> {
    Planner::new(&Limits::for_tests(), options, Some(selection))
}

fn planned(planner: &mut Planner<'_>, graph: &Graph) -> Plan {
    graph.verify().unwrap();
    planner.plan(graph, &Exact).unwrap()
}

const WIDTH: u32 = 64;

/// A step of a random program over activations of `WIDTH` by `tokens`.
fn step(g: &mut Graph, number: u8, tokens: u32, values: &mut Vec<ValueId>) {
    let pick = |n: u8, values: &[ValueId]| values[usize::from(n) % values.len()];
    let (x, y) = (pick(number / 8, values), pick(number / 3, values));
    let whole = [g.whole(x), g.whole(y)].to_vec();
    let heads = |g: &Graph, v: ValueId| g.whole(v).reshape([16, 4, tokens, 1]).unwrap().permute([0, 2, 1, 3]).unwrap();
    let made = match number % 8 {
        0 => {
            let w = g.external("w", DType::F16, [WIDTH, WIDTH, 1, 1]);
            let operands = vec![g.whole(w), g.whole(x)];
            g.node("product", Op::MulMat, operands)
        }
        1 => {
            let gradient = g.node("gradient", Op::OutProd, whole).unwrap();
            return g.keep(gradient);
        }
        2 => g.node("sum", Op::Binary(Binary::Add), whole),
        3 => g.node("activated", Op::Unary(Unary::Silu), vec![whole[0]]),
        4 => g.node("norm", Op::RmsNorm { eps: 1e-5 }, vec![whole[0]]),
        5 => {
            // Attention without a mask: scores of heads, and what they weigh.
            let (q, k) = (heads(g, x), heads(g, y));
            let (q, k) = (copy(g, q), copy(g, k));
            let operands = vec![g.whole(k), g.whole(q)];
            let scores = g.node("scores", Op::MulMat, operands).unwrap();
            let weights = g.node("weights", Op::soft_max(0.25), vec![g.whole(scores)]).unwrap();
            let v = copy(g, heads(g, y).permute([1, 0, 2, 3]).unwrap());
            let operands = vec![g.whole(v), g.whole(weights)];
            let out = g.node("weighed", Op::MulMat, operands).unwrap();
            let merged = g.whole(out).permute([0, 2, 1, 3]).unwrap();
            let merged = copy(g, merged);
            let flat = g.whole(merged).reshape([WIDTH, tokens, 1, 1]).unwrap();
            g.node("scaled", Op::Scale { scale: 0.5, bias: 0.0 }, vec![flat])
        }
        6 => {
            let half = g.whole(x).slice(0, 32, 32).unwrap();
            let gate = g.whole(y).slice(0, 0, 32).unwrap();
            let product = g.node("half", Op::SwiGlu, vec![half, gate]).unwrap();
            let w = g.external("w", DType::F32, [32, WIDTH, 1, 1]);
            let operands = vec![g.whole(w), g.whole(product)];
            g.node("widened", Op::MulMat, operands)
        }
        _ => {
            let row = g.external("row", DType::F32, [WIDTH, 1, 1, 1]);
            let operands = vec![whole[0], g.whole(row)];
            g.node("gained", Op::Binary(Binary::Mul), operands)
        }
    };
    values.push(made.unwrap());
}

/// The same random program for any number of tokens.
fn program(numbers: &[u8], tokens: u32) -> Graph {
    let mut g = Graph::new();
    let mut values = vec![g.external("x", DType::F32, [WIDTH, tokens, 1, 1])];
    numbers.iter().for_each(|&number| step(&mut g, number, tokens, &mut values));
    let last = values[values.len() - 1];
    if last != values[0] {
        g.keep(last);
    }
    g
}

fn options() -> impl Strategy<Value = PlanOptions> {
    let storage = prop_oneof![Just(StorageChoice::Buffer), Just(StorageChoice::Image)];
    let policy = (0..Policy::ALL.len()).prop_map(|n| Policy::ALL[n].1);
    (storage, policy).prop_map(|(storage, policy)| PlanOptions { storage, policy, ..PlanOptions::default() })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn plans_do_not_depend_on_what_was_planned_before(
        numbers in prop::collection::vec(any::<u8>(), 1..10),
        others in prop::collection::vec(any::<u8>(), 1..10),
        (first, second) in (1..70_u32, 1..70_u32),
        options in options(),
        machine in prop_oneof![Just("adreno-830"), Just("h200"), Just("lavapipe")],
    ) {
        let profile = profile(machine);
        let graphs = [program(&numbers, first), program(&others, first), program(&numbers, second)];
        for (_, selector) in Selector::ALL {
            let alone = graphs.each_ref().map(|graph| planned(&mut fresh(options, (selector, profile)), graph));
            let mut planner = fresh(options, (selector, profile));
            for turn in [0, 1, 2, 0] {
                prop_assert_eq!(&planned(&mut planner, &graphs[turn]), &alone[turn], "{:?}, graph {}", selector, turn);
            }
        }
    }
}

/// An activation that a gradient sums over tokens, a hidden one that only elementwise ops touch, and heads.
fn layer(tokens: u32) -> Graph {
    program(&[0, 3, 11, 1 + 8 * 2, 5 + 8 * 2], tokens)
}

fn change(before: &Graph, after: &Graph, options: PlanOptions) -> Change {
    Change::of([before, after], &Limits::for_tests(), options, profile("adreno-830"), Selector::ChainDp).unwrap()
}

const BUFFERS: PlanOptions = PlanOptions {
    storage: StorageChoice::Buffer,
    policy: Policy::RTileMaps,
    apart: false,
    unpruned: false,
    objective: Objective::TimeHarmonic,
};

#[test]
fn nothing_is_dirty_where_nothing_changes() {
    let change = change(&layer(96), &layer(96), BUFFERS);
    assert_eq!((change.dirty, change.moved), (0, 0), "{change:?}");
    assert_eq!(change.cost, change.kept);
}

/// What a product sums over tokens is dirty for any other length; maps and tiles only where a length divides otherwise.
#[test]
fn causes_are_told_apart() {
    let longer = change(&layer(96), &layer(192), BUFFERS);
    assert!(longer.causes.reduced > 0 && longer.dirty < longer.tensors, "{longer:?}");
    assert_eq!((longer.causes.maps, longer.causes.storage), (0, 0), "{longer:?}");
    let ragged = change(&layer(96), &layer(98), BUFFERS);
    assert_eq!(ragged.causes.reduced, longer.causes.reduced);
    assert!(ragged.causes.maps > 0 && ragged.dirty > longer.dirty, "{ragged:?}");
    // Rows beyond the image limit are folded.
    let images = PlanOptions { storage: StorageChoice::Image, ..BUFFERS };
    let most = Limits::for_tests().max_image_2d;
    let folded = change(&program(&[0, 3], most), &program(&[0, 3], 4 * most + 4), images);
    assert!(folded.causes.storage > 0, "{folded:?}");
}

/// A selection in which clean tensors keep their tiles is a selection: it costs no less than the bound, and more than the new one only
/// where the rule overlooks something.
#[test]
fn kept_tiles_cost_no_less_than_the_bound() {
    for tokens in [32, 98, 130, 192, 1024] {
        let change = change(&layer(96), &layer(tokens), BUFFERS);
        assert!(change.kept >= change.lower_bound && change.cost >= change.lower_bound, "{tokens}: {change:?}");
        assert!(change.kept.is_finite(), "{tokens}: {change:?}");
    }
}

#[test]
fn other_graphs_are_refused_by_name() {
    let refusal = |a: &Graph, b: &Graph| {
        let found = Change::of([a, b], &Limits::for_tests(), BUFFERS, profile("h200"), Selector::Rule);
        found.unwrap_err().to_string()
    };
    let a = program(&[2, 3], 8);
    assert!(refusal(&a, &program(&[2], 8)).contains("2 nodes"));
    assert!(refusal(&a, &program(&[2, 4], 8)).contains("node \"activated\""));
}

/// By the rule, lengths that fill the same tiles: the same storages, dispatches and workgroups; constants differ in extents alone. Not so around
/// attention, whose scores have tokens on two axes: a window that merges one of them with heads is cut by its padding.
#[test]
fn lengths_of_one_capacity_differ_in_extents_alone() {
    let is_extent = |id: u32| id >= 64 && (4..8).contains(&((id - 64) % 48));
    let of = |tokens| {
        let graph = program(&[0, 3, 11, 17, 4, 6], tokens);
        planned(&mut fresh(BUFFERS, (Selector::Rule, profile("adreno-830"))), &graph)
    };
    let (full, ragged) = (of(132), of(129));
    let sizes = |plan: &Plan| plan.slots.iter().map(|s| (s.home.width, s.home.height, s.owner)).collect::<Vec<_>>();
    assert_eq!(sizes(&full), sizes(&ragged));
    assert_eq!(full.steps.len(), ragged.steps.len());
    for (a, b) in full.steps.iter().zip(&ragged.steps) {
        assert_eq!((a.shader, a.groups, &a.args, a.barrier), (b.shader, b.groups, &b.args, b.barrier), "{}", a.label);
        let differ = a.constants.iter().zip(b.constants.iter()).filter(|(a, b)| a != b);
        assert!(
            differ.clone().all(|(a, b)| a.0 == b.0 && is_extent(a.0)),
            "{}: {:?}",
            a.label,
            differ.collect::<Vec<_>>()
        );
    }
}
