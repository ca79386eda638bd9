//! The abstract problem: one layout for each tensor, so that the sum of costs is least. Plain data, no graph.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::Tile;

/// A tensor whose layout is free.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variable {
    /// Bytes of the tensor: large ones are looked at first by the paper's search.
    pub weight: u64,
    /// Layouts to choose from; the first is what the rule prescribes.
    pub tiles: Arc<[Tile]>,
    /// Cost of each, by the objective; infinite for a layout that is ruled out, never for all.
    pub costs: Vec<f64>,
}

/// Variables, and what pairs of them cost in addition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Problem {
    /// The tensors, in the order of the graph.
    pub variables: Vec<Variable>,
    /// For variables `a < b`, the cost of layouts `(i, j)` at `i * layouts of b + j`. Infinite where no plan exists.
    edges: BTreeMap<(usize, usize), Vec<f64>>,
    neighbours: Vec<Vec<usize>>,
}

impl Problem {
    /// Variables without pairs.
    pub fn new(variables: Vec<Variable>) -> Self {
        let neighbours = vec![Vec::new(); variables.len()];
        Self { variables, edges: BTreeMap::new(), neighbours }
    }

    /// Adds a cost of the pair of different variables `a` and `b`: that of layouts `(i, j)` is `costs[i * layouts of b + j]`.
    pub fn couple(&mut self, a: usize, b: usize, costs: Vec<f64>) {
        if a > b {
            return self.couple(b, a, transposed(&costs, self.size(b)));
        }
        if let Some(sum) = self.edges.get_mut(&(a, b)) {
            sum.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            return;
        }
        self.edges.insert((a, b), costs);
        for (one, other) in [(a, b), (b, a)] {
            let at = self.neighbours[one].partition_point(|&n| n < other);
            self.neighbours[one].insert(at, other);
        }
    }

    /// Number of layouts of a variable.
    pub fn size(&self, variable: usize) -> usize {
        self.variables[variable].costs.len()
    }

    /// Variables coupled to one, ascending.
    pub fn neighbours(&self, variable: usize) -> &[usize] {
        &self.neighbours[variable]
    }

    /// Coupled pairs `a < b` with their costs.
    pub fn edges(&self) -> impl Iterator<Item = ((usize, usize), &[f64])> {
        self.edges.iter().map(|(&pair, costs)| (pair, costs.as_slice()))
    }

    /// The costs of a pair, seen from `a`; nothing if it is not coupled.
    pub fn coupled(&self, a: usize, b: usize) -> Option<Cow<'_, [f64]>> {
        match a < b {
            true => self.edges.get(&(a, b)).map(|costs| costs.as_slice().into()),
            false => self.edges.get(&(b, a)).map(|costs| transposed(costs, self.size(a)).into()),
        }
    }

    /// The cost of a choice for every variable.
    pub fn cost(&self, assignment: &[usize]) -> f64 {
        let alone: f64 = self.variables.iter().zip(assignment).map(|(v, &i)| v.costs[i]).sum();
        let pair = |((a, b), costs): ((usize, usize), &[f64])| costs[assignment[a] * self.size(b) + assignment[b]];
        0.0 + alone + self.edges().map(pair).sum::<f64>()
    }

    /// No choice costs less: the least cost of every variable and of every pair.
    pub fn lower_bound(&self) -> f64 {
        let alone: f64 = self.variables.iter().map(|v| least(&v.costs)).sum();
        0.0 + alone + self.edges.values().map(|costs| least(costs)).sum::<f64>()
    }

    /// A bound at least as high: what all layouts of a partner add to a layout is moved to that layout first.
    pub fn tight_bound(&self) -> f64 {
        let mut costs: Vec<Vec<f64>> = self.variables.iter().map(|v| v.costs.clone()).collect();
        for ((a, b), pair) in self.edges() {
            let columns = self.size(b);
            let rows: Vec<f64> = pair.chunks(columns).map(least).collect();
            for j in 0..columns {
                let rest = pair.chunks(columns).zip(&rows).filter(|(_, least)| least.is_finite());
                costs[b][j] += rest.map(|(row, least)| row[j] - least).fold(f64::INFINITY, f64::min);
            }
            costs[a].iter_mut().zip(rows).for_each(|(cost, least)| *cost += least);
        }
        0.0 + costs.iter().map(|costs| least(costs)).sum::<f64>()
    }
}

/// A choice for every variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Solution {
    /// Number of the layout of each variable.
    pub assignment: Vec<usize>,
    /// What it costs.
    pub cost: f64,
    /// No choice costs less.
    pub lower_bound: f64,
}

impl Solution {
    /// A choice of which only the problem's own bound is known.
    pub fn new(problem: &Problem, assignment: Vec<usize>) -> Self {
        let cost = problem.cost(&assignment);
        // Sums of the same numbers in another order may differ in the last digit.
        Self { assignment, cost, lower_bound: problem.tight_bound().min(cost) }
    }

    /// A choice that is known to be the best.
    pub fn optimal(problem: &Problem, assignment: Vec<usize>) -> Self {
        let cost = problem.cost(&assignment);
        Self { assignment, cost, lower_bound: cost }
    }
}

/// The least of some costs.
pub(super) fn least(costs: &[f64]) -> f64 {
    costs.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The number of the least cost, the first of equals.
pub(super) fn argmin(costs: impl IntoIterator<Item = f64>) -> usize {
    let first = |best: (usize, f64), (i, cost): (usize, f64)| if cost < best.1 { (i, cost) } else { best };
    costs.into_iter().enumerate().fold((0, f64::INFINITY), first).0
}

/// A matrix of `columns` columns, transposed.
pub(super) fn transposed(costs: &[f64], columns: usize) -> Vec<f64> {
    (0..columns).flat_map(|j| costs.chunks(columns).map(move |row| row[j])).collect()
}
