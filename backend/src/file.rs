//! Files that are replaced at once: a reader finds the old content or the new.

use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file beside its place, in a folder that is made if need be, and moves it there.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    parts.iter().try_for_each(|part| new.write_all(part))?;
    new.persist(path)?;
    Ok(())
}
