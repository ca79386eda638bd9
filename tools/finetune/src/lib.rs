//! LoRA fine-tuning of GGUF language models on any ggml device.
//!
//! A run is: [`options`] -> [`model`] file and [`dataset`] -> one training [`step`] graph -> loop ([`train`]) -> adapter
//! ([`lora`]) -> [`answers`] of stock llama.cpp before and after.

pub mod answers;
pub mod chat;
pub mod dataset;
pub mod device;
pub mod error;
pub mod fetch;
pub mod forward;
pub mod lora;
pub mod metrics;
pub mod model;
pub mod options;
pub mod output;
pub mod progress;
pub mod rng;
pub mod spans;
pub mod step;
pub mod train;

pub use error::{Error, Result};
pub use options::Options;
pub use train::run;
