//! What steps took on a device, summed over the graphs that a process ran, per kind of step; and how far that is from what the device
//! does at most. Pure but for the file that it is kept in.

mod account;
mod recorder;
mod roof;
mod sums;
#[cfg(test)]
mod tests;

pub(crate) use account::kinds;
pub use recorder::Recorder;
pub use roof::{Ceiling, Roof};
pub use sums::{Bound, Kind, Measured, Phase, ReadError, Runs, Sum, Times};
