//! Walks a graph once, in order, and decides what each node becomes.
//!
//! Views of the host are windows over a value's linear index space; here they turn into coordinates. A host copy of such a window is
//! not made either: its result is the same positions under other axes. Values are placed where their readers can use such coordinates
//! ([`Ladder`]); where a reader still cannot, bytes move: the copy is made after all, the value is copied to another home, or the
//! window to a dense one; each with its reason in the report.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::Limits;
use crate::graph::{self, Graph, Kind, Node, Op, Shape, Value, ValueId};
use crate::kernels::{self, Arg, Lowered};

use super::fusion::{Assembled, Extra, Group, Groups, Map};
use super::ladder::Ladder;
use super::lowering::{Homed, Lowerings, Place};
use super::report::{Report, Transform, TransformKind, Verdict};
use super::{
    Footprint, Home, Layouts, Owner, Plan, PlanError, PlanOptions, Size, Slot, Step, hazards, in_place, memory,
};

/// Plans a graph by the one rule of layouts. `footprint` tells what a storage takes on the device.
pub fn plan(
    graph: &Graph,
    limits: &Limits,
    options: PlanOptions,
    footprint: &impl Footprint,
) -> Result<Plan, PlanError> {
    let groups = Groups::of(graph, limits, options.policy.fusion());
    let ladder = Ladder::new(graph, options);
    Draft::new(&ladder, &mut Lowerings::new(limits, options), &Layouts::default(), &groups)?.finish(footprint)
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

    /// Places memory and barriers.
    pub fn finish(self, footprint: &impl Footprint) -> Result<Plan, PlanError> {
        let Self { mut slots, mut steps, transforms, in_place } = self;
        for (slot, live) in slots.iter_mut().zip(lifetimes(&steps)) {
            slot.live = live;
        }
        let sizes = |slots: &[Slot]| slots.iter().map(|s| size_of(s, footprint)).collect::<Result<Vec<_>, _>>();
        let mut report = Report { transforms, dispatches: steps.len(), ..Report::default() };
        if in_place {
            let apart = memory::peak(&slots, &sizes(&slots)?, &steps).bytes;
            report.in_place = in_place::take_over(&mut slots, &mut steps);
            report.in_place_bytes = apart - memory::peak(&slots, &sizes(&slots)?, &steps).bytes;
        }
        let sizes = sizes(&slots)?;
        let arena = memory::assign(&mut slots, &sizes, footprint.block_bytes());
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

/// Where a value is found: a storage and the value's axes over its positions.
#[derive(Clone, Copy)]
struct Bound {
    slot: usize,
    at: Place,
    /// The copy that was not made, when the positions belong to another value: index into the report's transforms.
    elided: Option<usize>,
}

/// An operand where its reader finds it, and what became of the window that it is; nothing to tell of a whole value.
struct Placed {
    bound: Bound,
    verdict: Option<Verdict>,
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
    values: Vec<Option<Bound>>,
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

    /// Runs a group as one, or in as few parts as kernels can.
    fn together(&mut self, group: &Group) -> Result<(), PlanError> {
        if self.group(group)? {
            return Ok(());
        }
        match group.apart(self.graph) {
            Some(parts) => parts.iter().try_for_each(|part| self.together(part)),
            None => group.nodes.iter().try_for_each(|&at| self.alone(at)),
        }
    }

    /// Runs a group as one; false where its views or the device do not let it.
    fn group(&mut self, group: &Group) -> Result<bool, PlanError> {
        let graph = self.graph;
        let Some(Assembled { fused, reads, writes, output, shape }) = Assembled::of(graph, group) else {
            return Ok(false);
        };
        let (Some((&last, others)), false) = (group.nodes.split_last(), group.nodes.len() == 1) else {
            return Ok(false);
        };
        self.at = last;
        let names = group.nodes.iter().map(|&at| graph.nodes[at].op.row().name).collect::<Vec<_>>().join("+");
        let label = format!("{names} {}", graph.nodes[last].name);
        let operands = || group.operands(graph);
        let mut placed = operands().map(|input| self.placed(input, &label)).collect::<Result<Vec<_>, _>>()?;
        let inputs: Vec<Bound> = placed.iter().map(|placed| placed.bound).collect();
        let mut extras = Vec::with_capacity(reads.len() + writes.len());
        for Extra { operand, shape: of, map } in &reads {
            let read = self.placed(operand, &label)?;
            let repeated = self.lowerings.repeated(read.bound.at, of);
            let Some(Ok(at)) = repeated.map(|place| self.lowerings.window(place, shape, *map, 0)) else {
                return Ok(false);
            };
            extras.push(Bound { at, ..read.bound });
            placed.push(read);
        }
        for &(value, map) in &writes {
            let Some(bound) = self.written_as(value, shape, map)? else { return Ok(false) };
            extras.push(bound);
        }
        let Some(output) = self.written_as(output.0, shape, output.1)? else { return Ok(false) };
        let places = |bounds: &[Bound]| bounds.iter().map(|bound| bound.at).collect::<Vec<_>>();
        let Ok(lowered) = self.lowerings.lower_fused(&fused, &places(&inputs), &places(&extras), output.at) else {
            return Ok(false);
        };
        for (input, placed) in operands().chain(reads.iter().map(|read| &read.operand)).zip(&placed) {
            self.record(input, &label, placed.verdict.clone());
        }
        self.record_inner(group, &label);
        let operands = Operands { inputs: &inputs, extras: &extras, output: &output, fused: others };
        self.emit(&label, false, &lowered, operands);
        Ok(true)
    }

    /// A value's home along the axes of a kernel's result; nothing where the kernel would leave padding unwritten.
    fn written_as(&mut self, value: ValueId, shape: Shape, map: Map) -> Result<Option<Bound>, PlanError> {
        let bound = self.value(value)?;
        let Ok(at) = self.lowerings.window(bound.at, shape, map, 0) else { return Ok(None) };
        let box_of = |place: Place| {
            let axes = &self.lowerings.operand(place).view.axes;
            axes.iter().map(|axis| u64::from(axis.padded)).product::<u64>()
        };
        Ok((box_of(at) == box_of(bound.at)).then_some(Bound { at, ..bound }))
    }

    /// Views and copies between the nodes of a group are gone with the values that they show.
    fn record_inner(&mut self, group: &Group, label: &str) {
        let graph = self.graph;
        let inside: FxHashSet<ValueId> = group.nodes.iter().map(|&at| graph.nodes[at].output).collect();
        for node in group.nodes.iter().map(|&at| &graph.nodes[at]) {
            if node.op == Op::Copy {
                let bytes = self.get(node.output).desc().bytes();
                let (node, verdict) = (label.to_owned(), Verdict::Eliminated);
                self.transforms.push(Transform { node, kind: TransformKind::Copy, bytes, verdict });
            }
            for input in node.inputs.iter().filter(|input| inside.contains(&input.value)) {
                let whole = input.is_whole(&self.get(input.value).shape);
                self.record(input, label, (!whole).then_some(Verdict::Eliminated));
            }
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), PlanError> {
        let label = [node.op.row().name, " ", &node.name].concat();
        if node.op == Op::Copy && self.elide(node, &label)? {
            return Ok(());
        }

        // A copy is how a view is moved: it reads every one.
        let placed = |input| if node.op == Op::Copy { self.window(input, &label) } else { self.placed(input, &label) };
        let mut inputs = node.inputs.iter().map(placed).collect::<Result<Vec<_>, _>>()?;
        let output = self.value(node.output)?;
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

    /// An operand where the policy wants it: as coordinates, or as a dense copy.
    fn placed(&mut self, input: &graph::Operand, label: &str) -> Result<Placed, PlanError> {
        let value = self.get(input.value);
        let kind = kind_of(input, value);
        let whole = input.is_whole(&value.shape);
        if whole || self.options.policy.absorbs(kind) || value.dtype.quant_texels().is_some() {
            self.window(input, label)
        } else {
            self.dense(input, label, "the policy reads no such view")
        }
    }

    /// Whether an operand is all of a value in the value's own home.
    fn is_home(&self, input: &graph::Operand) -> bool {
        let elided = self.values[input.value.index()].as_ref().is_some_and(|b| b.elided.is_some());
        input.is_whole(&self.get(input.value).shape) && !elided
    }

    fn get(&self, id: ValueId) -> &'a Value {
        &self.graph.values[id.index()]
    }

    fn lower(&mut self, node: &Node, inputs: &[Placed], output: Place) -> Result<Arc<Lowered>, String> {
        self.lowerings.lower(&node.op, inputs.iter().map(|placed| placed.bound.at), output)
    }

    /// Lets the result of a copy be the positions of what it copies, when nobody outside sees the difference.
    fn elide(&mut self, node: &Node, label: &str) -> Result<bool, PlanError> {
        let input = &node.inputs[0];
        let to = self.get(node.output);
        let transform = Transform {
            node: label.to_owned(),
            kind: TransformKind::Copy,
            bytes: to.desc().bytes(),
            verdict: Verdict::Eliminated,
        };
        if let Some(reason) = self.ladder.must_copy(node) {
            self.transforms.push(Transform { verdict: Verdict::Explicit(reason.into()), ..transform });
            return Ok(false);
        }
        let Placed { bound: source, verdict } = self.window(input, label)?;
        self.record(input, label, verdict);
        let window = self.lowerings.window(source.at, to.shape, graph::linear_strides(&to.shape), 0);
        let bound = window.map(|at| Bound { slot: source.slot, at, elided: Some(self.transforms.len()) });
        // A reader may yet need the copy made, from the very positions that stand for it.
        match bound.and_then(|bound| self.copyable(&bound, to).map(|()| bound)) {
            Ok(bound) => {
                self.transforms.push(transform);
                self.values[node.output.index()] = Some(bound);
                Ok(true)
            }
            Err(why) => {
                self.transforms.push(Transform { verdict: Verdict::Explicit(why), ..transform });
                Ok(false)
            }
        }
    }

    /// Whether a kernel can copy these positions to a home of the value's own.
    fn copyable(&mut self, bound: &Bound, value: &Value) -> Result<(), String> {
        let home = self.lowerings.home(value.desc(), None).map_err(|e| e.to_string())?;
        self.lowerings.lower(&Op::Copy, [bound.at].into_iter(), home.place).map(drop)
    }

    /// An operand as coordinates, where any R-Tile allows it.
    fn window(&mut self, input: &graph::Operand, label: &str) -> Result<Placed, PlanError> {
        if let Some(bound) = self.dense_windows.get(input) {
            return Ok(Placed { bound: *bound, verdict: None });
        }
        let bound = self.value(input.value)?;
        if input.is_whole(&self.get(input.value).shape) {
            return Ok(Placed { bound, verdict: None });
        }
        let seen = |lowerings: &mut Lowerings, bound: Bound| {
            let at = lowerings.window(bound.at, input.shape, input.strides, input.offset)?;
            Ok(Placed { bound: Bound { at, ..bound }, verdict: Some(Verdict::Eliminated) })
        };
        let why: String = match seen(self.lowerings, bound) {
            Ok(placed) => return Ok(placed),
            Err(why) => why,
        };
        if bound.elided.is_some() {
            let made = self.materialise(input.value, &why)?;
            if let Ok(placed) = seen(self.lowerings, made) {
                return Ok(placed);
            }
        }
        self.rehome(input, label, &why)
    }

    /// Copies a value to another home, whose cuts fit the window.
    fn rehome(&mut self, input: &graph::Operand, label: &str, why: &str) -> Result<Placed, PlanError> {
        let value = self.get(input.value);
        let fail = |why: String| PlanError::Node { node: label.to_owned(), why };
        if value.dtype.quant_texels().is_some() {
            return Err(fail(why.to_owned()));
        }
        let Some((home, at)) = self.ladder.home_of_copy(self.lowerings, input) else {
            let Value { shape, .. } = value;
            let graph::Operand { shape: window, strides, .. } = input;
            return Err(fail(format!(
                "no home of {shape:?} serves the window {window:?} with strides {strides:?}: {why}"
            )));
        };
        let source = self.value(input.value)?;
        let copy = self.copy_to(&source, home, label)?;
        Ok(self.copied(input, Bound { at, ..copy }, why))
    }

    /// A dense copy of a window, in the home of the window's shape.
    fn dense(&mut self, input: &graph::Operand, label: &str, why: &str) -> Result<Placed, PlanError> {
        if input.is_whole(&self.get(input.value).shape) {
            return Ok(Placed { bound: self.materialise(input.value, why)?, verdict: None });
        }
        if let Some(bound) = self.dense_windows.get(input) {
            return Ok(Placed { bound: *bound, verdict: None });
        }
        let dtype = self.get(input.value).dtype;
        let home = self.lowerings.home(graph::Desc { dtype, shape: input.shape }, None)?;
        let source = self.window(input, label)?.bound;
        let bound = match self.copy_to(&source, home.clone(), label) {
            Err(_) if source.elided.is_some() => {
                self.materialise(input.value, why)?;
                let source = self.window(input, label)?.bound;
                self.copy_to(&source, home, label)?
            }
            copied => copied?,
        };
        Ok(self.copied(input, bound, why))
    }

    /// A window that was copied. Later readers share the copy, unless the value changes in between.
    fn copied(&mut self, input: &graph::Operand, bound: Bound, why: &str) -> Placed {
        if !self.ladder.is_changing(input.value) && self.options.policy.reuses_copies() {
            self.dense_windows.insert(*input, bound);
        }
        Placed { bound, verdict: Some(Verdict::Explicit(why.to_owned())) }
    }

    /// Makes the copy that was elided, now that a reader cannot do without.
    fn materialise(&mut self, value: ValueId, why: &str) -> Result<Bound, PlanError> {
        let source = self.value(value)?;
        let Some(elided) = source.elided else { return Ok(source) };
        let home = self.ladder.home(self.lowerings, value, None)?;
        let label = self.transforms[elided].node.clone();
        let bound = self.copy_to(&source, home, &label)?;
        self.transforms[elided].verdict = Verdict::Explicit(why.to_owned());
        self.values[value.index()] = Some(bound);
        Ok(bound)
    }

    fn copy_to(&mut self, source: &Bound, home: Homed, label: &str) -> Result<Bound, PlanError> {
        let Homed { home, place: at } = home;
        let lowered = (self.lowerings.lower(&Op::Copy, [source.at].into_iter(), at))
            .map_err(|why| PlanError::Node { node: label.to_owned(), why })?;
        let dense = Bound { slot: self.slot(home, Owner::Arena { offset: 0 }), at, elided: None };
        self.emit(label, true, &lowered, Operands::of(std::slice::from_ref(source), &dense));
        Ok(dense)
    }

    /// The home of a value met for the first time.
    fn value(&mut self, id: ValueId) -> Result<Bound, PlanError> {
        if let Some(bound) = self.values[id.index()] {
            return Ok(bound);
        }
        let bound = self.allocate(id)?;
        self.values[id.index()] = Some(bound);
        Ok(bound)
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
        Ok(Bound { slot: self.slot(home, owner), at: place, elided: None })
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
                let kind = kernels::StorageKind::Buffer;
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
            self.steps.push(Step {
                label: label.to_owned(),
                node: self.at,
                fused: fused.to_vec(),
                conversion,
                shader: d.shader,
                constants: d.constants.clone(),
                groups: d.groups,
                args: d.args.iter().map(|&(arg, access)| (slot(arg), access)).collect(),
                barrier: false,
                discard: Vec::new(),
            });
        }
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
