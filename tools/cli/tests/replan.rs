//! `fblayout plan --replan`: P3 at true sizes.

use std::process::Command;

use serde_json::Value;

const MODELS: [&str; 5] = ["llama-3.2-1b", "qwen2.5-1.5b", "qwen3-1.7b", "gemma-2-2b", "gemma-3-1b"];

fn replan(model: &str, device: &str, selector: &str, [seq, again]: [u32; 2]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout"));
    command.args(["plan", "--json", "--model", model, "--device", device, "--selector", selector]);
    let output = command.args(["--seq", &seq.to_string(), "--replan", &again.to_string()]).output().expect("it runs");
    assert!(output.status.success(), "{model}: {}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let replan = told["replan"].clone();
    assert_eq!((&replan["seq"], &replan["equals_fresh"]), (&again.into(), &true.into()), "{model} {device} {selector}");
    replan
}

#[test]
fn every_model_is_planned_again_as_from_scratch() {
    for (model, again) in MODELS.into_iter().zip([384, 1024, 130, 384, 130]) {
        let replan = replan(model, "adreno-830", "chain-dp", [512, again]);
        let number = |key: &str| replan[key].as_f64().unwrap_or_else(|| panic!("{model}: {key} in {replan}"));
        // The gradients of both LoRA matrices of each projection are sums over tokens: their operands are dirty, and nothing changes
        // weights.
        assert!(number("dirty") > 100.0 && number("dirty") < number("tensors"), "{model}: {replan}");
        assert!(replan["causes"]["reduced"].as_u64() > Some(100), "{model}: {replan}");
        assert!(
            number("kept") >= number("lower_bound") && number("cost") >= number("lower_bound"),
            "{model}: {replan}"
        );
        assert!(number("ms") > 0.0);
    }
}

#[test]
fn every_selector_plans_again_as_from_scratch() {
    for selector in ["rule", "paper-greedy", "pbqp"] {
        replan("gemma-3-1b", "h200", selector, [512, 130]);
    }
}

/// Without a machine there is nothing to select; the plan is still made again.
#[test]
fn limits_alone_are_enough() {
    let replan = replan("gemma-3-1b", r#"{"max_image_2d": 16384}"#, "rule", [64, 96]);
    assert!(replan["dirty"].is_null() && replan["ms"].as_f64() > Some(0.0), "{replan}");
}
