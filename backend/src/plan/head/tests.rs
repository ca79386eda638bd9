//! In chunks or not, a graph gives the same; what others need stays.

use super::{Found, Head, HeadChoice, Part, Role, chunk_head, tokens};
use crate::device::{Limits, MatrixType, MatrixUnit};
use crate::graph::{Array, Binary, Contents, DType, Graph, Kind, Node, Op, Operand, Unary, ValueId, elements, eval};
use crate::plan::tests::Exact;
use crate::plan::{PlanOptions, plan};

/// Width, vocabulary and tokens.
const SMALL: [u32; 3] = [6, 20, 11];

/// A head with its loss and gradients as a host writes them, and what its external values hold.
struct Scene {
    graph: Graph,
    contents: Contents,
    logits: ValueId,
    loss: ValueId,
    /// What a run is asked for.
    read: Vec<ValueId>,
}

/// What a scene has besides.
#[derive(Clone, Copy, Debug, Default)]
struct With {
    /// Logits bounded by a tanh.
    cap: bool,
    /// The gradient of the head's matrix is wanted.
    trained: bool,
    /// The likeliest ids are asked for.
    best: bool,
    /// The loss's gradient is computed behind the loss.
    rescaled: bool,
}

fn noise(shape: [u32; 4], seed: u32) -> Array {
    let mut state = u64::from(seed) + 1;
    Array::from_fn(shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    })
}

fn scene(with: With) -> Scene {
    sized(SMALL, with)
}

fn sized([width, vocabulary, rows]: [u32; 3], with: With) -> Scene {
    let mut graph = Graph::new();
    let mut contents = Contents::new();
    let mut given = |graph: &mut Graph, name: &str, shape: [u32; 4]| -> Operand {
        let id = graph.external(name, DType::F32, shape);
        contents.insert(id, noise(shape, id.index() as u32));
        graph.whole(id)
    };
    let w = given(&mut graph, "w", [width, vocabulary, 1, 1]);
    let h = given(&mut graph, "h", [width, rows, 1, 1]);
    let labels = given(&mut graph, "labels", [vocabulary, rows, 1, 1]);
    let seed = given(&mut graph, "seed", [1; 4]);
    let add = |graph: &mut Graph, name: &str, op: Op, inputs: Vec<Operand>| -> Operand {
        let id = graph.node(name, op, inputs).unwrap();
        graph.whole(id)
    };
    let scale = |scale: f32| Op::Scale { scale, bias: 0.0 };
    let x = add(&mut graph, "x", scale(2.0), vec![h]);
    let product = add(&mut graph, "logits", Op::MulMat, vec![w, x]);
    let (mut logits, mut tanh) = (product, product);
    if with.cap {
        logits = add(&mut graph, "scaled", scale(0.5), vec![logits]);
        tanh = add(&mut graph, "tanh", Op::Unary(Unary::Tanh), vec![logits]);
        logits = add(&mut graph, "capped", scale(2.0), vec![tanh]);
    }
    let mut read = Vec::new();
    if with.best {
        let ids = graph.external("best", DType::I32, [rows, 1, 1, 1]);
        graph.node_into("best", Op::ArgMax, vec![logits], ids);
        read.push(ids);
    }
    let mean = add(&mut graph, "mean", Op::CrossEntropyLoss, vec![logits, labels]);
    let mut loss = mean;
    let mut d_loss = seed;
    if with.rescaled {
        loss = add(&mut graph, "loss", scale(3.0), vec![mean]);
        d_loss = add(&mut graph, "d loss", scale(3.0), vec![seed]);
    }
    let mut d = add(&mut graph, "d logits", Op::CrossEntropyLossBack, vec![d_loss, logits, labels]);
    if with.cap {
        d = add(&mut graph, "d capped", scale(2.0), vec![d]);
        d = add(&mut graph, "d tanh", Op::TanhBack, vec![d, tanh]);
        d = add(&mut graph, "d scaled", scale(0.5), vec![d]);
    }
    let dx = add(&mut graph, "dx", Op::OutProd, vec![w, d.transpose()]);
    let dh = add(&mut graph, "dh", scale(2.0), vec![dx]);
    read.extend([loss.value, dh.value]);
    if with.trained {
        let dw = add(&mut graph, "dw", Op::OutProd, vec![x, d]);
        let step = add(&mut graph, "step", Op::Binary(Binary::Sub), vec![w, dw]);
        read.push(step.value);
    }
    for &id in &read {
        if graph.values[id.index()].kind == Kind::Computed {
            graph.keep(id);
        }
    }
    graph.verify().unwrap();
    Scene { graph, contents, logits: product.value, loss: mean.value, read }
}

fn chunked(graph: &Graph, tokens: u32) -> (Graph, Head) {
    let (graph, head) = chunk_head(graph, &Limits::for_tests(), HeadChoice::Tokens(tokens));
    (graph.into_owned(), head)
}

/// Why nothing of a graph is computed in chunks.
fn refused(graph: &Graph) -> String {
    let (same, head) = chunked(graph, 4);
    assert!(head.chunks.is_empty() && head.gradients.is_empty() && same == *graph, "{head}");
    head.refused.join("; ")
}

/// Numbers near 1 pass through sums of fewer than a hundred terms: both ways round off less than 1e-13 of them. Shares of chunks are
/// factors in F32, each off by 2^-24 of itself at most.
fn assert_same(scene: &Scene, graph: &Graph, what: &str) {
    let [before, after] = [&scene.graph, graph].map(|graph| eval(graph, scene.contents.clone()).unwrap());
    let bound = 2.0_f64.powi(-24) + 1e-13;
    for id in &scene.read {
        let name = &graph.values[id.index()].name;
        // The step of the matrix is of its own size, and its gradient smaller: factors err on terms of up to 1.
        for (a, b) in before[id].data.iter().zip(&after[id].data) {
            assert!((a - b).abs() <= bound * (4.0 + a.abs()), "{what}: {name}: {a} and {b}");
        }
        assert!(before[id].data.iter().any(|x| x.abs() > 0.01), "{what}: {name} is nothing");
    }
}

#[test]
fn heads_in_chunks_give_the_same() {
    let scenes = [
        With::default(),
        With { best: true, rescaled: true, ..With::default() },
        With { trained: true, rescaled: true, ..With::default() },
        With { cap: true, trained: true, best: true, rescaled: true },
    ];
    for with in scenes {
        let scene = scene(with);
        for tokens in [1, 3, 4, 8] {
            let (graph, head) = chunked(&scene.graph, tokens);
            let what = format!("{with:?} by {tokens}");
            assert!(head.refused.is_empty() && head.chunks.len() == 1 && head.chunks[0] <= tokens, "{what}: {head}");
            graph.verify().unwrap();
            assert_same(&scene, &graph, &what);
            // Nothing with a column of the vocabulary for every token is computed, and each product once.
            let all = u64::from(SMALL[1] * SMALL[2]);
            assert!(graph.nodes.iter().all(|node| elements_of(&graph, node.output) < all), "{what}");
            assert_eq!(graph.values[scene.logits.index()].kind, Kind::Dropped);
            let flops = |graph: &Graph, op: Op| -> u64 {
                let products = graph.nodes.iter().filter(|node| node.op == op);
                let work = |node: &Node| {
                    elements_of(graph, node.output) * u64::from(node.inputs[0].shape[usize::from(op == Op::OutProd)])
                };
                products.map(work).sum()
            };
            for op in [Op::MulMat, Op::OutProd] {
                assert_eq!(flops(&graph, op), flops(&scene.graph, op), "{what}");
            }
            plan(&graph, &Limits::for_tests(), PlanOptions::default(), &Exact).unwrap();
        }
        let (same, head) = chunked(&scene.graph, SMALL[2]);
        assert!(same == scene.graph && head == Head::default(), "one chunk is the whole");
    }
}

fn elements_of(graph: &Graph, id: ValueId) -> u64 {
    elements(&graph.values[id.index()].shape)
}

/// Without gradients a loss needs no logits of all tokens either.
#[test]
fn a_loss_alone_is_computed_in_chunks() {
    let mut scene = scene(With::default());
    let end = scene.graph.nodes.iter().position(|node| node.name == "d logits").unwrap();
    for node in scene.graph.nodes.split_off(end) {
        scene.graph.values[node.output.index()].kind = Kind::Dropped;
    }
    scene.graph.kept = vec![scene.loss];
    scene.read = vec![scene.loss];
    let (graph, head) = chunked(&scene.graph, 4);
    assert_eq!((&head.chunks[..], &head.refused[..]), (&[4][..], &[][..]));
    assert_same(&scene, &graph, "alone");
}

/// Where others read the logits, they are computed at once, and their gradient in chunks.
#[test]
fn logits_that_others_read_stay() {
    let with = With { trained: true, rescaled: true, ..With::default() };
    let mut kept = scene(with);
    kept.graph.keep(kept.logits);
    let mut read = scene(with);
    let logits = read.graph.whole(read.logits);
    read.graph.node("watcher", Op::Unary(Unary::Sqr), vec![logits.transpose()]).unwrap();
    for (scene, why) in [(kept, "mean: logits is read after the run"), (read, "mean: logits is read by watcher")] {
        let (graph, head) = chunked(&scene.graph, 4);
        assert_eq!(
            (&head.chunks[..], &head.gradients[..], head.refused.join("; ")),
            (&[][..], &[4][..], why.to_owned())
        );
        graph.verify().unwrap();
        assert_same(&scene, &graph, why);
    }
}

#[test]
fn what_cannot_come_sooner_is_refused() {
    // The gradient of the loss follows from the loss: it is squared.
    let mut squared = scene(With { rescaled: true, ..With::default() });
    let loss = squared.graph.whole(squared.loss);
    let at = squared.graph.nodes.iter().position(|node| node.name == "d loss").unwrap();
    squared.graph.nodes[at].op = Op::Binary(Binary::Mul);
    squared.graph.nodes[at].inputs.push(loss);
    let (_, head) = chunked(&squared.graph, 4);
    assert_eq!(head.refused, ["mean: d loss has to be known before it, and follows from it"]);
    assert_eq!(head.gradients, [4], "the gradient can still wait for the loss");

    // The same with a loss that the host reads.
    let kept = squared.graph.external("kept", DType::F32, [1; 4]);
    let mean = squared.graph.nodes.iter_mut().find(|node| node.output == squared.loss).unwrap();
    mean.output = kept;
    squared.graph.nodes[at].inputs[1] = squared.graph.whole(kept);
    assert_eq!(chunked(&squared.graph, 4).1.refused, ["mean: mean changes an operand of d loss before it"]);

    // The matrix is updated between its two products.
    let mut updated = scene(With::default());
    let w = updated.graph.ids().next().unwrap();
    let end = updated.graph.nodes.len();
    updated.graph.node_into("update", Op::Scale { scale: 2.0, bias: 0.0 }, vec![updated.graph.whole(w)], w);
    let update = updated.graph.nodes.remove(end);
    let dx = updated.graph.nodes.iter().position(|node| node.name == "dx").unwrap();
    updated.graph.nodes.insert(dx, update);
    let why = refused(&updated.graph);
    assert!(why.starts_with("mean: update changes an operand of dx before it"), "{why}");

    // A part of the gradient is read, which has no column for every token.
    let mut part = scene(With::default());
    let d = part.graph.nodes.iter().find(|node| node.name == "d logits").unwrap().output;
    let some = part.graph.whole(d).slice(0, 0, 3).unwrap();
    part.graph.node("watcher", Op::Unary(Unary::Sqr), vec![some]).unwrap();
    assert!(refused(&part.graph).starts_with("mean: d logits is read by watcher"));
}

/// The arena shrinks to the logits of one chunk, which their gradient takes over, and what has a row for every token.
#[test]
fn one_chunk_of_logits_is_alive() {
    let [width, vocabulary, rows] = [16, 8192, 128];
    let with = With { best: true, rescaled: true, ..With::default() };
    let scene = sized([width, vocabulary, rows], with);
    let arena = |graph: &Graph| {
        let plan = plan(graph, &Limits::for_tests(), PlanOptions::default(), &Exact).unwrap();
        plan.report.arena_bytes
    };
    let logits = |tokens: u32| 4 * u64::from(vocabulary * tokens);
    assert!(arena(&scene.graph) >= logits(rows));
    for tokens in [16, 32, 64] {
        let (graph, head) = chunked(&scene.graph, tokens);
        assert_eq!(head.chunks, [tokens]);
        // x, its gradient in parts and joined, the gradient behind it, with copies; losses of rows, ids and scalars.
        let rest = 4 * u64::from(12 * width * rows) + 64 * u64::from(rows);
        assert!(rest < logits(tokens) / 2);
        let bytes = arena(&graph);
        assert!(bytes <= logits(tokens) + rest, "{tokens}: {bytes} of {}", logits(tokens) + rest);
    }
}

/// Chunks of one size, no longer than asked for, by the size of the vocabulary and what products are computed by.
#[test]
fn chunks_suit_vocabulary_and_device() {
    let found = |vocabulary: u32, rows: u32, trained: bool| {
        let part = |role| Part { node: 0, role, along: Vec::new() };
        let parts = vec![part(Role::Inner), part(if trained { Role::Summed } else { Role::Mean })];
        Found { logits: [vocabulary, rows, 1, 1], parts, moved: Vec::new(), turn: 0 }
    };
    let [plain, with_units] = [vec![], vec![UNIT]].map(|matrix_units| Limits { matrix_units, ..Limits::for_tests() });
    let table = [
        (&plain, 128_256, 512, false, Some(128)),
        (&plain, 128_256, 500, false, Some(128)),
        (&plain, 128_256, 150, false, Some(80)),
        (&plain, 128_256, 128, false, None),
        (&plain, 151_936, 128, false, Some(64)),
        (&plain, 262_144, 512, false, Some(64)),
        (&plain, 49_152, 512, false, Some(256)),
        (&plain, 128_256, 512, true, Some(256)),
        (&plain, 1000, 4096, false, None),
        (&with_units, 128_256, 512, false, Some(128)),
        (&with_units, 128_256, 128, false, None),
        (&with_units, 128_256, 2048, true, Some(512)),
    ];
    for (limits, vocabulary, rows, trained, chunk) in table {
        let chosen = tokens(&found(vocabulary, rows, trained), limits, HeadChoice::Chunked);
        assert_eq!(chosen, chunk, "{vocabulary} x {rows}, trained: {trained}");
    }
    let asked = |rows, most| tokens(&found(37, rows, false), &plain, HeadChoice::Tokens(most));
    assert_eq!([asked(7, 4), asked(7, 1), asked(33, 32), asked(40, 100)], [Some(4), Some(1), Some(32), None]);
    assert_eq!([asked(1 << 20, 1), asked(7, 0), asked(u32::MAX, u32::MAX)], [Some(1 << 10), Some(1), None]);
    assert!(asked(u32::MAX, 3).is_some_and(|tokens| u32::MAX.div_ceil(tokens) <= 1 << 10));
}

const UNIT: MatrixUnit =
    MatrixUnit { factors: MatrixType::F16, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
