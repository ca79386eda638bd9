//! The step, op after op; layers that are alike are drawn once, with the mean of their times and bytes.

use std::collections::{HashMap, VecDeque};

use fblayout::graph::{Node, sum};
use fblayout::kernels::{Access, Addressing, schedule_in_words};
use fblayout::plan::{StepCost, TransformKind, Verdict};
use serde::Serialize;

use super::Known;
use super::fold::{Group, Run, groups, layer, list, runs, short};
use super::glyph::{self, Glyph};
use super::ops::bound;
use super::tensors::{steps_around_nodes, steps_of_nodes, transforms_of_nodes};
use crate::scale::round;
use crate::units;

/// A line of the drawing: a dispatch, or a node that dispatches nothing.
#[derive(Clone, Debug)]
struct Line {
    /// Number of the dispatch.
    step: Option<usize>,
    /// Number of the dispatch that does it with others.
    within: Option<usize>,
    op: String,
    name: String,
    inputs: Vec<Glyph>,
    outputs: Vec<Glyph>,
    vanished: Vec<Mark>,
    /// Why bytes are moved.
    moved: Option<String>,
    conversion: bool,
    schedule: String,
    cost: Option<StepCost>,
    gradient: bool,
}

/// Transforms of one kind that became coordinates of a line's operands.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Mark {
    kind: String,
    count: usize,
    title: String,
}

/// All lines, cut into runs of one layer.
pub struct Steps {
    runs: Vec<Run<Line>>,
    groups: Vec<Group>,
    total: f64,
}

/// Runs that are alike.
#[derive(Serialize)]
pub struct Section {
    title: String,
    count: usize,
    time: Option<String>,
    each: Option<String>,
    share: Option<String>,
    bytes: Option<String>,
    bar: f64,
    dispatches: usize,
    vanished: usize,
    moved: usize,
    open: bool,
    lines: Vec<Drawn>,
}

/// A line as it is drawn.
#[derive(Serialize)]
struct Drawn {
    step: Option<usize>,
    within: Option<usize>,
    op: String,
    name: String,
    inputs: Vec<Glyph>,
    outputs: Vec<Glyph>,
    vanished: Vec<Mark>,
    moved: Option<String>,
    conversion: bool,
    schedule: String,
    time: Option<String>,
    /// Percent of the section's longest line.
    bar: f64,
    bytes: Option<String>,
    flops: Option<String>,
    bound: Option<String>,
}

/// A piece of the step's time.
#[derive(Serialize)]
pub struct Piece {
    x: f64,
    width: f64,
    class: &'static str,
    title: String,
}

impl Steps {
    /// Reads the lines off a plan.
    pub fn new(known: &Known<'_>) -> Self {
        let lines = lines(known);
        let total = lines.iter().filter_map(|line| Some(line.cost?.seconds)).sum();
        let runs = runs(lines.into_iter().map(|line| (layer(&line.name), line)));
        let groups = groups(&runs, |a, b| a.alike(b));
        Self { runs, groups, total }
    }

    /// The step's time from left to right, in percent.
    pub fn timeline(&self) -> Vec<Piece> {
        let mut x = 0.0;
        let piece = |run: &Run<Line>| {
            let seconds = run.seconds();
            let width = 100.0 * seconds / self.total;
            x += width;
            let class = match (run.layer, run.gradient()) {
                (None, _) => "other",
                (Some(layer), false) if layer % 2 == 0 => "forward",
                (Some(_), false) => "forward odd",
                (Some(layer), true) if layer % 2 == 0 => "backward",
                (Some(_), true) => "backward odd",
            };
            let title =
                format!("{}\nsimulated: {}, {}", run.title(), units::seconds(seconds), units::percent(width / 100.0));
            Piece { x: x - width, width, class, title }
        };
        if self.total > 0.0 { self.runs.iter().map(piece).collect() } else { Vec::new() }
    }

    /// The drawing. The section that takes longest is open.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections: Vec<Section> = self.groups.iter().map(|group| self.section(group)).collect();
        let longest = sections.iter().map(|s| s.bar).fold(f64::MIN_POSITIVE, f64::max);
        for section in &mut sections {
            section.open = section.bar == longest;
            section.bar = round(100.0 * section.bar / longest);
        }
        if sections.iter().all(|s| s.bar == 0.0)
            && let Some(first) = sections.first_mut()
        {
            first.open = true;
        }
        sections
    }

    fn section(&self, group: &Group) -> Section {
        let members: Vec<&Run<Line>> = group.runs.iter().map(|&i| &self.runs[i]).collect();
        let first = members[0];
        let count = members.len();
        let layers: Vec<u32> = members.iter().filter_map(|run| run.layer).collect();
        let direction = if first.gradient() { "backward and update" } else { "forward" };
        let title = match layers.len() {
            0 => first.title(),
            1 => format!("layer {}, {direction}", layers[0]),
            _ => format!("layers {}, {direction}", list(&layers)),
        };
        let seconds: f64 = members.iter().map(|run| run.seconds()).sum();
        let predicted = self.total > 0.0;
        let bytes: u64 =
            sum(members.iter().flat_map(|run| &run.items).filter_map(|line| Some(line.cost?.memory_bytes)));
        let costs = |at: usize| -> Vec<StepCost> { members.iter().filter_map(|run| run.items[at].cost).collect() };
        let costs: Vec<Vec<StepCost>> = (0..first.items.len()).map(costs).collect();
        let longest = costs.iter().map(|c| mean(c, |c| c.seconds)).fold(f64::MIN_POSITIVE, f64::max);
        let lines = first.items.iter().zip(&costs).map(|(line, costs)| line.drawn(costs, longest));
        Section {
            title,
            count,
            time: predicted.then(|| units::seconds(seconds)),
            each: (predicted && count > 1).then(|| units::seconds(seconds / count as f64)),
            share: predicted.then(|| units::percent(seconds / self.total)),
            bytes: predicted.then(|| units::bytes(bytes)),
            bar: seconds,
            dispatches: count * first.items.iter().filter(|line| line.step.is_some()).count(),
            vanished: count * first.items.iter().flat_map(|line| &line.vanished).map(|mark| mark.count).sum::<usize>(),
            moved: count * first.items.iter().filter(|line| line.moved.is_some()).count(),
            open: false,
            lines: lines.collect(),
        }
    }
}

impl Run<Line> {
    fn seconds(&self) -> f64 {
        self.items.iter().filter_map(|line| Some(line.cost?.seconds)).sum()
    }

    /// Whether most of it is of the backward pass.
    fn gradient(&self) -> bool {
        2 * self.items.iter().filter(|line| line.gradient).count() > self.items.len()
    }

    fn title(&self) -> String {
        let direction = if self.gradient() { "backward and update" } else { "forward" };
        match (self.layer, &self.items[..]) {
            (Some(layer), _) => format!("layer {layer}, {direction}"),
            (None, [one]) => one.name.clone(),
            (None, [first, .., last]) => format!("{} \u{2026} {}", first.name, last.name),
            (None, []) => String::new(),
        }
    }
}

impl Line {
    /// Whether both are drawn alike; times and bytes apart.
    fn alike(&self, other: &Self) -> bool {
        self.op == other.op
            && self.within.is_some() == other.within.is_some()
            && short(&self.name) == short(&other.name)
            && self.conversion == other.conversion
            && self.schedule == other.schedule
            && self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.vanished == other.vanished
            && self.moved == other.moved
    }

    fn drawn(&self, costs: &[StepCost], longest: f64) -> Drawn {
        let known = !costs.is_empty();
        let [seconds, flops] = [mean(costs, |c| c.seconds), mean(costs, |c| c.flops as f64)];
        Drawn {
            step: self.step,
            within: self.within,
            op: self.op.clone(),
            name: short(&self.name),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            vanished: self.vanished.clone(),
            moved: self.moved.clone(),
            conversion: self.conversion,
            schedule: self.schedule.clone(),
            time: known.then(|| units::seconds(seconds)),
            bar: round(100.0 * seconds / longest),
            bytes: known.then(|| units::bytes(mean(costs, |c| c.memory_bytes as f64) as u64)),
            flops: (flops > 0.0).then(|| units::decimal(flops, "FLOP")),
            bound: costs.first().map(bound),
        }
    }
}

/// The mean of a figure; of nothing, 0.
fn mean(costs: &[StepCost], figure: impl Fn(&StepCost) -> f64) -> f64 {
    costs.iter().map(figure).sum::<f64>() / costs.len().max(1) as f64
}

fn lines(known: &Known<'_>) -> Vec<Line> {
    let (graph, plan) = (known.graph, known.plan);
    let dispatched = steps_of_nodes(graph, plan);
    let (around, transforms) = (steps_around_nodes(graph, plan), transforms_of_nodes(graph, plan));
    let mut reasons = reasons(known);
    let mut silent = (0..graph.nodes.len()).filter(|&n| dispatched[n].is_empty()).peekable();
    let mut lines = Vec::with_capacity(plan.steps.len());
    for at in 0..plan.steps.len() {
        let node = plan.steps[at].node;
        while let Some(n) = silent.next_if(|&n| n < node) {
            lines.push(silent_line(known, n, around[n], &transforms[n]));
        }
        // Its transforms are told where the node itself is dispatched.
        let own =
            dispatched[node].iter().copied().find(|&s| !plan.steps[s].conversion).or(dispatched[node].first().copied());
        let vanished: &[usize] = if own == Some(at) { &transforms[node] } else { &[] };
        lines.push(Line { moved: reasons.next(at), ..line(known, at, vanished) });
    }
    lines.extend(silent.map(|n| silent_line(known, n, around[n], &transforms[n])));
    lines
}

/// Why bytes are moved, by the label of who moves them.
struct Reasons<'a> {
    known: &'a Known<'a>,
    left: HashMap<&'a str, VecDeque<String>>,
}

fn reasons<'a>(known: &'a Known<'a>) -> Reasons<'a> {
    let mut left: HashMap<&str, VecDeque<String>> = HashMap::new();
    for transform in &known.plan.report.transforms {
        if let Verdict::Explicit(reason) = &transform.verdict {
            let text = format!("{}: {reason}", glyph::kind(transform.kind));
            left.entry(&transform.node).or_default().push_back(text);
        }
    }
    Reasons { known, left }
}

impl Reasons<'_> {
    /// The reason of a dispatch, if it only moves bytes. A label's dispatches have its reasons in turn.
    fn next(&mut self, at: usize) -> Option<String> {
        let step = &self.known.plan.steps[at];
        step.conversion.then(|| {
            let next = self.left.get_mut(step.label.as_str()).and_then(VecDeque::pop_front);
            next.unwrap_or_else(|| "another layout for its reader".to_owned())
        })
    }
}

/// A node that dispatches nothing.
fn silent_line(known: &Known<'_>, at: usize, within: Option<usize>, transforms: &[usize]) -> Line {
    let node = &known.graph.nodes[at];
    Line {
        step: None,
        within,
        op: node.op.row().name.to_owned(),
        name: node.name.clone(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        vanished: marks(known, transforms),
        moved: None,
        conversion: false,
        schedule: String::new(),
        cost: None,
        gradient: is_gradient(node),
    }
}

fn line(known: &Known<'_>, at: usize, transforms: &[usize]) -> Line {
    let step = &known.plan.steps[at];
    let node = &known.graph.nodes[step.node];
    let glyph = |(p, &(slot, access)): (usize, &(usize, Access))| {
        let tensor = &known.tensors[slot];
        let found = Addressing::of(&step.constants, p as u32);
        Glyph::new(&known.plan.slots[slot], tensor, &short(tensor.name_at(at, access)), found.as_ref())
    };
    let of = |wanted: &dyn Fn(Access) -> bool| {
        step.args.iter().enumerate().filter(|(_, (_, access))| wanted(*access)).map(glyph).collect()
    };
    let (op, name) = step.label.split_once(' ').unwrap_or((&step.label, ""));
    Line {
        step: Some(at),
        within: None,
        op: op.to_owned(),
        name: name.to_owned(),
        inputs: of(&|access| access == Access::Read),
        outputs: of(&|access| access != Access::Read),
        vanished: marks(known, transforms),
        moved: None,
        conversion: step.conversion,
        schedule: format!("{}: {}", step.shader, schedule_in_words(step.shader, &step.constants, step.groups)),
        cost: known.predicted.map(|p| p.steps[at]),
        gradient: is_gradient(node),
    }
}

fn is_gradient(node: &Node) -> bool {
    node.name.contains("gradient of ") || node.name.ends_with(".step")
}

fn marks(known: &Known<'_>, transforms: &[usize]) -> Vec<Mark> {
    let mut marks: Vec<(TransformKind, usize, u64)> = Vec::new();
    for transform in transforms.iter().map(|&i| &known.plan.report.transforms[i]) {
        if transform.verdict != Verdict::Eliminated {
            continue;
        }
        match marks.iter_mut().find(|(kind, ..)| *kind == transform.kind) {
            Some((_, count, bytes)) => (*count, *bytes) = (*count + 1, *bytes + transform.bytes),
            None => marks.push((transform.kind, 1, transform.bytes)),
        }
    }
    let mark = |(kind, count, bytes): (TransformKind, usize, u64)| Mark {
        kind: glyph::kind(kind),
        count,
        title: format!(
            "{count} x {} of {}: coordinates of the reader, nothing moves",
            glyph::kind(kind),
            units::bytes(bytes)
        ),
    };
    marks.into_iter().map(mark).collect()
}
