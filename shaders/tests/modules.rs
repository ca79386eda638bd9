//! Every committed module against two judges that share no code with the compiler or each other: spirv-val, and naga
//! after the specialization constants are frozen.

#[allow(dead_code, reason = "the build script and the compiler use the rest")]
#[path = "../src/sources.rs"]
mod sources;

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use fblayout_shaders::{SHADERS, Shader};
use sources::{MATRIX, Part};

/// Shaders that naga cannot take, with the reason; one that it takes after all fails the test.
const NAGA_SKIPS: &[(&str, &str)] = &[("probe", "high halves of products, which naga does not know")];

/// Why no module with matrix units is for naga.
const NAGA_SKIPS_MATRIX: &str = "matrices of a subgroup, which naga does not read";

/// Why no module with dot products of packed bytes is.
const NAGA_SKIPS_DOTS: &str = "instructions of SPV_KHR_integer_dot_product, which naga does not read";

/// What spirv-val says of the capabilities of matrix units where it is older than them; the layer under `FBL_VALIDATION` validates the
/// modules on devices that run them.
const UNKNOWN_TO_SPIRV_VAL: &str = "Invalid capability operand";

fn sources() -> sources::Sources {
    sources::Sources::new(Path::new(env!("CARGO_MANIFEST_DIR")))
}

fn module(shader: &Shader) -> PathBuf {
    sources().spirv().join(format!("{}.spv", shader.name))
}

/// Runs a tool of the spirv-tools package; what it complained about when it failed.
fn tool(name: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(name)
        .args(arguments)
        .output()
        .unwrap_or_else(|e| panic!("{name} does not start ({e}): install spirv-tools, these tests need it"));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Constants that turn every operand into the given storage and dtype, a whole number of blocks long, in workgroups of 64.
fn frozen_values(shader: &Shader, storage: u32, dtype: u32) -> String {
    let operands = shader.bindings.len() as u32 / 2;
    let mut values = vec!["0:64".to_owned()];
    for p in 0..operands {
        values.push(format!("{}:{storage} {}:{dtype} {}:256", 64 + 48 * p, 65 + 48 * p, 68 + 48 * p));
    }
    values.join(" ")
}

fn naga_accepts(shader: &Shader, storage: u32, dtype: u32, folder: &Path) -> Result<(), String> {
    let frozen = folder.join(format!("{}.{storage}.{dtype}.spv", shader.name));
    let path = |p: &Path| p.to_string_lossy().into_owned();
    tool(
        "spirv-opt",
        &[
            "--set-spec-const-default-value",
            &frozen_values(shader, storage, dtype),
            "--freeze-spec-const",
            "--fold-spec-const-op-composite",
            "--unify-const",
            "--eliminate-dead-code-aggressive",
            "--strip-debug",
            &path(&module(shader)),
            "-o",
            &path(&frozen),
        ],
    )?;
    let bytes = fs::read(&frozen).map_err(|e| e.to_string())?;
    let parsed = naga::front::spv::parse_u8_slice(&bytes, &naga::front::spv::Options::default())
        .map_err(|e| format!("naga does not parse it: {e:?}"))?;
    naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::all())
        .validate(&parsed)
        .map(|_| ())
        .map_err(|e| format!("naga does not validate it: {:?}", e.into_inner()))
}

#[test]
fn every_variant_of_the_manifest_is_embedded() {
    let variants = sources().variants().unwrap();
    let listed: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
    let embedded: Vec<&str> = SHADERS.iter().map(|s| s.name).collect();
    assert_eq!(listed, embedded);
    for shader in SHADERS {
        assert_eq!(fblayout_shaders::get(shader.name), Some(shader));
    }
    assert_eq!(fblayout_shaders::get("no such shader"), None);
}

#[test]
fn modules_marked_so_are_those_with_matrix_units() {
    for variant in sources().variants().unwrap() {
        let shader = fblayout_shaders::get(&variant.name).unwrap();
        assert_eq!(
            shader.matrix,
            variant.part() == Part::Matrix,
            "{}: its define {MATRIX} and its module",
            variant.name
        );
    }
}

#[test]
fn modules_that_multiply_packed_bytes_are_those_of_dots() {
    for shader in SHADERS {
        assert_eq!(shader.dots, shader.name.starts_with("gemm_dots"), "{}", shader.name);
    }
}

#[test]
fn a_part_is_as_old_as_what_it_is_made_from() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    for name in ["glsl", "spirv"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    write("manifest", "plain a.comp\n");
    write("glsl/a.comp", "#include \"both.glsl\"\n");
    write("glsl/m.comp", "  #include \"m.glsl\"\n#include \"both.glsl\"\n");
    write("glsl/m.glsl", "// a matrix\n");
    write("glsl/both.glsl", "// both\n");
    let sources = sources::Sources::new(folder.path());
    let stale = || [Part::Ordinary, Part::Matrix].map(|part| sources.stale(part).unwrap());
    let commit = || {
        for part in [Part::Ordinary, Part::Matrix] {
            fs::write(sources.hash_file(part), sources.hash(part).unwrap() + "\n").unwrap();
        }
    };
    assert_eq!(stale(), [true, false], "a part without variants asks for nothing");
    write("manifest", "plain a.comp\nproduct m.comp MATRIX\n");
    assert_eq!(stale(), [true, true]);
    commit();
    assert_eq!(stale(), [false, false]);
    write("glsl/m.glsl", "// another matrix\n");
    assert_eq!(stale(), [false, true]);
    commit();
    write("glsl/a.comp", "#include \"both.glsl\"\n\n");
    assert_eq!(stale(), [true, false]);
    commit();
    write("glsl/both.glsl", "// both of them\n");
    assert_eq!(stale(), [true, true]);
    commit();
    write("manifest", "plain a.comp\nproduct m.comp MATRIX BLOCKS\n");
    assert_eq!(stale(), [false, true]);
    write("manifest", "plain a.comp # a comment\n");
    assert_eq!(stale(), [false, true], "what is left of a part that has no variant any more goes");
    write("glsl/both.glsl", "#include FILE\n");
    let error = sources.stale(Part::Ordinary).unwrap_err().to_string();
    assert!(error.contains("both.glsl") && error.contains("#include"), "{error}");
}

#[test]
fn embedded_modules_are_those_committed() {
    for shader in SHADERS {
        let bytes: Vec<u8> = shader.spirv.words().unwrap().iter().flat_map(|word| word.to_le_bytes()).collect();
        assert!(fs::read(module(shader)).unwrap() == bytes, "{}", shader.name);
    }
}

/// The plugin has to stay below 8 MB, of which the engine's own code takes 3 to 4.
#[test]
fn embedded_modules_take_four_megabytes_at_most() {
    let mut sizes: Vec<_> = SHADERS.iter().map(|shader| (shader.spirv.stored_bytes(), shader.name)).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let total: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    assert!(total <= 4_000_000, "{total} bytes, most of them in {:?}", &sizes[..10]);
}

#[test]
fn operands_bind_a_buffer_and_an_image_each() {
    use fblayout_shaders::BindingKind::{Buffer, Image};
    for shader in SHADERS {
        let kinds: Vec<_> = shader.bindings.iter().map(|b| (b.binding, b.kind)).collect();
        // What passes through staging is in buffers alone.
        let staging = shader.name.starts_with("repack").then_some(1);
        let bindings = (0..=kinds.last().unwrap().0).filter(|&b| Some(b) != staging);
        let expected: Vec<_> = bindings.map(|b| (b, if b.is_multiple_of(2) { Buffer } else { Image })).collect();
        assert_eq!(kinds, expected, "{}", shader.name);
    }
}

#[test]
fn spirv_val_accepts_every_module() {
    for shader in SHADERS {
        let path = module(shader);
        let version = if shader.matrix_sums { "vulkan1.3" } else { "vulkan1.1" };
        match tool("spirv-val", &["--target-env", version, &path.to_string_lossy()]) {
            Ok(()) => {}
            Err(error) if shader.matrix && error.contains(UNKNOWN_TO_SPIRV_VAL) => {
                println!("{}: not validated, {}", shader.name, error.trim());
            }
            Err(error) => panic!("{}: {error}", shader.name),
        }
    }
}

fn assert_naga(shader: &Shader, folder: &Path) {
    // Buffer and image storage: over F32 and Q8_0; over Q5_1 and Q4_K where blocks are decoded as the host has them.
    let decodes = shader.constants.iter().any(|&id| id >= 64 && (id - 64) % 48 == 47);
    let kinds: &[(u32, u32)] = if decodes { &[(0, 18), (1, 34)] } else { &[(0, 0), (1, 8)] };
    let verdict = kinds.iter().try_for_each(|&(storage, dtype)| naga_accepts(shader, storage, dtype, folder));
    let listed = NAGA_SKIPS.iter().find(|(name, _)| *name == shader.name).map(|(_, reason)| *reason);
    let of_kind = shader.matrix.then_some(NAGA_SKIPS_MATRIX).or(shader.dots.then_some(NAGA_SKIPS_DOTS));
    match (verdict, listed.or(of_kind)) {
        (Ok(()), None) | (Err(_), Some(_)) => {}
        (Ok(()), Some(reason)) => panic!("{}: the skip ({reason}) is no longer needed", shader.name),
        (Err(error), None) => panic!("{}: {error}", shader.name),
    }
}

#[test]
fn naga_accepts_every_frozen_module() {
    let folder = tempfile::tempdir().unwrap();
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        for first in 0..processors {
            let shaders = SHADERS.iter().skip(first).step_by(processors);
            scope.spawn(|| shaders.for_each(|shader| assert_naga(shader, folder.path())));
        }
    });
}
