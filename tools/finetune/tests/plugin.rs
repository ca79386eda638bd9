//! The plugin in whole runs. They need `libggml_fblayout.so` beside the program and a Vulkan device; `./x test` sees to both.

mod common;

use common::{Bench, assert_refused, metrics, model, nmse, tensor_f32};
use ggml_host::Type;
use ggml_host::gguf::Reader;

const DEVICE: &str = "FBLayout0";

/// Without matrix units, which round the factors of products, what a device does is off by roundings of F32 alone.
const WHOLE: (&str, &str) = ("FBL_LIMITS", r#"{"matrix_units": []}"#);

/// Products by weights on the longest way through the small model: four in each of two layers, and the head.
const PRODUCTS: f64 = 9.0;

/// Part of a term that goes with rounding both of its factors: to F16, cut or not, on the way forward, to BF16 on the way back.
const FORWARD: f64 = 1.0 / 512.0;
const BACK: f64 = 1.0 / 128.0;

/// Mean square of a gradient's error over that of the gradient: each product on the way adds the square of that part, as its terms are
/// independent.
const ROUNDED_GRADIENT: f64 = PRODUCTS * (FORWARD * FORWARD + BACK * BACK);

/// The same of logits is `PRODUCTS * FORWARD^2`, a part of 0.006, and logits are not larger than a loss of 259 words is.
const ROUNDED_LOSS: f64 = 0.006;

/// Runs on a device from the same seeded adapter, and returns the losses.
fn losses(bench: &Bench, environment: &[(&str, &str)], device: &str, base: &str) -> Vec<f64> {
    let common = ["--model", "{}/input.gguf", "--init", "random", "--steps", "8", "--lr", "2e-4", "--no-generate"];
    let grads = format!("{{}}/input-{device}.gguf");
    let own = ["--device", device, "--base-type", base, "--grads-out", &grads];
    let output = bench.run_with(environment, &[&common[..], &own[..]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{device} {base} {environment:?}: {stderr}");
    for word in ["WARN", "ERROR"] {
        assert!(!stderr.contains(word), "{device} {base} {environment:?}: {stderr}");
    }
    for line in metrics(bench) {
        assert_eq!((&line["splits"], &line["cpu_nodes"]), (&1.into(), &0.into()), "one device runs the whole step");
    }
    metrics(bench).iter().map(|line| line["loss"].as_f64().unwrap()).collect()
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn losses_and_gradients_are_those_of_the_cpu() {
    let bench = Bench::new();
    for stored in [Type::F32, Type::F16, Type::Q8_0, Type::Q4_1] {
        std::fs::write(bench.path("input.gguf"), model("llama", stored)).unwrap();
        let want = losses(&bench, &[], "CPU", "f32");
        // The last with the units that the device has, if any.
        for (storage, whole) in [("buffer", true), ("image", true), ("buffer", false)] {
            let (loss_bound, gradient_bound) = if whole { (1e-4, 1e-6) } else { (ROUNDED_LOSS, ROUNDED_GRADIENT) };
            let environment = [("FBL_STORAGE", storage), ("FBL_VALIDATION", "sync"), WHOLE];
            let got = losses(&bench, &environment[..2 + usize::from(whole)], DEVICE, "keep");
            for (step, (got, want)) in got.iter().zip(&want).enumerate() {
                let error = (got - want).abs() / want;
                assert!(error <= loss_bound, "{stored} {storage} step {}: {got} {want}", step + 1);
            }
            let (ours, theirs) = (bench.path(&format!("input-{DEVICE}.gguf")), bench.path("input-CPU.gguf"));
            for tensor in Reader::open(&theirs).unwrap().tensors() {
                let error = nmse(&tensor_f32(&ours, &tensor.name), &tensor_f32(&theirs, &tensor.name));
                assert!(error <= gradient_bound, "{stored} {storage} gradient of {}: NMSE {error:.2e}", tensor.name);
            }
        }
    }
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn every_policy_trains_alike() {
    let bench = Bench::new();
    std::fs::write(bench.path("input.gguf"), model("llama", Type::Q4_1)).unwrap();
    // Adapters are rounded where they run with the product beside them, and policies differ in that.
    let want = losses(&bench, &[WHOLE], DEVICE, "keep");
    let policies =
        ["layout-reuse", "convert-always", "fused-elementwise", "honest-rowmajor", "rtile", "rtile+maps", "full"];
    for option in policies.map(|policy| ("FBL_POLICY", policy)).into_iter().chain([("FBL_PROFILE", "lavapipe")]) {
        let got = losses(&bench, &[option, WHOLE, ("FBL_VALIDATION", "sync")], DEVICE, "keep");
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!((got - want).abs() / want <= 1e-4, "{option:?} step {}: {got} {want}", step + 1);
        }
    }
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn too_little_device_memory_is_one_line() {
    let bench = Bench::new();
    // From less than the weights need to less than the step needs.
    for heap in ["65536", "524288", "1048576"] {
        let limits = format!("{{\"heap_bytes\":{heap}}}");
        let output = bench.run_with(&[("FBL_LIMITS", &limits)], &["--device", DEVICE]);
        assert_refused(&bench, &output, &["memory", heap]);
    }
}
