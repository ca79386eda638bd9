//! Factors behind products compute what they computed before them, and stay where moving them gains nothing.

use crate::device::Limits;
use crate::graph::{Array, Contents, DType, Graph, Kind, Op, Unary, ValueId, eval};
use crate::plan::commute::behind_products;
use crate::plan::{PlanOptions, plan};

use super::Exact;

const SCALE: Op = Op::Scale { scale: 0.75, bias: 0.0 };

/// Gradients of a LoRA pair: `dy` in columns of 32, a pair of rank 4, and what else is read of the scaled gradient.
struct Scene {
    graph: Graph,
    externals: [ValueId; 3],
    scaled: ValueId,
    results: Vec<ValueId>,
}

/// `turned`: with `dy` in rows of 8, as the gradient of values in attention is.
fn scene(turned: bool) -> Scene {
    let mut graph = Graph::new();
    let x = if turned { [8, 16, 2, 1] } else { [32, 8, 1, 1] };
    let externals = [("x", x), ("b", [4, 32, 1, 1]), ("low", [4, 8, 1, 1])]
        .map(|(name, shape)| graph.external(name, DType::F32, shape));
    let [x, b, low] = externals;
    let dy = graph.node("dy", Op::Unary(Unary::Tanh), vec![graph.whole(x)]).unwrap();
    let watcher = graph.node("watcher", Op::Unary(Unary::Neg), vec![graph.whole(dy)]).unwrap();
    let window = match turned {
        true => graph.whole(dy).reshape([8, 32, 1, 1]).unwrap().transpose(),
        false => graph.whole(dy),
    };
    let scaled = graph.node("scaled", SCALE, vec![window]).unwrap();
    let db = graph.node("db", Op::OutProd, vec![graph.whole(low), graph.whole(scaled)]).unwrap();
    let turned = graph.whole(scaled).transpose();
    let dlow = graph.node("dlow", Op::OutProd, vec![graph.whole(b), turned]).unwrap();
    let results = vec![watcher, db, dlow];
    results.iter().for_each(|&id| graph.keep(id));
    Scene { graph, externals, scaled, results }
}

fn contents(scene: &Scene) -> Contents {
    let array = |id: ValueId| {
        let shape = scene.graph.values[id.index()].shape;
        Array::from_fn(shape, |[i, j, ..]| f64::from((7 * i + 13 * j + 5) % 11) / 8.0 - 0.5)
    };
    scene.externals.iter().map(|&id| (id, array(id))).collect()
}

#[test]
fn products_of_a_scaled_gradient_are_scaled_instead() {
    [false, true].into_iter().for_each(assert_moved);
}

fn assert_moved(turned: bool) {
    let scene = scene(turned);
    let commuted = behind_products(&scene.graph).expect("two products are smaller than what they read");
    commuted.graph.verify().unwrap();
    assert_eq!(commuted.graph.values[scene.scaled.index()].kind, Kind::Dropped);
    let [before, after] = [&scene.graph, &commuted.graph].map(|graph| eval(graph, contents(&scene)).unwrap());
    for id in &scene.results {
        for (a, b) in before[id].data.iter().zip(&after[id].data) {
            assert!((a - b).abs() <= 1e-12, "{a} and {b}");
        }
    }

    let plan = plan(&scene.graph, &Limits::for_tests(), PlanOptions::default(), &Exact).unwrap();
    let labels: Vec<&str> = plan.steps.iter().map(|step| step.label.as_str()).collect();
    assert!(labels.iter().all(|label| !label.starts_with("SCALE")), "{labels:?}");
    // Steps name the graph that was given: each product, with the factor that it takes.
    let names = |step: &crate::plan::Step| {
        let fused = step.fused.iter().map(|&at| scene.graph.nodes[at].name.as_str());
        [scene.graph.nodes[step.node].name.as_str()].into_iter().chain(fused).collect::<Vec<_>>().join("+")
    };
    let named: Vec<String> = plan.steps.iter().map(names).collect();
    for wanted in ["db+scaled", "dlow+scaled"] {
        assert!(named.iter().any(|name| name == wanted), "{wanted}: {named:?}");
    }
}

#[test]
fn a_factor_stays_where_moving_it_gains_nothing() {
    assert!(behind_products(&Graph::new()).is_none());
    let stays = |change: fn(&mut Scene)| {
        let mut scene = scene(false);
        change(&mut scene);
        behind_products(&scene.graph).is_none()
    };
    assert!(stays(|scene| scene.graph.keep(scene.scaled)), "it is read after the run");
    let others = |scene: &mut Scene| {
        let scaled = scene.graph.whole(scene.scaled);
        scene.graph.node("other", Op::Unary(Unary::Neg), vec![scaled]).unwrap();
    };
    assert!(stays(others), "no product reads it as well");
    let squares = |scene: &mut Scene| {
        let scaled = scene.graph.whole(scene.scaled);
        scene.graph.node("square", Op::MulMat, vec![scaled, scaled]).unwrap();
    };
    assert!(stays(squares), "a product reads it twice");
    let wide = |scene: &mut Scene| {
        let w = scene.graph.external("w", DType::F32, [32, 64, 1, 1]);
        let operands = vec![scene.graph.whole(w), scene.graph.whole(scene.scaled)];
        scene.graph.node("wide", Op::MulMat, operands).unwrap();
    };
    assert!(stays(wide), "a product is larger");
    // Without the watcher the factor is applied where the gradient is computed.
    let alone = |scene: &mut Scene| {
        let at = scene.graph.nodes.iter().position(|node| node.name == "watcher").unwrap();
        let watcher = scene.graph.nodes.remove(at).output;
        scene.graph.kept.retain(|&id| id != watcher);
    };
    assert!(stays(alone), "nobody else reads what it scales");
}

/// Results of more elements together than 64 bits count.
#[test]
fn vast_products_are_no_gain() {
    let mut graph = Graph::new();
    let [x, a] = ["x", "a"].map(|name| graph.external(name, DType::F32, [1, 1 << 30, 1, 1]));
    let dy = graph.node("dy", Op::Unary(Unary::Tanh), vec![graph.whole(x)]).unwrap();
    graph.node("watcher", Op::Unary(Unary::Neg), vec![graph.whole(dy)]).unwrap();
    let scaled = graph.node("scaled", SCALE, vec![graph.whole(dy)]).unwrap();
    for _ in 0..16 {
        graph.node("product", Op::MulMat, vec![graph.whole(a), graph.whole(scaled)]).unwrap();
    }
    graph.verify().unwrap();
    assert!(behind_products(&graph).is_none());
}
