//! Transfers between the host and storages, and between storages. Each waits until it is done, but for what the device repacks on its way in
//! ([`super::repack`]): later work waits for that.
//!
//! Host data passes through one mapped staging buffer of bounded size, except where the host reaches a buffer's
//! memory itself. Texels travel in row order, 16 bytes each.

use std::sync::Arc;

use ash::vk;

use crate::kernels::StorageKind;

use super::device::{Device, lock};
use super::error::{Error, Result};
use super::gpu::Gpu;
use super::memory::{HostPtr, Memory, Purpose};
use super::record::{Recorder, Run, check_copy};
use super::storage::{RawBuffer, Storage, TEXEL_BYTES};

/// Two command buffers with their fences, and staging, used by one transfer at a time.
pub(super) struct Lane {
    pub device: Arc<Device>,
    pool: vk::CommandPool,
    turns: [Turn; 2],
    /// The turn of the last piece that nobody waited for.
    pub last: usize,
    pub staging: Staging,
    /// What [`super::repack`] has on the device, where that repacks.
    pub stage: Option<Storage>,
}

/// A command buffer with its fence.
struct Turn {
    commands: vk::CommandBuffer,
    fence: vk::Fence,
    in_flight: bool,
    /// What the submission in flight uses.
    used: Vec<Used>,
}

/// Something that a submission uses after its caller has left.
pub(super) type Used = Box<dyn Send>;

pub(super) struct Staging {
    pub buffer: RawBuffer,
    host: HostPtr,
    /// Size in texels.
    pub texels: u64,
    /// Holds the mapping that `host` points into.
    _memory: Memory,
}

impl Staging {
    fn new(device: &Arc<Device>, bytes: u64) -> Result<Self> {
        let what = "the staging buffer";
        let texels = bytes.div_ceil(TEXEL_BYTES).max(1);
        let buffer = RawBuffer::new(device, what, texels * TEXEL_BYTES)?;
        let memory = Memory::pooled(device, what, buffer.requirements(), Purpose::Staging)?;
        buffer.bind(&memory)?;
        let host = memory.host.ok_or_else(|| Error::invalid(what, "its memory must be mapped and coherent"))?;
        Ok(Self { buffer, host, texels, _memory: memory })
    }

    pub fn write(&self, texel: u64, data: &[u8]) {
        assert!(texel * TEXEL_BYTES + data.len() as u64 <= self.texels * TEXEL_BYTES);
        // SAFETY: in bounds by the assertion; the lane is borrowed mutably by its one user, who waited for the
        // submissions that use these texels.
        unsafe { self.host.write(texel * TEXEL_BYTES, data) }
    }

    pub fn read(&self, texel: u64, out: &mut [u8]) {
        assert!(texel * TEXEL_BYTES + out.len() as u64 <= self.texels * TEXEL_BYTES);
        // SAFETY: as in `write`.
        unsafe { self.host.read(texel * TEXEL_BYTES, out) }
    }
}

/// The longest run from `first` that fits `room` texels of staging, of `left` that remain; 0 asks for empty staging
/// first.
fn next_run(kind: StorageKind, width: u64, first: u64, left: u64, room: u64, capacity: u64) -> u64 {
    let x = first % width;
    match kind {
        StorageKind::Buffer => left.min(room),
        // A row that would fit empty staging is not cut.
        StorageKind::Image if room < left.min(width - x).min(capacity) => 0,
        StorageKind::Image if x == 0 && left >= width && room >= width => (left.min(room) / width) * width,
        StorageKind::Image => left.min(width - x).min(room),
    }
}

impl Lane {
    pub fn new(device: &Arc<Device>, staging_bytes: u64) -> Result<Self> {
        let staging = Staging::new(device, staging_bytes)?;
        let idle = || Turn {
            commands: vk::CommandBuffer::null(),
            fence: vk::Fence::null(),
            in_flight: false,
            used: Vec::new(),
        };
        let mut lane = Self {
            device: Arc::clone(device),
            pool: vk::CommandPool::null(),
            turns: [idle(), idle()],
            last: 1,
            staging,
            stage: None,
        };
        let raw = &device.raw;
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER | vk::CommandPoolCreateFlags::TRANSIENT)
            .queue_family_index(device.adapter.queue_family);
        // SAFETY: the family is the one the device was made with.
        lane.pool =
            unsafe { raw.create_command_pool(&info, None) }.map_err(|r| device.failed("vkCreateCommandPool", r))?;
        let info = vk::CommandBufferAllocateInfo::default().command_pool(lane.pool).command_buffer_count(2);
        // SAFETY: the pool was just made.
        let commands =
            unsafe { raw.allocate_command_buffers(&info) }.map_err(|r| device.failed("vkAllocateCommandBuffers", r))?;
        for (turn, commands) in lane.turns.iter_mut().zip(commands) {
            turn.commands = commands;
            // SAFETY: no precondition beyond a live device.
            turn.fence = unsafe { raw.create_fence(&vk::FenceCreateInfo::default(), None) }
                .map_err(|r| device.failed("vkCreateFence", r))?;
        }
        Ok(lane)
    }

    /// Records with `record`, submits, and waits.
    fn run(&mut self, record: impl FnOnce(Recorder<'_>)) -> Result<()> {
        self.start(0, record)?;
        self.finish(0)
    }

    /// Keeps something until a turn is over.
    pub fn keep(&mut self, turn: usize, used: Used) {
        self.turns[turn].used.push(used);
    }

    /// Waits until both turns are over: all of staging is free, and so is all that either uses.
    pub fn rest(&mut self) -> Result<()> {
        let waited = [0, 1].map(|turn| self.wait(turn));
        waited.into_iter().fold(Ok(()), Result::and)?;
        self.turns.iter_mut().for_each(|turn| turn.used.clear());
        Ok(())
    }

    fn wait(&mut self, turn: usize) -> Result<()> {
        let Turn { fence, in_flight, .. } = &mut self.turns[turn];
        if *in_flight {
            self.device.wait(*fence)?;
            *in_flight = false;
        }
        Ok(())
    }

    /// Waits until a turn is over, records with `record`, and submits.
    pub fn start(&mut self, turn: usize, record: impl FnOnce(Recorder<'_>)) -> Result<()> {
        self.finish(turn)?;
        let (device, Turn { commands, fence, in_flight, .. }) = (&self.device, &mut self.turns[turn]);
        // SAFETY: the turn's last submission was waited for (or failed, which loses the device), so the command buffer
        // and fence are idle.
        unsafe {
            device
                .raw
                .reset_command_buffer(*commands, vk::CommandBufferResetFlags::empty())
                .map_err(|r| device.failed("vkResetCommandBuffer", r))?;
            device.raw.reset_fences(&[*fence]).map_err(|r| device.failed("vkResetFences", r))?;
        }
        let recorder = Recorder::begin(device, *commands, vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT)?;
        recorder.acquire();
        record(recorder);
        recorder.release_to_host();
        recorder.end()?;
        device.submit(&[*commands], *fence)?;
        *in_flight = true;
        Ok(())
    }

    /// Waits until a turn is over.
    pub fn finish(&mut self, turn: usize) -> Result<()> {
        self.wait(turn)?;
        self.turns[turn].used.clear();
        Ok(())
    }

    /// Sets every word of the storage to `pattern`.
    pub fn fill(&mut self, storage: &Storage, pattern: u32) -> Result<()> {
        self.run(|recorder| {
            discard_for_write(recorder, storage, true);
            recorder.fill(storage, pattern);
        })?;
        storage.set_defined();
        Ok(())
    }

    fn copy(&mut self, from: &Storage, to: &Storage) -> Result<()> {
        self.run(|recorder| {
            discard_for_write(recorder, to, true);
            recorder.copy(from, to);
        })?;
        to.set_defined();
        Ok(())
    }

    fn upload(&mut self, items: &[(&Storage, u64, &[u8])]) -> Result<()> {
        self.rest()?;
        let mut pending: Vec<(&Storage, Run, u64)> = Vec::new();
        let mut used = 0;
        for &(storage, start, data) in items {
            let (mut first, mut rest) = (start, data);
            while !rest.is_empty() {
                let left = rest.len() as u64 / TEXEL_BYTES;
                let width = storage.width().into();
                let room = self.staging.texels - used;
                let texels = next_run(storage.kind(), width, first, left, room, self.staging.texels);
                if texels == 0 {
                    self.flush_upload(&mut pending)?;
                    used = 0;
                    continue;
                }
                let (piece, after) = rest.split_at((texels * TEXEL_BYTES) as usize);
                self.staging.write(used, piece);
                pending.push((storage, Run { first, texels }, used));
                used += texels;
                first += texels;
                rest = after;
            }
        }
        self.flush_upload(&mut pending)
    }

    fn flush_upload(&mut self, pending: &mut Vec<(&Storage, Run, u64)>) -> Result<()> {
        let staging = self.staging.buffer.raw;
        self.run(|recorder| {
            let mut ready: Option<&Storage> = None;
            for &(storage, run, at) in pending.iter() {
                // The pieces behind a storage's first one find it ready.
                if !ready.is_some_and(|before| before.same(storage)) {
                    discard_for_write(recorder, storage, run.texels == storage.texels());
                    ready = Some(storage);
                }
                recorder.copy_in(staging, at * TEXEL_BYTES, storage, run);
            }
        })?;
        pending.drain(..).for_each(|(storage, ..)| storage.set_defined());
        Ok(())
    }

    fn download(&mut self, items: &mut [(&Storage, u64, &mut [u8])]) -> Result<()> {
        self.rest()?;
        let mut pending: Vec<(usize, usize, Run, u64)> = Vec::new();
        let mut used = 0;
        for index in 0..items.len() {
            let (storage, start, out) = &items[index];
            let (storage, start, total) = (*storage, *start, out.len() as u64 / TEXEL_BYTES);
            let mut done = 0;
            while done < total {
                let room = self.staging.texels - used;
                let width = storage.width().into();
                let first = start + done;
                let texels = next_run(storage.kind(), width, first, total - done, room, self.staging.texels);
                if texels == 0 {
                    self.flush_download(items, &mut pending)?;
                    used = 0;
                    continue;
                }
                pending.push((index, (done * TEXEL_BYTES) as usize, Run { first, texels }, used));
                used += texels;
                done += texels;
            }
        }
        self.flush_download(items, &mut pending)
    }

    fn flush_download(
        &mut self,
        items: &mut [(&Storage, u64, &mut [u8])],
        pending: &mut Vec<(usize, usize, Run, u64)>,
    ) -> Result<()> {
        let staging = self.staging.buffer.raw;
        self.run(|recorder| {
            for &(index, _, run, at) in pending.iter() {
                recorder.copy_out(items[index].0, run, staging, at * TEXEL_BYTES);
            }
        })?;
        for (index, offset, run, at) in pending.drain(..) {
            let bytes = (run.texels * TEXEL_BYTES) as usize;
            self.staging.read(at, &mut items[index].2[offset..offset + bytes]);
        }
        Ok(())
    }
}

/// Readies an image for a write: one whose whole contents are replaced and whose memory others share, and one never
/// written.
fn discard_for_write(recorder: Recorder<'_>, storage: &Storage, whole: bool) {
    if !storage.is_defined() || (whole && storage.is_aliased()) {
        recorder.discard(std::iter::once(storage));
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Err(why) = self.rest() {
            log::debug!("the last transfer: {why}");
            // SAFETY: the device is alive; nobody submits through a lane that goes. A lost device may refuse, and has stopped.
            _ = unsafe { self.device.raw.device_wait_idle() };
        }
        // SAFETY: every submission was waited for; destroying null handles does nothing.
        unsafe {
            self.turns.iter().for_each(|turn| self.device.raw.destroy_fence(turn.fence, None));
            self.device.raw.destroy_command_pool(self.pool, None);
        }
    }
}

impl Gpu {
    /// Writes all texels, row by row: `width * height * 16` bytes.
    pub fn upload(&self, storage: &Storage, data: &[u8]) -> Result<()> {
        self.upload_many(&[(storage, data)])
    }

    /// Writes all texels of several storages, in as few submissions as staging allows.
    pub fn upload_many(&self, items: &[(&Storage, &[u8])]) -> Result<()> {
        let mut staged = Vec::new();
        for &(storage, data) in items {
            self.check_rows(storage, 0, data.len())?;
            if data.len() as u64 != storage.bytes() {
                let what = format!("upload of {} bytes to a {}", data.len(), storage.describe());
                return Err(Error::invalid(what, format!("all its {} bytes are written", storage.bytes())));
            }
            if !self.write_mapped(storage, 0, data)? {
                staged.push((storage, 0, data));
            }
        }
        if staged.is_empty() { Ok(()) } else { lock(&self.lane).upload(&staged) }
    }

    /// Sets all texels to zero but these, each with its number in the order of rows: few bytes travel.
    pub fn upload_sparse(&self, storage: &Storage, texels: &[(u64, [u8; TEXEL_BYTES as usize])]) -> Result<()> {
        storage.check_device(&self.device)?;
        if let Some((at, _)) = texels.iter().find(|(at, _)| *at >= storage.texels()) {
            let what = format!("upload of texel {at} to a {}", storage.describe());
            return Err(Error::invalid(what, format!("it has {} texels", storage.texels())));
        }
        let items: Vec<(&Storage, u64, &[u8])> = texels.iter().map(|(at, texel)| (storage, *at, &texel[..])).collect();
        let mut lane = lock(&self.lane);
        lane.fill(storage, 0)?;
        if items.is_empty() { Ok(()) } else { lane.upload(&items) }
    }

    /// Writes whole rows from `first_row` on. Other rows of an image in an arena keep what they hold only while no
    /// storage that shares its memory was written.
    pub fn upload_rows(&self, storage: &Storage, first_row: u32, data: &[u8]) -> Result<()> {
        let first = self.check_rows(storage, first_row, data.len())?;
        if data.is_empty() || self.write_mapped(storage, first, data)? {
            return Ok(());
        }
        lock(&self.lane).upload(&[(storage, first, data)])
    }

    /// All texels, row by row.
    pub fn download(&self, storage: &Storage) -> Result<Vec<u8>> {
        let mut out = vec![0; storage.bytes() as usize];
        self.download_rows(storage, 0, &mut out)?;
        Ok(out)
    }

    /// Reads whole rows from `first_row` on, as many as fill `out`.
    pub fn download_rows(&self, storage: &Storage, first_row: u32, out: &mut [u8]) -> Result<()> {
        let first = self.check_rows(storage, first_row, out.len())?;
        if !storage.is_defined() {
            return Err(Error::invalid(storage.describe(), "it is read only after its first write"));
        }
        if out.is_empty() || self.read_mapped(storage, first, out)? {
            return Ok(());
        }
        lock(&self.lane).download(&mut [(storage, first, out)])
    }

    /// Sets every 32-bit word to `pattern`.
    pub fn fill(&self, storage: &Storage, pattern: u32) -> Result<()> {
        storage.check_device(&self.device)?;
        lock(&self.lane).fill(storage, pattern)
    }

    /// Copies all texels between two storages of one extent, of any kinds. In an arena they must not overlap.
    pub fn copy(&self, from: &Storage, to: &Storage) -> Result<()> {
        from.check_device(&self.device)?;
        to.check_device(&self.device)?;
        check_copy(from, to)?;
        if !from.is_defined() {
            return Err(Error::invalid(from.describe(), "it is read only after its first write"));
        }
        lock(&self.lane).copy(from, to)
    }

    /// The first texel of a window of whole rows, when it lies within the storage.
    fn check_rows(&self, storage: &Storage, first_row: u32, bytes: usize) -> Result<u64> {
        storage.check_device(&self.device)?;
        let row_bytes = u64::from(storage.width()) * TEXEL_BYTES;
        let rows = bytes as u64 / row_bytes;
        if !(bytes as u64).is_multiple_of(row_bytes) || rows + u64::from(first_row) > storage.height().into() {
            let what = format!("{bytes} bytes from row {first_row} of a {}", storage.describe());
            return Err(Error::invalid(what, format!("a transfer covers whole rows of {row_bytes} bytes within it")));
        }
        Ok(u64::from(first_row) * u64::from(storage.width()))
    }

    fn write_mapped(&self, storage: &Storage, first: u64, data: &[u8]) -> Result<bool> {
        let Some((host, offset)) = storage.host().filter(|_| !self.force_staging) else { return Ok(false) };
        let at = offset + first * TEXEL_BYTES;
        // SAFETY: `check_rows` bounded the range; the queue is idle and the lock held, so nobody else touches the
        // memory.
        self.device.with_idle_queue(|| unsafe { host.write(at, data) })?;
        Ok(true)
    }

    /// Reads through the mapping only where the host caches it; elsewhere staging is faster.
    fn read_mapped(&self, storage: &Storage, first: u64, out: &mut [u8]) -> Result<bool> {
        let Some((host, offset)) = storage.host().filter(|(h, _)| h.cached && !self.force_staging) else {
            return Ok(false);
        };
        let at = offset + first * TEXEL_BYTES;
        // SAFETY: as in `write_mapped`.
        self.device.with_idle_queue(|| unsafe { host.read(at, out) })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cuts a window as the lane does and returns the runs with their place in staging.
    fn cut(kind: StorageKind, width: u64, first: u64, total: u64, capacity: u64) -> Vec<(u64, u64)> {
        let (mut runs, mut done, mut used) = (Vec::new(), 0, 0);
        while done < total {
            match next_run(kind, width, first + done, total - done, capacity - used, capacity) {
                0 => {
                    assert!(used > 0, "empty staging always takes something");
                    used = 0;
                }
                n => {
                    runs.push((first + done, n));
                    done += n;
                    used += n;
                }
            }
        }
        runs
    }

    #[test]
    fn buffers_fill_staging_to_the_brim() {
        assert_eq!(cut(StorageKind::Buffer, 3, 0, 10, 4), [(0, 4), (4, 4), (8, 2)]);
    }

    #[test]
    fn images_are_cut_between_rows_where_a_row_fits() {
        assert_eq!(cut(StorageKind::Image, 3, 3, 15, 7), [(3, 6), (9, 6), (15, 3)]);
    }

    #[test]
    fn rows_beyond_staging_are_cut_inside() {
        assert_eq!(cut(StorageKind::Image, 5, 0, 10, 3), [(0, 3), (3, 2), (5, 3), (8, 2)]);
    }

    #[test]
    fn every_run_of_an_image_is_a_box() {
        for width in 1..9 {
            for height in 1..6 {
                for capacity in 1..20 {
                    let mut next = 0;
                    for (first, n) in cut(StorageKind::Image, width, 0, width * height, capacity) {
                        assert_eq!(first, next);
                        next += n;
                        let part_of_row = first % width + n <= width;
                        assert!(part_of_row || (first % width == 0 && n % width == 0), "{width} {capacity}");
                    }
                    assert_eq!(next, width * height);
                }
            }
        }
    }
}
