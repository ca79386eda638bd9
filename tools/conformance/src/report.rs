//! What came of a suite's cases, counted per op, and two such reports side by side.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

/// How a case ended; the later in this order, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Computed, and equal to the CPU's within the suite's bound.
    Passed,
    /// Not run by the suite's own choice, or because the CPU fails it too.
    Skipped,
    /// The device says that it does not run this.
    Unsupported,
    /// Wrong, or the process ended or hung.
    Failed,
}

/// How a case ended, and what was said about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// How it ended.
    pub outcome: Outcome,
    /// Why, in the suite's words; empty where there is nothing to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
}

impl Verdict {
    /// A verdict with its reason.
    pub fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        Self { outcome, detail: detail.into() }
    }
}

/// The verdicts on a backend.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// What was run: `test`, `grad`, `support` or `opt`.
    pub mode: String,
    /// Name of the device.
    pub backend: String,
    /// Verdicts by the name of the case: the op, and its parameters in parentheses.
    pub cases: BTreeMap<String, Verdict>,
}

/// Cases of one op, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: usize,
    pub skipped: usize,
    pub unsupported: usize,
    pub failed: usize,
}

impl Counts {
    fn add(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Skipped => self.skipped += 1,
            Outcome::Unsupported => self.unsupported += 1,
            Outcome::Failed => self.failed += 1,
        }
    }
}

/// The op of a case.
pub fn op(name: &str) -> &str {
    name.split('(').next().unwrap_or(name)
}

impl Report {
    /// An empty report.
    pub fn new(mode: impl Into<String>, backend: impl Into<String>) -> Self {
        Self { mode: mode.into(), backend: backend.into(), cases: BTreeMap::new() }
    }

    /// Reads what `write` wrote.
    ///
    /// # Errors
    /// A file that cannot be read or is no report.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).with_context(|| format!("cannot read '{}'", path.display()))?;
        serde_json::from_slice(&bytes).with_context(|| format!("'{}' is no report", path.display()))
    }

    /// Writes the report as JSON.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let bytes = serde_json::to_vec_pretty(self)?;
        std::fs::write(path, bytes).with_context(|| format!("cannot write '{}'", path.display()))
    }

    /// Adds a verdict; of two on the same case, the worse stays.
    pub fn add(&mut self, name: &str, verdict: Verdict) {
        match self.cases.get_mut(name) {
            Some(old) if old.outcome >= verdict.outcome => {}
            Some(old) => *old = verdict,
            None => {
                self.cases.insert(name.to_owned(), verdict);
            }
        }
    }

    /// The verdicts on some cases.
    pub fn of(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let cases = self.cases.iter().filter(|(name, _)| wanted(name));
        let cases = cases.map(|(name, verdict)| (name.clone(), verdict.clone())).collect();
        Self { mode: self.mode.clone(), backend: self.backend.clone(), cases }
    }

    /// Counts per op.
    pub fn ops(&self) -> BTreeMap<&str, Counts> {
        let mut ops = BTreeMap::<_, Counts>::new();
        for (name, verdict) in &self.cases {
            ops.entry(op(name)).or_default().add(verdict.outcome);
        }
        ops
    }

    /// Counts of all cases.
    pub fn total(&self) -> Counts {
        let mut counts = Counts::default();
        self.cases.values().for_each(|verdict| counts.add(verdict.outcome));
        counts
    }

    /// The cases that failed.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &str)> {
        let failed = self.cases.iter().filter(|(_, verdict)| verdict.outcome == Outcome::Failed);
        failed.map(|(name, verdict)| (name.as_str(), verdict.detail.as_str()))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| op ({} on {}) | passed | not supported | skipped | failed |", self.mode, self.backend)?;
        writeln!(f, "|---|---|---|---|---|")?;
        for (op, n) in self.ops() {
            writeln!(f, "| {op} | {} | {} | {} | {} |", n.passed, n.unsupported, n.skipped, n.failed)?;
        }
        for (name, detail) in self.failures() {
            writeln!(f, "failed: {name}: {detail}")?;
        }
        let n = self.total();
        writeln!(f, "{} passed, {} failed, {} skipped", n.passed, n.failed, n.unsupported + n.skipped)
    }
}

/// Counts per op of two reports: passed / not supported or skipped / failed.
pub fn side_by_side(ours: &Report, peer: &Report) -> String {
    let (left, right) = (ours.ops(), peer.ops());
    let mut text = format!("| op ({}) | {} | {} |\n|---|---|---|\n", ours.mode, ours.backend, peer.backend);
    for op in left.keys().chain(right.keys()).collect::<BTreeSet<_>>() {
        let cell = |counts: &BTreeMap<&str, Counts>| {
            let n = counts.get(op).copied().unwrap_or_default();
            format!("{} / {} / {}", n.passed, n.unsupported + n.skipped, n.failed)
        };
        text += &format!("| {op} | {} | {} |\n", cell(&left), cell(&right));
    }
    text
}

/// Cases that the peer passes and we do not.
pub fn missing<'a>(ours: &Report, peer: &'a Report) -> Vec<&'a str> {
    let passes = |report: &Report, name: &str| report.cases.get(name).is_some_and(|v| v.outcome == Outcome::Passed);
    peer.cases.keys().filter(|name| passes(peer, name) && !passes(ours, name)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(backend: &str, cases: &[(&str, Outcome)]) -> Report {
        let mut report = Report::new("test", backend);
        cases.iter().for_each(|&(name, outcome)| report.add(name, Verdict::new(outcome, "")));
        report
    }

    #[test]
    fn counts_each_case_once_by_its_worst_verdict() {
        let cases = [("ADD(a)", Outcome::Passed), ("ADD(a)", Outcome::Failed), ("ADD(a)", Outcome::Passed)];
        let report =
            report("X0", &[&cases[..], &[("ADD(b)", Outcome::Skipped), ("SUM()", Outcome::Unsupported)]].concat());
        assert_eq!(report.ops()["ADD"], Counts { failed: 1, skipped: 1, ..Counts::default() });
        let text = report.to_string();
        assert!(
            text.contains("| SUM | 0 | 1 | 0 | 0 |") && text.ends_with("0 passed, 1 failed, 2 skipped\n"),
            "{text}"
        );
    }

    #[test]
    fn lists_what_only_the_peer_passes() {
        let ours = report("A0", &[("ADD(a)", Outcome::Passed), ("ADD(b)", Outcome::Unsupported)]);
        let peer =
            report("B0", &[("ADD(a)", Outcome::Passed), ("ADD(b)", Outcome::Passed), ("SUM()", Outcome::Failed)]);
        assert_eq!(missing(&ours, &peer), ["ADD(b)"]);
        let text = side_by_side(&ours, &peer);
        assert!(
            text.contains("| ADD | 1 / 1 / 0 | 2 / 0 / 0 |") && text.contains("| SUM | 0 / 0 / 0 | 0 / 0 / 1 |"),
            "{text}"
        );
    }

    #[test]
    fn survives_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut written = report("A0", &[("ADD(a)", Outcome::Passed)]);
        written.add("ADD(b)", Verdict::new(Outcome::Failed, "ERR = 1"));
        written.write(file.path()).unwrap();
        assert_eq!(Report::read(file.path()).unwrap().cases, written.cases);
    }
}
