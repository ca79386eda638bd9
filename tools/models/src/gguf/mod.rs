//! GGUF files as far as a plan needs them: metadata and the list of tensors. No tensor's content is read.
//!
//! A file is `GGUF`, a version, the numbers of tensors and of keys, the keys with their typed values, the tensors' names, extents, types
//! and offsets, and the tensors' bytes; all little-endian. Whatever a file claims is checked against its length before it is believed.

mod config;
mod reader;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use fblayout::graph::{DType, Desc, Shape};

use crate::Model;
use reader::Reader;

/// Tensors that belong to no parameter: divisors of the rotation's frequencies.
const ROPE_FREQUENCIES: &str = "rope_freqs.weight";

/// Why a file is no model that can be planned.
#[derive(Debug, thiserror::Error)]
pub enum GgufError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It breaks the format.
    #[error("byte {at}: {rule}")]
    Malformed {
        /// Where in the file.
        at: u64,
        /// The rule.
        rule: String,
    },
    /// A key of its metadata is missing or has a value that no model here has.
    #[error("{key}: {rule}")]
    Key {
        /// The key.
        key: String,
        /// The rule.
        rule: String,
    },
    /// A tensor is missing, or is not what the model needs.
    #[error("tensor {name}: {rule}")]
    Tensor {
        /// Its name.
        name: String,
        /// The rule.
        rule: String,
    },
}

/// A value of the metadata, as far as it is kept: long lists and lists of anything but integers are only counted.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Integer(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    Integers(Vec<i128>),
    List(u64),
}

/// Element type by its number in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Type(u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tensor {
    kind: Type,
    shape: Shape,
}

/// What a file says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Gguf {
    keys: BTreeMap<String, Value>,
    tensors: BTreeMap<String, Tensor>,
}

impl Gguf {
    /// Reads the head of a file.
    ///
    /// # Errors
    /// The file cannot be read, or breaks the format.
    pub fn open(path: &Path) -> Result<Self, GgufError> {
        let file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        Self::read(std::io::BufReader::new(file), length)
    }

    /// Reads the head of a file of `length` bytes.
    ///
    /// # Errors
    /// As [`Gguf::open`].
    pub fn read(file: impl Read, length: u64) -> Result<Self, GgufError> {
        Reader::new(file, length).head()
    }

    /// Gives the frozen matrices of a model the element types that they have in the file.
    ///
    /// # Errors
    /// A matrix has a type without kernels.
    pub fn keep_types(&self, model: &mut Model) -> Result<(), GgufError> {
        for parameter in model.parameters.iter().filter(|p| !p.trained) {
            let Some(tensor) = self.tensors.get(&parameter.name) else { continue };
            let value = &mut model.graph.values[parameter.value.index()];
            if value.shape[1] > 1 {
                value.dtype = tensor.kind.dtype().ok_or_else(|| GgufError::Tensor {
                    name: parameter.name.clone(),
                    rule: format!(
                        "no kernel reads its type {}; F32, F16, Q8_0 and Q4_1 can be planned instead",
                        tensor.kind
                    ),
                })?;
            }
        }
        Ok(())
    }

    /// Checks that the file has the tensors that a model has, and no others.
    ///
    /// # Errors
    /// The first tensor that is missing, has another shape, or has no place in the model.
    pub fn check(&self, model: &Model) -> Result<(), GgufError> {
        let fail = |name: &str, rule: String| Err(GgufError::Tensor { name: name.to_owned(), rule });
        let mut wanted = BTreeMap::new();
        for parameter in model.parameters.iter().filter(|p| !p.is_pair()) {
            wanted.insert(parameter.name.as_str(), model.graph.values[parameter.value.index()].shape);
        }
        for (name, shape) in &wanted {
            match self.tensors.get(*name) {
                Some(tensor) if tensor.shape == *shape => {}
                Some(tensor) => return fail(name, format!("has shape {:?}, the model's is {shape:?}", tensor.shape)),
                None => return fail(name, format!("missing; the model has one of shape {shape:?}")),
            }
        }
        match self.tensors.keys().find(|name| !wanted.contains_key(name.as_str()) && *name != ROPE_FREQUENCIES) {
            Some(name) => fail(name, "has no place in the model that the metadata describes".to_owned()),
            None => Ok(()),
        }
    }
}

impl Type {
    /// The element type, if kernels read it.
    fn dtype(self) -> Option<DType> {
        match self.0 {
            0 => Some(DType::F32),
            1 => Some(DType::F16),
            3 => Some(DType::Q4_1),
            8 => Some(DType::Q8_0),
            _ => None,
        }
    }

    /// Bytes of a tensor, where the type is known.
    fn bytes(self, shape: Shape) -> Option<u64> {
        let dtype = self.dtype()?;
        let aligned = shape[0].is_multiple_of(dtype.block());
        aligned.then(|| Desc { dtype, shape }.bytes())
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const NAMES: [(u32, &str); 33] = [
            (0, "F32"),
            (1, "F16"),
            (2, "Q4_0"),
            (3, "Q4_1"),
            (6, "Q5_0"),
            (7, "Q5_1"),
            (8, "Q8_0"),
            (9, "Q8_1"),
            (10, "Q2_K"),
            (11, "Q3_K"),
            (12, "Q4_K"),
            (13, "Q5_K"),
            (14, "Q6_K"),
            (15, "Q8_K"),
            (16, "IQ2_XXS"),
            (17, "IQ2_XS"),
            (18, "IQ3_XXS"),
            (19, "IQ1_S"),
            (20, "IQ4_NL"),
            (21, "IQ3_S"),
            (22, "IQ2_S"),
            (23, "IQ4_XS"),
            (24, "I8"),
            (25, "I16"),
            (26, "I32"),
            (27, "I64"),
            (28, "F64"),
            (29, "IQ1_M"),
            (30, "BF16"),
            (34, "TQ1_0"),
            (35, "TQ2_0"),
            (39, "MXFP4"),
            (40, "NVFP4"),
        ];
        match NAMES.iter().find(|(number, _)| *number == self.0) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "number {}", self.0),
        }
    }
}
