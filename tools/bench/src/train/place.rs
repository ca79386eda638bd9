//! The file that results are kept in: the day and the device.

/// `2026-01-31`, the day of so many seconds since 1970 (UTC).
pub fn day(seconds: u64) -> String {
    // Years begin in March here, so that the odd day is a year's last: months are then 153 days by five.
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{day:02}", 400 * era + year + later)
}

/// `2026-01-31-nvidia-h200.json`.
pub fn file_name(day: &str, device: &str) -> String {
    let words: Vec<String> = device
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    format!("{day}-{}.json", words.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for (days, want) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (11_322, "2000-12-31"),
            (20_454, "2026-01-01"),
            (47_540, "2100-02-28"),
            (47_541, "2100-03-01"),
        ] {
            assert_eq!(day(days * 86_400), want);
            assert_eq!(day(days * 86_400 + 86_399), want);
        }
    }

    #[test]
    fn devices_are_words_of_a_file_name() {
        let name = file_name("2026-01-31", "llvmpipe (LLVM 15.0.6, 256 bits)");
        assert_eq!(name, "2026-01-31-llvmpipe-llvm-15-0-6-256-bits.json");
        assert_eq!(file_name("2026-01-31", "NVIDIA H200"), "2026-01-31-nvidia-h200.json");
    }
}
