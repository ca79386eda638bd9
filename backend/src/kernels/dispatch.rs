//! Puts a dispatch together: operands, constants, and how invocations cover a box (see `shaders/glsl/grid.glsl`).

use super::operand::{BLOCK_BYTES, FIRST_ID, IDS_PER_OPERAND, constants};
use super::{Access, Arg, Dispatch, Operand, Refusal};
use crate::device::Limits;
use crate::graph::{DType, Form, Shape};
use crate::layout::Place;

/// Constant ids of the workgroup and the schedule.
pub(super) const LOCAL_SIZE: u32 = 0;
pub(super) const TILE_AXIS: u32 = 3;
pub(super) const TILE_ROWS: u32 = 4;
pub(super) const BOX: u32 = 5;
/// Quads of its row that an invocation keeps from one sweep to the next.
pub(super) const KEPT: u32 = 9;

/// As many as it has registers for, see `rows.glsl`.
const MOST_KEPT: u32 = 4;

/// How the names of shaders end that decode blocks as the host has them. Decoding every type takes longer to compile than most of
/// what is done with the result, so that it is in modules of its own.
const BLOCKS: &str = "_blocks";

/// Operands a shader can have.
const MAX_OPERANDS: usize = 8;

/// Invocations of a workgroup where they do not meet.
const TEXEL_GROUP: u32 = 64;

/// The same where a GPU has more texels to go over than it has room for: starting a workgroup costs about as much as a texel.
const LARGE_TEXEL_GROUP: u32 = 256;

/// Invocations of a workgroup that shares rows.
const ROW_GROUP: u32 = 256;

/// The same where a GPU has room for more and the rows are long.
const LONG_ROW_GROUP: u32 = 1024;

/// Least quads that an invocation of such a workgroup takes of its row.
const LONG_ROW_QUADS: u32 = 2;

/// Invocations that a large GPU keeps in flight, about: 132 processors with 2048 each are 270 thousand. A dispatch of fewer waits for
/// memory instead of using it, and gains from splitting its work further.
pub(super) const GPU_ROOM: u64 = 1 << 18;

/// Subgroups no larger than this are a processor's vector registers: more invocations than fit one would only take turns.
pub(super) const PROCESSOR_SUBGROUP: u32 = 8;

/// Whether a device is a processor, whose subgroups are the vectors of a core.
pub(crate) fn is_processor(limits: &Limits) -> bool {
    (1..=PROCESSOR_SUBGROUP).contains(&limits.subgroup_size)
}

/// Operands that a dispatch can have on a device.
pub fn most_operands(limits: &Limits) -> usize {
    MAX_OPERANDS.min(limits.max_storage_bindings as usize)
}

/// The shader that does the same with other weights.
pub(super) fn without_blocks(shader: &str) -> &str {
    shader.strip_suffix(BLOCKS).unwrap_or(shader)
}

/// A dispatch in the making.
pub(super) struct Builder<'a> {
    shader: &'static str,
    limits: &'a Limits,
    constants: Vec<(u32, u32)>,
    args: Vec<(Arg, Access)>,
    /// Padded box that the grid covers in any case.
    covered: Shape,
}

/// Neighbouring rows whose texels are neighbours in the storage: they make one tile of the grid.
struct Tile {
    axis: usize,
    rows: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(shader: &'static str, limits: &'a Limits) -> Self {
        Self {
            shader,
            limits,
            constants: Vec::with_capacity(4 * IDS_PER_OPERAND as usize),
            args: Vec::new(),
            covered: [1; 4],
        }
    }

    /// Binds the next operand slot.
    pub(super) fn operand(mut self, arg: Arg, operand: &Operand, access: Access) -> Result<Self, Refusal> {
        let slot = self.args.len();
        let most = most_operands(self.limits);
        if slot >= most {
            return Err(Refusal(format!("{arg}: shader {} binds more than {most} operands", self.shader)));
        }
        match access {
            Access::Read => self.shader = reader(self.shader, slot as u32, arg, operand.dtype)?,
            Access::Write | Access::ReadWrite => operand.check_writable(arg)?,
        }
        self.constants.extend(constants(slot as u32, arg, operand)?);
        self.args.push((arg, access));
        Ok(self)
    }

    /// Binds the next operand slot to a buffer whose words the shader replaces one by one.
    pub(super) fn updated(mut self, arg: Arg, buffer: &Operand) -> Result<Self, Refusal> {
        self.constants.extend(constants(self.args.len() as u32, arg, buffer)?);
        self.args.push((arg, Access::ReadWrite));
        Ok(self)
    }

    /// Binds the next operand slot to blocks that are written in whole rows, or whole rows of tiles.
    pub(super) fn written_blocks(mut self, arg: Arg, operand: &Operand) -> Result<Self, Refusal> {
        operand.check_rows_of_blocks(arg)?;
        self.constants.extend(constants(self.args.len() as u32, arg, operand)?);
        self.args.push((arg, Access::Write));
        Ok(self)
    }

    /// Lets the grid cover the padded box of a further operand that is written.
    pub(super) fn covering(mut self, operand: &Operand) -> Self {
        self.covered = self.box_over(operand);
        self
    }

    /// The padded box of an operand and of all that is to be covered, elements.
    pub(super) fn box_over(&self, operand: &Operand) -> Shape {
        let padded = operand.padded();
        std::array::from_fn(|axis| padded[axis].max(self.covered[axis]))
    }

    /// The same with axis 0 in texels.
    fn texel_box(&self, operand: &Operand) -> Shape {
        let [p0, p1, p2, p3] = self.box_over(operand);
        [p0.div_ceil(operand.dtype.lanes()), p1, p2, p3]
    }

    /// Sets a constant.
    pub(super) fn set(mut self, id: u32, value: u32) -> Self {
        self.constants.push((id, value));
        self
    }

    /// Sets a float constant.
    pub(super) fn set_f32(self, id: u32, value: f32) -> Self {
        self.set(id, value.to_bits())
    }

    /// One invocation per texel of the padded box of `over`.
    pub(super) fn texels(self, over: &Operand) -> Result<Dispatch, Refusal> {
        let extents = self.texel_box(over);
        let tile = tile(over, extents);
        let texels: u64 = extents.iter().map(|&n| u64::from(n)).product();
        let size = self.texel_group(texels);
        let groups = texels.div_ceil(size.into());
        self.grid(&tile, extents).finish(size, groups)
    }

    /// `lanes` neighbouring invocations, a power of two, per texel of the padded box of `over`.
    pub(super) fn shared_texels(self, over: &Operand, lanes: u32) -> Result<Dispatch, Refusal> {
        let size = TEXEL_GROUP.max(lanes).min(self.limits.largest_group());
        let extents = self.texel_box(over);
        let tile = tile(over, extents);
        let texels: u64 = extents.iter().map(|&n| u64::from(n)).product();
        let groups = texels.div_ceil(u64::from(size / lanes));
        self.grid(&tile, extents).finish(size, groups)
    }

    /// One invocation per position of a box, axis 0 in whatever the shader counts.
    pub(super) fn positions(self, extents: Shape) -> Result<Dispatch, Refusal> {
        let positions: u64 = extents.iter().map(|&n| u64::from(n)).product();
        let size = self.texel_group(positions);
        self.grid(&Tile { axis: 1, rows: 1 }, extents).finish(size, positions.div_ceil(size.into()))
    }

    /// One workgroup per tile of rows of the padded box of `over`; `elements` is the length of a row.
    pub(super) fn rows(self, over: &Operand, elements: u32) -> Result<Dispatch, Refusal> {
        let extents = self.texel_box(over);
        let tile = tile(over, extents);
        let rows: u64 = extents[1..].iter().map(|&n| u64::from(n)).product();
        let groups = rows / u64::from(tile.rows);
        let size = self.row_group(tile.rows, elements, groups);
        let own = extents[0].div_ceil(size / tile.rows);
        self.keeping(own).grid(&tile, extents).finish(size, groups)
    }

    /// Says how many quads of a row an invocation keeps from one sweep to the next, where the shader asks: all of its own, if they are few. A
    /// rotation loads the other half of a pair, which may be another invocation's.
    fn keeping(self, own: u32) -> Self {
        let asks = fblayout_shaders::get(self.shader).is_some_and(|found| found.constants.contains(&KEPT));
        let keeps = own <= MOST_KEPT && !self.shader.ends_with("_rotated");
        if asks { self.set(KEPT, if keeps { own } else { 0 }) } else { self }
    }

    /// One workgroup per texel of the rank-1 `output`, whose elements are each the result of a row.
    pub(super) fn rows_of_texel(self, output: &Operand, elements: u32) -> Result<Dispatch, Refusal> {
        let tile = Tile { axis: 1, rows: output.dtype.lanes() };
        let extents = self.texel_box(output);
        let groups = u64::from(extents[0]);
        let size = self.row_group(tile.rows, elements, groups);
        self.grid(&tile, extents).finish(size, groups)
    }

    /// This many workgroups for the padded box of `over`, each for `entries` elements in shared memory, which meet two by two.
    pub(super) fn shared(self, over: &Operand, groups: u64, entries: u32) -> Result<Dispatch, Refusal> {
        let size = self.row_group(1, entries.saturating_mul(2), groups);
        let extents = self.texel_box(over);
        self.grid(&Tile { axis: 1, rows: 1 }, extents).finish(size, groups)
    }

    /// One workgroup for all of the padded box of `output`, and for `rows` values that it sums.
    pub(super) fn single(self, output: &Operand, rows: u32) -> Result<Dispatch, Refusal> {
        let size = self.row_group(1, rows.saturating_mul(4), 1);
        let extents = self.texel_box(output);
        self.grid(&Tile { axis: 1, rows: 1 }, extents).finish(size, 1)
    }

    /// One workgroup of `size` invocations per position of a box, axis 0 in whatever the shader counts.
    pub(super) fn blocks(self, size: u32, extents: Shape) -> Result<Dispatch, Refusal> {
        let most = self.limits.largest_group();
        if size > most {
            let rule = format!("a workgroup of {size} invocations, the device has at most {most}");
            return Err(Refusal(format!("shader {}: {rule}", self.shader)));
        }
        let groups: u64 = extents.iter().map(|&n| u64::from(n)).product();
        self.grid(&Tile { axis: 1, rows: 1 }, extents).finish(size, groups)
    }

    /// The given workgroups of `size` invocations.
    pub(super) fn workgroups(mut self, size: u32, groups: [u32; 3]) -> Result<Dispatch, Refusal> {
        self.constants.push((LOCAL_SIZE, size));
        if groups.iter().zip(self.limits.max_workgroup_count).any(|(&wanted, most)| wanted > most) {
            let [x, y, z] = groups;
            let rule = format!("shader {}: {x} x {y} x {z} workgroups are", self.shader);
            return Err(Refusal::of_size(rule));
        }
        Ok(self.made(groups))
    }

    /// Invocations of a workgroup that goes over so many texels with others, one each.
    fn texel_group(&self, texels: u64) -> u32 {
        let large = self.limits.subgroup_size > PROCESSOR_SUBGROUP && texels >= GPU_ROOM;
        if large { LARGE_TEXEL_GROUP } else { TEXEL_GROUP }.min(self.limits.largest_group())
    }

    /// Invocations of a workgroup of `rows` rows, one of `groups`: a power of two for each row, no more than it has quads.
    fn row_group(&self, rows: u32, elements: u32, groups: u64) -> u32 {
        let wanted = match self.limits.subgroup_size {
            n @ 1..=PROCESSOR_SUBGROUP => n,
            _ => gpu_row_group(u64::from(rows) * u64::from(elements.div_ceil(4)), groups),
        };
        let most = (wanted.min(self.limits.largest_group()) / rows).max(1);
        let columns = elements.div_ceil(4).max(1);
        // The greatest power of two up to `most`, the least that has a column for every quad.
        rows * (1 << most.ilog2()).min(columns.checked_next_power_of_two().unwrap_or(u32::MAX))
    }

    fn grid(self, tile: &Tile, extents: [u32; 4]) -> Self {
        let this = self.set(TILE_AXIS, tile.axis as u32).set(TILE_ROWS, tile.rows);
        (BOX..).zip(extents).fold(this, |this, (id, extent)| this.set(id, extent))
    }

    fn finish(self, size: u32, groups: u64) -> Result<Dispatch, Refusal> {
        let this = self.set(LOCAL_SIZE, size);
        let too_many = || Refusal::of_size(format!("shader {}: {groups} workgroups are", this.shader));
        let groups = split(groups, this.limits.max_workgroup_count).ok_or_else(too_many)?;
        // Invocations are numbered in 32 bits.
        let invocations = groups.iter().fold(u64::from(size), |n, &g| n.saturating_mul(u64::from(g)));
        if invocations > u64::from(u32::MAX) {
            return Err(too_many());
        }
        Ok(this.made(groups))
    }

    fn made(self, groups: [u32; 3]) -> Dispatch {
        let Self { shader, constants, args, .. } = self;
        Dispatch { shader, constants: constants.into(), groups, args, rows: Vec::new(), beside: false }
    }
}

/// Invocations that a GPU shares the quads of a workgroup's rows among. Few workgroups of long rows, as of a norm over the tokens of a
/// batch, are as large as leaves every invocation a few quads: each pass over a row is a chain of loads that wait for each other.
fn gpu_row_group(quads: u64, groups: u64) -> u32 {
    let mut size = ROW_GROUP;
    while size < LONG_ROW_GROUP && groups * u64::from(size) < GPU_ROOM && quads >= u64::from(2 * size * LONG_ROW_QUADS)
    {
        size *= 2;
    }
    size
}

/// The shader, or its variant, that reads this type in this slot.
fn reader(shader: &'static str, slot: u32, arg: Arg, dtype: DType) -> Result<&'static str, Refusal> {
    let constant = FIRST_ID + IDS_PER_OPERAND * slot + BLOCK_BYTES;
    let decodes = |name: &str| fblayout_shaders::get(name).filter(|found| found.constants.contains(&constant));
    if dtype.form() != Form::Block || decodes(shader).is_some() {
        return Ok(shader);
    }
    let variant = decodes(&format!("{shader}{BLOCKS}"));
    variant.map(|found| found.name).ok_or_else(|| Refusal(format!("{arg}: shader {shader} does not decode {dtype:?}")))
}

/// The axis of which 4 or 2 neighbours lie side by side in the storage of `operand`; they divide the box of these extents.
fn tile(operand: &Operand, extents: Shape) -> Tile {
    for (axis, view) in operand.view.axes.iter().enumerate().skip(1) {
        let first = view.terms.iter().find(|term| term.radix > 1);
        let Some(term) = first.filter(|term| term.at == Some((Place::X, 1))) else { continue };
        for rows in [4, 2] {
            if term.radix.is_multiple_of(rows) && extents[axis].is_multiple_of(rows) {
                return Tile { axis, rows };
            }
        }
    }
    Tile { axis: 1, rows: 1 }
}

/// At least `groups` workgroups over three dimensions, few of them surplus; `None` when they do not fit.
fn split(groups: u64, most: [u32; 3]) -> Option<[u32; 3]> {
    let [most_x, most_y, most_z] = most.map(|n| u64::from(n.max(1)));
    let z = groups.div_ceil(most_x * most_y).max(1);
    let y = groups.div_ceil(z * most_x).max(1);
    let x = groups.div_ceil(z * y).max(1);
    (z <= most_z).then_some([x as u32, y as u32, z as u32])
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn workgroups_spread_over_three_dimensions() {
        assert_eq!(split(1, [65535; 3]), Some([1, 1, 1]));
        assert_eq!(split(65535, [65535; 3]), Some([65535, 1, 1]));
        assert_eq!(split(65536, [65535; 3]), Some([32768, 2, 1]));
        assert_eq!(split(0, [65535; 3]), Some([1, 1, 1]));
        assert_eq!(split(9, [2, 2, 2]), None);
        for groups in 1..200_u64 {
            let most = [3, 5, 14];
            let [x, y, z] = split(groups, most).unwrap();
            let made = u64::from(x) * u64::from(y) * u64::from(z);
            assert!(made >= groups && x <= most[0] && y <= most[1] && z <= most[2], "{groups}: {x} {y} {z}");
        }
    }
}
