//! The lowering without a device: the arithmetic of the shaders' addressing, done again in Rust, against the layout algebra,
//! and what every op becomes.

mod addressing;
mod epilogue;
mod lowering;

use super::{Operand, StorageKind};
use crate::device::Limits;
use crate::graph::{DType, Shape};
use crate::layout::Layout;

/// A machine of the given vector width.
fn limits(subgroup_size: u32) -> Limits {
    Limits { max_workgroup_invocations: 128, subgroup_size, ..Limits::for_tests() }
}

/// An operand at home in tiles of `h` rows of axis 1.
fn home(dtype: DType, shape: Shape, h: u32) -> Operand {
    let layout = Layout::rtile(&shape, dtype.lanes(), 1, h, 4096, u32::MAX).unwrap();
    let pitch = dtype.row_texels(layout.width());
    Operand { dtype, view: layout.view(), flat: false, storage: StorageKind::Buffer, pitch }
}
