//! The ggml backend plugin: what ggml loads, and nothing that decides how to compute.

pub mod memory;
pub mod record;
pub mod abi;
