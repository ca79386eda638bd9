//! Verdicts on disk as they come, so that a run that was cut off goes on where it was.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::report::{Report, Verdict};

/// A line of the file behind the first, which is the identity.
#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    #[serde(flatten)]
    verdict: Verdict,
}

/// The verdicts so far, and the file that keeps them.
pub struct State {
    file: File,
    report: Report,
}

impl State {
    /// Goes on with the file's verdicts if they are about the same programs, plugin and settings (`identity`), else starts anew. A
    /// line that was cut off is dropped.
    ///
    /// # Errors
    /// A file that cannot be read or written.
    pub fn open(path: &Path, identity: &str, mut report: Report) -> anyhow::Result<Self> {
        let name = || format!("the state '{}'", path.display());
        let text = match std::fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e).with_context(name),
        };
        let mut lines = text.lines();
        if lines.next() == Some(identity) {
            let verdicts = lines.map_while(|line| serde_json::from_str::<Line>(line).ok());
            verdicts.for_each(|line| report.add(&line.name, line.verdict));
        }
        let file = OpenOptions::new().create(true).write(true).truncate(true).open(path).with_context(name)?;
        let mut state = Self { file, report };
        let mut kept = format!("{identity}\n");
        for (name, verdict) in &state.report.cases {
            kept += &line(name, verdict)?;
        }
        state.file.write_all(kept.as_bytes()).with_context(name)?;
        Ok(state)
    }

    /// Keeps a verdict.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn record(&mut self, name: &str, verdict: Verdict) -> anyhow::Result<()> {
        self.file.write_all(line(name, &verdict)?.as_bytes()).context("writing the state")?;
        self.report.add(name, verdict);
        Ok(())
    }

    /// Whether a case has its verdict.
    pub fn has(&self, name: &str) -> bool {
        self.report.cases.contains_key(name)
    }

    /// The verdicts.
    pub fn report(&self) -> &Report {
        &self.report
    }
}

fn line(name: &str, verdict: &Verdict) -> anyhow::Result<String> {
    Ok(serde_json::to_string(&Line { name: name.to_owned(), verdict: verdict.clone() })? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Outcome;

    fn open(path: &Path, identity: &str) -> State {
        State::open(path, identity, Report::new("test", "X0")).unwrap()
    }

    #[test]
    fn goes_on_where_it_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut state = open(&path, "a");
        state.record("ADD(1)", Verdict::new(Outcome::Passed, "")).unwrap();
        state.record("ADD(2)", Verdict::new(Outcome::Failed, "ERR = \"1\"")).unwrap();
        drop(state);
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"name\":\"ADD(3)\",\"out").unwrap();

        let mut state = open(&path, "a");
        assert!(state.has("ADD(1)") && state.has("ADD(2)") && !state.has("ADD(3)"));
        state.record("ADD(3)", Verdict::new(Outcome::Skipped, "")).unwrap();
        drop(state);
        let state = open(&path, "a");
        assert_eq!(state.report().total().failed + state.report().total().skipped, 2);
        assert_eq!(state.report().cases["ADD(2)"].detail, "ERR = \"1\"");
        drop(state);
        assert!(!open(&path, "another plugin").has("ADD(1)"));
        assert!(!open(&path, "a").has("ADD(1)"), "verdicts on another plugin are gone");
    }
}
