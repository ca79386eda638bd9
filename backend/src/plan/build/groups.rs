//! Groups of nodes as one dispatch each, where their views and the device let them.

use rustc_hash::FxHashSet;

use crate::graph::{Op, Shape, ValueId};
use crate::plan::PlanError;
use crate::plan::fusion::{Assembled, Extra, Group, Map};
use crate::plan::lowering::Place;
use crate::plan::report::{Transform, TransformKind, Verdict};

use super::{Bound, Builder, Operands};

impl Builder<'_> {
    /// Runs a group as one, or in as few parts as kernels can.
    pub(super) fn together(&mut self, group: &Group) -> Result<(), PlanError> {
        let graph = self.graph;
        if self.group(group)? {
            return Ok(());
        }
        match group.apart(graph) {
            Some([norm, rest]) if group.twin.is_none() && group.norm.is_some() => {
                // Products that read it share what the first of them makes.
                if self.values[graph.nodes[norm.nodes[norm.nodes.len() - 1]].output.index()].is_none() {
                    self.together(&norm)?;
                }
                self.together(&rest)
            }
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
        let operands = group.operands(graph);
        let mut placed = operands.iter().map(|input| self.placed(input, &label)).collect::<Result<Vec<_>, _>>()?;
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
        for (input, placed) in operands.into_iter().chain(reads.iter().map(|read| &read.operand)).zip(&placed) {
            self.record(input, &label, placed.verdict.clone());
        }
        self.record_inner(group, &label);
        let operands = Operands { inputs: &inputs, extras: &extras, output: &output, fused: others };
        self.emit(&label, false, &lowered, operands);
        Ok(true)
    }

    /// A value's home along the axes of a kernel's result; nothing where the kernel would leave padding unwritten.
    fn written_as(&mut self, value: ValueId, shape: Shape, map: Map) -> Result<Option<Bound>, PlanError> {
        let bound = self.made(value, "it is written")?;
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
}
