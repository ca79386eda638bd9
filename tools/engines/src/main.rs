//! `fblayout-engines`: stock llama.cpp with its layers on a device of the plugin, compared with its own CPU backend.
//!
//! Generation, perplexity, several sequences, saved states, adapters, partial offload: one line each, and an exit code that is not zero
//! where one of them is out of its bound.

mod adapter;
mod checks;
mod compare;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Parser;
use ggml_host::{Device, find_device, forward_logs, load_installed_backends, load_plugin};

/// Compares llama.cpp on a device with llama.cpp on the CPU.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// GGUF models
    #[arg(required = true)]
    models: Vec<PathBuf>,
    /// Plugin to load; may be repeated
    #[arg(long, value_name = "FILE")]
    plugin: Vec<PathBuf>,
    /// Device of the plugin; with several, layers are shared among them
    #[arg(long, value_name = "NAME", default_value = "FBLayout0", value_delimiter = ',')]
    device: Vec<String>,
    /// Tokens to generate
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
    /// Tokens of the text whose perplexity is compared
    #[arg(long, value_name = "N", default_value_t = 512)]
    text_tokens: usize,
    /// Run only checks whose name contains this
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

fn run(options: &Options) -> Result<bool> {
    forward_logs();
    load_installed_backends()?;
    for plugin in &options.plugin {
        load_plugin(plugin)?;
    }
    let device = |name: &String| find_device(name).with_context(|| format!("no device '{name}'"));
    let devices = options.device.iter().map(device).collect::<Result<Vec<Device>>>()?;
    let mut passed = true;
    for model in &options.models {
        if !model.is_file() {
            bail!("no such file: '{}'", model.display());
        }
        println!("{}", model.display());
        passed &= checks::run(options, model, &devices)?;
    }
    Ok(passed)
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
