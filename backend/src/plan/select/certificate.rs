//! What can be proved of the best uniform layout, which takes one tile for every tensor that can have it.

use serde::Serialize;

use super::Tile;
use super::problem::{Problem, argmin, least};

/// Proofs about uniform layouts. Costs are simulated, by the objective of the selection.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Certificate {
    /// The best tile for all tensors that can have it (the others take their own best); nothing without tensors to choose for.
    pub uniform: Option<Tile>,
    /// What it costs.
    pub uniform_cost: f64,
    /// No choice is cheaper than it by more than this.
    pub rho: f64,
    /// The cheapest conversion between two tiles: least excess of a coupled pair over its best. Nothing where no pair has any.
    pub conversion_min: Option<f64>,
    /// Proved: no choice is cheaper than the uniform one.
    pub uniform_optimal: bool,
}

/// Relative size of differences that sums of floats may leave.
const ROUNDING: f64 = 1e-12;

impl Certificate {
    pub(super) fn of(problem: &Problem) -> Self {
        let mut tiles: Vec<Tile> = problem.variables.iter().flat_map(|v| v.tiles.iter().copied()).collect();
        tiles.sort_unstable();
        tiles.dedup();
        let bound = problem.lower_bound();
        let costs: Vec<f64> = tiles.iter().map(|tile| problem.cost(&uniform(problem, *tile))).collect();
        let uniform = tiles.get(argmin(costs.iter().copied())).copied();
        let uniform_cost = if costs.is_empty() { problem.cost(&[]) } else { least(&costs) };
        let rho = (uniform_cost - bound).max(0.0);
        let excess = problem.edges().flat_map(|(_, pair)| pair.iter().map(|cost| cost - least(pair)));
        let conversion = excess.filter(|&e| e > ROUNDING * bound.abs()).fold(f64::INFINITY, f64::min);
        let conversion_min = conversion.is_finite().then_some(conversion);
        let pays = conversion_min.is_some_and(|least| rho <= least) && conversions_separate(problem, uniform);
        let uniform_optimal = rho <= ROUNDING * bound.abs() || pays;
        Self { uniform, uniform_cost, rho, conversion_min, uniform_optimal }
    }
}

/// One tile wherever it exists.
fn uniform(problem: &Problem, tile: Tile) -> Vec<usize> {
    let choice = |v: &super::problem::Variable| {
        v.tiles.iter().position(|t| *t == tile).unwrap_or_else(|| argmin(v.costs.iter().copied()))
    };
    problem.variables.iter().map(choice).collect()
}

/// Whether a choice without conversions is a uniform one: every pair of different tiles costs more than a pair of equal ones, every
/// tensor can have the tile, and all are connected.
fn conversions_separate(problem: &Problem, tile: Option<Tile>) -> bool {
    let feasible = problem.variables.iter().all(|v| tile.is_some_and(|tile| v.tiles.contains(&tile)));
    let separate = problem.edges().all(|((a, b), pair)| {
        let (rows, columns) = (&problem.variables[a].tiles, &problem.variables[b].tiles);
        let free = |i: usize, j: usize| pair[i * columns.len() + j] == least(pair);
        (0..rows.len()).all(|i| (0..columns.len()).all(|j| free(i, j) == (rows[i] == columns[j])))
    });
    let mut reached = vec![false; problem.variables.len()];
    let mut open: Vec<usize> = (0..reached.len().min(1)).collect();
    while let Some(v) = open.pop() {
        if !std::mem::replace(&mut reached[v], true) {
            open.extend(problem.neighbours(v));
        }
    }
    feasible && separate && reached.into_iter().all(|r| r)
}
