//! How numbers of many plans or runs become one, and how they are written.

use std::fmt;

/// Least, greatest and geometric mean of positive numbers, as ratios are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub most: f64,
    pub mean: f64,
}

impl Spread {
    /// Of these numbers; nothing of none, and nothing if one is not positive and finite.
    pub fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let numbers: Vec<f64> = numbers.into_iter().collect();
        if numbers.is_empty() || !numbers.iter().all(|x| *x > 0.0 && x.is_finite()) {
            return None;
        }
        let logs: f64 = numbers.iter().map(|x| x.ln()).sum();
        Some(Self {
            least: numbers.iter().copied().fold(f64::INFINITY, f64::min),
            most: numbers.iter().copied().fold(0.0, f64::max),
            mean: (logs / numbers.len() as f64).exp(),
        })
    }
}

/// `least–most`, or one number where they are written alike.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [least, most] = [self.least, self.most].map(|x| format!("{x:.2}"));
        if least == most { f.write_str(&least) } else { write!(f, "{least}–{most}") }
    }
}

/// A number that may be missing.
pub fn or_dash(number: Option<impl fmt::Display>) -> String {
    number.map_or_else(|| "–".to_owned(), |n| n.to_string())
}

/// Part of a whole in percent; all of nothing is 100.
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 100.0 } else { 100.0 * part as f64 / whole as f64 }
}

/// Median, and the tenth and the ninetieth percentile (nearest rank).
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Quantiles {
    pub p10: f64,
    pub median: f64,
    pub p90: f64,
}

impl Quantiles {
    /// Of these numbers; nothing of none.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted = numbers.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(rank.max(1) - 1).copied()
        };
        Some(Self { p10: rank(0.1)?, median: rank(0.5)?, p90: rank(0.9)? })
    }
}

/// Three significant digits or whole numbers.
pub fn short(x: f64) -> String {
    match x.abs() {
        x_abs if x_abs >= 100.0 || x_abs == 0.0 => format!("{x:.0}"),
        x_abs if x_abs >= 10.0 => format!("{x:.1}"),
        x_abs if x_abs >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// Bytes in GiB.
pub fn gib(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / f64::from(1 << 30))
}

/// Bytes in MiB.
pub fn mib(bytes: u64) -> String {
    short(bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_average_as_ratios_do() {
        let spread = Spread::of([2.0, 0.5, 1.0]).unwrap();
        assert_eq!((spread.least, spread.most), (0.5, 2.0));
        assert!((spread.mean - 1.0).abs() < 1e-15);
        assert_eq!(spread.to_string(), "0.50–2.00");
        assert_eq!(Spread::of([1.001, 1.0]).unwrap().to_string(), "1.00");
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::INFINITY]), None, "a ratio over nothing is none");
        assert_eq!(Spread::of([0.0]), None);
    }

    #[test]
    fn quantiles_are_members() {
        let numbers: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(Quantiles::of(&numbers), Some(Quantiles { p10: 2.0, median: 10.0, p90: 18.0 }));
        assert_eq!(Quantiles::of(&[3.0]), Some(Quantiles { p10: 3.0, median: 3.0, p90: 3.0 }));
        assert_eq!(Quantiles::of(&[]), None);
    }

    #[test]
    fn nothing_to_eliminate_is_all_eliminated() {
        assert_eq!((percent(0, 0), percent(1, 4)), (100.0, 25.0));
    }
}
