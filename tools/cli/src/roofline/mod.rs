//! `fblayout roofline`: what a program's steps took, against what the device does at most.

mod table;

use std::path::PathBuf;

use clap::Args;
use fblayout::device::Profile;
use fblayout::plan::PlanOptions;
use fblayout::roofline::Measured;

use crate::target::Target;

/// Options of `fblayout roofline`.
#[derive(Args)]
pub struct Arguments {
    /// What a process left that ran with FBL_ROOFLINE=FILE
    file: PathBuf,
    /// The device whose roofs to compare with: a preset, or `measured` for this machine's as it was probed; by default the file's own
    #[arg(long)]
    device: Option<String>,
    /// Kinds of steps to print, those that took longest first
    #[arg(long, default_value_t = 40)]
    top: usize,
}

/// Reads the file and prints its table.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let measured = Measured::read(&arguments.file)?;
    let machine = match &arguments.device {
        Some(name) => Some(machine(name)?),
        None => measured.machine.clone(),
    };
    print!("{}", table::Table { measured: &measured, machine: machine.as_ref(), top: arguments.top });
    Ok(())
}

fn machine(name: &str) -> Result<Profile, Box<dyn std::error::Error>> {
    let target = Target::find(name, PlanOptions::default())?;
    let unknown =
        || format!("--device: nothing is known of the speed of {name:?}; name a preset that is a machine, or measured");
    Ok(target.profile().cloned().ok_or_else(unknown)?)
}
