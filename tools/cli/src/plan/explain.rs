//! All that a plan says of one node: where its tensors live, what vanished on the way, what is dispatched and what that costs.

use std::fmt;

use fblayout::graph::{DType, Desc, Graph, Node, Operand, Shape, ValueId};
use fblayout::kernels::{Access, Addressing, parameters, schedule_in_words};
use fblayout::plan::{Candidate, Choice, Home, Selector, StepCost, Tile, Transform, Verdict, candidates};
use fblayout_page::plan::tensors::{Role, place, steps_around_nodes, steps_of_nodes, storage, transforms_of_nodes};
use fblayout_page::plan::{Known, coordinates};
use fblayout_page::units;
use serde::Serialize;

use super::search;
use crate::target::Target;

/// What is told of a node.
#[derive(Serialize)]
pub struct Explanation {
    node: String,
    number: usize,
    /// The node that it is done with, where that is not itself.
    done_with: Option<String>,
    reads: Vec<Read>,
    transforms: Vec<Transform>,
    dispatches: Vec<Dispatch>,
    /// The tensors that the node reads and writes, where they have a choice of tiles.
    choices: Vec<Chosen>,
}

/// What a selector chose for a tensor, and from what.
#[derive(Serialize)]
struct Chosen {
    value: String,
    #[serde(flatten)]
    choice: Choice,
}

/// What the graph asks for as an operand.
#[derive(Serialize)]
struct Read {
    value: String,
    dtype: DType,
    shape: Shape,
    /// The window of the value that is read, where it is not all of it.
    window: Option<String>,
}

/// A dispatch for the node.
#[derive(Serialize)]
struct Dispatch {
    step: usize,
    label: String,
    shader: &'static str,
    schedule: String,
    parameters: Vec<(u32, u32)>,
    barrier: bool,
    conversion: bool,
    tensors: Vec<Bound>,
    /// Simulated; nothing where the device's speed is not known.
    cost: Option<StepCost>,
}

/// A tensor as a shader gets it.
#[derive(Serialize)]
struct Bound {
    access: &'static str,
    name: String,
    role: Role,
    dtype: DType,
    shape: Shape,
    storage: &'static str,
    /// Columns and rows of texels.
    texels: [u32; 2],
    bytes: u64,
    tile: Tile,
    /// Where its elements are.
    layout: String,
    /// Where the shader finds the elements that it asks for.
    coordinates: String,
    memory: String,
    /// First and last dispatch that touches it.
    live: [String; 2],
    /// Homes that the rules leave for it, best first.
    candidates: Vec<Candidate>,
}

impl Explanation {
    /// Explains the node that fits a query, see [`search::node`]; with candidates that rules C1 to C3 leave where `pruning`.
    pub fn of(
        known: &Known<'_>,
        target: &Target,
        selector: Selector,
        pruning: bool,
        query: &str,
    ) -> Result<Self, String> {
        let number = search::node(known.graph, query)?;
        let node = &known.graph.nodes[number];
        let around = steps_around_nodes(known.graph, known.plan)[number];
        let host = around.map_or(number, |at| known.plan.steps[at].node);
        let transforms = &transforms_of_nodes(known.graph, known.plan)[host];
        let steps = &steps_of_nodes(known.graph, known.plan)[host];
        Ok(Self {
            node: format!("{} {}", node.op.row().name, node.name),
            number,
            done_with: around.map(|at| known.plan.steps[at].label.clone()),
            reads: node.inputs.iter().map(|input| read(known.graph, input)).collect(),
            transforms: transforms.iter().map(|&i| known.plan.report.transforms[i].clone()).collect(),
            dispatches: steps.iter().map(|&at| dispatch(known, at, pruning)).collect(),
            choices: choices(known.graph, target, selector, node)?,
        })
    }
}

fn choices(graph: &Graph, target: &Target, selector: Selector, node: &Node) -> Result<Vec<Chosen>, String> {
    let mut values: Vec<ValueId> = Vec::new();
    for value in node.inputs.iter().map(|input| input.value).chain([node.output]) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    let found = target.choices(graph, selector, &values).map_err(|e| e.to_string())?;
    let named = |(value, choice): (&ValueId, Option<Choice>)| {
        Some(Chosen { value: graph.values[value.index()].name.clone(), choice: choice? })
    };
    Ok(values.iter().zip(found).filter_map(named).collect())
}

fn read(graph: &Graph, input: &Operand) -> Read {
    let value = &graph.values[input.value.index()];
    let window = (!input.is_whole(&value.shape)).then(|| {
        let of = format!("strides {:?} in {:?}", input.strides, value.shape);
        if input.offset > 0 { format!("{of}, from element {}", input.offset) } else { of }
    });
    Read { value: value.name.clone(), dtype: value.dtype, shape: input.shape, window }
}

fn dispatch(known: &Known<'_>, at: usize, pruning: bool) -> Dispatch {
    let step = &known.plan.steps[at];
    let bound = |(p, &(slot, access)): (usize, &(usize, Access))| {
        let (s, tensor) = (&known.plan.slots[slot], &known.tensors[slot]);
        let Home { dtype, ref layout, kind, width, height } = *s.home;
        let label = |at: usize| format!("{at} {}", known.plan.steps[at].label);
        let left = known.profile.filter(|_| !dtype.is_quantized() && tensor.role != Role::Scratch);
        let left = left.and_then(|p| candidates(Desc { dtype, shape: tensor.shape }, kind, p, pruning).ok());
        Bound {
            access: match access {
                Access::Read => "reads",
                Access::Write => "writes",
                Access::ReadWrite => "updates",
            },
            name: tensor.name_at(at, access).to_owned(),
            role: tensor.role,
            dtype,
            shape: tensor.shape,
            storage: storage(kind),
            texels: [width, height],
            bytes: tensor.bytes,
            tile: coordinates::tile(&s.home),
            layout: coordinates::layout(layout),
            coordinates: Addressing::of(&step.constants, p as u32).map_or_else(String::new, |at| coordinates::map(&at)),
            memory: place(s, tensor.bytes),
            live: [label(s.live.0), label(s.live.1)],
            candidates: left.map_or_else(Vec::new, |c| c.homes),
        }
    };
    Dispatch {
        step: at,
        label: step.label.clone(),
        shader: step.shader,
        schedule: schedule_in_words(step.shader, &step.constants, step.groups),
        parameters: parameters(&step.constants).collect(),
        barrier: step.barrier,
        conversion: step.conversion,
        tensors: step.args.iter().enumerate().map(bound).collect(),
        cost: known.predicted.map(|p| p.steps[at]),
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node #{} {}", self.number, self.node)?;
        for Read { value, dtype, shape, window } in &self.reads {
            write!(f, "\n  asks for {value}, {dtype:?} {shape:?}")?;
            if let Some(window) = window {
                write!(f, ", {window}")?;
            }
        }
        if let Some(host) = &self.done_with {
            write!(f, "\n  is done within {host}, whose transforms and dispatches these are")?;
        }
        for Transform { kind, bytes, verdict, .. } in &self.transforms {
            let bytes = units::bytes(*bytes);
            match verdict {
                Verdict::Eliminated => write!(f, "\n  {kind:?} of {bytes}: vanished, it is coordinates of the reader")?,
                Verdict::Explicit(why) => write!(f, "\n  {kind:?} of {bytes}: moves bytes, for {why}")?,
            }
        }
        if self.dispatches.is_empty() {
            write!(f, "\n  dispatches nothing: its result is found through the coordinates of its readers")?;
        }
        self.dispatches.iter().try_for_each(|dispatch| dispatch.fmt(f))?;
        self.choices.iter().try_for_each(|chosen| chosen.fmt(f))
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Choice { tiles, chosen, objective, .. } = &self.choice;
        write!(
            f,
            "\n  tiles of {}, by what the step costs with each while all else is as selected; where the rule's plan costs \
             no more, it is made:",
            self.value
        )?;
        for (i, &(tile, cost)) in tiles.iter().enumerate() {
            let name = coordinates::tile_in_words(tile);
            let above = cost - tiles[*chosen].1;
            let [cost, above_or_below] = [cost, above.abs()].map(|cost| units::cost(cost, *objective));
            let sign = if above < 0.0 { '-' } else { '+' };
            write!(f, "\n    simulated: {cost}, {sign}{above_or_below} {name}")?;
            if i == 0 {
                write!(f, ", the rule's")?;
            }
            if i == *chosen {
                write!(f, ", selected")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Dispatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.conversion { "conversion" } else { "dispatch" };
        write!(f, "\n  {what} {}: shader {}, {}", self.step, self.shader, self.schedule)?;
        if !self.parameters.is_empty() {
            let parameters: Vec<String> = self.parameters.iter().map(|(id, bits)| format!("{id} = {bits}")).collect();
            write!(f, "\n    parameters by constant, as bits: {}", parameters.join(", "))?;
        }
        if self.barrier {
            write!(f, "\n    after a barrier: what it touches is still in use")?;
        }
        self.tensors.iter().try_for_each(|bound| bound.fmt(f))?;
        let Some(cost) = &self.cost else { return Ok(()) };
        let [arithmetic, loads, cache, memory] = cost.times.map(units::seconds);
        write!(
            f,
            "\n    simulated: {}, bound by {:?}: arithmetic {arithmetic}, loads {loads}, shared cache {cache}, memory {memory}, the rest \
             launch and barrier\n    simulated: {}, {} from and to memory, {} through the shared cache at efficiency {:.2}",
            units::seconds(cost.seconds),
            cost.bound,
            units::decimal(cost.flops as f64, "FLOP"),
            units::bytes(cost.memory_bytes),
            units::bytes(cost.cache_bytes),
            cost.efficiency
        )
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Role::Copy => " (a copy)",
            Role::Scratch => " (scratch)",
            Role::External | Role::Kept | Role::Computed => "",
        };
        let Self { access, name, dtype, shape, storage, texels: [width, height], .. } = self;
        write!(f, "\n    {access} {name}{role}, {dtype:?} {shape:?}")?;
        write!(f, "\n      {storage} of {width} x {height} texels, {}", units::bytes(self.bytes))?;
        write!(f, ", {}; {}", coordinates::tile_in_words(self.tile), self.memory)?;
        write!(f, "\n      lives from {} to {}", self.live[0], self.live[1])?;
        write!(f, "\n      layout  {}\n      found at {}", self.layout, self.coordinates)?;
        if !self.candidates.is_empty() {
            write!(f, "\n      homes that the rules leave:")?;
        }
        for c in &self.candidates {
            let Candidate { row_axis, strip, h, w, padding, idle, fragment_lines, row_and_column_lines } = *c;
            let chosen = if self.tile == (Tile { row_axis, strip }) { ", chosen" } else { "" };
            let (tile, padding, idle) =
                (coordinates::tile_in_words(Tile { row_axis, strip }), units::percent(padding), units::percent(idle));
            write!(
                f,
                "\n        {tile}, tiles of {h} x {w}: {padding} padding, {idle} of lanes idle, {fragment_lines} lines \
                 under a fragment, {row_and_column_lines} under a row and a column{chosen}"
            )?;
        }
        Ok(())
    }
}
