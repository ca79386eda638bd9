//! The kernel that moves bytes between the host's linear form and a home: shaders `repack_in`, `repack_out`.

use super::dispatch::LOCAL_SIZE;
use super::operand::{FIRST_ID, IDS_PER_OPERAND, STORAGE};
use super::{Constants, StorageKind};
use crate::device::Limits;

/// Operand slots of the bytes with their header, a buffer, and of the home.
pub const REPACK_BYTES: u32 = 0;
/// See [`REPACK_BYTES`].
pub const REPACK_HOME: u32 = 1;

/// Words of the header before the bytes; what they say is in `repack.glsl`.
pub const REPACK_HEADER: usize = 64;

/// Words of a digit, behind those that are one each.
pub(crate) const DIGIT_WORDS: usize = 4;
pub(crate) const FIRST_DIGIT: usize = 16;

const QUANTS: u32 = 16;

/// Invocations of a workgroup.
const GROUP: u32 = 128;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the host to the home.
    In,
    /// From the home to the host.
    Out,
}

/// Shader and constants of a kernel, the same for every shape, and the invocations of its workgroups.
pub(crate) fn kernel(way: Way, quants: u32, home: StorageKind, limits: &Limits) -> (&'static str, Constants, u32) {
    let shader = match way {
        Way::In => "repack_in",
        Way::Out => "repack_out",
    };
    let storage = |slot, kind| {
        let bits = match kind {
            StorageKind::Buffer => 0,
            StorageKind::Image => 1,
        };
        (FIRST_ID + IDS_PER_OPERAND * slot + STORAGE, bits)
    };
    let group = GROUP.min(limits.largest_group());
    let constants = vec![
        (LOCAL_SIZE, group),
        (QUANTS, quants),
        storage(REPACK_BYTES, StorageKind::Buffer),
        storage(REPACK_HOME, home),
    ];
    (shader, constants.into(), group)
}
