//! ggml's public suite against one device.

mod cases;
mod optimizers;
mod parse;
mod process;
mod programs;
mod runner;
mod state;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};

use crate::report::Report;
use crate::shard::Shard;
use process::Clock;
use programs::Programs;
use state::State;

/// What the suite asks of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Compares every op's result with the CPU's
    Test,
    /// Compares gradients with differences; what the CPU fails too is skipped
    Grad,
    /// Asks the device which cases it runs, and runs none
    Support,
    /// Runs the optimizers of ggml-opt
    Opt,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Grad => "grad",
            Self::Support => "support",
            Self::Opt => "opt",
        }
    }
}

/// Options of the command.
#[derive(Args)]
pub struct Arguments {
    /// Folder with other sources of the suite (test-backend-ops.cpp and test-opt.cpp, there or in tests/)
    #[arg(long, value_name = "DIR")]
    suite: Option<PathBuf>,
    /// Folder with the programs of the suite, built before: nothing is fetched or built
    #[arg(long, value_name = "DIR", conflicts_with = "suite")]
    programs: Option<PathBuf>,
    /// Only these ops, by the names in the table
    #[arg(long, value_name = "OP", value_delimiter = ',')]
    op: Vec<String>,
    /// What is asked of the device
    #[arg(long, value_enum, default_value_t = Mode::Test)]
    mode: Mode,
    /// A part of the cases: I of N parts
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,
    /// Processes at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Cases of a process, at most
    #[arg(long, default_value_t = 100)]
    piece: usize,
    /// Seconds without a verdict after which a process counts as hung
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    patience: u64,
    /// Stop after so many minutes; the same command goes on from there
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<f64>,
    /// The device
    #[arg(long, value_name = "NAME", default_value = "FBLayout0")]
    backend: String,
    /// The plugin that has it; GGML_BACKEND_PATH by default, else our own beside this program
    #[arg(long, value_name = "FILE")]
    plugin: Option<PathBuf>,
    /// Forget the verdicts of earlier runs
    #[arg(long)]
    fresh: bool,
    /// Write the verdicts to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Folder of sources, programs and verdicts; `conformance` beside this program by default
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
}

/// What every part of a run needs.
struct Session<'a> {
    arguments: &'a Arguments,
    programs: Programs,
    plugin: PathBuf,
    clock: Clock,
}

/// The exit code of a run that was stopped by `--minutes`.
const UNFINISHED: u8 = 3;

/// Runs what the arguments ask for.
///
/// # Errors
/// Programs, plugin or device that are not there; a state or report that cannot be written.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    ensure!(arguments.jobs > 0 && arguments.piece > 0, "--jobs and --piece are at least 1");
    let beside = std::env::current_exe()?.parent().context("this program lies in a folder")?.to_owned();
    let cache = arguments.cache.clone().unwrap_or_else(|| beside.join("conformance"));
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot make '{}'", cache.display()))?;
    let programs = match &arguments.programs {
        Some(folder) => Programs::built(&std::path::absolute(folder)?)?,
        None => Programs::build(&cache, arguments.suite.as_deref())?,
    };
    let named = arguments.plugin.clone().or_else(|| std::env::var_os("GGML_BACKEND_PATH").map(PathBuf::from));
    let plugin = std::path::absolute(named.unwrap_or_else(|| beside.join("libggml-fblayout.so")))?;
    let identity = format!("plugin {} suite {}", programs::file_hash(&plugin)?, programs::file_hash(&programs.ops())?);
    let stop = arguments.minutes.map(|minutes| Instant::now() + Duration::from_secs_f64(minutes * 60.0));
    let clock = Clock { patience: Duration::from_secs(arguments.patience), stop };
    let session = Session { arguments, programs, plugin, clock };

    let mode = arguments.mode.name();
    let shard = arguments.shard.to_string().replace('/', "-of-");
    let path = cache.join(format!("{}-{mode}-{shard}.jsonl", arguments.backend));
    if arguments.fresh && path.exists() {
        std::fs::remove_file(&path)?;
    }
    let mut state = State::open(&path, &identity, Report::new(mode, &arguments.backend))?;
    let (report, left) = match arguments.mode {
        Mode::Opt => optimizers::run(&session, &mut state)?,
        _ => runner::run(&session, &mut state)?,
    };
    finish(arguments, &report, left)
}

fn finish(arguments: &Arguments, report: &Report, left: usize) -> anyhow::Result<ExitCode> {
    if let Some(path) = &arguments.json {
        report.write(path)?;
    }
    print!("{report}");
    if left > 0 {
        println!("stopped by --minutes, {left} cases are left: the same command goes on with them");
        return Ok(ExitCode::from(UNFINISHED));
    }
    Ok(if report.total().failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A program of the suite with its environment: failed assertions end it at once, without a debugger's help.
fn program(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.env("GGML_NO_BACKTRACE", "1").env_remove("GGML_BACKEND_PATH");
    command
}
