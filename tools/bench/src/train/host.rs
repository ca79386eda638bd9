//! Runs of the peers' host, each a process of its own.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The host's program in a folder of peers.
const PROGRAM: &str = "bench_train";

/// How often a process is asked whether it has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Lines of what a failed process said that are told.
const LAST_LINES: usize = 5;

/// The host, its engine and the peer beside it.
pub struct Host {
    folder: PathBuf,
    program: PathBuf,
    timeout: Duration,
}

impl Host {
    /// The host in this folder.
    ///
    /// # Errors
    /// There is none.
    pub fn in_folder(folder: &Path, timeout: Duration) -> Result<Self, String> {
        let folder = folder.canonicalize().map_err(|e| format!("--peers {}: {e}", folder.display()))?;
        let program = folder.join(PROGRAM);
        match program.is_file() {
            true => Ok(Self { folder, program, timeout }),
            false => Err(format!("--peers {}: holds no program {PROGRAM}", folder.display())),
        }
    }

    /// What a run with these arguments prints; its libraries are those beside it.
    ///
    /// # Errors
    /// It cannot be started, fails, or takes too long; with the last lines that it said.
    pub fn run(&self, arguments: &[&str]) -> Result<String, String> {
        let mut search = vec![self.folder.clone()];
        search.extend(std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths));
        let search = std::env::join_paths(search).map_err(|e| format!("{}: {e}", self.folder.display()))?;
        let mut command = Command::new(&self.program);
        command.args(arguments).env("LD_LIBRARY_PATH", search);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let told = |why: String| format!("{PROGRAM} {}: {why}", arguments.join(" "));
        let mut child = command.spawn().map_err(|e| told(e.to_string()))?;
        let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let start = Instant::now();
        let status = loop {
            match child.try_wait().map_err(|e| told(e.to_string()))? {
                Some(status) => break Some(status),
                None if start.elapsed() > self.timeout => {
                    // It may have ended meanwhile; either way it is waited for.
                    let _ = child.kill();
                    child.wait().map_err(|e| told(e.to_string()))?;
                    break None;
                }
                None => std::thread::sleep(LOOK),
            }
        };
        let [stdout, stderr] = [stdout, stderr].map(|thread| thread.join().unwrap_or_default());
        match status {
            Some(status) if status.success() => Ok(stdout),
            Some(status) => Err(told(format!("{status}\n{}", last_lines(&stderr)))),
            None => Err(told(format!("not done after {} s\n{}", self.timeout.as_secs(), last_lines(&stderr)))),
        }
    }
}

/// Reads all of a pipe beside the process, which would wait for a full one.
fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is still what it said.
        let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}
