//! Groups of nodes against the nodes one by one, on the oracles: what a group computes, when it runs, what it leaves.

use crate::device::Limits;
use crate::graph::{
    Array, Binary, Contents, DType, Desc, Graph, Op, Operand, Rope, RopeMode, Unary, ValueId, eval, oracle,
};
use crate::kernels::Source;
use crate::plan::fusion::{Assembled, Extra, Fusion, Group, Groups, Map};
use crate::plan::ladder::Ladder;
use crate::plan::{PlanOptions, UpperBound, plan};

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);

/// A processor, and a GPU, by their subgroups.
const PROCESSOR: u32 = 8;
const GPU: u32 = 32;

fn limits(subgroup_size: u32) -> Limits {
    Limits { subgroup_size, ..Limits::for_tests() }
}

fn groups(graph: &Graph) -> Groups {
    groups_on(graph, PROCESSOR)
}

fn groups_on(graph: &Graph, subgroup: u32) -> Groups {
    graph.verify().unwrap();
    Groups::of(&Ladder::new(graph, PlanOptions::default()), &limits(subgroup), Fusion::All)
}

/// The names of the nodes that run at each place, in order.
fn places(graph: &Graph) -> Vec<Vec<&str>> {
    places_on(graph, PROCESSOR)
}

fn places_on(graph: &Graph, subgroup: u32) -> Vec<Vec<&str>> {
    let groups = groups_on(graph, subgroup);
    let name = |&at: &usize| graph.nodes[at].name.as_str();
    let mut places = Vec::new();
    for at in (0..graph.nodes.len()).filter(|&at| !groups.absorbs(at)) {
        match groups.at(at) {
            None => places.push(vec![name(&at)]),
            Some(group) => {
                places.push(group.nodes.iter().map(name).collect());
                places.extend(group.after.iter().map(|at| vec![name(at)]));
            }
        }
    }
    places
}

/// Positions in a value's linear order, for each element of a kernel's result.
fn positions(array: &Array, map: Map) -> Vec<usize> {
    let at = |i: [u32; 4]| i.iter().zip(map).map(|(&i, stride)| u64::from(i) * stride).sum::<u64>() as f64;
    Array::from_fn(array.shape, at).data.into_iter().map(|at| at as usize).collect()
}

/// Runs a group as its kernel would.
fn run(graph: &Graph, group: &Group, contents: &mut Contents) {
    let Assembled { fused, reads, writes, output, shape } = Assembled::of(graph, group).unwrap();
    let own = graph.values[graph.nodes[group.root].output.index()].shape;
    let mut operands = group.operands(graph).into_iter().map(|operand| contents[&operand.value].window(operand));
    let mut inputs: Vec<Array> = operands.by_ref().take(graph.nodes[group.root].inputs.len()).collect();
    let twin = fused.twin.then(|| operands.next().unwrap());
    if let Some(norm) = fused.norm {
        let whole = inputs[1].shape;
        let right = oracle(&Op::RmsNorm { eps: norm.eps }, &inputs[1..], whole).remove(0);
        inputs[1] = match norm.gain {
            true => oracle(&MUL, &[right, operands.next().unwrap()], whole).remove(0),
            false => right,
        };
    }
    let mut result = oracle(&fused.op, &inputs, own).remove(0);
    let twin = twin.map(|left| oracle(&fused.op, &[left, inputs[1].clone()], own).remove(0));
    if let Some(second) = fused.second {
        let beside = oracle(&second.op, &operands.by_ref().take(2).collect::<Vec<_>>(), own).remove(0);
        result = result.zip(&beside, |x, y| x + f64::from(second.scale) * y);
    }
    assert_eq!(result.shape, shape);
    let spread = |extra: &Extra| {
        let shown = contents[&extra.operand.value].window(&extra.operand);
        let repeated = Array::from_fn(extra.shape, |i| shown.wrapped(i));
        let data = positions(&result, extra.map).into_iter().map(|at| repeated.data[at]).collect();
        Array { shape, data }
    };
    let extras: Vec<Array> = reads.iter().map(spread).collect();
    let mut results = vec![result.clone()];
    for step in &fused.epilogue.steps {
        let of = |source: &Source| match *source {
            Source::Result(i) => results[i].clone(),
            Source::Second => twin.clone().unwrap(),
            Source::Extra(i) => extras[i].clone(),
        };
        let inputs: Vec<Array> = step.inputs.iter().map(of).collect();
        results.push(oracle(&step.op, &inputs, shape).remove(0));
    }
    let mut leave = |(value, map): (ValueId, Map), from: &Array| {
        let mut array = Array::zeros(graph.values[value.index()].shape);
        for (at, &x) in positions(from, map).into_iter().zip(&from.data) {
            array.data[at] = x;
        }
        contents.insert(value, array);
    };
    let stored = |at: usize| {
        let extra = Some(reads.len() + at);
        let steps = || fused.epilogue.steps.iter().position(|step| step.store == extra).map(|step| step + 1);
        if fused.epilogue.store_root == extra { 0 } else { steps().unwrap() }
    };
    for (at, &write) in writes.iter().enumerate() {
        leave(write, &results[stored(at)]);
    }
    leave(output, results.last().unwrap());
    if let Some(at) = group.rotation {
        let node = &graph.nodes[at];
        let angles = node.inputs[1..].iter().map(|input| contents[&input.value].window(input));
        let inputs: Vec<Array> = [contents[&output.0].clone()].into_iter().chain(angles).collect();
        contents.insert(output.0, oracle(&node.op, &inputs, contents[&output.0].shape).remove(0));
    }
}

/// Runs the pieces that are left of a group where no kernel does more than one thing, one after the other.
fn run_apart(graph: &Graph, group: &Group, contents: &mut Contents) {
    match group.apart(graph) {
        Some(parts) => parts.iter().for_each(|part| run_apart(graph, part, contents)),
        None => run(graph, group, contents),
    }
}

/// That the groups of a graph leave what its nodes leave, sums of products in one piece or in two; how many nodes they save.
fn check(graph: &Graph, data: Contents) -> usize {
    check_on(graph, data, PROCESSOR)
}

fn check_on(graph: &Graph, data: Contents, subgroup: u32) -> usize {
    check_with(graph, data.clone(), subgroup, true);
    check_with(graph, data, subgroup, false)
}

fn check_with(graph: &Graph, data: Contents, subgroup: u32, apart: bool) -> usize {
    let expected = eval(graph, data.clone()).unwrap();
    let groups = groups_on(graph, subgroup);
    let (mut contents, mut places) = (data, 0);
    for at in (0..graph.nodes.len()).filter(|&at| !groups.absorbs(at)) {
        places += 1;
        let Some(group) = groups.at(at) else {
            graph.nodes[at].step(graph, &mut contents);
            continue;
        };
        if apart {
            run_apart(graph, group, &mut contents)
        } else {
            run(graph, group, &mut contents)
        }
        group.after.iter().for_each(|&at| graph.nodes[at].step(graph, &mut contents));
        places += group.after.len();
    }
    let external = (0..).zip(&graph.values).filter(|(_, v)| v.kind == crate::graph::Kind::External).count();
    assert!(external > 0);
    for (id, array) in &contents {
        for (x, y) in array.data.iter().zip(&expected[id].data) {
            // Sums may be taken in another order: a few roundings of f64.
            assert!(
                (x - y).abs() <= 1e-12 * x.abs().max(y.abs()).max(1.0),
                "{:?}: {x} {y}",
                graph.values[id.index()].name
            );
        }
    }
    assert!(graph.kept.iter().all(|id| contents.contains_key(id)), "what the host reads is left");
    graph.nodes.len() - places
}

fn filled(graph: &Graph, seed: &mut u32) -> Contents {
    let mut next = || {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(*seed >> 16) / 65536.0 - 0.5
    };
    let external = graph.ids().filter(|id| graph.values[id.index()].kind == crate::graph::Kind::External);
    external.map(|id| (id, Array::from_fn(graph.values[id.index()].shape, |_| next()))).collect()
}

/// `W x + s B (A x)`, then the residual.
#[test]
fn a_lora_pair_runs_beside_its_base() {
    let mut g = Graph::new();
    let [w, a, b, x, r] = [("w", [12, 8]), ("a", [12, 4]), ("b", [4, 8]), ("x", [12, 5]), ("r", [8, 5])]
        .map(|(name, [n0, n1])| g.external(name, DType::F32, [n0, n1, 1, 1]));
    let mut node = |name: &str, op: Op, ids: &[ValueId]| {
        let inputs = ids.iter().map(|&id| g.whole(id)).collect();
        g.node(name, op, inputs).unwrap()
    };
    let base = node("base", Op::MulMat, &[w, x]);
    let low = node("low", Op::MulMat, &[a, x]);
    let up = node("up", Op::MulMat, &[b, low]);
    let scaled = node("scaled", Op::Scale { scale: 0.5, bias: 0.0 }, &[up]);
    let sum = node("sum", ADD, &[base, scaled]);
    let y = node("y", ADD, &[sum, r]);
    g.keep(y);
    assert_eq!(places(&g), [vec!["low"], vec!["base", "up", "scaled", "sum", "y"]]);
    assert_eq!(check(&g, filled(&g, &mut 1)), 4);
    let group = groups(&g).at(5).cloned().unwrap();
    assert_eq!((group.root, group.second.unwrap().scale, group.stored.len()), (0, 0.5, 0));
    let [base, rest] = group.apart(&g).unwrap();
    assert_eq!((base.nodes, rest.nodes, rest.root), (vec![0], vec![2, 3, 4, 5], 2));
}

/// What is read outside is stored, what is read before a group runs ends it.
#[test]
fn values_read_outside_are_stored() {
    let mut g = Graph::new();
    let [w, x] = ["w", "x"].map(|name| g.external(name, DType::F32, [8, 8, 1, 1]));
    let mut node = |name: &str, op: Op, ids: &[ValueId]| {
        let inputs = ids.iter().map(|&id| g.whole(id)).collect();
        g.node(name, op, inputs).unwrap()
    };
    let gate = node("gate", Op::MulMat, &[w, x]);
    let up = node("up", Op::MulMat, &[x, w]);
    let gated = node("gated", Op::SwiGlu, &[gate, up]);
    let down = node("down", Op::MulMat, &[w, gated]);
    let back = node("back", Op::SiluBack, &[down, gate]);
    let last = node("last", MUL, &[back, up]);
    g.keep(last);
    assert_eq!(places(&g), [vec!["gate"], vec!["up", "gated"], vec!["down", "back", "last"]]);
    assert_eq!(groups(&g).at(2).unwrap().stored, [up]);
    assert_eq!(check(&g, filled(&g, &mut 2)), 3);
}

/// An optimizer step of a weight that a group reads waits for it; a read of the new weight does not let it.
#[test]
fn updates_wait_for_the_group_that_reads_the_old_value() {
    let graph = |read: bool| {
        let mut g = Graph::new();
        let [w, x, m, v, r] = ["w", "x", "m", "v", "r"].map(|name| g.external(name, DType::F32, [8, 8, 1, 1]));
        let params = g.external("params", DType::F32, [7, 1, 1, 1]);
        let operands = [w, x].map(|id| g.whole(id)).to_vec();
        let y = g.node("y", Op::MulMat, operands).unwrap();
        let operands = [w, x, m, v, params].map(|id| g.whole(id)).to_vec();
        g.node_into("step", Op::AdamW, operands, w);
        if read {
            let operands = vec![g.whole(w)];
            let z = g.node("z", Op::Unary(Unary::Sqr), operands).unwrap();
            g.keep(z);
        }
        let operands = vec![g.whole(y), g.whole(r)];
        let sum = g.node("sum", ADD, operands).unwrap();
        g.keep(sum);
        g
    };
    assert_eq!(places(&graph(false)), [vec!["y", "sum"], vec!["step"]]);
    assert_eq!(places(&graph(true)), [["y"], ["step"], ["z"], ["sum"]]);
}

/// Elements that a chain of windows and copies shows are found in the kernel's own order.
#[test]
fn windows_inside_a_group_become_maps() {
    let mut g = Graph::new();
    let [w, x] = [("w", [8, 4, 6, 1]), ("x", [8, 10, 6, 1])].map(|(name, shape)| g.external(name, DType::F32, shape));
    let bias = g.external("bias", DType::F32, [24, 1, 1, 1]);
    let operands = vec![g.whole(w), g.whole(x)];
    let y = g.node("y", Op::MulMat, operands).unwrap();
    let heads = g.whole(y).permute([0, 2, 1, 3]).unwrap();
    let merged = g.node_as("merged", Op::Copy, vec![heads], Desc::f32([24, 10, 1, 1])).unwrap();
    let operands = vec![g.whole(merged), g.whole(bias)];
    let biased = g.node("biased", ADD, operands).unwrap();
    let rows = g.whole(biased).reshape([4, 60, 1, 1]).unwrap();
    let doubled = g.node("doubled", ADD, vec![rows, rows]).unwrap();
    g.keep(doubled);
    assert_eq!(places(&g), [["y", "merged", "biased", "doubled"]]);
    assert_eq!(check(&g, filled(&g, &mut 3)), 3);
    let turned = g.whole(y).transpose();
    let turned = g.node("turned", Op::Unary(Unary::Neg), vec![turned]).unwrap();
    g.keep(turned);
    assert!(
        !places(&g).iter().any(|place| place.contains(&"turned") && place.len() > 1),
        "texels would not stay whole"
    );
}

/// Projection, pair, bias, heads split, rotation: one dispatch. Batches along the axis of positions are no positions.
#[test]
fn heads_are_rotated_where_they_are_computed() {
    let graph = |tokens: u32, batch: u32| {
        let mut g = Graph::new();
        let (w, x) = ([8, 24, 1, 1], [8, tokens * batch, 1, 1]);
        let [w, x] = [("w", w), ("x", x)].map(|(name, shape)| g.external(name, DType::F32, shape));
        let bias = g.external("bias", DType::F32, [24, 1, 1, 1]);
        let positions = g.external("positions", DType::I32, [tokens, 1, 1, 1]);
        let operands = vec![g.whole(w), g.whole(x)];
        let y = g.node("y", Op::MulMat, operands).unwrap();
        let operands = vec![g.whole(y), g.whole(bias)];
        let biased = g.node("biased", ADD, operands).unwrap();
        let heads = g.whole(biased).reshape([8, 3, tokens, batch]).unwrap();
        let rope = Rope::plain(RopeMode::Neox, 8, 512, 1e4);
        let operands = vec![heads, g.whole(positions)];
        let q = g.node("q", Op::Rope(rope), operands).unwrap();
        g.keep(q);
        g
    };
    // A single token is one along any axis.
    for (tokens, batch) in [(5, 1), (1, 1), (1, 2)] {
        let graph = graph(tokens, batch);
        assert_eq!(places(&graph), [["y", "biased", "q"]]);
        assert_eq!(check(&graph, filled(&graph, &mut 4)), 2);
    }
    assert_eq!(places(&graph(5, 2)), [vec!["y", "biased"], vec!["q"]]);
    let graph = graph(5, 1);
    let elementwise = Groups::of(&Ladder::new(&graph, PlanOptions::default()), &limits(PROCESSOR), Fusion::Elementwise);
    assert_eq!(elementwise.at(1).unwrap().nodes, [0, 1]);
}

/// The two products of a gated unit: one waits for the other where they have many columns; few are one dispatch, or two side by side
/// where more than one node joins them or their left factors are not alike.
#[test]
fn products_of_few_columns_run_beside_each_other() {
    let graph = |columns: u32, bare: bool, dtype: DType| {
        let mut g = Graph::new();
        let w = [8, 24, 1, 1];
        let x = ("x", [8, columns, 1, 1], DType::F32);
        let [up, gate, x] =
            [("up", w, DType::F32), ("gate", w, dtype), x].map(|(name, shape, dtype)| g.external(name, dtype, shape));
        let [up, gate] = [up, gate].map(|w| {
            let operands = vec![g.whole(w), g.whole(x)];
            g.node(if w == up { "up" } else { "gate" }, Op::MulMat, operands).unwrap()
        });
        let operands = vec![g.whole(gate)];
        let gate = if bare { gate } else { g.node("silu", Op::Unary(Unary::Silu), operands).unwrap() };
        let operands = vec![g.whole(gate), g.whole(up)];
        let joined = g.node("joined", MUL, operands).unwrap();
        g.keep(joined);
        g
    };
    let last = |graph: &Graph, subgroup: u32| groups_on(graph, subgroup).at(graph.nodes.len() - 1).cloned();
    for bare in [true, false] {
        let few = graph(8, bare, DType::F32);
        assert!(last(&graph(9, bare, DType::F32), GPU).is_some_and(|group| group.twin.is_none()));
        assert_eq!(last(&few, GPU).map(|group| (group.twin, group.nodes)), bare.then(|| (Some(1), vec![0, 1, 2])));
        assert!(last(&few, PROCESSOR).is_some_and(|group| group.twin.is_none()), "one runs after the other");
        assert!(last(&graph(8, bare, DType::F16), GPU).is_none());
        check_on(&few, filled(&few, &mut 5), GPU);
    }
}

/// What a layer that decodes does with a norm.
#[derive(Clone, Copy, PartialEq)]
enum Around {
    Nothing,
    /// Something else than products reads its result.
    Reader,
    /// The step behind a product does.
    Step,
    /// The host does.
    Kept,
    /// The gain changes before the last product.
    Update,
}

/// A norm with or without a gain; a projection with a bias that is rotated, a gated unit of two products, and a bare one.
fn decoding(columns: u32, k: u32, gain: bool, around: Around) -> Graph {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [k, columns, 1, 1]);
    let w = ["q", "up", "gate", "v"].map(|name| g.external(name, DType::F16, [k, 16, 1, 1]));
    let [of_gain, grad, m, v] = ["gain", "grad", "m", "v"].map(|name| g.external(name, DType::F32, [k, 1, 1, 1]));
    let bias = g.external("bias", DType::F32, [16, 1, 1, 1]);
    let positions = g.external("positions", DType::I32, [columns, 1, 1, 1]);
    let params = g.external("params", DType::F32, [7, 1, 1, 1]);
    let mut normed = g.node("norm", Op::RmsNorm { eps: 1e-5 }, vec![g.whole(x)]).unwrap();
    if gain {
        normed = g.node("gained", MUL, vec![g.whole(normed), g.whole(of_gain)]).unwrap();
    }
    let product = |g: &mut Graph, at: usize| {
        g.node(["q", "up", "gate", "v"][at], Op::MulMat, vec![g.whole(w[at]), g.whole(normed)])
    };
    let q = product(&mut g, 0).unwrap();
    let q = g.node("biased", ADD, vec![g.whole(q), g.whole(bias)]).unwrap();
    let heads = g.whole(q).reshape([8, 2, columns, 1]).unwrap();
    let rope = Rope::plain(RopeMode::Neox, 8, 512, 1e4);
    let rotated = g.node("rotated", Op::Rope(rope), vec![heads, g.whole(positions)]).unwrap();
    let [up, gate] = [1, 2].map(|at| product(&mut g, at).unwrap());
    let gated = g.node("gated", Op::SwiGlu, vec![g.whole(gate), g.whole(up)]).unwrap();
    if around == Around::Update {
        let operands = [of_gain, grad, m, v, params].map(|id| g.whole(id)).to_vec();
        g.node_into("step", Op::AdamW, operands, of_gain);
    }
    let bare = product(&mut g, 3).unwrap();
    if around == Around::Reader {
        let read = g.node("read", Op::Unary(Unary::Neg), vec![g.whole(normed)]).unwrap();
        g.keep(read);
    }
    if around == Around::Step {
        let square = g.external("square", DType::F16, [k, k, 1, 1]);
        let product = g.node("square", Op::MulMat, vec![g.whole(square), g.whole(normed)]).unwrap();
        let sum = g.node("read", ADD, vec![g.whole(product), g.whole(normed)]).unwrap();
        g.keep(sum);
    }
    if around == Around::Kept {
        g.keep(normed);
    }
    [rotated, gated, bare].into_iter().for_each(|id| g.keep(id));
    g
}

/// A norm is part of all products that read it, where they alone do, and what they read is then still what it was.
#[test]
fn products_of_few_columns_normalise_their_right_factor() {
    for (columns, gain) in [(1, true), (8, true), (1, false)] {
        let graph = decoding(columns, 32, gain, Around::Nothing);
        let norm: &[&str] = if gain { &["norm", "gained"] } else { &["norm"] };
        let with = |nodes: &[&'static str]| [norm, nodes].concat();
        let expected = [with(&["q", "biased", "rotated"]), with(&["up", "gate", "gated"]), with(&["v"])];
        assert_eq!(places_on(&graph, GPU), expected);
        check_on(&graph, filled(&graph, &mut 6), GPU);
        assert_eq!(places_on(&graph, PROCESSOR)[0], norm);
        assert_eq!(places_on(&decoding(9, 32, gain, Around::Nothing), GPU)[0], norm);
    }
    for around in [Around::Reader, Around::Step, Around::Kept, Around::Update] {
        let graph = decoding(1, 32, true, around);
        assert_eq!(places_on(&graph, GPU)[0], ["norm", "gained"]);
        let mut data = filled(&graph, &mut 6);
        // AdamW's parameters and second moments are positive.
        data.values_mut().for_each(|array| array.data.iter_mut().for_each(|x| *x = x.abs() + 0.1));
        check_on(&graph, data, GPU);
    }
}

/// Steps of a plan: nothing is left of the norm; where no kernel takes it, it is made once, and products read it as they would.
#[test]
fn a_norm_that_no_kernel_takes_is_made_once() {
    let limits = limits(GPU);
    let shaders = |k: u32| {
        let graph = decoding(2, k, true, Around::Nothing);
        let plan = plan(&graph, &limits, PlanOptions::default(), &UpperBound(&limits)).unwrap();
        plan.steps.iter().map(|step| step.shader).collect::<Vec<_>>()
    };
    let mut normed = shaders(64);
    normed.sort_unstable();
    assert_eq!(normed, ["gemm_normed", "gemm_normed_rotated", "gemm_twin"]);
    // Invocations take eight halves of a row at a time.
    let mut apart = shaders(20);
    apart.sort_unstable();
    assert_eq!(apart, ["gemm", "gemm", "gemm_fused", "gemm_rotated", "rms_norm_fused"]);
}

/// A random graph of products, elementwise ops, windows, copies and updates.
fn random(seed: &mut u32) -> Graph {
    let mut next = |n: u32| {
        *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (*seed >> 16) % n
    };
    let mut g = Graph::new();
    let shape = [8, 8, 1, 1];
    let mut values: Vec<ValueId> = (0..4).map(|i| g.external(format!("x{i}"), DType::F32, shape)).collect();
    let row = g.external("row", DType::F32, [8, 1, 1, 1]);
    let [w, m, v] = ["w", "m", "v"].map(|name| g.external(name, DType::F32, shape));
    let params = g.external("params", DType::F32, [7, 1, 1, 1]);
    let mut updated = false;
    for i in 0..5 + next(20) {
        let recent =
            |next: &mut dyn FnMut(u32) -> u32| values[values.len() - 1 - next(values.len().min(6) as u32) as usize];
        let (a, b) = (g.whole(recent(&mut next)), g.whole(recent(&mut next)));
        let window = |next: &mut dyn FnMut(u32) -> u32, a: Operand| match next(4) {
            0 => a.reshape([4, 2, 8, 1]).unwrap().permute([0, 2, 1, 3]).unwrap(),
            1 => a.transpose().reshape([8, 8, 1, 1]).unwrap(),
            _ => a,
        };
        let old = if updated { b } else { g.whole(w) };
        let (op, inputs) = match next(11) {
            0 => (Op::MulMat, vec![old, a]),
            1 | 2 => (if next(2) == 0 { Op::MulMat } else { Op::OutProd }, vec![a, b]),
            3 => (Op::Scale { scale: 0.5, bias: if next(2) == 0 { 0.0 } else { 0.25 } }, vec![a]),
            4..=6 => (ADD, vec![a, b]),
            7 => (MUL, vec![a, if next(2) == 0 { g.whole(row) } else { b }]),
            8 => (Op::Unary(Unary::Silu), vec![a]),
            9 => (Op::Copy, vec![window(&mut next, a)]),
            _ if !updated => {
                updated = true;
                let operands = [g.whole(w), a, g.whole(m), g.whole(v), g.whole(params)].to_vec();
                g.node_into("step", Op::AdamW, operands, w);
                continue;
            }
            _ => (Op::RmsNorm { eps: 1e-5 }, vec![a]),
        };
        let name = format!("n{i}");
        let id = match op {
            Op::Copy => g.node_as(name, op, inputs, Desc::f32(shape)).unwrap(),
            _ => g.node(name, op, inputs).unwrap(),
        };
        if next(5) == 0 {
            g.keep(id);
        }
        values.push(id);
    }
    g
}

#[test]
fn random_graphs_compute_the_same_in_groups() {
    let (mut seed, mut saved, mut normed) = (7, 0, 0);
    for _ in 0..400 {
        let graph = random(&mut seed);
        let mut data = filled(&graph, &mut seed);
        // AdamW's parameters and second moments are positive.
        data.values_mut().for_each(|array| array.data.iter_mut().for_each(|x| *x = x.abs() + 0.1));
        saved += check(&graph, data.clone());
        check_on(&graph, data, GPU);
        let groups = groups_on(&graph, GPU);
        normed += (0..graph.nodes.len()).filter(|&at| groups.at(at).is_some_and(|group| group.norm.is_some())).count();
    }
    assert!(saved > 400, "the graphs have too little to run together: {saved}");
    assert!(normed > 0, "no product has a norm");
}
