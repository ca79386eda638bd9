//! Every kind of op under the roof of the preset's machine: operations a second over operations a byte, both logarithmic.

use fblayout::device::{Case, Profile};
use fblayout::plan::{Plan, StepCost};
use serde::Serialize;

use super::ops::{Kind, kinds};
use super::scale::{Log, Tick, round};
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
    points: Vec<Point>,
    /// Kinds that do no arithmetic, which have no place on the chart.
    movers: String,
}

/// A kind of op.
#[derive(Serialize)]
struct Point {
    x: f64,
    y: f64,
    radius: f64,
    conversion: bool,
    /// Its line in the table.
    number: usize,
    /// Number, and the op where there is room.
    name: String,
    title: String,
    text_x: f64,
    text_y: f64,
    anchor: &'static str,
    /// Whether the name stands so far off that a line must lead to it.
    led: bool,
}

impl Chart {
    /// Draws the steps of a plan.
    pub fn new(profile: &Profile, plan: &Plan, costs: &[StepCost]) -> Self {
        let numbered: Vec<(usize, Kind)> = (1..).zip(kinds(plan, costs)).collect();
        let is_drawn = |k: &Kind| k.flops > 0 && k.bytes > 0;
        let movers: Vec<String> = numbered.iter().filter(|(_, k)| !is_drawn(k)).map(|(_, k)| k.name()).collect();
        let drawn: Vec<(usize, Kind)> = numbered.into_iter().filter(|(_, k)| is_drawn(k)).collect();
        let intensity = |k: &Kind| k.flops as f64 / k.bytes as f64;
        let speed = |k: &Kind| k.flops as f64 / k.seconds;
        let [slow, middle, fast] = [Case::Slow, Case::Middle, Case::Fast]
            .map(|case| (case.more(profile.flops_f32), case.more(profile.memory_rate)));
        let ridge = middle.0 / middle.1;
        let x = Log::covering(
            drawn.iter().map(|(_, k)| intensity(k)).chain([ridge / 4.0, ridge * 4.0]),
            LEFT,
            WIDTH - RIGHT,
        );
        let y = Log::covering(drawn.iter().map(|(_, k)| speed(k)).chain([fast.0]), HEIGHT - BOTTOM, TOP);
        let [from, to] = x.ends();
        // The corners of a roof, left to right. Below the chart it runs along its lower edge.
        let roof = |(flops, rate): (f64, f64)| {
            let corners = [from, (y.ends()[0] / rate).clamp(from, to), (flops / rate).clamp(from, to), to];
            corners.map(|at| format!("{} {}", x.place(at), y.place((at * rate).min(flops)))).to_vec()
        };
        let mut band = roof(slow);
        band.extend(roof(fast).into_iter().rev());

        let total: f64 = costs.iter().map(|c| c.seconds).sum();
        let mut points: Vec<Point> = drawn
            .iter()
            .map(|(number, k)| Point {
                x: x.place(intensity(k)),
                y: y.place(speed(k)),
                radius: round(4.0 + 16.0 * (k.seconds / total).sqrt()),
                conversion: k.conversion,
                number: *number,
                name: format!("{number} {}", k.op),
                title: format!(
                    "{}\nsimulated: {} in {} dispatches\n{} at {}, bound by {}",
                    k.op,
                    units::seconds(k.seconds),
                    k.count,
                    units::decimal(speed(k), "FLOP/s"),
                    units::decimal(intensity(k), "FLOP/B"),
                    k.bound
                ),
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
            points,
            movers: movers.join(", "),
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
