//! Profiles in the user's cache folder, one per device and driver.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Profile;
use crate::vulkan::Gpu;

/// Why a profile is not there, or cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// There is no folder for caches.
    #[error("there is no folder for profiles: FBL_CACHE names one")]
    NoFolder,
    /// The file cannot be read or written; a device that was never measured has none.
    #[error("'{}': {error}; `fblayout probe` measures the device and writes it", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file holds something else.
    #[error("'{}' is no profile: {error}; `fblayout probe` writes a new one", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
}

#[derive(Serialize, Deserialize)]
struct Kept<P> {
    /// The device and its driver, for readers.
    device: String,
    profile: P,
}

fn path(gpu: &Gpu) -> Result<PathBuf, KeptError> {
    gpu.cache_file("profile.json").ok_or(KeptError::NoFolder)
}

/// The profile that was measured on this device with this driver.
///
/// # Errors
/// Where none was kept, or its file is damaged.
pub fn kept(gpu: &Gpu) -> Result<Profile, KeptError> {
    read(&path(gpu)?)
}

/// Keeps a profile for the next run; its path. The file is replaced at once.
///
/// # Errors
/// Where there is no folder, or it cannot be written.
pub fn keep(gpu: &Gpu, profile: &Profile) -> Result<PathBuf, KeptError> {
    let path = path(gpu)?;
    let device = format!("{}, {}", gpu.adapter().name, gpu.adapter().driver);
    write(&path, &Kept { device, profile }).map_err(|error| KeptError::File { path: path.clone(), error })?;
    Ok(path)
}

fn read(path: &Path) -> Result<Profile, KeptError> {
    let bytes = std::fs::read(path).map_err(|error| KeptError::File { path: path.to_owned(), error })?;
    let kept: Kept<Profile> =
        serde_json::from_slice(&bytes).map_err(|error| KeptError::Content { path: path.to_owned(), error })?;
    Ok(kept.profile)
}

fn write(path: &Path, kept: &Kept<&Profile>) -> std::io::Result<()> {
    crate::file::replace(path, &[&serde_json::to_vec_pretty(kept)?, b"\n"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Preset;

    #[test]
    fn a_profile_comes_back_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper").join("profile.json");
        let missing = read(&path).unwrap_err().to_string();
        assert!(missing.contains("fblayout probe"), "{missing}");
        for (preset, profile) in Preset::machines() {
            write(&path, &Kept { device: preset.name.to_owned(), profile }).unwrap();
            assert_eq!(read(&path).unwrap(), *profile, "{}", preset.name);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        let damaged = read(&path).unwrap_err().to_string();
        assert!(damaged.contains("no profile"), "{damaged}");
    }
}
