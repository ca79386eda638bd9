//! An operand as a shader sees it, read back from its specialization constants: the very numbers that the device gets.

use super::StorageKind;
use super::operand::{
    AXES, DTYPE, EXTENTS, FIELDS_PER_AXIS, FIRST_ID, FLAT, IDS_PER_OPERAND, LANE_AXIS, ORIGIN, PADDED, PITCH, STORAGE,
};
use crate::graph::{DType, Form, Shape, TILE_SLOTS};
use crate::layout::{Expr, LineShape, Ops};

/// Where the elements of an operand are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Addressing {
    /// Element type.
    pub dtype: DType,
    /// Kind of storage.
    pub storage: StorageKind,
    /// Texels per row of a buffer.
    pub pitch: u32,
    /// Axis along which the elements of a texel follow each other.
    pub lane_axis: Option<usize>,
    /// Columns of origin and digits are numbers of elements, see [`super::Operand::flat`].
    pub flat: bool,
    /// Extents, elements.
    pub extents: Shape,
    /// Extents with the padding that a writer covers.
    pub padded: Shape,
    origin: [u32; 2],
    /// `r0, r1, x0, y0, x1, y1, x2, y2` of every axis.
    axes: [[u32; FIELDS_PER_AXIS as usize]; 4],
}

impl Addressing {
    /// Operand `slot` of a dispatch with these constants, sorted by id; `None` when it has no such operand.
    pub fn of(constants: &[(u32, u32)], slot: u32) -> Option<Self> {
        let field = |field: u32| constant(constants, FIRST_ID + IDS_PER_OPERAND * slot + field);
        let axis = |a: u32| -> Option<[u32; 8]> {
            let mut fields = [0; 8];
            for (value, number) in fields.iter_mut().zip(AXES + FIELDS_PER_AXIS * a..) {
                *value = field(number)?;
            }
            Some(fields)
        };
        Some(Self {
            dtype: DType::of_code(field(DTYPE)?)?,
            storage: if field(STORAGE)? == 0 { StorageKind::Buffer } else { StorageKind::Image },
            pitch: field(PITCH)?,
            lane_axis: Some(field(LANE_AXIS)? as usize).filter(|&axis| axis < 4),
            flat: field(LANE_AXIS)? == FLAT,
            extents: [field(EXTENTS)?, field(EXTENTS + 1)?, field(EXTENTS + 2)?, field(EXTENTS + 3)?],
            padded: [field(PADDED)?, field(PADDED + 1)?, field(PADDED + 2)?, field(PADDED + 3)?],
            origin: [field(ORIGIN)?, field(ORIGIN + 1)?],
            axes: [axis(0)?, axis(1)?, axis(2)?, axis(3)?],
        })
    }

    /// Texel of element (0, 0, 0, 0): its column and row; of a type in blocks the column counts those, of a flat view elements.
    pub fn origin(&self) -> [u32; 2] {
        self.origin
    }

    /// The digits of an axis, innermost first: numbers of values, and the columns and rows that the texel moves by with each. Those of
    /// one value are left out. On the lane axis they count slots.
    pub fn digits(&self, axis: usize) -> Vec<(u32, [u32; 2])> {
        let steps = match self.lane_axis == Some(axis) {
            true => self.extents[axis].div_ceil(self.dtype.lanes()),
            false => self.extents[axis],
        };
        let [r0, r1, x0, y0, x1, y1, x2, y2] = self.axes[axis];
        let digits = [(r0, [x0, y0]), (r1, [x1, y1]), (steps.div_ceil(r0 * r1), [x2, y2])];
        digits.into_iter().filter(|&(radix, _)| radix > 1).collect()
    }

    /// Whether the quads of axis 0 are quads of texels.
    pub fn by_quads(&self) -> bool {
        let [[r0, r1, _, _, _, _, step, _], above @ ..] = self.axes;
        let columns = || above.into_iter().flat_map(|[_, _, x0, _, x1, _, x2, _]| [x0, x1, x2]);
        let aligned = || columns().chain([self.origin[0]]).all(|x| x.is_multiple_of(4));
        self.lane_axis == Some(0) || (self.flat && r0 * r1 == 1 && step == 1 && aligned())
    }

    /// First texel of the slot that holds an element: its column and row. The first byte of a block is in it.
    pub fn texel(&self, index: [u32; 4]) -> [u32; 2] {
        self.found(self.moved(index))
    }

    /// Where the digits lead.
    fn moved(&self, index: [u32; 4]) -> [u32; 2] {
        let [mut x, mut y] = self.origin;
        for (axis, (i, fields)) in index.into_iter().zip(self.axes).enumerate() {
            let i = if self.lane_axis == Some(axis) { i / self.dtype.lanes() } else { i };
            let [r0, r1, x0, y0, x1, y1, x2, y2] = fields;
            let (d0, d1, d2) = (i % r0, i / r0 % r1, i / (r0 * r1));
            x += x0 * d0 + x1 * d1 + x2 * d2;
            y += y0 * d0 + y1 * d1 + y2 * d2;
        }
        [x, y]
    }

    /// Column of texels of what the digits along x count: texels, or blocks.
    fn column(&self, x: u32) -> u32 {
        match self.dtype.form() {
            Form::Texel | Form::Tile { .. } => x,
            Form::Block => (u64::from(x) * u64::from(self.dtype.block_bytes()) / 16) as u32,
        }
    }

    /// The texel where digits lead: that of a number of an element, where they count those.
    fn found(&self, [x, y]: [u32; 2]) -> [u32; 2] {
        let texel = x / self.dtype.lanes();
        if self.flat { [texel % self.pitch, texel / self.pitch] } else { [self.column(x), y] }
    }

    /// Whether the way to a texel is the sum of the ways along the axes: neither numbers of elements nor of blocks divide so.
    fn adds_up(&self) -> bool {
        !self.flat && self.dtype.form() != Form::Block
    }

    /// The same in its storage's own geometry: a buffer is one row.
    pub fn place(&self, index: [u32; 4]) -> [u32; 2] {
        self.placed(self.texel(index))
    }

    fn placed(&self, [x, y]: [u32; 2]) -> [u32; 2] {
        match self.storage {
            StorageKind::Buffer => [y.saturating_mul(self.pitch).saturating_add(x), 0],
            StorageKind::Image => [x, y],
        }
    }

    /// Other places for the indices below `reach`, of which the same share a texel, the same share a line, and all lie in the same
    /// order along both axes of the storage. What none of this depends on is left out, so that operands that lie alike there are equal.
    pub fn within(&self, reach: Shape, line: LineShape) -> Self {
        let mut cut = self.clone();
        // Where an element is does not follow from the lengths of its ways alone, if they are no whole texels.
        if !self.adds_up() {
            cut.extents = std::array::from_fn(|axis| self.extents[axis].min(reach[axis]));
            return Self { padded: if self.flat { [0; 4] } else { cut.padded }, ..cut };
        }
        // Ways along x and y: axis and field of a stride, its length, and how often it is taken.
        let (mut along_x, mut along_y) = (Vec::new(), Vec::new());
        for (axis, reach) in reach.into_iter().enumerate() {
            cut.extents[axis] = self.extents[axis].min(reach);
            let steps = if self.lane_axis == Some(axis) { self.dtype.lanes() } else { 1 };
            let last = cut.extents[axis].saturating_sub(1) / steps;
            let [r0, r1, strides @ ..] = self.axes[axis];
            let digits = [last.min(r0 - 1), (last / r0).min(r1 - 1), last / (r0 * r1)];
            cut.axes[axis] = [0; 8];
            cut.axes[axis][0] = if digits[1..] == [0, 0] { digits[0] + 1 } else { r0 };
            cut.axes[axis][1] = if digits[2] == 0 { digits[1] + 1 } else { r1 };
            for digit in (0..3).filter(|&digit| digits[digit] > 0) {
                let [x, y] = [strides[2 * digit], strides[2 * digit + 1]].map(u64::from);
                let [x, y] = match self.storage {
                    StorageKind::Buffer => [y * u64::from(self.pitch) + x, 0],
                    StorageKind::Image => [x, y],
                };
                along_x.push(Way { axis, field: 2 + 2 * digit, stride: x, times: digits[digit] });
                along_y.push(Way { axis, field: 3 + 2 * digit, stride: y, times: digits[digit] });
            }
        }
        for (ways, width) in [(along_x, line.width), (along_y, line.height)] {
            for Way { axis, field, stride, .. } in shortened(ways, width.into()) {
                cut.axes[axis][field] = stride as u32;
            }
        }
        let [x, y] = self.place([0; 4]);
        Self { pitch: 0, padded: [0; 4], origin: [x % line.width, y % line.height], ..cut }
    }

    /// The places of all indices, counted once: for many questions about a small box.
    pub fn places(&self) -> Places {
        let at = |index| if self.adds_up() { self.place(index) } else { self.moved(index) };
        let [x, y] = at([0; 4]);
        let axis = |axis: usize| {
            let lanes = if self.lane_axis == Some(axis) { self.dtype.lanes() } else { 1 };
            let moves = (0..self.extents[axis].div_ceil(lanes)).map(|slot| {
                let mut index = [0; 4];
                index[axis] = slot * lanes;
                let [to_x, to_y] = at(index);
                [to_x - x, to_y - y]
            });
            (self.extents[axis], lanes, moves.collect())
        };
        Places { origin: [x, y], axes: std::array::from_fn(axis), numbers: (!self.adds_up()).then(|| self.clone()) }
    }

    /// What a shader computes from one texel to the next, while the indices of these axes change: the place of the rest is known.
    pub fn address_ops(&self, changing: [bool; 4]) -> Ops {
        let along = |at: usize| {
            let digits = (0..4).filter(|&axis| changing[axis]).flat_map(|axis| {
                let [r0, r1, x0, y0, x1, y1, x2, y2] = self.axes[axis].map(u64::from);
                let i = Expr::index(axis, self.steps(axis, self.extents[axis]));
                let digits = [i.modulo(r0), i.div(r0).modulo(r1), i.div(r0 * r1)];
                digits.into_iter().zip([[x0, y0], [x1, y1], [x2, y2]])
            });
            let fixed = Expr::constant(u64::from(changing.contains(&false)).max(self.origin[at].into()));
            digits.fold(fixed, |sum, (digit, by)| sum.add(&digit.mul(by[at])))
        };
        let (x, y) = (along(0), along(1));
        let (lanes, pitch) = (self.dtype.lanes().into(), self.pitch.into());
        let texel = x.div(lanes);
        match self.storage {
            StorageKind::Buffer if self.flat => Ops::of(&[texel.reduced(), x.modulo(lanes).reduced()]),
            StorageKind::Image if self.flat => {
                Ops::of(&[texel.modulo(pitch).reduced(), texel.div(pitch).reduced(), x.modulo(lanes).reduced()])
            }
            StorageKind::Buffer => Ops::of(&[y.mul(self.pitch.into()).add(&x).reduced()]),
            StorageKind::Image => Ops::of(&[x.reduced(), y.reduced()]),
        }
    }

    /// Steps of an axis over so many elements; slots where the lanes are.
    fn steps(&self, axis: usize, extent: u32) -> u32 {
        match self.lane_axis == Some(axis) {
            true => extent.div_ceil(self.dtype.lanes()),
            false => extent,
        }
    }

    /// Different texels that hold the elements of a box of these extents, each counted once however often it is repeated. Of a quantized
    /// type they are the quants of every slot and the scales of every tile that has one of the slots; of blocks, what their bytes fill.
    /// Elements or quads that are found by number count a texel each, while the texels from the first to the last are not fewer.
    pub fn texels(&self, extents: Shape) -> u64 {
        let (mut slots, mut tiles) = (1, 1);
        let tile_width = TILE_SLOTS * self.dtype.quant_texels().unwrap_or(1);
        for (axis, extent) in extents.into_iter().enumerate() {
            let steps = match axis == 0 && self.flat && self.by_quads() {
                true => extent.div_ceil(4),
                false => self.steps(axis, extent),
            };
            let [r0, r1, x0, y0, x1, y1, x2, y2] = self.axes[axis];
            let digits = [(r0, x0, y0), (r1, x1, y1), (1, x2, y2)];
            slots *= u64::from(different(steps, &digits.map(|(r, x, y)| (r, x > 0 || y > 0))));
            tiles *= u64::from(different(steps, &digits.map(|(r, x, y)| (r, x > tile_width || y > 0))));
        }
        match self.dtype.form() {
            _ if self.flat => {
                let lanes = u64::from(self.dtype.lanes());
                let [first, last] =
                    [[0; 4], extents.map(|n| n.saturating_sub(1))].map(|index| u64::from(self.moved(index)[0]) / lanes);
                slots.min(last.saturating_sub(first) + 1)
            }
            Form::Texel => slots,
            Form::Tile { quants } => slots * u64::from(quants) + tiles,
            Form::Block => (slots * u64::from(self.dtype.block_bytes())).div_ceil(16),
        }
    }

    /// Whether `rows` neighbours along an axis stay within its innermost digit; of a quantized type, whether they are the rows of a tile.
    pub fn is_tiled(&self, axis: usize, rows: u32) -> bool {
        let [r0, _, x0, ..] = self.axes[axis];
        match self.dtype.quant_texels() {
            None => r0.is_multiple_of(rows),
            Some(q) => r0 == rows && x0 == q && self.origin[0].is_multiple_of(TILE_SLOTS * q + 1),
        }
    }
}

/// A stride of a digit in one coordinate.
struct Way {
    axis: usize,
    field: usize,
    stride: u64,
    /// Greatest value of the digit.
    times: u32,
}

/// Strides that lead beyond all that the shorter ones reach, and beyond its last line, cut by whole lines to the least that still does.
fn shortened(mut ways: Vec<Way>, line: u64) -> Vec<Way> {
    ways.sort_by_key(|way| way.stride);
    let mut reached = 0;
    for way in &mut ways {
        let clear = reached + line;
        if way.stride > clear {
            way.stride = clear + (way.stride - clear) % line;
        }
        reached += way.stride * u64::from(way.times);
    }
    ways
}

/// Places of a box of indices.
pub struct Places {
    origin: [u32; 2],
    /// Extent of every axis, elements of a slot along it, and the way from the first slot to each.
    axes: [(u32, u32, Vec<[u32; 2]>); 4],
    /// The operand, where the ways count elements or blocks.
    numbers: Option<Addressing>,
}

impl Places {
    /// As [`Addressing::place`]; nothing outside the extents.
    pub fn of(&self, index: [u32; 4]) -> Option<[u32; 2]> {
        let mut at = self.origin;
        for (i, (extent, lanes, moves)) in index.into_iter().zip(&self.axes) {
            if i >= *extent {
                return None;
            }
            if *extent > 1 {
                let [x, y] = moves[(if *lanes == 1 { i } else { i / lanes }) as usize];
                at = [at[0] + x, at[1] + y];
            }
        }
        Some(self.numbers.as_ref().map_or(at, |operand| operand.placed(operand.found(at))))
    }
}

/// Different values that the digits which move have for the indices below `steps`; digits are (radix, moves), innermost first, and the
/// radix of the last one does not matter.
fn different(steps: u32, digits: &[(u32, bool)]) -> u32 {
    let Some((&(_, moves), inner)) = digits.split_last() else { return steps.min(1) };
    let turn: u32 = inner.iter().map(|(radix, _)| radix).product();
    let (turns, rest) = (steps / turn, different(steps % turn, inner));
    match (turns, moves) {
        (0, _) => rest,
        (_, true) => turns * different(turn, inner) + rest,
        (_, false) => different(turn, inner),
    }
}

/// The constant of that id; `constants` are sorted by id.
pub(super) fn constant(constants: &[(u32, u32)], id: u32) -> Option<u32> {
    constants.binary_search_by_key(&id, |&(id, _)| id).ok().map(|at| constants[at].1)
}
