//! The operand contract: how a view becomes the specialization constants that `shaders/glsl/operand.glsl` reads.

use super::{Arg, Operand, Refusal, StorageKind};
use crate::graph::{DType, Desc, Form, Shape, TILE_SLOTS};
use crate::layout::{Layout, Place, Term, View, ViewAxis};

/// First constant id of operand 0, and ids per operand.
pub(super) const FIRST_ID: u32 = 64;
pub(super) const IDS_PER_OPERAND: u32 = 48;

/// Fields of an operand, see the table in the architecture page.
pub(super) const STORAGE: u32 = 0;
pub(super) const DTYPE: u32 = 1;
pub(super) const PITCH: u32 = 2;
pub(super) const LANE_AXIS: u32 = 3;
pub(super) const EXTENTS: u32 = 4;
pub(super) const PADDED: u32 = 8;
pub(super) const ORIGIN: u32 = 12;
pub(super) const AXES: u32 = 14;
pub(super) const FIELDS_PER_AXIS: u32 = 8;
const ORIGIN_LANE: u32 = 46;
/// Bytes of a block; a shader has it for those operands alone that it decodes from blocks as the host has them.
pub(super) const BLOCK_BYTES: u32 = 47;

/// Values of the lane axis field when no axis carries a lane digit: every element has one lane, or its number tells.
const NO_LANE_AXIS: u32 = 4;
pub(super) const FLAT: u32 = 5;

/// Digits of an axis that a kernel takes.
const MAX_DIGITS: usize = 3;

/// A digit of an axis in texels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    radix: u32,
    x: u32,
    y: u32,
}

impl Operand {
    /// A temporary tensor.
    pub(super) fn scratch(dtype: DType, layout: &Layout) -> Self {
        Self { dtype, view: layout.view(), flat: false, storage: StorageKind::Buffer, pitch: layout.width() }
    }

    /// The four extents; missing axes have one element.
    pub(super) fn shape(&self) -> Shape {
        std::array::from_fn(|axis| self.view.axes.get(axis).map_or(1, |a| a.extent))
    }

    /// The four padded extents.
    pub(super) fn padded(&self) -> Shape {
        std::array::from_fn(|axis| self.view.axes.get(axis).map_or(1, |a| a.padded))
    }

    /// Dtype and shape, as the op table's rules want them.
    pub(super) fn desc(&self, arg: Arg) -> Result<Desc, Refusal> {
        match self.view.axes.len() {
            0..=4 => Ok(Desc { dtype: self.dtype, shape: self.shape() }),
            rank => Err(Refusal(format!("{arg}: a view of {rank} axes, a kernel takes 4"))),
        }
    }

    /// The axes along which this operand repeats to the shape of `whole`, as bits.
    pub(super) fn repeats_to(&self, whole: &Self) -> u32 {
        let pairs = self.shape().into_iter().zip(whole.shape());
        pairs.enumerate().map(|(axis, (own, whole))| u32::from(own != whole) << axis).sum()
    }

    /// That a kernel can step from texel to texel along its axes.
    pub(super) fn check_steps(&self, arg: Arg) -> Result<(), Refusal> {
        let rule = "its elements are found one by one, by number, and this kernel steps from texel to texel";
        if self.flat { Err(Refusal(format!("{arg}: {rule}"))) } else { Ok(()) }
    }

    /// That a kernel can write whole texels along axis 0, padding included, each once.
    pub(super) fn check_writable(&self, arg: Arg) -> Result<(), Refusal> {
        let refuse = |rule: String| Err(Refusal(format!("{arg}: {rule}")));
        let lanes = self.dtype.lanes();
        if self.dtype.is_quantized() {
            return refuse(format!("no kernel writes {:?}", self.dtype));
        }
        if lane_axis(&self.view.normalize(), lanes, arg)? != Some(0) || !self.padded()[0].is_multiple_of(lanes) {
            return refuse(format!("axis 0 must carry the {lanes} lanes of a texel whole, for it is written"));
        }
        let broadcast = |axis: &ViewAxis| axis.terms.iter().any(|t| t.radix > 1 && t.at.is_none());
        match self.view.axes.iter().position(broadcast) {
            Some(axis) => refuse(format!("axis {axis} is a broadcast, which cannot be written")),
            None => Ok(()),
        }
    }
}

/// See [`super::flat`].
pub(super) fn flat(whole: &Operand, extents: &Shape, strides: &[u64; 4], offset: u64) -> Result<Operand, Refusal> {
    let dtype = whole.dtype;
    if dtype.is_quantized() {
        return Err(Refusal(format!("{dtype:?} has no elements that are found one by one")));
    }
    if whole.flat || !whole.view.is_linear(dtype.lanes(), whole.pitch) {
        return Err(Refusal("its elements do not lie in their order".into()));
    }
    let count: u64 = whole.shape().into_iter().map(u64::from).product();
    let count = u32::try_from(count).map_err(|_| Refusal(format!("{count} elements, which 32 bits do not number")))?;
    let view = Layout::linear(&[count]).and_then(|all| all.view().strided(extents, strides, offset));
    Ok(Operand { view: view.map_err(|illegal| Refusal(illegal.to_string()))?, flat: true, ..*whole })
}

impl Operand {
    /// That blocks can be written by whole texels: rows, or rows of tiles, that share no texel with their neighbours and lie in it block
    /// after block.
    pub(super) fn check_rows_of_blocks(&self, arg: Arg) -> Result<(), Refusal> {
        let view = self.view.normalize();
        // Slots from one block of a row to the next, and slots that fill whole texels.
        let (step, whole) = match self.dtype.form() {
            Form::Texel => return Err(Refusal(format!("{arg}: {:?} has no blocks", self.dtype))),
            Form::Tile { .. } => (TILE_SLOTS, TILE_SLOTS),
            Form::Block => (1, 16 >> self.dtype.block_bytes().trailing_zeros().min(4)),
        };
        let mut aligned = view.origin.x.is_multiple_of(whole)
            && lane_axis(&view, self.dtype.lanes(), arg)? == Some(0)
            && (step == 1 || view.axes.get(1).is_some_and(|rows| rows.padded.is_multiple_of(step)));
        for (axis, terms) in view.axes.iter().map(|axis| &axis.terms).enumerate() {
            let mut terms = terms.iter().filter(|term| term.radix > 1 && !matches!(term.at, Some((Place::Lane, _))));
            let mut inner = true;
            aligned &= terms.all(|term| {
                let first = std::mem::take(&mut inner);
                match (axis, term.at) {
                    (0, at) => first && at == Some((Place::X, step)),
                    (1, at) if first && step > 1 => term.radix == step && at == Some((Place::X, 1)),
                    (_, Some((Place::X, stride))) => stride.is_multiple_of(whole),
                    (_, at) => at.is_some(),
                }
            });
        }
        if aligned { Ok(()) } else { Err(Refusal(format!("{arg}: its rows of {:?} blocks share texels", self.dtype))) }
    }
}

/// The constants (id, bits) of operand `slot`, ids ascending. `arg` is what errors call it.
pub(super) fn constants(slot: u32, arg: Arg, operand: &Operand) -> Result<Vec<(u32, u32)>, Refusal> {
    let Operand { dtype, storage, pitch, .. } = *operand;
    let view = &operand.view.normalize();
    let lane_axis = lane_axis(view, dtype.lanes(), arg)?;
    let [x, y] = [origin_x(view.origin.x, dtype), view.origin.y];
    let mut fields = vec![
        (
            STORAGE,
            match storage {
                StorageKind::Buffer => 0,
                StorageKind::Image => 1,
            },
        ),
        (DTYPE, dtype.code()),
        (PITCH, pitch),
        (LANE_AXIS, if operand.flat { FLAT } else { lane_axis.map_or(NO_LANE_AXIS, |axis| axis as u32) }),
    ];
    fields.extend((EXTENTS..).zip(operand.shape()));
    fields.extend((PADDED..).zip(operand.padded()));
    fields.extend([(ORIGIN, x), (ORIGIN + 1, y)]);
    let mut reach = view.origin.x % TILE_SLOTS;
    for axis in 0..4 {
        let steps =
            steps(view, axis, dtype, &mut reach).map_err(|rule| Refusal(format!("{arg}: axis {axis} {rule}")))?;
        let values = axis_fields(&steps)
            .ok_or_else(|| Refusal(format!("{arg}: axis {axis} needs {} digits, a kernel takes 3", steps.len())))?;
        let first = AXES + FIELDS_PER_AXIS * axis as u32;
        fields.extend(values.into_iter().zip(first..).map(|(value, field)| (field, value)));
    }
    fields.extend([(ORIGIN_LANE, view.origin.lane), (BLOCK_BYTES, dtype.block_bytes())]);
    let base = FIRST_ID + IDS_PER_OPERAND * slot;
    Ok(fields.into_iter().map(|(field, value)| (base + field, value)).collect())
}

fn lane_axis(view: &View, lanes: u32, arg: Arg) -> Result<Option<usize>, Refusal> {
    view.lane_axis(lanes).map_err(|e| Refusal(format!("{arg}: {e}")))
}

/// Column of texels of a column of slots.
fn origin_x(slot: u32, dtype: DType) -> u32 {
    dtype.quant_texels().map_or(slot, |q| slot / TILE_SLOTS * (TILE_SLOTS * q + 1) + slot % TILE_SLOTS * q)
}

/// Digits of an axis in texels, in blocks along x where the storage holds blocks, innermost first, without the lane and without digits
/// of radix 1. `reach` runs over the axes, see [`quant_steps`].
fn steps(view: &View, axis: usize, dtype: DType, reach: &mut u32) -> Result<Vec<Step>, String> {
    let Some(axis) = view.axes.get(axis) else { return Ok(Vec::new()) };
    let is_step = |term: &&Term| term.radix > 1 && !matches!(term.at, Some((Place::Lane, _)));
    let terms: Vec<Term> = axis.terms.iter().filter(is_step).copied().collect();
    let mut steps = Vec::new();
    for (i, term) in terms.iter().enumerate() {
        match (term.at, dtype.quant_texels()) {
            (None, _) => steps.push(Step { radix: term.radix, x: 0, y: 0 }),
            (Some((Place::Y, y)), _) => steps.push(Step { radix: term.radix, x: 0, y }),
            (Some((_, x)), None) => steps.push(Step { radix: term.radix, x, y: 0 }),
            (Some((_, slots)), Some(q)) => {
                steps.extend(quant_steps(*term, slots, q, i + 1 == terms.len(), reach)?);
            }
        }
    }
    Ok(steps)
}

/// A digit over columns of slots of a quantized type, cut where a tile ends: within a tile a slot is `q` texels, from tile to
/// tile there is the texel of scales as well. `reach` is the last slot of a tile that origin and digits come to together.
fn quant_steps(term: Term, stride: u32, q: u32, outermost: bool, reach: &mut u32) -> Result<Vec<Step>, String> {
    let (radix, tile) = (term.radix, TILE_SLOTS * q + 1);
    if stride.is_multiple_of(TILE_SLOTS) {
        return Ok(vec![Step { radix, x: stride / TILE_SLOTS * tile, y: 0 }]);
    }
    let fits = if TILE_SLOTS.is_multiple_of(stride) { TILE_SLOTS / stride } else { radix };
    let inner = radix.min(fits);
    *reach = (inner - 1).saturating_mul(stride).saturating_add(*reach);
    if *reach >= TILE_SLOTS {
        return Err(format!("moves by {stride} slots, which crosses the end of a quantized tile"));
    }
    let mut steps = vec![Step { radix: inner, x: stride * q, y: 0 }];
    if radix > inner {
        if !radix.is_multiple_of(inner) && !outermost {
            return Err(format!("has {radix} slots in a row, which is no whole number of quantized tiles"));
        }
        steps.push(Step { radix: radix.div_ceil(inner), x: tile, y: 0 });
    }
    Ok(steps)
}

/// `r0, r1, x0, y0, x1, y1, x2, y2`: the outermost digit is always number 2, which needs no radix. `None` when there are too
/// many digits.
fn axis_fields(steps: &[Step]) -> Option<[u32; FIELDS_PER_AXIS as usize]> {
    const UNUSED: Step = Step { radix: 1, x: 0, y: 0 };
    let (outer, inner) = match steps.split_last() {
        Some((outer, inner)) => (*outer, inner),
        None => (UNUSED, steps),
    };
    if inner.len() >= MAX_DIGITS {
        return None;
    }
    let step = |i: usize| inner.get(i).copied().unwrap_or(UNUSED);
    let (s0, s1) = (step(0), step(1));
    Some([s0.radix, s1.radix, s0.x, s0.y, s1.x, s1.y, outer.x, outer.y])
}
