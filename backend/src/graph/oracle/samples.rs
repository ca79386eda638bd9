//! Values between those of an operand.

use crate::graph::{Array, Op, Sampling, Shape};

/// How an axis of the output lies over that of the operand.
#[derive(Clone, Copy)]
struct Grid {
    /// Elements of the operand.
    count: u32,
    /// Steps of the output to one of the operand, as a ratio.
    scale: (u32, u32),
    /// Where in its cell an element is.
    offset: f64,
}

impl Grid {
    /// Aligned corners put the first and last elements over each other, where both have two.
    fn new(count: u32, output: u32, aligned: bool) -> Self {
        let inner = aligned && count > 1 && output > 1;
        let scale = if inner { (output - 1, count - 1) } else { (output, count) };
        Self { count, scale, offset: if aligned { 0.0 } else { 0.5 } }
    }

    fn step(self) -> f64 {
        f64::from(self.scale.0) / f64::from(self.scale.1)
    }

    /// The element at or before element `i` of the output.
    fn nearest(self, i: u32) -> u32 {
        (u64::from(i) * u64::from(self.scale.1) / u64::from(self.scale.0)) as u32
    }

    fn clamped(self, i: f64) -> u32 {
        i.clamp(0.0, f64::from(self.count - 1)) as u32
    }

    /// The elements that element `i` of the output is made of, with their weights.
    fn taps(self, i: u32, sampling: Sampling) -> Vec<(u32, f64)> {
        let center = (f64::from(i) + self.offset) / self.step();
        let at = center - self.offset;
        let first = at.floor();
        match sampling {
            Sampling::Nearest => vec![(self.nearest(i), 1.0)],
            Sampling::Bilinear => {
                let share = (at - first.max(0.0)).clamp(0.0, 1.0);
                vec![(self.clamped(first), 1.0 - share), (self.clamped(first + 1.0), share)]
            }
            Sampling::Bicubic => {
                let (a, x) = (-0.75, at - first);
                let near = |x: f64| ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
                let far = |x: f64| ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
                let weights = [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)];
                (-1..3).zip(weights).map(|(k, weight)| (self.clamped(first + f64::from(k)), weight)).collect()
            }
            Sampling::Antialiased => {
                let support = (1.0 / self.step()).max(1.0);
                let begin = (center - support + self.offset).max(0.0) as u32;
                let end = (center + support + self.offset).min(f64::from(self.count)) as u32;
                let weight = |k: u32| (1.0 - ((f64::from(k) - center + self.offset) / support).abs()).max(0.0);
                let taps: Vec<(u32, f64)> = (begin..end).map(|k| (k, weight(k))).collect();
                let total: f64 = taps.iter().map(|(_, weight)| weight).sum();
                taps.into_iter().map(|(k, weight)| (k, weight / total)).collect()
            }
        }
    }
}

pub(crate) fn upscale(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Upscale { sampling, align_corners } = op else { unreachable!("the row belongs to Upscale") };
    let x = &inputs[0];
    let grid = |axis: usize| Grid::new(x.shape[axis], output[axis], align_corners && axis < 2);
    vec![Array::from_fn(output, |[i0, i1, i2, i3]| {
        let (j2, j3) = (grid(2).nearest(i2), grid(3).nearest(i3));
        let (rows, columns) = (grid(1).taps(i1, sampling), grid(0).taps(i0, sampling));
        let along = |j1| columns.iter().map(|&(j0, weight)| weight * x.at([j0, j1, j2, j3])).sum::<f64>();
        rows.into_iter().map(|(j1, weight)| weight * along(j1)).sum()
    })]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(data: &[f64], output: u32, sampling: Sampling, align_corners: bool) -> Vec<f64> {
        let x = Array { shape: [data.len() as u32, 1, 1, 1], data: data.to_vec() };
        upscale(&Op::Upscale { sampling, align_corners }, &[x], [output, 1, 1, 1]).remove(0).data
    }

    #[test]
    fn known_lines_are_sampled() {
        assert_eq!(line(&[1.0, 3.0], 4, Sampling::Nearest, false), [1.0, 1.0, 3.0, 3.0]);
        assert_eq!(line(&[1.0, 3.0], 4, Sampling::Bilinear, false), [1.0, 1.5, 2.5, 3.0]);
        assert_eq!(line(&[1.0, 3.0], 3, Sampling::Bilinear, true), [1.0, 2.0, 3.0]);
        // Halved, the triangle is two steps wide on either side: 3, 3, 1 of 7 at the edge.
        let halved = line(&[7.0, 14.0, 21.0, 28.0], 2, Sampling::Antialiased, false);
        assert!((halved[0] - (3.0 * 7.0 + 3.0 * 14.0 + 21.0) / 7.0).abs() < 1e-12, "{halved:?}");
        // Weights of every kind sum to 1.
        for sampling in [Sampling::Nearest, Sampling::Bilinear, Sampling::Bicubic, Sampling::Antialiased] {
            assert!(line(&[2.0; 5], 7, sampling, false).iter().all(|y| (y - 2.0).abs() < 1e-12), "{sampling:?}");
        }
    }
}
