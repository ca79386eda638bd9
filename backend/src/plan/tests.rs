//! What a plan does with the copies and views of a host, and where it sets barriers.

mod candidates;
mod commute;
mod cost;
mod fusion;
mod in_place;
mod ladder;
mod narrow;
mod order;
mod pieces;
mod replan;
mod select;
mod windows;

use crate::device::Limits;
use crate::graph::{Binary, DType, Desc, Graph, Op, Operand, ValueId};
use crate::kernels::StorageKind;

use super::{
    Footprint, Objective, Plan, PlanError, PlanOptions, Policy, Size, StorageChoice, TransformKind, Verdict, plan,
};

/// Storages take their texels and nothing else.
pub(super) struct Exact;

impl Footprint for Exact {
    fn size(&self, _: StorageKind, width: u32, height: u32) -> Result<Size, String> {
        Ok(Size { bytes: u64::from(width) * u64::from(height) * super::TEXEL_BYTES, alignment: 16 })
    }

    fn block_bytes(&self) -> u64 {
        1 << 30
    }
}

fn planned(graph: &Graph) -> Plan {
    graph.verify().unwrap();
    plan(graph, &Limits::for_tests(), ONE_BY_ONE, &Exact).unwrap()
}

/// Every node by itself.
const ONE_BY_ONE: PlanOptions = PlanOptions {
    storage: StorageChoice::Auto,
    policy: Policy::RTileMaps,
    apart: false,
    unpruned: false,
    objective: Objective::TimeHarmonic,
};

fn copy(graph: &mut Graph, window: Operand) -> ValueId {
    graph.node_as("cont", Op::Copy, vec![window], Desc::f32(window.shape)).unwrap()
}

/// Reasons of the copies that were made.
fn explicit(plan: &Plan) -> Vec<&str> {
    plan.report
        .transforms
        .iter()
        .filter_map(|t| match &t.verdict {
            Verdict::Explicit(why) => Some(why.as_str()),
            Verdict::Eliminated => None,
        })
        .collect()
}

/// Heads split, permuted, made contiguous, multiplied, merged again: what every host writes around attention.
#[test]
fn the_copies_around_attention_become_coordinates() {
    let mut g = Graph::new();
    let (hd, heads, kv, t) = (64, 9, 3, 96);
    let x = g.external("x", DType::F32, [hd * heads, t, 1, 1]);
    let k = g.external("k", DType::F32, [hd * kv, t, 1, 1]);
    let q = g.whole(x).reshape([hd, heads, t, 1]).unwrap().permute([0, 2, 1, 3]).unwrap();
    let keys = g.whole(k).reshape([hd, kv, t, 1]).unwrap();
    let (q, k2) = (copy(&mut g, q), copy(&mut g, keys.permute([0, 2, 1, 3]).unwrap()));
    let v =
        copy(&mut g, keys.permute([2, 0, 1, 3]).unwrap().permute([0, 2, 1, 3]).unwrap().permute([0, 2, 1, 3]).unwrap());
    let operands = vec![g.whole(k2), g.whole(q)];
    let scores = g.node("scores", Op::MulMat, operands).unwrap();
    let p = g.node("p", Op::soft_max(0.125), vec![g.whole(scores)]).unwrap();
    let operands = vec![g.whole(v), g.whole(p)];
    let mixed = g.node("mixed", Op::MulMat, operands).unwrap();
    let heads_inside = g.whole(mixed).permute([0, 2, 1, 3]).unwrap();
    let merged = copy(&mut g, heads_inside);
    let rows = g.whole(merged).reshape([hd * heads, t, 1, 1]).unwrap();
    let w = g.external("w", DType::Q4_1, [hd * heads, 32, 1, 1]);
    let operands = vec![g.whole(w), rows];
    let y = g.node("y", Op::MulMat, operands).unwrap();
    g.keep(y);
    let plan = planned(&g);
    assert_eq!(explicit(&plan), Vec::<&str>::new());
    assert_eq!(plan.steps.iter().map(|s| s.shader).filter(|&s| s == "copy").count(), 0);
    assert!(plan.report.transforms.iter().filter(|t| t.kind == TransformKind::Copy).count() >= 4);
}

/// What each policy moves of a transposed copy that a product reads head by head.
#[test]
fn policies_differ_in_what_they_move() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [64, 96, 1, 1]);
    let window = g.whole(x).reshape([16, 4, 96, 1]).unwrap().permute([0, 2, 1, 3]).unwrap();
    let heads = copy(&mut g, window);
    let operands = vec![g.whole(heads), g.whole(x).reshape([16, 4, 96, 1]).unwrap().permute([0, 2, 1, 3]).unwrap()];
    let y = g.node("y", Op::MulMat, operands).unwrap();
    g.keep(y);
    let moved = |policy| {
        let options = PlanOptions { policy, ..PlanOptions::default() };
        let plan = plan(&g, &Limits::for_tests(), options, &Exact).unwrap();
        (explicit(&plan).len(), plan.steps.len())
    };
    assert_eq!(moved(Policy::RTileMaps), (0, 1));
    assert_eq!(moved(Policy::RTile), (1, 2));
    assert_eq!(moved(Policy::HonestRowmajor), (1, 2));
    assert_eq!(moved(Policy::LayoutReuse), (2, 3), "the product's second operand is copied too");
    assert_eq!(moved(Policy::ConvertAlways), (2, 3));
}

#[test]
fn a_copy_that_the_host_reads_is_made() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [8, 4, 1, 1]);
    let window = g.whole(x).transpose();
    let y = copy(&mut g, window);
    g.keep(y);
    let plan = planned(&g);
    assert_eq!(explicit(&plan), ["its result is read by the host"]);
    assert_eq!(plan.steps.len(), 1);
}

#[test]
fn a_copy_of_what_is_updated_later_is_made() {
    let mut g = Graph::new();
    let [w, grad, m, v] = ["w", "g", "m", "v"].map(|name| g.external(name, DType::F32, [8, 4, 1, 1]));
    let params = g.external("params", DType::F32, [7, 1, 1, 1]);
    let window = g.whole(w).transpose();
    let old = copy(&mut g, window);
    let operands = [w, grad, m, v, params].map(|id| g.whole(id)).to_vec();
    g.node_into("step", Op::AdamW, operands, w);
    let doubled = g.node("doubled", Op::Binary(Binary::Add), vec![g.whole(old), g.whole(old)]).unwrap();
    g.keep(doubled);
    assert_eq!(explicit(&planned(&g)), ["its source is updated in place"]);
}

#[test]
fn barriers_stand_only_between_conflicting_steps() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [8, 4, 1, 1]);
    let scaled = |g: &mut Graph, of| g.node("s", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(of)]).unwrap();
    let (a, b) = (scaled(&mut g, x), scaled(&mut g, x));
    let sum = g.node("sum", Op::Binary(Binary::Add), vec![g.whole(a), g.whole(b)]).unwrap();
    g.keep(sum);
    let barriers: Vec<bool> = planned(&g).steps.iter().map(|s| s.barrier).collect();
    assert_eq!(barriers, [false, false, true]);
}

#[test]
fn a_refusal_names_node_and_rule() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [1 << 21, 1 << 10, 1, 1]);
    let y = g.node("huge", Op::Scale { scale: 1.0, bias: 0.0 }, vec![g.whole(x)]).unwrap();
    g.keep(y);
    let error = plan(&g, &Limits::for_tests(), PlanOptions::default(), &Exact).unwrap_err();
    assert!(matches!(error, PlanError::Home { .. }));
    assert!(error.to_string().contains("limit"), "{error}");
}

/// The gradient of values in attention: a product whose axis 0 is the sequence, which then follows the heads.
#[test]
fn a_product_turns_its_lanes_for_its_reader() {
    let mut g = Graph::new();
    let (hd, kv, t, b) = (8, 2, 9, 3);
    let weights = g.external("weights", DType::F32, [t, t, kv, b]);
    let dy = g.external("dy", DType::F32, [hd, t, kv, b]);
    let operands = vec![g.whole(weights), g.whole(dy)];
    let dv = g.node("dv", Op::OutProd, operands).unwrap();
    let window = g.whole(dv).permute([1, 2, 0, 3]).unwrap();
    let merged = g.node_as("merged", Op::Copy, vec![window], Desc::f32([hd * kv, t * b, 1, 1])).unwrap();
    let w = g.external("w", DType::F32, [hd * kv, 16, 1, 1]);
    let operands = vec![g.whole(w), g.whole(merged)];
    let y = g.node("y", Op::MulMat, operands).unwrap();
    g.keep(y);
    let plan = planned(&g);
    assert_eq!(explicit(&plan), Vec::<&str>::new());
    assert_eq!(plan.steps.len(), 2);
}
