//! Profiles in the user's cache folder, one per device and driver, and what came of the tests of its schedules.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::{Outcome, Profile, Tested};
use crate::vulkan::{AdapterInfo, Gpu, GpuOptions};

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
    /// What came of the tests of its schedules; empty where none were made.
    #[serde(default)]
    tested: Vec<Tested>,
}

/// What follows the name of the device and driver in that of the file.
const EXTENSION: &str = "profile.json";

fn path(gpu: &Gpu) -> Result<PathBuf, KeptError> {
    gpu.cache_file(EXTENSION).ok_or(KeptError::NoFolder)
}

/// The profile that was measured on this device with this driver.
///
/// # Errors
/// Where none was kept, or its file is damaged.
pub fn kept(gpu: &Gpu) -> Result<Profile, KeptError> {
    Ok(read(&path(gpu)?)?.profile)
}

/// What came of the tests of a device's schedules; nothing where none were made, or nothing was kept.
///
/// # Errors
/// The file is there and damaged, or cannot be read.
pub fn kept_tests(options: &GpuOptions, adapter: &AdapterInfo) -> Result<Vec<Tested>, KeptError> {
    options.cache_file(adapter, EXTENSION).map_or(Ok(Vec::new()), |path| tests(&path))
}

fn tests(path: &Path) -> Result<Vec<Tested>, KeptError> {
    match read(path) {
        Ok(kept) => Ok(kept.tested),
        Err(KeptError::File { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Keeps a profile for the next run, with what came of tests; its path. Of schedules that these do not tell of, as under clamped limits, what was kept
/// before stays. The file is replaced at once.
///
/// # Errors
/// Where there is no folder, or it cannot be written.
pub fn keep(gpu: &Gpu, profile: &Profile, tested: &[Tested]) -> Result<PathBuf, KeptError> {
    let path = path(gpu)?;
    // A damaged file is replaced.
    let tested = renewed(tests(&path).unwrap_or_default(), tested);
    let device = format!("{}, {}", gpu.adapter().name, gpu.adapter().driver);
    write(&path, &Kept { device, profile, tested }).map_err(|error| KeptError::File { path: path.clone(), error })?;
    Ok(path)
}

/// What is known of schedules once they were tested again: what now passed or failed, and for others what was known before.
fn renewed(before: Vec<Tested>, now: &[Tested]) -> Vec<Tested> {
    let mut all = now.to_vec();
    for old in before {
        match all.iter_mut().find(|new| new.schedule == old.schedule) {
            None => all.push(old),
            Some(new) if matches!(new.outcome, Outcome::Unused(_)) => *new = old,
            Some(_) => {}
        }
    }
    all
}

fn read(path: &Path) -> Result<Kept<Profile>, KeptError> {
    let bytes = std::fs::read(path).map_err(|error| KeptError::File { path: path.to_owned(), error })?;
    serde_json::from_slice(&bytes).map_err(|error| KeptError::Content { path: path.to_owned(), error })
}

fn write(path: &Path, kept: &Kept<&Profile>) -> std::io::Result<()> {
    crate::file::replace(path, &[&serde_json::to_vec_pretty(kept)?, b"\n"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Preset, TestedSchedule};

    #[test]
    fn a_profile_comes_back_and_damage_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deeper").join("profile.json");
        let missing = read(&path).err().unwrap().to_string();
        assert!(missing.contains("fblayout probe"), "{missing}");
        for (preset, profile) in Preset::machines() {
            write(&path, &Kept { device: preset.name.to_owned(), profile, tested: Vec::new() }).unwrap();
            assert_eq!(read(&path).unwrap().profile, *profile, "{}", preset.name);
        }
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        let damaged = read(&path).err().unwrap().to_string();
        assert!(damaged.contains("no profile"), "{damaged}");
        assert!(tests(&path).is_err());
    }

    /// A failure is forgotten only where its schedule ran again.
    #[test]
    fn what_is_not_tested_again_stays_as_it_was() {
        use TestedSchedule::{Across, Direct, Dots, Staged};
        let found = |schedule, outcome| Tested { schedule, outcome };
        let failed = |schedule| found(schedule, Outcome::Failed("other bits".into()));
        let passed = |schedule| found(schedule, Outcome::Passed);
        let unused = |schedule| found(schedule, Outcome::Unused("direct".into()));
        let before = vec![failed(Direct), failed(Staged), failed(Dots), passed(Across)];
        let now = [passed(Direct), unused(Staged), failed(Across)];
        assert_eq!(renewed(before.clone(), &now), [passed(Direct), failed(Staged), failed(Across), failed(Dots)]);
        assert_eq!(renewed(before.clone(), &[]), before);
        assert_eq!(renewed(Vec::new(), &now), now);
    }

    #[test]
    fn tests_come_back_and_files_without_them_are_of_untested_devices() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("profile.json");
        assert_eq!(tests(&path).unwrap(), []);
        let (_, profile) = Preset::machines().next().unwrap();
        let found = |schedule, outcome| Tested { schedule, outcome };
        let tested = vec![
            found(TestedSchedule::Direct, Outcome::Passed),
            found(TestedSchedule::Staged, Outcome::Failed("run 2 differs".into())),
            found(TestedSchedule::Dots, Outcome::Unused("across".into())),
        ];
        write(&path, &Kept { device: "a".into(), profile, tested: tested.clone() }).unwrap();
        assert_eq!(tests(&path).unwrap(), tested);
        let mut older: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        older.as_object_mut().unwrap().remove("tested").unwrap();
        std::fs::write(&path, older.to_string()).unwrap();
        assert_eq!(tests(&path).unwrap(), []);
        assert_eq!(read(&path).unwrap().profile, *profile);
    }
}
