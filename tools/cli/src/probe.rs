//! `fblayout probe`: what a device does at most, and which of its schedules compute what they should.

use std::time::Instant;

use clap::Args;
use fblayout::device::{Estimate, Outcome, Profile, Tested};
use fblayout::engine::{Engine, EngineOptions, self_test};
use fblayout::probe;
use fblayout::vulkan::GpuOptions;
use serde::Serialize;

/// Options of `fblayout probe`.
#[derive(Args)]
pub struct Arguments {
    /// Number of the device, as `fblayout doctor` lists them
    #[arg(long, default_value_t = 0)]
    device: usize,
    /// Print the profile as JSON, with what came of the tests in `tested`
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Probed<'a> {
    #[serde(flatten)]
    profile: &'a Profile,
    tested: &'a [Tested],
}

/// Measures, tests, keeps and prints.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn std::error::Error>> {
    let options = GpuOptions::from_env()?;
    let caching = options.cache_folder.is_some();
    // What is found under clamped limits says nothing of the device without them.
    let clamped = options.limits_clamp.is_some();
    // What failed before is tested anew.
    let options = EngineOptions { gpu: options, tested: Some(Vec::new()), ..EngineOptions::default() };
    let engine = Engine::open(arguments.device, &options)?;
    let gpu = engine.gpu();
    let began = Instant::now();
    let profile = probe::measure(gpu)?;
    let seconds = began.elapsed().as_secs_f64();
    // Kept before the tests, of which a driver may make the last.
    if caching {
        probe::keep(gpu, &profile, &[])?;
    }
    let tested = self_test(&engine)?;
    let kept = caching.then(|| probe::keep(gpu, &profile, if clamped { &[] } else { &tested })).transpose()?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&Probed { profile: &profile, tested: &tested })?);
    } else {
        println!("{}: measured in {seconds:.1} s", gpu.adapter().name);
        print(&profile);
        println!("schedules of products, tested:");
        for Tested { schedule, outcome } in &tested {
            let told = match outcome {
                Outcome::Passed => "passed".to_owned(),
                Outcome::Unused(other) => format!("not used: the product was computed by {other}"),
                Outcome::Failed(why) => format!("FAILED: {why}"),
            };
            println!("  {:<26}{told}", schedule.to_string());
        }
    }
    match kept {
        Some(path) => eprintln!("kept in '{}'", path.display()),
        None => eprintln!("not kept: FBL_CACHE is off"),
    }
    Ok(())
}

fn print(profile: &Profile) {
    let [w, h] = profile.image_lines.texel16;
    println!("{:<28}{}", "subgroup, lanes", profile.subgroups[0]);
    println!("{:<28}{} bytes; {w} x {h} texels of 16 bytes in an image", "line of the caches", profile.line_bytes);
    let integers = &profile.integers;
    let figures: [(&str, Estimate, f64, &str); 16] = [
        ("first cache", profile.l1_bytes, 1024.0, "KiB"),
        ("last cache", profile.l2_bytes, 1024.0, "KiB"),
        ("invocations to fill it", profile.invocations, 1.0, ""),
        ("multiply-adds in f32", profile.flops_f32, 1e9, "GFLOP/s"),
        ("integer addition", integers.simple, 1.0, "of a multiply-add"),
        ("integer product", integers.mul, 1.0, "of a multiply-add"),
        ("its high half", integers.mul_high, 1.0, "of a multiply-add"),
        ("texels, first cache", profile.texels, 1e9, "G/s"),
        ("buffers, first cache", profile.buffer_bytes, 1e9, "GB/s"),
        ("last cache", profile.l2_rate, 1e9, "GB/s"),
        ("memory, read", profile.memory_rate, 1e9, "GB/s"),
        ("copy, read and written", profile.copy_rate, 1e9, "GB/s"),
        ("dispatch", profile.launch, 1e-6, "us"),
        ("barrier", profile.barrier, 1e-6, "us"),
        ("subgroups a core (not measured)", profile.interleaved_subgroups, 1.0, ""),
        ("in f16 (not measured)", profile.flops_f16, 1e9, "GFLOP/s"),
    ];
    let units = [("matrix units, F16", profile.matrix_f16), ("matrix units, BF16", profile.matrix_bf16)];
    let units = units.into_iter().filter_map(|(name, rate)| Some((name, rate?, 1e9, "GFLOP/s")));
    for (name, Estimate { lo, mid, hi }, unit, text) in figures.into_iter().chain(units) {
        println!("{name:<28}{:.3} to {:.3}, {:.3} {text}", lo / unit, hi / unit, mid / unit);
    }
}
