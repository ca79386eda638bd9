//! Cases that the device does not run, by the beginning of their names, each with the reason. A reason that no case needs any more is an
//! error.

/// Beginning of names, and why the device need not run them.
pub const SKIPS: &[(&str, &str)] = &[];

/// The reason for which a case may be left out.
pub fn reason(name: &str) -> Option<(usize, &'static str)> {
    SKIPS.iter().enumerate().find(|(_, (start, _))| name.starts_with(start)).map(|(at, &(_, why))| (at, why))
}
