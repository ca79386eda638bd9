//! `fblayout`, called as a user calls it.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::process::{Command, Output};

use serde_json::Value;

/// Runs the command without a Vulkan driver: plans for presets must not need a device.
pub fn plan(arguments: &[&str]) -> Output {
    without_driver(&[&["plan"], arguments].concat())
}

/// Runs `fblayout` without a Vulkan driver.
pub fn without_driver(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout"));
    command.env("VK_DRIVER_FILES", "none").env("VK_ICD_FILENAMES", "none");
    command.args(arguments).output().expect("the binary runs")
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

/// That every element is closed in order, and that no text opens one by accident. Gives the names of the elements met.
pub fn well_formed(page: &str) -> Vec<String> {
    let body = page.strip_prefix("<!DOCTYPE html>").expect("a document type");
    let (mut open, mut met): (Vec<String>, Vec<String>) = Default::default();
    let mut rest = body;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        assert!(!tag.contains('<'), "<{tag}");
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed by </{name}>");
            continue;
        }
        let name = tag.split([' ', '\n', '/']).next().expect("a name").to_owned();
        assert!(!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric()), "<{tag}>");
        if name == "style" {
            rest = &rest[rest.find("</style>").expect("a style ends")..];
        }
        met.push(name.clone());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    met
}
