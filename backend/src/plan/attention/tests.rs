//! Replaced or not, a graph gives the same; what others need stays.

use super::{AttentionScope, replace_attention};
use crate::device::{Limits, MatrixType, MatrixUnit};
use crate::graph::{Array, Contents, DType, Desc, Graph, Kind, Op, Operand, Unary, ValueId, eval};
use crate::plan::tests::Exact;
use crate::plan::{PlanOptions, plan};

/// Extents of an attention over `tokens` tokens, and what its scores are made of.
#[derive(Clone, Copy, Debug)]
struct Size {
    size: u32,
    tokens: u32,
    heads: u32,
    kv_heads: u32,
    batches: u32,
    cap: Option<f32>,
    masked: bool,
}

const SMALL: Size = Size { size: 8, tokens: 5, heads: 4, kv_heads: 2, batches: 1, cap: None, masked: true };

/// A graph of attention as a host writes it, with its gradients; its external values in order.
struct Scene {
    graph: Graph,
    contents: Contents,
    scores: ValueId,
    weights: ValueId,
    /// What a run is asked for: the result and the gradients of queries, keys and values.
    read: Vec<ValueId>,
}

fn noise(shape: [u32; 4], seed: u32) -> Array {
    let mut state = u64::from(seed) + 1;
    Array::from_fn(shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    })
}

fn scene(at: Size) -> Scene {
    let Size { size, tokens, heads, kv_heads, batches, cap, masked } = at;
    let mut graph = Graph::new();
    let mut contents = Contents::new();
    let mut given = |graph: &mut Graph, name: &str, n: u32| -> Operand {
        let shape = [size * n, tokens, batches, 1];
        let id = graph.external(name, DType::F32, shape);
        contents.insert(id, noise(shape, id.index() as u32));
        graph.whole(id).reshape([size, n, tokens, batches]).unwrap()
    };
    let [q, k, v] = [("q", heads), ("k", kv_heads), ("v", kv_heads)].map(|(name, n)| given(&mut graph, name, n));
    let add = |graph: &mut Graph, name: &str, op: Op, inputs: Vec<Operand>| -> Operand {
        let id = graph.node(name, op, inputs).unwrap();
        graph.whole(id)
    };
    // Queries are computed, as they are in a model.
    let q_doubled = add(&mut graph, "q doubled", Op::Scale { scale: 2.0, bias: 0.0 }, vec![q]);
    let by_head = |x: Operand| x.permute([0, 2, 1, 3]).unwrap();
    let (keys, columns) = (by_head(k), v.permute([2, 0, 1, 3]).map(|_| by_head(v).transpose()).unwrap());
    let mut scores = add(&mut graph, "scores", Op::MulMat, vec![keys, by_head(q_doubled)]);
    let first_scores = scores.value;
    let mut scale = 0.375;
    if let Some(cap) = cap {
        scores = add(&mut graph, "scaled", Op::Scale { scale: scale / cap, bias: 0.0 }, vec![scores]);
        scores = add(&mut graph, "tanh", Op::Unary(Unary::Tanh), vec![scores]);
        scores = add(&mut graph, "capped", Op::Scale { scale: cap, bias: 0.0 }, vec![scores]);
        scale = 1.0;
    }
    let mut operands = vec![scores];
    if masked {
        let mask = graph.external("mask", DType::F32, [tokens, tokens, 1, 1]);
        let hidden = |[key, query, ..]: [u32; 4]| if key > query { f64::NEG_INFINITY } else { 0.0 };
        contents.insert(mask, Array::from_fn([tokens, tokens, 1, 1], hidden));
        operands.push(graph.whole(mask));
    }
    let weights = add(&mut graph, "weights", Op::soft_max(scale), operands);
    let y = add(&mut graph, "y", Op::MulMat, vec![columns, weights]);
    let joined = Desc::f32([size * heads, tokens * batches, 1, 1]);
    let joined = graph.node_as("joined", Op::Copy, vec![by_head(y)], joined).unwrap();
    let gradients = graph.backward(joined, &[q.value, k.value, v.value]).unwrap();
    let seed = graph.values[joined.index()].shape;
    contents.insert(gradients.seed, noise(seed, 77));
    let read: Vec<ValueId> = [joined].into_iter().chain(gradients.wrt).collect();
    read.iter().for_each(|&id| graph.keep(id));
    Scene { graph, contents, scores: first_scores, weights: weights.value, read }
}

fn refused(graph: &Graph, limits: &Limits) -> String {
    let (replaced, report) = replace_attention(graph, limits, AttentionScope::All);
    assert!(report.replaced == 0 && *replaced == *graph);
    report.refused.join("; ")
}

/// Numbers near 1 pass through sums of fewer than a thousand terms: both ways round off less than 1e-12 of them.
fn assert_same(scene: &Scene, graph: &Graph, what: &str) {
    let (before, after) = (eval(&scene.graph, scene.contents.clone()), eval(graph, scene.contents.clone()));
    let (before, after) = (before.unwrap(), after.unwrap());
    for id in &scene.read {
        let name = &graph.values[id.index()].name;
        for (a, b) in before[id].data.iter().zip(&after[id].data) {
            assert!((a - b).abs() <= 1e-12 * (1.0 + a.abs()), "{what}: {name}: {a} and {b}");
        }
        assert!(before[id].data.iter().any(|x| x.abs() > 0.01), "{what}: {name} is nothing");
    }
}

#[test]
fn replaced_attention_gives_the_same() {
    let sizes = [
        SMALL,
        Size { heads: 3, kv_heads: 3, masked: false, ..SMALL },
        Size { heads: 3, kv_heads: 1, batches: 2, ..SMALL },
        Size { heads: 6, batches: 2, cap: Some(1.5), ..SMALL },
        Size { heads: 1, kv_heads: 1, tokens: 2, size: 4, ..SMALL },
    ];
    for size in sizes {
        let scene = scene(size);
        let (graph, report) = replace_attention(&scene.graph, &Limits::for_tests(), AttentionScope::All);
        assert_eq!((report.replaced, &report.refused[..]), (1, &[][..]), "{size:?}");
        graph.verify().unwrap();
        assert_same(&scene, &graph, &format!("{size:?}"));
        // No product with all pairs is left, and nothing with as many elements is computed.
        assert!(graph.nodes.iter().all(|node| !matches!(node.op, Op::MulMat | Op::OutProd)), "{size:?}");
        assert_eq!(graph.values[scene.weights.index()].kind, Kind::Dropped);
        let planned = plan(&graph, &Limits::for_tests(), PlanOptions::default(), &Exact).unwrap();
        assert!(planned.steps.iter().any(|step| step.shader.starts_with("attention_back_kv")), "{size:?}");
    }
}

/// As ggml sums over heads that share: along axis 3.
#[test]
fn sums_over_heads_may_lie_along_another_axis() {
    let mut scene = scene(SMALL);
    let sums: Vec<usize> =
        (0..scene.graph.nodes.len()).filter(|&at| scene.graph.nodes[at].op == Op::RepeatBack).collect();
    assert!(!sums.is_empty());
    for at in sums {
        let node = &mut scene.graph.nodes[at];
        let [n0, n1, share, kv_heads] = node.inputs[0].shape;
        node.inputs[0] = node.inputs[0].permute([0, 1, 3, 2]).unwrap();
        scene.graph.values[node.output.index()].shape = [n0, n1, kv_heads, 1];
        assert_eq!([share, kv_heads], [2, 2]);
    }
    let (graph, report) = replace_attention(&scene.graph, &Limits::for_tests(), AttentionScope::All);
    assert_eq!((report.replaced, &report.refused[..]), (1, &[][..]));
    assert_same(&scene, &graph, "along axis 3");
}

#[test]
fn what_others_read_is_not_replaced() {
    let limits = Limits::for_tests();
    let mut read = scene(SMALL);
    let weights = read.graph.whole(read.weights);
    read.graph.node("watcher", Op::Unary(Unary::Sqr), vec![weights]).unwrap();
    assert_eq!(refused(&read.graph, &limits), "weights: weights is read by watcher");
    let mut kept = scene(SMALL);
    kept.graph.keep(kept.scores);
    assert_eq!(refused(&kept.graph, &limits), "weights: scores is read after the run");
    // Without a gradient there is nothing to report.
    let mut forward = scene(SMALL);
    let end = forward.graph.nodes.iter().position(|node| node.name == "joined").unwrap() + 1;
    forward.graph.nodes.truncate(end);
    assert_eq!(refused(&forward.graph, &limits), "");
}

#[test]
fn an_operand_that_changes_before_its_gradient_is_not_replaced() {
    let mut scene = scene(SMALL);
    let v = scene.graph.ids().find(|id| scene.graph.values[id.index()].name == "v").unwrap();
    let end = scene.graph.nodes.len();
    scene.graph.node_into("update", Op::Scale { scale: 2.0, bias: 0.0 }, vec![scene.graph.whole(v)], v);
    let update = scene.graph.nodes.remove(end);
    let joined = scene.graph.nodes.iter().position(|node| node.name == "joined").unwrap();
    scene.graph.nodes.insert(joined + 1, update);
    let why = refused(&scene.graph, &Limits::for_tests());
    assert_eq!(why, "weights: update changes an operand before its gradient is computed");
}

#[test]
fn what_a_device_cannot_do_is_not_replaced() {
    let few = Limits { max_storage_bindings: 4, ..Limits::for_tests() };
    let why = refused(&scene(SMALL).graph, &few);
    assert_eq!(why, "weights: its gradients bind 7 operands, a dispatch at most 4");
    let odd = refused(&scene(Size { size: 6, ..SMALL }).graph, &Limits::for_tests());
    assert!(odd.contains("rows of 6 elements are no whole quads"), "{odd}");
}

/// Without units a sweep takes longer than the products that it replaces.
#[test]
fn attention_is_replaced_where_units_compute_it() {
    let unit = MatrixUnit { factors: MatrixType::F16, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
    let gpu = Limits { subgroup_size: 32, matrix_units: vec![unit], ..Limits::for_tests() };
    let short = scene(Size { size: 64, ..SMALL });
    let (graph, report) = replace_attention(&short.graph, &gpu, AttentionScope::ByUnits(1));
    assert_eq!((report.replaced, &report.refused[..]), (1, &[][..]));
    let planned = plan(&graph, &gpu, PlanOptions::default(), &Exact).unwrap();
    let by_units = |name: &str| planned.steps.iter().any(|step| step.shader == name);
    assert!(by_units("attention_back_matrix_q_masked") && by_units("attention_back_matrix_kv_masked"));

    let others = [
        Limits { matrix_units: Vec::new(), ..gpu.clone() },
        Limits { matrix_units: vec![MatrixUnit { factors: MatrixType::Bf16, ..unit }], ..gpu.clone() },
        Limits { subgroup_size: 8, ..gpu.clone() },
        Limits { max_shared_memory: 4096, ..gpu.clone() },
    ];
    for limits in others {
        let (replaced, report) = replace_attention(&short.graph, &limits, AttentionScope::ByUnits(1));
        assert!(report.replaced == 0 && *replaced == short.graph, "{limits:?}");
        assert_eq!(report.refused, ["weights: no matrix units take rows of 64 elements here"]);
    }
    // Longer heads wait for eight times as many queries.
    let long = scene(Size { size: 96, tokens: 16, ..SMALL });
    for (least, replaced) in [(2, 1), (3, 0)] {
        let (_, report) = replace_attention(&long.graph, &gpu, AttentionScope::ByUnits(least));
        assert_eq!(report.replaced, replaced, "{least}: {report}");
    }
}

/// Queries of all heads that share a key, here more than 32 bits count, are no axis of a product.
#[test]
fn vast_attention_stays_well_formed() {
    let mut graph = Graph::new();
    let mut given = |shape| {
        let id = graph.external("given", DType::F32, shape);
        graph.whole(id)
    };
    let [q, k, columns] = [[4, 1 << 17, 1 << 16, 1], [4, 4, 1, 1], [4, 4, 1, 1]].map(&mut given);
    let mut add = |op, inputs| {
        let id = graph.node("node", op, inputs).unwrap();
        graph.whole(id)
    };
    let scores = add(Op::MulMat, vec![k, q]);
    let weights = add(Op::soft_max(0.5), vec![scores]);
    let y = add(Op::MulMat, vec![columns, weights]);
    graph.backward(y.value, &[q.value, k.value, columns.value]).unwrap();
    let (graph, _) = replace_attention(&graph, &Limits::for_tests(), AttentionScope::All);
    graph.verify().unwrap();
}
