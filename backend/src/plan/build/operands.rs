//! How a reader finds its operand: as coordinates where a chain or an R-Tile allows it, by number in a home in order, else among copied bytes.

use std::sync::Arc;

use crate::graph::{self, DType, Desc, Node, Op, ValueId};
use crate::plan::chain::{Chain, Seen};
use crate::plan::ladder::written_as;
use crate::plan::lowering::{Homed, Lowerings};
use crate::plan::report::{Transform, TransformKind, Verdict};
use crate::plan::{Owner, PlanError};

use super::{Bound, Builder, Operands, kind_of};

/// Where a value is found.
#[derive(Clone, Copy)]
pub(super) enum Found {
    /// In a home of its own.
    Made(Bound),
    /// In another value's, for the copy is not made.
    Elided {
        /// The other value's storage.
        slot: usize,
        chain: Chain,
        /// Index of the copy among the nodes, and in the report's transforms.
        node: usize,
        transform: usize,
    },
}

impl Found {
    /// The storage, and how the value is seen there.
    fn seen(self) -> (usize, Seen) {
        match self {
            Self::Made(Bound { slot, at }) => (slot, Seen::At(at)),
            Self::Elided { slot, chain, .. } => (slot, Seen::Through(chain)),
        }
    }

    fn window(self, lowerings: &mut Lowerings, window: &graph::Operand) -> Result<Bound, String> {
        let (slot, seen) = self.seen();
        seen.window(lowerings, window).map(|at| Bound { slot, at })
    }
}

/// An operand where its reader finds it, and what became of the window that it is; nothing to tell of a whole value.
pub(super) struct Placed {
    pub bound: Bound,
    pub verdict: Option<Verdict>,
}

impl Builder<'_> {
    /// Lets the result of a copy be the positions of what it copies, when nobody outside sees the difference.
    pub(super) fn elide(&mut self, node: &Node, label: &str) -> Result<bool, PlanError> {
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
        let (mut slot, seen) = self.value(input.value)?.seen();
        let mut chain = self.chain(seen, input, node.output);
        if let Err(why) = chain {
            // Then its window stands alone, if need be where that is copied to.
            let Placed { bound, verdict } = self.window(input, label)?;
            self.record(input, label, verdict);
            slot = bound.slot;
            let all = graph::Operand::whole(input.value, input.shape);
            chain = self.chain(Seen::At(bound.at), &all, node.output).map_err(|_| why);
        } else if !input.is_whole(&self.get(input.value).shape) {
            self.record(input, label, Some(Verdict::Eliminated));
        }
        match chain {
            Ok(chain) => {
                let elided = Found::Elided { slot, chain, node: self.at, transform: self.transforms.len() };
                self.transforms.push(transform);
                self.values[node.output.index()] = Some(elided);
                Ok(true)
            }
            Err(why) => {
                self.transforms.push(Transform { verdict: Verdict::Explicit(why), ..transform });
                Ok(false)
            }
        }
    }

    /// A copy of a window as a chain, if a kernel can still make it from there for a reader that needs it, or if no reader does.
    fn chain(&mut self, seen: Seen, input: &graph::Operand, copy: ValueId) -> Result<Chain, String> {
        let desc = self.get(copy).desc();
        let chain = seen.copied(self.lowerings, input, desc.shape)?;
        let through = Seen::Through(chain);
        match self.copyable(through, &graph::Operand::whole(copy, desc.shape), desc) {
            Err(why) if !self.ladder.is_served(self.lowerings, copy, through) => Err(why),
            _ => Ok(chain),
        }
    }

    /// Whether a kernel can copy all of a value to the home that it would have.
    fn copyable(&mut self, seen: Seen, all: &graph::Operand, desc: Desc) -> Result<(), String> {
        let at = seen.window(self.lowerings, all)?;
        let home = self.lowerings.home(desc, None).map_err(|e| e.to_string())?;
        self.lowerings.lower(&Op::Copy, [at].into_iter(), home.place).map(drop)
    }

    /// An operand where the policy wants it: as coordinates, or as a dense copy.
    pub(super) fn placed(&mut self, input: &graph::Operand, label: &str) -> Result<Placed, PlanError> {
        let value = self.get(input.value);
        let kind = kind_of(input, value);
        let whole = input.is_whole(&value.shape);
        if whole || self.options.policy.absorbs(kind) || value.dtype.is_quantized() {
            self.window(input, label)
        } else {
            self.dense(input, label, "the policy reads no such view")
        }
    }

    /// An operand as coordinates, where any home allows it.
    pub(super) fn window(&mut self, input: &graph::Operand, label: &str) -> Result<Placed, PlanError> {
        if let Some(&bound) = self.dense_windows.get(input) {
            return Ok(Placed { bound, verdict: None });
        }
        let found = self.value(input.value)?;
        let whole = input.is_whole(&self.get(input.value).shape);
        let bound = match found {
            Found::Made(bound) if whole => Ok(bound),
            found => found.window(self.lowerings, input),
        };
        match (bound, found) {
            (Ok(bound), _) => Ok(Placed { bound, verdict: (!whole).then_some(Verdict::Eliminated) }),
            (Err(why), Found::Elided { .. }) => {
                self.made(input.value, &why)?;
                self.window(input, label)
            }
            (Err(why), Found::Made(_)) => self.rehome(input, label, &why),
        }
    }

    /// A window that is no digits of its value's home: elements found by number, where they lie in their order. Else the value is
    /// copied, to a home whose cuts fit the window, or to one row, which is in order.
    fn rehome(&mut self, input: &graph::Operand, label: &str, why: &str) -> Result<Placed, PlanError> {
        let fail = |rule: String| {
            let graph::Operand { shape, strides, .. } = input;
            let why = format!("no home serves the window {shape:?} with strides {strides:?}: {why}; {rule}");
            PlanError::Node { node: label.to_owned(), why }
        };
        let source = self.made(input.value, why)?;
        let Desc { dtype, shape } = self.get(input.value).desc();
        let count = graph::elements(&shape);
        let count = u32::try_from(count).map_err(|_| fail(format!("a row holds no {count} elements")))?;
        let row = graph::Operand::whole(input.value, [count, 1, 1, 1]);
        let in_order = [Some(source), self.dense_windows.get(&row).copied()];
        for bound in in_order.into_iter().flatten() {
            if let Ok(at) = self.lowerings.flat(bound.at, input) {
                return Ok(Placed { bound: Bound { at, ..bound }, verdict: Some(Verdict::Eliminated) });
            }
        }
        if let Some((home, at)) = self.ladder.home_of_copy(self.lowerings, input) {
            let copy = self.regrouped_to(&source, &home, label)?;
            return Ok(self.copied(input, Bound { at, ..copy }, why));
        }
        let plain = if dtype.is_quantized() { DType::F32 } else { dtype };
        let home = self.lowerings.home(Desc { dtype: plain, shape: row.shape }, None)?;
        let copy = self.copy_to(&source, &home, label)?;
        let at = self.lowerings.flat(copy.at, input).map_err(fail)?;
        let Placed { bound, verdict } = self.copied(&row, copy, why);
        Ok(Placed { bound: Bound { at, ..bound }, verdict })
    }

    /// A dense copy of a window, in the home of the window's shape.
    pub(super) fn dense(&mut self, input: &graph::Operand, label: &str, why: &str) -> Result<Placed, PlanError> {
        if input.is_whole(&self.get(input.value).shape) {
            return Ok(Placed { bound: self.made(input.value, why)?, verdict: None });
        }
        if let Some(&bound) = self.dense_windows.get(input) {
            return Ok(Placed { bound, verdict: None });
        }
        let source = self.window(input, label)?.bound;
        let dtype = written_as(self.lowerings.operand(source.at).dtype);
        let home = self.lowerings.home(Desc { dtype, shape: input.shape }, None)?;
        let bound = match self.copy_to(&source, &home, label) {
            Err(_) if self.is_elided(input.value) => {
                self.made(input.value, why)?;
                let source = self.window(input, label)?.bound;
                self.copy_to(&source, &home, label)?
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

    /// A value in a home of its own: a copy that was elided is made, now that a reader cannot do without.
    pub(super) fn made(&mut self, id: ValueId, why: &str) -> Result<Bound, PlanError> {
        let found = self.value(id)?;
        let (node, transform) = match found {
            Found::Made(bound) => return Ok(bound),
            Found::Elided { node, transform, .. } => (node, transform),
        };
        let label = self.transforms[transform].node.clone();
        let all = graph::Operand::whole(id, self.get(id).shape);
        let source = match found.window(self.lowerings, &all) {
            Ok(source) => source,
            // No kernel sees all of it through the copies that were not made before it.
            Err(_) => self.window(&self.graph.nodes[node].inputs[0], &label)?.bound,
        };
        let home = self.ladder.home(self.lowerings, id, None)?;
        let bound = self.regrouped_to(&source, &home, &label)?;
        self.transforms[transform].verdict = Verdict::Explicit(why.to_owned());
        self.values[id.index()] = Some(Found::Made(bound));
        Ok(bound)
    }

    /// [`Self::copy_to`] a home that may have another shape and its lanes along another axis: each takes a copy.
    fn regrouped_to(&mut self, source: &Bound, home: &Homed, label: &str) -> Result<Bound, PlanError> {
        if let Ok(copy) = self.copy_to(source, home, label) {
            return Ok(copy);
        }
        let mut shape = [1; 4];
        shape.iter_mut().zip(&home.home.layout.axes).for_each(|(extent, axis)| *extent = axis.extent);
        let regrouped = self.lowerings.home(Desc { dtype: home.home.dtype, shape }, None)?;
        let regrouped = self.copy_to(source, &regrouped, label)?;
        self.copy_to(&regrouped, home, label)
    }

    fn copy_to(&mut self, source: &Bound, home: &Homed, label: &str) -> Result<Bound, PlanError> {
        let Homed { home, place: at } = home;
        let lowered = (self.keep_blocks(source.at, home.dtype))
            .and_then(|()| self.lowerings.lower(&Op::Copy, [source.at].into_iter(), *at))
            .map_err(|why| PlanError::Node { node: label.to_owned(), why })?;
        let dense = Bound { slot: self.slot(Arc::clone(home), Owner::Arena { offset: 0 }), at: *at };
        self.emit(label, true, &lowered, Operands::of(std::slice::from_ref(source), &dense));
        Ok(dense)
    }
}
