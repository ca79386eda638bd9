//! A tensor: a home and the storage that realises it.

use std::ops::Range;
use std::sync::Arc;

use crate::graph::Desc;
use crate::kernels::Way;
use crate::plan::{Home, Repack};
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
        if self.home().is_linear() {
            return Ok(gpu.upload(self.storage(), bytes)?);
        }
        if self.write_by_device(gpu, 0, bytes)? {
            return Ok(());
        }
        Ok(gpu.upload(self.storage(), &self.home().pack(bytes)?)?)
    }

    pub(super) fn read(&self, gpu: &Arc<Gpu>) -> Result<Vec<u8>, Error> {
        if self.home().is_linear() {
            return Ok(gpu.download(self.storage())?);
        }
        if gpu.repack_room(self.storage(), Way::Out, self.desc().bytes()) > 0 {
            let mut bytes = vec![0; self.desc().bytes() as usize];
            if self.read_by_device(gpu, 0, &mut bytes)? {
                return Ok(bytes);
            }
        }
        Ok(self.home().unpack(&gpu.download(self.storage())?)?)
    }

    /// Writes linear bytes from byte `offset` on: the rows of texels that hold them are read, and written again, but where the bytes fill
    /// texels of a home that the device packs.
    pub(super) fn write_part(&self, gpu: &Arc<Gpu>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let start = self.checked(offset, bytes.len())?;
        if self.write_by_device(gpu, offset, bytes)? {
            return Ok(());
        }
        let (rows, mut texels) = self.rows(gpu, start..start + bytes.len())?;
        self.home().put(start, bytes, rows, &mut texels)?;
        Ok(gpu.upload_rows(self.storage(), rows, &texels)?)
    }

    pub(super) fn read_part(&self, gpu: &Arc<Gpu>, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let start = self.checked(offset, bytes.len())?;
        let row_bytes = self.home().width as usize * TEXEL_BYTES as usize;
        if self.home().is_linear() && [start, bytes.len()].iter().all(|n| n.is_multiple_of(row_bytes)) {
            return Ok(gpu.download_rows(self.storage(), (start / row_bytes) as u32, bytes)?);
        }
        if self.read_by_device(gpu, offset, bytes)? {
            return Ok(());
        }
        let (rows, texels) = self.rows(gpu, start..start + bytes.len())?;
        Ok(self.home().take(start, bytes, rows, &texels)?)
    }

    /// Lets the device pack bytes; false where the processor is to.
    fn write_by_device(&self, gpu: &Gpu, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        match self.repack(gpu, Way::In, offset, bytes.len()) {
            Some(repack) => Ok(gpu.repack_in(self.storage(), &repack, bytes)?),
            None => Ok(false),
        }
    }

    /// Lets the device unpack bytes; false where the processor is to.
    fn read_by_device(&self, gpu: &Gpu, offset: u64, bytes: &mut [u8]) -> Result<bool, Error> {
        match self.repack(gpu, Way::Out, offset, bytes.len()) {
            Some(repack) => Ok(gpu.repack_out(self.storage(), &repack, bytes)?),
            None => Ok(false),
        }
    }

    fn repack(&self, gpu: &Gpu, way: Way, offset: u64, length: usize) -> Option<Repack> {
        let room = gpu.repack_room(self.storage(), way, length as u64);
        let bytes = offset..offset + length as u64;
        if room == 0 { None } else { self.home().repack(way, bytes, room, gpu.limits()) }
    }

    /// Byte `offset` of the tensor, if it has so many from there on.
    fn checked(&self, offset: u64, length: usize) -> Result<usize, Error> {
        let Desc { dtype, shape } = self.desc();
        let expected = self.desc().bytes();
        let given = offset.saturating_add(length as u64);
        if given > expected { Err(Error::Length { given, expected, dtype, shape }) } else { Ok(offset as usize) }
    }

    /// The first of the rows that hold a range of bytes, and the texels of these rows.
    fn rows(&self, gpu: &Arc<Gpu>, bytes: Range<usize>) -> Result<(u32, Vec<u8>), Error> {
        let rows = self.home().rows_of(bytes)?;
        let mut texels = vec![0; rows.len() * self.home().width as usize * TEXEL_BYTES as usize];
        gpu.download_rows(self.storage(), rows.start, &mut texels)?;
        Ok((rows.start, texels))
    }
}
