//! Do it: instance, device, memory, storages, pipelines and tapes, on Vulkan 1.1.
//!
//! Nothing here decides about layouts; a plan says what to make and what to run. The API is safe under two contracts
//! that no check here replaces: a shader's words are valid SPIR-V, and its accesses stay within what it is bound to.
//!
//! Objects keep alive what they need, so they may be dropped in any order. Transfers wait for their own work, but for
//! uploads that the device repacks, whose lane keeps what they use; a tape's run is waited for by [`Tape::wait`], by the next run, or by its drop, and whatever the tape uses lives as
//! long as the tape.
//!
//! Without a loader, a driver or enough memory the result is an [`Error`], never a panic. A lost device stays lost:
//! every later call says so, and it has to be opened anew.

mod adapter;
mod arena;
mod census;
mod descriptors;
mod device;
mod dots;
mod driver_cache;
mod error;
mod gpu;
mod instance;
mod matrix;
mod memory;
mod options;
mod pipeline;
mod record;
mod repack;
mod storage;
mod tape;
mod transfer;

pub use adapter::{AdapterInfo, AdapterKind, adapters, free_memory};
pub use arena::{Arena, Footprint};
pub use census::Census;
pub use error::{Error, Result};
pub use gpu::{Gpu, MemoryUse};
pub use instance::{ValidationLog, use_loader};
pub use options::{GpuOptions, Repacking, Validation};
pub use pipeline::Pipeline;
pub use storage::{Storage, TEXEL_BYTES};
pub use tape::{Operand, Step, Tape, TapeOptions, Work};
