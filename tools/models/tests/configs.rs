//! The models' configurations and the graphs at true size.

mod common;

use common::options;
use fblayout::graph::{DType, Op, elements};
use fblayout_models::{Config, MODELS, Options, Training, causal_mask, find, loss_graph, train_graph};

const LORA: Training = Training::Lora { rank: 8, alpha: 16.0, base: DType::F16 };

/// Numbers of parameters as published; they depend on every extent of a configuration.
#[test]
fn parameters_are_as_many_as_published() {
    let published = [
        ("llama-3.2-1b", 1_235_814_400),
        ("qwen2.5-1.5b", 1_543_714_304),
        ("qwen3-1.7b", 1_720_574_976),
        ("gemma-2-2b", 2_614_341_888),
        ("gemma-3-1b", 999_885_952),
    ];
    for (name, count) in published {
        let model = loss_graph(&find(name).unwrap(), &Options::new(1, 512, Training::Full)).unwrap();
        let shape = |id: fblayout::graph::ValueId| model.graph.values[id.index()].shape;
        assert_eq!(model.parameters.iter().map(|p| elements(&shape(p.value))).sum::<u64>(), count, "{name}");
    }
}

#[test]
fn true_sizes_make_well_formed_steps() {
    for config in MODELS {
        for training in [LORA, Training::Full] {
            let train = train_graph(&config, &Options::new(2, 128, training)).unwrap();
            let graph = &train.model.graph;
            graph.verify().unwrap();
            let steps = graph.nodes.iter().filter(|n| n.op == Op::AdamW).count();
            let trained = train.model.parameters.iter().filter(|p| p.trained).count();
            let pairs = 7 * 2 * config.layers as usize;
            assert_eq!((steps, train.updates.len()), (trained, trained), "{}", config.name);
            assert_eq!(trained, if training == LORA { pairs } else { train.model.parameters.len() }, "{}", config.name);
        }
    }
}

/// Every copy of the forward pass joins heads: one per layer.
#[test]
fn a_layer_asks_for_one_copy() {
    for config in MODELS {
        let model = loss_graph(&config, &Options::new(1, 512, LORA)).unwrap();
        let copies = model.graph.nodes.iter().filter(|n| n.op == Op::Copy).count();
        assert_eq!(copies, config.layers as usize, "{}", config.name);
    }
}

#[test]
fn layers_slide_as_published() {
    let global = |name: &str| -> Vec<u32> {
        let config = find(name).unwrap();
        (0..config.layers).filter(|&l| config.is_global(l)).collect()
    };
    assert_eq!(global("gemma-3-1b"), [5, 11, 17, 23]);
    assert_eq!(global("gemma-2-2b"), (1..26).step_by(2).collect::<Vec<_>>());
    assert_eq!(global("qwen3-1.7b").len(), 28);
    let gemma = find("gemma-3-1b").unwrap();
    assert_eq!((gemma.rope(4).freq_base, gemma.rope(5).freq_base), (1e4, 1e6));
}

#[test]
fn masks_are_causal_and_slide() {
    let seen = |window| causal_mask(4, window).iter().map(|&m| u8::from(m == 0.0)).collect::<Vec<_>>();
    assert_eq!(seen(None), [1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 1]);
    assert_eq!(seen(Some(2)), [1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1]);
}

/// Pair 0 turns every 2 pi tokens and is left alone; the last pair turns once in 2.5 million tokens and is slowed 32 times.
#[test]
fn llama_stretches_low_frequencies_alone() {
    let divisors = find("llama-3.2-1b").unwrap().frequency_divisors().unwrap();
    assert_eq!((divisors.len(), divisors[0], divisors[31]), (32, 1.0, 32.0));
    assert!(divisors.is_sorted());
    // A pair turns 8192 / (2 pi) 500000^(-pair / 32) times in 8192 tokens: 4 times at pair 14.1, once at 17.5.
    assert_eq!(divisors.iter().filter(|&&d| d > 1.0 && d < 32.0).count(), 3);
    assert_eq!(find("qwen3-1.7b").unwrap().frequency_divisors(), None);
}

#[test]
fn tiny_models_keep_the_structure() {
    for config in MODELS {
        let tiny = config.tiny();
        assert_eq!(tiny.heads / tiny.kv_heads, config.heads / config.kv_heads);
        assert_eq!(tiny.sliding.is_some(), (0..2).any(|l| !tiny.is_global(l)));
        let ops = |config: &Config| -> Vec<&str> {
            let train = train_graph(config, &options(LORA_F32)).unwrap();
            let mut names: Vec<_> = train.model.graph.nodes.iter().map(|n| n.op.row().name).collect();
            names.sort_unstable();
            names.dedup();
            names
        };
        assert_eq!(ops(&tiny), ops(&config), "{}", config.name);
    }
}

const LORA_F32: Training = Training::Lora { rank: 3, alpha: 6.0, base: DType::F32 };

#[test]
fn bad_input_is_named() {
    let refusal = |config: &Config, options| train_graph(config, &options).unwrap_err().to_string();
    let tiny = find("gemma-2-2b").unwrap().tiny();
    assert!(find("llama-4").unwrap_err().to_string().contains("llama-3.2-1b, qwen2.5-1.5b"));
    assert!(refusal(&tiny, Options::new(0, 5, LORA)).contains("0 sequences of 5 tokens"));
    assert!(refusal(&tiny, Options::new(1 << 20, 1 << 20, LORA)).contains("2^31"));
    assert!(refusal(&tiny, Options { targets: 11, ..Options::new(2, 5, LORA) }).contains("11 positions"));
    let rank_0 = Training::Lora { rank: 0, alpha: 1.0, base: DType::F16 };
    assert!(refusal(&tiny, Options::new(2, 5, rank_0)).contains("rank"));
    let quantized = Training::Lora { rank: 1, alpha: 1.0, base: DType::Q4_1 };
    let blocks = refusal(&tiny, Options::new(2, 5, quantized));
    assert!(blocks.contains("node embedding") && blocks.contains("Q4_1 block"), "{blocks}");
    let uneven = Config { heads: 5, kv_heads: 2, ..tiny };
    let heads = refusal(&uneven, Options::new(2, 5, LORA));
    assert!(heads.contains("blk.0.scores") && heads.contains("must divide"), "{heads}");
}
