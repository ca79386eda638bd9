//! The ggml backend plugin: what ggml loads. It translates ggml's buffers and graphs for an engine and decides nothing.
//!
//! | modules | what |
//! |---|---|
//! | `abi`, `host`, `guard` | the border: bindings, functions of the host, no panic passes |
//! | `registry`, `device`, `buffer_type`, `buffer`, `backend` | ggml's five vtables |
//! | `choice` | which devices are registered |
//! | `record`, `memory`, `reservation` | virtual buffers: what is where, byte for byte |
//! | `ops`, `snapshot`, `translate`, `cache` | a ggml graph as a graph of values |
//! | `engine`, `engine_link` | what the plugin asks of an engine, and the engine |

pub mod abi;
pub mod backend;
pub mod buffer;
pub mod buffer_type;
pub mod cache;
pub mod choice;
pub mod device;
pub mod engine;
pub mod engine_link;
pub mod guard;
pub mod host;
pub mod memory;
pub mod ops;
pub mod record;
pub mod registry;
pub mod reservation;
pub mod snapshot;
pub mod translate;

#[cfg(test)]
mod border_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod fault_tests;
#[cfg(test)]
mod hazard_tests;
#[cfg(test)]
mod measured_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod testing;
