//! Compiles every variant of the manifest to `spirv/` and records the hash of the sources.
//!
//! `--check` writes nothing and fails where the committed bytes differ.

#[path = "../sources.rs"]
mod sources;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use shaderc::{
    CompileOptions, Compiler, EnvVersion, OptimizationLevel, ResolvedInclude, ShaderKind, SpirvVersion, TargetEnv,
};
use sources::{Sources, Variant};

fn main() -> ExitCode {
    let check = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--check") => true,
        Some(other) => {
            eprintln!("compile-shaders: unknown argument {other}; the only one is --check");
            return ExitCode::FAILURE;
        }
    };
    match run(&Sources::new(Path::new(env!("CARGO_MANIFEST_DIR"))), check) {
        Ok(count) => {
            println!("{count} shaders {}", if check { "are as committed" } else { "compiled" });
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("compile-shaders: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles everything, then writes (or compares) the files; nothing is written when one shader fails.
fn run(sources: &Sources, check: bool) -> Result<usize, String> {
    let compiler = Compiler::new().map_err(|e| e.to_string())?;
    let mut files = Vec::new();
    let spirv = sources.spirv();
    for variant in sources.variants().map_err(|e| e.to_string())? {
        files.push((spirv.join(format!("{}.spv", variant.name)), compile(&compiler, sources, &variant)?));
    }
    let count = files.len();
    let hash = sources.hash().map_err(|e| e.to_string())?;
    files.push((sources.hash_file(), format!("{hash}\n").into_bytes()));

    let present = fs::read_dir(&spirv).map_err(|e| format!("{}: {e}", spirv.display()))?;
    for entry in present {
        let path = entry.map_err(|e| e.to_string())?.path();
        let known = files.iter().any(|(file, _)| *file == path);
        if !known && check {
            return Err(format!("{} is in no line of the manifest", path.display()));
        }
        if !known {
            fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    for (path, bytes) in files {
        if fs::read(&path).is_ok_and(|committed| committed == bytes) {
            continue;
        }
        if check {
            return Err(format!("{} differs from what its source compiles to: run ./x shaders", path.display()));
        }
        fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(count)
}

fn compile(compiler: &Compiler, sources: &Sources, variant: &Variant) -> Result<Vec<u8>, String> {
    let mut options = CompileOptions::new().map_err(|e| e.to_string())?;
    options.set_target_env(TargetEnv::Vulkan, EnvVersion::Vulkan1_1 as u32);
    options.set_target_spirv(SpirvVersion::V1_3);
    options.set_optimization_level(OptimizationLevel::Performance);
    options.set_warnings_as_errors();
    for (define, value) in &variant.defines {
        options.add_macro_definition(define, value.as_deref());
    }
    let glsl = sources.glsl();
    options.set_include_callback(move |name, _, _, _| {
        let path = glsl.join(name);
        let content = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(ResolvedInclude { resolved_name: name.to_owned(), content })
    });
    let path = sources.glsl().join(&variant.source);
    let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let artifact = compiler
        .compile_into_spirv(&text, ShaderKind::Compute, &variant.source, "main", Some(&options))
        .map_err(|e| format!("shader {}: {e}", variant.name))?;
    Ok(artifact.as_binary_u8().to_vec())
}
