//! test-opt: ggml's optimizers on every device, of which one counts.

use std::collections::HashMap;

use anyhow::{Context, ensure};

use super::parse::{Reader, device_line};
use super::state::State;
use super::{Session, process, program};
use crate::report::{Outcome, Report, Verdict};

/// Runs the program, unless it has run. The verdicts, and how many cases are left because the time was over.
///
/// The program hands its devices to ggml in the order in which they are registered, and ggml takes no CPU before the last place. A plugin
/// named by GGML_BACKEND_PATH comes behind the CPU, one that lies in the working folder under the name of a known GPU backend before it.
///
/// # Errors
/// A program that does not start, or knows no such device; a state that cannot be written.
pub fn run(session: &Session, state: &mut State) -> anyhow::Result<(Report, usize)> {
    if state.has(END) {
        return Ok((state.report().of(|_| true), 0));
    }
    let folder = tempfile::tempdir()?;
    std::os::unix::fs::symlink(&session.plugin, folder.path().join("libggml-vulkan.so"))
        .context("placing the plugin")?;
    let mut section = Section::default();
    let mut found = Vec::new();
    let ran = process::run(program(&session.programs.opt()).current_dir(folder.path()), session.clock, |line| {
        found.extend(section.verdict(line, &session.arguments.backend));
    })?;
    if ran.end == process::End::Stopped {
        return Ok((state.report().of(|_| true), 1));
    }
    let wanted = &session.arguments.backend;
    ensure!(section.runs.contains_key(wanted), "the program knows no device {wanted}: {}", ran.errors.join("; "));
    for (name, verdict) in &found {
        state.record(name, verdict.clone())?;
    }
    let end = match ran.trouble() {
        None => Verdict::new(Outcome::Passed, ""),
        Some(trouble) => {
            let last = found.last().map_or("the start", |(name, _)| name);
            Verdict::new(Outcome::Failed, format!("after {last}, {trouble}"))
        }
    };
    state.record(END, end)?;
    Ok((state.report().of(|_| true), 0))
}

/// The case of reaching the program's end.
const END: &str = "end()";

/// The device that lines are about, and how often its turn came: the optimizers come one after the other.
#[derive(Default)]
struct Section {
    device: String,
    runs: HashMap<String, usize>,
}

impl Section {
    fn verdict(&mut self, line: &str, wanted: &str) -> Option<(String, Verdict)> {
        if let Some(device) = device_line(line) {
            self.device = device.to_owned();
            *self.runs.entry(device.to_owned()).or_default() += 1;
        }
        let (name, verdict) = Reader::of_results().verdict(line)?;
        let optimizer = ["adamw", "sgd"].get(self.runs.get(wanted)? - 1)?;
        (self.device == wanted).then(|| (name.replacen('(', &format!("(optimizer={optimizer}, "), 1), verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_wanted_device_counts() {
        let text = "Backend 1/2: X0\n  test_grad(a=1): OK\nBackend 2/2: CPU\n  test_grad(a=1): FAIL\n\
                    Backend 1/2: X0\n  test_grad(a=1): FAIL\nBackend 2/2: CPU\n  test_grad(a=1): OK\n";
        let mut section = Section::default();
        let found: Vec<_> = text.lines().filter_map(|line| section.verdict(line, "X0")).collect();
        let names: Vec<_> = found.iter().map(|(name, verdict)| (name.as_str(), verdict.outcome)).collect();
        let expected =
            [("test_grad(optimizer=adamw, a=1)", Outcome::Passed), ("test_grad(optimizer=sgd, a=1)", Outcome::Failed)];
        assert_eq!(names, expected);
    }
}
