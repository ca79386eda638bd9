//! Transfers that the device repacks: bytes pass through staging as the host has them, and a dispatch brings them where they belong.
//!
//! Staging has two halves, and so has a buffer of the device: the host copies into one, or out of it, while the device works on the
//! other.

use std::iter;
use std::sync::Arc;

use crate::kernels::{REPACK_BYTES, REPACK_HEADER, REPACK_HOME, Way};
use crate::plan::{Piece, Repack};

use super::descriptors::Descriptors;
use super::device::lock;
use super::error::{Error, Result};
use super::gpu::Gpu;
use super::pipeline::Pipeline;
use super::record::Run;
use super::storage::{Storage, TEXEL_BYTES};
use super::tape::Operand;
use super::transfer::Lane;

/// Texels of a header.
const HEADER: u64 = 4 * REPACK_HEADER as u64 / TEXEL_BYTES;

/// Texels behind the bytes that kernels may read.
const SLACK: u64 = 2;

/// Texels that halves are multiples of, so that a binding may begin with the second.
const UNIT: u64 = 16;

/// Pieces of a transfer that has no more than staging, so that host and device work at the same time; a submission of fewer bytes would take
/// longer than copying them. Nobody waits for the device on the way in, only for what it has to do before.
const PIECES: u64 = 4;
const LEAST_PIECE_IN: u64 = 4 << 20;
const LEAST_PIECE_OUT: u64 = 1 << 20;

/// A transfer of one storage, with what is the same for all of its pieces.
struct Work<'a> {
    gpu: &'a Gpu,
    pipeline: &'a Arc<Pipeline>,
    storage: &'a Storage,
    stage: Storage,
    sets: Descriptors,
}

impl Work<'_> {
    /// The texels of a turn's half.
    fn first(&self, turn: usize) -> u64 {
        turn as u64 * u64::from(self.stage.width())
    }
}

impl Lane {
    /// Texels of a half of staging, which a dispatch binds beside as much of a home.
    pub fn half(&self) -> u32 {
        let limits = &self.device.limits;
        let bound = limits.max_storage_buffer_range.min(limits.max_bound_bytes / 2) / TEXEL_BYTES;
        let unit = UNIT.max(limits.storage_buffer_alignment / TEXEL_BYTES);
        (self.staging.texels / 2).min(bound).min(u32::MAX.into()) as u32 / unit as u32 * unit as u32
    }

    /// The device's halves; `None` while there is no memory for them.
    pub fn stage(&mut self, half: u32) -> Result<Option<Storage>> {
        if self.stage.is_none() {
            match Storage::stage(&self.device, half, 2) {
                Ok(stage) => self.stage = Some(stage),
                Err(why @ (Error::OutOfDeviceMemory { .. } | Error::NoMemory { .. })) => {
                    log::debug!("the processor repacks what is transferred: {why}");
                }
                Err(why) => return Err(why),
            }
        }
        Ok(self.stage.clone())
    }

    /// Returns when the last piece is submitted: what comes later on the queue finds the bytes where they belong.
    fn repack_in(&mut self, mut work: Work<'_>, pieces: &[Piece], bytes: &[u8]) -> Result<()> {
        let done = pieces.iter().try_for_each(|piece| {
            // The turn that ends first.
            let (turn, lane) = (1 - self.last, &mut *self);
            lane.finish(turn)?;
            lane.last = turn;
            let first = work.first(turn);
            let moved = &bytes[piece.bytes.clone()];
            lane.staging.write(first, bytemuck::cast_slice(&piece.header));
            lane.staging.write(first + HEADER, moved);
            let set = work.set(turn, piece)?;
            let staged = Run { first, texels: HEADER + (moved.len() as u64).div_ceil(TEXEL_BYTES) };
            let staging = lane.staging.buffer.raw;
            lane.start(turn, |recorder| {
                recorder.copy_in(staging, first * TEXEL_BYTES, &work.stage, staged);
                recorder.barrier();
                recorder.dispatch(work.pipeline, set, piece.groups);
            })
        });
        // A storage larger than staging must not outlive its owner.
        let held = work.storage.bytes() <= self.staging.texels * TEXEL_BYTES;
        let ended = if done.is_ok() && held { Ok(()) } else { done.and(self.rest()) };
        // The turn that ends last has all that either uses.
        let Work { pipeline, storage, stage, sets, .. } = work;
        self.keep(self.last, Box::new((Arc::clone(pipeline), storage.clone(), stage, sets)));
        ended
    }

    fn repack_out(&mut self, mut work: Work<'_>, pieces: &[Piece], out: &mut [u8]) -> Result<()> {
        let mut waiting: [Option<Piece>; 2] = [None, None];
        let calls = pieces.iter().map(Some).chain(iter::repeat_n(None, 2));
        let done = calls.enumerate().try_for_each(|(n, piece)| {
            let (lane, turn) = (&mut *self, n % 2);
            lane.finish(turn)?;
            let first = work.first(turn);
            if let Some(done) = waiting[turn].take() {
                lane.staging.read(first + HEADER, &mut out[done.bytes]);
            }
            let Some(piece) = piece else { return Ok(()) };
            lane.staging.write(first, bytemuck::cast_slice(&piece.header));
            let set = work.set(turn, piece)?;
            let header = Run { first, texels: HEADER };
            let moved = Run { first: first + HEADER, texels: (piece.bytes.len() as u64).div_ceil(TEXEL_BYTES) };
            let staging = lane.staging.buffer.raw;
            lane.start(turn, |recorder| {
                recorder.copy_in(staging, first * TEXEL_BYTES, &work.stage, header);
                recorder.barrier();
                recorder.dispatch(work.pipeline, set, piece.groups);
                recorder.barrier();
                recorder.copy_out(&work.stage, moved, staging, moved.first * TEXEL_BYTES);
            })?;
            waiting[turn] = Some(piece.clone());
            Ok(())
        });
        // Whatever happened.
        done.and(self.rest())
    }
}

impl Work<'_> {
    /// A set for one piece: a half of the stage, and what the piece touches of the storage.
    fn set(&mut self, turn: usize, piece: &Piece) -> Result<ash::vk::DescriptorSet> {
        let half = turn as u32..turn as u32 + 1;
        let operands = [
            Operand { slot: REPACK_BYTES, storage: &self.stage, rows: Some(half) },
            Operand { slot: REPACK_HOME, storage: self.storage, rows: piece.rows.clone() },
        ];
        self.sets.write(self.gpu, self.pipeline, &operands)
    }
}

impl Gpu {
    /// Bytes that a piece of a repacked transfer has room for; 0 where `bytes` of this storage are for the processor to repack.
    pub fn repack_room(&self, storage: &Storage, way: Way, bytes: u64) -> u64 {
        let mapped = storage.host().is_some() && !self.force_staging;
        if !self.repacking.by_device(self.device.adapter.info.kind, mapped, bytes) {
            return 0;
        }
        let least = match way {
            Way::In => LEAST_PIECE_IN,
            Way::Out => LEAST_PIECE_OUT,
        };
        self.piece_room().min((bytes / PIECES).max(least).next_multiple_of(TEXEL_BYTES))
    }

    /// Bytes that half of staging has room for behind a header.
    fn piece_room(&self) -> u64 {
        u64::from(self.half).saturating_sub(HEADER + SLACK) * TEXEL_BYTES
    }

    /// Writes what `repack` moves; false, and nothing is, where the device has no memory to do so.
    pub fn repack_in(&self, storage: &Storage, repack: &Repack, bytes: &[u8]) -> Result<bool> {
        self.repack(storage, repack, Way::In, bytes.len(), |lane, work| lane.repack_in(work, &repack.pieces, bytes))
    }

    /// Reads what `repack` moves; false, and nothing is, where the device has no memory to do so.
    pub fn repack_out(&self, storage: &Storage, repack: &Repack, out: &mut [u8]) -> Result<bool> {
        let length = out.len();
        self.repack(storage, repack, Way::Out, length, |lane, work| lane.repack_out(work, &repack.pieces, out))
    }

    fn repack(
        &self,
        storage: &Storage,
        repack: &Repack,
        way: Way,
        length: usize,
        transfer: impl FnOnce(&mut Lane, Work<'_>) -> Result<()>,
    ) -> Result<bool> {
        storage.check_device(&self.device)?;
        self.check_pieces(storage, repack, way, length)?;
        if repack.pieces.is_empty() {
            return Ok(true);
        }
        let shader = fblayout_shaders::get(repack.shader)
            .ok_or_else(|| Error::invalid(repack.shader.to_owned(), "it is the name of a shader"))?;
        let pipeline = self.pipeline(shader, &repack.constants)?;
        let mut lane = lock(&self.lane);
        let Some(stage) = lane.stage(self.half)? else { return Ok(false) };
        let sets = Descriptors::of(&self.device, || iter::repeat_n(&*pipeline, repack.pieces.len()))?;
        transfer(&mut lane, Work { gpu: self, pipeline: &pipeline, storage, stage, sets })?;
        Ok(true)
    }

    /// All that recording takes for granted.
    fn check_pieces(&self, storage: &Storage, repack: &Repack, way: Way, length: usize) -> Result<()> {
        let what = || format!("repacking of {length} bytes of a {}", storage.describe());
        if !storage.is_defined() {
            return Err(Error::invalid(what(), "it is done after the first write"));
        }
        let room = self.piece_room();
        let counts = self.device.limits.max_workgroup_count;
        let held = |piece: &Piece| {
            piece.bytes.start <= piece.bytes.end
                && piece.bytes.end <= length
                && piece.bytes.len() as u64 <= room
                && piece.groups.iter().zip(counts).all(|(&groups, most)| groups <= most)
        };
        if repack.way == way && repack.pieces.iter().all(held) {
            return Ok(());
        }
        Err(Error::invalid(what(), "its pieces go that way, lie within the bytes and fit staging and a dispatch"))
    }
}
