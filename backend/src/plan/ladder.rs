//! The ladder that a window climbs before bytes move for it: where could its value live so that the window is coordinates?
//!
//! A computed value is placed once, when it is first met, by looking ahead at everything that reads it, through the copies that
//! need not be made. Where the rule's R-Tile would cut a window, these are tried in turn:
//!
//! 1. another R-Tile: as many rows in a strip as its cuts divide by, 3 for sequences of 129 tokens;
//! 2. another choice of tiled axes;
//! 3. a sub-tile: strips of one row, which every cut falls between;
//! 4. the same with lanes along another axis, where the op that computes the value can write so: cuts of axis 0 within a texel.
//!
//! Only a value that exists already is copied to such a home. A copy may turn the lanes of any value along any axis; kernels read
//! such a window element by element.

use crate::device::Limits;
use crate::graph::{self, Graph, Kind, Node, Op, Operand, Shape, Value, ValueId};
use crate::kernels;
use crate::layout::{Illegal, Layout, View};

use super::{Home, PlanError, PlanOptions, Tile};

/// Rows of a strip, best first; kernels fetch four rows at a time.
const STRIPS: [u32; 3] = [4, 3, 2];

/// Largest growth of a value for the sake of its windows.
const MOST_GROWTH: f64 = 1.10;

/// Copies that are not made, one after the other, as numbers of elements of the value that was placed: only the window at the end has
/// to regroup that value's digits, whatever the steps between would cut.
#[derive(Clone)]
pub(super) struct Chain {
    base: View,
    numbers: View,
}

impl Chain {
    /// The result of a copy, of this shape, of a window over what `chain` shows, or over all of `base`.
    ///
    /// # Errors
    /// The numbers are no digits.
    pub fn of_copy(base: &View, chain: Option<&Self>, input: &Operand, shape: &Shape) -> Result<Self, Illegal> {
        let whole = || Ok(Self { base: base.clone(), numbers: Layout::linear(&base.extents())?.view() });
        let Self { base, numbers } = chain.map_or_else(whole, |chain| Ok(chain.clone()))?.window(input)?;
        let numbers = numbers.strided(shape, &graph::linear_strides(shape), 0)?;
        Ok(Self { base, numbers })
    }

    fn window(&self, input: &Operand) -> Result<Self, Illegal> {
        let numbers = self.numbers.strided(&input.shape, &input.strides, input.offset)?;
        Ok(Self { base: self.base.clone(), numbers })
    }

    /// Where the elements are.
    ///
    /// # Errors
    /// The chain does not regroup the digits.
    pub fn view(&self) -> Result<View, Illegal> {
        self.base.compose(&self.numbers)
    }
}

/// What the readers of a graph's values ask of the homes of those values.
pub(super) struct Ladder<'a> {
    graph: &'a Graph,
    limits: &'a Limits,
    options: PlanOptions,
    /// Nodes that read each value, each node once.
    readers: Vec<Vec<usize>>,
    /// Axes that the lanes of each computed value may run along.
    lane_axes: Vec<&'static [usize]>,
    /// Values that are written in place: their content changes within the run.
    changing: Vec<bool>,
}

impl<'a> Ladder<'a> {
    pub fn new(graph: &'a Graph, limits: &'a Limits, options: PlanOptions) -> Self {
        let mut readers = vec![Vec::new(); graph.values.len()];
        let mut changing = vec![false; graph.values.len()];
        let mut lane_axes: Vec<&[usize]> = vec![&[0]; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                let of: &mut Vec<usize> = &mut readers[input.value.index()];
                if of.last() != Some(&at) {
                    of.push(at);
                }
            }
            let desc = |input: &Operand| graph::Desc { shape: input.shape, ..graph.values[input.value.index()].desc() };
            let inputs: Vec<_> = node.inputs.iter().map(desc).collect();
            let output = node.output.index();
            lane_axes[output] = kernels::lane_axes(&node.op, &inputs, &graph.values[output].desc());
            for id in node.updates.iter().chain([&node.output]) {
                changing[id.index()] |= graph.values[id.index()].kind == Kind::External;
            }
        }
        Self { graph, limits, options, readers, lane_axes, changing }
    }

    /// Whether the content of a value changes within the run.
    pub fn is_changing(&self, id: ValueId) -> bool {
        self.changing[id.index()]
    }

    /// Why a host's copy is made whatever its readers can use; nothing where its result may be the positions of its source.
    pub fn must_copy(&self, copy: &Node) -> Option<&'static str> {
        let source = copy.inputs[0].value;
        let to = self.get(copy.output);
        if !self.options.policy.elides_copies() {
            Some("the policy makes every copy")
        } else if self.get(source).dtype != to.dtype {
            Some("it changes the element type")
        } else if self.graph.kept.contains(&copy.output) || to.kind == Kind::External {
            Some("its result is read by the host")
        } else if self.is_changing(source) {
            Some("its source is updated in place")
        } else {
            None
        }
    }

    /// The home of a value: with the tile that was chosen for it, or the rule's, unless that cuts windows of its readers. Then the
    /// first of the ladder with the fewest bytes of windows cut, if the value is free to live anywhere.
    ///
    /// # Errors
    /// No storage can hold it.
    pub fn home(&self, id: ValueId, chosen: Option<Tile>) -> Result<Home, PlanError> {
        let value = self.get(id);
        let home = Home::chosen(value.dtype, &value.shape, chosen, self.limits, self.options)?;
        let is_free = value.kind == Kind::Computed && !self.graph.kept.contains(&id);
        if !is_free || value.dtype.quant_texels().is_some() || !self.options.policy.tiles() {
            return Ok(home);
        }
        let most = MOST_GROWTH * home.bytes() as f64;
        let (mut least, mut best) = (self.cut(id, &home, &home.layout.view(), None), home);
        if least == 0 {
            return Ok(best);
        }
        let lane_axes = self.lane_axes[id.index()].iter();
        for home in lane_axes.flat_map(|&axis| self.homes(value, axis)).filter(|home| home.bytes() as f64 <= most) {
            let cut = self.cut(id, &home, &home.layout.view(), None);
            if cut < least {
                (least, best) = (cut, home);
            }
            if least == 0 {
                break;
            }
        }
        Ok(best)
    }

    /// Bytes of the windows that readers of a value cannot use as coordinates, with the value seen at `view` in `home`, or through a
    /// chain of copies.
    fn cut(&self, id: ValueId, home: &Home, view: &View, chain: Option<&Chain>) -> u64 {
        let mut bytes = 0;
        for &reader in &self.readers[id.index()] {
            let node = &self.graph.nodes[reader];
            let passes_on = node.op == Op::Copy && self.must_copy(node).is_none();
            for input in node.inputs.iter().filter(|input| input.value == id) {
                let fits = match chain {
                    _ if passes_on => {
                        bytes += self.cut_of_copy(node, home, view, chain);
                        continue;
                    }
                    None => input.is_whole(&self.get(id).shape) || self.window(home, view, input).is_ok(),
                    Some(chain) => self.window_of_chain(home, chain, input).is_ok(),
                };
                bytes += if fits { 0 } else { self.bytes(id, &input.shape) };
            }
        }
        bytes
    }

    /// The same for a copy that is not made: nothing where every reader sees what it wants through the chain.
    fn cut_of_copy(&self, copy: &Node, home: &Home, view: &View, chain: Option<&Chain>) -> u64 {
        let to = copy.output;
        let Ok(chain) = Chain::of_copy(view, chain, &copy.inputs[0], &self.get(to).shape) else {
            return self.bytes(to, &self.get(to).shape);
        };
        match self.cut(to, home, view, Some(&chain)) {
            0 => 0,
            bytes if chain.view().is_ok_and(|view| kernels::takes(&home.operand(&view)).is_ok()) => bytes,
            _ => self.bytes(to, &self.get(to).shape),
        }
    }

    /// Whether every reader of a value that is the positions of a chain sees what it wants.
    pub fn is_seen(&self, id: ValueId, home: &Home, chain: &Chain) -> bool {
        self.cut(id, home, &chain.base, Some(chain)) == 0
    }

    /// A window over a value that is seen at `view` in `home`, as coordinates that a kernel takes.
    ///
    /// # Errors
    /// The cut that the digits do not have, or the limit of kernels.
    pub fn window(&self, home: &Home, view: &View, input: &Operand) -> Result<View, String> {
        taken(home, view.strided(&input.shape, &input.strides, input.offset))
    }

    /// The same through a chain of copies that are not made.
    ///
    /// # Errors
    /// As [`Ladder::window`].
    pub fn window_of_chain(&self, home: &Home, chain: &Chain, input: &Operand) -> Result<View, String> {
        taken(home, chain.window(input).and_then(|window| window.view()))
    }

    /// A home for a copy of an existing plain value whose cuts fit a window, and the window there: of the value's own shape, or
    /// of the shape whose axes the window steps along.
    pub fn home_of_copy(&self, input: &Operand) -> Option<(Home, View)> {
        let value = self.get(input.value);
        let regrouped = regrouped(input, &value.shape).map(|shape| Value { shape, ..value.clone() });
        let shapes = [value].into_iter().chain(&regrouped);
        shapes.flat_map(|value| (0..4).flat_map(|lanes| self.homes(value, lanes))).find_map(|home| {
            let window = self.window(&home, &home.layout.view(), input).ok()?;
            Some((home, window))
        })
    }

    /// Homes of a value with its lanes on an axis, best first.
    fn homes(&self, value: &Value, lanes: usize) -> impl Iterator<Item = Home> + use<> {
        let (mut order, mut back) = ([0, 1, 2, 3], [0, 1, 2, 3]);
        order[..=lanes].rotate_right(1);
        back[..=lanes].rotate_left(1);
        let extents = order.map(|axis| value.shape[axis]);
        let (dtype, storage, max_x) = (value.dtype, self.options.storage, self.limits.max_image_2d);
        let limits = self.limits.clone();
        tiles(extents, Tile::by_rule(&extents, self.limits, self.options)).filter_map(
            move |Tile { row_axis, strip }| {
                let layout = Layout::rtile(&extents, dtype.lanes(), row_axis, strip, max_x, u32::MAX).ok()?;
                Home::with_layout(dtype, layout.permute(&back).ok()?, &limits, storage).ok()
            },
        )
    }

    fn get(&self, id: ValueId) -> &'a Value {
        &self.graph.values[id.index()]
    }

    fn bytes(&self, id: ValueId, shape: &Shape) -> u64 {
        graph::Desc { dtype: self.get(id).dtype, shape: *shape }.bytes()
    }
}

/// A view that a kernel takes.
fn taken(home: &Home, view: Result<View, Illegal>) -> Result<View, String> {
    let view = view.map_err(|illegal| illegal.to_string())?;
    kernels::takes(&home.operand(&view)).map_err(|refusal| refusal.0)?;
    Ok(view)
}

/// The shape over a value's elements whose axes a window steps along, if each of its strides is a multiple of the one before.
fn regrouped(window: &Operand, value: &Shape) -> Option<Shape> {
    let axes = window.shape.into_iter().zip(window.strides);
    let mut cuts: Vec<u64> = axes.filter(|&(n, stride)| n > 1 && stride > 0).map(|(_, stride)| stride).collect();
    cuts.extend([1, graph::elements(value)]);
    cuts.sort_unstable();
    cuts.dedup();
    let mut shape = [1; 4];
    if cuts.len() > shape.len() + 1 {
        return None;
    }
    for (extent, cut) in shape.iter_mut().zip(cuts.windows(2)) {
        *extent = u32::try_from(cut[1] / cut[0]).ok().filter(|_| cut[1].is_multiple_of(cut[0]))?;
    }
    Some(shape)
}

/// The rule's tile, other strips of its axis, strips of other axes, single rows.
fn tiles(shape: Shape, rule: Tile) -> impl Iterator<Item = Tile> {
    let others = move || (1..4).filter(move |&axis| axis != rule.row_axis && shape[axis] > 1);
    let strips = |row_axis| STRIPS.map(|strip| Tile { row_axis, strip });
    let rows = [rule.row_axis].into_iter().chain(others()).map(|row_axis| Tile { row_axis, strip: 1 });
    [rule].into_iter().chain(strips(rule.row_axis)).chain(others().flat_map(strips)).chain(rows)
}
