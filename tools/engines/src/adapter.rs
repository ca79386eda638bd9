//! A LoRA adapter with random factors for whatever model there is.

use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use ggml_host::Type;
use ggml_host::gguf::{Reader, Writer};

/// Rank of the factors.
const RANK: usize = 4;

/// Adapted weights: queries and the MLP's last.
const ADAPTED: [&str; 2] = ["attn_q.weight", "ffn_down.weight"];

/// Writes an adapter for a model.
pub fn write(model: &Path, to: &Path) -> Result<()> {
    let reader = Reader::open(model)?;
    let adapted: Vec<_> =
        reader.tensors().iter().filter(|tensor| ADAPTED.iter().any(|name| tensor.name.ends_with(name))).collect();
    let mut file = Writer::new(2 * adapted.len());
    file.set_text("general.type", "adapter")?;
    file.set_text(
        "general.architecture",
        &reader.text("general.architecture").context("a model names its architecture")?,
    )?;
    file.set_text("adapter.type", "lora")?;
    file.set_f32("adapter.lora.alpha", RANK as f32)?;
    let mut state = 1_u32;
    let mut factor = |count: usize, scale: f32| -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((state >> 8) as f32 / (1 << 24) as f32 - 0.5) * scale
        };
        (0..count).flat_map(|_| next().to_le_bytes()).collect()
    };
    for tensor in adapted {
        let (input, output) = (tensor.extents[0], tensor.extents[1]);
        file.add(&format!("{}.lora_a", tensor.name), Type::F32, &[input, RANK], factor(input * RANK, 0.1))?;
        file.add(&format!("{}.lora_b", tensor.name), Type::F32, &[RANK, output], factor(output * RANK, 0.1))?;
    }
    file.write(&mut File::create(to)?)?;
    Ok(())
}
