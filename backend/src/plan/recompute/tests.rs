//! Rewritten graphs compute the same, fit their budgets, and read nothing that has changed.

use std::collections::HashMap;

use crate::device::{Limits, Preset, Profile};
use crate::graph::{Array, Binary, Contents, DType, Graph, Op, Operand, Shape, Unary, ValueId, eval};
use crate::kernels::StorageKind;
use crate::plan::{
    Footprint, Plan, PlanError, PlanOptions, Planner, Policy, Recompute, Rewritten, Selector, Size, TEXEL_BYTES,
};

/// Every node by itself, and nodes that run together.
const POLICIES: [Policy; 2] = [Policy::RTileMaps, Policy::Full];

const SIDE: u32 = 8;
const SQUARE: Shape = [SIDE, SIDE, 1, 1];

struct Exact;

impl Footprint for Exact {
    fn size(&self, _: StorageKind, width: u32, height: u32) -> Result<Size, String> {
        Ok(Size { bytes: u64::from(width) * u64::from(height) * TEXEL_BYTES, alignment: 16 })
    }

    fn block_bytes(&self) -> u64 {
        1 << 30
    }
}

fn with_device<R>(policy: Policy, profile: Option<&Profile>, check: impl FnOnce(&Recompute<'_, Exact>) -> R) -> R {
    let selection = profile.map(|profile| (Selector::Rule, profile));
    let options = PlanOptions { policy, ..PlanOptions::default() };
    let device = Recompute { limits: &Limits::for_tests(), options, footprint: &Exact, selection };
    check(&device)
}

fn plan(device: &Recompute<'_, Exact>, graph: &Graph) -> Plan {
    Planner::new(device.limits, device.options, device.selection).plan(graph, device.footprint).unwrap()
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn array(&mut self, shape: Shape) -> Array {
        Array::from_fn(shape, |_| self.below(2000) as f64 / 1000.0 - 1.0)
    }
}

/// A training step of random matrices: nodes of many kinds, views and copies between them, gradients of three weights, and steps that
/// change each weight right behind its last reader.
fn random_step(random: &mut Random) -> Option<(Graph, Contents)> {
    let mut g = Graph::new();
    let mut contents = Contents::new();
    let mut external = |g: &mut Graph, random: &mut Random, name: &str, shape| {
        let id = g.external(name, DType::F32, shape);
        contents.insert(id, random.array(shape).map(f64::abs));
        id
    };
    let input = external(&mut g, random, "input", SQUARE);
    let weights = ["a", "b", "c"].map(|name| external(&mut g, random, name, SQUARE));
    let mut values = vec![input];
    for at in 0..14 {
        let recent = values[values.len() - 1 - random.below(values.len().min(3))];
        let other = if random.below(2) == 0 { weights[random.below(3)] } else { values[random.below(values.len())] };
        let mut look = |id: ValueId| match random.below(4) {
            0 => g.whole(id).transpose(),
            _ => g.whole(id),
        };
        let (x, y) = (look(recent), look(other));
        let (op, operands) = match random.below(9) {
            0 => (Op::Unary(Unary::Silu), vec![x]),
            1 => (Op::Unary(Unary::Tanh), vec![x]),
            2 => (Op::Binary(Binary::Add), vec![x, y]),
            3 => (Op::Binary(Binary::Mul), vec![x, y]),
            4 => (Op::RmsNorm { eps: 1e-3 }, vec![x]),
            5 => (Op::soft_max(0.5), vec![x]),
            6 => (Op::Copy, vec![x]),
            _ => (Op::MulMat, vec![y, x]),
        };
        let desc = g.values[input.index()].desc();
        let id = g.node_as(format!("n{at}"), op, operands, desc).expect("squares fit every op");
        values.push(id);
    }
    let loss = *values.last()?;
    g.keep(loss);
    let gradients = g.backward(loss, &weights).ok()?;
    contents.insert(gradients.seed, random.array(SQUARE));
    let parameters = g.external("parameters", DType::F32, [7, 1, 1, 1]);
    contents.insert(parameters, Array { shape: [7, 1, 1, 1], data: vec![0.1, 0.9, 0.99, 1e-3, 0.01, 2.0, 3.0] });
    for (weight, gradient) in weights.into_iter().zip(gradients.wrt) {
        let moments = ["m", "v"].map(|name| {
            let id = g.external(name, DType::F32, SQUARE);
            contents.insert(id, random.array(SQUARE).map(f64::abs));
            id
        });
        let operands: Vec<Operand> =
            [weight, gradient, moments[0], moments[1], parameters].map(|id| g.whole(id)).into();
        g.node_into("step", Op::AdamW, operands, weight);
        let step = g.nodes.pop()?;
        let touches = |id: ValueId| {
            g.nodes.iter().rposition(|node| node.output == id || node.inputs.iter().any(|input| input.value == id))
        };
        let behind = touches(weight).max(touches(gradient))?;
        g.nodes.insert(behind + 1, step);
    }
    g.verify().expect("a well-formed step");
    Some((g, contents))
}

/// Every value of the original graph holds the same in the rewritten one.
fn assert_same(before: &Contents, rewritten: &Graph, contents: &Contents) {
    let after = eval(rewritten, contents.clone()).expect("a well-formed graph");
    for (id, array) in before {
        assert_eq!(array, &after[id], "{}", rewritten.values[id.index()].name);
    }
}

/// Every budget is met down to the smallest, and none below it.
#[test]
fn random_steps_fit_their_budgets_and_compute_the_same() {
    POLICIES.into_iter().for_each(check_random_steps);
}

fn check_random_steps(policy: Policy) {
    let mut random = Random(3);
    let adreno = Preset::find("adreno-830").and_then(|preset| preset.profile.as_ref());
    let (mut steps, mut saved, mut refused) = (0, 0, 0);
    while steps < 60 {
        let Some((graph, contents)) = random_step(&mut random) else { continue };
        steps += 1;
        let before = eval(&graph, contents.clone()).expect("a well-formed graph");
        with_device(policy, adreno.filter(|_| steps % 2 == 0), |device| {
            let total = plan(device, &graph).report.total_bytes();
            // The same in the order of the graph may take less.
            let Recompute { limits, options, footprint, selection } = *device;
            let mut in_turn = Planner::new(limits, options, selection).in_turn();
            let at_first = in_turn.plan(&graph, footprint).unwrap().report.total_bytes().min(total);
            let least = device.smallest(&graph).unwrap();
            assert_same(&before, &least.graph, &contents);
            let smallest = least.plan.report.total_bytes();
            assert_eq!(least.recomputed.bytes_saved, total - smallest);
            saved += usize::from(smallest < total);
            let near = [smallest + 1, smallest, smallest - 1, smallest - smallest / 50];
            for budget in [total, total - 1, (total + smallest) / 2].into_iter().chain(near) {
                match device.within(&graph, budget) {
                    Ok(Rewritten { graph: rewritten, plan, recomputed }) => {
                        assert!(smallest <= budget && plan.report.total_bytes() <= budget);
                        assert_eq!(recomputed.nodes == 0, at_first <= budget);
                        assert_same(&before, &rewritten, &contents);
                    }
                    Err(e) => {
                        assert_eq!(e, PlanError::Budget { budget, smallest });
                        assert!(budget < smallest);
                        refused += 1;
                    }
                }
            }
            let refusal = device.within(&graph, smallest - 1).unwrap_err();
            assert_eq!(refusal, PlanError::Budget { budget: smallest - 1, smallest });
            assert!(refusal.to_string().contains(&smallest.to_string()));
        });
    }
    assert!(saved > steps / 2, "{policy}: only {saved} of {steps} steps were brought down, {refused} refused");
}

/// x, silu x, silu silu x, ..; then the gradients in reverse.
fn deep(layers: usize) -> (Graph, ValueId) {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, SQUARE);
    let mut y = x;
    for at in 0..layers {
        y = g.node(format!("y{at}"), Op::Unary(Unary::Silu), vec![g.whole(y)]).unwrap();
    }
    let gradients = g.backward(y, &[x]).unwrap();
    g.keep(gradients.wrt[0]);
    (g, x)
}

#[test]
fn less_memory_takes_more_runs() {
    POLICIES.into_iter().for_each(check_deep);
}

fn check_deep(policy: Policy) {
    let (graph, _) = deep(32);
    with_device(policy, None, |device| {
        let total = plan(device, &graph).report.total_bytes();
        let smallest = device.smallest(&graph).unwrap();
        let least = smallest.plan.report.total_bytes();
        assert!(least < total / 2, "{least} of {total}");
        let mut nodes = smallest.recomputed.nodes;
        for budget in (least..total).step_by(512).skip(1) {
            let Rewritten { recomputed, graph: rewritten, plan } = device.within(&graph, budget).unwrap();
            assert!(recomputed.nodes <= nodes && recomputed.nodes > 0, "{} nodes in {budget}", recomputed.nodes);
            assert_eq!(rewritten.nodes.len(), graph.nodes.len() + recomputed.nodes);
            assert_eq!(recomputed.flops, recomputed.nodes as u64 * 4 * u64::from(SIDE * SIDE));
            assert!(plan.report.total_bytes() <= budget && recomputed.simulated_ms.is_none());
            nodes = recomputed.nodes;
        }
    });
}

/// A value whose operand is changed between its first run and its next use is kept.
#[test]
fn what_has_changed_is_not_read_again() {
    let step = |policy: Policy, changed: bool| {
        let mut g = Graph::new();
        let [x, w] = ["x", "w"].map(|name| g.external(name, DType::F32, SQUARE));
        let early = g.node("early", Op::Unary(Unary::Tanh), vec![g.whole(w)]).unwrap();
        let operands = vec![g.whole(w), g.whole(x)];
        if changed {
            g.node_into("change", Op::Binary(Binary::Add), operands, w);
        }
        // Three at once between the two uses of `early`.
        let parts = ["p", "q"].map(|name| g.node(name, Op::Unary(Unary::Silu), vec![g.whole(x)]).unwrap());
        let both = g.node("both", Op::MulMat, parts.map(|id| g.whole(id)).into()).unwrap();
        let end = g.node("end", Op::MulMat, vec![g.whole(early), g.whole(both)]).unwrap();
        g.keep(end);
        g.verify().unwrap();
        let again = with_device(policy, None, |device| device.smallest(&g).unwrap()).graph;
        again.nodes.iter().filter(|node| node.name == "early again").count()
    };
    for policy in POLICIES {
        assert_eq!((step(policy, false), step(policy, true)), (1, 0), "{policy}");
    }
}

/// The names of second runs tell what they are, and ids of the graph stay what they were.
#[test]
fn values_keep_their_ids() {
    POLICIES.into_iter().for_each(check_ids);
}

fn check_ids(policy: Policy) {
    // More than one dispatch holds, however nodes are fused.
    let (graph, x) = deep(32);
    let rewritten = with_device(policy, None, |device| device.smallest(&graph).unwrap()).graph;
    assert_eq!(rewritten.values[..graph.values.len()], graph.values[..]);
    assert_eq!(rewritten.kept, graph.kept);
    assert_eq!(rewritten.values[x.index()].name, "x");
    let runs: HashMap<&str, usize> = rewritten.nodes.iter().fold(HashMap::new(), |mut runs, node| {
        *runs.entry(node.name.trim_end_matches(" again")).or_default() += 1;
        runs
    });
    assert!(
        runs.values().any(|&n| n > 1)
            && runs.len() == graph.nodes.iter().map(|n| &n.name).collect::<std::collections::HashSet<_>>().len()
    );
}
