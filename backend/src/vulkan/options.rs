//! How a device is opened.

use std::path::{Path, PathBuf};

use crate::device::{Limits, LimitsClamp};

use super::adapter::{AdapterInfo, AdapterKind};
use super::error::{Error, Result};

/// Which validation runs under every call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    /// None.
    #[default]
    Off,
    /// The Khronos layer's core checks.
    Core,
    /// Core checks and synchronization: hazards within one command buffer are found.
    Sync,
}

/// Who brings tensors from the host's linear form into their homes, and back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repacking {
    /// The device, where it is faster: on GPUs, for what the host does not reach and is not small.
    #[default]
    Auto,
    /// The processor.
    Host,
    /// The device, wherever it can.
    Device,
}

impl Repacking {
    /// Bytes that a processor packs in the time of a submission, about.
    const SMALL: u64 = 64 << 10;

    /// Whether the device repacks `bytes` of a storage, which the host may reach itself.
    pub(super) fn by_device(self, kind: AdapterKind, mapped: bool, bytes: u64) -> bool {
        match self {
            Self::Auto => kind != AdapterKind::Cpu && !mapped && bytes >= Self::SMALL,
            Self::Host => false,
            Self::Device => true,
        }
    }
}

/// Options of [`super::Gpu::open`].
#[derive(Clone, Debug)]
pub struct GpuOptions {
    /// Validation; asking for it where the layer is absent is an error.
    pub validation: Validation,
    /// Limits to pretend.
    pub limits_clamp: Option<LimitsClamp>,
    /// Bytes of the staging buffer that bounds every transfer; rounded up to whole texels.
    pub staging_bytes: u64,
    /// Send every transfer through staging, even where the host could write the memory itself.
    pub force_staging: bool,
    /// Who repacks what is transferred.
    pub repacking: Repacking,
    /// Most pipelines kept for reuse; a tape keeps its own alive beyond that.
    pub max_pipelines: usize,
    /// Folder for what is kept from one run to the next: pipelines and profiles, per device, driver and version of this crate.
    pub cache_folder: Option<PathBuf>,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            validation: Validation::Off,
            limits_clamp: None,
            staging_bytes: 16 << 20,
            force_staging: false,
            repacking: Repacking::Auto,
            max_pipelines: 1024,
            cache_folder: None,
        }
    }
}

impl GpuOptions {
    /// The limits under which a device is used: its own, clamped as asked.
    pub fn limits(&self, adapter: &AdapterInfo) -> Limits {
        match &self.limits_clamp {
            Some(clamp) => clamp.apply(&adapter.limits),
            None => adapter.limits.clone(),
        }
    }

    /// Where a file of this device and driver is kept between runs, if files are; `extension` says what is in it.
    pub fn cache_file(&self, adapter: &AdapterInfo, extension: &str) -> Option<PathBuf> {
        self.cache_folder.as_deref().map(|folder| adapter.cache_file(folder, extension))
    }

    /// Defaults changed by the environment: `FBL_VALIDATION` is `off`, `core` or `sync`; `FBL_LIMITS` is what
    /// [`LimitsClamp::parse`] reads; `FBL_REPACK` is `auto`, `host` or `device`; `FBL_CACHE` is a folder for what is kept, or `off`, and by default the user's cache folder. Empty
    /// counts as unset.
    pub fn from_env() -> Result<Self> {
        Self::from_vars(|name| std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()))
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let var = |name| var(name).filter(|v| !v.is_empty());
        let mut options = Self::default();
        if let Some(value) = var("FBL_VALIDATION") {
            options.validation = match value.as_str() {
                "off" => Validation::Off,
                "core" => Validation::Core,
                "sync" => Validation::Sync,
                _ => {
                    let rule = "use off, core or sync".to_owned();
                    return Err(Error::Option { option: "FBL_VALIDATION", value, rule });
                }
            };
        }
        if let Some(value) = var("FBL_LIMITS") {
            options.limits_clamp = Some(LimitsClamp::parse(&value).map_err(|e| Error::Option {
                option: "FBL_LIMITS",
                value,
                rule: e.to_string(),
            })?);
        }
        if let Some(value) = var("FBL_REPACK") {
            options.repacking = match value.as_str() {
                "auto" => Repacking::Auto,
                "host" => Repacking::Host,
                "device" => Repacking::Device,
                _ => {
                    let rule = "use auto, host or device".to_owned();
                    return Err(Error::Option { option: "FBL_REPACK", value, rule });
                }
            };
        }
        options.cache_folder = match var("FBL_CACHE") {
            Some(value) if value == "off" => None,
            Some(folder) => Some(folder.into()),
            None => {
                let user = [("XDG_CACHE_HOME", ""), ("LOCALAPPDATA", ""), ("HOME", ".cache")];
                let found = user.into_iter().find_map(|(name, below)| Some(Path::new(&var(name)?).join(below)));
                found.map(|folder| folder.join("fblayout"))
            }
        };
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(validation: &str, limits: &str) -> Result<GpuOptions> {
        GpuOptions::from_vars(|name| match name {
            "FBL_VALIDATION" => Some(validation.to_owned()),
            "FBL_LIMITS" => Some(limits.to_owned()),
            _ => None,
        })
    }

    #[test]
    fn variables_choose_validation_and_limits() {
        let read = options("sync", r#"{"heap_bytes": 4096}"#).unwrap();
        assert_eq!(read.validation, Validation::Sync);
        assert_eq!(read.limits_clamp.unwrap().heap_bytes, Some(4096));
        let unset = options("", "").unwrap();
        assert_eq!((unset.validation, unset.limits_clamp), (Validation::Off, None));
    }

    #[test]
    fn the_device_repacks_what_is_large_and_out_of_reach() {
        use AdapterKind::{Cpu, Discrete};
        let auto = GpuOptions::default().repacking;
        assert!(auto.by_device(Discrete, false, 64 << 10));
        assert!(!auto.by_device(Discrete, false, 1000) && !auto.by_device(Discrete, true, 1 << 20));
        assert!(!auto.by_device(Cpu, false, 1 << 20));
        let read = |value: &str| GpuOptions::from_vars(|name| (name == "FBL_REPACK").then(|| value.to_owned()));
        assert!(read("device").unwrap().repacking.by_device(Cpu, true, 1));
        assert!(!read("host").unwrap().repacking.by_device(Discrete, false, 1 << 30));
        assert!(read("cpu").unwrap_err().to_string().contains("FBL_REPACK"));
    }

    #[test]
    fn files_are_kept_where_the_user_keeps_caches() {
        let folder = |set: &[(&str, &str)]| {
            let value = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
            GpuOptions::from_vars(value).unwrap().cache_folder
        };
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[("HOME", "/home/a")]), Some("/home/a/.cache/fblayout".into()));
        assert_eq!(folder(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/c")]), Some("/c/fblayout".into()));
        assert_eq!(folder(&[("HOME", "/home/a"), ("FBL_CACHE", "/d")]), Some("/d".into()));
        assert_eq!(folder(&[("HOME", "/home/a"), ("FBL_CACHE", "off")]), None);
    }

    #[test]
    fn unknown_values_are_errors_that_name_the_variable() {
        let error = options("yes", "").unwrap_err().to_string();
        assert!(error.contains("FBL_VALIDATION") && error.contains("yes"), "{error}");
        let error = options("", "pixel-1").unwrap_err().to_string();
        assert!(error.contains("FBL_LIMITS") && error.contains("pixel-1"), "{error}");
    }
}
