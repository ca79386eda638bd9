//! From figures to places on a chart.

use serde::Serialize;

/// A mark on an axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tick {
    /// Place along the axis, in pixels of the drawing.
    pub at: f64,
    /// The figure there.
    pub text: String,
}

/// A logarithmic axis of whole decades.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Log {
    /// An axis from pixel `from` to pixel `to` that covers positive figures.
    pub fn covering(figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) = figures
            .filter(|x| x.is_finite() && *x > 0.0)
            .fold((f64::INFINITY, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
        if high == 0.0 {
            return Self { low: 0, high: 1, from, to };
        }
        let (low, high) = (low.log10().floor() as i32, high.log10().ceil() as i32);
        Self { low, high: high.max(low + 1), from, to }
    }

    /// The place of a figure, within the axis.
    pub fn place(&self, x: f64) -> f64 {
        let share = (x.max(f64::MIN_POSITIVE).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        round(self.from + share.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// The ends of the axis.
    pub fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|decade| 10f64.powi(decade))
    }

    /// Its decades.
    pub fn ticks(&self, text: impl Fn(f64) -> String) -> Vec<Tick> {
        (self.low..=self.high)
            .map(|decade| 10f64.powi(decade))
            .map(|x| Tick { at: self.place(x), text: text(x) })
            .collect()
    }
}

/// Round steps from 0 that cover `most`: 4 to 8 of them.
pub fn round_steps(most: f64, base: f64) -> Vec<f64> {
    if most <= 0.0 {
        return vec![0.0];
    }
    let mut unit = 1.0;
    while unit * base <= most {
        unit *= base;
    }
    let step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 25.0, 50.0, 100.0, 200.0, 250.0]
        .into_iter()
        .map(|step| step * unit)
        .find(|step| most / step <= 5.0)
        .unwrap_or(most);
    (0..).map(|i| f64::from(i) * step).take_while(|x| *x <= most * 1.0001).collect()
}

/// Tenths of a pixel are enough.
pub fn round(x: f64) -> f64 {
    (10.0 * x).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decades_cover_the_figures() {
        let axis = Log::covering([3.0, 0.0, 4500.0].into_iter(), 0.0, 400.0);
        assert_eq!(axis.ends(), [1.0, 1e4]);
        assert_eq!([1.0, 10.0, 1e4, 1e9].map(|x| axis.place(x)), [0.0, 100.0, 400.0, 400.0]);
        assert_eq!(axis.ticks(|x| x.to_string()).len(), 5);
        assert_eq!(Log::covering([0.0].into_iter(), 0.0, 1.0).ends(), [1.0, 10.0]);
    }

    #[test]
    fn steps_are_round_in_their_base() {
        assert_eq!(round_steps(2000.0, 1024.0), [0.0, 512.0, 1024.0, 1536.0]);
        assert_eq!(round_steps(4600.0, 1000.0), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(round_steps(0.0, 10.0), [0.0]);
    }
}
