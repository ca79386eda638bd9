//! A tensor: a home and the storage that realises it.

use std::sync::Arc;

use crate::graph::Desc;
use crate::plan::Home;
use crate::vulkan::{Gpu, Storage};

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
}
