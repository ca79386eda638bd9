//! The bytes of a virtual buffer, kept as records of root tensors rather than as one array.
//!
//! A record's bytes are on the host in ggml's linear form, on the device in the tensor's home, or in both. Reads and writes are
//! exact for any byte range, whatever the tensor they came through, and bytes never written read as the last clear value.

use std::collections::{BTreeMap, HashMap, HashSet};

use fblayout::graph::{DType, Shape};

use crate::record::{Geometry, Root};

/// Records of at most this many bytes may have a host copy beside a fresh device copy, and are uploaded when they are used; larger
/// ones go to the device when they are written whole. Tests reach both sides with little data.
const SMALL: usize = if cfg!(test) { 96 } else { 64 << 10 };

/// Storages without a record that are kept: more than a graph has results. Only a host that never resets its buffer comes so far.
const MOST_PARKED: usize = if cfg!(test) { 8 } else { 4096 };

/// Device storage of whole tensors; calls are ordered after all submitted work, and what is submitted later after them.
pub trait Home {
    /// A tensor on the device; clones name the same storage.
    type Tensor: Clone;
    /// Storage for one tensor; its contents are undefined.
    fn create(&self, dtype: DType, shape: Shape) -> Result<Self::Tensor, String>;
    /// Replaces the contents by ggml's linear bytes.
    fn write(&self, tensor: &Self::Tensor, bytes: &[u8]) -> Result<(), String>;
    /// Replaces the contents by zeros, `len` linear bytes of them.
    fn zero(&self, tensor: &Self::Tensor, len: usize) -> Result<(), String> {
        self.write(tensor, &vec![0; len])
    }
    /// The contents as ggml's linear bytes.
    fn read(&self, tensor: &Self::Tensor) -> Result<Vec<u8>, String>;
    /// A part of them, from byte `from` on, as much as fills `out`.
    fn read_part(&self, tensor: &Self::Tensor, from: usize, out: &mut [u8]) -> Result<(), String>;
}

/// Why an access failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemoryError {
    /// Bytes outside the buffer.
    #[error("bytes {start}..{end} are outside a buffer of {size} bytes")]
    OutOfRange {
        /// First byte.
        start: usize,
        /// First byte after.
        end: usize,
        /// Of the buffer.
        size: usize,
    },
    /// The root cannot live on the device.
    #[error("a tensor of ggml type {0} with extents {1:?} and strides {2:?} has no home on the device")]
    Homeless(i32, [i64; 4], [usize; 4]),
    /// The device failed.
    #[error("{0}")]
    Device(String),
}

/// What happens to the bytes of a record that another root partly covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifetime {
    /// The uncovered bytes keep their values (weights, caches, optimizer state).
    Persistent,
    /// The record is dropped, because a graph allocator recycles addresses only of dead tensors; its device storage is parked.
    Epoch,
}

/// Host side of a record.
#[derive(Clone, Debug)]
enum Host {
    /// The device has the only copy.
    Absent,
    /// Every byte has this value.
    Fill(u8),
    /// Linear bytes.
    Bytes(Vec<u8>),
}

/// Consecutive bytes with one owner.
#[derive(Debug)]
struct Record<T> {
    /// `None`: what is left of a root that was partly covered by another.
    geometry: Option<Geometry>,
    len: usize,
    host: Host,
    device: Option<T>,
    /// The device copy has the bytes. Either it is fresh or the host side is not absent.
    device_fresh: bool,
    /// The host wrote all of it, and no graph has read it since.
    unread: bool,
}

impl<T: Clone> Record<T> {
    fn raw(bytes: Vec<u8>) -> Self {
        Self {
            geometry: None,
            len: bytes.len(),
            host: Host::Bytes(bytes),
            device: None,
            device_fresh: false,
            unread: false,
        }
    }

    /// Makes the host side present, reading it back from the device if need be.
    fn pull<H: Home<Tensor = T>>(&mut self, home: &H) -> Result<(), MemoryError> {
        if let (Host::Absent, Some(tensor)) = (&self.host, &self.device) {
            let bytes = home.read(tensor).map_err(MemoryError::Device)?;
            if bytes.len() != self.len {
                return Err(MemoryError::Device(format!("the device returned {} of {} bytes", bytes.len(), self.len)));
            }
            self.host = Host::Bytes(bytes);
        }
        Ok(())
    }

    /// Copies bytes `from..` of the record to `out`.
    fn copy_out<H: Home<Tensor = T>>(&mut self, home: &H, from: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        // Most of a record goes straight where it is wanted; of less, more is likely to be asked for, and it is kept.
        let most = out.len() > SMALL && 4 * out.len() >= self.len;
        if let (Host::Absent, Some(tensor), true) = (&self.host, &self.device, most) {
            return home.read_part(tensor, from, out).map_err(MemoryError::Device);
        }
        self.pull(home)?;
        match &self.host {
            Host::Absent => {}
            Host::Fill(value) => out.fill(*value),
            Host::Bytes(bytes) => out.copy_from_slice(&bytes[from..from + out.len()]),
        }
        Ok(())
    }

    /// The host bytes, writable; the device copy becomes stale.
    fn bytes_mut<H: Home<Tensor = T>>(&mut self, home: &H) -> Result<&mut [u8], MemoryError> {
        self.pull(home)?;
        if let Host::Fill(value) = self.host {
            self.host = Host::Bytes(vec![value; self.len]);
        }
        self.device_fresh = false;
        match &mut self.host {
            Host::Bytes(bytes) => Ok(bytes),
            Host::Absent | Host::Fill(_) => Ok(&mut []),
        }
    }

    /// Replaces all bytes; the device copy becomes stale.
    fn replace(&mut self, host: Host) {
        self.host = host;
        self.device_fresh = false;
    }
}

/// Whether the bytes under a new root are wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Old {
    Keep,
    Discard,
}

/// What is written to a range.
#[derive(Clone, Copy)]
enum Source<'a> {
    Bytes(&'a [u8]),
    Fill(u8, usize),
}

impl Source<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Fill(_, len) => *len,
        }
    }

    fn copy_to(&self, from: usize, out: &mut [u8]) {
        match self {
            Self::Bytes(bytes) => out.copy_from_slice(&bytes[from..from + out.len()]),
            Self::Fill(value, _) => out.fill(*value),
        }
    }

    fn to_host(self) -> Host {
        match self {
            Self::Bytes(bytes) => Host::Bytes(bytes.to_vec()),
            Self::Fill(value, _) => Host::Fill(value),
        }
    }
}

/// Storage without a record. It waits for its root to come back, as it does whenever the same graph is computed or allocated
/// again, so that a recorded program finds the tensors that it was recorded with.
#[derive(Debug)]
struct Parked<T> {
    tensor: T,
    /// The last epoch that used it.
    epoch: u64,
}

/// Contents of one buffer: disjoint records by offset, over a background of one value.
#[derive(Debug)]
pub struct Memory<H: Home> {
    size: usize,
    background: u8,
    records: BTreeMap<usize, Record<H::Tensor>>,
    parked: HashMap<Root, Parked<H::Tensor>>,
    epoch: u64,
    /// Roots that the host wrote whole, and wrote again or forgot before any graph read them: inputs that a host hands over whether or not its
    /// graph uses them.
    unread: HashSet<Root>,
}

impl<H: Home> Memory<H> {
    /// A buffer of `size` zero bytes.
    pub fn new(size: usize) -> Self {
        Self { size, background: 0, records: BTreeMap::new(), parked: HashMap::new(), epoch: 0, unread: HashSet::new() }
    }

    /// Sets every byte.
    pub fn clear(&mut self, value: u8) {
        self.background = value;
        self.records.retain(|_, record| record.geometry.is_some());
        for record in self.records.values_mut() {
            record.replace(Host::Fill(value));
        }
    }

    /// Forgets every record: a new epoch of a compute buffer. Storage of the old epoch waits for its root, and that of earlier ones, the
    /// latest first, as long as all of it is no larger than the buffer: hosts go back and forth between a few graphs.
    pub fn reset(&mut self) {
        for (offset, record) in std::mem::take(&mut self.records) {
            self.park(offset, record);
        }
        let mut epochs: Vec<(u64, usize)> =
            self.parked.iter().map(|(root, p)| (p.epoch, root.geometry.nbytes)).collect();
        epochs.sort_unstable_by(|a, b| b.cmp(a));
        let mut bytes = 0;
        let full = epochs.into_iter().find(|(_, n)| {
            bytes += n;
            bytes > self.size
        });
        let first = full.map_or(0, |(epoch, _)| epoch + 1).min(self.epoch);
        self.parked.retain(|_, parked| parked.epoch >= first);
        self.epoch += 1;
    }

    /// Notes that a root goes, or is written anew, before any graph read it.
    fn note_unread(&mut self, root: Root) {
        if self.unread.len() >= MOST_PARKED {
            self.unread.clear();
        }
        self.unread.insert(root);
    }

    fn park(&mut self, offset: usize, record: Record<H::Tensor>) {
        if let Record { geometry: Some(geometry), unread: true, .. } = record {
            self.note_unread(Root { offset, geometry });
        }
        if let Record { geometry: Some(geometry), device: Some(tensor), .. } = record {
            if self.parked.len() >= MOST_PARKED {
                self.parked.clear();
            }
            self.parked.insert(Root { offset, geometry }, Parked { tensor, epoch: self.epoch });
        }
    }

    /// Copies the bytes from `start` on to `out`.
    pub fn read(&mut self, home: &H, start: usize, out: &mut [u8]) -> Result<(), MemoryError> {
        let end = self.check(start, out.len())?;
        out.fill(self.background);
        for offset in self.overlapping(start, end) {
            if let Some(record) = self.records.get_mut(&offset) {
                let (from, to) = (start.max(offset), end.min(offset + record.len));
                record.copy_out(home, from - offset, &mut out[from - start..to - start])?;
            }
        }
        Ok(())
    }

    /// Writes bytes from `start` on, through the tensor `root` or a view of it.
    pub fn write(
        &mut self,
        home: &H,
        root: &Root,
        lifetime: Lifetime,
        start: usize,
        bytes: &[u8],
    ) -> Result<(), MemoryError> {
        self.store(home, root, lifetime, start, Source::Bytes(bytes))
    }

    /// Sets `len` bytes from `start` on, through the tensor `root` or a view of it.
    pub fn fill(
        &mut self,
        home: &H,
        root: &Root,
        lifetime: Lifetime,
        start: usize,
        len: usize,
        value: u8,
    ) -> Result<(), MemoryError> {
        self.store(home, root, lifetime, start, Source::Fill(value, len))
    }

    /// The root on the device with its present bytes, uploading them if the device copy is stale. The host copy of a large record
    /// is dropped: the home is then the only place of its bytes.
    pub fn device_input(&mut self, home: &H, root: &Root, lifetime: Lifetime) -> Result<H::Tensor, MemoryError> {
        self.unread.remove(root);
        let (tensor, record) = self.housed(home, root, lifetime, Old::Keep)?;
        record.unread = false;
        if !record.device_fresh {
            let uploaded = match &record.host {
                Host::Absent => Ok(()),
                Host::Fill(0) => home.zero(&tensor, record.len),
                Host::Fill(value) => home.write(&tensor, &vec![*value; record.len]),
                Host::Bytes(bytes) => home.write(&tensor, bytes),
            };
            uploaded.map_err(MemoryError::Device)?;
            record.device_fresh = true;
        }
        if record.len > SMALL {
            record.host = Host::Absent;
        }
        Ok(tensor)
    }

    /// The root's storage on the device, for a computation that writes all of it; [`Self::mark_device_written`] must follow.
    pub fn device_output(&mut self, home: &H, root: &Root, lifetime: Lifetime) -> Result<H::Tensor, MemoryError> {
        Ok(self.housed(home, root, lifetime, Old::Discard)?.0)
    }

    /// States that a computation wrote the root's device copy, making any host copy stale. The storage must have been handed out
    /// by [`Self::device_input`] or [`Self::device_output`], and the root not been written by the host since.
    pub fn mark_device_written(&mut self, root: &Root) {
        if let Some(record) = self.records.get_mut(&root.offset)
            && record.geometry == Some(root.geometry)
            && record.device.is_some()
        {
            record.host = Host::Absent;
            record.device_fresh = true;
        }
    }

    fn check(&self, start: usize, len: usize) -> Result<usize, MemoryError> {
        let end = start.saturating_add(len);
        if end > self.size {
            return Err(MemoryError::OutOfRange { start, end, size: self.size });
        }
        Ok(end)
    }

    /// Offsets of the records that share a byte with `start..end`.
    fn overlapping(&self, start: usize, end: usize) -> Vec<usize> {
        let before = self.records.range(..start).next_back().filter(|(offset, record)| *offset + record.len > start);
        before.into_iter().chain(self.records.range(start..end.max(start))).map(|(&offset, _)| offset).collect()
    }

    fn store(
        &mut self,
        home: &H,
        root: &Root,
        lifetime: Lifetime,
        start: usize,
        source: Source<'_>,
    ) -> Result<(), MemoryError> {
        let end = self.check(start, source.len())?;
        if start == end {
            return Ok(());
        }
        if start == root.offset && end == root.end() {
            return self.replace(home, root, lifetime, source);
        }
        if root.geometry.nbytes > 0 {
            self.carve(home, root, lifetime, Old::Keep)?;
        }
        // The root's record takes its part of the range; a write that runs past the root's end falls on whatever is there.
        let mut covered = start;
        for offset in self.overlapping(start, end) {
            self.fill_gap(covered, offset, start, source);
            let Some(record) = self.records.get_mut(&offset) else { continue };
            let (from, to) = (start.max(offset), end.min(offset + record.len));
            source.copy_to(from - start, &mut record.bytes_mut(home)?[from - offset..to - offset]);
            covered = to;
        }
        self.fill_gap(covered, end, start, source);
        Ok(())
    }

    /// Writes all of a root. A large one goes straight to its home, without a copy on the host, if the device takes it; in a compute buffer
    /// only where graphs read it.
    fn replace(&mut self, home: &H, root: &Root, lifetime: Lifetime, source: Source<'_>) -> Result<(), MemoryError> {
        let again = |record: &Record<H::Tensor>| record.unread && record.geometry == Some(root.geometry);
        if self.records.get(&root.offset).is_some_and(again) {
            self.note_unread(*root);
        }
        let waits = lifetime == Lifetime::Epoch && self.unread.contains(root);
        if let Source::Bytes(bytes) = source
            && bytes.len() > SMALL
            && !waits
            && root.geometry.home().is_some()
        {
            let uploaded = self.housed(home, root, lifetime, Old::Discard).and_then(|(tensor, record)| {
                home.write(&tensor, bytes).map_err(MemoryError::Device)?;
                record.host = Host::Absent;
                record.device_fresh = true;
                record.unread = true;
                Ok(())
            });
            match uploaded {
                Ok(()) => return Ok(()),
                Err(why) => log::debug!("{} bytes stay on the host for now: {why}", bytes.len()),
            }
        }
        let record = self.carve(home, root, lifetime, Old::Discard)?;
        record.replace(source.to_host());
        record.unread = true;
        Ok(())
    }

    /// Records the part `from..to` of a write that starts at `start`, where no record is.
    fn fill_gap(&mut self, from: usize, to: usize, start: usize, source: Source<'_>) {
        if from < to {
            let mut bytes = vec![0; to - from];
            source.copy_to(from - start, &mut bytes);
            self.records.insert(from, Record::raw(bytes));
        }
    }

    /// The record of exactly this root. Records it overlaps are replaced; their bytes under the root go to the new record if
    /// wanted.
    fn carve(
        &mut self,
        home: &H,
        root: &Root,
        lifetime: Lifetime,
        old: Old,
    ) -> Result<&mut Record<H::Tensor>, MemoryError> {
        let end = self.check(root.offset, root.geometry.nbytes)?;
        let present = self.records.get(&root.offset).is_some_and(|record| record.geometry == Some(root.geometry));
        if !present {
            let overlapped = self.overlapping(root.offset, end);
            let host = if old == Old::Discard || overlapped.is_empty() {
                Host::Fill(self.background)
            } else {
                let mut bytes = vec![0; root.geometry.nbytes];
                self.read(home, root.offset, &mut bytes)?;
                Host::Bytes(bytes)
            };
            let mut remnants = Vec::new();
            if lifetime == Lifetime::Persistent {
                for &offset in &overlapped {
                    remnants.extend(self.outside(home, offset, root.offset, end)?);
                }
            }
            // Nothing fails from here on, so that an error leaves the old records whole.
            for offset in overlapped {
                match self.records.remove(&offset) {
                    Some(record) if lifetime == Lifetime::Epoch => self.park(offset, record),
                    _ => {}
                }
            }
            self.records.extend(remnants.into_iter().map(|(offset, bytes)| (offset, Record::raw(bytes))));
            let record = Record {
                geometry: Some(root.geometry),
                len: root.geometry.nbytes,
                host,
                device: self.parked.remove(root).map(|parked| parked.tensor),
                device_fresh: false,
                unread: false,
            };
            self.records.insert(root.offset, record);
        }
        self.records.get_mut(&root.offset).ok_or(MemoryError::OutOfRange { start: root.offset, end, size: self.size })
    }

    /// The bytes of the record at `offset` that lie outside `start..end`, with their offsets.
    fn outside(
        &mut self,
        home: &H,
        offset: usize,
        start: usize,
        end: usize,
    ) -> Result<Vec<(usize, Vec<u8>)>, MemoryError> {
        let mut parts = Vec::new();
        if let Some(record) = self.records.get_mut(&offset) {
            let record_end = offset + record.len;
            for (from, to) in [(offset, start.min(record_end)), (end.max(offset), record_end)] {
                if from < to {
                    let mut bytes = vec![0; to - from];
                    record.copy_out(home, from - offset, &mut bytes)?;
                    parts.push((from, bytes));
                }
            }
        }
        Ok(parts)
    }

    /// The root's record with storage on the device.
    fn housed(
        &mut self,
        home: &H,
        root: &Root,
        lifetime: Lifetime,
        old: Old,
    ) -> Result<(H::Tensor, &mut Record<H::Tensor>), MemoryError> {
        let geometry = &root.geometry;
        let (dtype, shape) =
            geometry.home().ok_or(MemoryError::Homeless(geometry.type_id, geometry.ne, geometry.nb))?;
        let record = self.carve(home, root, lifetime, old)?;
        let tensor = match &record.device {
            Some(tensor) => tensor.clone(),
            None => self.create(home, dtype, shape)?,
        };
        let record = self.carve(home, root, lifetime, old)?;
        record.device = Some(tensor.clone());
        Ok((tensor, record))
    }

    /// New storage; what waits for its root gives way where memory is short.
    fn create(&mut self, home: &H, dtype: DType, shape: Shape) -> Result<H::Tensor, MemoryError> {
        let created = home.create(dtype, shape).or_else(|why| {
            if self.parked.is_empty() {
                return Err(why);
            }
            self.parked.clear();
            home.create(dtype, shape)
        });
        created.map_err(MemoryError::Device)
    }
}

#[cfg(test)]
mod tests;
