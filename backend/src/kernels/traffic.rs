//! What a dispatch asks of memory, operand by operand, as its shader's loops have it: see `gemm.comp` for products and
//! `grid.glsl` for everything else.

use super::addressing::constant;
use super::dispatch::{KEPT, LOCAL_SIZE, TILE_AXIS, TILE_ROWS, without_blocks};
use super::gemm::{GAIN, REDUCE, REDUCE_2, Schedule, Stage};
use super::{Access, Addressing, copy, elementwise, rope, rotate};
use crate::graph::{Form, Shape, elements, product, rows};
use crate::layout::{Loads, Spread};

/// What the names of shaders with an epilogue end in.
const FUSED: [&str; 2] = ["_fused", "_rotated"];

/// Instructions that stand for all of a subgroup's.
const SAMPLE: u32 = 32;

/// Loads of a quad of a block, about: its quants, which may lie across two texels, their upper bits, and the scale that it shares.
const BLOCK_LOADS: u32 = 3;

/// What all invocations of a dispatch ask of one operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How the shader touches it.
    pub access: Access,
    /// Where its elements are.
    pub addressing: Addressing,
    /// Bytes of the different texels that are touched, padding included; what is read and written counts once.
    pub bytes: u64,
    /// Texels that the invocations load and store, as the source of the shader asks for them.
    pub requests: u64,
    /// Lanes of a subgroup that load the same texel at a time.
    pub alike: u32,
    /// Bytes that the workgroups ask for, where the invocations of one share a load.
    pub shared_bytes: u64,
    /// Workgroups that run before one asks again for the bytes of this one; 0 where none does.
    pub reuse_after: u64,
    /// Bytes of the operand that they touch in between.
    pub reuse_bytes: u64,
    /// Axes whose indices change from one request of an invocation to the next.
    pub changing: [bool; 4],
    /// The first instructions of a subgroup.
    pub loads: Loads,
}

/// The traffic of a dispatch's operands, in their order; `accesses` are those of [`super::Dispatch::args`], and `subgroup`
/// is the number of lanes that load together.
pub fn traffic(
    shader: &str,
    constants: &[(u32, u32)],
    groups: [u32; 3],
    accesses: &[Access],
    subgroup: u32,
) -> Vec<Traffic> {
    // Whatever a kernel does with its result, it reads its operands alike.
    let shader = without_blocks(shader);
    let shader = FUSED.into_iter().find_map(|suffix| shader.strip_suffix(suffix)).unwrap_or(shader);
    let operands: Vec<(Access, Addressing)> =
        accesses.iter().zip(0..).filter_map(|(&access, p)| Some((access, Addressing::of(constants, p)?))).collect();
    let products = if shader.starts_with("gemm") { Product::all(shader, constants, groups, &operands) } else { None };
    match products {
        Some(products) => {
            // A twin's left factor, and what is multiplied on the right one, follow the first two.
            let shared = Shared::of(shader, constants);
            let (inputs, results) = operands.split_at(2 * products.len() + shared.operands());
            let (inputs, others) = inputs.split_at(2 * products.len());
            let of_product = |(product, ab): (&Product, &[(Access, Addressing)])| {
                let quads = product.quads(&ab[0].1);
                [product.a(&ab[0].1, quads, subgroup), product.b(&ab[1].1, quads, subgroup)]
            };
            let read = products.iter().zip(inputs.chunks_exact(2)).flat_map(of_product);
            let quads = products[0].quads(&inputs[0].1);
            let of_others = |(number, (_, at)): (usize, &(Access, Addressing))| {
                if number + 1 < shared.operands() {
                    return products[0].a(at, quads, subgroup);
                }
                products[0].gain(at, quads, shared.gain, subgroup)
            };
            let read = read.chain(others.iter().enumerate().map(of_others));
            let rotation = Rotated::of(constants, &results[0].1);
            let rest = results.iter().enumerate().map(|(i, (access, at))| match rotation {
                Some(rotation) if (1..=2).contains(&i) => rotation.operand(i - 1, at, subgroup),
                _ => products[0].result(*access, at, subgroup),
            });
            read.chain(rest).collect()
        }
        None => {
            let invocations = invocations(constants, groups);
            let grid = Grid { shader, constants, operands: &operands, invocations, subgroup };
            (0..operands.len()).map(|p| grid.operand(p)).collect()
        }
    }
}

/// Invocations of a dispatch.
pub fn invocations(constants: &[(u32, u32)], groups: [u32; 3]) -> u64 {
    product(groups.map(u64::from)).saturating_mul(constant(constants, LOCAL_SIZE).unwrap_or(1).into())
}

/// What products of the shaders `*_normed` and `*_twin` have beside two factors.
struct Shared {
    twin: bool,
    normed: bool,
    /// Whether the gain is read; something else stands where it would be otherwise.
    gain: bool,
}

impl Shared {
    fn of(shader: &str, constants: &[(u32, u32)]) -> Self {
        let twin = shader.ends_with("_twin");
        let gain = constant(constants, GAIN).is_some_and(|gain| gain != 0);
        Self { twin, normed: twin || shader.ends_with("_normed"), gain }
    }

    fn operands(&self) -> usize {
        usize::from(self.twin) + usize::from(self.normed)
    }
}

/// A matrix product as it is dispatched.
struct Product {
    groups: [u32; 3],
    schedule: Schedule,
    reduce: usize,
}

/// Which way a texel of an operand runs, see `direction.glsl`.
enum Way {
    AlongK,
    AlongOuter,
    Scattered,
}

impl Product {
    /// The products of a dispatch: as many as it reads pairs of operands before the first that it writes. The second one belongs
    /// to the workgroups of the first part of k, and has all of its own k there.
    fn all(
        shader: &str,
        constants: &[(u32, u32)],
        groups: [u32; 3],
        operands: &[(Access, Addressing)],
    ) -> Option<Vec<Self>> {
        let schedule = Schedule::of(shader, constants)?;
        let first = Self { groups, schedule, reduce: constant(constants, REDUCE)? as usize };
        let read = operands.iter().position(|(access, _)| *access != Access::Read)?;
        match read - Shared::of(shader, constants).operands() {
            2 => Some(vec![first]),
            4 => {
                let [x, y, z] = groups;
                let reduce = constant(constants, REDUCE_2)? as usize;
                let groups = [x, y, z / schedule.parts];
                Some(vec![first, Self { groups, schedule: Schedule { parts: 1, ..schedule }, reduce }])
            }
            _ => None,
        }
    }

    fn outer(&self) -> usize {
        1 - self.reduce
    }

    fn way(&self, operand: &Addressing) -> Way {
        match operand.lane_axis {
            _ if operand.dtype.quant_texels().is_some() && !self.rows_are_tiled(operand) => Way::Scattered,
            Some(axis) if axis == self.reduce => Way::AlongK,
            Some(axis) if axis == self.outer() => Way::AlongOuter,
            _ => Way::Scattered,
        }
    }

    /// Whether four neighbours along the axis that the lanes do not run along are one digit.
    fn rows_are_tiled(&self, operand: &Addressing) -> bool {
        operand.is_tiled(usize::from(operand.lane_axis == Some(0)), 4)
    }

    /// Invocations that sum over the same k, the whole of it: parts of one sum count as one.
    fn sums(&self) -> u64 {
        let lanes = [self.schedule.lanes_m, self.schedule.lanes_n].map(u64::from);
        product([product(self.groups.map(u64::from)), product(lanes)]) / u64::from(self.schedule.parts)
    }

    /// Quads of k that a sum goes through: whole texels of a, where they run along k.
    fn quads(&self, a: &Addressing) -> u32 {
        let step = match self.way(a) {
            Way::AlongK => match a.dtype.form() {
                Form::Texel => a.dtype.lanes() / 4,
                Form::Tile { quants } => a.dtype.lanes() / 4 / quants,
                Form::Block => 4,
            },
            Way::AlongOuter | Way::Scattered => 1,
        };
        a.extents[self.reduce].div_ceil(4).next_multiple_of(step)
    }

    /// Only k moves on in the loop, see `direction.glsl`.
    fn along_k(&self) -> [bool; 4] {
        std::array::from_fn(|axis| axis == self.reduce)
    }

    /// Quads of m: a fragment is 4 elements of the outer axis by 4 of k.
    fn a(&self, a: &Addressing, quads: u32, subgroup: u32) -> Traffic {
        let direct = self.direct_a(a, quads, subgroup);
        let Some(stage) = self.schedule.stage else { return direct };
        let per_fragment = match self.way(a) {
            Way::Scattered => 16 * loads_of_quad(a),
            _ if a.dtype.form() == Form::Block => 4 * BLOCK_LOADS,
            _ if stage.unit.is_some() => loads_of_octets(a),
            _ => 4 + u32::from(a.dtype.quant_texels().is_some()),
        };
        self.staged(direct, stage, self.schedule.extents()[0] / 4, per_fragment, subgroup)
    }

    /// The same operand by the tiles of workgroups: fragments of 4 by 4, each loaded once, quads of k side by side.
    fn staged(&self, direct: Traffic, stage: Stage, quads: u32, per_fragment: u32, subgroup: u32) -> Traffic {
        let at = &direct.addressing;
        let tiles = at.extents[self.reduce].div_ceil(4).div_ceil(stage.quads_k);
        let workgroups = product(self.groups.map(u64::from));
        let of_tile = product([quads, stage.quads_k, per_fragment].map(u64::from));
        let requests = product([workgroups / u64::from(self.schedule.parts), tiles.into(), of_tile]);
        let lanes = vec![spread(self.reduce, stage.quads_k, 4), spread(self.outer(), quads, 4)];
        let instructions = vec![spread(self.outer(), 4, 1), spread(self.reduce, tiles, 4 * stage.quads_k)];
        let loads = read(at, Loads { lanes, instructions, together: 4 }, subgroup).loads;
        Traffic { requests, alike: 1, shared_bytes: product([16, requests]), loads, ..direct }
    }

    fn direct_a(&self, a: &Addressing, quads: u32, subgroup: u32) -> Traffic {
        let (outer, lanes) = (self.outer(), a.dtype.lanes());
        let k = a.extents[self.reduce].div_ceil(self.schedule.parts);
        let scales = u32::from(a.dtype.quant_texels().is_some());
        // Loads of four rows of a quad of k, where a texel holds no more.
        let dots = self.schedule.dots;
        let per_quad = match a.dtype.form() {
            Form::Block => 4 * BLOCK_LOADS,
            // A step takes all texels of a block, and the scales once.
            Form::Tile { quants } if dots => 4 * quants + scales,
            _ => 4 + scales,
        };
        let mut touched = a.extents;
        let (instructions, per_sum) = match self.way(a) {
            Way::AlongK => {
                // Four rows are read wherever one of them is.
                if self.rows_are_tiled(a) {
                    touched[outer] = touched[outer].checked_next_multiple_of(4).unwrap_or(u32::MAX);
                }
                let texels = match a.dtype.form() {
                    Form::Tile { .. } if dots => quads / (lanes / 4),
                    Form::Texel => quads / (lanes / 4),
                    Form::Tile { quants } => quads / (lanes / 4 / quants),
                    Form::Block => quads,
                };
                (vec![spread(outer, 4, 1), spread(self.reduce, k.div_ceil(lanes), lanes)], [per_quad, texels])
            }
            Way::AlongOuter => (vec![spread(self.reduce, k, 1)], [per_quad, quads]),
            Way::Scattered => (vec![spread(outer, 4, 1), spread(self.reduce, k, 1)], [16 * loads_of_quad(a), quads]),
        };
        let step = if matches!(self.way(a), Way::AlongK) { lanes } else { 4 };
        let along = spread(self.reduce, self.schedule.lanes_k, step);
        let requests = product([self.sums(), self.schedule.tile_m.into(), product(per_sum.map(u64::from))]);
        // Workgroups with the same m follow each other.
        let [along_n, along_m, _] = self.groups.map(u64::from);
        let bytes = texel_bytes(a, touched);
        Traffic {
            bytes,
            requests,
            alike: (subgroup / self.schedule.lanes_m).clamp(1, self.schedule.lanes_n),
            shared_bytes: product([16, requests]) / u64::from(self.schedule.lanes_n),
            reuse_after: u64::from(along_n > 1),
            reuse_bytes: bytes / along_m.max(1),
            changing: self.along_k(),
            ..read(
                a,
                Loads { lanes: vec![spread(outer, self.schedule.lanes_m, 4), along], instructions, together: 4 },
                subgroup,
            )
        }
    }

    /// From the first n of an invocation to that of the next one.
    fn lane_step(&self) -> u32 {
        match self.schedule {
            Schedule { stage: Some(_), .. } => 4,
            Schedule { step_n: 1, tile_n, .. } => tile_n,
            _ => 1,
        }
    }

    fn b(&self, b: &Addressing, quads: u32, subgroup: u32) -> Traffic {
        let direct = self.direct_b(b, quads, subgroup);
        let Some(stage) = self.schedule.stage else { return direct };
        let per_fragment = if matches!(self.way(b), Way::Scattered) { 16 } else { 4 };
        self.staged(direct, stage, self.schedule.extents()[1] / 4, per_fragment, subgroup)
    }

    fn direct_b(&self, b: &Addressing, quads: u32, subgroup: u32) -> Traffic {
        let outer = self.outer();
        let k = b.extents[self.reduce].div_ceil(self.schedule.parts);
        // A texel for every n, or for every k of four n.
        let fragment = match (self.way(b), self.schedule.share) {
            (Way::AlongK, 1) => self.schedule.tile_n,
            _ => self.schedule.tile_n.next_multiple_of(4),
        };
        let own = fragment.div_ceil(self.schedule.share);
        let steps = spread(self.reduce, k.div_ceil(4), 4);
        let lanes = match self.schedule.share {
            1 => spread(outer, self.schedule.lanes_n, self.lane_step()),
            share => spread(outer, share, 1),
        };
        let (instructions, per_quad) = match self.way(b) {
            Way::AlongK => (vec![spread(outer, own, self.schedule.share.max(self.schedule.step_n)), steps], own),
            Way::AlongOuter => (vec![spread(self.reduce, 4, 1), spread(outer, fragment / 4, 4), steps], own),
            Way::Scattered => (vec![spread(outer, fragment, 1), spread(self.reduce, 4, 1), steps], 4 * own),
        };
        let requests = product([self.sums(), per_quad.into(), quads.into()]);
        let [along_n, along_m, _] = self.groups.map(u64::from);
        Traffic {
            requests,
            alike: if self.schedule.share > 1 { 1 } else { self.schedule.lanes_m.min(subgroup).max(1) },
            // Either every invocation along m asks for the same texel, or they have shared the loads already.
            shared_bytes: product([16, requests])
                / u64::from(if self.schedule.share > 1 { 1 } else { self.schedule.lanes_m }),
            reuse_after: if along_m > 1 { along_n } else { 0 },
            reuse_bytes: texel_bytes(b, b.extents),
            changing: self.along_k(),
            ..read(b, Loads { lanes: vec![lanes], instructions, together: per_quad }, subgroup)
        }
    }

    /// What is multiplied on b: a texel for every quad of k, for each value of n.
    fn gain(&self, at: &Addressing, quads: u32, is_read: bool, subgroup: u32) -> Traffic {
        let Schedule { lanes_m, lanes_n, lanes_k, tile_n, .. } = self.schedule;
        let requests = if is_read { product([self.sums(), tile_n.into(), quads.into()]) } else { 0 };
        let loads = Loads { lanes: vec![spread(0, lanes_k, 4)], instructions: vec![spread(0, quads, 4)], together: 1 };
        let read = read(at, loads, subgroup);
        Traffic {
            bytes: if is_read { read.bytes } else { 0 },
            requests,
            alike: (lanes_m * lanes_n).min(subgroup).max(1),
            shared_bytes: product([16, requests]) / u64::from(lanes_m * lanes_n),
            changing: [true, false, false, false],
            ..read
        }
    }

    /// The output, or an extra operand of an epilogue: a texel for each of the result, or four where no texel is along m.
    fn result(&self, access: Access, at: &Addressing, subgroup: u32) -> Traffic {
        let Schedule { lanes_m, lanes_n, tile_n, step_n, .. } = self.schedule;
        let lanes = vec![spread(0, lanes_m, 4), spread(1, lanes_n, self.lane_step())];
        let mut instructions = vec![spread(1, tile_n, step_n)];
        if !at.by_quads() {
            instructions.insert(0, spread(0, at.extents[0].min(4), 1));
        }
        let loads = Loads { lanes, instructions, together: tile_n };
        match access {
            Access::Read => Traffic { requests: load4(at, &at.extents), ..read(at, loads, subgroup) },
            Access::Write | Access::ReadWrite => write(at, loads, subgroup),
        }
    }
}

/// Loads of the two operands of a rotation, positions and factors, which follow the output.
#[derive(Clone, Copy)]
struct Rotated([u64; 2]);

impl Rotated {
    /// A position for every quad of the output, or for two that are rotated with each other; a factor for every pair of elements,
    /// if there are any.
    fn of(constants: &[(u32, u32)], output: &Addressing) -> Option<Self> {
        let get = |id| constant(constants, id).map(u64::from);
        let factors = get(rotate::HAS_FACTORS)?;
        let together = 1 + get(rotate::ROPE)?;
        let pairs = elements(&output.extents) / get(rotate::HEAD_DIM)? * (get(rotate::ROPE + 1)? / 2);
        Some(Self([quads(&output.extents) / together, factors * pairs]))
    }

    fn operand(self, number: usize, at: &Addressing, subgroup: u32) -> Traffic {
        let loads = Loads { lanes: vec![spread(0, at.extents[0], 1)], instructions: Vec::new(), together: 1 };
        let read = Traffic { requests: self.0[number], ..read(at, loads, subgroup) };
        // What stands where factors would is not read.
        if read.requests == 0 { Traffic { bytes: 0, shared_bytes: 0, ..read } } else { read }
    }
}

/// Every other kernel: invocations over the texels of a box, a tile's rows first.
struct Grid<'a> {
    shader: &'a str,
    constants: &'a [(u32, u32)],
    operands: &'a [(Access, Addressing)],
    invocations: u64,
    subgroup: u32,
}

impl Grid<'_> {
    fn operand(&self, p: usize) -> Traffic {
        let (access, ref at) = self.operands[p];
        if let Some((output, number @ 0..=1)) =
            self.written().and_then(|output| Some((output, p.checked_sub(output + 1)?)))
            && let Some(rotation) = Rotated::of(self.constants, &self.operands[output].1)
        {
            return rotation.operand(number, at, self.subgroup);
        }
        // A quad whose elements are in four texels is gathered; a quantized one needs its scales.
        let gathered = !at.by_quads();
        let per_quad = if gathered { 4 } else { loads_of_quad(at) };
        let loads = Loads { together: per_quad, ..self.order(at, gathered) };
        match access {
            Access::Write => write(at, loads, self.subgroup),
            Access::Read => {
                let touched = self.touched(p);
                let bytes = self.touched_bytes(p, touched);
                let sweeps = self.sweeps(p);
                let requests = product([self.loads(p, touched), loads_of_quad(at).into()]);
                // Kernels of rows stay in theirs.
                let along_row = self.passes(p) == 2 || (self.shader, p) == ("cross_entropy", 0);
                let changing = if along_row { [true, false, false, false] } else { [true; 4] };
                let shared_bytes = product([sweeps, bytes]);
                Traffic { bytes, requests, shared_bytes, changing, ..read(at, loads, self.subgroup) }
            }
            // In place: each quad is loaded and stored, and padding left alone.
            Access::ReadWrite => Traffic { access, requests: 2 * quads(&at.extents), ..read(at, loads, self.subgroup) },
        }
    }

    /// The order in which the invocations take an operand's elements.
    fn order(&self, at: &Addressing, gathered: bool) -> Loads {
        let get = |id| constant(self.constants, id).unwrap_or(1);
        let (axis, rows) = (get(TILE_AXIS) as usize % 4, get(TILE_ROWS));
        let mut order = Vec::new();
        if gathered {
            order.push(spread(0, at.extents[0].min(4), 1));
        }
        let columns = spread(0, at.extents[0].div_ceil(4), 4);
        let tile = spread(axis, rows.min(at.extents[axis]), 1);
        let above = (1..4).map(|a| match a == axis {
            true => spread(a, at.extents[a].div_ceil(rows), rows),
            false => spread(a, at.extents[a], 1),
        });
        order.extend([tile, columns].into_iter().chain(above));
        let gathers = usize::from(gathered);
        let (lanes, rest) = split(&order[gathers..], self.subgroup);
        let instructions = order[..gathers].iter().copied().chain(rest).collect();
        Loads { lanes, instructions, together: 1 }
    }

    /// Number of the operand that is written; what follows it are extra operands of an epilogue.
    fn written(&self) -> Option<usize> {
        self.operands.iter().position(|(access, _)| *access == Access::Write)
    }

    /// Extents of what is computed: of the operand that is written, of the logits where that is a row's sum or index.
    fn output(&self) -> Shape {
        match (self.shader, self.written()) {
            ("argmax" | "cross_entropy" | "sum_rows", _) | (_, None) => self.operands[0].1.extents,
            (_, Some(p)) => self.operands[p].1.extents,
        }
    }

    /// The box of operand `p` that is read: of a table as many rows as there are ids, of a mask as many as there are queries.
    fn touched(&self, p: usize) -> Shape {
        let mut touched = self.operands[p].1.extents;
        match (self.shader, p, self.operands.get(1)) {
            ("add_id", 1, _) => touched[1] = touched[1].min(rows(&self.output()).try_into().unwrap_or(u32::MAX)),
            ("get_rows", 0, Some((_, ids))) => touched[1] = touched[1].min(ids.extents[0]),
            ("softmax_masked" | "softmax_masked_sinks", 1, _) => touched[1] = touched[1].min(self.output()[1]),
            _ => {}
        }
        touched
    }

    /// Bytes of that box. Rows of a quantized table are no neighbours: each brings its own scales, while the table has so many.
    fn touched_bytes(&self, p: usize, touched: Shape) -> u64 {
        let at = &self.operands[p].1;
        let rows = if self.shader == "get_rows" && p == 0 { touched[1] } else { 1 };
        let of_row = texel_bytes(at, [touched[0], touched[1] / rows, touched[2], touched[3]]);
        let apart = product([rows.into(), of_row]);
        if rows == 1 { texel_bytes(at, touched) } else { apart.min(texel_bytes(at, at.extents)) }
    }

    /// Loads of operand `p`, scales of quantized types aside.
    fn loads(&self, p: usize, touched: Shape) -> u64 {
        let (at, output) = (&self.operands[p].1, self.output());
        let get = |id| constant(self.constants, id).unwrap_or(0);
        let load4 = |extents: &Shape| load4(at, extents);
        let rotated = || rows(&output) * u64::from(get(rope::N_DIMS).min(output[0]));
        match (self.shader, p) {
            ("binary", 1) if get(elementwise::WRAP) & 1 != 0 => 4 * quads(&output),
            ("copy", 0) if (get(copy::WRAP) & 1) | get(copy::RENUMBER) != 0 => elements(&output),
            ("pad", 0) => elements(&touched),
            // Quads of the sums are quads of what is summed, or they are added up element by element.
            ("repeat_back", 0) if output[0].is_multiple_of(4) || output[0] == touched[0] => load4(&touched),
            ("repeat_back", 0) => elements(&touched),
            // Every rotated element meets its partner.
            ("rope" | "rope_factors" | "rope_multi", 0) => load4(&output) + rotated(),
            ("rope_multi", 2) if get(rope::MULTI_FACTORS) == 0 => 0,
            ("rope_factors" | "rope_multi", 2) | ("rope_multi", 1) => rotated(),
            ("rope" | "rope_factors", 1) | ("get_rows", 1) => quads(&output),
            ("get_rows_back", 0) => load4(&touched),
            ("get_rows_back", 1) => product([quads(&output), quads(&touched)]),
            ("adamw", 4) | ("adamw_weights", 3) => 2 * quads(&output),
            ("sgd", 2) | ("add_id", 2) | ("adamw_moments", 3) => quads(&output),
            ("softmax_sinks", 1) | ("softmax_masked_sinks", 2) => rows(&output),
            // A row is read again where its labels are not zero: at one quad.
            ("cross_entropy", 0) => load4(&touched).saturating_add(rows(&touched)),
            // The scalar, by every invocation.
            ("cross_entropy_back", 0) => self.invocations,
            ("sum_rows", 0) => elements(&touched),
            _ => product([self.sweeps(p), load4(&output)]),
        }
    }

    /// How often operand `p` is loaded: once where an invocation keeps what it has of a row.
    fn sweeps(&self, p: usize) -> u64 {
        if constant(self.constants, KEPT).is_some_and(|kept| kept > 0) { 1 } else { self.passes(p) }
    }

    /// How often it is gone through: rows are reduced first and written then; all ids are searched by every workgroup.
    fn passes(&self, p: usize) -> u64 {
        match (self.shader, p) {
            _ if self.written().is_some_and(|written| p > written) => 1,
            ("layer_norm", _) => 3,
            ("rms_norm" | "rms_norm_back" | "l2_norm" | "softmax_back", _)
            | ("softmax" | "softmax_masked" | "softmax_sinks" | "softmax_masked_sinks", _)
            | ("get_rows_back" | "cross_entropy_back", 1) => 2,
            _ => 1,
        }
    }
}

/// Loads of a quad that lies along axis 0: its texel, and the scale it needs.
fn loads_of_quad(at: &Addressing) -> u32 {
    match at.dtype.form() {
        Form::Texel => 1,
        Form::Tile { .. } => 2,
        Form::Block => BLOCK_LOADS,
    }
}

/// Loads of two octets, each with the scale it needs.
fn loads_of_octets(at: &Addressing) -> u32 {
    let texels = if at.dtype.lanes() < 8 { 2 } else { 1 };
    2 * (texels + u32::from(at.dtype.quant_texels().is_some()))
}

/// Quads along axis 0 of a box.
fn quads(extents: &Shape) -> u64 {
    let &[n0, n1, n2, n3] = extents;
    elements(&[n0.div_ceil(4), n1, n2, n3])
}

/// Loads of the quads of a box: each in one, or its elements one by one.
fn load4(at: &Addressing, extents: &Shape) -> u64 {
    if at.by_quads() { quads(extents) } else { elements(extents) }
}

/// Bytes of the texels that hold the elements of a box.
fn texel_bytes(at: &Addressing, extents: Shape) -> u64 {
    product([16, at.texels(extents)])
}

fn spread(axis: usize, count: u32, step: u32) -> Spread {
    Spread { axis, count, step }
}

/// A read of an operand by these loads, cut to a subgroup and to the sample; requests are for the caller to count.
fn read(at: &Addressing, loads: Loads, subgroup: u32) -> Traffic {
    let lanes = split(&loads.lanes, subgroup).0;
    let instructions = split(&loads.instructions, SAMPLE).0;
    let bytes = texel_bytes(at, at.extents);
    Traffic {
        access: Access::Read,
        addressing: at.clone(),
        bytes,
        requests: 0,
        alike: 1,
        shared_bytes: bytes,
        reuse_after: 0,
        reuse_bytes: 0,
        changing: [true; 4],
        loads: Loads { lanes, instructions, together: loads.together },
    }
}

/// Every texel of the padded box of an operand, stored once.
fn write(at: &Addressing, loads: Loads, subgroup: u32) -> Traffic {
    let requests = at.texels(at.padded);
    let bytes = 16 * requests;
    Traffic { access: Access::Write, bytes, requests, shared_bytes: bytes, ..read(at, loads, subgroup) }
}

/// The innermost part of the spreads of at most `count` numbers, and the rest.
fn split(spreads: &[Spread], count: u32) -> (Vec<Spread>, Vec<Spread>) {
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    let mut room = count.max(1);
    for &s in spreads {
        let taken = s.count.min(room);
        room /= taken.max(1);
        inner.push(Spread { count: taken, ..s });
        outer.push(Spread { count: s.count.div_ceil(taken.max(1)), step: s.step * taken, ..s });
        if taken < s.count {
            room = 1;
        }
    }
    (inner, outer)
}
