//! Compiles every variant of the manifest to `spirv/` and records the hash of the sources.
//!
//! `--check` writes nothing and fails where the committed bytes differ. `--counted FOLDER` compiles every variant with `COUNTED`
//! instead, to modules that count their accesses for the tests of the cost model; they are not committed.

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
    let sources = Sources::new(Path::new(env!("CARGO_MANIFEST_DIR")));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => run(&sources, false).map(|count| format!("{count} shaders compiled")),
        ["--check"] => run(&sources, true).map(|count| format!("{count} shaders are as committed")),
        ["--counted", folder] => counted(&sources, Path::new(folder)).map(|count| format!("{count} shaders count")),
        _ => Err("takes nothing, --check, or --counted FOLDER".to_owned()),
    };
    match done {
        Ok(done) => {
            println!("{done}");
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

/// Compiles every variant with `COUNTED` to a folder, which is made if need be.
fn counted(sources: &Sources, folder: &Path) -> Result<usize, String> {
    let compiler = Compiler::new().map_err(|e| e.to_string())?;
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let variants = sources.variants().map_err(|e| e.to_string())?;
    for mut variant in variants.iter().cloned() {
        variant.defines.push(("COUNTED".to_owned(), None));
        let path = folder.join(format!("{}.spv", variant.name));
        fs::write(&path, compile(&compiler, sources, &variant)?).map_err(|e| failed(&path, e))?;
    }
    Ok(variants.len())
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
