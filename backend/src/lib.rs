//! FBLayout on Vulkan: graphs of tensors, R-Tile layouts, plans, kernels and the device behind them.
//!
//! Read `docs/architecture.md` for the rooms and what each may know.

pub mod device;
pub mod engine;
mod file;
pub mod graph;
pub mod kernels;
pub mod layout;
pub mod plan;
pub mod probe;
pub mod recipe;
pub mod roofline;
pub mod session;
pub mod train;
pub mod vulkan;
