//! LoRA pairs: which projections have one, their start values, and the adapter file.

use ggml_host::gguf::Writer;
use ggml_host::{Context, Tensor, Type};

use crate::error::{Error, Result};
use crate::model::Hyper;
use crate::options::Init;
use crate::output::Output;
use crate::rng::Rng;

/// A linear projection of a llama layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    /// Queries.
    Q,
    /// Keys.
    K,
    /// Values.
    V,
    /// Attention output.
    O,
    /// Gate of the feed-forward part.
    Gate,
    /// Input of the feed-forward part.
    Up,
    /// Output of the feed-forward part.
    Down,
}

impl Module {
    /// All of them, in the order of a layer.
    pub const ALL: [Module; 7] = [Module::Q, Module::K, Module::V, Module::O, Module::Gate, Module::Up, Module::Down];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        ["q", "k", "v", "o", "gate", "up", "down"][self as usize]
    }

    /// Name of the weight in layer `layer` of a GGUF file.
    pub fn weight(self, layer: usize) -> String {
        let part = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"][self as usize];
        format!("blk.{layer}.{part}.weight")
    }

    /// Input and output width.
    pub fn widths(self, h: &Hyper) -> (usize, usize) {
        let (q, kv) = (h.heads * h.head_width, h.kv_heads * h.head_width);
        match self {
            Module::Q => (h.width, q),
            Module::K | Module::V => (h.width, kv),
            Module::O => (q, h.width),
            Module::Gate | Module::Up => (h.width, h.feed_forward),
            Module::Down => (h.feed_forward, h.width),
        }
    }

    /// The modules of a list such as `q,v` or `all`, each once, in the order of a layer.
    pub fn parse_list(list: &str) -> Result<Vec<Module>> {
        if list.trim() == "all" {
            return Ok(Module::ALL.to_vec());
        }
        let names = Module::ALL.map(Module::name).join(", ");
        let wanted: Vec<&str> = list.split(',').map(str::trim).collect();
        if let Some(unknown) = wanted.iter().find(|w| Module::ALL.iter().all(|m| m.name() != **w)) {
            let rule = format!("'{unknown}' is not a module; there are {names}, and all");
            return Err(Error::Option { option: "--modules", value: list.to_owned(), rule });
        }
        Ok(Module::ALL.into_iter().filter(|m| wanted.contains(&m.name())).collect())
    }
}

/// A trained tensor with its AdamW moments, all F32.
#[derive(Clone, Copy)]
pub struct Param<'c> {
    /// The values.
    pub value: Tensor<'c>,
    /// First moment.
    pub m: Tensor<'c>,
    /// Second moment.
    pub v: Tensor<'c>,
}

impl<'c> Param<'c> {
    fn new(context: &'c Context, extents: [usize; 2], name: &str) -> Result<Param<'c>> {
        let new = || context.tensor(Type::F32, &extents);
        Ok(Param { value: new().named(name)?.mark_param(), m: new(), v: new() })
    }
}

/// `A [in, rank]` and `B [rank, out]` of one projection: `y = W x + scale * B (A x)`.
#[derive(Clone, Copy)]
pub struct Pair<'c> {
    /// Down to the rank.
    pub a: Param<'c>,
    /// Up to the output.
    pub b: Param<'c>,
}

/// The adapter of a model.
pub struct Lora<'c> {
    /// One row per layer, one place per module.
    layers: Vec<[Option<Pair<'c>>; 7]>,
    /// alpha / rank.
    pub scale: f32,
    alpha: f32,
}

impl<'c> Lora<'c> {
    /// Number of tensors that [`Lora::new`] makes.
    pub fn tensors(layers: usize, modules: &[Module]) -> usize {
        layers * modules.len() * 6
    }

    /// Pairs on `modules` of every layer, without memory yet.
    pub fn new(context: &'c Context, h: &Hyper, modules: &[Module], rank: usize, alpha: f32) -> Result<Lora<'c>> {
        let pair = |layer: usize, module: Module| -> Result<Option<Pair<'c>>> {
            if !modules.contains(&module) {
                return Ok(None);
            }
            let ((input, output), name) = (module.widths(h), module.weight(layer));
            let a = Param::new(context, [input, rank], &format!("{name}.lora_a"))?;
            let b = Param::new(context, [rank, output], &format!("{name}.lora_b"))?;
            Ok(Some(Pair { a, b }))
        };
        let mut layers = Vec::with_capacity(h.layers);
        for layer in 0..h.layers {
            let mut row = [None; 7];
            for module in Module::ALL {
                row[module as usize] = pair(layer, module)?;
            }
            layers.push(row);
        }
        Ok(Lora { layers, scale: alpha / rank as f32, alpha })
    }

    /// The pair of a projection, if it has one.
    pub fn pair(&self, layer: usize, module: Module) -> Option<&Pair<'c>> {
        self.layers[layer][module as usize].as_ref()
    }

    /// Every trained tensor, in a fixed order: A and B of each pair.
    pub fn params(&self) -> impl Iterator<Item = &Param<'c>> {
        self.layers.iter().flatten().flatten().flat_map(|pair| [&pair.a, &pair.b])
    }

    /// Number of trained values.
    pub fn trained_values(&self) -> usize {
        self.params().map(|p| p.value.len()).sum()
    }

    /// Uploads the start values. Each tensor draws from a stream of its own, so that layers are not alike.
    pub fn init(&self, init: Init, seed: u64) -> Result<()> {
        for (stream, param) in self.params().enumerate() {
            let t = param.value;
            let mut rng = Rng::new(seed, stream as u64);
            let is_a = stream.is_multiple_of(2);
            let values = match init {
                _ if is_a => rng.normal(t.len(), 1.0 / (t.extents()[0] as f64).sqrt()),
                Init::ZeroB => vec![0.0; t.len()],
                // Small enough that the adapted model still works.
                Init::Random => rng.normal(t.len(), 0.02),
            };
            t.set_f32(&values)?;
            param.m.set_f32(&vec![0.0; t.len()])?;
            param.v.set_f32(&vec![0.0; t.len()])?;
        }
        Ok(())
    }

    /// Writes the adapter in the form that llama.cpp loads.
    pub fn write(&self, architecture: &str, out: Output) -> Result<()> {
        let mut file = Writer::new(self.params().count());
        file.set_text("general.type", "adapter")?;
        file.set_text("general.architecture", architecture)?;
        file.set_text("adapter.type", "lora")?;
        file.set_f32("adapter.lora.alpha", self.alpha)?;
        for param in self.params() {
            let t = param.value;
            let mut bytes = vec![0u8; t.bytes()];
            t.get_bytes(0, &mut bytes)?;
            file.add(&t.name(), Type::F32, &t.extents()[..2], bytes)?;
        }
        out.write_gguf(&file)
    }
}

#[cfg(test)]
mod tests {
    use super::Module;

    #[test]
    fn lists_of_modules() {
        assert_eq!(Module::parse_list("all").unwrap(), Module::ALL);
        assert_eq!(Module::parse_list("v, q,q").unwrap(), [Module::Q, Module::V]);
        for bad in ["", "q,,v", "qq", "attn_q", "Q"] {
            let message = Module::parse_list(bad).unwrap_err().to_string();
            assert!(message.contains("--modules") && message.contains("gate"), "{message}");
        }
    }
}
