//! `fblayout probe`, and plans for the machine that it found.

use std::path::Path;
use std::process::{Command, Output};

use fblayout::device::{Estimate, Outcome, Profile, Tested, TestedSchedule};

fn fblayout(cache: &Path, arguments: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fblayout"));
    program.args(arguments).env("FBL_CACHE", cache).env("FBL_VALIDATION", "sync").env_remove("FBL_LIMITS");
    program.output().expect("the program starts")
}

/// What JSON says of tests, printed or kept.
#[derive(serde::Deserialize)]
struct Tests {
    tested: Vec<Tested>,
}

const PLAN: [&str; 9] =
    ["plan", "--model", "gemma-3-1b", "--seq", "16", "--device", "measured", "--selector", "chain-dp"];

#[test]
fn what_is_measured_is_kept_and_planned_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = fblayout(folder.path(), &PLAN);
    let told = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && told.contains("`fblayout probe` measures"), "{told}");

    let probed = fblayout(folder.path(), &["probe", "--json"]);
    let errors = String::from_utf8_lossy(&probed.stderr).into_owned();
    assert!(probed.status.success() && errors.contains("kept in"), "{errors}");
    let profile: Profile = serde_json::from_slice(&probed.stdout).expect("a profile");
    let Tests { tested } = serde_json::from_slice(&probed.stdout).expect("tests");
    for schedule in [TestedSchedule::Direct, TestedSchedule::Across, TestedSchedule::Staged] {
        assert!(tested.contains(&Tested { schedule, outcome: Outcome::Passed }), "{tested:?}");
    }
    let files = std::fs::read_dir(folder.path()).expect("the folder").map(|entry| entry.expect("a file").path());
    let file = files.into_iter().find(|file| file.to_string_lossy().ends_with(".profile.json")).expect("a profile");
    let kept: Tests = serde_json::from_slice(&std::fs::read(&file).expect("its bytes")).expect("tests");
    assert_eq!(kept.tested, tested);
    let Profile { l1_bytes, l2_bytes, invocations, flops_f32, texels, buffer_bytes, l2_rate, .. } = profile;
    let Profile { memory_rate, copy_rate, launch, integers, .. } = profile;
    let integers = [integers.simple, integers.mul, integers.mul_high];
    let more = [l1_bytes, l2_bytes, invocations, flops_f32, texels, buffer_bytes, l2_rate, memory_rate, copy_rate];
    // A dispatch may take less than the clock's step.
    assert!(0.0 <= launch.lo && launch.lo <= launch.mid && launch.mid <= launch.hi);
    for Estimate { lo, mid, hi } in more.into_iter().chain(integers) {
        assert!(0.0 < lo && lo <= mid && mid <= hi && hi.is_finite(), "{lo} {mid} {hi}");
    }

    let planned = fblayout(folder.path(), &PLAN);
    let (plan, errors) = (String::from_utf8_lossy(&planned.stdout), String::from_utf8_lossy(&planned.stderr));
    assert!(planned.status.success() && plan.contains("simulated"), "{plan}{errors}");
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let refused = fblayout(folder.path(), &["probe", "--device", "99"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && told.contains("device 99"), "{told}");
}
