//! MUL_MAT and OUT_PROD: a matrix product, or the sum of two, shaders `gemm`, `gemm_dots`, `gemm_subgroup`, `gemm_staged`, `gemm_matrix`
//! and their `*_pair`; of few columns also with what comes before it, a norm of the right factor, and two of one right factor: shaders
//! `gemm_normed`, `gemm_twin` and those of dots.
//!
//! `dst[m, n] = sum over k of a[.] b[.]`: MUL_MAT sums over view axis 0 of both operands, OUT_PROD over view axis 1. That flag
//! and the axis that carries an operand's lanes say how it is read: lanes along k or lanes along m (n), both as fragments of
//! 4 by 4 elements, four texels each. A view whose lanes are on a batch axis is gathered element by element: right, but slow.
//! An output whose lanes run along n is written by the product of the operands exchanged.
//!
//! How it is spread over invocations is chosen in [`schedule`].
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

mod across;
mod matrix;
mod schedule;
#[cfg(test)]
mod tests;

pub(super) use schedule::{Schedule, Stage, Unit};

use across::Fetches;
use schedule::{Dots, Factors, Kind, Size};

use super::addressing::Addressing;
use super::dispatch::{Builder, LOCAL_SIZE};
use super::epilogue::Tail;
use super::operand::constants;
use super::{
    Access, Arg, Call, Dispatch, Fused, Lowered, Norm, Operand, Refusal, Scratch, SecondProduct, StorageKind, check,
    copy,
};
use crate::device::{Limits, MatrixType};
use crate::graph::{DType, Desc, Form, Op};
use crate::layout::Layout;

const TILE_M: u32 = 3;
const TILE_N: u32 = 4;
const LANES_M: u32 = 5;
const LANES_N: u32 = 6;
const PARTS: u32 = 7;
const SHARE: u32 = 8;
const MATRICES: u32 = 9;
const STEP_N: u32 = 10;
const LANES_K: u32 = 11;
const GROUP_B: u32 = 13;
const AHEAD: u32 = 14;
const SUMS: u32 = 15;
// Of the staged schedule.
const BAND: u32 = 8;
const QUADS_K: u32 = 12;
const BUFFERS: u32 = 13;
const LOADS_M: u32 = 14;
const LOADS_N: u32 = 15;
// Of matrix units. Validation layers up to 1.4.309 take the number of an extent's constant for its place among all that are given: these
// are in their places, once the workgroup's other extents are given as well.
const MATRIX_M: u32 = 10;
const MATRIX_N: u32 = 11;
const MATRIX_K: u32 = 13;
const MATRIX_BUFFERS: u32 = 19;
const SHARED: u32 = 20;
const LOCAL_SIZE_Y: u32 = 1;
const LOCAL_SIZE_Z: u32 = 2;
pub(super) const REDUCE: u32 = 16;
pub(super) const REDUCE_2: u32 = 17;
const SCALE_2: u32 = 18;
const NORM: u32 = 23;
const EPS: u32 = 24;
pub(super) const GAIN: u32 = 25;

pub(super) fn product(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let product = Product::new(op, call.inputs, 0, call.output)?;
    match turned(&product, call.output).filter(|_| call.tail.is_none()) {
        Some(output) => lower(Call { output: &output, ..call }, product.exchanged(), Beside::Nothing),
        None => lower(call, product, Beside::Nothing),
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

/// What matrix units of a device round both factors of a product to, if they compute it, and its factors lie as weights and activations do.
pub(crate) fn rounds_factors(op: &Op, [a, b]: [Desc; 2], limits: &Limits) -> Option<DType> {
    let reduce = reduced_axis(op)?;
    let factors = Factors::of(reduce as u32, a.dtype);
    let Factors::Rounded(to) = factors else { return None };
    let size = Size {
        quads_m: a.shape[1 - reduce].div_ceil(4),
        n: b.shape[1 - reduce],
        k: b.shape[reduce],
        batches: [b.shape[2], b.shape[3]],
        a_along_k: reduce == 0,
        step_k: 4,
        b_along_k: reduce == 0,
        dots: None,
        halves: None,
        factors,
        kind: Kind::Single,
        quantized: a.dtype.is_quantized(),
    };
    let by_units = Schedule::choose(size, limits).is_ok_and(|schedule| schedule.rounds());
    by_units.then_some(match to {
        MatrixType::F16 => DType::F16,
        MatrixType::Bf16 => DType::BF16,
    })
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
    lower(call, first, Beside::Sum(other, second.scale))
}

/// The product of the call's operands with the norm of its right factor, and its twin; `factors` are the operands of these.
pub(super) fn normed(call: Call<'_>, fused: &Fused, factors: &[Operand]) -> Result<Lowered, Refusal> {
    let refuse = |rule: &str| Err(Refusal(format!("{}: {rule}", fused.op.row().name)));
    let gain = fused.norm.is_some_and(|norm| norm.gain);
    let first = Product::new(&fused.op, call.inputs, 0, call.output)?;
    if first.reduce != 0 || factors.len() != usize::from(fused.twin) + usize::from(gain) {
        return refuse("takes neither a norm nor a twin, or not with these operands");
    }
    if !first.runs_along_k() {
        return refuse("a norm and a twin need a right factor whose texels run along its sums");
    }
    let twin = match factors.first().filter(|_| fused.twin) {
        Some(own) => {
            let arg = Arg::Input(call.inputs.len());
            check(&fused.op, &[own.clone(), call.inputs[1].clone()], call.output)?;
            own.check_steps(arg)?;
            let twin = Product { a: (arg, shared_over_heads(own, arg, call.output)?), ..first.clone() };
            // One loop goes over both.
            let alike = twin.steps() == first.steps() && twin.dots()? == first.dots()?;
            if own.dtype != call.inputs[0].dtype || !alike {
                return refuse("the left factors of twins are not alike");
            }
            Some(twin.a)
        }
        None => None,
    };
    let gain = match factors.last().filter(|_| gain) {
        Some(operand) => {
            let arg = Arg::Input(call.inputs.len() + factors.len() - 1);
            let k = first.b.1.shape()[0];
            if operand.dtype != DType::F32 || operand.shape() != [k, 1, 1, 1] {
                return refuse("the gain of a norm is not F32, or no value for each element of a sum");
            }
            Some((arg, operand.clone()))
        }
        None => None,
    };
    lower(call, first, Beside::Factors { twin, norm: fused.norm, gain })
}

/// What a kernel does beside a product.
enum Beside {
    Nothing,
    /// Another product is added, times a factor.
    Sum(Product, f32),
    /// The right factor is normalised, and there may be another product of it.
    Factors {
        twin: Option<(Arg, Operand)>,
        norm: Option<Norm>,
        gain: Option<(Arg, Operand)>,
    },
}

impl Beside {
    fn kind(&self) -> Kind {
        match self {
            Self::Nothing => Kind::Single,
            Self::Sum(..) => Kind::Pair,
            Self::Factors { twin: None, .. } => Kind::Normed,
            Self::Factors { twin: Some(_), .. } => Kind::Twin,
        }
    }

    /// The product that is added.
    fn second(&self) -> Option<&Product> {
        match self {
            Self::Sum(second, _) => Some(second),
            Self::Nothing | Self::Factors { .. } => None,
        }
    }

    /// Binds its operands behind those of the first product, and sets its constants.
    fn bind<'b>(&self, builder: Builder<'b>, first: &Product) -> Result<Builder<'b>, Refusal> {
        match self {
            Self::Nothing => Ok(builder),
            Self::Sum(second, scale) => Ok(second.bind(builder)?.set(REDUCE_2, second.reduce).set_f32(SCALE_2, *scale)),
            Self::Factors { twin, norm, gain } => {
                let builder = match twin {
                    Some((arg, a)) => builder.operand(*arg, a, Access::Read)?,
                    None => builder,
                };
                // What stands where a gain would is not read.
                let (arg, operand) = gain.as_ref().unwrap_or(&first.b);
                Ok(builder
                    .operand(*arg, operand, Access::Read)?
                    .set(NORM, norm.is_some().into())
                    .set_f32(EPS, norm.map_or(0.0, |norm| norm.eps))
                    .set(GAIN, gain.is_some().into()))
            }
        }
    }
}

/// One matrix product: the side along m, the side along n, and the view axis summed over.
#[derive(Clone)]
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

    /// Whether the texels of the side along m do, and the elements along it that a step of an invocation reads.
    fn steps(&self) -> (bool, u32) {
        let (_, a) = &self.a;
        let lanes = a.dtype.lanes();
        if !matches!(a.view.lane_axis(lanes), Ok(Some(axis)) if axis == self.reduce as usize) {
            return (false, 4);
        }
        let step = match a.dtype.form() {
            Form::Texel => lanes,
            Form::Tile { quants } => lanes / quants,
            Form::Block if across::has_runs(a.dtype) => 32,
            Form::Block => 16,
        };
        (true, step)
    }

    /// The steps where the other side is rounded to bytes, if the texels are read as `gemm_dots.glsl` does: of
    /// blocks in tiles, four rows are those of a tile.
    fn dots(&self) -> Result<Option<Dots>, Refusal> {
        let (arg, a) = &self.a;
        let addressing = Addressing::of(&constants(0, *arg, a)?, 0);
        let in_tiles = |at: Addressing| a.dtype.form() == Form::Block || at.is_tiled(1 - self.reduce as usize, 4);
        let (along_k, _) = self.steps();
        // Outer products are of gradients, which keep their bits.
        let rounded = self.reduce == 0 && along_k;
        Ok(across::dots(a.dtype).filter(|_| rounded && addressing.is_some_and(in_tiles)))
    }

    /// What matrix units may round both sides to, if anything.
    fn factors(&self) -> Factors {
        Factors::of(self.reduce, self.a.1.dtype)
    }

    fn exchanged(self) -> Self {
        Self { a: self.b, b: self.a, ..self }
    }

    fn bind<'b>(&self, builder: Builder<'b>) -> Result<Builder<'b>, Refusal> {
        let Self { a, b, .. } = self;
        builder.operand(a.0, &a.1, Access::Read)?.operand(b.0, &b.1, Access::Read)
    }
}

fn lower(call: Call<'_>, first: Product, beside: Beside) -> Result<Lowered, Refusal> {
    let [p0, n, ..] = call.output.padded();
    let [.., b2, b3] = call.output.shape();
    let k = first.b.1.shape()[first.reduce as usize];
    let turn = call.tail.and_then(|tail| tail.turn());
    let halves = turn.and_then(|turn| turn.halves()).map(|head_dim| head_dim / 8);
    let (a_along_k, step_k) = first.steps();
    let batches = [b2, b3];
    let factors = first.factors();
    let b_along_k = first.runs_along_k();
    let quantized = first.a.1.dtype.is_quantized();
    let (quads_m, kind) = (p0.div_ceil(4), beside.kind());
    let dots = first.dots()?;
    let size = Size { quads_m, n, k, batches, a_along_k, step_k, b_along_k, dots, halves, factors, kind, quantized };
    let mut schedule = Schedule::choose(size, call.limits).map_err(|rule| Refusal(format!("rotation: {rule}")))?;
    if turn.is_some() && schedule.parts > 1 {
        return Err(Refusal(format!("rotation: a product in {} parts of k takes none", schedule.parts)));
    }
    let narrow = [Some(&first), beside.second()].into_iter().flatten().any(|product| product.b.1.dtype != DType::F32);
    if narrow && !schedule.rounds() {
        return Err(Refusal("a right factor that is not F32: no matrix units multiply it here".into()));
    }
    if kind.is_normed() && (schedule.lanes_k == 1 || schedule.parts > 1 || !k.is_multiple_of(step_k)) {
        return Err(Refusal("a norm or a twin: not all of k is in whole steps of one workgroup each".into()));
    }
    let runs_along_k = match &beside {
        Beside::Sum(second, _) => b_along_k && second.runs_along_k(),
        Beside::Nothing | Beside::Factors { .. } => b_along_k,
    };
    if schedule.stage.is_none() && runs_along_k {
        schedule.step_n = schedule.lanes_n;
    }
    let fetches = Fetches::of(&size, &schedule, call.limits);
    let shader = schedule.shader(kind);
    // The shaders of more than a product always have an epilogue.
    let empty = (kind != Kind::Single).then_some(Tail::EMPTY);
    let own = Call { tail: call.tail.or(empty), ..call };
    let sums = kind.sums(schedule.tile_m, schedule.tile_n);
    let bind = |call: &Call<'_>, arg: Arg, output: &Operand| {
        let builder = first.bind(call.builder(shader)?)?.set(REDUCE, first.reduce);
        let builder = beside.bind(builder, &first)?;
        dispatch(call.store(builder, arg, output)?, output, schedule, sums, fetches)
    };
    if schedule.parts == 1 {
        return Ok(bind(&own, Arg::Output, call.output)?.into());
    }
    // What is done to the result is done to the parts' sum.
    let [m, n, ..] = call.output.shape();
    let (scratch, sums) = part_sums([m, n, b2, schedule.parts], 4)?;
    let parts = bind(&Call { tail: empty, ..call }, Arg::Scratch(0), &sums)?;
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

/// The schedule's constants and workgroups, `sums` for every invocation; the builder has all operands.
fn dispatch(
    builder: Builder<'_>,
    output: &Operand,
    schedule: Schedule,
    sums: u32,
    fetches: Fetches,
) -> Result<Dispatch, Refusal> {
    let Schedule { tile_m, tile_n, lanes_m, lanes_n, lanes_k, parts, share, step_n, dots, stage } = schedule;
    let [p0, p1, p2, p3] = builder.box_over(output);
    let invocations = schedule.invocations();
    let builder = builder
        .set(TILE_M, tile_m)
        .set(TILE_N, tile_n)
        .set(LANES_M, lanes_m)
        .set(LANES_N, lanes_n)
        .set(PARTS, parts)
        .set(MATRICES, p2);
    let [extent_m, extent_n] = schedule.extents();
    let builder = match stage {
        Some(Stage { quads_k, buffers, band, unit }) => {
            let builder = builder.set(BAND, band).set(QUADS_K, quads_k);
            match unit {
                Some(Unit { shape: [m, n, k], .. }) => {
                    // Octets of a tile, whichever way they run.
                    let loads = |extent: u32| (extent * quads_k / 2).div_ceil(invocations);
                    builder
                        .set(LOCAL_SIZE_Y, 1)
                        .set(LOCAL_SIZE_Z, 1)
                        .set(MATRIX_BUFFERS, buffers)
                        .set(MATRIX_M, m)
                        .set(MATRIX_N, n)
                        .set(MATRIX_K, k)
                        .set(LOADS_M, loads(extent_m))
                        .set(LOADS_N, loads(extent_n))
                        .set(SHARED, schedule.shared_texels())
                }
                None => {
                    let loads = |extent: u32| (extent / 4).div_ceil(invocations / quads_k);
                    builder.set(BUFFERS, buffers).set(LOADS_M, loads(extent_m)).set(LOADS_N, loads(extent_n))
                }
            }
        }
        None if share > 1 => builder.set(STEP_N, step_n).set(SHARE, share),
        None => {
            let sums = if lanes_k > 1 { invocations * sums } else { 1 };
            let Fetches { ahead, group_b } = fetches;
            // Dots have a step of their own.
            let builder = if dots { builder } else { builder.set(AHEAD, ahead).set(GROUP_B, group_b) };
            builder.set(STEP_N, step_n).set(LANES_K, lanes_k).set(SUMS, sums)
        }
    };
    let matrices = p2.checked_mul(p3);
    let matrices = matrices.ok_or_else(|| Refusal(format!("a product: {p2} x {p3} matrices are too many")))?;
    let groups = [p1.div_ceil(extent_n), p0.div_ceil(extent_m), matrices];
    builder.workgroups(invocations, groups)
}
