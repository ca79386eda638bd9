//! Figures with their units, three digits each.

use fblayout::plan::Objective;

/// Bytes in binary multiples.
pub fn bytes(n: u64) -> String {
    scaled(n as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
}

/// Seconds.
pub fn seconds(s: f64) -> String {
    scaled(s * 1e9, 1e3, &["ns", "µs", "ms", "s"])
}

/// What an objective counts: time, or a share of operations.
pub fn cost(cost: f64, objective: Objective) -> String {
    match objective {
        Objective::TimeHarmonic => seconds(cost),
        Objective::PaperArithmetic => format!("{:.4} % of efficiency missed", 100.0 * cost),
    }
}

/// A rate or a count in decimal multiples of a unit.
pub fn decimal(x: f64, unit: &str) -> String {
    let text = scaled(x, 1e3, &["", "k", "M", "G", "T", "P"]);
    let (number, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{number} {prefix}{unit}")
}

/// A share of one.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        p if p == 0.0 || p >= 9.95 => format!("{p:.0} %"),
        p if p >= 0.095 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

fn scaled(x: f64, base: f64, units: &[&str]) -> String {
    let mut x = x;
    let mut rest = units;
    // What rounds to the base belongs to the next unit.
    while rest.len() > 1 && x >= base - 0.5 {
        x /= base;
        rest = &rest[1..];
    }
    let digits = match x {
        _ if x == x.trunc() && rest.len() == units.len() => 0,
        x if x >= 99.95 => 0,
        x if x >= 9.995 => 1,
        _ => 2,
    };
    format!("{x:.digits$} {}", rest.first().unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        assert_eq!([0, 7, 1023, 1024, 1536 << 20].map(bytes), ["0 B", "7 B", "1023 B", "1.00 KiB", "1.50 GiB"]);
        assert_eq!([0.0, 2.5e-8, 1.5e-3, 12.0].map(seconds), ["0 ns", "25 ns", "1.50 ms", "12.0 s"]);
        assert_eq!(decimal(2.8e12, "FLOP/s"), "2.80 TFLOP/s");
        assert_eq!(decimal(12.0, "FLOP"), "12 FLOP");
        assert_eq!([0.0, 1.0, 0.0571, 0.0004].map(percent), ["0 %", "100 %", "5.7 %", "0.04 %"]);
    }
}
