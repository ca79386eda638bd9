//! `fblayout roofline`: what steps took on a device, against what it does at most.

mod html;
mod step;
mod table;

use std::path::PathBuf;

use clap::Args;
use fblayout::device::Profile;
use fblayout::plan::PlanOptions;
use fblayout::roofline::Measured;

use crate::output::Output;
use crate::target::Target;

/// Options of `fblayout roofline`.
#[derive(Args)]
pub struct Arguments {
    /// What a process left that ran with FBL_ROOFLINE=FILE; with --model it is written
    #[arg(required_unless_present = "model")]
    file: Option<PathBuf>,
    /// The device whose roofs to compare with: a preset, or `measured` for this machine's as it was probed; by default the file's own
    #[arg(long)]
    device: Option<String>,
    /// Kinds of steps to print, those that took longest first
    #[arg(long, default_value_t = 40)]
    top: usize,
    /// Write a page that draws every kind of step under the roofs
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    #[command(flatten)]
    step: step::Step,
}

/// Runs a step where that is asked for, and tells what the file holds.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    // What cannot be done is told before anything runs.
    let machine = arguments.device.as_deref().map(machine).transpose()?;
    let page = arguments.html.as_deref().map(Output::create).transpose()?;
    let measured = match (&arguments.step.model, &arguments.file) {
        (None, file) => Measured::read(file.as_deref().unwrap_or_else(|| "".as_ref()))?,
        (Some(model), Some(file)) => step::run(model, &arguments.step, file)?,
        (Some(model), None) => {
            let folder = tempfile::tempdir()?;
            step::run(model, &arguments.step, &folder.path().join("steps.json"))?
        }
    };
    let machine = machine.as_ref().or(measured.machine.as_ref());
    if let Some(page) = page {
        page.commit(&html::page(&measured, machine)?)?;
    }
    let table = table::Table { measured: &measured, machine, top: arguments.top };
    Ok(crate::print(&table.to_string())?)
}

fn machine(name: &str) -> Result<Profile, Box<dyn std::error::Error>> {
    let target = Target::find(name, PlanOptions::default())?;
    let unknown =
        || format!("--device: nothing is known of the speed of {name:?}; name a preset that is a machine, or measured");
    Ok(target.profile().cloned().ok_or_else(unknown)?)
}
