//! One process of the suite: its lines as they come, watched by the clock.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

/// How a process ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// By itself or by a signal.
    Exited(ExitStatus),
    /// It printed nothing for too long and was killed.
    Silent,
    /// The time for all of them was over and it was killed.
    Stopped,
}

/// A process that ended.
pub struct Ran {
    /// How.
    pub end: End,
    /// The last lines of its error output.
    pub errors: Vec<String>,
}

/// How long a process may take.
#[derive(Clone, Copy)]
pub struct Clock {
    /// Without a line.
    pub patience: Duration,
    /// At all.
    pub stop: Option<Instant>,
}

/// Lines of error output that are kept.
const ERRORS: usize = 24;

/// Runs a command to its end, giving its lines away as they come.
///
/// # Errors
/// A command that does not start.
pub fn run(command: &mut Command, clock: Clock, mut line: impl FnMut(&str)) -> anyhow::Result<Ran> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{} does not start", command.get_program().display()))?;
    let (sender, lines) = channel();
    let (output, errors) = (child.stdout.take().expect("it is piped"), child.stderr.take().expect("it is piped"));
    let reader = thread::spawn(move || each_line(output, |line| drop(sender.send(line))));
    let keeper = thread::spawn(move || {
        let mut last = VecDeque::new();
        each_line(errors, |line| {
            last.truncate(ERRORS - 1);
            last.push_front(line);
        });
        last.into_iter().rev().collect()
    });
    let killed = loop {
        let left = clock.stop.map(|stop| stop.saturating_duration_since(Instant::now()));
        match lines.recv_timeout(left.unwrap_or(clock.patience).min(clock.patience)) {
            Ok(text) => line(&text),
            Err(RecvTimeoutError::Disconnected) => break None,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                break Some(if left.is_some_and(|left| left < clock.patience) { End::Stopped } else { End::Silent });
            }
        }
    };
    let status = child.wait()?;
    let joined = "the thread reads until the pipe closes";
    reader.join().expect(joined);
    lines.try_iter().for_each(|text| line(&text));
    Ok(Ran { end: killed.unwrap_or(End::Exited(status)), errors: keeper.join().expect(joined) })
}

fn each_line(from: impl Read, mut line: impl FnMut(String)) {
    for bytes in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        line(String::from_utf8_lossy(&bytes).into_owned());
    }
}

impl Ran {
    /// What became of the process, with what it said last that is not about its loading; nothing where it came to a regular end.
    pub fn trouble(&self) -> Option<String> {
        let what = match self.end {
            End::Exited(status) if matches!(status.code(), Some(0 | 1)) => return None,
            End::Exited(status) => format!("the process ended by {status}"),
            End::Silent => "the process hung".to_owned(),
            End::Stopped => "the time was over".to_owned(),
        };
        let telling = |line: &&String| !line.trim().is_empty() && !line.starts_with("load_backend");
        Some(self.errors.iter().rev().find(telling).map_or(what.clone(), |line| format!("{what}: {}", line.trim())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: u64, stop: Option<u64>) -> (Ran, Vec<String>) {
        let mut lines = Vec::new();
        let stop = stop.map(|ms| Instant::now() + Duration::from_millis(ms));
        let clock = Clock { patience: Duration::from_millis(patience), stop };
        let ran = run(Command::new("sh").args(["-c", script]), clock, |line| lines.push(line.to_owned())).unwrap();
        (ran, lines)
    }

    #[test]
    fn lines_come_and_the_last_error_is_told() {
        let (ran, lines) = shell("echo a; echo b; echo why >&2; echo load_backend: x >&2; kill -6 $$", 60_000, None);
        assert_eq!(lines, ["a", "b"]);
        let trouble = ran.trouble().unwrap();
        assert!(trouble.contains("signal: 6") && trouble.ends_with(": why"), "{trouble}");
    }

    #[test]
    fn a_regular_end_is_no_trouble() {
        for code in [0, 1] {
            assert_eq!(shell(&format!("exit {code}"), 60_000, None).0.trouble(), None);
        }
        assert!(shell("exit 3", 60_000, None).0.trouble().is_some());
    }

    #[test]
    fn a_silent_process_is_killed_and_so_is_one_out_of_time() {
        let (ran, lines) = shell("echo a; exec sleep 60", 300, None);
        assert_eq!((ran.end, lines), (End::Silent, vec!["a".to_owned()]));
        let (ran, _) = shell("exec sleep 60", 60_000, Some(10));
        assert_eq!(ran.end, End::Stopped);
    }
}
