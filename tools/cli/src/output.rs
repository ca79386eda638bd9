//! A text file that appears whole or not at all.

use std::io::{Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// A file beside its final place; dropped before [`Output::commit`], it leaves nothing.
pub struct Output {
    path: PathBuf,
    file: NamedTempFile,
}

impl Output {
    /// Starts a file in a folder that exists.
    pub fn create(path: &Path) -> Result<Self> {
        let fail = |e: Error| Error::new(e.kind(), format!("{}: {e}", path.display()));
        if path.is_dir() || path.file_name().is_none() {
            return Err(fail(Error::new(ErrorKind::IsADirectory, "a file name is needed, this is a folder")));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut builder = Builder::new();
        builder.prefix(".fblayout-");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any new file: what the user's mask leaves.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        Ok(Self { path: path.to_owned(), file: builder.tempfile_in(folder).map_err(fail)? })
    }

    /// Fills the file and puts it in its place.
    pub fn commit(mut self, text: &str) -> Result<()> {
        self.file.write_all(text.as_bytes())?;
        self.file.as_file().sync_all()?;
        self.file
            .persist(&self.path)
            .map_err(|e| Error::new(e.error.kind(), format!("{}: {}", self.path.display(), e.error)))?;
        Ok(())
    }
}
