//! Walks a graph once, in order, and decides what each node becomes.
//!
//! Views of the host are windows over a value's linear index space; here they turn into coordinates. A host copy of such a window is
//! not made either: its result is the same positions under other axes. Values are placed where their readers can use such coordinates
//! ([`Ladder`]); where a reader still cannot, bytes move: the copy is made after all, the value is copied to another home, or the
//! window to a dense one; each with its reason in the report.

mod groups;
mod operands;

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, DType, Family, Graph, Kind, Node, Op, Value, ValueId};
use crate::kernels::{Access, Arg, Dispatch, Lowered, StorageKind};

use super::fusion::Groups;
use super::ladder::Ladder;
use super::lowering::{Homed, Lowerings, Place};
use super::report::{Report, Transform, TransformKind, Verdict};
use super::{
    Footprint, Home, Layouts, Owner, Plan, PlanError, PlanOptions, Planner, Size, Slot, Step, hazards, in_place,
    memory, order,
};
use operands::{Found, Placed};

/// Plans a graph by the one rule of layouts. `footprint` tells what a storage takes on the device.
pub fn plan(
    graph: &Graph,
    limits: &Limits,
    options: PlanOptions,
    footprint: &impl Footprint,
) -> Result<Plan, PlanError> {
    Planner::new(limits, options, None).plan(graph, footprint)
}

/// Whether a graph can be planned: the same walk as [`plan`], without memory.
pub fn supports(graph: &Graph, limits: &Limits, options: PlanOptions) -> Result<(), PlanError> {
    let ladder = Ladder::new(graph, options);
    Draft::new(&ladder, &mut Lowerings::new(limits, options), &Layouts::default(), &Groups::default()).map(drop)
}

/// A plan without memory and barriers.
pub(super) struct Draft {
    slots: Vec<Slot>,
    steps: Vec<Step>,
    transforms: Vec<Transform>,
    /// Whether outputs may take over the storage of operands.
    in_place: bool,
}

impl Draft {
    /// Walks the graph of a ladder, with chosen layouts of computed values and nodes that run as one where kernels can.
    pub fn new(
        ladder: &Ladder<'_>,
        lowerings: &mut Lowerings,
        layouts: &Layouts,
        groups: &Groups,
    ) -> Result<Self, PlanError> {
        let mut builder = Builder::new(ladder, lowerings, layouts, groups);
        builder.nodes()?;
        let Builder { slots, steps, transforms, options, .. } = builder;
        Ok(Self { slots, steps, transforms, in_place: !options.apart })
    }

    /// The dispatches.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Places memory and barriers, after steps are put in an order that needs few of them, unless they are to run in turn.
    pub fn finish(self, footprint: &impl Footprint, in_turn: bool) -> Result<Plan, PlanError> {
        let Self { mut slots, mut steps, transforms, in_place } = self;
        let sizes = |slots: &[Slot]| slots.iter().map(|s| size_of(s, footprint)).collect::<Result<Vec<_>, _>>();
        let mut epochs = match in_turn {
            true => (0..steps.len()).collect(),
            false => order::arrange(&mut steps, &slots, &sizes(&slots)?, in_place),
        };
        for (slot, live) in slots.iter_mut().zip(lifetimes(&steps)) {
            slot.live = live;
        }
        let mut report = Report { transforms, ..Report::default() };
        if in_place {
            let apart = memory::peak(&slots, &sizes(&slots)?, &steps).bytes;
            report.in_place = in_place::take_over(&mut slots, &mut steps, &epochs);
            report.in_place_bytes = apart - memory::peak(&slots, &sizes(&slots)?, &steps).bytes;
            if in_place::drop_idle(&mut steps, &mut epochs) {
                slots.iter_mut().zip(lifetimes(&steps)).for_each(|(slot, live)| slot.live = live);
            }
        }
        report.dispatches = steps.len();
        let sizes = sizes(&slots)?;
        let arena = memory::assign(&mut slots, &sizes, &epochs, footprint.block_bytes());
        hazards::place(&mut steps, &slots, &sizes);
        report.barriers = steps.iter().filter(|s| s.barrier).count();
        report.peak = memory::peak(&slots, &sizes, &steps);
        for (slot, Size { bytes, .. }) in slots.iter().zip(sizes) {
            let Home { kind, width, height, .. } = *slot.home;
            let alone = || footprint.alone(kind, width, height).map_err(|why| no_home(slot, why));
            match slot.owner {
                Owner::External(_) => report.external_bytes += alone()?,
                Owner::Kept(_) => report.kept_bytes += alone()?,
                Owner::Arena { .. } => report.unaliased_bytes += bytes,
            }
        }
        for &bytes in &arena {
            report.arena_bytes += footprint.block(bytes).map_err(|why| PlanError::Arena { bytes, why })?;
        }
        Ok(Plan { slots, steps, arena, report })
    }
}

fn size_of(slot: &Slot, footprint: &impl Footprint) -> Result<Size, PlanError> {
    let Home { kind, width, height, .. } = *slot.home;
    footprint.size(kind, width, height).map_err(|why| no_home(slot, why))
}

fn no_home(slot: &Slot, why: String) -> PlanError {
    let Home { dtype, layout, .. } = &*slot.home;
    let mut shape = [1; 4];
    shape.iter_mut().zip(&layout.axes).for_each(|(n, axis)| *n = axis.extent);
    PlanError::Home { dtype: *dtype, shape, why }
}

/// First and last step of every slot that a step touches.
fn lifetimes(steps: &[Step]) -> Vec<(usize, usize)> {
    let n = steps.iter().flat_map(|s| &s.args).map(|&(slot, _)| slot + 1).max().unwrap_or(0);
    let mut live = vec![(usize::MAX, 0); n];
    for (i, step) in steps.iter().enumerate() {
        for &(slot, _) in &step.args {
            live[slot] = (live[slot].0.min(i), i);
        }
    }
    live
}

/// A storage, and a place in it.
#[derive(Clone, Copy)]
struct Bound {
    slot: usize,
    at: Place,
}

/// What a dispatch is bound to.
struct Operands<'a> {
    inputs: &'a [Bound],
    extras: &'a [Bound],
    output: &'a Bound,
    /// Nodes that are done with the one at work.
    fused: &'a [usize],
}

impl<'a> Operands<'a> {
    /// Those of an op by itself.
    fn of(inputs: &'a [Bound], output: &'a Bound) -> Self {
        Self { inputs, extras: &[], output, fused: &[] }
    }
}

/// Room for storages and dispatches beyond one for each value and node.
const SPARE: usize = 4;

struct Builder<'a> {
    graph: &'a Graph,
    lowerings: &'a mut Lowerings,
    options: PlanOptions,
    layouts: &'a Layouts,
    groups: &'a Groups,
    ladder: &'a Ladder<'a>,
    values: Vec<Option<Found>>,
    /// Number of the node at work.
    at: usize,
    /// Windows that were copied because no reader could use their coordinates.
    dense_windows: FxHashMap<graph::Operand, Bound>,
    slots: Vec<Slot>,
    steps: Vec<Step>,
    transforms: Vec<Transform>,
}

impl<'a> Builder<'a> {
    fn new(ladder: &'a Ladder<'a>, lowerings: &'a mut Lowerings, layouts: &'a Layouts, groups: &'a Groups) -> Self {
        let graph = ladder.graph();
        Self {
            graph,
            options: lowerings.options(),
            lowerings,
            layouts,
            groups,
            ladder,
            values: vec![None; graph.values.len()],
            at: 0,
            dense_windows: FxHashMap::default(),
            slots: Vec::with_capacity(graph.values.len() + SPARE),
            steps: Vec::with_capacity(graph.nodes.len() + SPARE),
            transforms: Vec::new(),
        }
    }

    fn nodes(&mut self) -> Result<(), PlanError> {
        let groups = self.groups;
        (0..self.graph.nodes.len()).filter(|&at| !groups.absorbs(at)).try_for_each(|at| {
            let Some(group) = groups.at(at) else { return self.alone(at) };
            self.together(group)?;
            group.after.iter().try_for_each(|&at| self.alone(at))
        })
    }

    fn alone(&mut self, at: usize) -> Result<(), PlanError> {
        self.at = at;
        self.node(&self.graph.nodes[at])
    }

    fn node(&mut self, node: &Node) -> Result<(), PlanError> {
        let label = [node.op.row().name, " ", &node.name].concat();
        if node.op == Op::Copy && self.elide(node, &label)? {
            return Ok(());
        }

        // A copy is how a view is moved: it reads every one.
        let placed = |input| if node.op == Op::Copy { self.window(input, &label) } else { self.placed(input, &label) };
        let mut inputs = node.inputs.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
        let output = self.made(node.output, "it is written")?;
        if node.op.row().family == Family::Inset {
            self.carry(&inputs[0].bound, &output, &label)?;
        }
        let mut lowered = self.lower(node, &inputs, output.at);
        for (i, input) in node.inputs.iter().enumerate() {
            let Err(refusal) = &lowered else { break };
            if !self.is_home(input) {
                inputs[i] = self.dense(input, &label, refusal)?;
                lowered = self.lower(node, &inputs, output.at);
            }
        }
        let lowered = lowered.map_err(|why| PlanError::Node { node: label.clone(), why })?;
        for (input, verdict) in node.inputs.iter().zip(inputs.iter().map(|placed| placed.verdict.clone())) {
            self.record(input, &label, verdict);
        }
        let inputs: Vec<Bound> = inputs.into_iter().map(|placed| placed.bound).collect();
        self.emit(&label, node.op == Op::Copy, &lowered, Operands::of(&inputs, &output));
        Ok(())
    }

    /// What an op that writes a part leaves as it was: operand 0 goes to the output, unless the op works in place.
    fn carry(&mut self, base: &Bound, output: &Bound, label: &str) -> Result<(), PlanError> {
        if base.slot == output.slot {
            return Ok(());
        }
        let lowered = self.lowerings.lower(&Op::Copy, [base.at].into_iter(), output.at);
        let lowered = lowered.map_err(|why| PlanError::Node { node: label.to_owned(), why })?;
        self.emit(label, true, &lowered, Operands::of(std::slice::from_ref(base), output));
        Ok(())
    }

    /// Whether an operand is all of a value in the value's own home.
    fn is_home(&self, input: &graph::Operand) -> bool {
        input.is_whole(&self.get(input.value).shape) && !self.is_elided(input.value)
    }

    fn is_elided(&self, id: ValueId) -> bool {
        matches!(self.values[id.index()], Some(Found::Elided { .. }))
    }

    fn get(&self, id: ValueId) -> &'a Value {
        &self.graph.values[id.index()]
    }

    fn lower(&mut self, node: &Node, inputs: &[Placed], output: Place) -> Result<Arc<Lowered>, String> {
        let dtype = self.get(node.output).dtype;
        if node.op == Op::Copy && self.get(node.inputs[0].value).dtype == dtype {
            self.keep_blocks(inputs[0].bound.at, dtype)?;
        }
        self.lowerings.lower(&node.op, inputs.iter().map(|placed| placed.bound.at), output)
    }

    /// That what is copied to blocks of a type are such blocks: a window of them that was found among decoded numbers is not.
    fn keep_blocks(&self, from: Place, to: DType) -> Result<(), String> {
        let from = self.lowerings.operand(from).dtype;
        if from == to || !to.is_quantized() {
            return Ok(());
        }
        Err(format!("its {to:?} blocks are found as {from:?} alone, and what is encoded anew is no copy"))
    }

    /// Where a value is; it gets its home when it is met for the first time.
    fn value(&mut self, id: ValueId) -> Result<Found, PlanError> {
        if let Some(found) = self.values[id.index()] {
            return Ok(found);
        }
        let found = Found::Made(self.allocate(id)?);
        self.values[id.index()] = Some(found);
        Ok(found)
    }

    fn allocate(&mut self, id: ValueId) -> Result<Bound, PlanError> {
        let v = self.get(id);
        let Homed { home, place } = self.ladder.home(self.lowerings, id, self.layouts.of(id))?;
        let owner = if v.kind == Kind::External {
            Owner::External(id)
        } else if self.ladder.is_kept(id) {
            Owner::Kept(id)
        } else {
            Owner::Arena { offset: 0 }
        };
        Ok(Bound { slot: self.slot(home, owner), at: place })
    }

    fn slot(&mut self, home: Arc<Home>, owner: Owner) -> usize {
        self.slots.push(Slot { home, owner, live: (0, 0) });
        self.slots.len() - 1
    }

    fn emit(&mut self, label: &str, conversion: bool, lowered: &Lowered, operands: Operands<'_>) {
        let Operands { inputs, extras, output, fused } = operands;
        let scratch: Vec<usize> = lowered
            .scratch
            .iter()
            .map(|s| {
                let (width, height, layout) = (s.layout.width(), s.layout.height(), s.layout.clone());
                let kind = StorageKind::Buffer;
                let home = Home { dtype: s.dtype, layout, kind, width, height };
                self.slot(home.into(), Owner::Arena { offset: 0 })
            })
            .collect();
        for d in &lowered.dispatches {
            let slot = |arg| match arg {
                Arg::Input(i) => inputs[i].slot,
                Arg::Output => output.slot,
                Arg::Extra(i) => extras[i].slot,
                Arg::Scratch(i) => scratch[i],
            };
            let place = |arg| match arg {
                Arg::Input(i) => Some(inputs[i].at),
                Arg::Output => Some(output.at),
                Arg::Extra(i) => Some(extras[i].at),
                Arg::Scratch(_) => None,
            };
            let rows = self.bound_rows(d, slot, place);
            self.steps.push(Step {
                label: label.to_owned(),
                node: self.at,
                fused: fused.to_vec(),
                conversion,
                shader: d.shader,
                constants: d.constants.clone(),
                groups: d.groups,
                args: d.args.iter().map(|&(arg, access)| (slot(arg), access)).collect(),
                rows,
                beside: d.beside,
                barrier: false,
                discard: Vec::new(),
            });
        }
    }

    /// The rows that a dispatch binds of its slots: where all of them would be more than the device binds, those up to the last that is
    /// touched.
    fn bound_rows(
        &self,
        dispatch: &Dispatch,
        slot: impl Fn(Arg) -> usize,
        place: impl Fn(Arg) -> Option<Place>,
    ) -> Vec<(usize, Range<u32>)> {
        let Limits { max_storage_buffer_range, max_bound_bytes, .. } = *self.lowerings.limits();
        let bytes = |&(arg, _): &(Arg, Access)| match &*self.slots[slot(arg)].home {
            home if home.kind == StorageKind::Buffer => home.bytes(),
            _ => 0,
        };
        let sum: u64 = dispatch.args.iter().map(bytes).sum();
        if sum <= max_bound_bytes && dispatch.args.iter().all(|arg| bytes(arg) <= max_storage_buffer_range) {
            return dispatch.rows.clone();
        }
        let rows = |(number, arg): (usize, &(Arg, Access))| match dispatch.rows_of(number) {
            Some(rows) => Some((number, rows.clone())),
            None if bytes(arg) == 0 => None,
            None => place(arg.0).map(|place| (number, 0..self.lowerings.operand(place).rows().end)),
        };
        dispatch.args.iter().enumerate().filter_map(rows).collect()
    }

    fn record(&mut self, input: &graph::Operand, label: &str, verdict: Option<Verdict>) {
        let Some(verdict) = verdict else { return };
        let value = self.get(input.value);
        self.transforms.push(Transform {
            node: label.to_owned(),
            kind: kind_of(input, value),
            bytes: graph::Desc { dtype: value.dtype, shape: input.shape }.bytes(),
            verdict,
        });
    }
}

fn kind_of(input: &graph::Operand, value: &Value) -> TransformKind {
    let whole = graph::elements(&input.shape) == graph::elements(&value.shape);
    let order = input.shape.iter().zip(input.strides).filter(|&(&n, _)| n > 1).map(|(_, s)| s);
    if !whole {
        TransformKind::Slice
    } else if order.clone().is_sorted() {
        TransformKind::Reshape
    } else if order.clone().next() == order.min() {
        TransformKind::Permute
    } else {
        TransformKind::Transpose
    }
}
