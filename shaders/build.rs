//! Embeds the committed SPIR-V, packed, and what reflection says of it; refuses SPIR-V that is older than its sources.

#[allow(dead_code, reason = "the library unpacks")]
#[path = "src/pack.rs"]
mod pack;
#[allow(dead_code, reason = "the library and the tests use the rest")]
#[path = "src/reflect.rs"]
mod reflect;
#[allow(dead_code, reason = "the compiler and the tests use the rest")]
#[path = "src/sources.rs"]
mod sources;

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use reflect::Reflection;
use sources::{Part, Sources};

fn main() {
    for path in ["build.rs", "src", "glsl", "manifest", "spirv"] {
        println!("cargo::rerun-if-changed={path}");
    }
    if let Err(error) = generate() {
        println!("cargo::error={error}");
    }
}

fn generate() -> Result<(), String> {
    let root = env::var("CARGO_MANIFEST_DIR").map_err(|e| e.to_string())?;
    let sources = Sources::new(Path::new(&root));
    let mut stale = false;
    for (part, remedy) in [(Part::Ordinary, "./x shaders"), (Part::Matrix, "./x shaders --matrix")] {
        stale |= sources.stale(part).map_err(|e| e.to_string())?;
        // The compiler of the SPIR-V must build while the SPIR-V is stale.
        if stale && env::var_os("CARGO_FEATURE_COMPILE").is_none() {
            return Err(format!("the committed SPIR-V is older than shaders/glsl or shaders/manifest: run {remedy}"));
        }
    }
    let out = env::var("OUT_DIR").map_err(|e| e.to_string())?;
    let out = Path::new(&out);
    let mut code = String::from("/// Every shader, sorted by name.\npub static SHADERS: &[Shader] = &[\n");
    let variants = if stale { Vec::new() } else { sources.variants().map_err(|e| e.to_string())? };
    for variant in variants {
        let path = sources.spirv().join(format!("{}.spv", variant.name));
        write_shader(&mut code, out, &variant.name, &path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    code.push_str("];\n");
    fs::write(out.join("shaders.rs"), code).map_err(|e| e.to_string())
}

/// Packs the module into a file of `out` and writes its entry of the table.
fn write_shader(code: &mut String, out: &Path, name: &str, path: &Path) -> Result<(), String> {
    let words = words(&fs::read(path).map_err(|e| e.to_string())?)?;
    let packed = out.join(format!("{name}.packed"));
    fs::write(&packed, pack::pack(&words)).map_err(|e| e.to_string())?;
    let Reflection { bindings, constants, matrix, matrix_sums, dots } = reflect::reflect(&words)?;
    let len = words.len();
    let write = |code: &mut String| {
        write!(code, "    Shader {{ name: {name:?}, spirv: {{ static PACKED: Packed = ")?;
        write!(code, "Packed::new(include_bytes!({packed:?}), {len}); Spirv::packed(&PACKED) }}, bindings: &[")?;
        for (binding, kind) in bindings {
            write!(code, "Binding {{ binding: {binding}, kind: BindingKind::{kind:?} }}, ")?;
        }
        writeln!(
            code,
            "], constants: &{constants:?}, matrix: {matrix:?}, matrix_sums: {matrix_sums:?}, dots: {dots:?} }},"
        )
    };
    write(code).map_err(|e| e.to_string())
}

/// The words of a SPIR-V file.
fn words(bytes: &[u8]) -> Result<Vec<u32>, String> {
    if !bytes.len().is_multiple_of(4) {
        return Err(format!("{} bytes are no whole number of words", bytes.len()));
    }
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}
