//! `fblayout-bench`: the policies compared, simulated by their plans on machines that are not at hand, measured by training steps on
//! the one that is; products timed there, and steps raced against a peer's.

mod attention;
mod gemm;
mod numbers;
mod pipelines;
mod plans;
mod reference;
mod steps;
mod table;
mod train;
mod transfer;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use serde::Serialize;

use table::Table;

/// Compares policies, selectors, machines and peers; prints the tables of docs/tables.md.
#[derive(Parser)]
#[command(version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Plans training steps by every policy and tells what they would cost, simulated.
    Plans(plans::Arguments),
    /// Runs training steps of a model cut to few layers by every policy, measured.
    Steps(steps::Arguments),
    /// Times matrix products on the device present: directions, types of weights, storages, policies, measured.
    Gemm(gemm::Arguments),
    /// Times attention on the device present, forward and with its gradients, as products and in one sweep, measured.
    Attention(attention::Arguments),
    /// Runs LoRA steps of one host by the plugin and by a peer's backend in turns, measured.
    Train(train::Arguments),
    /// Writes tensors to the device present and reads them back, repacked by the processor and by the device, measured.
    Transfer(transfer::Arguments),
    /// Plans training steps for the device present and makes their pipelines, measured.
    Pipelines(pipelines::Arguments),
}

/// What is printed, and where.
#[derive(Args)]
struct Output {
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write the tables to their places in this page, between `<!-- table: NAME -->` and `<!-- end -->`
    #[arg(long, value_name = "PAGE", conflicts_with = "json")]
    update: Option<PathBuf>,
}

/// What measures the device present, and where that goes.
#[derive(Args)]
struct Measured {
    /// Number of the Vulkan device
    #[arg(long, default_value_t = 0)]
    adapter: usize,
    #[command(flatten)]
    output: Output,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Plans(arguments) => plans::run(&arguments),
        Command::Steps(arguments) => steps::run(&arguments),
        Command::Gemm(arguments) => gemm::run(&arguments),
        Command::Attention(arguments) => attention::run(&arguments),
        Command::Train(arguments) => train::run(&arguments),
        Command::Transfer(arguments) => transfer::run(&arguments),
        Command::Pipelines(arguments) => pipelines::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("fblayout-bench: {e}");
            ExitCode::FAILURE
        }
    }
}

impl Output {
    fn print(&self, told: &impl Serialize, tables: &[Table]) -> Result<(), Failure> {
        if self.json {
            println!("{}", serde_json::to_string_pretty(told)?);
        } else if let Some(page) = &self.update {
            let text = std::fs::read_to_string(page).map_err(|e| format!("{}: {e}", page.display()))?;
            std::fs::write(page, table::update(&text, tables)?)?;
        } else {
            tables.iter().for_each(|table| println!("### {}\n\n{table}", table.name));
        }
        Ok(())
    }
}
