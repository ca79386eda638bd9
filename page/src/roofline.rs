//! Work under the roof of a machine: operations a second over operations a byte, both logarithmic.

use fblayout::device::{Case, Profile};
use serde::Serialize;

use crate::scale::{Log, Tick, round};
use crate::units;

/// The drawing, in pixels.
const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 500.0;
const LEFT: f64 = 92.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 48.0;

/// Pixels of a letter and of a line of text.
const LETTER: f64 = 6.3;
const LINE: f64 = 13.0;

/// The chart.
#[derive(Serialize)]
pub struct Chart {
    width: f64,
    height: f64,
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    columns: Vec<Tick>,
    rows: Vec<Tick>,
    /// The roof in the middle of the ranges.
    roof: String,
    /// Between the roofs of the slow and the fast end.
    band: String,
    roof_text: String,
    /// Roofs of bytes from elsewhere than memory.
    others: Vec<Line>,
    points: Vec<Point>,
    /// What does no arithmetic, which has no place on the chart.
    movers: String,
    /// What is told below.
    axis: &'static str,
}

/// Work of one kind.
pub struct Work {
    /// What it is called, where there is room.
    pub name: String,
    /// All that is told of it.
    pub title: String,
    /// True when it only moves bytes.
    pub conversion: bool,
    /// Time.
    pub seconds: f64,
    /// Operations in that time.
    pub flops: f64,
    /// Bytes in that time.
    pub bytes: f64,
}

impl Work {
    fn is_drawn(&self) -> bool {
        self.flops > 0.0 && self.bytes > 0.0 && self.seconds > 0.0
    }

    fn intensity(&self) -> f64 {
        self.flops / self.bytes
    }

    fn speed(&self) -> f64 {
        self.flops / self.seconds
    }
}

/// A further roof.
#[derive(Serialize)]
struct Line {
    name: String,
    points: String,
    x: f64,
    y: f64,
}

/// Work on the chart.
#[derive(Serialize)]
struct Point {
    x: f64,
    y: f64,
    radius: f64,
    conversion: bool,
    /// Its line in the table.
    number: usize,
    /// Number, and what it is where there is room.
    name: String,
    title: String,
    text_x: f64,
    text_y: f64,
    anchor: &'static str,
    /// Whether the name stands so far off that a line must lead to it.
    led: bool,
}

impl Chart {
    /// Draws work, numbered from 1, under the roof of arithmetic and memory, under those of other rates of bytes, and under that of matrix units
    /// where they were measured.
    pub fn new(machine: &Profile, rates: &[(&str, f64)], axis: &'static str, work: &[Work]) -> Self {
        let movers: Vec<String> = (1..)
            .zip(work)
            .filter(|(_, w)| !w.is_drawn())
            .map(|(n, w): (usize, _)| format!("{n} {}", w.name))
            .collect();
        let drawn: Vec<(usize, &Work)> = (1..).zip(work).filter(|(_, w)| w.is_drawn()).collect();
        let [slow, middle, fast] = [Case::Slow, Case::Middle, Case::Fast]
            .map(|case| (case.more(machine.flops_f32), case.more(machine.memory_rate)));
        let ridge = middle.0 / middle.1;
        let matrices: Vec<(&str, f64)> =
            [("matrix units, F16", machine.matrix_f16), ("matrix units, BF16", machine.matrix_bf16)]
                .into_iter()
                .filter_map(|(name, rate)| Some((name, rate?.mid)))
                .collect();
        let x = Log::covering(
            drawn.iter().map(|(_, w)| w.intensity()).chain([ridge / 4.0, ridge * 4.0]),
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Log::covering(
            drawn.iter().map(|(_, w)| w.speed()).chain(matrices.iter().map(|(_, rate)| *rate)).chain([fast.0]),
            HEIGHT - BOTTOM,
            TOP,
        );
        let [from, to] = x.ends();
        // The corners of a roof, left to right. Below the chart it runs along its lower edge.
        let roof = |(flops, rate): (f64, f64)| {
            let corners = [from, (y.ends()[0] / rate).clamp(from, to), (flops / rate).clamp(from, to), to];
            corners.map(|at| format!("{} {}", x.place(at), y.place((at * rate).min(flops)))).to_vec()
        };
        let mut band = roof(slow);
        band.extend(roof(fast).into_iter().rev());
        let other = |(at, &(name, rate)): (usize, &(&str, f64))| {
            // Names stand one below the other, each where its line passes.
            let speed = y.value(TOP + 3.0 * LINE + 1.5 * LINE * at as f64).min(middle.0);
            Line {
                name: format!("{name}, {}", units::decimal(rate, "B/s")),
                points: roof((middle.0, rate)).join(" "),
                x: x.place(speed / rate) - 6.0,
                y: y.place(speed),
            }
        };
        // Names stand under the first and over the second, which may be the same.
        let higher = |(at, &(name, rate)): (usize, &(&str, f64))| Line {
            name: format!("{name}, {}", units::decimal(rate, "FLOP/s")),
            points: roof((rate, middle.1)).join(" "),
            x: x.place(to) - 6.0,
            y: y.place(rate) + if at == 0 { LINE } else { -0.4 * LINE },
        };

        let total: f64 = work.iter().map(|w| w.seconds).sum();
        let mut points: Vec<Point> = drawn
            .iter()
            .map(|(number, w)| Point {
                x: x.place(w.intensity()),
                y: y.place(w.speed()),
                radius: round(4.0 + 16.0 * (w.seconds / total).sqrt()),
                conversion: w.conversion,
                number: *number,
                name: format!("{number} {}", w.name),
                title: w.title.clone(),
                text_x: 0.0,
                text_y: 0.0,
                anchor: "start",
                led: false,
            })
            .collect();
        place_names(&mut points);
        Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            right: WIDTH - RIGHT,
            top: TOP,
            bottom: HEIGHT - BOTTOM,
            columns: x.ticks(|v| if v < 1.0 { v.to_string() } else { units::decimal(v, "").trim_end().to_owned() }),
            rows: y.ticks(|v| units::decimal(v, "FLOP/s")),
            roof: roof(middle).join(" "),
            band: band.join(" "),
            roof_text: format!("{} and {}", units::decimal(middle.0, "FLOP/s"), units::decimal(middle.1, "B/s")),
            others: rates.iter().enumerate().map(other).chain(matrices.iter().enumerate().map(higher)).collect(),
            points,
            movers: movers.join(", "),
            axis,
        }
    }
}

/// Puts each name beside its point where it hits no other, the longest times first. Where there is no room for the name, its number
/// has to do.
fn place_names(points: &mut [Point]) {
    const BESIDE: [f64; 1] = [0.0];
    const AROUND: [f64; 5] = [0.0, -LINE, LINE, -2.0 * LINE, 2.0 * LINE];
    let disc = |p: &Point| [p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius];
    let mut taken: Vec<[f64; 4]> = points.iter().map(disc).collect();
    for (i, point) in points.iter_mut().enumerate() {
        let number = point.number.to_string();
        let named = best_spot(point, &point.name, &BESIDE, &taken, i).filter(|spot| spot.overlap == 0.0);
        if named.is_none() {
            point.name = number;
        }
        let Some(spot) = named.or_else(|| best_spot(point, &point.name, &AROUND, &taken, i)) else { continue };
        (point.text_x, point.text_y, point.anchor) = (round(spot.x), round(spot.y + 4.0), spot.anchor);
        point.led = (spot.y - point.y).abs() > LINE;
        taken.push(spot.area);
    }
}

/// A place for a text: where it starts or ends, the middle of its line, and how much of other things it hides.
struct Spot {
    x: f64,
    y: f64,
    anchor: &'static str,
    area: [f64; 4],
    overlap: f64,
}

/// The spot beside a point, so many pixels below it, that hides least. `own` is the point's number among what is taken.
fn best_spot(point: &Point, text: &str, down: &[f64], taken: &[[f64; 4]], own: usize) -> Option<Spot> {
    let length = LETTER * text.len() as f64;
    let beside = point.radius + 4.0;
    let spot = |(x, anchor, back): (f64, &'static str, f64), down: f64| {
        let y = point.y + down;
        let area = [x - back, y - LINE / 2.0, x - back + length, y + LINE / 2.0];
        let [left, top, right, bottom] = area;
        let outside = (LEFT - left).max(0.0) + (right - (WIDTH - RIGHT)).max(0.0);
        let outside = outside + (TOP - top).max(0.0) + (bottom - (HEIGHT - BOTTOM)).max(0.0);
        let others = taken.iter().enumerate().filter(|&(other, _)| other != own);
        let hidden = others
            .map(|(_, t)| (right.min(t[2]) - left.max(t[0])).max(0.0) * (bottom.min(t[3]) - top.max(t[1])).max(0.0));
        Spot { x, y, anchor, area, overlap: hidden.sum::<f64>() + 100.0 * outside }
    };
    let sides = [(point.x + beside, "start", 0.0), (point.x - beside, "end", length)];
    let spots = down.iter().flat_map(|&down| sides.map(|side| spot(side, down)));
    spots.min_by(|a, b| a.overlap.total_cmp(&b.overlap))
}
