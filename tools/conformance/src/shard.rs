//! Parts of a suite, for runs that go on side by side or one after the other.

use std::str::FromStr;

/// A part of the cases: those whose place, counted from 0, leaves `index` when divided by `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    /// All cases.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Whether the case at a place belongs to it.
    pub fn has(&self, place: usize) -> bool {
        place % self.count == self.index
    }
}

impl FromStr for Shard {
    type Err = String;

    /// `I/N`, I from 1 to N.
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((index @ 1.., count)) if index <= count => Ok(Self { index: index - 1, count }),
            _ => Err(format!("'{text}' is no shard: it is I/N, I from 1 to N")),
        }
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_written_from_1() {
        for wrong in ["0/3", "4/3", "1", "1/", "a/b", "-1/2"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
        assert_eq!("3/3".parse::<Shard>().unwrap().to_string(), "3/3");
    }
}
