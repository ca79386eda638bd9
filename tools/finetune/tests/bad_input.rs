//! Bad input ends in one line that names the thing and the rule, a failing exit code, and no file.

mod common;

use common::{Bench, assert_refused, dialogue, model};
use ggml_host::Type;

#[test]
fn missing_files() {
    let bench = Bench::new();
    for (option, name) in
        [("--model", "{}/none.gguf"), ("--data", "{}/none.jsonl"), ("--chat-template", "{}/none.jinja")]
    {
        let output = bench.run(&[option, name]);
        assert_refused(&bench, &output, &[&name[3..], "No such file"]);
    }
}

#[test]
fn truncated_model() {
    let bench = Bench::new();
    let whole = model("llama", Type::F32);
    for (keep, part) in
        [(2, "GGUF"), (600, "GGUF"), (whole.len() / 2, "truncated: tensor"), (whole.len() - 64, "truncated: tensor")]
    {
        std::fs::write(bench.path("input.gguf"), &whole[..keep]).unwrap();
        let output = bench.run(&["--model", "{}/input.gguf"]);
        assert_refused(&bench, &output, &["input.gguf", part]);
    }
}

#[test]
fn other_architecture() {
    let bench = Bench::new();
    std::fs::write(bench.path("input.gguf"), model("gemma3", Type::F32)).unwrap();
    let output = bench.run(&["--model", "{}/input.gguf"]);
    assert_refused(&bench, &output, &["input.gguf", "'gemma3' is not supported", "supported: llama"]);
}

#[test]
fn model_without_a_tokenizer() {
    let bench = Bench::new();
    let mut bytes = model("llama", Type::F32);
    // The tokenizer's kind is a text of four bytes; "none" is as long as "gpt2".
    let at = bytes.windows(4).position(|w| w == b"gpt2").unwrap();
    bytes[at..at + 4].copy_from_slice(b"none");
    std::fs::write(bench.path("input.gguf"), bytes).unwrap();
    let output = bench.run(&["--model", "{}/input.gguf"]);
    assert_refused(&bench, &output, &["input.gguf", "no tokenizer"]);
}

#[test]
fn options_out_of_range() {
    let bench = Bench::new();
    for (arguments, parts) in [
        (["--modules", "q,attn_v"], vec!["--modules", "'attn_v'", "q, k, v, o, gate, up, down"]),
        (["--rank", "0"], vec!["--rank 0", "1 to 1024"]),
        (["--rank", "1025"], vec!["--rank 1025", "1 to 1024"]),
        (["--steps", "0"], vec!["--steps 0", "at least one"]),
        (["--seq", "1"], vec!["--seq 1"]),
        (["--seq", "257"], vec!["--seq 257", "context has 256"]),
        (["--alpha", "NaN"], vec!["--alpha NaN", "positive"]),
        (["--lr", "-1"], vec!["--lr"]),
    ] {
        let arguments: Vec<String> = vec![format!("{}={}", arguments[0], arguments[1])];
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = match arguments[0].strip_prefix("--seq=") {
            Some(n) => bench.run(&["--seq", n]),
            None => bench.run(&arguments),
        };
        assert_refused(&bench, &output, &parts);
    }
}

#[test]
fn data_without_a_usable_dialogue() {
    let bench = Bench::new();
    let long = dialogue("q", &"la ".repeat(40));
    for (text, parts) in [
        (String::new(), vec!["no usable dialogue", "0 lines"]),
        ("{\"text\": 1}\n\nnonsense".to_owned(), vec!["no usable dialogue", "2 malformed (line 1: ", "3: "]),
        (dialogue("q", " "), vec!["no usable dialogue", "1 without an answer (line 1)"]),
        (long, vec!["no usable dialogue", "1 longer than 64 tokens (line 1: "]),
    ] {
        std::fs::write(bench.path("input.jsonl"), text).unwrap();
        let output = bench.run(&["--data", "{}/input.jsonl"]);
        let mut all = vec!["input.jsonl"];
        all.extend(parts);
        assert_refused(&bench, &output, &all);
    }
}

#[test]
fn template_with_an_error() {
    let bench = Bench::new();
    std::fs::write(bench.path("input.jinja"), "{% for %}").unwrap();
    let output = bench.run(&["--chat-template", "{}/input.jinja"]);
    assert_refused(&bench, &output, &["input.jinja", "syntax error"]);
}

#[test]
fn device_that_is_not_there() {
    let bench = Bench::new();
    // With the plugin built there is no Vulkan driver to be found, without it there is no plugin.
    let plugin = std::path::Path::new(env!("CARGO_BIN_EXE_fblayout-finetune")).with_file_name("libggml_fblayout.so");
    let why = if plugin.exists() { "no driver" } else { "no plugin" };
    for name in ["FBLayout0", "Vulkan7"] {
        let output = bench.run(&["--device", name]);
        assert_refused(&bench, &output, &[&format!("device '{name}'"), why, "present: CPU"]);
    }
    let output = bench.run(&["--plugin", "{}/none.so"]);
    assert_refused(&bench, &output, &["none.so", "no such file"]);
    std::fs::write(bench.path("input.so"), [b'x'; 4096]).unwrap();
    let output = bench.run(&["--plugin", "{}/input.so"]);
    assert_refused(&bench, &output, &["input.so", "invalid ELF header"]);
}

#[test]
fn places_that_cannot_be_written() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("input.d")).unwrap();
    for option in ["--out", "--metrics"] {
        let output = bench.run(&[option, "{}/input.d"]);
        assert_refused(&bench, &output, &["input.d", "folder"]);
    }
}

#[test]
fn diverging_training_writes_nothing() {
    let bench = Bench::new();
    let output = bench.run(&["--lr", "1e30", "--steps", "5"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{stderr}");
    assert!(stderr.trim_end().lines().last().unwrap().contains("--lr"), "{stderr}");
    assert_eq!(bench.left_behind(), [""; 0]);
}
