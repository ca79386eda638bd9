//! Every kind of op under the roof of the preset's machine: operations a second over operations a byte, both logarithmic.

use fblayout::device::{Case, Profile};
use fblayout::plan::{Plan, StepCost};
use serde::Serialize;

use super::ops::{Kind, kinds};
use super::scale::{Log, Tick, round};
use crate::units;

/// The drawing, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
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
        let (drawn, movers): (Vec<Kind>, Vec<Kind>) =
            kinds(plan, costs).into_iter().partition(|k| k.flops > 0 && k.bytes > 0);
        let intensity = |k: &Kind| k.flops as f64 / k.bytes as f64;
        let speed = |k: &Kind| k.flops as f64 / k.seconds;
        let [slow, middle, fast] = [Case::Slow, Case::Middle, Case::Fast]
            .map(|case| (case.more(profile.flops_f32), case.more(profile.memory_rate)));
        let ridge = middle.0 / middle.1;
        let x = Log::covering(drawn.iter().map(intensity).chain([ridge / 4.0, ridge * 4.0]), LEFT, WIDTH - RIGHT);
        let y = Log::covering(drawn.iter().map(speed).chain([fast.0]), HEIGHT - BOTTOM, TOP);
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
            .map(|k| Point {
                x: x.place(intensity(k)),
                y: y.place(speed(k)),
                radius: round(4.0 + 16.0 * (k.seconds / total).sqrt()),
                conversion: k.conversion,
                name: k.op.clone(),
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
            movers: movers.iter().map(Kind::name).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Puts each name beside its point where it hits no other, the longest times first.
fn place_names(points: &mut [Point]) {
    let mut taken: Vec<[f64; 4]> =
        points.iter().map(|p| [p.x - p.radius, p.y - p.radius, p.x + p.radius, p.y + p.radius]).collect();
    for (i, point) in points.iter_mut().enumerate() {
        let length = LETTER * point.name.len() as f64;
        let beside = point.radius + 4.0;
        let spots = [0.0, -LINE, LINE, -2.0 * LINE, 2.0 * LINE, -3.0 * LINE, 3.0 * LINE].into_iter().flat_map(|down| {
            [(point.x + beside, "start", 0.0), (point.x - beside, "end", length)]
                .map(|(x, anchor, back)| (x, point.y + down, anchor, back))
        });
        let boxed = |x: f64, y: f64, back: f64| [x - back, y - LINE / 2.0, x - back + length, y + LINE / 2.0];
        let overlap = |b: [f64; 4]| -> f64 {
            let outside = (LEFT - b[0]).max(0.0)
                + (b[2] - (WIDTH - RIGHT)).max(0.0)
                + (TOP - b[1]).max(0.0)
                + (b[3] - (HEIGHT - BOTTOM)).max(0.0);
            let hits =
                taken.iter().enumerate().filter(|&(other, _)| other != i).map(|(_, t)| {
                    (b[2].min(t[2]) - b[0].max(t[0])).max(0.0) * (b[3].min(t[3]) - b[1].max(t[1])).max(0.0)
                });
            hits.sum::<f64>() + 100.0 * outside
        };
        let best = spots.min_by(|a, b| overlap(boxed(a.0, a.1, a.3)).total_cmp(&overlap(boxed(b.0, b.1, b.3))));
        if let Some((x, y, anchor, back)) = best {
            (point.text_x, point.text_y, point.anchor) = (round(x), round(y + 4.0), anchor);
            point.led = (y - point.y).abs() > LINE;
            taken.push(boxed(x, y, back));
        }
    }
}
