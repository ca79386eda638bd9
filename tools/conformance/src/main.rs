//! `fblayout-conformance`: what a ggml backend computes, compared with the CPU's, and counted per op.

mod own;
mod report;
mod shard;
mod suite;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use report::Report;

/// Compares what a ggml backend computes with what the CPU computes.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs ggml's public suite, test-backend-ops and test-opt, in resumable shards.
    Suite(suite::Arguments),
    /// Runs our own suite: ops and small graphs in every view and type, and in place.
    Own(own::Arguments),
    /// Puts two reports side by side and lists the cases that only the peer runs.
    Compare(Compare),
}

#[derive(Args)]
struct Compare {
    /// Our report, as `suite --json` writes it
    ours: PathBuf,
    /// The peer's report of the same mode
    peer: PathBuf,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Suite(arguments) => suite::run(&arguments),
        Command::Own(arguments) => own::run(&arguments),
        Command::Compare(Compare { ours, peer }) => compare(&ours, &peer),
    };
    result.unwrap_or_else(|e| {
        eprintln!("fblayout-conformance: {e:#}");
        ExitCode::FAILURE
    })
}

/// Fails where the peer passes a case that we do not.
fn compare(ours: &std::path::Path, peer: &std::path::Path) -> anyhow::Result<ExitCode> {
    let (ours, peer) = (Report::read(ours)?, Report::read(peer)?);
    anyhow::ensure!(ours.mode == peer.mode, "the reports are of modes {} and {}", ours.mode, peer.mode);
    print!("{}", report::side_by_side(&ours, &peer));
    let missing = report::missing(&ours, &peer);
    for name in &missing {
        println!("only {}: {name}", peer.backend);
    }
    println!("{} cases pass on {} alone", missing.len(), peer.backend);
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
