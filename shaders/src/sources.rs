//! The manifest of shader variants and the hash that ties the committed SPIR-V to its sources.
//!
//! Shared by the build script, the compiler and the tests; each of them uses a part.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What the SPIR-V is compiled for; part of the hash, so that changing it makes the committed SPIR-V stale.
pub const COMPILE_OPTIONS: &str = "vulkan1.1 spirv1.3 performance no-debug";

/// One line of the manifest: a shader's name, its source and the macros it is compiled with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Name the kernels use, and stem of the SPIR-V file.
    pub name: String,
    /// File under `glsl/`.
    pub source: String,
    /// Macros and their values.
    pub defines: Vec<(String, Option<String>)>,
}

/// Parses the manifest: sorted by name, no name twice.
pub fn parse_manifest(text: &str) -> Result<Vec<Variant>, String> {
    let mut variants: Vec<Variant> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        let source = words.next().ok_or(format!("manifest line {}: shader {name} has no source", number + 1))?;
        let defines = words
            .map(|word| match word.split_once('=') {
                Some((define, value)) => (define.to_owned(), Some(value.to_owned())),
                None => (word.to_owned(), None),
            })
            .collect();
        if variants.iter().any(|v| v.name == name) {
            return Err(format!("manifest line {}: shader {name} is listed twice", number + 1));
        }
        variants.push(Variant { name: name.to_owned(), source: source.to_owned(), defines });
    }
    variants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(variants)
}

/// The files of the shaders crate.
pub struct Sources {
    root: PathBuf,
}

impl Sources {
    /// Files below `root`, the crate's folder.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Folder of the GLSL sources.
    pub fn glsl(&self) -> PathBuf {
        self.root.join("glsl")
    }

    /// Folder of the committed SPIR-V.
    pub fn spirv(&self) -> PathBuf {
        self.root.join("spirv")
    }

    /// File of the manifest.
    pub fn manifest(&self) -> PathBuf {
        self.root.join("manifest")
    }

    /// File of the committed hash.
    pub fn hash_file(&self) -> PathBuf {
        self.spirv().join("sources.sha256")
    }

    /// The variants of the manifest, sorted by name.
    pub fn variants(&self) -> io::Result<Vec<Variant>> {
        parse_manifest(&fs::read_to_string(self.manifest())?).map_err(io::Error::other)
    }

    /// Hash, in hexadecimal, over options, manifest and every file in `glsl/`.
    pub fn hash(&self) -> io::Result<String> {
        let mut files: Vec<PathBuf> =
            fs::read_dir(self.glsl())?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        files.sort();
        files.insert(0, self.manifest());
        let mut hasher = Sha256::new();
        hasher.update(COMPILE_OPTIONS);
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&file)?;
            // Lengths keep neighbouring fields apart.
            hasher.update((name.len() as u64).to_le_bytes());
            hasher.update(&name);
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}
