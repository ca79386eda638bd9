//! Our own suite: ops and small graphs through ggml's public interface on a device and on the CPU.
//!
//! A case is built three times by the same steps (`kit`), run node by node and as one graph (`runner`), and compared within derived bounds
//! (`bound`). Cases are an enumeration without chance: names seed values and choose the bounded part.

mod bound;
mod cases;
mod kit;
mod rounding;
mod runner;
mod skips;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use ggml_host::{
    Backend, Device, DeviceKind, devices, find_device, forward_logs, load_installed_backends, load_plugin, rpc,
};

use rounding::Rounding;
use runner::Verdict;

use crate::shard::Shard;

/// Options of the suite.
#[derive(Args)]
pub struct Arguments {
    /// Every case instead of the bounded part
    #[arg(long)]
    full: bool,
    /// Only cases whose name holds this; FBL_CASE by default
    #[arg(long)]
    case: Option<String>,
    /// A part of the cases: I of N parts
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,
    /// Name the cases instead of running them
    #[arg(long)]
    list: bool,
    /// Name every case before it runs, and its time after it
    #[arg(long)]
    verbose: bool,
    /// Device under test
    #[arg(long, default_value = "FBLayout0")]
    backend: String,
    /// The plugin that has it; GGML_BACKEND_PATH by default, else our own beside this program
    #[arg(long)]
    plugin: Option<PathBuf>,
    /// Server of ggml's RPC that has it instead of a plugin
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
}

/// Runs the cases and prints one line for each that fails, and one for all.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (cases, known) = cases::all(arguments.full)?;
    let part = arguments.case.clone().or_else(|| std::env::var("FBL_CASE").ok()).unwrap_or_default();
    let ours = |&(place, _): &(usize, _)| arguments.shard.has(place);
    let wanted = cases.iter().enumerate().filter(ours).map(|(_, case)| case);
    let wanted: Vec<_> = wanted.filter(|case| case.name.contains(&part)).collect();
    ensure!(!wanted.is_empty(), "no case of shard {} has '{part}' in its name", arguments.shard);
    if arguments.list {
        wanted.iter().for_each(|case| println!("{}", case.name));
        return Ok(ExitCode::SUCCESS);
    }
    let (device, cpu) = open(arguments)?;
    let rounding = Rounding::of(&device).context("asking what the device rounds factors of products to")?;
    println!("{rounding}");
    let began = Instant::now();
    let (mut passed, mut skipped, mut failures) = (0, 0, Vec::new());
    let mut needed = vec![false; skips::SKIPS.len()];
    for case in &wanted {
        if arguments.verbose {
            eprint!("{}", case.name);
        }
        let (skip, started) = (skips::reason(&case.name), Instant::now());
        if skip.is_some() && arguments.server.is_some() {
            // A server is said to support every op, and ends at one that it cannot run.
            skipped += 1;
            continue;
        }
        let verdict = runner::run(case, &device, rounding, &cpu);
        if arguments.verbose {
            eprintln!(" {} ms", started.elapsed().as_millis());
        }
        let failure = match (verdict, skip) {
            (Verdict::Passed, None) => {
                passed += 1;
                continue;
            }
            (Verdict::Unsupported(_), Some((at, _))) => {
                skipped += 1;
                needed[at] = true;
                continue;
            }
            (Verdict::Passed, Some((_, why))) => format!("runs, although it is to be skipped: {why}"),
            (Verdict::Unsupported(op), None) => format!("not supported: {op}"),
            (Verdict::Failed(why), _) => why,
        };
        println!("FAILED {}: {failure}", case.name);
        failures.push(case.name.clone());
    }
    if arguments.full && part.is_empty() && arguments.shard == Shard::WHOLE && arguments.server.is_none() {
        for ((pieces, why), _) in skips::SKIPS.iter().zip(&needed).filter(|(_, needed)| !**needed) {
            println!("FAILED skip {pieces:?} ({why}): no case needs it");
            failures.push(pieces.join(" "));
        }
    }
    let (failed, seconds) = (failures.len(), began.elapsed().as_secs());
    println!("{passed} passed, {failed} failed, {skipped} skipped of {known} cases in {seconds} s");
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn open(arguments: &Arguments) -> Result<(Backend, Backend)> {
    forward_logs();
    load_installed_backends()?;
    let device = device(arguments)?;
    let cpu = |device: &Device| device.kind() == DeviceKind::Cpu;
    let cpu = devices().into_iter().find(cpu).context("the engine brings a CPU backend")?;
    println!("{device:?}");
    Ok((Backend::open(device)?, Backend::open(cpu)?))
}

fn device(arguments: &Arguments) -> Result<Device> {
    let name = &arguments.backend;
    if let Some(server) = &arguments.server {
        let found = rpc::connect(server)?.into_iter().find(|device| device.name() == name);
        return found.with_context(|| format!("the server at {server} has no {name}; its devices are RPC0 and so on"));
    }
    let named = arguments.plugin.clone().or_else(|| std::env::var_os("GGML_BACKEND_PATH").map(PathBuf::from));
    let plugin = match named {
        Some(path) => path,
        None => std::env::current_exe()?.with_file_name("libggml_fblayout.so"),
    };
    let said = load_plugin(&plugin)?.said;
    find_device(name).with_context(|| format!("'{}' has no {name}: {said}", plugin.display()))
}

#[cfg(test)]
mod tests {
    use ggml_host::Context;

    use super::kit::{Kit, Side};

    /// ggml ends the process where a case breaks a rule of its builders: the last name said is that case.
    #[test]
    fn every_case_can_be_built() {
        let (cases, known) = super::cases::all(true).unwrap();
        assert_eq!(cases.len(), known);
        for case in &cases {
            println!("{}", case.name);
            for side in [Side::Device, Side::Reference, Side::Magnitude] {
                let (data, work) = (Context::new(1024, 0), Context::new(1024, 4096));
                let kit = Kit::new(side, &case.name, &data, &work);
                (case.build)(&kit);
                assert!(!kit.graph().unwrap().nodes().is_empty(), "{}", case.name);
            }
        }
    }
}
