//! Budgets as people write them.

/// Bytes of memory; parsed from a number, with `KiB`, `MiB` or `GiB` behind it if wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Budget(pub u64);

const UNITS: [(&str, u64); 3] = [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl std::str::FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let unit = UNITS.into_iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)));
        let (number, unit) = unit.unwrap_or((text, 1));
        let bytes = number.trim_end().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
        bytes.map(Self).ok_or_else(|| format!("budget '{text}' is no number of bytes, KiB, MiB or GiB"))
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn budgets_have_units() {
        let parse = |text: &str| text.parse::<Budget>().map(|Budget(bytes)| bytes);
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("3 GiB"), Ok(3 << 30));
        assert_eq!(parse("512MiB"), Ok(512 << 20));
        for bad in ["", "GiB", "-1", "1.5GiB", "1GB", "18446744073709551615KiB"] {
            assert!(parse(bad).is_err_and(|why| why.contains("MiB")), "{bad}");
        }
    }
}
