//! Files that a test writes itself: small models, and what breaks them.

use super::{Gguf, GgufError};
use crate::{Config, Options, Training, find, loss_graph, train_graph};
use fblayout::graph::{DType, Shape};

/// A file in the making.
#[derive(Clone, Default)]
struct File {
    keys: Vec<(String, u32, Vec<u8>)>,
    tensors: Vec<(String, Shape, u32)>,
}

fn text(s: &str) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat()
}

impl File {
    fn set(&mut self, key: &str, kind: u32, bytes: Vec<u8>) -> &mut Self {
        self.keys.retain(|(name, ..)| name != key);
        self.keys.push((key.to_owned(), kind, bytes));
        self
    }

    fn count(&mut self, key: &str, n: u32) -> &mut Self {
        self.set(key, 4, n.to_le_bytes().to_vec())
    }

    fn number(&mut self, key: &str, x: f32) -> &mut Self {
        self.set(key, 6, x.to_le_bytes().to_vec())
    }

    /// The file with all tensors' bytes.
    fn bytes(&self) -> Vec<u8> {
        let mut file = b"GGUF".to_vec();
        file.extend(3u32.to_le_bytes());
        file.extend((self.tensors.len() as u64).to_le_bytes());
        file.extend((self.keys.len() as u64).to_le_bytes());
        for (key, kind, value) in &self.keys {
            file.extend(text(key));
            file.extend(kind.to_le_bytes());
            file.extend(value);
        }
        let mut offset = 0u64;
        for (name, shape, kind) in &self.tensors {
            file.extend(text(name));
            file.extend(4u32.to_le_bytes());
            shape.iter().for_each(|&n| file.extend(u64::from(n).to_le_bytes()));
            file.extend(kind.to_le_bytes());
            file.extend(offset.to_le_bytes());
            let elements: u64 = shape.iter().map(|&n| u64::from(n)).product();
            let (block, bytes) = match kind {
                0 => (1, 4),
                8 => (32, 34),
                3 => (32, 20),
                _ => (1, 2),
            };
            offset += (elements / block * bytes).next_multiple_of(32);
        }
        file.resize(file.len().next_multiple_of(32) + offset as usize, 0);
        file
    }

    fn read(&self) -> Result<Gguf, GgufError> {
        read(&self.bytes())
    }
}

fn read(bytes: &[u8]) -> Result<Gguf, GgufError> {
    Gguf::read(bytes, bytes.len() as u64)
}

fn options() -> Options {
    Options::new(1, 5, Training::Lora { rank: 2, alpha: 2.0, base: DType::F16 })
}

/// The file of a small model of an architecture. Matrices are of type `kind`.
fn file(architecture: &str, config: &Config, kind: u32) -> File {
    let mut file = File::default();
    file.set("general.architecture", 8, text(architecture));
    let tokens = [&8u32.to_le_bytes()[..], &2u64.to_le_bytes(), &text("a"), &text("bc")].concat();
    file.set("tokenizer.ggml.tokens", 9, tokens);
    let mut set = |key: &str, n: u32| {
        file.count(&format!("{architecture}.{key}"), n);
    };
    set("block_count", config.layers);
    set("embedding_length", config.width);
    set("context_length", config.rotary.context);
    set("attention.head_count", config.heads);
    set("attention.head_count_kv", config.kv_heads);
    set("attention.key_length", config.head_dim);
    set("attention.value_length", config.head_dim);
    set("feed_forward_length", config.ffn);
    if let Some(sliding) = config.sliding {
        set("attention.sliding_window", sliding.window);
    }
    let mut set = |key: &str, x: f32| {
        file.number(&format!("{architecture}.{key}"), x);
    };
    set("attention.layer_norm_rms_epsilon", config.norm_eps);
    set("rope.freq_base", config.rotary.base);
    for (key, cap) in [("attn_logit_softcapping", config.score_cap), ("final_logit_softcapping", config.logit_cap)] {
        if let Some(cap) = cap {
            set(key, cap);
        }
    }
    let model = loss_graph(config, &options()).unwrap();
    for parameter in model.parameters.iter().filter(|p| !p.is_pair()) {
        let shape = model.graph.values[parameter.value.index()].shape;
        file.tensors.push((parameter.name.clone(), shape, if shape[1] > 1 { kind } else { 0 }));
    }
    if config.rotary.scaling.is_some() {
        file.tensors.push(("rope_freqs.weight".into(), [config.head_dim / 2, 1, 1, 1], 0));
    }
    file
}

/// The five architectures in small, with the layers' pattern of the true size.
fn models() -> Vec<(&'static str, Config)> {
    let names = [
        ("llama", "llama-3.2-1b"),
        ("qwen2", "qwen2.5-1.5b"),
        ("qwen3", "qwen3-1.7b"),
        ("gemma2", "gemma-2-2b"),
        ("gemma3", "gemma-3-1b"),
    ];
    let small = |name| {
        let known = find(name).unwrap();
        let sliding = known.sliding;
        Config { width: 64, ffn: 96, head_dim: 32, vocab: 96, sliding, ..known.tiny() }
    };
    names.map(|(architecture, name)| (architecture, small(name))).to_vec()
}

fn refusal(file: &File) -> String {
    let read = || file.read()?.config();
    read().expect_err("is refused").to_string()
}

#[test]
fn every_architecture_is_read_back() {
    for (architecture, config) in models() {
        let gguf = file(architecture, &config, 1).read().unwrap();
        let read = gguf.config().unwrap();
        let scaling = config.rotary.scaling.is_some();
        assert_eq!(read.rotary.scaling.is_some(), scaling, "{architecture}");
        let rotary = crate::Rotary { scaling: config.rotary.scaling, ..read.rotary };
        assert_eq!(Config { name: config.name, rotary, ..read.clone() }, config, "{architecture}");
        gguf.check(&loss_graph(&read, &options()).unwrap()).unwrap();
    }
}

/// Every matrix has the type that the file says, vectors and pairs stay F32, and the graph is still well formed.
#[test]
fn frozen_matrices_keep_their_types() {
    let (architecture, config) = models().remove(2);
    let mut file = file(architecture, &config, 3);
    file.tensors[0].2 = 8;
    let gguf = file.read().unwrap();
    let mut model = train_graph(&gguf.config().unwrap(), &options()).unwrap().model;
    gguf.keep_types(&mut model).unwrap();
    model.graph.verify().unwrap();
    for parameter in &model.parameters {
        let value = &model.graph.values[parameter.value.index()];
        let wanted = match parameter.name.as_str() {
            "token_embd.weight" => DType::Q8_0,
            _ if parameter.trained || value.shape[1] == 1 => DType::F32,
            _ => DType::Q4_1,
        };
        assert_eq!(value.dtype, wanted, "{}", parameter.name);
    }
    file.tensors[1].2 = 14;
    let index = file.tensors.iter().position(|(name, ..)| name == "blk.0.attn_q.weight").unwrap();
    file.tensors[index].2 = 14;
    let error = file.read().unwrap().keep_types(&mut model).unwrap_err().to_string();
    assert!(error.contains("blk.0.attn_q.weight") && error.contains("Q6_K"), "{error}");
}

#[test]
fn errors_name_the_key_and_the_rule() {
    let (_, config) = models().remove(0);
    let good = file("llama", &config, 1);
    let with = |change: &dyn Fn(&mut File)| {
        let mut file = good.clone();
        change(&mut file);
        refusal(&file)
    };
    let without = |key: &str| with(&|file| file.keys.retain(|(name, ..)| name != key));
    for key in ["general.architecture", "llama.block_count", "llama.embedding_length", "llama.feed_forward_length"] {
        assert_eq!(without(key), format!("{key}: missing"));
    }
    let other = with(&|file| {
        file.set("general.architecture", 8, text("gpt2"));
    });
    assert!(other.contains("\"gpt2\"") && other.contains("llama, qwen2, qwen3, gemma2, gemma3"), "{other}");
    let heads = with(&|file| {
        file.count("llama.attention.head_count_kv", 3);
    });
    assert!(heads.starts_with("llama.attention.head_count_kv: 3 heads of keys do not divide"), "{heads}");
    let rotated = with(&|file| {
        file.count("llama.rope.dimension_count", 16);
    });
    assert!(rotated.starts_with("llama.rope.dimension_count: is 16, must be the 32"), "{rotated}");
    let none = with(&|file| {
        file.count("llama.block_count", 0);
    });
    assert!(none.starts_with("llama.block_count: is 0"), "{none}");
    let more = with(&|file| {
        file.count("llama.block_count", 1 << 24);
    });
    assert!(more.ends_with("there is no tensor blk.16777215.attn_norm.weight"), "{more}");
    let text_for_number = with(&|file| {
        file.set("llama.block_count", 8, text("two"));
    });
    assert_eq!(text_for_number, "llama.block_count: must be an integer");
    let experts = with(&|file| {
        file.count("llama.expert_count", 8);
    });
    assert!(experts.contains("experts"), "{experts}");
    let scaled = with(&|file| {
        file.set("llama.rope.scaling.type", 8, text("yarn"));
    });
    assert!(scaled.starts_with("llama.rope.scaling.type: is \"yarn\""), "{scaled}");
    let mixed = [&4u32.to_le_bytes()[..], &2u64.to_le_bytes(), &4u32.to_le_bytes(), &8u32.to_le_bytes()].concat();
    let layers = with(&|file| {
        file.set("llama.attention.head_count", 9, mixed.clone());
    });
    assert!(layers.contains("the same in every layer"), "{layers}");
}

#[test]
fn tensors_are_those_of_the_model() {
    let (_, config) = models().remove(0);
    let good = file("llama", &config, 1);
    let check = |change: &dyn Fn(&mut File)| {
        let mut file = good.clone();
        change(&mut file);
        let gguf = file.read().unwrap();
        gguf.check(&loss_graph(&gguf.config().unwrap(), &options()).unwrap()).unwrap_err().to_string()
    };
    let missing = check(&|file| file.tensors.retain(|(name, ..)| name != "blk.1.ffn_up.weight"));
    assert!(missing.starts_with("tensor blk.1.ffn_up.weight: missing"), "{missing}");
    let more = check(&|file| file.tensors.push(("blk.1.attn_output.bias".into(), [64, 1, 1, 1], 0)));
    assert!(more.starts_with("tensor blk.1.attn_output.bias: has no place"), "{more}");
    let shape =
        check(&|file| file.tensors.iter_mut().filter(|t| t.0 == "blk.0.ffn_up.weight").for_each(|t| t.1[1] = 7));
    assert!(shape.contains("[64, 7, 1, 1]") && shape.contains("[64, 96, 1, 1]"), "{shape}");
}

/// Every prefix of a file is refused: whatever is missing is missed.
#[test]
fn a_file_cut_anywhere_is_refused() {
    let (architecture, config) = models().remove(3);
    let bytes = file(architecture, &Config { layers: 1, ..config }, 8).bytes();
    // Behind the last tensor there may be padding.
    for cut in 0..=bytes.len() - 32 {
        assert!(read(&bytes[..cut]).is_err(), "{cut} of {}", bytes.len());
    }
}

/// Bytes that are flipped give an error or another model, never a panic or a huge allocation.
#[test]
fn flipped_bytes_never_panic() {
    let (architecture, config) = models().remove(0);
    let bytes = file(architecture, &config, 1).bytes();
    let mut x = 1u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (x >> 8) as usize
    };
    let head = bytes.len().min(4096);
    for round in 0..20_000 {
        let mut broken = bytes.clone();
        for _ in 0..1 + round % 3 {
            let at = next() % head;
            broken[at] ^= 1 << (next() % 8);
        }
        let Ok(gguf) = read(&broken) else { continue };
        let Ok(config) = gguf.config() else { continue };
        if let Ok(mut model) = loss_graph(&config, &options()) {
            let _ = gguf.check(&model);
            let _ = gguf.keep_types(&mut model);
        }
    }
}
