//! The C face of FBLayout. `include/fblayout.h` is generated from this crate, its documentation from the one here.
//!
//! | modules | what |
//! |---|---|
//! | `status`, `failure`, `guard` | what a call answers, and that no panic passes |
//! | `versioned`, `text` | structs and strings that cross the border |
//! | `version`, `log` | what belongs to no engine |
//! | `device`, `engine` | the first layer: devices, and one of them opened |

#![allow(non_camel_case_types, reason = "types have the names that C gives them")]

pub mod device;
pub mod engine;
mod failure;
mod guard;
pub mod log;
pub mod status;
mod text;
pub mod version;
mod versioned;
