//! Products on the Vulkan device present, in small.

use std::process::{Command, Output};

use serde_json::Value;

fn gemm(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fblayout-bench")).arg("gemm").args(arguments).output().expect("the binary runs")
}

/// Two directions of two types of weights in both storages: numbers that fit each other, and schedules in words.
#[test]
fn products_are_timed_on_the_device_present() {
    let shape = ["--shape", "4x256x256", "--dtype", "f16", "--dtype", "q4_k", "--direction", "NN", "--direction", "TN"];
    let output = gemm(&[&shape[..], &["--copies", "2", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(told["stand"], "measured");
    let rows = told["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 2 * 2);
    for row in rows {
        assert_eq!(row["refused"], Value::Null, "{row}");
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key} in {row}"));
        let [median, best] = [number("median_us"), number("best_us")];
        assert!(0.0 < best && best <= median, "{row}");
        let flops = 2.0 * 4.0 * 256.0 * 256.0;
        assert!((number("tflops") * median * 1e6 / flops - 1.0).abs() < 1e-9, "{row}");
        let weights = if row["dtype"] == "F16" { 2 * 256 * 256 } else { 144 * 256 };
        let bytes = f64::from(weights + 2 * 4 * 4 * 256);
        assert!((number("gb_per_s") * median * 1e3 / bytes - 1.0).abs() < 1e-9, "{row}");
        assert_eq!((number("copies"), number("conversions")), (2.0, 0.0), "{row}");
        assert!(row["schedule"].as_str().is_some_and(|words| words.contains("gemm")), "{row}");
    }
    let first = rows.iter().find(|row| row["direction"] == "NN").expect("a forward");
    assert_eq!(first["over_first"].as_f64(), Some(1.0));
}

/// What a policy copies is part of a product's time: each has factors of its own, so that none is copied for two.
#[test]
fn copies_of_a_policy_are_told() {
    let policies = ["--policy", "convert-always", "--policy", "layout-reuse", "--policy", "rtile"];
    let shape = ["--shape", "8x32x64", "--direction", "TN", "--storage", "buffer", "--copies", "3", "--json"];
    let output = gemm(&[&policies[..], &shape].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows = told["rows"].as_array().expect("rows");
    let told: Vec<_> = rows.iter().map(|row| (row["conversions"].as_u64(), row["dispatches"].as_u64())).collect();
    assert_eq!(told, [(Some(1), Some(2)), (Some(1), Some(2)), (Some(0), Some(1))], "{rows:?}");
}

/// What a type does not allow is told in its row, and fails where nothing else is left.
#[test]
fn refusals_are_told() {
    let some =
        gemm(&["--shape", "2x32x64", "--dtype", "q8_0", "--dtype", "q4_k", "--direction", "NN", "--copies", "1"]);
    let table = String::from_utf8_lossy(&some.stdout).into_owned();
    assert!(some.status.success() && table.contains("refused: ") && table.contains("256"), "{table}");
    let none = gemm(&["--shape", "2x32x64", "--dtype", "q4_k", "--direction", "NN"]);
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("256"));
    for (bad, why) in [
        (["--set", "gem"], "gemv"),
        (["--shape", "1x2"], "NxMxK"),
        (["--dtype", "q9"], "Q8_0"),
        (["--direction", "nn"], "NT"),
        (["--storage", "texture"], "texture"),
    ] {
        let output = gemm(&bad);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{bad:?}: {error}");
    }
}
