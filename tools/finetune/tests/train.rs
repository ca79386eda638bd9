//! Whole runs on the CPU, and the gradient against finite differences.

mod common;

use common::{Bench, WIDTH, metrics, model, nmse, tensor_f32, tensor_i32};
use fblayout_finetune::chat::Template;
use fblayout_finetune::dataset::{Dataset, Sample};
use fblayout_finetune::lora::{Lora, Module};
use fblayout_finetune::model::ModelFile;
use fblayout_finetune::options::{BaseType, Init};
use fblayout_finetune::spans::Encoder;
use fblayout_finetune::step::{self, Inputs, Keep, Shape, Step};
use fblayout_finetune::{device, output::Output};
use ggml_host::gguf::Reader;
use ggml_host::llama::Model;
use ggml_host::{Context, Type};

fn succeed(bench: &Bench, arguments: &[&str]) -> String {
    let output = bench.run(arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_learns_and_its_adapter_means_the_same_to_llama() {
    let bench = Bench::new();
    let stdout = succeed(&bench, &["--steps", "30", "--lr", "0.01", "--rank", "4", "--logits-out", "{}/logits.gguf"]);
    assert!(stdout.contains("before:") && stdout.contains("after:"), "{stdout}");
    assert_eq!(bench.left_behind().len(), 3, "adapter, metrics and logits: {:?}", bench.left_behind());

    let lines = metrics(&bench);
    assert_eq!(lines.len(), 30);
    let loss = |i: usize| lines[i]["loss"].as_f64().unwrap();
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line["step"], i + 1);
        assert_eq!((&line["splits"], &line["cpu_nodes"]), (&1.into(), &0.into()));
        assert!(line["lr"].as_f64().is_some_and(|x| (x - 0.01).abs() < 1e-6));
        assert!((0.0..=1.0).contains(&line["accuracy"].as_f64().unwrap()));
        assert!(line["tokens"].as_u64().unwrap() > 0 && line["tokens_per_s"].as_f64().unwrap() > 0.0);
    }
    let mean = |range: std::ops::Range<usize>| range.clone().map(loss).sum::<f64>() / range.len() as f64;
    assert!(
        mean(25..30) < 0.3 * mean(0..5),
        "three dialogues are learned by heart: {} -> {}",
        mean(0..5),
        mean(25..30)
    );

    let adapter = Reader::open(&bench.path("adapter.gguf")).unwrap();
    for (key, value) in [("general.type", "adapter"), ("general.architecture", "llama"), ("adapter.type", "lora")] {
        assert_eq!(adapter.text(key).as_deref(), Some(value));
    }
    assert_eq!(adapter.float("adapter.lora.alpha"), Some(16.0));
    assert_eq!(adapter.tensors().len(), 2 * 7 * 2);
    assert_eq!(adapter.tensor("blk.1.ffn_down.weight.lora_b").unwrap().extents, [4, WIDTH, 1, 1]);

    let (error, base) = compare_with_llama(&bench.path("model.gguf"), &bench);
    assert!(error <= 1e-6, "logits of the trainer and of llama.cpp differ: NMSE {error:.2e}");
    assert!(base > 1e-2, "the adapter changes the logits: {base:.2e}");
}

/// NMSE of the trainer's logits against llama.cpp's with the exported adapter, and against llama.cpp's without it.
fn compare_with_llama(model: &std::path::Path, bench: &Bench) -> (f64, f64) {
    let logits = bench.path("logits.gguf");
    let (ours, tokens, rows) =
        (tensor_f32(&logits, "logits"), tensor_i32(&logits, "tokens"), tensor_i32(&logits, "rows"));
    ggml_host::load_installed_backends().unwrap();
    let model = Model::load(model).unwrap();
    let adapter = model.load_adapter(&bench.path("adapter.gguf")).unwrap();
    let vocabulary = model.vocabulary().len();
    let theirs = |adapter| {
        let all = model.session(tokens.len(), adapter).unwrap().logits(&tokens).unwrap();
        let row = |&r: &i32| all[r as usize * vocabulary..][..vocabulary].to_vec();
        rows.iter().flat_map(row).collect::<Vec<f32>>()
    };
    (nmse(&ours, &theirs(Some(&adapter))), nmse(&ours, &theirs(None)))
}

/// The same comparison on the default model, with F32 base weights on both sides. Slow; needs the fetched model.
#[test]
#[ignore = "trains the default model for three steps on the CPU and writes 540 MB; run by name"]
fn the_default_models_adapter_means_the_same_to_llama() {
    let stored = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/SmolLM2-135M-Instruct.Q4_1.gguf");
    let bench = Bench::new();
    let source = Reader::open(&stored).unwrap();
    let mut copy = ggml_host::gguf::Writer::new(source.tensors().len());
    copy.copy_metadata(&source);
    for info in source.tensors() {
        let axes = info.extents.iter().rposition(|&n| n > 1).map_or(1, |last| last + 1);
        let values = ggml_host::dequantize(info.dtype, &source.read(info).unwrap()).unwrap();
        let bytes = ggml_host::quantize(Type::F32, info.extents[0], &values).unwrap();
        copy.add(&info.name, Type::F32, &info.extents[..axes], bytes).unwrap();
    }
    copy.write(&mut std::fs::File::create(bench.path("input.gguf")).unwrap()).unwrap();
    let common =
        ["--model", "{}/input.gguf", "--data", "{}/input.jsonl", "--seq", "96", "--steps", "3", "--no-generate"];
    let line = include_str!("../../../data/lighthouse.jsonl").lines().next().unwrap();
    std::fs::write(bench.path("input.jsonl"), line).unwrap();
    succeed(&bench, &[&common[..], &["--logits-out", "{}/logits.gguf"]].concat());
    let (error, base) = compare_with_llama(&bench.path("input.gguf"), &bench);
    println!("NMSE against llama.cpp with the adapter {error:.3e}, without it {base:.3e}");
    assert!(error <= 1e-6, "{error:.2e}");
    assert!(base > 1e-4, "{base:.2e}");
}

#[test]
fn runs_repeat_and_seeds_differ() {
    let bench = Bench::new();
    let adapter = |seed: &str| {
        succeed(&bench, &["--steps", "3", "--seed", seed, "--no-generate"]);
        std::fs::read(bench.path("adapter.gguf")).unwrap()
    };
    let first = adapter("5");
    assert!(first == adapter("5"), "the same seed gives the same bytes");
    assert!(first != adapter("6"));
}

#[test]
fn only_chosen_modules_are_trained() {
    let bench = Bench::new();
    succeed(&bench, &["--steps", "1", "--modules", "v,down", "--no-generate"]);
    let adapter = Reader::open(&bench.path("adapter.gguf")).unwrap();
    let names: Vec<&str> = adapter.tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names.len(), 2 * 2 * 2);
    assert!(names.iter().all(|n| n.contains("attn_v") || n.contains("ffn_down")), "{names:?}");
}

#[test]
fn start_values_are_as_promised() {
    let bench = Bench::new();
    let start = |init: &str| succeed(&bench, &["--steps", "1", "--lr", "0", "--init", init, "--no-generate"]);
    let tensor = |name: &str| tensor_f32(&bench.path("adapter.gguf"), name);
    start("zero-b");
    let (a0, a1) = (tensor("blk.0.attn_q.weight.lora_a"), tensor("blk.1.attn_q.weight.lora_a"));
    let dot = a0.iter().zip(&a1).map(|(x, y)| f64::from(x * y)).sum::<f64>();
    let norm = a0.iter().map(|x| f64::from(x * x)).sum::<f64>();
    // Independent entries: the cosine has deviation 1 / sqrt(n); n is 8 * 64.
    assert!((dot / norm).abs() < 5.0 / (a0.len() as f64).sqrt(), "layers start alike");
    assert!(tensor("blk.0.attn_q.weight.lora_b").iter().all(|&b| b == 0.0));
    start("random");
    assert!(tensor("blk.0.attn_q.weight.lora_b").iter().all(|&b| b != 0.0));
}

#[test]
fn base_types_give_close_losses() {
    let bench = Bench::new();
    std::fs::write(bench.path("input.gguf"), model("llama", Type::F16)).unwrap();
    let first = |base: &str| {
        succeed(&bench, &["--model", "{}/input.gguf", "--base-type", base, "--steps", "1", "--no-generate"]);
        metrics(&bench)[0]["loss"].as_f64().unwrap()
    };
    let (keep, f32, f16, q8) = (first("keep"), first("f32"), first("f16"), first("q8_0"));
    assert_eq!(keep, f16);
    // ggml's CPU rounds activations to f16 (11 bits) or to 8 bits for such weights.
    assert!((keep - f32).abs() / f32 < 2e-3, "{keep} {f32}");
    assert!((q8 - f32).abs() / f32 < 3e-2, "{q8} {f32}");
}

/// Loss and gradients of one sample at given values of the adapter.
struct Probe<'a> {
    file: &'a ModelFile,
    sample: &'a Sample,
    shape: Shape,
}

impl Probe<'_> {
    /// `shift` moves every trained value along a fixed random direction; gradients come back in the adapter's order.
    fn run(&self, direction: &[Vec<f32>], shift: f32, out: &std::path::Path) -> (f32, Vec<Vec<f32>>) {
        let device = device::choose("CPU", None).unwrap();
        let backends = device::open(device).unwrap();
        let h = &self.file.hyper;
        let frozen = Context::new(self.file.tensors(), 0);
        let weights = self.file.load(&frozen, device, BaseType::F32).unwrap();
        let state = Context::new(Lora::tensors(h.layers, &Module::ALL) + Inputs::TENSORS, 0);
        let lora = Lora::new(&state, h, &Module::ALL, 2, 4.0).unwrap();
        let inputs = Inputs::new(&state, h, self.shape).unwrap();
        step::allocate(&state, &backends[0]).unwrap();
        lora.init(Init::Random, 9).unwrap();
        inputs.init().unwrap();
        for (param, d) in lora.params().zip(direction) {
            let mut values = param.value.get_f32().unwrap();
            values.iter_mut().zip(d).for_each(|(v, d)| *v += shift * d);
            param.value.set_f32(&values).unwrap();
        }
        let (tensors, nodes) = Step::room(h.layers);
        let graph = Context::new(tensors, nodes);
        let keep = Keep { gradients: true, logits: false };
        let mut step = Step::new(&graph, h, &weights, &lora, &inputs, &backends, keep).unwrap();
        let loss = step.run(self.sample, 0.0, 1).unwrap().loss;
        step.write_gradients(Output::create(out).unwrap()).unwrap();
        let gradients = lora.params().map(|p| tensor_f32(out, &p.value.name())).collect();
        (loss, gradients)
    }
}

#[test]
fn gradients_agree_with_finite_differences_and_padding_does_not_matter() {
    let bench = Bench::new();
    let path = bench.path("model.gguf");
    let vocabulary_only = Model::load_vocabulary(&path).unwrap();
    let template = Template::choose(None, None, String::new(), String::new()).unwrap();
    let encoder = Encoder { vocabulary: vocabulary_only.vocabulary(), template };
    let data = Dataset::read(Some(&bench.path("data.jsonl")), &encoder, 64).unwrap();
    let file = ModelFile::open(&path).unwrap();
    let sample = &data.samples[0];
    let out = bench.path("gradients.gguf");
    let targets = sample.targets().count();
    let probe = |tokens, rows| Probe { file: &file, sample, shape: Shape { tokens, rows } };

    let tight = probe(sample.inputs().len(), targets);
    let (loss, gradients) = tight.run(&[], 0.0, &out);
    let (padded_loss, padded) = probe(64, targets + 13).run(&[], 0.0, &out);
    // Sums in another order: a few hundred roundings of 2^-24 at most.
    assert!((padded_loss - loss).abs() / loss < 1e-5, "{padded_loss} {loss}");
    for (got, want) in padded.iter().zip(&gradients) {
        let error = nmse(got, want);
        assert!(error < 1e-9, "padding changes a gradient: NMSE {error:.2e}");
    }

    // Every tensor is checked along the direction of its own gradient, where the loss changes most. A central difference
    // has an error of the third derivative times step^2 / 6 and of the loss's rounding / step; 2 % leaves room for both.
    for tensor in 0..gradients.len() {
        let norm = gradients[tensor].iter().map(|g| f64::from(g * g)).sum::<f64>().sqrt();
        let mut direction: Vec<Vec<f32>> = gradients.iter().map(|g| vec![0.0; g.len()]).collect();
        direction[tensor] = gradients[tensor].iter().map(|g| (f64::from(*g) / norm) as f32).collect();
        let step = 0.02f32;
        let (above, _) = tight.run(&direction, step, &out);
        let (below, _) = tight.run(&direction, -step, &out);
        let slope = f64::from(above - below) / f64::from(2.0 * step);
        assert!((slope - norm).abs() <= 0.02 * norm + 2e-5, "tensor {tensor}: slope {slope}, gradient {norm}");
    }
}
