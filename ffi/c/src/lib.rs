//! The C face of FBLayout. `include/fblayout.h` is generated from this crate, its documentation from the one here.
//!
//! | modules | what |
//! |---|---|
//! | `status`, `failure`, `guard` | what a call answers, and that no panic passes |
//! | `versioned`, `text` | structs and strings that cross the border |
//! | `version`, `log` | what belongs to no engine |
//! | `device`, `engine` | the first layer: devices, and one of them opened |
//! | `dtype`, `handle`, `graph`, `view`, `ops`, `program`, `plan`, `page` | the second: graphs, and what they are compiled to |
//! | `train` | the third: adapters, optimizers, checkpoints |
//!
//! The order of the modules below is that of the header.

#![allow(non_camel_case_types, reason = "types have the names that C gives them")]

pub mod status;
pub mod version;

pub mod log;

pub mod device;

pub mod engine;

pub mod dtype;
pub mod handle;

pub mod graph;

pub mod view;

pub mod ops;

pub mod program;

pub mod train;

mod failure;
mod guard;
mod page;
mod plan;
mod text;
mod versioned;
