//! Compiles the variants of the manifest to `spirv/` and records the hash of the sources.
//!
//! Those that compute with matrix units need the feature `matrix`, which builds the compiler from its own sources, and `--matrix`, which
//! compiles nothing else: other modules are a distribution's compiler's, and each compiler has bytes of its own. Without it they stay as they
//! are, and only the hash of their sources is looked at.
//!
//! `--check` writes nothing and fails where the committed bytes differ. `--counted FOLDER` compiles every ordinary variant with `COUNTED`
//! instead, to modules that count their accesses for the tests of the cost model; they are not committed.

#[path = "../sources.rs"]
mod sources;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use shaderc::{
    CompileOptions, Compiler, EnvVersion, OptimizationLevel, ResolvedInclude, ShaderKind, SpirvVersion, TargetEnv,
};
use sources::{Part, Sources, Variant};

fn main() -> ExitCode {
    let sources = Sources::new(Path::new(env!("CARGO_MANIFEST_DIR")));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => ordinary(&sources, false),
        ["--check"] => ordinary(&sources, true),
        ["--matrix"] => matrix(&sources, false),
        ["--matrix", "--check"] | ["--check", "--matrix"] => matrix(&sources, true),
        ["--counted", folder] => counted(&sources, Path::new(folder)).map(|count| format!("{count} shaders count")),
        _ => Err("takes [--matrix] [--check], or --counted FOLDER".to_owned()),
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

/// The ordinary variants; what is said of those with matrix units is what their hash proves.
fn ordinary(sources: &Sources, check: bool) -> Result<String, String> {
    if cfg!(feature = "matrix") {
        return Err("ordinary shaders are compiled without the feature `matrix`".to_owned());
    }
    let done = run(sources, Part::Ordinary, check)?;
    if sources.stale(Part::Matrix).map_err(|e| e.to_string())? {
        return Err(format!(
            "{done}, but those with matrix units are older than their sources: run ./x shaders --matrix"
        ));
    }
    let variants = sources.variants().map_err(|e| e.to_string())?;
    let matrix = variants.iter().filter(|v| v.part() == Part::Matrix).count();
    Ok(format!(
        "{done}; {matrix} with matrix units have the sources that they were compiled from, and were not compiled again"
    ))
}

/// The variants with matrix units.
fn matrix(sources: &Sources, check: bool) -> Result<String, String> {
    if !cfg!(feature = "matrix") {
        return Err("--matrix needs the feature `matrix`".to_owned());
    }
    run(sources, Part::Matrix, check).map(|done| format!("{done}, with matrix units"))
}

/// Compiles a part, then writes (or compares) its files; nothing is written when one shader fails. What is in no line of the manifest
/// goes.
fn run(sources: &Sources, part: Part, check: bool) -> Result<String, String> {
    let spirv = sources.spirv();
    let path = |variant: &Variant| spirv.join(format!("{}.spv", variant.name));
    let (wanted, others): (Vec<Variant>, Vec<Variant>) =
        sources.variants().map_err(|e| e.to_string())?.into_iter().partition(|variant| variant.part() == part);
    let mut others: Vec<PathBuf> = others.iter().map(path).collect();
    let count = wanted.len();
    let mut files: Vec<(PathBuf, Vec<u8>)> = wanted.iter().map(path).zip(compile_all(sources, &wanted)?).collect();
    let hash = sources.hash(part).map_err(|e| e.to_string())?;
    if count > 0 {
        files.push((sources.hash_file(part), format!("{hash}\n").into_bytes()));
    }
    for part in [Part::Ordinary, Part::Matrix] {
        if !sources.hash(part).map_err(|e| e.to_string())?.is_empty() {
            others.push(sources.hash_file(part));
        }
    }

    let present = fs::read_dir(&spirv).map_err(|e| format!("{}: {e}", spirv.display()))?;
    for entry in present {
        let path = entry.map_err(|e| e.to_string())?.path();
        let known = others.contains(&path) || files.iter().any(|(file, _)| *file == path);
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
    Ok(format!("{count} shaders {}", if check { "are as committed" } else { "compiled" }))
}

/// Compiles every ordinary variant with `COUNTED` to a folder, which is made if need be.
fn counted(sources: &Sources, folder: &Path) -> Result<usize, String> {
    let failed = |path: &Path, e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(folder).map_err(|e| failed(folder, e))?;
    let mut variants = sources.variants().map_err(|e| e.to_string())?;
    variants.retain(|variant| variant.part() == Part::Ordinary);
    variants.iter_mut().for_each(|variant| variant.defines.push(("COUNTED".to_owned(), None)));
    for (variant, module) in variants.iter().zip(compile_all(sources, &variants)?) {
        let path = folder.join(format!("{}.spv", variant.name));
        fs::write(&path, module).map_err(|e| failed(&path, e))?;
    }
    Ok(variants.len())
}

/// The modules of variants, in their order. A thread for each processor takes the next variant, with a compiler of its own.
fn compile_all(sources: &Sources, variants: &[Variant]) -> Result<Vec<Vec<u8>>, String> {
    let next = AtomicUsize::new(0);
    let work = || {
        let compiler = Compiler::new().map_err(|e| e.to_string())?;
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(variant) = variants.get(at) else { return Ok(done) };
            done.push((at, compile(&compiler, sources, variant)?));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let done: Result<Vec<_>, String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("compiling does not panic")).collect()
    });
    let mut modules: Vec<_> = done?.into_iter().flatten().collect();
    modules.sort_unstable_by_key(|&(at, _)| at);
    Ok(modules.into_iter().map(|(_, module)| module).collect())
}

fn compile(compiler: &Compiler, sources: &Sources, variant: &Variant) -> Result<Vec<u8>, String> {
    let mut options = CompileOptions::new().map_err(|e| e.to_string())?;
    let (version, spirv) = match variant.takes_sums() {
        true => (EnvVersion::Vulkan1_3, SpirvVersion::V1_6),
        false => (EnvVersion::Vulkan1_1, SpirvVersion::V1_3),
    };
    options.set_target_env(TargetEnv::Vulkan, version as u32);
    options.set_target_spirv(spirv);
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
