//! Selected layouts in plans: what moves, what may not, and that it is for the better.

use super::Exact;
use crate::device::{Limits, Preset, Profile};
use crate::graph::{Binary, DType, Graph, Op, Unary};
use crate::plan::{
    Objective, Owner, Plan, PlanOptions, Policy, Selection, Selector, StorageChoice, plan, predict, select,
};

const OPTIONS: PlanOptions = PlanOptions {
    storage: StorageChoice::Buffer,
    policy: Policy::RTileMaps,
    apart: false,
    unpruned: false,
    objective: Objective::TimeHarmonic,
};

fn profile() -> &'static Profile {
    Preset::find("adreno-830").and_then(|preset| preset.profile.as_ref()).unwrap()
}

/// An activation that products read in both directions, layer after layer; the last sum is kept.
fn layers(count: usize) -> Graph {
    let mut g = Graph::new();
    let mut x = g.external("x", DType::F32, [256, 96, 1, 1]);
    for _ in 0..count {
        let (w, d) = (g.external("w", DType::F16, [256, 256, 1, 1]), g.external("d", DType::F32, [128, 96, 1, 1]));
        let activated = g.node("activated", Op::Unary(Unary::Silu), vec![g.whole(x)]).unwrap();
        let operands = vec![g.whole(w), g.whole(activated)];
        let y = g.node("y", Op::MulMat, operands).unwrap();
        let operands = vec![g.whole(activated), g.whole(d)];
        let gradient = g.node("gradient", Op::OutProd, operands).unwrap();
        g.keep(gradient);
        let operands = vec![g.whole(x), g.whole(y)];
        x = g.node("sum", Op::Binary(Binary::Add), operands).unwrap();
    }
    g.keep(x);
    g.verify().unwrap();
    g
}

fn selected(graph: &Graph, selector: Selector) -> Plan {
    select(graph, &Limits::for_tests(), OPTIONS, &Exact, profile(), selector).unwrap()
}

#[test]
fn the_rule_selects_the_plan_that_no_selector_makes() {
    let g = layers(3);
    assert_eq!(selected(&g, Selector::Rule), plan(&g, &Limits::for_tests(), OPTIONS, &Exact).unwrap());
}

#[test]
fn selectors_move_results_for_the_better_and_the_same_way_each_time() {
    let g = layers(3);
    let rule = selected(&g, Selector::Rule);
    let time = |plan: &Plan| predict(plan, &g, profile()).time_ms;
    for (name, selector) in Selector::ALL.into_iter().skip(1) {
        let plan = selected(&g, selector);
        assert_eq!(plan, selected(&g, selector), "{name}");
        assert!(time(&plan) < time(&rule), "{name}: {} ms and {} ms", time(&plan), time(&rule));
        // What exists outside, or is read by the host, stays in its prescribed home.
        let outside = |plan: &Plan| {
            let theirs = plan.slots.iter().filter(|slot| !matches!(slot.owner, Owner::Arena { .. }));
            theirs.map(|slot| (slot.owner, slot.home.clone())).collect::<Vec<_>>()
        };
        assert_eq!(outside(&plan), outside(&rule), "{name}");
        assert_eq!(plan.steps.iter().filter(|step| step.conversion).count(), 0, "{name}");
    }
}

/// The numbers of a selection are those of the problem that the selectors solve, and order as they must.
#[test]
fn a_selection_compares_the_selectors() {
    let g = layers(3);
    let of = |selector| Selection::of(&g, &Limits::for_tests(), OPTIONS, profile(), selector).unwrap();
    let selection = of(Selector::ChainDp);
    assert_eq!(selection.stand, "simulated");
    assert!(selection.dp <= selection.greedy && selection.dp < selection.rule, "{selection:?}");
    assert!(selection.lower_bound <= selection.pbqp.min(selection.dp), "{selection:?}");
    assert_eq!((selection.cost, selection.gap), (selection.dp, selection.dp - selection.lower_bound));
    assert_eq!(of(Selector::Pbqp).cost, selection.pbqp);
    // By the rule, the problem counts what a prediction counts, without the barriers.
    let rule = selected(&g, Selector::Rule);
    let barriers = rule.report.barriers as f64 * profile().barrier.mid;
    let predicted = predict(&rule, &g, profile()).time_ms / 1e3 - barriers;
    assert!((selection.rule - predicted).abs() < 1e-9 * predicted, "{} and {predicted}", selection.rule);
    let certificate = &selection.certificate;
    assert!(certificate.uniform_cost - selection.lower_bound <= certificate.rho + 1e-12, "{certificate:?}");
}

/// More layers of one kind: the same choices, no more kinds of clusters to price.
#[test]
fn layers_choose_alike() {
    let sizes = |count| {
        let g = layers(count);
        let plan = selected(&g, Selector::ChainDp);
        let homes = plan.slots.iter().filter(|slot| matches!(slot.owner, Owner::Arena { .. }));
        homes.map(|slot| slot.home.layout.clone()).collect::<std::collections::HashSet<_>>()
    };
    assert_eq!(sizes(3), sizes(6));
}

/// Strips of four use every line in both directions, which is all that the paper's mean asks for; time finds others faster.
#[test]
fn objectives_choose_by_what_they_count() {
    let g = layers(3);
    let of = |objective| {
        let options = PlanOptions { objective, ..OPTIONS };
        let plan = select(&g, &Limits::for_tests(), options, &Exact, profile(), Selector::ChainDp).unwrap();
        (predict(&plan, &g, profile()), plan)
    };
    let ((time, by_time), (paper, by_paper)) = (of(Objective::TimeHarmonic), of(Objective::PaperArithmetic));
    assert_eq!(by_time, selected(&g, Selector::ChainDp));
    assert_ne!(by_time, by_paper);
    assert!(time.time_ms < paper.time_ms && time.paper_efficiency < paper.paper_efficiency, "{time:?}\n{paper:?}");
}

/// The problem counts what a prediction of the plan counts; a pair of layouts as the plan that has both, which sums would not tell.
#[test]
fn the_papers_mean_is_counted_as_it_is_predicted() {
    let paper = PlanOptions { objective: Objective::PaperArithmetic, ..OPTIONS };
    let rows = PlanOptions { policy: Policy::HonestRowmajor, ..paper };
    for options in [rows, PlanOptions { storage: StorageChoice::Image, ..rows }] {
        let g = layers(3);
        let selection = Selection::of(&g, &Limits::for_tests(), options, profile(), Selector::ChainDp).unwrap();
        assert_eq!(selection.unit, "1 - mean efficiency");
        let missed = |selector| {
            let plan = select(&g, &Limits::for_tests(), options, &Exact, profile(), selector).unwrap();
            1.0 - predict(&plan, &g, profile()).paper_efficiency
        };
        let (rule, chosen) = (missed(Selector::Rule), missed(Selector::ChainDp));
        let equal = |counted: f64, predicted: f64| (counted - predicted).abs() < 1e-9;
        assert!(equal(selection.rule, rule) && equal(selection.dp, chosen), "{rule} and {chosen}: {selection:?}");
        assert!(chosen < rule && selection.pairs > 0, "{rule} and {chosen}: {selection:?}");
    }
}
