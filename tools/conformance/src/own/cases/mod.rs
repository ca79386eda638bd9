//! The cases, by what they are about.

mod attention;
mod elementwise;
mod graphs;
mod optimizers;
mod places;
mod products;
mod rows;
mod spatial;

use std::collections::HashSet;

use anyhow::{Result, ensure};

use super::kit::Kit;
use super::runner::Case;
use super::values::hash;

/// The types that weights have, by ggml's names.
const WEIGHTS: [&str; 18] = [
    "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K", "iq4_nl",
    "iq4_xs", "mxfp4", "tq1_0", "tq2_0",
];

/// A growing list of cases.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    /// Adds a case, of whose kind one in `every` is in the bounded part (0: none).
    fn add(&mut self, every: u64, name: String, build: impl for<'c> Fn(&Kit<'c>) + 'static) {
        let bounded = every > 0 && hash(&name).is_multiple_of(every);
        self.0.push(Case { name, bounded, build: Box::new(build) });
    }
}

/// All cases or the bounded part, and how many there are.
pub fn all(full: bool) -> Result<(Vec<Case>, usize)> {
    let mut cases = Cases::default();
    elementwise::add(&mut cases);
    places::add(&mut cases);
    products::add(&mut cases);
    rows::add(&mut cases);
    spatial::add(&mut cases);
    optimizers::add(&mut cases);
    attention::add(&mut cases);
    graphs::add(&mut cases);
    let Cases(mut cases) = cases;
    let mut names = HashSet::new();
    for case in &cases {
        ensure!(names.insert(case.name.clone()), "two cases are called {}", case.name);
    }
    let known = cases.len();
    cases.retain(|case| full || case.bounded);
    Ok((cases, known))
}

/// Extents as names have them.
fn dims(extents: &[usize]) -> String {
    extents.iter().map(usize::to_string).collect::<Vec<_>>().join("x")
}
