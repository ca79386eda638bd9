//! `fblayout plan` as a user calls it.

mod common;

use std::process::Command;

use common::{json, plan, refusal};
use fblayout::plan::Policy;
use serde_json::Value;

const MODELS: [&str; 5] = ["llama-3.2-1b", "qwen2.5-1.5b", "qwen3-1.7b", "gemma-2-2b", "gemma-3-1b"];

#[test]
fn every_model_is_planned_at_true_size() {
    for model in MODELS {
        let told = json(&["--model", model, "--seq", "512", "--device", "adreno-830"]);
        assert_eq!((&told["model"], &told["seq"], &told["device"]), (&model.into(), &512.into(), &"adreno-830".into()));
        let transforms = &told["transforms"];
        let explicit = transforms["explicit"].as_array().expect("a list");
        let number = |v: &Value| v.as_u64().expect("a number");
        assert_eq!(number(&transforms["count"]), number(&transforms["eliminated"]) + explicit.len() as u64, "{model}");
        assert!(number(&transforms["count"]) > 100 && number(&transforms["bytes"]) > 0, "{model}");
        for moved in explicit {
            assert!(moved["node"].is_string() && moved["kind"].is_string(), "{model}: {moved}");
            assert!(!moved["reason"].as_str().expect("a reason").is_empty() && number(&moved["bytes"]) > 0, "{model}");
        }
        let parts = ["external_bytes", "kept_bytes", "arena_bytes"].map(|part| number(&told[part]));
        assert_eq!(number(&told["peak_bytes"]), parts.iter().sum::<u64>(), "{model}");
        assert_eq!(told["peak_is_bound"], true);
        assert!(told["plan_ms"].as_f64().expect("a number") > 0.0);
    }
}

/// Every preset that is a machine predicts; what it prints of that says that it is simulated.
#[test]
fn predictions_are_simulated() {
    let small = ["--model", "gemma-3-1b", "--seq", "64"];
    for preset in ["adreno-830", "adreno-730", "mali-g715", "mali-g925", "amd-wave64", "intel-xe", "lavapipe", "h200"] {
        let told = json(&[&small[..], &["--device", preset]].concat());
        let predicted = &told["predicted"];
        let number = |key: &str| predicted[key].as_f64().unwrap_or_else(|| panic!("{preset}: {key} in {predicted}"));
        assert_eq!(predicted["stand"], "simulated");
        // Forward and backward of the frozen weights of 1e9 parameters at 64 tokens, and each of them read twice.
        assert!(
            number("flops") > 4.0 * 1e9 * 64.0 * 0.9 && number("bytes_moved") > 2.0 * 2e9 * 0.9,
            "{preset}: {predicted}"
        );
        assert!(number("time_ms") > 0.0 && (0.0..1.0).contains(&number("conversion_share")), "{preset}: {predicted}");
        assert!((0.0..=1.0).contains(&number("paper_efficiency")), "{preset}: {predicted}");
        let range = predicted["time_ms_range"].as_array().expect("two ends");
        assert!(
            range[0].as_f64() <= predicted["time_ms"].as_f64() && predicted["time_ms"].as_f64() <= range[1].as_f64()
        );
        let left = ["tiles", "c0", "c1", "c2", "c3"].map(|rule| told["candidates"][rule].as_u64().expect("a number"));
        assert!(left.is_sorted_by(|a, b| a >= b) && left[4] > 0, "{preset}: {left:?}");
    }
    let text = String::from_utf8(plan(&[&small[..], &["--device", "h200"]].concat()).stdout).expect("UTF-8");
    assert!(text.contains("simulated: ") && text.contains("candidates of "), "{text}");
    assert!(json(&[&small[..], &["--device", "{}"]].concat())["predicted"].is_null());
}

/// The device's own sizes, and the bound on them from nothing but the limits that it reports. Small images are padded to whole blocks
/// by the bound, which counts where everything is an image.
#[test]
fn the_bound_from_limits_is_above_what_the_device_present_says() {
    for (storage, slack) in [("auto", 20), ("image", 1)] {
        let told = |device: &str| -> Value {
            let step =
                ["plan", "--model", "llama-3.2-1b", "--seq", "48", "--storage", storage, "--json", "--device", device];
            let output = Command::new(env!("CARGO_BIN_EXE_fblayout")).args(step).output().expect("the binary runs");
            assert!(output.status.success(), "{device}: {}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).expect("JSON")
        };
        let exact = told("present");
        let bound = told(&exact["limits"].to_string());
        assert_eq!((&exact["peak_is_bound"], &bound["peak_is_bound"]), (&false.into(), &true.into()));
        assert_eq!((&exact["limits"], &exact["transforms"]), (&bound["limits"], &bound["transforms"]));
        let [exact, bound] = [exact, bound].map(|told| told["peak_bytes"].as_u64().expect("a number"));
        assert!(exact <= bound && bound <= exact + exact / slack, "{storage}: {exact} and {bound}");
    }
}

/// What one objective gains the other loses; costs say what they are.
#[test]
fn objectives_select_different_plans() {
    let told = |objective: &str| {
        json(&["--model", "gemma-3-1b", "--seq", "64", "--device", "adreno-830", "--objective", objective])
    };
    let (time, paper) = (told("time"), told("paper"));
    let number = |told: &Value, key: &str| told["predicted"][key].as_f64().expect("a number");
    assert!(number(&time, "time_ms") < number(&paper, "time_ms"));
    assert!(number(&time, "paper_efficiency") < number(&paper, "paper_efficiency"));
    assert_eq!((&time["selection"]["unit"], &paper["selection"]["objective"]), (&"seconds".into(), &"paper".into()));
    let unknown = ["--model", "gemma-3-1b", "--device", "adreno-830", "--objective", "mean"];
    assert!(refusal(&unknown).contains("time, paper"));
}

/// Exact search along chains loses neither to the rule nor to the paper's search, in the problem and in the plan.
#[test]
fn selections_are_bounded_and_never_worse_than_the_rule() {
    for preset in ["adreno-830", "h200"] {
        let told = |selector: &str| {
            json(&["--model", "gemma-3-1b", "--seq", "64", "--device", preset, "--selector", selector])
        };
        let time = |told: &Value| told["predicted"]["time_ms"].as_f64().expect("a number");
        let rule = told("rule");
        for (selector, key) in [("paper-greedy", "greedy"), ("chain-dp", "dp"), ("pbqp", "pbqp")] {
            let told = told(selector);
            let selection = &told["selection"];
            let number = |key: &str| selection[key].as_f64().unwrap_or_else(|| panic!("{key} in {selection}"));
            assert_eq!((&told["selector"], &selection["stand"]), (&selector.into(), &"simulated".into()));
            assert_eq!(number("cost"), number(key));
            assert!(number("lower_bound") <= number("dp") && number("dp") <= number("greedy"), "{selection}");
            assert!(number("dp") <= number("rule") && number("gap") >= 0.0, "{selection}");
            assert!(selection["certificate"]["rho"].as_f64() >= Some(0.0), "{selection}");
            assert!(time(&told) <= time(&rule), "{preset}: {selector}");
        }
    }
    assert_eq!(json(&["--model", "gemma-3-1b", "--seq", "64", "--device", "h200"])["selector"], "chain-dp");
    let unknown = ["--model", "gemma-3-1b", "--seq", "64", "--device", "{}"];
    assert_eq!(json(&unknown)["selector"], "rule");
    assert!(refusal(&[&unknown[..], &["--selector", "pbqp"]].concat()).contains("--selector"));
    assert!(refusal(&[&unknown[..], &["--selector", "best"]].concat()).contains("chain-dp"));
}

/// Moments and F32 weights: full fine-tuning holds at least 12 bytes more per parameter than the F16 model.
#[test]
fn training_everything_takes_more_memory() {
    let peak = |extra: &[&str]| {
        let told = json(&[&["--model", "llama-3.2-1b", "--seq", "64", "--device", "amd-wave64"], extra].concat());
        told["peak_bytes"].as_u64().expect("a number")
    };
    let (lora, full) = (peak(&["--rank", "4"]), peak(&["--full"]));
    assert!(full > lora + 10 * 1_235_814_400, "{full} and {lora}");
    assert!(peak(&["--base", "q4_1"]) < lora);
}

/// A budget is met exactly when there is a plan for it; the refusal names one that is met.
#[test]
fn recomputing_meets_budgets_down_to_the_smallest() {
    let step = ["--model", "llama-3.2-1b", "--seq", "256", "--device", "adreno-830", "--selector", "rule"];
    let told = |extra: &[&str]| json(&[&step[..], extra].concat());
    let refused = |extra: &[&str]| refusal(&[&step[..], extra].concat());
    let number = |told: &Value, key: &str| told[key].as_u64().unwrap_or_else(|| panic!("{key} in {told}"));
    let peak = |told: &Value| number(told, "peak_bytes");
    let free = json(&step);
    assert!(free["recompute"].is_null() && number(&free, "in_place") > 0 && number(&free, "in_place_bytes") > 0);
    assert!((1.0..1.02).contains(&free["fragmentation"].as_f64().expect("a number")));
    let least = told(&["--recompute"]);
    let recompute = &least["recompute"];
    assert_eq!(peak(&free) - peak(&least), number(recompute, "bytes_saved"));
    assert!(number(recompute, "nodes") > 0 && number(recompute, "flops") > 0, "{recompute}");
    let simulated: Vec<f64> =
        recompute["simulated_ms"].as_array().expect("two times").iter().filter_map(Value::as_f64).collect();
    assert!(simulated[0] < simulated[1], "{recompute}");

    let between = (peak(&free) + peak(&least)) / 2;
    for budget in [peak(&least), between, peak(&free)] {
        let told = told(&["--recompute", "--budget", &budget.to_string()]);
        assert!(peak(&told) <= budget, "{budget}");
        assert!(number(&told["recompute"], "flops") <= number(recompute, "flops"));
    }
    let why = refused(&["--recompute", "--budget", &(peak(&least) - 1).to_string()]);
    assert!(why.contains(&peak(&least).to_string()) && why.contains("budget"), "{why}");
    let why = refused(&["--budget", &between.to_string()]);
    assert!(why.contains(&between.to_string()) && why.contains(&peak(&free).to_string()), "{why}");
    told(&["--budget", "1024 GiB"]);
    assert!(refused(&["--budget", "4 apples"]).contains("MiB"));
}

#[test]
fn policies_differ_in_what_they_move() {
    let explicit = |policy: &str| {
        let told = json(&["--model", "qwen3-1.7b", "--seq", "64", "--device", "amd-wave64", "--policy", policy]);
        assert_eq!(told["policy"], policy);
        told["transforms"]["explicit"].as_array().expect("a list").len()
    };
    let [maps, rtile, convert] = ["rtile+maps", "rtile", "convert-always"].map(explicit);
    assert!(maps < rtile && rtile < convert, "{maps}, {rtile}, {convert}");
    assert!(refusal(&["--model", "qwen3-1.7b", "--device", "amd-wave64", "--policy", "none"]).contains("rtile+maps"));
}

/// What vanished and what all of it is, by three ways of counting.
#[test]
fn transforms_are_counted_in_three_ways() {
    for (policy, all) in [("rtile+maps", true), ("convert-always", false)] {
        let told = json(&["--model", "qwen3-1.7b", "--seq", "64", "--device", "adreno-830", "--policy", policy]);
        let transforms = &told["transforms"];
        let number = |v: &Value| v.as_u64().expect("a number");
        let share = |by: &str| {
            let share = &transforms["denominators"][by];
            let (part, total) = (number(&share["eliminated"]), number(&share["total"]));
            let percent = share["percent"].as_f64().expect("a number");
            assert!((percent - 100.0 * part as f64 / total as f64).abs() < 1e-9 && part <= total, "{share}");
            assert_eq!(part == total, all, "{policy} {by}: {share}");
            (part, total)
        };
        let (count, bytes) = (share("by_count"), share("by_bytes"));
        assert_eq!(count, (number(&transforms["eliminated"]), number(&transforms["count"])));
        let moved = transforms["explicit"].as_array().expect("a list").iter().map(|e| number(&e["bytes"]));
        assert_eq!((bytes.1, bytes.1 - bytes.0), (number(&transforms["bytes"]), moved.sum()));
        let others = share("by_count_without_matrix_transposes");
        assert!(others.1 < count.1, "{others:?} of {count:?}");
    }
}

/// Rules C1 to C3 leave fewer tiles, and planning among all is no worse.
#[test]
fn pruning_can_be_switched_off() {
    let step = ["--model", "gemma-3-1b", "--seq", "64", "--device", "adreno-830"];
    let (pruned, told) = (json(&step), json(&[&step[..], &["--no-pruning"]].concat()));
    assert!(pruned["pruning"].is_null());
    let number = |rules: &str, what: &str| told["pruning"][rules][what].as_f64().expect("a number");
    assert!(number("pruned", "tiles") < number("unpruned", "tiles"), "{told}");
    assert!(number("pruned", "homes") <= number("unpruned", "homes"), "{told}");
    assert_eq!(told["candidates"]["c0"].as_f64(), Some(number("unpruned", "tiles")));
    for (rules, what) in [("pruned", "plan_ms"), ("unpruned", "plan_ms"), ("pruned", "candidates_ms")] {
        assert!(number(rules, what) > 0.0);
    }
    let dp = |told: &Value| told["selection"]["lower_bound"].as_f64().expect("a number");
    assert!(dp(&told) <= dp(&pruned) * (1.0 + 1e-9), "more to choose from");
}

/// Whatever policies there are, the help and the refusal name each.
#[test]
fn help_lists_what_exists() {
    let help = String::from_utf8(plan(&["--help"]).stdout).expect("UTF-8");
    let refused = refusal(&["--model", "qwen3-1.7b", "--device", "lavapipe", "--policy", "best"]);
    for (name, _) in Policy::ALL {
        assert!(help.contains(name) && refused.contains(name), "{name}");
    }
    for name in MODELS.iter().chain(&["adreno-830", "h200", "chain-dp", "pbqp"]) {
        assert!(help.contains(name), "{name} in {help}");
    }
}

#[test]
fn the_report_names_kinds_and_memory() {
    let output = plan(&["--model", "gemma-3-1b", "--seq", "64", "--device", "amd-wave64"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in ["gemma-3-1b", "Permute: ", "compute arena", "transforms: ", "peak: ", "at most"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let model = refusal(&["--model", "llama-9", "--device", "adreno-830"]);
    assert!(model.contains("\"llama-9\"") && MODELS.iter().all(|known| model.contains(known)), "{model}");
    let device = refusal(&["--model", "qwen3-1.7b", "--device", "adreno-99"]);
    assert!(["\"adreno-99\"", "adreno-830", "mali-g715", "present"].iter().all(|n| device.contains(n)), "{device}");
}

#[test]
fn impossible_steps_are_refused_by_name() {
    let preset = ["--model", "qwen3-1.7b", "--device", "adreno-830"];
    let with = |extra: &[&str]| refusal(&[&preset, extra].concat());
    assert!(with(&["--seq", "0"]).contains("0 tokens"));
    assert!(with(&["--rank", "0"]).contains("rank"));
    assert!(with(&["--full", "--rank", "4"]).contains("--full"));
    assert!(with(&["--storage", "paper"]).contains("auto, buffer, image"));
    let long = with(&["--seq", "1000000000"]);
    assert!(long.contains("node blk.0.scores") && long.contains("63 bits"), "{long}");
    for limits in ["{\"max_workgroup_invocations\": 0}", "{\"max_workgroup_size\": [64, 0, 1]}"] {
        let told = refusal(&["--model", "qwen3-1.7b", "--device", limits]);
        assert!(told.contains("is 0, but a workgroup has invocations"), "{told}");
    }
    let small = refusal(&["--model", "gemma-2-2b", "--device", "vulkan-minimum"]);
    assert!(small.contains("[2304, 256000, 1, 1]") && small.contains("image limit of 4096"), "{small}");
}
