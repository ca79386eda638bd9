//! A tensor: a home and the storage that realises it.

use std::sync::Arc;

use crate::graph::Desc;
use crate::plan::Home;
use crate::vulkan::{Gpu, Storage, TEXEL_BYTES};

use super::Error;

/// A tensor on the device; clones share it.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

struct Inner {
    desc: Desc,
    home: Home,
    storage: Storage,
}

impl Tensor {
    pub(super) fn create(gpu: &Arc<Gpu>, home: Home, desc: Desc) -> Result<Self, Error> {
        let storage = gpu.create(home.kind, home.width, home.height)?;
        Ok(Self(Arc::new(Inner { desc, home, storage })))
    }

    /// Dtype and shape.
    pub fn desc(&self) -> Desc {
        self.0.desc
    }

    /// Layout and storage kind.
    pub fn home(&self) -> &Home {
        &self.0.home
    }

    /// The texels themselves.
    pub fn storage(&self) -> &Storage {
        &self.0.storage
    }

    /// Whether both are one tensor.
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn write(&self, gpu: &Arc<Gpu>, bytes: &[u8]) -> Result<(), Error> {
        let (given, expected) = (bytes.len() as u64, self.desc().bytes());
        if given != expected {
            let Desc { dtype, shape } = self.desc();
            return Err(Error::Length { given, expected, dtype, shape });
        }
        if let Some(texels) = self.home().pack_sparse(bytes) {
            return Ok(gpu.upload_sparse(self.storage(), &texels)?);
        }
        Ok(gpu.upload(self.storage(), &self.home().pack(bytes)?)?)
    }

    pub(super) fn read(&self, gpu: &Arc<Gpu>) -> Result<Vec<u8>, Error> {
        Ok(self.home().unpack(&gpu.download(self.storage())?)?)
    }

    /// Writes linear bytes from byte `offset` on: the rows of texels that hold them are read, and written again.
    pub(super) fn write_part(&self, gpu: &Arc<Gpu>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let (start, rows, mut texels) = self.rows(gpu, offset, bytes.len())?;
        self.home().put(start, bytes, rows, &mut texels);
        Ok(gpu.upload_rows(self.storage(), rows, &texels)?)
    }

    pub(super) fn read_part(&self, gpu: &Arc<Gpu>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let (start, rows, texels) = self.rows(gpu, offset, bytes.len())?;
        self.home().take(start, bytes, rows, &texels);
        Ok(())
    }

    /// The first of the rows that hold `length` bytes from `offset` on, and the texels of these rows.
    fn rows(&self, gpu: &Arc<Gpu>, offset: u64, length: usize) -> Result<(usize, u32, Vec<u8>), Error> {
        let Desc { dtype, shape } = self.desc();
        let expected = self.desc().bytes();
        let given = offset.saturating_add(length as u64);
        if given > expected {
            return Err(Error::Length { given, expected, dtype, shape });
        }
        let start = offset as usize;
        let rows = self.home().rows_of(start..start + length);
        let mut texels = vec![0; rows.len() * self.home().width as usize * TEXEL_BYTES as usize];
        gpu.download_rows(self.storage(), rows.start, &mut texels)?;
        Ok((start, rows.start, texels))
    }
}
