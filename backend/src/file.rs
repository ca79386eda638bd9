//! Files that are replaced at once: a reader finds the old content or the new.

use std::io::{self, Write as _};
use std::path::Path;

use tempfile::NamedTempFile;

/// Writes a file beside its place, in a folder that is made if need be, and moves it there.
pub(crate) fn replace(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = beside(folder)?;
    parts.iter().try_for_each(|part| new.write_all(part))?;
    // The name must not come before the content where the machine stops.
    new.as_file().sync_all()?;
    new.persist(path)?;
    Ok(())
}

/// A new file with the rights that the system gives to new files, which temporary ones do not have.
#[cfg(unix)]
fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt as _;
    let rights = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().permissions(rights).tempfile_in(folder)
}

#[cfg(not(unix))]
fn beside(folder: &Path) -> io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_with_the_rights_of_any_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let [own, other] = ["own", "other"].map(|name| folder.path().join("deep").join(name));
        replace(&own, &[b"old"]).unwrap();
        replace(&own, &[b"ne", b"w"]).unwrap();
        std::fs::write(&other, b"new").unwrap();
        assert_eq!(std::fs::read(&own).unwrap(), b"new");
        let rights = |path: &Path| std::fs::metadata(path).unwrap().permissions();
        assert_eq!(rights(&own), rights(&other));
    }
}
