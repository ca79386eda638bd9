//! Bytes alive in the arena at every dispatch, against what the arena takes.

use fblayout::plan::Owner;
use serde::Serialize;

use super::Known;
use crate::scale::{Tick, round, round_steps};
use crate::units;

/// The drawing, in pixels.
const WIDTH: f64 = 1120.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 26.0;

/// Most corners of the outline.
const COLUMNS: usize = 800;

/// The chart.
#[derive(Serialize)]
pub struct Chart {
    width: f64,
    height: f64,
    left: f64,
    bottom: f64,
    /// Outline of the bytes alive.
    area: String,
    /// Bytes of the arena, and where they are drawn.
    arena: Tick,
    /// The fullest dispatch.
    peak: Tick,
    peak_y: f64,
    /// Whether its name stands left of it.
    peak_left: bool,
    rows: Vec<Tick>,
    columns: Vec<Tick>,
    note: String,
}

impl Chart {
    /// Draws the lifetimes of a plan.
    pub fn new(known: &Known<'_>) -> Self {
        let plan = known.plan;
        let alive = alive(known);
        let arena: u64 = plan.arena.iter().sum();
        let most = alive.iter().copied().max().unwrap_or(0).max(arena).max(1) as f64;
        let x = |step: f64| round(LEFT + (WIDTH - LEFT) * step / alive.len().max(1) as f64);
        let y = |bytes: f64| round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * bytes / most);

        let each = alive.len().div_ceil(COLUMNS).max(1);
        let mut area = format!("M{LEFT} {}", y(0.0));
        for (i, part) in alive.chunks(each).enumerate() {
            let top = y(part.iter().copied().max().unwrap_or(0) as f64);
            area += &format!("L{} {top}L{} {top}", x((i * each) as f64), x((i * each + part.len()) as f64));
        }
        area += &format!("L{WIDTH} {}Z", y(0.0));

        let (at, bytes) = alive.iter().enumerate().max_by_key(|&(i, &n)| (n, std::cmp::Reverse(i))).unwrap_or((0, &0));
        let step = plan.steps.get(at).map_or("", |step| step.label.as_str());
        let certainty = if known.exact { "as the device says" } else { "at most, from the device's limits" };
        Self {
            width: WIDTH,
            height: HEIGHT,
            left: LEFT,
            bottom: y(0.0),
            area,
            arena: Tick { at: y(arena as f64), text: format!("arena: {}", units::bytes(arena)) },
            peak: Tick { at: x(at as f64 + 0.5), text: format!("{} at {at} {step}", units::bytes(*bytes)) },
            peak_y: y(*bytes as f64),
            peak_left: at > alive.len() / 2,
            rows: (round_steps(most, 1024.0).into_iter())
                .map(|bytes| Tick { at: y(bytes), text: units::bytes(bytes as u64) })
                .filter(|tick| tick.at > y(arena as f64) + 12.0)
                .collect(),
            columns: (round_steps(alive.len() as f64, 1000.0).into_iter())
                .map(|step| Tick {
                    at: x(step),
                    text: if step == 0.0 { "dispatch 0".into() } else { step.to_string() },
                })
                .collect(),
            note: format!(
                "Sizes {certainty}. Without sharing memory all results would take {}; {} of them are in the storage of an operand.",
                units::bytes(plan.report.unaliased_bytes),
                plan.report.in_place
            ),
        }
    }
}

/// Bytes alive in the arena at each dispatch.
fn alive(known: &Known<'_>) -> Vec<u64> {
    let mut change = vec![0i128; known.plan.steps.len() + 1];
    for (slot, tensor) in known.plan.slots.iter().zip(known.tensors) {
        if matches!(slot.owner, Owner::Arena { .. }) {
            change[slot.live.0] += i128::from(tensor.bytes);
            change[slot.live.1 + 1] -= i128::from(tensor.bytes);
        }
    }
    let sums = change.iter().scan(0i128, |sum, c| {
        *sum += c;
        Some(u64::try_from(*sum).unwrap_or(0))
    });
    sums.take(known.plan.steps.len()).collect()
}
