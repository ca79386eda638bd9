//! The words of a module, unpacked when they are first asked for.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::OnceLock;

use crate::pack::unpack;

/// A SPIR-V module. Equal, and of equal hash, by what it is stored as: telling modules apart unpacks none.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spirv(Stored);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stored {
    Words(&'static [u32]),
    Packed(&'static Packed),
}

/// A module that the build script packed.
pub struct Packed {
    bytes: &'static [u8],
    words: usize,
    unpacked: OnceLock<Result<Vec<u32>, String>>,
}

impl Spirv {
    /// The module of these words.
    pub const fn new(words: &'static [u32]) -> Self {
        Self(Stored::Words(words))
    }

    /// The module that is packed there.
    pub const fn packed(packed: &'static Packed) -> Self {
        Self(Stored::Packed(packed))
    }

    /// The words; those of an embedded module are unpacked once and then kept.
    /// An error says that the library is damaged, and how.
    pub fn words(&self) -> Result<&'static [u32], &'static str> {
        match self.0 {
            Stored::Words(words) => Ok(words),
            Stored::Packed(packed) => {
                let unpacked = packed.unpacked.get_or_init(|| unpack(packed.bytes, packed.words));
                unpacked.as_deref().map_err(String::as_str)
            }
        }
    }

    /// Bytes that the module takes in the library.
    pub fn stored_bytes(&self) -> usize {
        match self.0 {
            Stored::Words(words) => size_of_val(words),
            Stored::Packed(packed) => packed.bytes.len(),
        }
    }
}

impl fmt::Debug for Spirv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Stored::Words(words) => write!(f, "Spirv({} words)", words.len()),
            Stored::Packed(packed) => write!(f, "Spirv({} words in {} bytes)", packed.words, packed.bytes.len()),
        }
    }
}

impl Packed {
    /// `bytes` are what `pack` makes of so many words.
    pub const fn new(bytes: &'static [u8], words: usize) -> Self {
        Self { bytes, words, unpacked: OnceLock::new() }
    }
}

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        (self.words, self.bytes) == (other.words, other.bytes)
    }
}

impl Eq for Packed {}

impl Hash for Packed {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.words, self.bytes).hash(state);
    }
}
