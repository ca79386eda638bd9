//! What a driver keeps of the pipelines that it built: in memory, bounded, and in a file from one run to the next.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use ash::vk;
use sha2::{Digest, Sha256};

use super::device::{Device, lock};
use super::error::Result;

/// A pipeline cache of the driver.
pub(super) struct DriverCache {
    device: Arc<Device>,
    pub raw: vk::PipelineCache,
}

impl DriverCache {
    fn new(device: &Arc<Device>, data: &[u8]) -> Result<Self> {
        let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
        // SAFETY: the data is empty, or what this driver gave for this device, see `read`.
        let raw = unsafe { device.raw.create_pipeline_cache(&info, None) }
            .map_err(|r| device.failed("vkCreatePipelineCache", r))?;
        Ok(Self { device: Arc::clone(device), raw })
    }

    fn data(&self) -> Result<Vec<u8>> {
        // SAFETY: the cache is alive; ash sizes the array.
        unsafe { self.device.raw.get_pipeline_cache_data(self.raw) }
            .map_err(|r| self.device.failed("vkGetPipelineCacheData", r))
    }
}

impl Drop for DriverCache {
    fn drop(&mut self) {
        // SAFETY: pipelines do not need the cache they were built with, and builds hold it in an `Arc`.
        unsafe { self.device.raw.destroy_pipeline_cache(self.raw, None) };
    }
}

/// The driver's cache in use. No driver has to forget, so a new one takes over now and then.
pub(super) struct DriverCaches {
    device: Arc<Device>,
    /// Most builds with one cache.
    max_builds: usize,
    file: Option<PathBuf>,
    current: Mutex<Current>,
}

struct Current {
    cache: Arc<DriverCache>,
    /// Pipelines that were built with it.
    builds: usize,
    /// Those of them that the file does not have.
    unsaved: usize,
}

impl Current {
    fn new(cache: DriverCache) -> Self {
        Self { cache: Arc::new(cache), builds: 0, unsaved: 0 }
    }
}

impl DriverCaches {
    /// Begins with what the file holds, if it is there and whole.
    pub fn new(device: &Arc<Device>, max_builds: usize, file: Option<PathBuf>) -> Result<Self> {
        let kept = file.as_deref().and_then(read).unwrap_or_default();
        let cache = DriverCache::new(device, &kept).or_else(|_| DriverCache::new(device, &[]))?;
        Ok(Self { device: Arc::clone(device), max_builds, file, current: Mutex::new(Current::new(cache)) })
    }

    /// The cache for one more build: a fresh one once as many were built with it as it may hold.
    pub fn for_build(&self) -> Result<Arc<DriverCache>> {
        let mut current = lock(&self.current);
        if current.builds >= self.max_builds {
            *current = Current::new(DriverCache::new(&self.device, &[])?);
        }
        current.builds += 1;
        current.unsaved += 1;
        Ok(Arc::clone(&current.cache))
    }

    /// Writes the file if it lacks an eighth of what was built, so that many small graphs do not write it as often.
    pub fn save_if_grown(&self) {
        self.save(|current| 8 * current.unsaved >= current.builds);
    }

    fn save(&self, worth: impl Fn(&Current) -> bool) {
        let Some(file) = &self.file else { return };
        let cache = {
            let mut current = lock(&self.current);
            if current.unsaved == 0 || !worth(&current) {
                return;
            }
            current.unsaved = 0;
            Arc::clone(&current.cache)
        };
        let written = cache.data().map_err(|e| e.to_string()).and_then(|d| write(file, &d).map_err(|e| e.to_string()));
        if let Err(reason) = written {
            log::debug!("pipelines are not kept in '{}': {reason}", file.display());
        }
    }
}

impl Drop for DriverCaches {
    fn drop(&mut self) {
        if !self.device.is_lost() {
            self.save(|_| true);
        }
    }
}

/// First bytes of a file; its checksum follows. Drivers trust what they are given, so a damaged file must not reach them.
const MAGIC: &[u8; 8] = b"FBLPIPE1";
const HEAD: usize = MAGIC.len() + 32;
/// Larger data is not kept: it has pipelines of many versions of a host.
const MAX_BYTES: usize = 64 << 20;

/// Data that [`write`] wrote, whole and unchanged.
fn read(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = fs::read(file).ok()?;
    let (head, data) = bytes.split_at_checked(HEAD)?;
    let sound = &head[..MAGIC.len()] == MAGIC && head[MAGIC.len()..] == Sha256::digest(data)[..];
    if !sound {
        log::warn!("'{}' is damaged; pipelines are built anew", file.display());
        return None;
    }
    bytes.drain(..HEAD);
    Some(bytes)
}

fn write(file: &Path, data: &[u8]) -> io::Result<()> {
    if data.len() > MAX_BYTES {
        return Err(io::Error::other(format!("{} bytes, at most {MAX_BYTES} are kept", data.len())));
    }
    crate::file::replace(file, &[MAGIC, &Sha256::digest(data), data])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_and_unchanged_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("deeper").join("cache.bin");
        assert_eq!(read(&file), None);
        write(&file, b"what a driver keeps").unwrap();
        assert_eq!(read(&file).unwrap(), b"what a driver keeps");
        write(&file, b"").unwrap();
        assert_eq!(read(&file).unwrap(), b"");
        write(&file, b"what a driver keeps").unwrap();
        let sound = fs::read(&file).unwrap();
        for at in [0, MAGIC.len(), HEAD, sound.len() - 1] {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            fs::write(&file, damaged).unwrap();
            assert_eq!(read(&file), None, "byte {at}");
        }
        for length in [0, HEAD - 1, sound.len() - 1] {
            fs::write(&file, &sound[..length]).unwrap();
            assert_eq!(read(&file), None, "{length} bytes");
        }
        let left = fs::read_dir(file.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "no temporary file stays");
    }
}
