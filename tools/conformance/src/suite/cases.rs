//! The cases of a suite: in its order, cut to shards, and to pieces that one process runs.

use std::collections::{HashMap, HashSet};

use super::parse::Reader;
use crate::report::{Verdict, op};
use crate::shard::Shard;

/// Names of cases in the order in which the suite runs them; a name may come again.
pub struct Listing {
    names: Vec<String>,
    set: HashSet<String>,
}

impl Listing {
    /// The cases in what a program printed.
    pub fn parse(text: &str, mut reader: Reader) -> Self {
        Self::new(text.lines().filter_map(|line| reader.verdict(line)).map(|(name, _)| name).collect())
    }

    fn new(names: Vec<String>) -> Self {
        let set = names.iter().cloned().collect();
        Self { names, set }
    }

    /// The cases of some ops (of all where none is named) in a shard. A name belongs to one shard, however often it comes.
    ///
    /// # Errors
    /// An op without cases.
    pub fn select(self, ops: &[String], shard: Shard) -> Result<Self, String> {
        let known: HashSet<&str> = self.names.iter().map(|name| op(name)).collect();
        if let Some(unknown) = ops.iter().find(|name| !known.contains(name.as_str())) {
            return Err(format!("the suite has no cases of op '{unknown}'"));
        }
        let mut places = HashMap::new();
        for name in &self.names {
            let place = places.len();
            places.entry(name.clone()).or_insert(place);
        }
        let wanted = |name: &String| ops.is_empty() || ops.iter().any(|wanted| wanted == op(name));
        let ours = |name: &String| shard.has(places[name]);
        Ok(Self::new(self.names.into_iter().filter(|name| wanted(name) && ours(name)).collect()))
    }

    /// Number of different cases.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// The different cases, in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.set.iter().map(String::as_str)
    }

    /// Whether a case is among them.
    pub fn has(&self, name: &str) -> bool {
        self.set.contains(name)
    }

    /// The cases without verdict, in pieces of one op each. Ops with few of them come first: a run that is cut short has seen most ops.
    pub fn pieces(&self, done: impl Fn(&str) -> bool, most: usize) -> Vec<Piece> {
        let mut by_op: Vec<(&str, Vec<&String>)> = Vec::new();
        let mut places = HashMap::new();
        for name in self.names.iter().filter(|name| !done(name)) {
            let place = *places.entry(op(name)).or_insert_with(|| {
                by_op.push((op(name), Vec::new()));
                by_op.len() - 1
            });
            by_op[place].1.push(name);
        }
        by_op.sort_by_key(|(_, names)| names.len());
        by_op.iter().flat_map(|(_, names)| pieces(names, most)).collect()
    }
}

/// Cases of an op for one process, in the suite's order, with repetitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece(pub Vec<String>);

/// Bytes of names that a process takes: what Linux allows for one argument is 128 KiB.
const ARGUMENT_BYTES: usize = 96 << 10;

/// All cases of a name are in one piece, so that a piece can be named by its names.
fn pieces(names: &[&String], most: usize) -> Vec<Piece> {
    let mut order: Vec<&String> = Vec::new();
    let mut seen = HashSet::new();
    order.extend(names.iter().filter(|name| seen.insert(**name)));
    let mut groups: Vec<HashSet<&String>> = vec![HashSet::new()];
    let mut bytes = 0;
    for name in order {
        let last = groups.last_mut().expect("there is a group from the start");
        if last.len() == most || bytes + name.len() + 1 > ARGUMENT_BYTES {
            groups.push(HashSet::from([name]));
            bytes = name.len() + 1;
        } else {
            last.insert(name);
            bytes += name.len() + 1;
        }
    }
    let piece = |group: &HashSet<&String>| names.iter().filter(|n| group.contains(**n)).map(|n| (*n).clone()).collect();
    groups.iter().map(|group| Piece(piece(group))).collect()
}

impl Piece {
    /// The filter that names these cases and no others.
    pub fn filter(&self) -> String {
        let mut seen = HashSet::new();
        let names: Vec<&str> = self.0.iter().map(String::as_str).filter(|name| seen.insert(*name)).collect();
        names.join(",")
    }

    /// The case that runs after these verdicts.
    pub fn next<'a>(&'a self, verdicts: &[(String, Verdict)]) -> Option<&'a str> {
        let mut counts = HashMap::<&str, usize>::new();
        verdicts.iter().for_each(|(name, _)| *counts.entry(name).or_default() += 1);
        let ran = |name: &&String| match counts.get_mut(name.as_str()) {
            Some(n @ 1..) => {
                *n -= 1;
                true
            }
            _ => false,
        };
        self.0.iter().skip_while(ran).map(String::as_str).next()
    }

    /// The cases left when these have their verdicts.
    pub fn without(&self, done: impl Fn(&str) -> bool) -> Option<Self> {
        let left: Vec<String> = self.0.iter().filter(|name| !done(name)).cloned().collect();
        (!left.is_empty()).then_some(Self(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn listing(names: &[&str]) -> Listing {
        Listing::new(names.iter().map(|&n| n.to_owned()).collect())
    }

    #[test]
    fn shards_part_the_cases() {
        let names = ["ADD(1)", "ADD(2)", "ADD(1)", "SUM(1)", "SUM(2)", "SUM(3)"];
        let mut all = Vec::new();
        for index in 1..=3 {
            let shard = format!("{index}/3").parse().unwrap();
            let part = listing(&names).select(&[], shard).unwrap();
            all.extend(part.names);
        }
        all.sort();
        let mut expected = names.map(str::to_owned).to_vec();
        expected.sort();
        assert_eq!(all, expected);
        // A shard is the same whichever ops are asked for.
        let shard: Shard = "2/3".parse().unwrap();
        assert_eq!(listing(&names).select(&["SUM".into()], shard).unwrap().names, ["SUM(3)"]);
        assert!(listing(&names).select(&["MUL".into()], shard).is_err());
    }

    #[test]
    fn pieces_are_of_one_op_and_keep_a_name_together() {
        let listing = listing(&["ADD(1)", "SUM(1)", "SUM(2)", "SUM(1)", "SUM(3)", "ADD(2)"]);
        let pieces = listing.pieces(|name| name == "ADD(2)", 2);
        let names: Vec<Vec<String>> = pieces.into_iter().map(|piece| piece.0).collect();
        assert_eq!(names, [vec!["ADD(1)"], vec!["SUM(1)", "SUM(2)", "SUM(1)"], vec!["SUM(3)"]]);
    }

    #[test]
    fn a_piece_fits_an_argument() {
        let names: Vec<String> = (0..100).map(|i| format!("ADD({i}{})", "x".repeat(4000))).collect();
        let pieces = Listing::new(names).pieces(|_| false, 1000);
        assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.filter().len() <= ARGUMENT_BYTES));
    }

    #[test]
    fn the_next_case_counts_repetitions() {
        let piece = Piece(["A(1)", "A(2)", "A(1)", "A(3)"].map(str::to_owned).to_vec());
        let verdict = |name: &str| (name.to_owned(), Verdict::new(Outcome::Passed, ""));
        assert_eq!(piece.filter(), "A(1),A(2),A(3)");
        assert_eq!(piece.next(&[]), Some("A(1)"));
        assert_eq!(piece.next(&[verdict("A(1)"), verdict("A(2)")]), Some("A(1)"));
        assert_eq!(piece.next(&[verdict("A(1)"), verdict("A(2)"), verdict("A(1)")]), Some("A(3)"));
        assert_eq!(piece.without(|name| name != "A(3)"), Some(Piece(vec!["A(3)".into()])));
        assert_eq!(piece.without(|_| true), None);
    }

    #[test]
    fn a_listing_is_read_as_verdicts_are() {
        let text =
            "  ADD(1): \u{1b}[1;32mOK\u{1b}[0m\n  ADD(1): not supported [X]\n  ADD(2): not supported [out->type]\n";
        assert_eq!(Listing::parse(text, Reader::of_gradients()).names, ["ADD(1)", "ADD(2)"]);
    }
}
