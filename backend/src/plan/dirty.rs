//! Which tensors a change of extents makes dirty: those whose layout the paper would select again when a sequence gets longer.
//!
//! A tensor is dirty if
//!
//! * an FTD-D operator reduces it along an axis that changed; or
//! * a window over it has other digits than before, whatever their number of values: a divisibility that a map relied on came or went; or
//! * the rules (C3 most of all) leave other tiles to choose from; or
//! * its home is folded otherwise or another kind of storage: a limit was crossed.
//!
//! A copy whose result is the positions of its operand hands the state of the result on to the operand.
//!
//! What this rule cannot see is time. The best tile of a clean tensor changes with what its neighbours take, and with the share of the
//! machine that a dispatch fills; so a selection that keeps it may cost more ([`Change::kept`] tells how much). A [`super::Planner`]
//! keeps answers instead of tiles.

use std::collections::HashMap;

use serde::Serialize;

use crate::device::{Limits, Profile};
use crate::graph::{Access, Desc, Graph, Kind, Node, Op, Operand, Shape, ValueId, through};
use crate::layout::{Place as Axis, Term};

use super::lowering::Lowerings;
use super::select::{Selecting, Tables};
use super::{Objective, PlanError, PlanOptions, Selector};

/// Why two graphs cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChangeError {
    /// One of them has no plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// They differ in more than extents.
    #[error("{what}: the graphs differ in more than extents")]
    Unlike {
        /// Where they first differ.
        what: String,
    },
}

/// How many tensors are dirty for which reason; one may be so for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Causes {
    /// Reduced along an axis that changed.
    pub reduced: usize,
    /// Seen through a window with other digits.
    pub maps: usize,
    /// Left other tiles by the rules.
    pub candidates: usize,
    /// Stored otherwise.
    pub storage: usize,
}

/// What other extents do to a selection of layouts. Costs are *simulated*, of all steps, barriers apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// How the costs came about; always `simulated`.
    pub stand: &'static str,
    /// What the costs are.
    pub objective: Objective,
    /// Computed tensors.
    pub tensors: usize,
    /// Those that are dirty.
    pub dirty: usize,
    /// Why.
    pub causes: Causes,
    /// Tensors with a choice of tiles.
    pub choices: usize,
    /// Those that the selection for the new extents gives another tile.
    pub moved: usize,
    /// Those of them that are clean.
    pub clean_moved: usize,
    /// The selection for the new extents.
    pub cost: f64,
    /// The selection for the new extents in which every clean tensor keeps its tile.
    pub kept: f64,
    /// No selection costs less.
    pub lower_bound: f64,
}

impl Change {
    /// Compares a graph with itself at other extents.
    ///
    /// # Errors
    /// The graphs differ in more than extents, or cannot be planned.
    pub fn of(
        [before, after]: [&Graph; 2],
        limits: &Limits,
        options: PlanOptions,
        profile: &Profile,
        selector: Selector,
    ) -> Result<Self, ChangeError> {
        alike(before, after)?;
        let (mut lowerings, mut tables) = (Lowerings::new(limits, options), Tables::new(profile));
        let causes = causes([before, after], &mut lowerings, &mut tables);
        let dirty = |id: ValueId| causes[id.index()].any();
        let computed = || after.ids().filter(|id| after.values[id.index()].kind == Kind::Computed);
        let count = |f: fn(&Cause) -> bool| computed().filter(|id| f(&causes[id.index()])).count();

        let old = Selecting::new(before, &mut lowerings, &mut tables)?.tiles(selector);
        let new = Selecting::new(after, &mut lowerings, &mut tables)?;
        let tiles = new.tiles(selector);
        let moved = || tiles.iter().filter(|&(id, tile)| old.get(id).is_some_and(|old| old != tile));
        let keep = old.iter().filter(|&(&id, _)| !dirty(id)).map(|(&id, &tile)| (id, tile)).collect();
        let (cost, lower_bound) = new.cost(selector);
        Ok(Self {
            stand: "simulated",
            objective: options.objective,
            tensors: computed().count(),
            dirty: computed().filter(|&id| dirty(id)).count(),
            causes: Causes {
                reduced: count(|c| c.reduced),
                maps: count(|c| c.map),
                candidates: count(|c| c.candidates),
                storage: count(|c| c.storage),
            },
            choices: tiles.len(),
            moved: moved().count(),
            clean_moved: moved().filter(|&(&id, _)| !dirty(id)).count(),
            cost,
            kept: new.keeping(&keep).cost(selector).0,
            lower_bound,
        })
    }
}

/// Why a value is dirty.
#[derive(Clone, Copy, Default)]
struct Cause {
    reduced: bool,
    map: bool,
    candidates: bool,
    storage: bool,
}

impl Cause {
    fn any(self) -> bool {
        self.reduced || self.map || self.candidates || self.storage
    }

    fn join(&mut self, other: Self) {
        self.reduced |= other.reduced;
        self.map |= other.map;
        self.candidates |= other.candidates;
        self.storage |= other.storage;
    }
}

/// That two graphs have the same nodes over the same values.
fn alike(before: &Graph, after: &Graph) -> Result<(), ChangeError> {
    let unlike = |what: String| Err(ChangeError::Unlike { what });
    if (before.nodes.len(), before.values.len()) != (after.nodes.len(), after.values.len()) {
        let count = |g: &Graph| format!("{} nodes of {} values", g.nodes.len(), g.values.len());
        return unlike(format!("{} and {}", count(before), count(after)));
    }
    if let Some((a, _)) = before.values.iter().zip(&after.values).find(|(a, b)| (a.dtype, a.kind) != (b.dtype, b.kind))
    {
        return unlike(format!("value {:?}", a.name));
    }
    let ids = |node: &Node| -> Vec<ValueId> {
        node.inputs.iter().map(|i| i.value).chain(node.updates.iter().copied()).chain([node.output]).collect()
    };
    let kind = std::mem::discriminant::<Op>;
    match before.nodes.iter().zip(&after.nodes).find(|(a, b)| kind(&a.op) != kind(&b.op) || ids(a) != ids(b)) {
        Some((a, _)) => unlike(format!("node {:?}", a.name)),
        None => Ok(()),
    }
}

/// Why each value is dirty.
fn causes([before, after]: [&Graph; 2], lowerings: &mut Lowerings, tables: &mut Tables<'_>) -> Vec<Cause> {
    let mut causes = vec![Cause::default(); after.values.len()];
    let changed = |id: ValueId| before.values[id.index()].shape != after.values[id.index()].shape;
    for id in after.ids().filter(|&id| changed(id)) {
        let [old, new] = [before, after].map(|graph| graph.values[id.index()].desc());
        let cause = &mut causes[id.index()];
        cause.candidates = tables.tiles(old, lowerings) != tables.tiles(new, lowerings);
        cause.storage = storage(old, lowerings) != storage(new, lowerings);
    }
    let mut divergent = HashMap::new();
    for (old, new) in before.nodes.iter().zip(&after.nodes).rev() {
        let shapes: Vec<Shape> = old.inputs.iter().map(|input| input.shape).collect();
        let output = before.values[old.output.index()].desc();
        let reduces = *divergent.entry((lowerings.op(&old.op), shapes.clone(), output)).or_insert_with(|| {
            let desc = |o: &Operand| Desc { dtype: before.values[o.value.index()].dtype, shape: o.shape };
            let inputs: Vec<Desc> = old.inputs.iter().map(desc).collect();
            old.op.class(&inputs, output).is_ok_and(|class| class.dependent && class.divergent)
        });
        let result = causes[new.output.index()];
        let accesses = old.op.accesses(&shapes, &output.shape);
        for ((was, is), access) in old.inputs.iter().zip(&new.inputs).zip(accesses) {
            let [from, to] = [before, after].map(|graph| graph.values[is.value.index()].shape);
            let mut cause = Cause::default();
            if let (Access::Along(axes), true) = (access, reduces) {
                let crossed = through(was, &from, axes);
                cause.reduced = (0..4).any(|axis| crossed.contains(axis) && from[axis] != to[axis]);
            }
            let windows = [(before, was), (after, is)];
            let whole = windows.iter().all(|(graph, o)| o.is_whole(&graph.values[o.value.index()].shape));
            if !whole && was != is {
                let [was, is] = windows.map(|(graph, o)| forms(graph, o, lowerings, tables));
                cause.map = was != is;
            }
            if old.op == Op::Copy {
                cause.join(result);
            }
            causes[is.value.index()].join(cause);
        }
    }
    causes
}

/// What storage a tensor has, and how many digits its layout.
fn storage(desc: Desc, lowerings: &mut Lowerings) -> Option<(crate::kernels::StorageKind, usize, usize)> {
    let home = lowerings.home(desc, None).ok()?.home;
    Some((home.kind, home.layout.x.len(), home.layout.y.len()))
}

/// A window's digits, without their number of values, and whether an axis ends with padding; nothing where the window is none.
type Form = Option<Vec<(Vec<Option<Axis>>, bool)>>;

/// The forms of a window over its value, by the rule's tile and by each that could be chosen.
fn forms(graph: &Graph, window: &Operand, lowerings: &mut Lowerings, tables: &mut Tables<'_>) -> Vec<Form> {
    let desc = graph.values[window.value.index()].desc();
    let tiles = [None].into_iter().chain(tables.tiles(desc, lowerings).iter().copied().map(Some)).collect::<Vec<_>>();
    let mut form = |tile| {
        let place = lowerings.home(desc, tile).ok()?.place;
        let window = lowerings.window(place, window.shape, window.strides, window.offset).ok()?;
        let places = |terms: &[Term]| terms.iter().map(|term| Some(term.at?.0)).collect();
        let axes = lowerings.operand(window).view.axes.iter();
        Some(axes.map(|axis| (places(&axis.terms), axis.padded > axis.extent)).collect())
    };
    tiles.into_iter().map(&mut form).collect()
}
