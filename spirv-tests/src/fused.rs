//! Fused dispatches against the graphs of single ops that they stand for.

use std::collections::HashMap;

use fblayout::device::Limits;
use fblayout::graph::{self, Array, Contents, DType, Desc, Graph, Node, Op, Rope, Shape, ValueId, decode, eval};
use fblayout::kernels::{
    self, Arg, Epilogue, EpilogueStep, Fused, Lowered, Norm, Rotation, SecondProduct, Source, StorageKind,
};
use fblayout::plan::{Home, Owner, Plan, PlanOptions, Report, Slot, Step, TEXEL_BYTES, Tile};

use crate::check::compare;
use crate::reference::contents;
use crate::{Device, Failure, Fill, Outcome, Rounded, Setup, VulkanDevice, tolerance};

const U: f64 = 1.0 / (1 << 24) as f64;

/// A fused dispatch, and the same as single ops.
#[derive(Clone, Debug)]
pub struct FusedCase {
    /// Op and what is special.
    pub name: String,
    /// The op, what joins a second product to it, then a node per step. What the dispatch writes is kept.
    pub graph: Graph,
    /// Host bytes of every external value.
    pub data: Vec<(ValueId, Vec<u8>)>,
    /// What one dispatch does.
    pub fused: Fused,
    /// Operands of the op and of the second product.
    pub inputs: Vec<graph::Operand>,
    /// What extra operands show, before it is repeated to the result's shape.
    pub extras: Vec<graph::Operand>,
    /// Tile of stored extras, if it is not that of the output.
    pub tile: Option<Tile>,
}

/// Puts a fused case together.
#[derive(Debug)]
pub struct FusedSetup {
    setup: Setup,
    case: FusedCase,
    /// Results, as [`Source::Result`] counts them.
    results: Vec<ValueId>,
    /// The result of the twin, [`Source::Second`].
    second: Option<ValueId>,
}

impl FusedSetup {
    /// An op whose output follows from its operands.
    pub fn new(setup: Setup, op: Op, inputs: Vec<graph::Operand>) -> Self {
        Self::with(setup, op, inputs, None)
    }

    /// An op with a stated output.
    pub fn new_as(setup: Setup, op: Op, inputs: Vec<graph::Operand>, output: Shape) -> Self {
        Self::with(setup, op, inputs, Some(Desc::f32(output)))
    }

    fn with(mut setup: Setup, op: Op, inputs: Vec<graph::Operand>, output: Option<Desc>) -> Self {
        let root = match output {
            Some(output) => setup.graph.node_as("op", op, inputs.clone(), output),
            None => setup.graph.node("op", op, inputs.clone()),
        };
        let case = FusedCase {
            name: String::new(),
            graph: Graph::new(),
            data: Vec::new(),
            fused: Fused::new(op, Epilogue::default()),
            inputs,
            extras: Vec::new(),
            tile: None,
        };
        Self { setup, case, results: vec![root.expect("cases obey the op's rule")], second: None }
    }

    /// A product of each left factor, one or two, with `x`, which is normalised with this `eps` first if there is one, and multiplied by a gain.
    pub fn normed(
        mut setup: Setup,
        left: &[graph::Operand],
        x: graph::Operand,
        eps: Option<f32>,
        gain: Option<graph::Operand>,
    ) -> Self {
        let g = &mut setup.graph;
        let rule = "cases obey the op's rule";
        let mut node = |op: Op, inputs: Vec<graph::Operand>| {
            let output = g.node("before", op, inputs).expect(rule);
            g.whole(output)
        };
        let mut right = x;
        if let Some(eps) = eps {
            right = node(Op::RmsNorm { eps }, vec![right]);
        }
        if let Some(gain) = gain {
            right = node(Op::Binary(graph::Binary::Mul), vec![right, gain]);
        }
        let second = left.get(1).map(|&left| node(Op::MulMat, vec![left, right]).value);
        let mut this = Self::new(setup, Op::MulMat, vec![left[0], right]);
        this.case.inputs = [left[0], x].into_iter().chain(left.get(1).copied()).chain(gain).collect();
        this.case.fused.twin = second.is_some();
        this.case.fused.norm = eps.map(|eps| Norm { eps, gain: gain.is_some() });
        Self { second, ..this }
    }

    /// The operands so far.
    pub fn setup(&mut self) -> &mut Setup {
        &mut self.setup
    }

    /// Adds a second product to the op's own.
    pub fn second(&mut self, op: Op, inputs: Vec<graph::Operand>, scale: f32) {
        let g = &mut self.setup.graph;
        let rule = "cases obey the op's rule";
        let product = g.node("second", op, inputs.clone()).expect(rule);
        let scaled = g.node("scaled", Op::Scale { scale, bias: 0.0 }, vec![g.whole(product)]).expect(rule);
        let terms = vec![g.whole(self.results[0]), g.whole(scaled)];
        self.results[0] = g.node("both", Op::Binary(graph::Binary::Add), terms).expect(rule);
        self.case.fused.second = Some(SecondProduct { op, scale });
        self.case.inputs.extend(inputs);
    }

    /// An extra operand that shows this.
    pub fn extra(&mut self, operand: graph::Operand) -> Source {
        self.case.extras.push(operand);
        self.case.fused.epilogue.extras += 1;
        Source::Extra(self.case.extras.len() - 1)
    }

    /// An extra operand that shows all of a new value of this shape.
    pub fn extra_f32(&mut self, shape: Shape, fill: Fill) -> Source {
        let operand = self.setup.f32(shape, fill);
        self.extra(operand)
    }

    /// A step; its result.
    pub fn step(&mut self, op: Op, sources: &[Source]) -> Source {
        let operand = |&source: &Source| match source {
            Source::Result(i) => self.setup.graph.whole(self.results[i]),
            Source::Second => self.setup.graph.whole(self.second.expect("a twin")),
            Source::Extra(i) => self.case.extras[i],
        };
        let inputs = sources.iter().map(operand).collect();
        let output = self.setup.graph.node("step", op, inputs).expect("cases obey the op's rule");
        self.results.push(output);
        self.case.fused.epilogue.steps.push(EpilogueStep { op, inputs: sources.to_vec(), store: None });
        Source::Result(self.results.len() - 1)
    }

    /// Lets the latest result go to an extra operand as well.
    pub fn store(&mut self) {
        let value = *self.results.last().expect("the op gives the first result");
        let Source::Extra(extra) = self.extra(self.setup.graph.whole(value)) else { return };
        let epilogue = &mut self.case.fused.epilogue;
        *epilogue.steps.last_mut().map_or(&mut epilogue.store_root, |step| &mut step.store) = Some(extra);
        self.setup.graph.keep(value);
    }

    /// Rotates the latest result as heads `[head_dim, heads, ..]` of its axis 0, by positions along its axis `axis`.
    pub fn rotate(&mut self, rope: Rope, head_dim: u32, axis: usize, operands: Vec<graph::Operand>) {
        let g = &mut self.setup.graph;
        let latest = *self.results.last().expect("the op gives the first result");
        let [n0, n1, n2, n3] = g.values[latest.index()].shape;
        // The op wants the heads on axis 1 and the positions on axis 2.
        let whole = g.whole(latest);
        let heads = match axis {
            1 => whole.reshape([head_dim, n0 / head_dim, n1, n2 * n3]),
            _ => Ok(whole),
        };
        let inputs = [heads.expect("whole heads")].into_iter().chain(operands.clone()).collect();
        self.results.push(g.node("rotated", Op::Rope(rope), inputs).expect("cases obey the op's rule"));
        self.case.fused.rotation = Some(Rotation { rope, head_dim, axis });
        self.case.inputs.extend(operands);
    }

    /// The case: the latest result is the output.
    pub fn case(mut self, name: impl AsRef<str>) -> FusedCase {
        let output = *self.results.last().expect("the op gives the first result");
        self.setup.graph.keep(output);
        let name = format!("{} {}", self.case.fused.op.row().name, name.as_ref());
        FusedCase { name, graph: self.setup.graph, data: self.setup.data, ..self.case }
    }
}

/// Where the values of a case are.
struct Places<'a> {
    case: &'a FusedCase,
    limits: &'a Limits,
    options: PlanOptions,
    slots: Vec<Slot>,
    of: HashMap<ValueId, usize>,
}

impl Places<'_> {
    fn slot(&mut self, id: ValueId) -> Result<usize, String> {
        if let Some(&slot) = self.of.get(&id) {
            return Ok(slot);
        }
        let Desc { dtype, shape } = self.case.graph.value(id).expect("a value of the case").desc();
        let stored = self.case.graph.kept.contains(&id);
        let tile = match self.case.fused.rotation {
            // Heads are whole quads, and rows of one tile are positions. The result has no padding for a single one.
            Some(rotation) if id == self.case.output() && rotation.axis == 1 => {
                Some(Tile { row_axis: 2, strip: if shape[2] == 1 { 1 } else { 4 } })
            }
            _ => self.case.tile.filter(|_| stored && id != self.case.output()),
        };
        let home = Home::chosen(dtype, &shape, tile, self.limits, self.options).map_err(|e| e.to_string())?;
        let owner = if stored { Owner::Kept(id) } else { Owner::External(id) };
        self.slots.push(Slot { home: home.into(), owner, live: (0, 1) });
        self.of.insert(id, self.slots.len() - 1);
        Ok(self.slots.len() - 1)
    }

    /// An operand as a kernel sees it, repeated to a shape.
    fn operand(&mut self, seen: &graph::Operand, whole: Option<Shape>) -> Result<(usize, kernels::Operand), String> {
        let slot = self.slot(seen.value)?;
        let home = &self.slots[slot].home;
        let mut view =
            home.layout.view().strided(&seen.shape, &seen.strides, seen.offset).map_err(|e| e.to_string())?;
        for (axis, (whole, own)) in whole.unwrap_or(seen.shape).into_iter().zip(seen.shape).enumerate() {
            if own != whole {
                view = view.repeat_whole(axis, whole / own).map_err(|e| e.to_string())?;
            }
        }
        Ok((slot, kernels::Operand { dtype: home.dtype, view, flat: false, storage: home.kind, pitch: home.width }))
    }
}

impl FusedCase {
    /// The value that the dispatch's output is.
    pub fn output(&self) -> ValueId {
        self.graph.nodes.last().expect("a case has nodes").output
    }

    /// Shape of the kernel's result, of which the output is another view where it is rotated.
    fn result_shape(&self) -> Shape {
        let last = self.graph.nodes.last().expect("a case has nodes");
        let result = if self.fused.rotation.is_some() { last.inputs[0].value } else { last.output };
        self.graph.values[result.index()].shape
    }

    /// The values that the dispatch writes.
    pub fn written(&self) -> &[ValueId] {
        &self.graph.kept
    }

    /// The fused dispatches, where `options` place the operands.
    pub fn plan(&self, limits: &Limits, options: PlanOptions) -> Result<Plan, String> {
        let mut places = Places { case: self, limits, options, slots: Vec::new(), of: HashMap::new() };
        let whole = self.graph.whole(self.output());
        let whole = whole.reshape(self.result_shape()).map_err(|e| e.to_string())?;
        let inputs = self.inputs.iter().map(|o| places.operand(o, None)).collect::<Result<Vec<_>, _>>()?;
        let extras = self.extras.iter().map(|o| places.operand(o, Some(whole.shape))).collect::<Result<Vec<_>, _>>()?;
        let output = places.operand(&whole, None)?;
        let seen = |bound: &[(usize, kernels::Operand)]| bound.iter().map(|(_, o)| o.clone()).collect::<Vec<_>>();
        let Lowered { dispatches, scratch } =
            kernels::lower_fused(&self.fused, &seen(&inputs), &output.1, &seen(&extras), limits)
                .map_err(|refusal| refusal.0)?;

        let mut slots = places.slots;
        let (first, mut arena) = (slots.len(), 0);
        for s in scratch {
            let (width, height) = (s.layout.width(), s.layout.height());
            let home = Home { dtype: s.dtype, layout: s.layout, kind: StorageKind::Buffer, width, height };
            let bytes = home.bytes();
            slots.push(Slot { home: home.into(), owner: Owner::Arena { offset: arena }, live: (0, 1) });
            arena += bytes.next_multiple_of(16 * TEXEL_BYTES);
        }
        let slot = |arg| match arg {
            Arg::Input(i) => inputs[i].0,
            Arg::Output => output.0,
            Arg::Scratch(i) => first + i,
            Arg::Extra(i) => extras[i].0,
        };
        let steps = dispatches.into_iter().enumerate().map(|(i, d)| Step {
            label: self.name.clone(),
            node: 0,
            fused: Vec::new(),
            conversion: false,
            shader: d.shader,
            constants: d.constants,
            groups: d.groups,
            args: d.args.into_iter().map(|(arg, access)| (slot(arg), access)).collect(),
            rows: d.rows.clone(),
            beside: d.beside,
            barrier: i > 0,
            discard: Vec::new(),
        });
        let steps = steps.collect();
        Ok(Plan { slots, steps, arena: if arena == 0 { Vec::new() } else { vec![arena] }, report: Report::default() })
    }

    /// Runs the case and compares what it writes with the single ops in f64.
    pub fn check(&self, device: &VulkanDevice) -> Result<(), Failure> {
        self.check_outcome(self.outcome(device))
    }

    /// The same for the dispatches that the device's own planner makes of the single ops.
    pub fn check_planned(&self, device: &VulkanDevice) -> Result<(), Failure> {
        self.check_outcome(device.run(&self.graph, &self.data, self.written()))
    }

    fn check_outcome(&self, outcome: Result<Outcome, String>) -> Result<(), Failure> {
        let fail = |what: String| Failure { case: format!("fused {}", self.name), what };
        let given = contents(&self.graph, &self.data);
        let expected = eval(&self.graph, given).map_err(|e| fail(e.to_string()))?;
        let outcome = outcome.map_err(fail)?;
        let bounds = self.bounds(&expected, outcome.rounded);
        let got = numbers(&outcome).map_err(fail)?;
        for (id, got) in self.written().iter().zip(got) {
            let which = if *id == self.output() { "output" } else { "stored result" };
            compare(&got, &expected[id], &bounds[id]).map_err(|what| fail(format!("{which}: {what}")))?;
        }
        Ok(())
    }

    /// What the dispatch writes.
    pub fn run(&self, device: &VulkanDevice) -> Result<Vec<Vec<f64>>, String> {
        numbers(&self.outcome(device)?)
    }

    fn outcome(&self, device: &VulkanDevice) -> Result<Outcome, String> {
        let plan = self.plan(device.engine().limits(), device.options())?;
        device.run_plan(&self.graph, plan, &self.data, self.written())
    }

    /// How far each computed value may be from the oracle.
    fn bounds(&self, expected: &Contents, rounded: Option<Rounded>) -> Contents {
        let mut bounds = Contents::new();
        for node in &self.graph.nodes {
            let own = self.own_bound(node, expected, rounded);
            let passed = passed_on(node, expected, &bounds);
            bounds.insert(node.output, own.zip(&passed, |own, passed| own + passed));
        }
        if self.fused.second.is_some() {
            self.join_products(expected, rounded, &mut bounds);
        }
        bounds
    }

    /// The error of a node on exact operands.
    fn own_bound(&self, node: &Node, expected: &Contents, rounded: Option<Rounded>) -> Array {
        let inputs = node.shown(expected);
        let dtypes = node.inputs.iter().map(|i| i.value).chain([node.output]);
        let dtypes: Vec<DType> = dtypes.map(|id| self.graph.values[id.index()].dtype).collect();
        tolerance(&node.op, &inputs, &dtypes, std::slice::from_ref(&expected[&node.output]), rounded).remove(0)
    }

    /// Two products in one accumulator are one sum of `k + k2` products, a factor on some: `(k + k2 + 4) U` relative to the sum of all
    /// magnitudes, of which a product's own bound has `(k + 2) U` relative to its own. The steps after them come again.
    fn join_products(&self, expected: &Contents, rounded: Option<Rounded>, bounds: &mut Contents) {
        let (nodes, scale) = (&self.graph.nodes, self.fused.second.map_or(0.0, |s| f64::from(s.scale)));
        let k = |node: &Node| f64::from(node.inputs[1].shape[usize::from(node.op == Op::OutProd)]);
        let (first, second) = (&nodes[0], &nodes[1]);
        let terms = k(first) + k(second) + 4.0;
        let [a, b] =
            [first, second].map(|node| self.own_bound(node, expected, rounded).map(|e| e / (k(node) + 2.0) * terms));
        let sum = a.zip(&b, |a, b| a + scale.abs() * b);
        let added = sum.zip(&expected[&nodes[3].output], |e, y| if y.fract() == 0.0 { e } else { e + U * y.abs() });
        bounds.insert(nodes[3].output, added);
        for node in &nodes[4..] {
            let passed = passed_on(node, expected, bounds);
            bounds
                .insert(node.output, self.own_bound(node, expected, rounded).zip(&passed, |own, passed| own + passed));
        }
    }
}

fn numbers(outcome: &Outcome) -> Result<Vec<Vec<f64>>, String> {
    outcome.bytes.iter().map(|bytes| decode(DType::F32, bytes).map_err(|e| e.to_string())).collect()
}

/// What errors of its operand do to a rotation, which is linear: each of a pair gets at most the sum of both.
fn turned(rope: &Rope, errors: &Array) -> Array {
    let magnitude = graph::rope_frequencies(rope).1;
    let mut passed = errors.clone();
    for (row, errors) in passed.rows_mut().zip(errors.rows()) {
        for pair in graph::rope_pairs(rope) {
            let both = magnitude.abs() * pair.elements.iter().map(|&at| errors[at]).sum::<f64>();
            pair.elements.iter().for_each(|&at| row[at] = 1.001 * both);
        }
    }
    passed
}

/// What errors of its operands do to the result of an elementwise node or of a product with an exact left factor: the farthest that moving them all by their bounds takes it.
/// A thousandth covers that its own bound is taken at the exact operands, and the curvature in between.
fn passed_on(node: &Node, expected: &Contents, bounds: &Contents) -> Array {
    let output = &expected[&node.output];
    if let (Op::Rope(rope), Some(errors)) = (&node.op, bounds.get(&node.inputs[0].value)) {
        return turned(rope, &errors.window(&node.inputs[0]));
    }
    if let (Op::MulMat, Some(errors)) = (&node.op, node.inputs.get(1).and_then(|b| bounds.get(&b.value))) {
        let left = node.shown(expected).swap_remove(0).map(f64::abs);
        return graph::oracle(&node.op, &[left, errors.window(&node.inputs[1])], output.shape)
            .remove(0)
            .map(|e| 1.001 * e);
    }
    let erring: Vec<usize> = (0..node.inputs.len()).filter(|&i| bounds.contains_key(&node.inputs[i].value)).collect();
    let mut farthest = output.map(|_| 0.0);
    for corner in 0..1_u32 << erring.len() {
        let mut inputs = node.shown(expected);
        for (bit, &i) in erring.iter().enumerate() {
            let sign = if corner >> bit & 1 == 0 { 1.0 } else { -1.0 };
            inputs[i] = inputs[i].zip(&bounds[&node.inputs[i].value], |x, e| x + sign * e);
        }
        let moved = graph::oracle(&node.op, &inputs, output.shape).remove(0);
        farthest = farthest.zip(&moved.zip(output, |a, b| (a - b).abs()), f64::max);
    }
    farthest.map(|e| 1.001 * e)
}
