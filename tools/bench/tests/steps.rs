//! Steps on the Vulkan device present, in small.

use std::process::Command;

use fblayout::plan::Policy;
use serde_json::Value;

/// Numbers of a step in f32 whose sums have at most a few hundred terms: less than 2^12 roundings of 2^-24 each lie on any way to the
/// loss or a gradient, and norms of whole tensors are compared, in which cancellation of single elements does not count.
const ROUNDING: f64 = 1.0 / 4096.0;

/// The policy that moves most and one that moves nothing are timed and learn the same. Neither fuses: a driver that compiles on the
/// processor takes long over fused products, and the models' own tests run every policy.
#[test]
fn policies_learn_the_same_on_the_device_present() {
    let policies = [Policy::ConvertAlways, Policy::RTileMaps].map(|policy| policy.to_string());
    let steps =
        ["steps", "--model", "llama-3.2-1b", "--tiny", "--layers", "1", "--seq", "6", "--rounds", "2", "--json"];
    let output = Command::new(env!("CARGO_BIN_EXE_fblayout-bench"))
        .args(steps)
        .args(["--storage", "buffer", "--policy", &policies[0], "--policy", &policies[1]])
        .output()
        .expect("the binary runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&told["stand"], &told["rounds"]), (&"measured".into(), &2.into()));
    assert!(told["device"].as_str().is_some_and(|name| !name.is_empty()), "{told}");
    let rows = told["rows"].as_array().expect("rows");
    let number = |row: &Value, key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
    for (row, policy) in rows.iter().zip(&policies) {
        assert_eq!(&row["policy"], policy.as_str());
        // An untrained model of 37 tokens is about as sure as chance.
        assert!((2.0..6.0).contains(&number(row, "loss")), "{row}");
        assert!(number(row, "loss_difference") < ROUNDING && number(row, "gradient_difference") < ROUNDING, "{row}");
        let quantiles = ["p10", "median", "p90"].map(|q| number(&row["step_ms"], q));
        assert!(quantiles[0] > 0.0 && quantiles.is_sorted(), "{row}");
    }
    assert_eq!(rows.len(), 2);
    let [moving, still] = [0, 1].map(|i| number(&rows[i], "conversions"));
    assert!(moving > still, "{rows:?}");
}

#[test]
fn bad_input_is_named() {
    for (arguments, why) in [
        (["steps", "--model", "llama-4"], "llama-4"),
        (["steps", "--storage", "texture"], "texture"),
        (["plans", "--device", "adreno-1"], "use one of adreno-830"),
        (["steps", "--rounds", "0"], "at least one round"),
        (["pipelines", "--adapter", "99"], "99"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_fblayout-bench")).args(arguments).output().expect("it runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{arguments:?}: {error}");
    }
}
