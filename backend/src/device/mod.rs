//! What a machine can do, as plain data.

mod limits;

pub use limits::Limits;
