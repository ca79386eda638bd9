//! Every kernel against its f64 oracle, on the Vulkan device present.
//!
//! A [`Case`] is a graph of one node and the data of its external values. [`check`] runs it on a [`Device`] and compares with
//! the oracle under a [`tolerance`] that is derived from the op's arithmetic, not tuned. [`cases`] is the table.

mod adjoint;
mod blocks;
mod case;
pub mod cases;
mod check;
mod counted;
mod fill;
mod fused;
mod programs;
mod reference;
mod sample;
mod tolerance;
mod vulkan;

pub use adjoint::{Adjoint, adjoints};
pub use case::{Case, Setup};
pub use check::{Device, Failure, Outcome, Rounded, check, check_all};
pub use counted::{Count, Counted, CountedDevice, CountedRun, CountingDevice};
pub use fill::Fill;
pub use fused::{FusedCase, FusedSetup};
pub use programs::{ExactProgram, exact_program};
pub use reference::Reference;
pub use sample::{Group, sample};
pub use tolerance::tolerance;
pub use vulkan::{STORAGES, VulkanDevice};
