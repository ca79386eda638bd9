//! Small models and data that the tests write themselves, and runs of the program on them.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ggml_host::gguf::{Reader, Writer};
use ggml_host::{Type, dequantize, quantize};

/// Extents of the small model.
pub const WIDTH: usize = 64;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const FEED_FORWARD: usize = 96;
const LAYERS: usize = 2;

/// A folder with a small model and small data.
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    /// A model with F32 weights, and three dialogues.
    pub fn new() -> Bench {
        ggml_host::forward_logs();
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        std::fs::write(bench.path("model.gguf"), model("llama", Type::F32)).unwrap();
        let lines = [("hi", "ho there"), ("who?", "me"), ("what now", "we wait, we sing")];
        std::fs::write(bench.path("data.jsonl"), lines.map(|(q, a)| dialogue(q, a)).join("\n")).unwrap();
        bench
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the program on the CPU with the folder's model and data, unless the arguments say otherwise. No Vulkan driver
    /// is to be found, whatever the machine has.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(&[("VK_DRIVER_FILES", "/nonexistent"), ("VK_ICD_FILENAMES", "/nonexistent")], arguments)
    }

    /// [`Bench::run`] with these environment variables.
    pub fn run_with(&self, environment: &[(&str, &str)], arguments: &[&str]) -> Output {
        let mut all: Vec<String> =
            arguments.iter().map(|a| a.replace("{}", self.folder.path().to_str().unwrap())).collect();
        let defaults = [
            ("--model", "model.gguf"),
            ("--data", "data.jsonl"),
            ("--out", "adapter.gguf"),
            ("--metrics", "metrics.jsonl"),
        ];
        for (option, file) in defaults {
            if !arguments.contains(&option) {
                all.extend([option.to_owned(), self.path(file).to_str().unwrap().to_owned()]);
            }
        }
        for (option, value) in [("--device", "CPU"), ("--seq", "64")] {
            if !arguments.contains(&option) {
                all.extend([option.to_owned(), value.to_owned()]);
            }
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout-finetune"));
        command.args(&all).envs(environment.iter().copied()).output().unwrap()
    }

    /// Names in the folder that the bench did not put there.
    pub fn left_behind(&self) -> Vec<String> {
        let names =
            std::fs::read_dir(self.folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let known = ["model.gguf", "data.jsonl", "input"];
        names.filter(|n| known.iter().all(|k| !n.starts_with(k))).collect()
    }
}

/// A line of chat data.
pub fn dialogue(question: &str, answer: &str) -> String {
    serde_json::json!({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]})
        .to_string()
}

/// A small llama model with a byte vocabulary and ChatML tokens, as GGUF bytes.
pub fn model(architecture: &str, dtype: Type) -> Vec<u8> {
    let tokens = vocabulary();
    let mut file = Writer::new(64);
    file.set_text("general.architecture", architecture).unwrap();
    file.set_text("general.name", "small").unwrap();
    let numbers = [
        ("block_count", LAYERS),
        ("context_length", 256),
        ("embedding_length", WIDTH),
        ("feed_forward_length", FEED_FORWARD),
        ("attention.head_count", HEADS),
        ("attention.head_count_kv", KV_HEADS),
        ("rope.dimension_count", WIDTH / HEADS),
        ("vocab_size", tokens.len()),
    ];
    for (key, value) in numbers {
        file.set_u32(&format!("{architecture}.{key}"), value as u32).unwrap();
    }
    file.set_f32(&format!("{architecture}.attention.layer_norm_rms_epsilon"), 1e-5).unwrap();
    file.set_f32(&format!("{architecture}.rope.freq_base"), 10000.0).unwrap();
    file.set_text("tokenizer.ggml.model", "gpt2").unwrap();
    file.set_text("tokenizer.ggml.pre", "smollm").unwrap();
    file.set_texts("tokenizer.ggml.tokens", &tokens).unwrap();
    // 1 marks text, 3 control tokens.
    let kinds: Vec<i32> = (0..tokens.len()).map(|i| if i < 3 { 3 } else { 1 }).collect();
    file.set_i32s("tokenizer.ggml.token_type", &kinds).unwrap();
    file.set_texts("tokenizer.ggml.merges", &["h e", "i n"]).unwrap();
    file.set_u32("tokenizer.ggml.bos_token_id", 1).unwrap();
    file.set_u32("tokenizer.ggml.eos_token_id", 2).unwrap();
    file.set_u32("tokenizer.ggml.padding_token_id", 2).unwrap();
    file.set_bool("tokenizer.ggml.add_bos_token", false).unwrap();

    let mut seed = 1;
    let mut matrix = |name: &str, input: usize, output: usize, size: f32| {
        let data = quantize(dtype, input, &noise(&mut seed, input * output, size)).unwrap();
        file.add(name, dtype, &[input, output], data).unwrap();
    };
    let kv = WIDTH / HEADS * KV_HEADS;
    matrix("token_embd.weight", WIDTH, tokens.len(), 1.0);
    for il in 0..LAYERS {
        for (part, input, output) in [
            ("attn_q", WIDTH, WIDTH),
            ("attn_k", WIDTH, kv),
            ("attn_v", WIDTH, kv),
            ("attn_output", WIDTH, WIDTH),
            ("ffn_gate", WIDTH, FEED_FORWARD),
            ("ffn_up", WIDTH, FEED_FORWARD),
            ("ffn_down", FEED_FORWARD, WIDTH),
        ] {
            matrix(&format!("blk.{il}.{part}.weight"), input, output, 1.5 / (input as f32).sqrt());
        }
    }
    let ones: Vec<u8> = std::iter::repeat_n(1.0f32.to_le_bytes(), WIDTH).flatten().collect();
    let norms = (0..LAYERS).flat_map(|il| ["attn", "ffn"].map(|p| format!("blk.{il}.{p}_norm.weight")));
    for name in norms.chain(["output_norm.weight".to_owned()]) {
        file.add(&name, Type::F32, &[WIDTH], ones.clone()).unwrap();
    }
    let mut bytes = Vec::new();
    file.write(&mut bytes).unwrap();
    bytes
}

/// Control tokens, then one token per byte in the spelling of byte-level vocabularies, then two merged ones.
fn vocabulary() -> Vec<String> {
    let mut tokens: Vec<String> = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"].map(str::to_owned).to_vec();
    let printable = |b: u32| (0x21..=0x7e).contains(&b) || (0xa1..=0xac).contains(&b) || (0xae..=0xff).contains(&b);
    let mut moved = 0x100..;
    for byte in 0..256u32 {
        let code = if printable(byte) { Some(byte) } else { moved.next() };
        tokens.push(code.and_then(char::from_u32).unwrap().to_string());
    }
    tokens.extend(["he".to_owned(), "in".to_owned()]);
    tokens
}

fn noise(seed: &mut u64, n: usize, size: f32) -> Vec<f32> {
    *seed += 1;
    fblayout_finetune::rng::Rng::new(42, *seed).normal(n, f64::from(size))
}

/// The values of a tensor of a GGUF file, as f32.
pub fn tensor_f32(path: &Path, name: &str) -> Vec<f32> {
    let reader = Reader::open(path).unwrap();
    let info = reader.tensor(name).unwrap_or_else(|| panic!("{name} is in {}", path.display()));
    dequantize(info.dtype, &reader.read(info).unwrap()).unwrap()
}

/// The values of an I32 tensor of a GGUF file.
pub fn tensor_i32(path: &Path, name: &str) -> Vec<i32> {
    let reader = Reader::open(path).unwrap();
    let bytes = reader.read(reader.tensor(name).unwrap()).unwrap();
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// Squared error over squared size.
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let sum = |f: &dyn Fn(f64, f64) -> f64| got.iter().zip(want).map(|(&g, &w)| f(g.into(), w.into())).sum::<f64>();
    sum(&|g, w| (g - w).powi(2)) / sum(&|_, w| w * w)
}

/// The metrics that the last run wrote.
pub fn metrics(bench: &Bench) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(bench.path("metrics.jsonl")).unwrap();
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

/// What a failed run says: one line on stderr, and nothing left behind.
pub fn assert_refused(bench: &Bench, output: &Output, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "the run should fail: {stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "one line: {stderr}");
    for part in parts {
        assert!(stderr.contains(part), "'{part}' is missing: {stderr}");
    }
    assert_eq!(bench.left_behind(), [""; 0], "nothing is left behind");
}
