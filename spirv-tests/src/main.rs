//! The sample of every op as one program, for machines without cargo (`scripts/android`): prints a table, fails if a case does.
//! `FBL_CASE` narrows it to groups and cases by a part of their names, `FBL_STORAGE` to one kind of storage.

use std::process::ExitCode;

use fblayout::engine::EngineOptions;
use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{Group, STORAGES, VulkanDevice, sample};

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

/// Whether all cases pass.
fn run() -> Result<bool, String> {
    let part = std::env::var("FBL_CASE").unwrap_or_default();
    let asked = EngineOptions::from_env().map_err(|e| e.to_string())?.plan.storage;
    let mut failures = Vec::new();
    for storage in STORAGES.into_iter().filter(|&storage| asked == StorageChoice::Auto || asked == storage) {
        let device = VulkanDevice::open(storage)?;
        let adapter = device.engine().gpu().adapter();
        println!("# {}, {}, subgroups of {}: {storage:?}", adapter.name, adapter.driver, adapter.limits.subgroup_size);
        println!("\n| kernels | pass | of | refused | s |\n|---|---|---|---|---|");
        let told = |group: &Group| {
            let passed = group.run - group.failures.len();
            let seconds = group.time.as_secs_f64();
            println!("| {} | {passed} | {} | {} | {seconds:.1} |", group.name, group.run, group.refused);
        };
        let groups = sample(&device, |name| name.contains(&part), told);
        println!("\n{} validation messages\n", device.engine().gpu().validation_count());
        failures.extend(device.engine().gpu().validation_messages());
        failures.extend(groups.into_iter().flat_map(|group| group.failures));
    }
    failures.iter().for_each(|failure| println!("{failure}"));
    Ok(failures.is_empty())
}
