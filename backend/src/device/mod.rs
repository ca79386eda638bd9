//! What a machine can do, as plain data: limits, clamps that let one machine stand in for a smaller one, and profiles of what it does.

mod clamp;
mod limits;
mod presets;
mod products;
mod profile;

pub use clamp::{ClampError, LimitsClamp};
pub use limits::Limits;
pub use presets::{PRESETS, Preset};
pub use products::{ProductSchedule, Products, StagedTile};
pub use profile::{Case, Estimate, ImageLines, IntegerCosts, Profile};
