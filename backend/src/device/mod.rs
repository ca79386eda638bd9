//! What a machine can do, as plain data: limits, and clamps that let one machine stand in for a smaller one.

mod clamp;
mod limits;
mod presets;

pub use clamp::{ClampError, LimitsClamp};
pub use limits::Limits;
