//! The page that draws what steps took.

use fblayout::device::Profile;
use fblayout::roofline::{Kind, Measured, Phase, Roof, Runs, Times};
use fblayout_page::roofline::{Chart, Work};
use fblayout_page::scale::round;
use fblayout_page::{Fact, STYLE, render, units};
use serde::Serialize;

const TEMPLATE: &str = include_str!("page.html");

#[derive(Serialize)]
struct Page<'a> {
    style: &'static str,
    device: &'a str,
    facts: Vec<Fact>,
    cpu: Vec<Fact>,
    roofline: Option<Chart>,
    rates: Vec<Fact>,
    steps: Vec<Line>,
}

/// A kind of step.
#[derive(Serialize)]
struct Line {
    number: usize,
    op: String,
    shader: String,
    conversion: bool,
    count: u64,
    time: String,
    share: String,
    /// Percent of the longest time.
    bar: f64,
    mean: String,
    least: String,
    flops: String,
    bytes: String,
    over: String,
    ceiling: &'static str,
    operands: String,
    schedule: String,
}

/// The page of all kinds of steps, under the roofs of a machine where one is known.
pub fn page(measured: &Measured, machine: Option<&Profile>) -> Result<String, fblayout_page::Error> {
    let steps = measured.by_time();
    let page = Page {
        style: STYLE,
        device: &measured.device,
        facts: facts(measured),
        cpu: cpu(measured.runs()),
        roofline: machine.map(|machine| chart(&steps, machine)),
        rates: machine.map(rates).unwrap_or_default(),
        steps: lines(&steps, machine),
    };
    render(TEMPLATE, &page)
}

fn time(ns: f64) -> String {
    units::seconds(ns * 1e-9)
}

fn facts(measured: &Measured) -> Vec<Fact> {
    let Runs { wall, device, .. } = measured.runs();
    let at_least = |times: &Times| format!("{} at least", time(times.min_ns as f64));
    let steps: u64 = measured.by_time().iter().map(|(_, times)| times.count).sum();
    vec![
        Fact { name: "on the device", value: time(device.mean_ns()), note: at_least(device) },
        Fact { name: "from end to end", value: time(wall.mean_ns()), note: at_least(wall) },
        Fact {
            name: "graphs",
            value: device.count.to_string(),
            note: format!("and {} first runs, which do not count here", measured.first.device.count),
        },
        Fact {
            name: "steps of a graph",
            value: (steps / device.count.max(1)).to_string(),
            note: format!("{} kinds", measured.by_time().len()),
        },
    ]
}

fn cpu(runs: &Runs) -> Vec<Fact> {
    let fact = |(phase, times): (&Phase, &Times)| Fact {
        name: match phase {
            Phase::Translate => "translate",
            Phase::Bind => "bind",
            Phase::Plan => "plan",
            Phase::Record => "record",
            Phase::Submit => "submit",
            Phase::Wait => "wait",
        },
        value: time(times.total_ns as f64 / runs.device.count.max(1) as f64),
        note: format!("{} at least, {} times", time(times.min_ns as f64), times.count),
    };
    let known: u64 = runs.cpu.values().map(|times| times.total_ns).sum();
    let rest = runs.wall.total_ns.saturating_sub(known) as f64 / runs.device.count.max(1) as f64;
    let host = Fact { name: "host", value: time(rest), note: "all else, until the graph's end".into() };
    runs.cpu.iter().map(fact).chain([host]).collect()
}

fn chart(steps: &[(&Kind, Times)], machine: &Profile) -> Chart {
    let work = |&(kind, times): &(&Kind, Times)| {
        let [seconds, flops, bytes] = [times.total_ns as f64 * 1e-9, kind.flops as f64, kind.bytes as f64];
        let n = times.count as f64;
        let speed = units::decimal(n * flops / seconds, "FLOP/s");
        let title = format!(
            "{} [{}]\n{} times, {} on average\n{speed} at {}\n{}",
            kind.op,
            kind.shader,
            times.count,
            time(times.mean_ns()),
            units::decimal(flops / bytes, "FLOP/B"),
            operands(kind)
        );
        Work { name: kind.op.clone(), title, conversion: kind.conversion, seconds, flops: n * flops, bytes: n * bytes }
    };
    let work: Vec<Work> = steps.iter().map(work).collect();
    let rates = [("shared cache", machine.l2_rate.mid), ("copies", machine.copy_rate.mid)];
    Chart::new(machine, &rates, "operations for each different byte that is touched, FLOP/B", &work)
}

fn rates(machine: &Profile) -> Vec<Fact> {
    let rate = |name, e: fblayout::device::Estimate, unit: &str| {
        let [lo, mid, hi] = [e.lo, e.mid, e.hi].map(|x| units::decimal(x, unit));
        Fact { name, value: mid, note: format!("at most; {lo} to {hi}") }
    };
    let matrices = [("matrix units, F16", machine.matrix_f16), ("matrix units, BF16", machine.matrix_bf16)];
    let matrices = matrices.into_iter().filter_map(|(name, found)| Some(rate(name, found?, "FLOP/s")));
    let others = [
        rate("memory", machine.memory_rate, "B/s"),
        rate("copies", machine.copy_rate, "B/s"),
        rate("shared cache", machine.l2_rate, "B/s"),
        Fact { name: "a launch", value: units::seconds(machine.launch.mid), note: "at least".into() },
    ];
    [rate("multiply-adds in f32", machine.flops_f32, "FLOP/s")].into_iter().chain(matrices).chain(others).collect()
}

fn lines(steps: &[(&Kind, Times)], machine: Option<&Profile>) -> Vec<Line> {
    let total: u64 = steps.iter().map(|(_, times)| times.total_ns).sum();
    let longest = steps.first().map_or(1, |(_, times)| times.total_ns.max(1)) as f64;
    let line = |(number, &(kind, times)): (usize, &(&Kind, Times))| {
        let seconds = times.mean_ns() * 1e-9;
        let rate = |work: u64, unit| match work {
            0 => "\u{2013}".to_owned(),
            work => units::decimal(work as f64 / seconds, unit),
        };
        let roof = machine.map(|machine| Roof::of(kind, machine));
        Line {
            number,
            op: kind.op.clone(),
            shader: kind.shader.clone(),
            conversion: kind.conversion,
            count: times.count,
            time: time(times.total_ns as f64),
            share: units::percent(times.total_ns as f64 / total.max(1) as f64),
            bar: round(100.0 * times.total_ns as f64 / longest),
            mean: time(times.mean_ns()),
            least: time(times.min_ns as f64),
            flops: rate(kind.flops, "FLOP/s"),
            bytes: rate(kind.bytes, "B/s"),
            over: roof.map_or_else(String::new, |roof| format!("{:.1} x", seconds / roof.seconds)),
            ceiling: roof.map_or("", |roof| roof.ceiling.name()),
            operands: operands(kind),
            schedule: kind.schedule.clone(),
        }
    };
    (1..).zip(steps).map(line).collect()
}

fn operands(kind: &Kind) -> String {
    kind.operands.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
