//! `fblayout-engines`: stock llama.cpp with its layers on a device of the plugin, compared with its own CPU backend.
//!
//! Generation, perplexity, several sequences, saved states, adapters, partial offload, a second process: one line each, and an exit code
//! that is not zero where one of them is out of its bound. With `--speed` it tells tokens per second instead, device by device. With `--serve` it compares nothing, but gives its devices to other processes.

mod adapter;
mod checks;
mod compare;
mod speed;
mod synthetic;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Parser;
use ggml_host::{Device, find_device, forward_logs, load_installed_backends, load_plugin, rpc};

/// Compares llama.cpp on a device with llama.cpp on the CPU.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// GGUF models; or, such as `llama-3.2-1b:q8_0`, random weights at the true shapes of a known one
    #[arg(required_unless_present = "serve", conflicts_with = "serve")]
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
    /// Compare nothing, but tell how many tokens a second each device runs: each is given whole models, in turns
    #[arg(long, conflicts_with = "serve")]
    speed: bool,
    /// Lengths of the prompts whose speed is told
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "128,512")]
    prompts: Vec<usize>,
    /// Compare nothing, but serve the devices to other processes by ggml's RPC; whoever reaches this address may use them
    #[arg(long, value_name = "HOST:PORT")]
    serve: Option<String>,
    /// Server whose devices, RPC0 and so on, may be named too; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    server: Vec<String>,
    /// End the server when standard input ends
    #[arg(long, hide = true)]
    until_eof: bool,
}

impl Options {
    /// What serves the same devices from another process, until it is dropped.
    fn start_server(&self) -> Result<rpc::Server> {
        let program = std::env::current_exe()?;
        let server = rpc::Server::start(|address| {
            let mut command = Command::new(program);
            self.plugin.iter().for_each(|plugin| _ = command.arg("--plugin").arg(plugin));
            command.args(["--device", &self.device.join(","), "--serve", address, "--until-eof"]);
            command
        })?;
        Ok(server)
    }
}

fn run(options: &Options) -> Result<bool> {
    forward_logs();
    load_installed_backends()?;
    for plugin in &options.plugin {
        load_plugin(plugin)?;
    }
    let mut remote = Vec::new();
    for server in &options.server {
        remote.extend(rpc::connect(server)?);
    }
    let device = |name: &String| {
        let near = find_device(name).or_else(|| remote.iter().find(|far| far.name() == name).copied());
        near.with_context(|| format!("no device '{name}'"))
    };
    let devices = options.device.iter().map(device).collect::<Result<Vec<Device>>>()?;
    if let Some(address) = &options.serve {
        if options.until_eof {
            rpc::exit_with_stdin();
        }
        match rpc::serve(address, &devices)? {}
    }
    let mut passed = true;
    for model in &options.models {
        println!("{}", model.display());
        let folder = tempfile::tempdir()?;
        let made = folder.path().join("model.gguf");
        let model = match model.to_str().filter(|_| !model.is_file()) {
            Some(name) => {
                synthetic::write(name, &made)?;
                &made
            }
            None => model,
        };
        match options.speed {
            true => speed::run(options, model, &devices)?,
            false => passed &= checks::run(options, model, &devices)?,
        }
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
