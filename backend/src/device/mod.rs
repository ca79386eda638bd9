//! What a machine can do, as plain data: limits, clamps that let one machine stand in for a smaller one, and profiles of what it does.

mod clamp;
mod limits;
mod matrix;
mod presets;
mod products;
mod profile;
mod tested;

pub use clamp::{ClampError, LimitsClamp};
pub use limits::{ByteDots, Limits};
pub use matrix::{MatrixType, MatrixUnit};
pub use presets::{PRESETS, Preset};
pub use products::{AcrossTile, MatrixTile, ProductSchedule, Products, SchedulesOff, StagedTile};
pub use profile::{Case, Estimate, ImageLines, IntegerCosts, Profile};
pub use tested::{Outcome, Tested, TestedSchedule};
