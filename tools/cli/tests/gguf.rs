//! `fblayout plan --model PATH.gguf`, with files that the test writes.

mod common;

use std::path::Path;

use common::{json, refusal};
use fblayout::graph::{DType, elements};
use fblayout_models::{Config, Options, Training, find, loss_graph};

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat()
}

/// A small model of the qwen3 architecture, with matrices of type `kind` (and `bytes` per 32 elements) but for the table, which is F16.
fn file(kind: u32, bytes: u64) -> Vec<u8> {
    let small =
        Config { layers: 2, width: 64, heads: 4, kv_heads: 2, head_dim: 32, ffn: 96, ..find("qwen3-1.7b").unwrap() };
    let options = Options::new(1, 4, Training::Lora { rank: 2, alpha: 2.0, base: DType::F16 });
    let model = loss_graph(&small, &options).unwrap();
    let parameters: Vec<_> = model.parameters.iter().filter(|p| !p.is_pair()).collect();
    let counts = [
        ("block_count", small.layers),
        ("embedding_length", small.width),
        ("context_length", 512),
        ("attention.head_count", small.heads),
        ("attention.head_count_kv", small.kv_heads),
        ("attention.key_length", small.head_dim),
        ("feed_forward_length", small.ffn),
    ];
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes()].concat();
    file.extend((parameters.len() as u64).to_le_bytes());
    file.extend((counts.len() as u64 + 2).to_le_bytes());
    file.extend([text("general.architecture"), 8u32.to_le_bytes().to_vec(), text("qwen3")].concat());
    for (key, n) in counts {
        file.extend([text(&format!("qwen3.{key}")), 4u32.to_le_bytes().to_vec(), n.to_le_bytes().to_vec()].concat());
    }
    file.extend(
        [text("qwen3.attention.layer_norm_rms_epsilon"), 6u32.to_le_bytes().to_vec(), 1e-6f32.to_le_bytes().to_vec()]
            .concat(),
    );
    let mut offset = 0;
    for parameter in parameters {
        let shape = model.graph.values[parameter.value.index()].shape;
        let (kind, bytes) = match (parameter.name.as_str(), shape[1]) {
            ("token_embd.weight", _) => (1, 64),
            (_, 1) => (0, 128),
            _ => (kind, bytes),
        };
        file.extend(text(&parameter.name));
        file.extend(2u32.to_le_bytes());
        file.extend(shape[..2].iter().flat_map(|&n| u64::from(n).to_le_bytes()));
        file.extend(kind.to_le_bytes());
        file.extend(u64::to_le_bytes(offset));
        offset += (elements(&shape) / 32 * bytes).next_multiple_of(32);
    }
    file.resize(file.len().next_multiple_of(32) + offset as usize, 0);
    file
}

fn written(folder: &Path, name: &str, bytes: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn files_are_planned_in_their_own_types() {
    let folder = tempfile::tempdir().expect("a folder");
    let step = ["--seq", "16", "--rank", "2", "--device", "adreno-830", "--model"];
    let external = |name: &str, kind, bytes, extra: &[&str]| {
        let path = written(folder.path(), name, &file(kind, bytes));
        let told = json(&[&step[..], &[path.as_str()], extra].concat());
        assert_eq!(told["model"], path.as_str());
        assert!(told["transforms"]["count"].as_u64() > Some(10));
        told["external_bytes"].as_u64().expect("a number")
    };
    let [f32, f16, q8, q4] = [("f32", 0, 128), ("f16", 1, 64), ("q8", 8, 34), ("q4", 3, 20)]
        .map(|(name, kind, bytes)| external(&format!("{name}.gguf"), kind, bytes, &[]));
    assert!(f32 > f16 && f16 > q8 && q8 > q4, "{f32} {f16} {q8} {q4}");
    assert_eq!(external("as-f16.gguf", 3, 20, &["--base", "f16"]), f16, "--base overrides the file");
}

#[test]
fn files_that_are_no_such_model_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let with = |path: &str| refusal(&["--device", "adreno-830", "--model", path]);
    let missing = folder.path().join("missing.gguf");
    let told = with(missing.to_str().expect("UTF-8"));
    assert!(told.contains("missing.gguf") && told.contains("No such file"), "{told}");
    let good = file(14, 26);
    let unknown = with(&written(folder.path(), "q6.gguf", &good));
    assert!(
        unknown.contains("blk.0.attn_q.weight") && unknown.contains("Q6_K") && unknown.contains("--base"),
        "{unknown}"
    );
    let cut = with(&written(folder.path(), "cut.gguf", &file(1, 64)[..2000]));
    assert!(cut.contains("cut.gguf: byte ") || cut.contains("ends at byte"), "{cut}");
    let none = with(&written(folder.path(), "text.gguf", b"not a model"));
    assert!(none.contains("does not start with GGUF"), "{none}");
    let mut other = file(1, 64);
    let at = other.windows(5).position(|w| w == b"qwen3").expect("the architecture");
    other[at..at + 5].copy_from_slice(b"mamba");
    let architecture = with(&written(folder.path(), "mamba.gguf", &other));
    assert!(architecture.contains("general.architecture: is \"mamba\", must be one of llama"), "{architecture}");
}
