//! What a dispatch asks of memory, operand by operand, as its shader's loops have it: see `gemm.comp` for products and
//! `grid.glsl` for everything else.

use super::addressing::constant;
use super::dispatch::{LOCAL_SIZE, TILE_AXIS, TILE_ROWS};
use super::gemm::{REDUCE, REDUCE_2, Schedule};
use super::rotate::{HAS_FACTORS, ROPE};
use super::{Access, Addressing};
use crate::graph::elements;
use crate::layout::{Loads, Spread};

/// Instructions that stand for all of a subgroup's.
const SAMPLE: u32 = 32;

/// What all invocations of a dispatch ask of one operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How the shader touches it.
    pub access: Access,
    /// Where its elements are.
    pub addressing: Addressing,
    /// Different bytes of it that are touched.
    pub bytes: u64,
    /// Texels that the invocations load or store.
    pub requests: u64,
    /// Lanes of a subgroup that load the same texel at a time.
    pub alike: u32,
    /// Bytes that the workgroups ask for, where the invocations of one share a load.
    pub shared_bytes: u64,
    /// Workgroups that run before one asks again for the bytes of this one; 0 where none does.
    pub reuse_after: u64,
    /// Bytes of the operand that they touch in between.
    pub reuse_bytes: u64,
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
    let operands: Vec<(Access, Addressing)> =
        accesses.iter().zip(0..).filter_map(|(&access, p)| Some((access, Addressing::of(constants, p)?))).collect();
    let rotation = Rotated::of(constants);
    let products = if shader.starts_with("gemm") { Product::all(constants, groups, &operands) } else { None };
    match products {
        Some(products) => {
            let (inputs, written) = operands.split_at(2 * products.len());
            let of_product = |(product, ab): (&Product, &[(Access, Addressing)])| {
                [product.a(&ab[0].1, subgroup), product.b(&ab[1].1, subgroup)]
            };
            let read = products.iter().zip(inputs.chunks_exact(2)).flat_map(of_product);
            let rest = written.iter().enumerate().map(|(i, (access, at))| match rotation {
                Some(rotation) if i == 1 || i == 2 => {
                    let quads = products[0].result(Access::Read, &written[0].1, subgroup).requests;
                    rotation.operand(i - 1, quads, at, subgroup)
                }
                _ => products[0].result(*access, at, subgroup),
            });
            read.chain(rest).collect()
        }
        None => {
            let grid = Grid { shader, constants, operands: &operands, rotation, subgroup };
            (0..operands.len()).map(|p| grid.operand(p)).collect()
        }
    }
}

/// Invocations of a dispatch.
pub fn invocations(constants: &[(u32, u32)], groups: [u32; 3]) -> u64 {
    groups.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(constant(constants, LOCAL_SIZE).unwrap_or(1))
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
    fn all(constants: &[(u32, u32)], groups: [u32; 3], operands: &[(Access, Addressing)]) -> Option<Vec<Self>> {
        let schedule = Schedule::of(constants)?;
        let first = Self { groups, schedule, reduce: constant(constants, REDUCE)? as usize };
        let read = operands.iter().position(|(access, _)| *access != Access::Read)?;
        match read {
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

    fn way(&self, operand: &Addressing) -> Way {
        match operand.lane_axis {
            Some(axis) if axis == self.reduce => Way::AlongK,
            Some(axis) if axis == 1 - self.reduce => Way::AlongOuter,
            _ => Way::Scattered,
        }
    }

    fn invocations(&self) -> u64 {
        self.workgroups() * u64::from(self.schedule.lanes_m) * u64::from(self.schedule.lanes_n)
    }

    fn workgroups(&self) -> u64 {
        self.groups.iter().map(|&n| u64::from(n)).product()
    }

    /// Elements of k that an invocation sums.
    fn k(&self, operand: &Addressing) -> u32 {
        operand.extents[self.reduce].div_ceil(self.schedule.parts)
    }

    /// Quads of m: a fragment is 4 elements of the outer axis by 4 of k.
    fn a(&self, a: &Addressing, subgroup: u32) -> Traffic {
        let (k, outer, lanes) = (self.k(a), 1 - self.reduce, a.dtype.lanes());
        let quants = a.dtype.quant_texels();
        let (instructions, per_quad) = match self.way(a) {
            Way::AlongK => {
                let texels = 4 * quants.unwrap_or(1) + u32::from(quants.is_some());
                (vec![spread(outer, 4, 1), spread(self.reduce, k.div_ceil(lanes), lanes)], texels * k.div_ceil(lanes))
            }
            Way::AlongOuter => {
                let scales = if quants.is_some() { k.div_ceil(4) } else { 0 };
                (vec![spread(self.reduce, k, 1)], k + scales)
            }
            Way::Scattered => (vec![spread(outer, 4, 1), spread(self.reduce, k, 1)], 4 * k),
        };
        let requests = self.invocations() * u64::from(self.schedule.tile_m) * u64::from(per_quad);
        // Workgroups with the same m follow each other.
        let [along_n, along_m, _] = self.groups.map(u64::from);
        Traffic {
            requests,
            alike: (subgroup / self.schedule.lanes_m).clamp(1, self.schedule.lanes_n),
            shared_bytes: 16 * requests / u64::from(self.schedule.lanes_n),
            reuse_after: u64::from(along_n > 1),
            reuse_bytes: a.bytes() / along_m.max(1),
            ..read(
                a,
                Loads { lanes: vec![spread(outer, self.schedule.lanes_m, 4)], instructions, together: 4 },
                subgroup,
            )
        }
    }

    fn b(&self, b: &Addressing, subgroup: u32) -> Traffic {
        let (k, outer) = (self.k(b), 1 - self.reduce);
        let fragment = self.schedule.tile_n.div_ceil(4) * 4;
        let own = fragment.div_ceil(self.schedule.share);
        let steps = spread(self.reduce, k.div_ceil(4), 4);
        let lanes = match self.schedule.share {
            1 => spread(outer, self.schedule.lanes_n, self.schedule.tile_n),
            share => spread(outer, share, 1),
        };
        let (instructions, per_step) = match self.way(b) {
            Way::AlongK => (vec![spread(outer, own, self.schedule.share), steps], own),
            Way::AlongOuter => (vec![spread(self.reduce, 4, 1), spread(outer, fragment / 4, 4), steps], own),
            Way::Scattered => (vec![spread(outer, fragment, 1), spread(self.reduce, 4, 1), steps], 4 * own),
        };
        let requests = self.invocations() * u64::from(per_step) * u64::from(k.div_ceil(4));
        let [along_n, along_m, _] = self.groups.map(u64::from);
        Traffic {
            requests,
            alike: if self.schedule.share > 1 { 1 } else { self.schedule.lanes_m.min(subgroup).max(1) },
            // Either every invocation along m asks for the same texel, or they have shared the loads already.
            shared_bytes: 16 * requests / u64::from(if self.schedule.share > 1 { 1 } else { self.schedule.lanes_m }),
            reuse_after: if along_m > 1 { along_n } else { 0 },
            reuse_bytes: b.bytes(),
            ..read(b, Loads { lanes: vec![lanes], instructions, together: per_step }, subgroup)
        }
    }

    /// The output, or an extra operand: a texel for each of the result, or four where no texel is along m.
    fn result(&self, access: Access, at: &Addressing, subgroup: u32) -> Traffic {
        let gathered = if at.lane_axis == Some(0) { 1 } else { 4 };
        let requests = self.invocations() * u64::from(self.schedule.tile_m * self.schedule.tile_n) * gathered;
        let lanes = vec![spread(0, self.schedule.lanes_m, 4), spread(1, self.schedule.lanes_n, self.schedule.tile_n)];
        let mut instructions = vec![spread(1, self.schedule.tile_n, 1)];
        if gathered > 1 {
            instructions.insert(0, spread(0, at.extents[0].min(4), 1));
        }
        let loads = Loads { lanes, instructions, together: self.schedule.tile_n };
        Traffic { access, requests, shared_bytes: at.bytes(), ..read(at, loads, subgroup) }
    }
}

/// The rotation of a result, whose two operands follow the output.
#[derive(Clone, Copy)]
struct Rotated {
    halves: bool,
    factors: bool,
}

impl Rotated {
    fn of(constants: &[(u32, u32)]) -> Option<Self> {
        let factors = constant(constants, HAS_FACTORS)? != 0;
        Some(Self { halves: constant(constants, ROPE)? != 0, factors })
    }

    /// Positions (operand 0), or what stands where factors would: of so many quads of the result, two by two with halves, one position
    /// each and a factor for every pair.
    fn operand(self, number: usize, quads: u64, at: &Addressing, subgroup: u32) -> Traffic {
        let (turns, pairs) = if self.halves { (quads / 2, 4) } else { (quads, 2) };
        let requests = match (number, self.factors) {
            (0, _) => turns,
            (_, true) => turns * pairs,
            (_, false) => 0,
        };
        let alike = spread(0, at.extents[0], 1);
        let none = Traffic {
            requests,
            ..read(at, Loads { lanes: vec![alike], instructions: Vec::new(), together: 1 }, subgroup)
        };
        match requests {
            0 => Traffic { bytes: 0, ..none },
            _ => Traffic { shared_bytes: at.bytes(), ..none },
        }
    }
}

/// Every other kernel: invocations over the texels of a box, a tile's rows first.
struct Grid<'a> {
    shader: &'a str,
    constants: &'a [(u32, u32)],
    operands: &'a [(Access, Addressing)],
    rotation: Option<Rotated>,
    subgroup: u32,
}

impl Grid<'_> {
    fn operand(&self, p: usize) -> Traffic {
        let (access, ref whole) = self.operands[p];
        let behind = self.written().and_then(|output| p.checked_sub(output + 1));
        if let (Some(rotation), Some(number @ (0 | 1)), Some(output)) = (self.rotation, behind, self.written()) {
            return rotation.operand(number, quads(&self.operands[output].1), whole, self.subgroup);
        }
        let at = self.touched(p, whole);
        let most = self.operands.iter().filter(|(access, _)| *access != Access::Read).map(|(_, a)| quads(a)).max();
        let most = most.unwrap_or(0).max(quads(&at));
        // A quad whose elements are in four texels is gathered; a quantized one needs its scales.
        let gathered = at.lane_axis != Some(0);
        let per_quad = if gathered { 4 } else { 1 + u64::from(at.dtype.quant_texels().is_some()) };
        let passes = if access == Access::Read { self.passes(p, quads(&at)) } else { 1 };
        let requests = most * per_quad * passes;

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
        Traffic {
            access,
            requests,
            shared_bytes: passes.min(2) * at.bytes(),
            ..read(&at, Loads { lanes, instructions, together: per_quad as u32 }, self.subgroup)
        }
    }

    /// The first operand that is only written: the output.
    fn written(&self) -> Option<usize> {
        self.operands.iter().position(|(access, _)| *access == Access::Write)
    }

    /// The part of operand `p` that is touched: of a table, as many rows as there are ids.
    fn touched(&self, p: usize, whole: &Addressing) -> Addressing {
        let mut at = whole.clone();
        if let ("get_rows", 0, Some((_, ids))) = (self.shader, p, self.operands.get(1)) {
            at.extents[1] = at.extents[1].min(ids.extents[0]);
        }
        at
    }

    /// How often operand `p` is read: rows are reduced first and written then; the ids are searched for every texel.
    fn passes(&self, p: usize, quads: u64) -> u64 {
        if self.written().is_some_and(|output| p > output) {
            // An extra operand of an epilogue.
            return 1;
        }
        let fused = ["_fused", "_rotated"].into_iter().find_map(|suffix| self.shader.strip_suffix(suffix));
        match (fused.unwrap_or(self.shader), p) {
            ("get_rows_back", 1) => quads,
            ("rms_norm" | "rms_norm_back" | "softmax" | "softmax_masked" | "softmax_back", _)
            | ("cross_entropy", 0)
            | ("cross_entropy_back", 1) => 2,
            _ => 1,
        }
    }
}

fn quads(a: &Addressing) -> u64 {
    elements(&a.extents).div_ceil(4)
}

fn spread(axis: usize, count: u32, step: u32) -> Spread {
    Spread { axis, count, step }
}

/// A read of an operand by these loads, cut to a subgroup and to the sample; requests are for the caller to count.
fn read(at: &Addressing, loads: Loads, subgroup: u32) -> Traffic {
    let lanes = split(&loads.lanes, subgroup).0;
    let instructions = split(&loads.instructions, SAMPLE).0;
    Traffic {
        access: Access::Read,
        addressing: at.clone(),
        bytes: at.bytes(),
        requests: 0,
        alike: 1,
        shared_bytes: 0,
        reuse_after: 0,
        reuse_bytes: 0,
        loads: Loads { lanes, instructions, together: loads.together },
    }
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
