//! Models of random weights at the true shapes of known ones, for machines that cannot be sent big files.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use anyhow::{Result, bail};
use fblayout_models::{Config, Gate};
use ggml_host::Type;
use ggml_host::gguf::Writer;
use ggml_host::quantize;

/// Rows of a matrix that differ; further ones repeat them, since encoding a whole vocabulary takes minutes.
const ROWS: usize = 1024;

/// Types of weights by name.
const TYPES: [(&str, Type); 4] = [("f32", Type::F32), ("f16", Type::F16), ("q8_0", Type::Q8_0), ("q4_0", Type::Q4_0)];

/// Writes the model that `name` means, such as `llama-3.2-1b:q8_0`, as a GGUF file without a tokenizer.
///
/// # Errors
/// Models and types that are not known, models that are not of Llama's architecture, files that cannot be written.
pub fn write(name: &str, to: &Path) -> Result<()> {
    let Some((model, dtype)) = name.split_once(':') else {
        bail!("'{name}' is neither a file nor MODEL:TYPE, such as llama-3.2-1b:q8_0");
    };
    let config = fblayout_models::find(model)?;
    let Some((_, dtype)) = TYPES.into_iter().find(|(known, _)| *known == dtype) else {
        bail!("type '{dtype}' is not one of {}", TYPES.map(|(name, _)| name).join(", "));
    };
    if config.qkv_bias || config.qk_norm || config.post_norms || config.sliding.is_some() || config.gate != Gate::SwiGlu
    {
        bail!("{model} is not of Llama's architecture");
    }
    let mut file = Writer::new(2 + 9 * config.layers as usize);
    describe(&config, &mut file)?;
    let mut noise = Noise(1);
    let Config { width, layers, ffn, vocab, .. } = config;
    let [width, ffn, vocab] = [width, ffn, vocab].map(|n| n as usize);
    let [queries, keys] = [config.heads, config.kv_heads].map(|n| config.heads_width(n) as usize);
    let mut matrix = |file: &mut Writer, name: String, input: usize, output: usize| -> Result<()> {
        let values = noise.take(input * output.min(ROWS), 1.0 / (input as f32).sqrt());
        let rows = quantize(dtype, input, &values)?;
        let bytes = dtype.row_bytes(input) * output;
        Ok(file.add(&name, dtype, &[input, output], rows.iter().copied().cycle().take(bytes).collect())?)
    };
    let gain = |file: &mut Writer, name: String| -> Result<()> {
        let ones = std::iter::repeat_n(1.0_f32.to_le_bytes(), width).flatten().collect();
        Ok(file.add(&name, Type::F32, &[width], ones)?)
    };
    matrix(&mut file, "token_embd.weight".into(), width, vocab)?;
    gain(&mut file, "output_norm.weight".into())?;
    for layer in 0..layers {
        let named = |name: &str| format!("blk.{layer}.{name}.weight");
        gain(&mut file, named("attn_norm"))?;
        gain(&mut file, named("ffn_norm"))?;
        for (name, input, output) in [
            ("attn_q", width, queries),
            ("attn_k", width, keys),
            ("attn_v", width, keys),
            ("attn_output", queries, width),
            ("ffn_gate", width, ffn),
            ("ffn_up", width, ffn),
            ("ffn_down", ffn, width),
        ] {
            matrix(&mut file, named(name), input, output)?;
        }
    }
    file.write(&mut BufWriter::new(File::create(to)?))?;
    Ok(())
}

fn describe(config: &Config, file: &mut Writer) -> Result<()> {
    file.set_text("general.architecture", "llama")?;
    file.set_text("tokenizer.ggml.model", "none")?;
    for (key, value) in [
        ("block_count", config.layers),
        ("context_length", 8192),
        ("embedding_length", config.width),
        ("feed_forward_length", config.ffn),
        ("attention.head_count", config.heads),
        ("attention.head_count_kv", config.kv_heads),
        ("rope.dimension_count", config.head_dim),
        ("vocab_size", config.vocab),
    ] {
        file.set_u32(&format!("llama.{key}"), value)?;
    }
    file.set_f32("llama.rope.freq_base", config.rotary.base)?;
    Ok(file.set_f32("llama.attention.layer_norm_rms_epsilon", config.norm_eps)?)
}

/// Random numbers, the same in every run: a linear congruential generator (Knuth, Numerical Recipes).
struct Noise(u32);

impl Noise {
    /// `n` numbers between `-scale` and `scale`.
    fn take(&mut self, n: usize, scale: f32) -> Vec<f32> {
        let mut next = || {
            self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((self.0 >> 8) as f32 / (1 << 23) as f32 - 1.0) * scale
        };
        (0..n).map(|_| next()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ggml_host::gguf::Reader;

    #[test]
    fn the_tensors_of_a_known_model_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("model.gguf");
        write("smollm2-135m:q4_0", &file).unwrap();
        let reader = Reader::open(&file).unwrap();
        assert_eq!(reader.tensors().len(), 2 + 9 * 30);
        let down = reader.tensors().iter().find(|tensor| tensor.name == "blk.29.ffn_down.weight").unwrap();
        assert_eq!(down.extents[..2], [1536, 576]);
        for (name, why) in [("smollm2-135m", "neither"), ("llama-4:f16", "llama-4"), ("gemma-3-1b:f16", "architecture")]
        {
            let error = write(name, &file).unwrap_err().to_string();
            assert!(error.contains(why), "{name}: {error}");
        }
    }
}
