//! Files that appear whole or not at all.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use ggml_host::gguf::Writer;
use tempfile::NamedTempFile;

use crate::error::{Error, Result};

/// A file being written beside its final place; dropped before [`Output::commit`], it leaves nothing.
pub struct Output {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
}

impl Output {
    /// Starts a file, and its folder where that is missing.
    pub fn create(path: &Path) -> Result<Output> {
        if path.is_dir() || path.file_name().is_none() {
            let source =
                std::io::Error::new(std::io::ErrorKind::IsADirectory, "a file name is needed, this is a folder");
            return Err(Error::io(path)(source));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        std::fs::create_dir_all(folder).map_err(Error::io(folder))?;
        let file = NamedTempFile::new_in(folder).map_err(Error::io(path))?;
        Ok(Output { path: path.to_owned(), file: BufWriter::new(file) })
    }

    /// Where the file will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a GGUF file and puts it in its place.
    pub fn write_gguf(mut self, file: &Writer) -> Result<()> {
        let written = file.write(&mut self);
        written.map_err(Error::io(&self.path))?;
        self.commit()
    }

    /// Puts the file in its place once its bytes are on the disk.
    pub fn commit(self) -> Result<()> {
        let path = self.path;
        let file = self.file.into_inner().map_err(|e| Error::io(&path)(e.into_error()))?;
        file.as_file().sync_all().map_err(Error::io(&path))?;
        set_default_mode(&file).map_err(Error::io(&path))?;
        file.persist(&path).map_err(|e| Error::io(&path)(e.error))?;
        // The rename itself is durable only once the folder is.
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."));
        std::fs::File::open(folder).and_then(|f| f.sync_all()).map_err(Error::io(folder))
    }
}

/// Temporary files are private; a result is as readable as any other file of its folder's owner.
fn set_default_mode(file: &NamedTempFile) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::Output;

    #[test]
    fn appears_only_when_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub/file");
        let mut output = Output::create(&path).unwrap();
        output.write_all(b"half").unwrap();
        drop(output);
        assert_eq!(
            std::fs::read_dir(folder.path().join("sub")).unwrap().count(),
            0,
            "an abandoned file leaves nothing"
        );

        let mut output = Output::create(&path).unwrap();
        output.write_all(b"whole").unwrap();
        assert!(!path.exists());
        output.commit().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"whole");
        assert_eq!(std::fs::read_dir(folder.path().join("sub")).unwrap().count(), 1);
    }
}
