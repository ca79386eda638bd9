//! MUL_MAT and OUT_PROD: a matrix product, or the sum of two, shaders `gemm`, `gemm_subgroup`, `gemm_pair` and
//! `gemm_subgroup_pair`.
//!
//! `dst[m, n] = sum over k of a[.] b[.]`: MUL_MAT sums over view axis 0 of both operands, OUT_PROD over view axis 1. That flag
//! and the axis that carries an operand's lanes say how it is read: lanes along k or lanes along m (n), both as fragments of
//! 4 by 4 elements, four texels each. A view whose lanes are on a batch axis is gathered element by element: right, but slow.
//! An output whose lanes run along n is written by the product of the operands exchanged.
//!
//! # Schedule
//!
//! An invocation holds `4 tile_m` by `tile_n` sums in registers; a workgroup spreads `lanes_m` by `lanes_n` of them.
//!
//! * **Processors** (subgroups of vector registers, up to 8 wide): the subgroup lies along m, so that all of it wants the same
//!   values of b, and with `gemm_subgroup` each invocation fetches one texel of b and hands it around. With few m the rest of
//!   the subgroup goes along n.
//! * **GPUs**: workgroups of 32 or 64, up to 16 along m and the rest along n; the caches do the sharing.
//! * **Along n**: where the texels of b run along k, neighbouring invocations take neighbouring n: in an R-Tile these are
//!   neighbouring texels, for loads and for stores.
//! * **Parts of k**: a long k is cut so that the slab of a that one part reads by columns stays in a cache, and on a GPU so that
//!   a small product fills the device. Parts are summed by a second dispatch, in a fixed order.
//!
//! Measured on a 2-core lavapipe (Mesa 25), GFLOP/s with all operands in buffers / in images:
//!
//! | product | m x n x k | F32 | Q8_0 | Q4_1 |
//! |---|---|---|---|---|
//! | projection | 576 x 96 x 576 | 39 / 61 | 54 / 65 | 61 / 67 |
//! | its input gradient | 576 x 96 x 1536 | 39 / 56 | 43 / 51 | 42 / 54 |
//! | head | 49152 x 40 x 576 | 27 / 61 | 52 / 61 | 60 / 65 |
//! | its input gradient | 576 x 40 x 49152 | 40 / 60 | 49 / 47 | 50 / 55 |
//! | attention scores, 9 heads | 96 x 96 x 64 | 30 / 38 | | |
//! | LoRA down | 8 x 96 x 576 | 14 / 26 | | |
//! | LoRA up | 576 x 96 x 8 | 13 / 11 | | |
//!
//! There, every fetch from a buffer is compiled to a loop over the subgroup: a specialization takes 160 to 260 ms to compile with
//! buffers, 45 to 110 ms with images, and fetches are the first thing to save. The head's gradient in one part runs at half
//! the speed.

use super::addressing::constant;
use super::dispatch::{Builder, PROCESSOR_SUBGROUP};
use super::epilogue::Tail;
use super::{Access, Arg, Call, Dispatch, Lowered, Operand, Refusal, Scratch, SecondProduct, StorageKind, copy};
use crate::device::Limits;
use crate::graph::{DType, Desc, Op};
use crate::layout::Layout;

const TILE_M: u32 = 3;
const TILE_N: u32 = 4;
const LANES_M: u32 = 5;
const LANES_N: u32 = 6;
const PARTS: u32 = 7;
const SHARE: u32 = 8;
const MATRICES: u32 = 9;
const STEP_N: u32 = 10;
pub(super) const REDUCE: u32 = 16;
pub(super) const REDUCE_2: u32 = 17;
const SCALE_2: u32 = 18;

/// Elements of k in a part: at 576 columns, a slab of Q8_0 or Q4_1 weights is 1.5 to 2.7 MB.
const PART_K: u32 = 4096;

/// Fewest elements of k that pay for a part on a GPU.
const LEAST_PART_K: u32 = 128;

/// Invocations that fill a GPU.
const GPU_INVOCATIONS: u32 = 1 << 15;

/// Invocations from which a GPU is better off with fewer of them that hold more.
const GPU_INVOCATIONS_PER_TILE: u64 = 1 << 14;

/// Most parts, and most bytes of all their sums.
const MOST_PARTS: u32 = 64;
const MOST_PART_BYTES: u64 = 16 << 20;

/// Multiplications from which the compile time of a larger tile pays on a processor.
const LARGE: u64 = 1 << 24;

pub(super) fn product(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let product = Product::new(op, call.inputs, 0, call.output)?;
    match turned(&product, call.output).filter(|_| call.tail.is_none()) {
        Some(output) => lower(Call { output: &output, ..call }, product.exchanged(), None),
        None => lower(call, product, None),
    }
}

/// The axis of both operands that a product sums over; nothing for other ops.
pub(super) fn reduced_axis(op: &Op) -> Option<usize> {
    match op {
        Op::MulMat => Some(0),
        Op::OutProd => Some(1),
        _ => None,
    }
}

/// Whether either operand can be the first: B is F32, A of any type of weights.
pub(super) fn is_symmetric(inputs: &[Desc]) -> bool {
    inputs.iter().all(|input| input.dtype == DType::F32)
}

/// The output with its axes exchanged, where its lanes run along n and both operands are of the type that B has.
fn turned(Product { a, b, .. }: &Product, output: &Operand) -> Option<Operand> {
    let along_n = matches!(output.view.lane_axis(output.dtype.lanes()), Ok(Some(1)));
    if !along_n || a.1.dtype != b.1.dtype {
        return None;
    }
    let view = output.view.permute(&[1, 0, 2, 3]).ok()?;
    Some(Operand { view, ..output.clone() })
}

/// The product of the call's operands, and the second one of `inputs` in the same dispatch.
pub(super) fn pair(call: Call<'_>, op: &Op, second: SecondProduct, inputs: &[Operand]) -> Result<Lowered, Refusal> {
    let first = Product::new(op, call.inputs, 0, call.output)?;
    let other = Product::new(&second.op, inputs, call.inputs.len(), call.output)?;
    lower(call, first, Some((other, second.scale)))
}

/// One matrix product: the side along m, the side along n, and the view axis summed over.
struct Product {
    a: (Arg, Operand),
    b: (Arg, Operand),
    reduce: u32,
}

impl Product {
    /// The product of these operands, the first of which has that number.
    fn new(op: &Op, inputs: &[Operand], number: usize, output: &Operand) -> Result<Self, Refusal> {
        let reduce = reduced_axis(op).ok_or_else(|| Refusal(format!("{}: is not a matrix product", op.row().name)))?;
        let [a, b] = inputs else {
            return Err(Refusal(format!("a product takes 2 operands, not {}", inputs.len())));
        };
        let arg = Arg::Input(number);
        a.check_steps(arg)?;
        b.check_steps(Arg::Input(number + 1))?;
        Ok(Self {
            a: (arg, shared_over_heads(a, arg, output)?),
            b: (Arg::Input(number + 1), b.clone()),
            reduce: reduce as u32,
        })
    }

    /// Whether the texels of the side along n run along the axis summed over.
    fn runs_along_k(&self) -> bool {
        let (_, b) = &self.b;
        matches!(b.view.lane_axis(b.dtype.lanes()), Ok(Some(axis)) if axis == self.reduce as usize)
    }

    fn exchanged(self) -> Self {
        Self { a: self.b, b: self.a, ..self }
    }

    fn bind<'b>(&self, builder: Builder<'b>) -> Result<Builder<'b>, Refusal> {
        let Self { a, b, .. } = self;
        builder.operand(a.0, &a.1, Access::Read)?.operand(b.0, &b.1, Access::Read)
    }
}

/// Extents of a product: m padded to whole texels, n padded as the output is.
#[derive(Clone, Copy, Debug)]
struct Size {
    quads_m: u32,
    n: u32,
    k: u32,
    /// Matrices along axes 2 and 3.
    batches: [u32; 2],
}

/// How a product is spread over invocations; all of it becomes specialization constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Quads of m of an invocation.
    pub(super) tile_m: u32,
    /// Values of n of an invocation.
    pub(super) tile_n: u32,
    /// Invocations of a workgroup along m.
    pub(super) lanes_m: u32,
    /// Invocations of a workgroup along n.
    pub(super) lanes_n: u32,
    /// Parts that k is summed in.
    pub(super) parts: u32,
    /// Invocations that share fetches of b by shuffles; 1 for none.
    pub(super) share: u32,
    /// Distance of an invocation's values of n: 1, or `lanes_n`.
    pub(super) step_n: u32,
}

impl Schedule {
    /// The schedule of a dispatch, read back from its constants.
    pub(super) fn of(constants: &[(u32, u32)]) -> Option<Self> {
        let get = |id| constant(constants, id);
        Some(Self {
            tile_m: get(TILE_M)?,
            tile_n: get(TILE_N)?,
            lanes_m: get(LANES_M)?,
            lanes_n: get(LANES_N)?,
            parts: get(PARTS)?,
            share: get(SHARE).unwrap_or(1),
            step_n: get(STEP_N)?,
        })
    }

    fn shader(&self, pair: bool) -> &'static str {
        match (self.share > 1, pair) {
            (false, false) => "gemm",
            (true, false) => "gemm_subgroup",
            (false, true) => "gemm_pair",
            (true, true) => "gemm_subgroup_pair",
        }
    }

    fn choose(size: Size, limits: &Limits) -> Self {
        let processor = (1..=PROCESSOR_SUBGROUP).contains(&limits.subgroup_size);
        let wanted = if processor { PROCESSOR_SUBGROUP } else { limits.subgroup_size.clamp(32, 64) };
        let most = wanted.min(limits.max_workgroup_invocations).min(limits.max_workgroup_size[0]).max(1);
        let group = 1 << most.ilog2();
        let along_m = if processor { group } else { group.min(16) };
        let few_m = along_m.min(size.quads_m.next_power_of_two());
        let tile_n = if processor { Self::processor_tile(size, few_m < group) } else { size.n.clamp(4, 8) / 4 * 4 };
        let lanes_n = (group / few_m).min(size.n.div_ceil(tile_n).next_power_of_two());
        let lanes_m = group / lanes_n;
        let share = if processor && lanes_n == 1 { limits.shuffle_width.min(group) } else { 0 };
        let share = share.checked_ilog2().map_or(1, |log| 1 << log);
        let tiles = u64::from(size.quads_m) * u64::from(size.n.div_ceil(tile_n));
        let tile_m = if processor { 1 } else { Self::gpu_tile(size, lanes_m, tiles) };
        let parts = Self::parts(size, if processor { None } else { Some(tiles / u64::from(tile_m)) });
        Self { tile_m, tile_n, lanes_m, lanes_n, parts, share, step_n: 1 }
    }

    /// Quads of m for an invocation of a GPU: two halve what it fetches of b for each sum, where enough invocations are left.
    fn gpu_tile(size: Size, lanes_m: u32, tiles: u64) -> u32 {
        let [b2, b3] = size.batches;
        let invocations = tiles * u64::from(b2) * u64::from(b3);
        if size.quads_m.is_multiple_of(2 * lanes_m) && invocations >= 2 * GPU_INVOCATIONS_PER_TILE { 2 } else { 1 }
    }

    /// The schedule that leaves two quads half a head apart to an invocation, and whole heads to a workgroup.
    fn by_halves(self, head_dim: u32, limits: &Limits) -> Result<Self, Refusal> {
        let lanes_m = head_dim / 8;
        let most = limits.max_workgroup_invocations.min(limits.max_workgroup_size[0]);
        if lanes_m > most {
            return Err(Refusal(format!("rotation: heads of {head_dim} take {lanes_m} invocations of {most}")));
        }
        let lanes_n = (self.lanes_m * self.lanes_n / lanes_m).max(1).min(self.lanes_n.max(1));
        let tile_n = (self.tile_n / 8 * 4).max(4);
        // Those that share must be there: in the last subgroup, too.
        let share = if lanes_n == 1 { self.share.min(1 << lanes_m.trailing_zeros()) } else { 1 };
        Ok(Self { tile_m: 2, tile_n, lanes_m, lanes_n, share, ..self })
    }

    /// Values of n for an invocation: 8, or what of 12, 16, 20 pads a large product's n least.
    fn processor_tile(size: Size, spread_along_n: bool) -> u32 {
        let [b2, b3] = size.batches;
        let work = [4, size.quads_m, size.n, size.k, b2, b3].iter().fold(1u64, |w, &x| w.saturating_mul(x.into()));
        if spread_along_n || size.n <= 4 {
            4
        } else if work < LARGE {
            8
        } else {
            [16, 20, 12, 8].into_iter().min_by_key(|&tile| size.n.div_ceil(tile) * tile).unwrap_or(8)
        }
    }

    /// Parts of k; `tiles` is the number of invocations a GPU would run, if the device is one.
    fn parts(size: Size, tiles: Option<u64>) -> u32 {
        // Parts are written along axis 3.
        let [b2, b3] = size.batches;
        if b3 > 1 {
            return 1;
        }
        let by_cache = if size.k >= 2 * PART_K { size.k / PART_K } else { 1 };
        let invocations = tiles.map(|tiles| (tiles * u64::from(b2)).max(1));
        let by_device = invocations.map_or(1, |have| u64::from(GPU_INVOCATIONS).div_ceil(have));
        let by_device = by_device.min(u64::from(size.k / LEAST_PART_K)) as u32;
        let sums = 16 * u64::from(size.quads_m) * u64::from(size.n) * u64::from(b2);
        let by_memory = (MOST_PART_BYTES / sums.max(1)).min(u64::from(MOST_PARTS)) as u32;
        by_cache.max(by_device).min(by_memory).max(1)
    }
}

fn lower(call: Call<'_>, first: Product, second: Option<(Product, f32)>) -> Result<Lowered, Refusal> {
    let [p0, n, ..] = call.output.padded();
    let [.., b2, b3] = call.output.shape();
    let k = first.b.1.shape()[first.reduce as usize];
    let mut schedule = Schedule::choose(Size { quads_m: p0.div_ceil(4), n, k, batches: [b2, b3] }, call.limits);
    if let Some(turn) = call.tail.and_then(|tail| tail.turn()) {
        if schedule.parts > 1 {
            return Err(Refusal(format!("rotation: a product in {} parts of k takes none", schedule.parts)));
        }
        if let Some(head_dim) = turn.halves() {
            schedule = schedule.by_halves(head_dim, call.limits)?;
        }
    }
    if first.runs_along_k() && second.as_ref().is_none_or(|(second, _)| second.runs_along_k()) {
        schedule.step_n = schedule.lanes_n;
    }
    let shader = schedule.shader(second.is_some());
    // The shader of two products always has an epilogue.
    let own = Call { tail: call.tail.or(second.as_ref().map(|_| Tail::EMPTY)), ..call };
    let bind = |call: &Call<'_>, arg: Arg, output: &Operand| {
        let mut builder = first.bind(call.builder(shader)?)?.set(REDUCE, first.reduce);
        if let Some((second, scale)) = &second {
            builder = second.bind(builder)?.set(REDUCE_2, second.reduce).set_f32(SCALE_2, *scale);
        }
        dispatch(call.store(builder, arg, output)?, output, schedule)
    };
    if schedule.parts == 1 {
        return Ok(bind(&own, Arg::Output, call.output)?.into());
    }
    // What is done to the result is done to the parts' sum.
    let [m, n, ..] = call.output.shape();
    let (scratch, sums) = part_sums([m, n, b2, schedule.parts], 4)?;
    let tail = second.as_ref().map(|_| Tail::EMPTY);
    let parts = bind(&Call { tail, ..call }, Arg::Scratch(0), &sums)?;
    let mut lowered = copy::repeat_back(Call { inputs: &[sums], ..call })?;
    for (arg, _) in lowered.dispatches.iter_mut().flat_map(|d| &mut d.args).filter(|(arg, _)| *arg == Arg::Input(0)) {
        *arg = Arg::Scratch(0);
    }
    lowered.dispatches.insert(0, parts);
    lowered.scratch.push(scratch);
    Ok(lowered)
}

/// Operand A with its batch axes spread to the output's: each matrix serves as many neighbours as it takes.
fn shared_over_heads(a: &Operand, arg: Arg, output: &Operand) -> Result<Operand, Refusal> {
    let mut view = a.view.clone();
    for axis in [2, 3] {
        let (own, whole) = (a.shape()[axis], output.shape()[axis]);
        if own != whole {
            view = view
                .repeat_each(axis, whole / own)
                .map_err(|e| Refusal(format!("{arg}: repeated along axis {axis}: {e}")))?;
        }
    }
    Ok(Operand { view, ..a.clone() })
}

/// Sums of parts, `strip` rows of axis 1 side by side: the temporary, and the operand that shows it.
pub(super) fn part_sums(extents: [u32; 4], strip: u32) -> Result<(Scratch, Operand), Refusal> {
    let dtype = DType::F32;
    let layout = Layout::rtile(&extents, dtype.lanes(), 1, strip, u32::MAX, u32::MAX)
        .map_err(|e| Refusal(format!("{}: {e}", Arg::Scratch(0))))?;
    let operand =
        Operand { dtype, view: layout.view(), flat: false, storage: StorageKind::Buffer, pitch: layout.width() };
    Ok((Scratch { dtype, layout }, operand))
}

/// The schedule's constants and workgroups; the builder has all operands.
fn dispatch(builder: Builder<'_>, output: &Operand, schedule: Schedule) -> Result<Dispatch, Refusal> {
    let Schedule { tile_m, tile_n, lanes_m, lanes_n, parts, share, step_n } = schedule;
    let [p0, p1, p2, p3] = builder.box_over(output);
    let mut builder = builder
        .set(TILE_M, tile_m)
        .set(TILE_N, tile_n)
        .set(LANES_M, lanes_m)
        .set(LANES_N, lanes_n)
        .set(PARTS, parts)
        .set(STEP_N, step_n)
        .set(MATRICES, p2);
    if share > 1 {
        builder = builder.set(SHARE, share);
    }
    let matrices = p2.checked_mul(p3);
    let matrices = matrices.ok_or_else(|| Refusal(format!("a product: {p2} x {p3} matrices are too many")))?;
    let groups = [p1.div_ceil(tile_n * lanes_n), p0.div_ceil(4).div_ceil(tile_m * lanes_m), matrices];
    builder.workgroups(lanes_m * lanes_n, groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(subgroup_size: u32, shuffle_width: u32) -> Limits {
        Limits { subgroup_size, shuffle_width, ..Limits::for_tests() }
    }

    /// What `gemm.comp` presumes of its constants, for every kind of device.
    #[test]
    fn schedules_keep_what_the_shader_presumes() {
        for subgroup in [0, 1, 4, 8, 16, 32, 64, 128] {
            for (shuffle, most) in [(0, 1024), (subgroup, 1024), (subgroup, 4), (subgroup, 1)] {
                let limits = Limits { max_workgroup_invocations: most, ..limits(subgroup, shuffle) };
                for quads_m in [1, 2, 3, 48, 144, 12288] {
                    for (n, k) in [(1, 1), (4, 9000), (8, 576), (33, 49152), (96, 576), (4096, 65536)] {
                        let size = Size { quads_m, n, k, batches: [3, 1] };
                        let s = Schedule::choose(size, &limits);
                        assert!(s.lanes_m * s.lanes_n <= most, "{size:?} {s:?}");
                        assert!(
                            s.tile_n.is_multiple_of(4) && (1..=2).contains(&s.tile_m) && s.parts >= 1,
                            "{size:?} {s:?}"
                        );
                        assert!(s.share == 1 || (s.lanes_n == 1 && s.share <= shuffle), "{size:?} {s:?}");
                        assert!(s.share.is_power_of_two() && (s.lanes_m * s.lanes_n).is_multiple_of(s.share));
                    }
                }
            }
        }
    }

    #[test]
    fn only_products_without_axis_3_are_cut() {
        let head = Size { quads_m: 144, n: 40, k: 49152, batches: [1, 1] };
        assert_eq!(Schedule::choose(head, &limits(8, 8)).parts, 12);
        assert_eq!(Schedule::choose(Size { batches: [1, 2], ..head }, &limits(8, 8)).parts, 1);
        let projection = Size { k: 576, ..head };
        assert_eq!(Schedule::choose(projection, &limits(8, 8)).parts, 1);
        assert_eq!(Schedule::choose(projection, &limits(32, 32)).parts, 4);
        let wide = Size { quads_m: 12288, n: 4096, ..head };
        assert_eq!(Schedule::choose(wide, &limits(8, 8)).parts, 1, "the parts' sums would take gigabytes");
    }

    /// The rows of B are fetched once for a subgroup only where the device shuffles.
    #[test]
    fn shuffles_are_used_where_present() {
        let size = Size { quads_m: 144, n: 96, k: 576, batches: [1, 1] };
        assert_eq!(Schedule::choose(size, &limits(8, 8)).share, 8);
        assert_eq!(Schedule::choose(size, &limits(4, 4)).share, 4);
        assert_eq!(Schedule::choose(size, &limits(8, 0)).share, 1);
        assert_eq!(Schedule::choose(size, &limits(64, 8)).share, 1, "a preset may claim wider subgroups");
    }
}
