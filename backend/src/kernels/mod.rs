//! How one op becomes dispatches: one file per op family. Pure; the device is known only through `Limits`.

mod addressing;
mod attention;
mod attention_back;
mod attention_units;
mod constants;
mod convolution;
mod copy;
mod dispatch;
mod elementwise;
mod epilogue;
mod experts;
mod functions;
mod gather;
mod gemm;
mod generate;
mod in_place;
mod inset;
mod loss;
mod mixing;
mod operand;
mod optimizer;
mod pieces;
mod places;
mod pool;
mod recurrent;
mod reduce;
mod repack;
mod rope;
mod rotate;
mod rows;
mod samples;
mod sort;
#[cfg(test)]
mod tests;
mod traffic;
mod turned;
mod words;

pub use addressing::Addressing;
pub(crate) use attention_back::{by_units as trains_attention_by_units, trains as trains_attention};
pub use constants::Constants;
pub(crate) use dispatch::is_processor;
pub use dispatch::most_operands;
pub(crate) use elementwise::code as step;
pub use epilogue::{Epilogue, EpilogueStep, Fused, MAX_EXTRAS, MAX_STEPS, Norm, SecondProduct, Source};
pub(crate) use functions::selector as function;
pub(crate) use gemm::rounds_factors;
pub use in_place::works_in_place;
pub(crate) use repack::{DIGIT_WORDS, FIRST_DIGIT, kernel as repacker};
pub use repack::{REPACK_BYTES, REPACK_HEADER, REPACK_HOME, Way};
pub use rotate::Rotation;
pub use traffic::{Traffic, invocations, traffic};
pub use turned::lane_axes;
pub(crate) use words::{matrix_products, tested_schedule};
pub use words::{parameters, schedule_in_words};

use std::ops::Range;

use dispatch::Builder;
use epilogue::Tail;
use pieces::Span;
use rotate::Turn;

use crate::device::Limits;
use crate::graph::{DType, Op, Shape, infer};
use crate::layout::{Layout, View};

/// Where an operand's texels are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageKind {
    /// A storage buffer of `uvec4`.
    Buffer,
    /// A 2D image, `rgba32ui`.
    Image,
}

/// One operand as a kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operand {
    /// Element type.
    pub dtype: DType,
    /// Logical axes over physical positions.
    pub view: View,
    /// The positions of the view are numbers of elements, counted in columns: element e is lane e % lanes of texel e / lanes, and
    /// texels are counted on from row to row. Such a view steps by any strides, where one of slots needs digits that fit.
    pub flat: bool,
    /// Kind of storage.
    pub storage: StorageKind,
    /// Texels per row of the storage.
    pub pitch: u32,
}

/// What one shader operand slot is bound to; displayed as errors name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Arg {
    /// Operand `i` of the op.
    Input(usize),
    /// The op's output.
    Output,
    /// Temporary tensor `i` of this lowering.
    Scratch(usize),
    /// Extra operand `i` of the epilogue.
    Extra(usize),
}

impl std::fmt::Display for Arg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Input(i) => write!(f, "operand {i}"),
            Self::Output => write!(f, "output"),
            Self::Scratch(i) => write!(f, "scratch {i}"),
            Self::Extra(i) => write!(f, "extra operand {i}"),
        }
    }
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Name of the shader in `fblayout_shaders`.
    pub shader: &'static str,
    /// Specialization constants.
    pub constants: Constants,
    /// Workgroup counts.
    pub groups: [u32; 3],
    /// What each operand slot is bound to, with whether the shader reads and writes it.
    pub args: Vec<(Arg, Access)>,
    /// Rows of texels that slots bind of their buffers, from which the constants count; slots that are not named bind all rows.
    pub rows: Vec<(usize, Range<u32>)>,
    /// A piece of an op that touches nothing which the pieces right before it write, and writes nothing which they read.
    pub beside: bool,
}

impl Dispatch {
    /// The rows that a slot binds, if not all.
    pub fn rows_of(&self, slot: usize) -> Option<&Range<u32>> {
        self.rows.iter().find(|(named, _)| *named == slot).map(|(_, rows)| rows)
    }
}

/// How a shader touches an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Read only.
    Read,
    /// Written only.
    Write,
    /// Read and written by the same invocation.
    ReadWrite,
}

/// A temporary tensor of a lowering; always a buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Scratch {
    /// Element type.
    pub dtype: DType,
    /// Its layout.
    pub layout: Layout,
}

/// What an op becomes: dispatches in order (each may read what an earlier one wrote) and their temporaries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lowered {
    /// Dispatches in order.
    pub dispatches: Vec<Dispatch>,
    /// Temporaries.
    pub scratch: Vec<Scratch>,
}

/// Why an op cannot be lowered: names the operand and the rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// How refusals end that a smaller piece of the op need not meet.
    const OF_SIZE: &'static str = "more than a dispatch holds";

    /// A refusal of something that is too much at once.
    fn of_size(what: impl std::fmt::Display) -> Self {
        Self(format!("{what} {}", Self::OF_SIZE))
    }

    /// Whether a smaller piece of the op might not be refused.
    fn is_of_size(&self) -> bool {
        self.0.ends_with(Self::OF_SIZE)
    }
}

/// Lowers one op, or says why not. `inputs` in the op's operand order; an op in place has its written input's view as `output`.
///
/// An op of family Inset writes a part of `output` alone, which must hold operand 0 before (or be it).
/// Every other op writes the padded box of `output`, with zeros outside the extents. An input may share its storage with the output where both have the same view and the op is elementwise or
/// works on rows; every other op needs storage of its own for its output.
///
/// # Errors
/// The operands break the op's shape rule, or one of them has a view, dtype or size that no kernel takes.
pub fn lower(op: &Op, inputs: &[Operand], output: &Operand, limits: &Limits) -> Result<Lowered, Refusal> {
    check(op, inputs, output)?;
    pieces::lower(op, inputs, output, limits)
}

/// That the operands satisfy the op's shape rule.
fn check(op: &Op, inputs: &[Operand], output: &Operand) -> Result<(), Refusal> {
    let descriptions = inputs.iter().enumerate().map(|(i, operand)| operand.desc(Arg::Input(i)));
    let descriptions = descriptions.collect::<Result<Vec<_>, _>>()?;
    infer(op, &descriptions, Some(output.desc(Arg::Output)?)).map(drop).map_err(|e| Refusal(e.to_string()))
}

fn by_family(op: &Op, call: Call<'_>) -> Result<Lowered, Refusal> {
    match *op {
        Op::MulMat | Op::OutProd => gemm::product(call, op),
        Op::Gated(_) => functions::function(call, op),
        Op::Unary(_) if functions::selector(op).is_some() => functions::function(call, op),
        Op::FlashAttn(ref attention) => attention::flash_attn(call, attention),
        Op::FlashAttnBackQ(ref attention) => attention_back::queries(call, attention),
        Op::FlashAttnBackKv(ref attention) => attention_back::keys_values(call, attention),
        Op::MulMatId => experts::mul_mat_id(call),
        Op::Binary(_)
        | Op::Scale { .. }
        | Op::Unary(_)
        | Op::SiluBack
        | Op::TanhBack
        | Op::GeluBack
        | Op::SwiGlu
        | Op::GeGlu => elementwise::elementwise(call, op),
        Op::RmsNorm { eps } => rows::rms_norm(call, eps),
        Op::RmsNormBack { eps } => rows::rms_norm_back(call, eps),
        Op::Rope(ref parameters) => rope::rope(call, parameters),
        Op::SoftMax { scale, max_bias, sinks } => rows::softmax(call, scale, max_bias, sinks),
        Op::SoftMaxBack { scale } => rows::softmax_back(call, scale),
        Op::Repeat => copy::repeat(call),
        Op::RepeatBack => copy::repeat_back(call),
        Op::Copy => copy::copy(call),
        Op::Pad { before } => copy::pad(call, before),
        Op::Set(inset) => inset::set(call, inset),
        Op::Acc(inset) => inset::acc(call, inset),
        Op::SetRows(inset) => inset::set_rows(call, inset),
        Op::Concat { axis } => places::concat(call, axis),
        Op::PadCircular { before } => places::circular(call, before.map(i64::from)),
        Op::Roll { shift } => places::circular(call, shift.map(i64::from)),
        Op::PadReflect { before } => places::reflected(call, before),
        Op::Diag | Op::DiagMaskInf { .. } | Op::DiagMaskZero { .. } | Op::Tri(_) => places::band(call, op),
        Op::Upscale { sampling, align_corners } => samples::upscale(call, sampling, align_corners),
        Op::Fill { value } => generate::line(call, value, 0.0),
        Op::Arange { start, step } => generate::line(call, start, step),
        Op::TimestepEmbedding { max_period } => generate::timestep(call, max_period),
        Op::GetRows => gather::get_rows(call),
        Op::GetRowsBack => gather::get_rows_back(call),
        Op::CrossEntropyLoss => loss::cross_entropy(call),
        Op::CrossEntropyLossBack => loss::cross_entropy_back(call),
        Op::ArgMax => rows::arg_max(call),
        Op::Sum => reduce::sum(call),
        Op::SumRows => reduce::sum_rows(call, 1.0),
        Op::Mean => reduce::mean(call),
        Op::CountEqual => reduce::count_equal(call),
        Op::CumSum => reduce::cumsum(call),
        Op::Norm { eps } => rows::layer_norm(call, eps),
        Op::GroupNorm { groups, eps } => reduce::group_norm(call, groups, eps),
        Op::L2Norm { eps } => rows::l2_norm(call, eps),
        Op::AddId => gather::add_id(call),
        Op::ArgSort { descending } => sort::arg_sort(call, descending),
        Op::TopK => sort::top_k(call),
        Op::Sgd => optimizer::sgd(call),
        Op::AdamW => optimizer::adamw(call),
        Op::Im2Col { .. }
        | Op::Im2ColBack { .. }
        | Op::Im2Col3d { .. }
        | Op::Col2Im1d { .. }
        | Op::Conv2d(_)
        | Op::Conv2dDw(_)
        | Op::Conv3d { .. }
        | Op::ConvTranspose1d { .. }
        | Op::ConvTranspose2d { .. } => convolution::convolution(call, op),
        Op::Pool1d(ref pool) | Op::Pool2d(ref pool) => pool::pool(call, "pool", pool),
        Op::Pool2dBack(ref pool) => pool::pool(call, "pool_back", pool),
        Op::SsmScan { .. } | Op::RwkvWkv6 | Op::RwkvWkv7 | Op::GatedLinearAttn { .. } | Op::GatedDeltaNet { .. } => {
            recurrent::recurrence(call, op)
        }
        Op::SsmConv => recurrent::ssm_conv(call),
        Op::SolveTri => recurrent::solve_tri(call),
        Op::LightningIndexer => mixing::lightning_indexer(call),
        Op::Dsv4HcComb { eps, iterations } => mixing::hc_comb(call, eps, iterations),
        Op::Dsv4HcPre { scale, gated } => mixing::hc_pre(call, scale, gated),
        Op::Dsv4HcPost => mixing::hc_post(call),
    }
}

/// Lowers an op with what is done in the same dispatch, or says why not.
///
/// `inputs` are the op's operands, then those of the twin, the norm, the second product and the rotation, as far as there are any. `output` and `extras` are F32 views of the shape of
/// the op's own result: what repeats there has axes without a digit. Extras that are stored are written like the output, those that
/// are read may share their storage with any other operand that is read, and with the output where both have the same view.
///
/// # Errors
/// As [`lower`]; or the op's kernel takes no epilogue, the epilogue breaks a rule of [`Epilogue`], or the device binds too few operands.
pub fn lower_fused(
    fused: &Fused,
    inputs: &[Operand],
    output: &Operand,
    extras: &[Operand],
    limits: &Limits,
) -> Result<Lowered, Refusal> {
    // A kernel that takes a rotation takes all operands that its op can have.
    let others = if fused.second.is_some() { 2 } else { 0 };
    let factors = usize::from(fused.twin) + usize::from(fused.norm.is_some_and(|norm| norm.gain));
    let own = match fused.rotation {
        Some(_) => fused.op.row().max_operands.min(inputs.len()),
        None => inputs.len().saturating_sub(factors + others),
    };
    let (first, rest) = inputs.split_at(own);
    let (factors, rest) = rest.split_at(factors.min(rest.len()));
    let (second, turned) = rest.split_at(others.min(rest.len()));
    check(&fused.op, first, output)?;
    let turn = |rotation| Turn::new(rotation, turned, own + factors.len() + second.len(), output);
    let tail = Tail::new(fused, extras, fused.rotation.map(turn).transpose()?, output)?;
    let call = Call { inputs: first, output, tail, span: Span::all(output), limits };
    let lowered = match fused.second {
        None if fused.twin || fused.norm.is_some() => gemm::normed(call, fused, factors),
        None => by_family(&fused.op, call),
        Some(_) if fused.twin || fused.norm.is_some() => {
            Err(Refusal("a sum of two products takes neither a twin nor a norm".into()))
        }
        Some(product) => {
            check(&product.op, second, output).map_err(|rule| Refusal(format!("second product: {rule}")))?;
            gemm::pair(call, &fused.op, product, second)
        }
    }?;
    let operand = |arg| match arg {
        Arg::Input(i) => inputs.get(i),
        Arg::Extra(i) => extras.get(i),
        Arg::Output => Some(output),
        Arg::Scratch(_) => None,
    };
    pieces::check_bound(&lowered, operand, limits)?;
    Ok(lowered)
}

/// An operand of any strides: a window of these extents, strides and offset (in elements) over the elements of `whole` by their
/// numbers.
///
/// # Errors
/// The elements do not lie in their order, are blocks, or more than 32 bits count; or the window leaves them.
pub fn flat(whole: &Operand, extents: &Shape, strides: &[u64; 4], offset: u64) -> Result<Operand, Refusal> {
    operand::flat(whole, extents, strides, offset)
}

/// Whether kernels can read an operand at all, whatever the op.
///
/// # Errors
/// The digits that a kernel does not take.
pub fn takes(operand: &Operand) -> Result<(), Refusal> {
    operand.desc(Arg::Input(0))?;
    operand::constants(0, Arg::Input(0), operand).map(drop)
}

/// What a family's lowering gets; the operands satisfy the op's shape rule.
#[derive(Clone, Copy)]
struct Call<'a> {
    inputs: &'a [Operand],
    output: &'a Operand,
    /// What is done to the result before it is stored.
    tail: Option<Tail<'a>>,
    /// Where in the whole op this is.
    span: Span,
    limits: &'a Limits,
}

impl<'a> Call<'a> {
    /// A dispatch of `shader` over all inputs in order, then the output.
    fn dispatch(&self, shader: &'static str) -> Result<Builder<'a>, Refusal> {
        let mut builder = self.builder(shader)?;
        for (i, operand) in self.inputs.iter().enumerate() {
            builder = builder.operand(Arg::Input(i), operand, Access::Read)?;
        }
        self.store(builder, Arg::Output, self.output)
    }

    /// A dispatch of `shader`, or of what stands for it where there is an epilogue.
    fn builder(&self, shader: &'static str) -> Result<Builder<'a>, Refusal> {
        let shader = match self.tail {
            Some(tail) => tail.shader(shader, self.limits.max_storage_bindings)?,
            None => shader,
        };
        Ok(Builder::new(shader, self.limits))
    }

    /// Binds what the kernel writes, and what an epilogue needs.
    fn store(&self, builder: Builder<'a>, arg: Arg, output: &Operand) -> Result<Builder<'a>, Refusal> {
        let builder = builder.operand(arg, output, Access::Write)?;
        match self.tail {
            Some(tail) => tail.bind(builder),
            None => Ok(builder),
        }
    }
}

impl Lowered {
    /// Calls its inputs by other names.
    fn rename(&mut self, name: impl Fn(usize) -> Arg) {
        for (arg, _) in self.dispatches.iter_mut().flat_map(|dispatch| &mut dispatch.args) {
            if let Arg::Input(i) = *arg {
                *arg = name(i);
            }
        }
    }

    /// Adds what runs afterwards, with temporaries of its own.
    fn append(&mut self, mut after: Self) {
        for (arg, _) in after.dispatches.iter_mut().flat_map(|dispatch| &mut dispatch.args) {
            if let Arg::Scratch(i) = arg {
                *i += self.scratch.len();
            }
        }
        self.dispatches.append(&mut after.dispatches);
        self.scratch.append(&mut after.scratch);
    }
}

impl From<Dispatch> for Lowered {
    fn from(dispatch: Dispatch) -> Self {
        Self { dispatches: vec![dispatch], scratch: Vec::new() }
    }
}
