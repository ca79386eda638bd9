//! Properties of the solvers on random problems, against enumeration.

use proptest::prelude::*;

use super::chains::{chain_dp, cover, paper_greedy};
use super::pbqp::pbqp;
use super::problem::{Problem, Solution, Variable};
use super::{Certificate, Tile};

fn tile(number: usize) -> Tile {
    Tile { row_axis: 1 + number / 4, strip: 1 + (number % 4) as u32 }
}

fn variable(weight: u64, costs: Vec<f64>) -> Variable {
    Variable { weight, tiles: (0..costs.len()).map(tile).collect(), costs }
}

/// A chain of ops, with a conversion wherever tiles differ.
fn chain(ops: Vec<(u64, Vec<f64>)>, conversions: &[f64]) -> Problem {
    let variables: Vec<Variable> = ops.into_iter().map(|(weight, costs)| variable(weight, costs)).collect();
    let sizes: Vec<usize> = variables.iter().map(|v| v.costs.len()).collect();
    let mut problem = Problem::new(variables);
    for (at, pair) in sizes.windows(2).enumerate() {
        let cells = (0..pair[0]).flat_map(|i| (0..pair[1]).map(move |j| i == j));
        problem.couple(at, at + 1, cells.map(|same| if same { 0.0 } else { conversions[at] }).collect());
    }
    problem
}

/// The least cost of any choice.
fn exhaustive(problem: &Problem) -> f64 {
    let sizes: Vec<usize> = (0..problem.variables.len()).map(|v| problem.size(v)).collect();
    let choice = |number: usize| {
        let digit = |rest: &mut usize, &n: &usize| {
            let digit = *rest % n;
            *rest /= n;
            Some(digit)
        };
        sizes.iter().scan(number, digit).collect::<Vec<usize>>()
    };
    (0..sizes.iter().product()).map(|number| problem.cost(&choice(number))).fold(f64::INFINITY, f64::min)
}

fn gap(solution: &Solution) -> f64 {
    solution.cost - solution.lower_bound
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs())
}

/// Three ops that prefer one tile, three that prefer another, and a conversion that pays once: single changes cannot find it.
#[test]
fn greedy_search_misses_a_block_move() {
    let costs = |at: usize| if at < 3 { vec![1.0, 1.5] } else { vec![1.5, 1.0] };
    let problem = chain((0..6).map(|at| (1, costs(at))).collect(), &[0.7; 5]);
    let (greedy, dp, reduced) = (paper_greedy(&problem), chain_dp(&problem), pbqp(&problem));
    assert!(
        close(greedy.cost, 7.5) && close(dp.cost, 6.7) && close(reduced.cost, 6.7),
        "{greedy:?} {dp:?} {reduced:?}"
    );
    assert_eq!(dp.assignment, [0, 0, 0, 1, 1, 1]);
    assert!(close(greedy.lower_bound, 6.0) && gap(&dp) == 0.0 && gap(&reduced) == 0.0);
    let certificate = Certificate::of(&problem);
    assert!(close(certificate.rho, 1.5) && !certificate.uniform_optimal);
    assert!(close(certificate.conversion_min.unwrap(), 0.7));
}

#[test]
fn a_problem_without_tensors_costs_nothing() {
    let problem = Problem::default();
    for solution in [paper_greedy(&problem), chain_dp(&problem), pbqp(&problem)] {
        assert_eq!((solution.cost, gap(&solution)), (0.0, 0.0));
    }
    assert_eq!(Certificate::of(&problem).uniform, None);
}

fn chains(longest: usize) -> impl Strategy<Value = Problem> {
    let op = |k| (0u64..100, prop::collection::vec(0.1..2.0f64, k));
    let chain_of = move |k| (prop::collection::vec(op(k), 1..=longest), prop::collection::vec(0.01..1.5f64, longest));
    (2usize..5).prop_flat_map(chain_of).prop_map(|(ops, conversions)| chain(ops, &conversions))
}

/// Variables of different sizes, coupled at random; some pairs are impossible, none with the first layout.
fn graphs(most: usize, density: u32) -> impl Strategy<Value = Problem> {
    let costs = prop::collection::vec(prop::collection::vec(-1.0..2.0f64, 1..4), 1..=most);
    (costs, any::<u64>()).prop_map(move |(costs, seed)| {
        let mut state = seed | 1;
        let mut random = move |n: u32| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32 % n
        };
        let mut problem = Problem::new(costs.into_iter().map(|costs| variable(1, costs)).collect());
        let n = problem.variables.len();
        for (a, b) in (0..n).flat_map(|a| (0..a).map(move |b| (a, b))) {
            if random(100) < density {
                let columns = problem.size(b);
                let cell =
                    |at: usize, random: &mut dyn FnMut(u32) -> u32| match at < columns || at.is_multiple_of(columns) {
                        false if random(10) == 0 => f64::INFINITY,
                        _ => f64::from(random(2000)) / 1000.0 - 0.5,
                    };
                let cells = (0..problem.size(a) * columns).map(|at| cell(at, &mut random)).collect();
                problem.couple(a, b, cells);
            }
        }
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// P1, and the certificates: no choice beats a uniform one by more than rho, none at all where that is proved.
    #[test]
    fn exact_is_at_most_greedy_is_at_most_uniform(problem in chains(24)) {
        let (dp, greedy, certificate) = (chain_dp(&problem), paper_greedy(&problem), Certificate::of(&problem));
        prop_assert_eq!(cover(&problem).len(), 1);
        prop_assert!(dp.cost <= greedy.cost + 1e-9 && greedy.cost <= certificate.uniform_cost + 1e-9);
        prop_assert!(certificate.uniform_cost - dp.cost <= certificate.rho + 1e-9);
        prop_assert!(!certificate.uniform_optimal || close(certificate.uniform_cost, dp.cost));
        prop_assert!(greedy.lower_bound <= dp.cost + 1e-9 && gap(&dp) == 0.0);
    }

    /// Where conversions cost much more than ops gain, one layout for all is proved to be best.
    #[test]
    fn dear_conversions_prove_uniform_layouts(problem in chains(6), dear in 15.0..20.0f64) {
        let ops = problem.variables.iter().map(|v| (v.weight, v.costs.clone())).collect();
        let certificate = Certificate::of(&chain(ops, &[dear; 5]));
        prop_assert!(certificate.uniform_optimal || problem.variables.len() == 1, "{certificate:?}");
    }

    /// P2.
    #[test]
    fn exact_on_chains_is_what_enumeration_finds(problem in chains(8)) {
        let least = exhaustive(&problem);
        prop_assert!(close(chain_dp(&problem).cost, least) && close(pbqp(&problem).cost, least));
    }

    /// P2 over graphs: reductions without a guess are exact; bounds hold always; chains never lose to the greedy search or to the rule.
    #[test]
    fn bounds_hold_on_graphs(problem in graphs(7, 60)) {
        let least = exhaustive(&problem);
        prop_assert!(problem.lower_bound() <= problem.tight_bound() + 1e-9 && problem.tight_bound() <= least + 1e-9);
        let (greedy, dp, reduced) = (paper_greedy(&problem), chain_dp(&problem), pbqp(&problem));
        let rule = problem.cost(&vec![0; problem.variables.len()]);
        prop_assert!(dp.cost <= greedy.cost && dp.cost <= rule);
        for solution in [&greedy, &dp, &reduced] {
            prop_assert!(solution.cost >= least - 1e-9 && solution.lower_bound <= least + 1e-9 && gap(solution) >= 0.0);
            prop_assert!(close(solution.cost, problem.cost(&solution.assignment)));
        }
        let few = (0..problem.variables.len()).all(|v| problem.neighbours(v).len() <= 2);
        prop_assert!(!few || close(reduced.cost, least) && gap(&reduced) == 0.0);
    }

    /// P5, and every variable in one chain.
    #[test]
    fn solvers_are_deterministic(problem in graphs(30, 10)) {
        prop_assert_eq!(pbqp(&problem), pbqp(&problem.clone()));
        prop_assert_eq!(chain_dp(&problem), chain_dp(&problem.clone()));
        let mut members: Vec<usize> = cover(&problem).concat();
        members.sort_unstable();
        prop_assert_eq!(members, (0..problem.variables.len()).collect::<Vec<_>>());
    }
}
