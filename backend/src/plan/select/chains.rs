//! Search along chains: the paper's greedy one, and the exact one by dynamic programming.
//!
//! A graph is covered by chains of coupled variables without other couplings among them. One chain is decided at a time while the
//! others keep their choice; where the whole problem is one chain, that is all of it.

use std::borrow::Cow;

use super::Tile;
use super::problem::{Problem, Solution, argmin, least};

/// Rounds over all chains; each stops early when nothing improves.
const ROUNDS: usize = 8;

/// The paper's search: on every chain, each candidate for all tensors, improved by single changes.
pub(super) fn paper_greedy(problem: &Problem) -> Solution {
    Solution::new(problem, greedy(problem, &Chain::cover(problem)))
}

fn greedy(problem: &Problem, chains: &[Chain<'_>]) -> Vec<usize> {
    let mut assignment = vec![0; problem.variables.len()];
    for chain in chains {
        let choice = chain.greedy(&chain.costs(&assignment));
        chain.apply(&choice, &mut assignment);
    }
    assignment
}

/// Exact on every chain: from the rule's choice and from the greedy search's, until no chain improves. So it is never worse than
/// either.
pub(super) fn chain_dp(problem: &Problem) -> Solution {
    let chains = Chain::cover(problem);
    let from = |start: Vec<usize>| {
        let mut assignment = start;
        let mut cost = problem.cost(&assignment);
        for _ in 0..ROUNDS {
            let mut next = assignment.clone();
            for chain in &chains {
                let choice = chain.best(&chain.costs(&next));
                chain.apply(&choice, &mut next);
            }
            let improved = problem.cost(&next);
            if improved >= cost {
                break;
            }
            (assignment, cost) = (next, improved);
        }
        (cost, assignment)
    };
    let (rule, greedy) = (from(vec![0; problem.variables.len()]), from(greedy(problem, &chains)));
    let best = if greedy.0 < rule.0 { greedy.1 } else { rule.1 };
    // Chains that touch nothing else are solved.
    match chains.iter().all(|chain| chain.outside.is_empty()) {
        true => Solution::optimal(problem, best),
        false => Solution::new(problem, best),
    }
}

/// Chains that hold every variable once. Members of a chain are coupled to their neighbours in it and to no other member.
pub(super) fn cover(problem: &Problem) -> Vec<Vec<usize>> {
    // The path that each variable is on.
    let mut on = vec![None; problem.variables.len()];
    let mut paths = Vec::new();
    for start in 0..on.len() {
        if on[start].is_some() {
            continue;
        }
        let number = Some(paths.len());
        on[start] = number;
        let mut path = vec![start];
        for _ in 0..2 {
            while let Some(next) = path.last().and_then(|&last| extension(problem, last, number, &on)) {
                on[next] = number;
                path.push(next);
            }
            path.reverse();
        }
        paths.push(path);
    }
    paths
}

/// The first free variable that may follow the last one of a path: it is coupled to no other member.
fn extension(problem: &Problem, last: usize, path: Option<usize>, on: &[Option<usize>]) -> Option<usize> {
    let alone = |v: usize| problem.neighbours(v).iter().all(|&other| other == last || on[other] != path);
    problem.neighbours(last).iter().copied().find(|&v| on[v].is_none() && alone(v))
}

/// Some variables one after the other.
struct Chain<'a> {
    problem: &'a Problem,
    path: Vec<usize>,
    /// Cost of the pairs of layouts of a member and the next one.
    links: Vec<Cow<'a, [f64]>>,
    /// Position of a member, a variable outside that it is coupled to, and what the pairs of their layouts cost.
    outside: Vec<(usize, usize, Cow<'a, [f64]>)>,
}

impl<'a> Chain<'a> {
    /// The chains of a cover.
    fn cover(problem: &'a Problem) -> Vec<Self> {
        cover(problem).into_iter().map(|path| Self::new(problem, path)).collect()
    }

    fn new(problem: &'a Problem, path: Vec<usize>) -> Self {
        let coupled = |a: usize, b: usize| problem.coupled(a, b).unwrap_or_default();
        let links = path.windows(2).map(|pair| coupled(pair[0], pair[1])).collect();
        let mut outside = Vec::new();
        for (at, &v) in path.iter().enumerate() {
            // Members are coupled to their neighbours in the chain alone.
            let beside = [at.checked_sub(1), Some(at + 1)].map(|beside| path.get(beside?));
            let others = problem.neighbours(v).iter().filter(|&other| !beside.contains(&Some(other)));
            outside.extend(others.map(|&other| (at, other, coupled(v, other))));
        }
        Self { problem, path, links, outside }
    }

    /// Cost of every layout of every member, with what it costs beside the variables outside, which are decided.
    fn costs(&self, assignment: &[usize]) -> Vec<Vec<f64>> {
        let mut costs: Vec<Vec<f64>> = self.path.iter().map(|&v| self.problem.variables[v].costs.clone()).collect();
        for &(at, other, ref pair) in &self.outside {
            let rows = pair.chunks(self.problem.size(other));
            costs[at].iter_mut().zip(rows).for_each(|(cost, row)| *cost += row[assignment[other]]);
        }
        costs
    }

    fn apply(&self, choice: &[usize], assignment: &mut [usize]) {
        self.path.iter().zip(choice).for_each(|(&v, &i)| assignment[v] = i);
    }

    fn link(&self, at: usize, i: usize, j: usize) -> f64 {
        self.links[at][i * self.problem.size(self.path[at + 1]) + j]
    }

    /// The part of the cost that depends on member `at`, if it takes layout `i`.
    fn around(&self, costs: &[Vec<f64>], choice: &[usize], at: usize, i: usize) -> f64 {
        let before = if at > 0 { self.link(at - 1, choice[at - 1], i) } else { 0.0 };
        let after = if at + 1 < choice.len() { self.link(at, i, choice[at + 1]) } else { 0.0 };
        costs[at][i] + before + after
    }

    fn cost(&self, costs: &[Vec<f64>], choice: &[usize]) -> f64 {
        let alone: f64 = costs.iter().zip(choice).map(|(costs, &i)| costs[i]).sum();
        alone + (0..self.links.len()).map(|at| self.link(at, choice[at], choice[at + 1])).sum::<f64>()
    }

    /// Every layout that any member proposes, in the order of proposals.
    fn proposals(&self) -> Vec<Tile> {
        let mut proposals = Vec::new();
        for tile in self.path.iter().flat_map(|&v| self.problem.variables[v].tiles.iter()) {
            if !proposals.contains(tile) {
                proposals.push(*tile);
            }
        }
        proposals
    }

    /// The paper's search: one layout wherever it exists and each tensor's own best elsewhere; then, large tensors first, every
    /// single change that pays for its conversions.
    fn greedy(&self, costs: &[Vec<f64>]) -> Vec<usize> {
        let variable = |at: usize| &self.problem.variables[self.path[at]];
        let mut order: Vec<usize> = (0..self.path.len()).collect();
        order.sort_by_key(|&at| (std::cmp::Reverse(variable(at).weight), at));
        let mut best = (f64::INFINITY, vec![0; self.path.len()]);
        for tile in self.proposals() {
            let own = |at: usize| argmin(costs[at].iter().copied());
            let uniform = |at: usize| variable(at).tiles.iter().position(|t| *t == tile).unwrap_or_else(|| own(at));
            let mut choice: Vec<usize> = (0..self.path.len()).map(uniform).collect();
            for &at in &order {
                for i in 0..costs[at].len() {
                    if self.around(costs, &choice, at, i) < self.around(costs, &choice, at, choice[at]) {
                        choice[at] = i;
                    }
                }
            }
            let cost = self.cost(costs, &choice);
            if cost < best.0 {
                best = (cost, choice);
            }
        }
        best.1
    }

    /// The best choice: the least cost of each prefix for each layout of its last member, then backwards.
    fn best(&self, costs: &[Vec<f64>]) -> Vec<usize> {
        let mut prefix = vec![costs[0].clone()];
        for at in 1..costs.len() {
            let reach = |j: usize| {
                let ways: Vec<f64> =
                    prefix[at - 1].iter().enumerate().map(|(i, c)| c + self.link(at - 1, i, j)).collect();
                least(&ways) + costs[at][j]
            };
            prefix.push((0..costs[at].len()).map(reach).collect());
        }
        let last = costs.len() - 1;
        let mut choice = vec![argmin(prefix[last].iter().copied())];
        for at in (0..last).rev() {
            let next = choice[choice.len() - 1];
            choice.push(argmin(prefix[at].iter().enumerate().map(|(i, cost)| cost + self.link(at, i, next))));
        }
        choice.reverse();
        choice
    }
}
