//! `fblayout plan`, called as a user calls it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command without a Vulkan driver: plans for presets must not need a device.
pub fn plan(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout"));
    command.env("VK_DRIVER_FILES", "none").env("VK_ICD_FILENAMES", "none");
    command.arg("plan").args(arguments).output().expect("the binary runs")
}

/// What it prints.
pub fn text(arguments: &[&str]) -> String {
    let output = plan(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What it prints as JSON.
pub fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).expect("JSON")
}

/// Why it refuses; nothing is printed as a plan then.
pub fn refusal(arguments: &[&str]) -> String {
    let output = plan(arguments);
    assert!(!output.status.success() && output.stdout.is_empty(), "{arguments:?} is refused");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(!told.contains("panicked"), "{arguments:?}: {told}");
    told
}
