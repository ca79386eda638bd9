//! test-backend-ops: its cases in pieces, each by a process of its own. A case that ends or hangs the process fails, and the rest goes on.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::cases::{Listing, Piece};
use super::parse::{Reader, device_line};
use super::process::{self, End};
use super::state::State;
use super::{Mode, Session, program};
use crate::report::{Outcome, Report, Verdict};

/// Cases whose reference is wrong: a device that computes what the op means fails them.
const WRONG_REFERENCES: &[(&str, &str)] = &[(
    "SUM(type=f32,ne=[33,256,1,1],permute=[1,0,2,3])",
    "ggml's CPU backend takes the elements of a row for neighbours, which they are not here",
)];

/// Runs of a gradient case that failed, on the CPU and on the device, to tell chance from fault.
const TRIES: usize = 40;

/// Time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(30);

/// Runs the cases that have no verdict yet. The verdicts on those that were asked for, and how many are left because the time was over.
///
/// # Errors
/// A device or an op that is not there; programs that do not start; a state that cannot be written.
pub fn run(session: &Session, state: &mut State) -> anyhow::Result<(Report, usize)> {
    check_device(session)?;
    let arguments = session.arguments;
    let text = list(session)?;
    let listing = Listing::parse(&text, reader(arguments.mode));
    let listing = listing.select(&arguments.op, arguments.shard).map_err(anyhow::Error::msg)?;
    if arguments.mode == Mode::Support {
        return Ok((answers(&text, session, &listing), 0));
    }
    let pieces = listing.pieces(|name| state.has(name), arguments.piece);
    let total = listing.len();
    eprintln!("conformance: {total} cases, {} processes to run", pieces.len());
    let done = listing.names().filter(|name| state.has(name)).count();
    let work = Work {
        session,
        queue: Mutex::new(pieces.into()),
        state: Mutex::new(state),
        progress: Mutex::new(Progress { total, done, failed: 0, told: Instant::now() }),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.jobs).map(|_| scope.spawn(|| work.until_done())).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let state = work.state.into_inner().expect("no worker panicked");
    let left = listing.names().filter(|name| !state.has(name)).count();
    Ok((state.report().of(|name| listing.has(name)), left))
}

/// What the workers share.
struct Work<'a> {
    session: &'a Session<'a>,
    queue: Mutex<VecDeque<Piece>>,
    state: Mutex<&'a mut State>,
    progress: Mutex<Progress>,
}

/// What is told from time to time.
struct Progress {
    total: usize,
    done: usize,
    failed: usize,
    told: Instant,
}

impl Progress {
    fn count(&mut self, outcome: Outcome) {
        self.done += 1;
        self.failed += usize::from(outcome == Outcome::Failed);
        if self.told.elapsed() >= PROGRESS {
            self.told = Instant::now();
            eprintln!("conformance: {} of {} cases, {} failed in this run", self.done, self.total, self.failed);
        }
    }
}

const LOCK: &str = "no worker panicked";

impl Work<'_> {
    fn until_done(&self) -> anyhow::Result<()> {
        loop {
            let Some(piece) = self.queue.lock().expect(LOCK).pop_front() else { return Ok(()) };
            if self.session.clock.stop.is_some_and(|stop| stop <= Instant::now()) {
                return Ok(());
            }
            self.run(piece)?;
        }
    }

    /// Runs a piece, again after each case that ends the process.
    fn run(&self, mut piece: Piece) -> anyhow::Result<()> {
        loop {
            let mut reader = reader(self.session.arguments.mode);
            let mut verdicts = Vec::new();
            let mut written = Ok(());
            let ran = process::run(
                &mut self.session.ops(&self.session.arguments.backend, &piece.filter()),
                self.session.clock,
                |line| {
                    if let Some((name, verdict)) = reader.verdict(line) {
                        verdicts.push((name.clone(), verdict.clone()));
                        written = std::mem::replace(&mut written, Ok(())).and_then(|()| self.record(&name, verdict));
                    }
                },
            )?;
            written?;
            if ran.end == End::Stopped {
                return Ok(());
            }
            let culprit = reader.open().or_else(|| piece.next(&verdicts)).map(str::to_owned);
            match (culprit, ran.trouble()) {
                (None, None) => return Ok(()),
                (Some(name), trouble) => {
                    let trouble = trouble.unwrap_or_else(|| "the program gave no verdict".to_owned());
                    self.record(&name, Verdict::new(Outcome::Failed, trouble))?;
                }
                // Every case has its verdict, but the process did not end well.
                (None, Some(trouble)) => {
                    let last = piece.0.last().context("a piece has cases")?;
                    self.record(last, Verdict::new(Outcome::Failed, format!("behind it, {trouble}")))?;
                }
            }
            match piece.without(|name| self.state.lock().expect(LOCK).has(name)) {
                Some(rest) => piece = rest,
                None => return Ok(()),
            }
        }
    }

    fn record(&self, name: &str, mut verdict: Verdict) -> anyhow::Result<()> {
        if verdict.outcome == Outcome::Failed {
            match self.excuse(name)? {
                Some(reason) => verdict = Verdict::new(Outcome::Skipped, format!("{reason}: {}", verdict.detail)),
                None => eprintln!("failed: {name}: {}", verdict.detail),
            }
        }
        let mut state = self.state.lock().expect(LOCK);
        if !state.has(name) {
            self.progress.lock().expect(LOCK).count(verdict.outcome);
        }
        state.record(name, verdict)
    }

    /// Why a failure says nothing about the device.
    fn excuse(&self, name: &str) -> anyhow::Result<Option<&'static str>> {
        if let Some((_, reason)) = WRONG_REFERENCES.iter().find(|(case, _)| *case == name) {
            return Ok(Some(reason));
        }
        if self.session.arguments.mode != Mode::Grad {
            return Ok(None);
        }
        if !self.passes("CPU", name)? {
            return Ok(Some("fails on the CPU too"));
        }
        // Differences of random values in F32 are out of the suite's bound now and then, on any device.
        let failures = |backend: &str| -> anyhow::Result<usize> {
            (0..TRIES).try_fold(0, |failed, _| Ok(failed + usize::from(!self.passes(backend, name)?)))
        };
        let (cpu, device) = (failures("CPU")?, failures(&self.session.arguments.backend)?);
        let by_chance = is_chance(cpu, device);
        if by_chance {
            eprintln!("by chance: {name}: {device} of {TRIES} runs fail, and {cpu} on the CPU");
        }
        Ok(by_chance.then_some("fails by chance, on the CPU no less often"))
    }

    fn passes(&self, backend: &str, name: &str) -> anyhow::Result<bool> {
        let mut reader = reader(self.session.arguments.mode);
        let mut passed = false;
        let ran = process::run(&mut self.session.ops(backend, name), self.session.clock, |line| {
            passed |= reader.verdict(line).is_some_and(|(_, verdict)| verdict.outcome == Outcome::Passed);
        })?;
        Ok(passed && ran.trouble().is_none())
    }
}

/// Whether a device that failed so many of [`TRIES`] runs may fail no more often than the CPU, which failed so many: three standard
/// deviations of a count of rare events are allowed.
fn is_chance(cpu: usize, device: usize) -> bool {
    device as f64 <= cpu as f64 + 3.0 * ((cpu + 1) as f64).sqrt()
}

impl Session<'_> {
    /// The program on a device, over the cases of a filter.
    fn ops(&self, backend: &str, filter: &str) -> Command {
        let mut command = program(&self.programs.ops());
        command.env("GGML_BACKEND_PATH", &self.plugin);
        command.args([self.arguments.mode.name(), "-b", backend, "-o", filter]);
        command
    }
}

fn reader(mode: Mode) -> Reader {
    if mode == Mode::Grad { Reader::of_gradients() } else { Reader::of_results() }
}

/// A run that names the cases of the mode. One process asks for all support; graphs of several ops are left out there.
fn list(session: &Session) -> anyhow::Result<String> {
    match session.arguments.mode {
        Mode::Support => output(&mut session.ops(&session.arguments.backend, ".")),
        mode => output(program(&session.programs.list()).args([mode.name(), "-b", "CPU"])),
    }
}

/// What the device said when it was asked for all of its support.
fn answers(text: &str, session: &Session, listing: &Listing) -> Report {
    let mut reader = reader(Mode::Support);
    let mut report = Report::new(Mode::Support.name(), &session.arguments.backend);
    let answers = text.lines().filter_map(|line| reader.verdict(line));
    answers.filter(|(name, _)| listing.has(name)).for_each(|(name, verdict)| report.add(&name, verdict));
    report
}

/// Asks for an op that no suite has.
fn check_device(session: &Session) -> anyhow::Result<()> {
    let text = output(&mut session.ops(&session.arguments.backend, "NO_SUCH_OP"))?;
    let devices: Vec<&str> = text.lines().filter_map(device_line).collect();
    let (wanted, plugin) = (&session.arguments.backend, &session.plugin);
    let found = devices.iter().any(|device| device == wanted);
    ensure!(found, "'{}' has no device {wanted}; there are {}", plugin.display(), devices.join(", "));
    Ok(())
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let name = command.get_program().display().to_string();
    let output = command.output().with_context(|| format!("{name} does not start"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{name} ended by {}: {}",
        output.status,
        errors.lines().last().unwrap_or_default()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_what_the_cpu_shows_too() {
        assert!(is_chance(0, 1) && is_chance(0, 3) && is_chance(6, 9) && is_chance(TRIES, TRIES));
        assert!(!is_chance(0, 4) && !is_chance(6, 15) && !is_chance(0, TRIES));
    }
}
