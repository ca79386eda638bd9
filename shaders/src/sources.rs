//! The manifest of shader variants and the hashes that tie the committed SPIR-V to its sources.
//!
//! Shared by the build script, the compiler and the tests; each of them uses a part.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What the SPIR-V is compiled for; part of the hash, so that changing it makes the committed SPIR-V stale.
pub const COMPILE_OPTIONS: &str = "vulkan1.1 spirv1.3 performance no-debug, MATRIX2: vulkan1.3 spirv1.6";

/// The define of variants that compute with matrix units.
pub const MATRIX: &str = "MATRIX";

/// The define of those of them whose units take sums as factors, and tell the greatest of a row (VK_NV_cooperative_matrix2).
pub const MATRIX2: &str = "MATRIX2";

/// The variants that one compiler makes the modules of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Those that any shaderc compiles, a distribution's too.
    Ordinary,
    /// Those with [`MATRIX`]: younger GLSL, which the shaderc crate's own sources know.
    Matrix,
}

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

impl Variant {
    /// Which compiler it is for.
    pub fn part(&self) -> Part {
        if self.has(MATRIX) { Part::Matrix } else { Part::Ordinary }
    }

    /// Whether it is compiled with [`MATRIX2`].
    pub fn takes_sums(&self) -> bool {
        self.has(MATRIX2)
    }

    fn has(&self, wanted: &str) -> bool {
        self.defines.iter().any(|(define, _)| define == wanted)
    }
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

    /// File of the committed hash of a part.
    pub fn hash_file(&self, part: Part) -> PathBuf {
        self.spirv().join(match part {
            Part::Ordinary => "sources.sha256",
            Part::Matrix => "matrix.sha256",
        })
    }

    /// Whether the committed modules of a part are older than what they are made from.
    pub fn stale(&self, part: Part) -> io::Result<bool> {
        let committed = fs::read_to_string(self.hash_file(part)).unwrap_or_default();
        Ok(committed.trim() != self.hash(part)?)
    }

    /// The variants of the manifest, sorted by name.
    pub fn variants(&self) -> io::Result<Vec<Variant>> {
        parse_manifest(&fs::read_to_string(self.manifest())?).map_err(io::Error::other)
    }

    /// Hash, in hexadecimal, over options, lines of the manifest and files of a part; empty if no variant is in it.
    pub fn hash(&self, part: Part) -> io::Result<String> {
        let variants: Vec<Variant> = self.variants()?.into_iter().filter(|v| v.part() == part).collect();
        if variants.is_empty() {
            return Ok(String::new());
        }
        let mut hasher = Sha256::new();
        let mut field = |bytes: &[u8]| {
            // Lengths keep neighbouring fields apart.
            hasher.update((bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(COMPILE_OPTIONS.as_bytes());
        for Variant { name, source, defines } in &variants {
            field(format!("{name} {source} {defines:?}").as_bytes());
        }
        for (name, text) in self.files(variants.into_iter().map(|v| v.source).collect())? {
            field(name.as_bytes());
            field(text.as_bytes());
        }
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// These files of `glsl/` with all that they include, by name.
    fn files(&self, mut wanted: Vec<String>) -> io::Result<BTreeMap<String, String>> {
        let mut found = BTreeMap::new();
        while let Some(name) = wanted.pop() {
            if found.contains_key(&name) {
                continue;
            }
            let path = self.glsl().join(&name);
            let fail = |reason: &str| io::Error::other(format!("{}: {reason}", path.display()));
            let text = fs::read_to_string(&path).map_err(|e| fail(&e.to_string()))?;
            for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("#include")) {
                let included = line.trim().strip_prefix('"').and_then(|rest| rest.split_once('"'));
                wanted.push(included.ok_or_else(|| fail("an #include names no file in quotes"))?.0.to_owned());
            }
            found.insert(name, text);
        }
        Ok(found)
    }
}
