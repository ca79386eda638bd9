//! `fblayout`: what this machine offers to fblayout.

use clap::{Parser, Subcommand};
use fblayout::engine::{Engine, EngineOptions};

/// FBLayout on Vulkan: look at devices.
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
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().command {
        Command::Doctor => doctor(),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fblayout: {e}");
            std::process::ExitCode::FAILURE
        }
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
