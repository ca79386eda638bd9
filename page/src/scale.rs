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

/// A logarithmic axis.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    /// Decimal logarithms of its ends.
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Log {
    /// An axis from pixel `from` to pixel `to` that covers positive figures, with a little room at both ends.
    pub fn covering(figures: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        const ROOM: f64 = 0.2;
        let logs = figures.filter(|x| x.is_finite() && *x > 0.0).map(f64::log10);
        let (low, high) = logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let (low, high) = if low <= high { (low - ROOM, high + ROOM) } else { (0.0, 1.0) };
        Self { low, high, from, to }
    }

    /// The place of a figure, within the axis.
    pub fn place(&self, x: f64) -> f64 {
        let share = (x.max(f64::MIN_POSITIVE).log10() - self.low) / (self.high - self.low);
        round(self.from + share.clamp(0.0, 1.0) * (self.to - self.from))
    }

    /// The figure at a place.
    pub fn value(&self, place: f64) -> f64 {
        let share = (place - self.from) / (self.to - self.from);
        10f64.powf(self.low + share * (self.high - self.low))
    }

    /// The ends of the axis.
    pub fn ends(&self) -> [f64; 2] {
        [self.low, self.high].map(|log| 10f64.powf(log))
    }

    /// Its decades.
    pub fn ticks(&self, text: impl Fn(f64) -> String) -> Vec<Tick> {
        let decades = self.low.ceil() as i32..=self.high.floor() as i32;
        decades.map(|decade| 10f64.powi(decade)).map(|x| Tick { at: self.place(x), text: text(x) }).collect()
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
    fn an_axis_covers_its_figures() {
        let axis = Log::covering([3.0, 0.0, 4500.0].into_iter(), 0.0, 400.0);
        let [low, high] = axis.ends();
        assert!(low < 3.0 && 4500.0 < high && high < 10_000.0);
        assert_eq!([low, high, 1e9].map(|x| axis.place(x)), [0.0, 400.0, 400.0]);
        let ticks: Vec<String> = axis.ticks(|x| x.to_string()).into_iter().map(|tick| tick.text).collect();
        assert!((axis.value(axis.place(100.0)) / 100.0 - 1.0).abs() < 0.01, "a tenth of a pixel off");
        assert_eq!(ticks, ["10", "100", "1000"]);
        assert_eq!(Log::covering([0.0].into_iter(), 0.0, 1.0).ends(), [1.0, 10.0]);
    }

    #[test]
    fn steps_are_round_in_their_base() {
        assert_eq!(round_steps(2000.0, 1024.0), [0.0, 512.0, 1024.0, 1536.0]);
        assert_eq!(round_steps(4600.0, 1000.0), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
        assert_eq!(round_steps(0.0, 10.0), [0.0]);
    }
}
