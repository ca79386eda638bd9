//! `fblayout`: what this machine offers to fblayout, and what fblayout would do with a model.

mod candidates;
mod model;
mod output;
mod plan;
mod probe;
mod replan;
mod roofline;
mod target;

use std::io::Write as _;

use clap::{Parser, Subcommand};
use fblayout::engine::{Engine, EngineOptions};

/// FBLayout on Vulkan: look at devices, plan models, tell what steps took.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Lists the Vulkan devices and the limits that plans are made under (FBL_LIMITS clamps them).
    Doctor,
    /// Measures what a device does at most, and keeps it for `plan --device measured`.
    Probe(probe::Arguments),
    /// Tells what the steps of a process took that ran with FBL_ROOFLINE=FILE, against the device's roofs.
    Roofline(roofline::Arguments),
    /// Plans a training step of a model: what moves, what does not, what memory it takes, and why.
    Plan(plan::Arguments),
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor => doctor(),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Roofline(arguments) => roofline::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fblayout: {e}");
            std::process::ExitCode::FAILURE
        }
    }
}

/// Prints a text, as far as anyone reads it.
fn print(text: &str) -> std::io::Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        // Who reads has seen enough.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn doctor() -> Result<(), Box<dyn std::error::Error>> {
    let options = EngineOptions::from_env()?;
    for adapter in Engine::adapters()? {
        println!("FBLayout{}: {adapter:?}", adapter.index);
        let engine = Engine::open(adapter.index, &options)?;
        println!("{}", serde_json::to_string_pretty(engine.limits())?);
    }
    Ok(())
}
