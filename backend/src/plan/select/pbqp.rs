//! The whole graph at once, as a partitioned boolean quadratic problem: variables with no, one or two partners are removed without loss
//! (R0, RI, RII); where none is left, one with most partners takes what looks best there (RN), and the result may not be the optimum.

use std::collections::BTreeMap;

use super::problem::{Problem, Solution, argmin, least, transposed};

/// Solves by reductions; the choice is known to be the best if none was a guess.
pub(super) fn pbqp(problem: &Problem) -> Solution {
    let mut reduction = Reduction::new(problem);
    let mut left: Vec<usize> = (0..problem.variables.len()).collect();
    while let Some(at) = (0..left.len()).min_by_key(|&at| (reduction.rank(left[at]), left[at])) {
        reduction.remove(left.remove(at));
    }
    let exact = !reduction.guessed;
    let assignment = reduction.resolve();
    if exact { Solution::optimal(problem, assignment) } else { Solution::new(problem, assignment) }
}

struct Reduction {
    costs: Vec<Vec<f64>>,
    /// Partners that are not removed yet, with the costs of pairs; held by both.
    partners: Vec<BTreeMap<usize, Vec<f64>>>,
    /// Removed variables with what they depended on, in order.
    removed: Vec<Removed>,
    guessed: bool,
}

/// A variable whose choice follows from those of its partners.
struct Removed {
    variable: usize,
    costs: Vec<f64>,
    partners: BTreeMap<usize, Vec<f64>>,
}

impl Reduction {
    fn new(problem: &Problem) -> Self {
        let mut partners = vec![BTreeMap::new(); problem.variables.len()];
        for ((a, b), pair) in problem.edges() {
            partners[a].insert(b, pair.to_vec());
            partners[b].insert(a, transposed(pair, problem.size(b)));
        }
        let costs = problem.variables.iter().map(|v| v.costs.clone()).collect();
        Self { costs, partners, removed: Vec::new(), guessed: false }
    }

    /// What goes first: few partners up to two, then most.
    fn rank(&self, variable: usize) -> usize {
        let n = self.partners[variable].len();
        if n <= 2 { n } else { usize::MAX - n }
    }

    fn remove(&mut self, variable: usize) {
        let partners = std::mem::take(&mut self.partners[variable]);
        for partner in partners.keys() {
            self.partners[*partner].remove(&variable);
        }
        if partners.len() > 2 {
            self.guess(variable, &partners);
        }
        let costs = self.costs[variable].clone();
        let around: Vec<(usize, &Vec<f64>)> = partners.iter().map(|(&partner, pair)| (partner, pair)).collect();
        match around[..] {
            [(y, pair)] => {
                let n = self.costs[y].len();
                for j in 0..n {
                    let ways: Vec<f64> = costs.iter().enumerate().map(|(i, cost)| cost + pair[i * n + j]).collect();
                    self.costs[y][j] += least(&ways);
                }
            }
            [(y, with_y), (z, with_z)] => {
                let (ny, nz) = (self.costs[y].len(), self.costs[z].len());
                let through = |j: usize, k: usize| {
                    let way = |(i, cost): (usize, &f64)| cost + with_y[i * ny + j] + with_z[i * nz + k];
                    costs.iter().enumerate().map(way).fold(f64::INFINITY, f64::min)
                };
                let pair: Vec<f64> =
                    (0..ny).flat_map(|j| (0..nz).map(move |k| (j, k))).map(|(j, k)| through(j, k)).collect();
                self.add(z, y, transposed(&pair, nz));
                self.add(y, z, pair);
            }
            _ => {}
        }
        self.removed.push(Removed { variable, costs, partners });
    }

    fn add(&mut self, from: usize, to: usize, pair: Vec<f64>) {
        let sum = self.partners[from].entry(to).or_insert_with(|| vec![0.0; pair.len()]);
        sum.iter_mut().zip(pair).for_each(|(sum, cost)| *sum += cost);
    }

    /// Fixes a variable to the layout that is best if every partner could answer it alone.
    fn guess(&mut self, variable: usize, partners: &BTreeMap<usize, Vec<f64>>) {
        self.guessed = true;
        let answer = |i: usize, (&y, pair): (&usize, &Vec<f64>)| {
            let n = self.costs[y].len();
            (0..n).map(|j| pair[i * n + j] + self.costs[y][j]).fold(f64::INFINITY, f64::min)
        };
        let total = |(i, cost): (usize, &f64)| cost + partners.iter().map(|partner| answer(i, partner)).sum::<f64>();
        let choice = argmin(self.costs[variable].iter().enumerate().map(total));
        for (&y, pair) in partners {
            let n = self.costs[y].len();
            let row = &pair[choice * n..][..n];
            self.costs[y].iter_mut().zip(row).for_each(|(cost, pair)| *cost += pair);
        }
        let keep = |(i, cost): (usize, &mut f64)| *cost = if i == choice { *cost } else { f64::INFINITY };
        self.costs[variable].iter_mut().enumerate().for_each(keep);
    }

    /// Choices in the reverse order of removal: the partners of each are decided by then.
    fn resolve(self) -> Vec<usize> {
        let mut assignment = vec![0; self.costs.len()];
        for Removed { variable, costs, partners } in self.removed.into_iter().rev() {
            let total = |(i, cost): (usize, &f64)| {
                let pair = |(&y, pair): (&usize, &Vec<f64>)| pair[i * (pair.len() / costs.len()) + assignment[y]];
                cost + partners.iter().map(pair).sum::<f64>()
            };
            assignment[variable] = argmin(costs.iter().enumerate().map(total));
        }
        assignment
    }
}
