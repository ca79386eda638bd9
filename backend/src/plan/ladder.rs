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

use crate::graph::{self, DType, Desc, Graph, Kind, Node, Op, Operand, Shape, Value, ValueId};
use crate::kernels;
use crate::layout::Layout;

use super::chain::Seen;
use super::lowering::{Homed, Lowerings, Place};
use super::{Home, PlanError, PlanOptions, Tile};

/// Rows of a strip, best first; kernels fetch four rows at a time.
const STRIPS: [u32; 3] = [4, 3, 2];

/// Largest growth of a value for the sake of its windows.
const MOST_GROWTH: f64 = 1.10;

/// Values that are written in place: their content changes within the run.
pub(super) fn changing(graph: &Graph) -> Vec<bool> {
    let mut changing = vec![false; graph.values.len()];
    for id in graph.nodes.iter().flat_map(|node| node.updates.iter().chain([&node.output])) {
        changing[id.index()] |= graph.values[id.index()].kind == Kind::External;
    }
    changing
}

/// What the readers of a graph's values ask of the homes of those values.
pub(super) struct Ladder<'a> {
    graph: &'a Graph,
    options: PlanOptions,
    /// Nodes that read each value, each node once.
    readers: Vec<Vec<usize>>,
    /// Axes that the lanes of each computed value may run along.
    lane_axes: Vec<&'static [usize]>,
    /// Values that are written in place: their content changes within the run.
    changing: Vec<bool>,
    /// Values that outlive the run.
    kept: Vec<bool>,
}

impl<'a> Ladder<'a> {
    pub fn new(graph: &'a Graph, options: PlanOptions) -> Self {
        let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        let mut lane_axes: Vec<&[usize]> = vec![&[0]; graph.values.len()];
        for (at, node) in graph.nodes.iter().enumerate() {
            for input in &node.inputs {
                let of = &mut readers[input.value.index()];
                if of.last() != Some(&at) {
                    of.push(at);
                }
            }
            let desc = |input: &Operand| Desc { shape: input.shape, ..graph.values[input.value.index()].desc() };
            let inputs: Vec<_> = node.inputs.iter().map(desc).collect();
            let output = node.output.index();
            lane_axes[output] = kernels::lane_axes(&node.op, &inputs, &graph.values[output].desc());
        }
        let mut kept = vec![false; graph.values.len()];
        graph.kept.iter().for_each(|id| kept[id.index()] = true);
        Self { graph, options, readers, lane_axes, changing: changing(graph), kept }
    }

    /// The graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// Nodes that read a value, each once, in order.
    pub fn readers(&self, id: ValueId) -> &[usize] {
        &self.readers[id.index()]
    }

    /// Whether a value outlives the run.
    pub fn is_kept(&self, id: ValueId) -> bool {
        self.kept[id.index()]
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
        } else if self.is_kept(copy.output) || to.kind == Kind::External {
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
    pub fn home(&self, lowerings: &mut Lowerings, id: ValueId, chosen: Option<Tile>) -> Result<Homed, PlanError> {
        let value = self.get(id);
        let homed = lowerings.home(value.desc(), chosen)?;
        let is_free = value.kind == Kind::Computed && !self.is_kept(id);
        if !is_free || value.dtype.is_quantized() || !self.options.policy.tiles() {
            return Ok(homed);
        }
        let most = MOST_GROWTH * homed.home.bytes() as f64;
        let (mut least, mut best) = (self.cut(lowerings, id, Seen::At(homed.place)), homed);
        for home in self.lane_axes[id.index()].iter().flat_map(|&axis| homes(value.desc(), axis)) {
            if least == 0 {
                break;
            }
            let Some(homed) = home.of(lowerings).filter(|homed| homed.home.bytes() as f64 <= most) else { continue };
            let cut = self.cut(lowerings, id, Seen::At(homed.place));
            if cut < least {
                (least, best) = (cut, homed);
            }
        }
        Ok(best)
    }

    /// Bytes of the windows that readers of a value cannot use as coordinates.
    fn cut(&self, lowerings: &mut Lowerings, id: ValueId, seen: Seen) -> u64 {
        let mut bytes = 0;
        for &reader in &self.readers[id.index()] {
            let node = &self.graph.nodes[reader];
            let passes_on = node.op == Op::Copy && self.must_copy(node).is_none();
            for input in node.inputs.iter().filter(|input| input.value == id) {
                let is_home = matches!(seen, Seen::At(_)) && input.is_whole(&self.get(id).shape);
                let cut = match passes_on {
                    true => self.cut_of_copy(lowerings, node, seen),
                    false if is_home || seen.window(lowerings, input).is_ok() => 0,
                    false => self.bytes(id, &input.shape),
                };
                bytes = cut.saturating_add(bytes);
            }
        }
        bytes
    }

    /// The same for a copy that is not made: nothing where every reader sees what it wants through it.
    fn cut_of_copy(&self, lowerings: &mut Lowerings, copy: &Node, seen: Seen) -> u64 {
        let shape = self.get(copy.output).shape;
        let all = self.bytes(copy.output, &shape);
        let Ok(chain) = seen.copied(lowerings, &copy.inputs[0], shape) else { return all };
        let seen = Seen::Through(chain);
        match self.cut(lowerings, copy.output, seen) {
            0 => 0,
            bytes if seen.window(lowerings, &Operand::whole(copy.output, shape)).is_ok() => bytes,
            _ => all,
        }
    }

    /// Whether every reader of a value that is seen so finds what it wants.
    pub fn is_served(&self, lowerings: &mut Lowerings, id: ValueId, seen: Seen) -> bool {
        self.cut(lowerings, id, seen) == 0
    }

    /// A home for a copy of an existing value whose cuts fit a window, and the place of the window there: of the value's own
    /// shape, or of the shape whose axes the window steps along; hardly larger than the rule's home.
    pub fn home_of_copy(&self, lowerings: &mut Lowerings, input: &Operand) -> Option<(Homed, Place)> {
        let Desc { dtype, shape } = self.get(input.value).desc();
        let value = Desc { dtype: written_as(dtype), shape };
        let most = MOST_GROWTH * lowerings.home(value, None).ok()?.home.bytes() as f64;
        let regrouped = regrouped(input, &value.shape).map(|shape| Desc { shape, ..value });
        let descs = [value].into_iter().chain(regrouped);
        descs.flat_map(|desc| (0..4).flat_map(move |lanes| homes(desc, lanes))).find_map(|home| {
            let homed = home.of(lowerings).filter(|homed| homed.home.bytes() as f64 <= most)?;
            let window = lowerings.window_of(homed.place, input).ok()?;
            Some((homed, window))
        })
    }

    fn get(&self, id: ValueId) -> &'a Value {
        &self.graph.values[id.index()]
    }

    fn bytes(&self, id: ValueId, shape: &Shape) -> u64 {
        Desc { dtype: self.get(id).dtype, shape: *shape }.bytes()
    }
}

/// A home that a value could have: its tile, with the axes in this order when it is laid out.
struct Candidate {
    desc: Desc,
    order: [usize; 4],
    /// The rule's own tile where nothing is said.
    tile: Option<Tile>,
}

impl Candidate {
    fn of(self, lowerings: &mut Lowerings) -> Option<Homed> {
        let Self { desc: Desc { dtype, shape }, order, tile } = self;
        let extents = order.map(|axis| shape[axis]);
        let (limits, options) = (lowerings.limits(), lowerings.options());
        let Tile { row_axis, strip } = tile.unwrap_or_else(|| Tile::by_rule(&extents, limits, options));
        let layout = Layout::rtile(&extents, dtype.lanes(), row_axis, strip, limits.max_image_2d, u32::MAX).ok()?;
        let mut back = [0; 4];
        (0..4).for_each(|axis| back[order[axis]] = axis);
        let home = Home::with_layout(dtype, layout.permute(&back).ok()?, limits, options.storage).ok()?;
        Some(lowerings.homed(home))
    }
}

/// Homes of a value with its lanes on an axis, best first: the rule's tile, other strips, strips of other axes, single rows.
fn homes(desc: Desc, lanes: usize) -> impl Iterator<Item = Candidate> {
    let mut order = [0, 1, 2, 3];
    order[..=lanes].rotate_right(1);
    let axes = move || (1..4).filter(move |&axis| desc.shape[order[axis]] > 1);
    let strips = move |row_axis| STRIPS.map(|strip| Tile { row_axis, strip });
    let rows = axes().map(|row_axis| Tile { row_axis, strip: 1 });
    let tiles = axes().flat_map(strips).chain(rows).map(Some);
    [None].into_iter().chain(tiles).map(move |tile| Candidate { desc, order, tile })
}

/// The element type of a copy that a window is looked for in: tiles of blocks are what few windows fit.
pub(super) fn written_as(dtype: DType) -> DType {
    if dtype.quant_texels().is_some() { DType::F32 } else { dtype }
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
