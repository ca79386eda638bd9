//! A GGUF model of the llama architecture: its numbers, and its weights on a device.

use std::path::{Path, PathBuf};

use ggml_host::gguf::{Reader, TensorInfo};
use ggml_host::llama::Model;
use ggml_host::{Context, Device, Rope, RopeMode, Tensor, Type, Usage, dequantize, quantize};

use crate::error::{Error, Result};
use crate::lora::Module;
use crate::options::BaseType;

/// Architectures whose graph we build.
const SUPPORTED: &str = "llama";

/// The numbers that shape the graph.
#[derive(Clone, Debug)]
pub struct Hyper {
    /// Number of layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides the query heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_width: usize,
    /// Inner width of the feed-forward part.
    pub feed_forward: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Longest context the model was trained for.
    pub context: usize,
    /// Epsilon of the norms.
    pub epsilon: f32,
    /// Rotary embedding.
    pub rope: Rope,
}

/// A model file that has passed every check.
pub struct ModelFile {
    path: PathBuf,
    reader: Reader,
    /// Its numbers.
    pub hyper: Hyper,
    /// The chat template stored in it.
    pub chat_template: Option<String>,
}

/// One layer's frozen weights.
pub struct Layer<'c> {
    /// Norm before attention.
    pub attention_norm: Tensor<'c>,
    /// Norm before the feed-forward part.
    pub feed_forward_norm: Tensor<'c>,
    projections: [Tensor<'c>; 7],
}

impl<'c> Layer<'c> {
    /// The weight `[in, out]` of a projection.
    pub fn projection(&self, module: Module) -> Tensor<'c> {
        self.projections[module as usize]
    }
}

/// The frozen weights on a device.
pub struct Weights<'c> {
    /// `[width, vocabulary]`.
    pub embedding: Tensor<'c>,
    /// `[width, vocabulary]`; the embedding itself where the file has no other.
    pub head: Tensor<'c>,
    /// Norm before the head.
    pub output_norm: Tensor<'c>,
    /// Divisors of the rotary frequencies, in models that have them.
    pub rope_factors: Option<Tensor<'c>>,
    /// The layers, from the input up.
    pub layers: Vec<Layer<'c>>,
    /// Bytes on the device.
    pub bytes: usize,
}

impl ModelFile {
    /// Opens a file and checks that it is a model whose graph we can build.
    pub fn open(path: &Path) -> Result<ModelFile> {
        let reader = Reader::open(path)?;
        let fail = |rule: String| Error::Model { path: path.display().to_string(), rule };
        let architecture =
            reader.text("general.architecture").ok_or_else(|| fail("has no general.architecture".into()))?;
        if architecture != SUPPORTED {
            return Err(fail(format!("architecture '{architecture}' is not supported; supported: {SUPPORTED}")));
        }
        let hyper = read_hyper(&reader).map_err(fail)?;
        let chat_template = reader.text("tokenizer.chat_template");
        let file = ModelFile { path: path.to_owned(), reader, hyper, chat_template };
        file.check_tensors()?;
        Ok(file)
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Architecture, as the file spells it.
    pub fn architecture(&self) -> &'static str {
        SUPPORTED
    }

    /// Loads the file's vocabulary; every token must have a row in the embedding.
    pub fn load_vocabulary(&self) -> Result<Model> {
        if self.reader.text("tokenizer.ggml.model").is_none_or(|kind| kind == "none") {
            return Err(self.fail("has no tokenizer".to_owned()));
        }
        let model = Model::load_vocabulary(&self.path)?;
        let tokens = model.vocabulary().len();
        if tokens != self.hyper.vocabulary {
            return Err(
                self.fail(format!("{tokens} tokens, but {} rows in 'token_embd.weight'", self.hyper.vocabulary))
            );
        }
        Ok(model)
    }

    fn fail(&self, rule: String) -> Error {
        Error::Model { path: self.path.display().to_string(), rule }
    }

    /// Name and extents of every tensor that the graph knows; the last two may be missing in the file.
    fn expected(&self) -> Vec<(String, Vec<usize>)> {
        let h = &self.hyper;
        let mut all = vec![
            ("token_embd.weight".to_owned(), vec![h.width, h.vocabulary]),
            ("output_norm.weight".to_owned(), vec![h.width]),
        ];
        for layer in 0..h.layers {
            all.push((format!("blk.{layer}.attn_norm.weight"), vec![h.width]));
            all.push((format!("blk.{layer}.ffn_norm.weight"), vec![h.width]));
            for module in Module::ALL {
                let (input, output) = module.widths(h);
                all.push((module.weight(layer), vec![input, output]));
            }
        }
        all.push(("output.weight".to_owned(), vec![h.width, h.vocabulary]));
        all.push(("rope_freqs.weight".to_owned(), vec![h.rope.dims / 2]));
        all
    }

    /// The graph must use every tensor of the file: one that it does not know would silently change the model.
    fn check_tensors(&self) -> Result<()> {
        let expected = self.expected();
        let optional = expected.len() - 2;
        for (i, (name, extents)) in expected.iter().enumerate() {
            let Some(info) = self.reader.tensor(name) else {
                if i < optional {
                    return Err(self.fail(format!("tensor '{name}' is missing")));
                }
                continue;
            };
            let mut padded = [1; 4];
            padded[..extents.len()].copy_from_slice(extents);
            if info.extents != padded {
                return Err(self.fail(format!("tensor '{name}' has extents {:?}, not {padded:?}", info.extents)));
            }
        }
        let known = |t: &&TensorInfo| expected.iter().any(|(name, _)| *name == t.name);
        match self.reader.tensors().iter().find(|t| !known(t)) {
            Some(t) => Err(self.fail(format!("tensor '{}' has no place in the supported {SUPPORTED} graph", t.name))),
            None => Ok(()),
        }
    }

    /// Number of tensors that [`ModelFile::load`] makes.
    pub fn tensors(&self) -> usize {
        self.reader.tensors().len()
    }

    /// Puts the weights on a device. Matrices become `base`; vectors are F32.
    pub fn load<'c>(&self, context: &'c Context, device: Device, base: BaseType) -> Result<Weights<'c>> {
        let tensor = |name: &str| -> Result<Option<Tensor<'c>>> {
            let Some(info) = self.reader.tensor(name) else { return Ok(None) };
            let axes = if info.extents[1] == 1 { 1 } else { 2 };
            let dtype = if axes == 1 { Type::F32 } else { base.of(info.dtype) };
            if !info.extents[0].is_multiple_of(dtype.block_len()) {
                let (n, block) = (info.extents[0], dtype.block_len());
                return Err(
                    self.fail(format!("tensor '{name}': rows of {n} do not fill blocks of {block} of type {dtype}"))
                );
            }
            Ok(Some(context.tensor(dtype, &info.extents[..axes]).named(name)?))
        };
        let required = |name: &str| tensor(name)?.ok_or_else(|| self.fail(format!("tensor '{name}' is missing")));
        let mut layers = Vec::with_capacity(self.hyper.layers);
        for layer in 0..self.hyper.layers {
            let mut projections = Vec::with_capacity(7);
            for module in Module::ALL {
                projections.push(required(&module.weight(layer))?);
            }
            layers.push(Layer {
                attention_norm: required(&format!("blk.{layer}.attn_norm.weight"))?,
                feed_forward_norm: required(&format!("blk.{layer}.ffn_norm.weight"))?,
                projections: projections.try_into().unwrap_or_else(|_| unreachable!("one weight per module")),
            });
        }
        let embedding = required("token_embd.weight")?;
        let head = tensor("output.weight")?.unwrap_or(embedding);
        let output_norm = required("output_norm.weight")?;
        let rope_factors = tensor("rope_freqs.weight")?;
        let bytes = context.allocate(device, Usage::Weights, "the base weights")?;
        for t in context.tensors() {
            let name = t.name();
            let info = self.reader.tensor(&name).ok_or_else(|| self.fail(format!("tensor '{name}' is missing")))?;
            t.set_bytes(0, &convert(self.reader.read(info)?, info.dtype, t)?)?;
        }
        Ok(Weights { embedding, head, output_norm, rope_factors, layers, bytes })
    }
}

fn convert(stored: Vec<u8>, from: Type, to: Tensor<'_>) -> Result<Vec<u8>> {
    if from == to.dtype() {
        return Ok(stored);
    }
    Ok(quantize(to.dtype(), to.extents()[0], &dequantize(from, &stored)?)?)
}

fn read_hyper(reader: &Reader) -> std::result::Result<Hyper, String> {
    let key = |name: &str| format!("{SUPPORTED}.{name}");
    let uint = |name: &str| match reader.uint(&key(name)) {
        Some(n) if n > 0 => Ok(n),
        _ => Err(format!("'{}' is missing or not a positive number", key(name))),
    };
    let optional = |name: &str, default: usize| reader.uint(&key(name)).unwrap_or(default);
    if let Some(kind) = reader.text(&key("rope.scaling.type")).filter(|kind| kind != "none") {
        return Err(format!("rope scaling of type '{kind}' is not supported"));
    }
    let (width, heads) = (uint("embedding_length")?, uint("attention.head_count")?);
    let kv_heads = optional("attention.head_count_kv", heads);
    let head_width = optional("attention.key_length", width / heads);
    if optional("attention.value_length", head_width) != head_width {
        return Err(format!("keys and values of different widths are not supported (keys have {head_width})"));
    }
    if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
        return Err(format!("{heads} query heads cannot share {kv_heads} key heads evenly"));
    }
    let rope_dims = optional("rope.dimension_count", head_width);
    if rope_dims == 0 || !rope_dims.is_multiple_of(2) || rope_dims > head_width {
        return Err(format!(
            "'{}' is {rope_dims}; it must be even and at most {head_width}",
            key("rope.dimension_count")
        ));
    }
    let epsilon = reader.float(&key("attention.layer_norm_rms_epsilon"));
    let embedding = reader.tensor("token_embd.weight").ok_or("tensor 'token_embd.weight' is missing")?;
    Ok(Hyper {
        layers: uint("block_count")?,
        width,
        heads,
        kv_heads,
        head_width,
        feed_forward: uint("feed_forward_length")?,
        vocabulary: embedding.extents[1],
        context: uint("context_length")?,
        epsilon: epsilon.ok_or_else(|| format!("'{}' is missing", key("attention.layer_norm_rms_epsilon")))?,
        rope: Rope {
            dims: rope_dims,
            // Converters permute the rows of llama's queries and keys so that neighbours form the pairs.
            mode: RopeMode::Normal,
            freq_base: reader.float(&key("rope.freq_base")).unwrap_or(10000.0),
            freq_scale: 1.0,
        },
    })
}
