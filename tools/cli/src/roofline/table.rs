//! Kinds of steps as lines, those that took longest first.

use std::fmt;

use fblayout::device::Profile;
use fblayout::roofline::{Kind, Measured, Roof, Runs, Times};
use fblayout_page::units;

/// What is printed.
pub struct Table<'a> {
    pub measured: &'a Measured,
    pub machine: Option<&'a Profile>,
    /// Kinds to print.
    pub top: usize,
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured { device, first, again, .. } = self.measured;
        writeln!(f, "{device}")?;
        for (name, runs) in [("first runs", first), ("runs after", again)] {
            self.runs(f, name, runs)?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "{:>3} {:>7} {:>9} {:>7} {:>9} {:>9} {:>13} {:>10} {:>18}  step",
            "", "share", "total", "count", "mean", "fastest", "FLOP/s", "B/s", "over its roof"
        )?;
        let steps = self.measured.by_time();
        for (i, (kind, times)) in steps.iter().take(self.top).enumerate() {
            self.line(f, i + 1, kind, times)?;
        }
        if steps.len() > self.top {
            let rest: u64 = steps[self.top..].iter().map(|(_, times)| times.total_ns).sum();
            let share = units::percent(rest as f64 / self.all());
            writeln!(f, "    {share:>7} in {} more kinds", steps.len() - self.top)?;
        }
        match self.machine {
            Some(machine) => self.roofs(f, &steps, machine),
            None => writeln!(f, "no roofs: the device was not probed; --device names one that is known"),
        }
    }
}

impl Table<'_> {
    /// Nanoseconds of all steps.
    fn all(&self) -> f64 {
        (self.measured.runs().device.total_ns as f64).max(1.0)
    }

    /// What runs took, and what of it the CPU did.
    fn runs(&self, f: &mut fmt::Formatter<'_>, name: &str, runs: &Runs) -> fmt::Result {
        let Runs { wall, device, cpu } = runs;
        if device.count == 0 {
            return Ok(());
        }
        let [[wall_mean, wall_least], [mean, least]] = [wall, device].map(means);
        let count = device.count;
        writeln!(
            f,
            "{name} ({count}): {wall_mean} each, {wall_least} at least; on the device {mean}, {least} at least"
        )?;
        let each = |ns: u64| units::seconds(ns as f64 * 1e-9 / count as f64);
        let phases = cpu.iter().map(|(phase, times)| {
            let name = format!("{phase:?}").to_lowercase();
            format!("{name} {} ({} at least)", each(times.total_ns), units::seconds(times.min_ns as f64 * 1e-9))
        });
        let known: u64 = cpu.values().map(|times| times.total_ns).sum();
        let host = format!("host {}", each(wall.total_ns.saturating_sub(known)));
        writeln!(f, "  CPU: {}", phases.chain([host]).collect::<Vec<_>>().join(", "))
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, number: usize, kind: &Kind, times: &Times) -> fmt::Result {
        let [mean, least] = means(times);
        let seconds = times.mean_ns() * 1e-9;
        let rate =
            |work: u64, unit| if work == 0 { "-".to_owned() } else { units::decimal(work as f64 / seconds, unit) };
        let over = self.machine.map_or("-".to_owned(), |machine| {
            let Roof { seconds: roof, ceiling } = Roof::of(kind, machine);
            format!("{:.1} x {}", seconds / roof, ceiling.name())
        });
        let what = if kind.conversion { ", moves bytes" } else { "" };
        writeln!(
            f,
            "{number:>3} {:>7} {:>9} {:>7} {mean:>9} {least:>9} {:>13} {:>10} {over:>18}  {} [{}]{what}",
            units::percent(times.total_ns as f64 / self.all()),
            units::seconds(times.total_ns as f64 * 1e-9),
            times.count,
            rate(kind.flops, "FLOP/s"),
            rate(kind.bytes, "B/s"),
            kind.op,
            kind.shader,
        )?;
        let operands: Vec<String> = kind.operands.iter().map(ToString::to_string).collect();
        writeln!(f, "      {}; {}", operands.join(", "), kind.schedule)
    }

    /// What all steps would take at their roofs.
    fn roofs(&self, f: &mut fmt::Formatter<'_>, steps: &[(&Kind, Times)], machine: &Profile) -> fmt::Result {
        let least = |(kind, times): &(&Kind, Times)| Roof::of(kind, machine).seconds * times.count as f64;
        let seconds: f64 = steps.iter().map(least).sum();
        let [flops, memory, cache] = [machine.flops_f32, machine.memory_rate, machine.l2_rate].map(|rate| rate.mid);
        let matrices = machine.matrix_f16.or(machine.matrix_bf16);
        let matrices =
            matrices.map_or(String::new(), |r| format!("{} by matrix units, ", units::decimal(r.mid, "FLOP/s")));
        writeln!(
            f,
            "at their roofs all steps would take {}, of {}: {} in f32, {matrices}{} of memory, {} of the shared cache, {} a launch",
            units::seconds(seconds),
            units::seconds(self.all() * 1e-9),
            units::decimal(flops, "FLOP/s"),
            units::decimal(memory, "B/s"),
            units::decimal(cache, "B/s"),
            units::seconds(machine.launch.mid)
        )
    }
}

/// Time on average and of the fastest.
fn means(times: &Times) -> [String; 2] {
    [times.mean_ns(), times.min_ns as f64].map(|ns| units::seconds(ns * 1e-9))
}
