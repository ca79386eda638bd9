//! Shape and dtype rules of the ops. A rule names the operand it refuses and what it wanted.

mod attention;
mod convolution;
mod gather;
mod insets;
mod mixing;
mod places;
mod recurrent;
mod rope;
mod rows;

pub(super) use attention::*;
pub(super) use convolution::*;
pub(super) use gather::*;
pub(super) use insets::*;
pub(super) use mixing::*;
pub(super) use places::*;
pub(super) use recurrent::*;
pub(super) use rope::*;
pub(super) use rows::*;

use std::ops::RangeInclusive;

use super::{DType, Desc, Op, Shape};

/// What a [`ShapeError`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Site {
    /// The list of operands.
    Operands,
    /// Operand `i`.
    Operand(usize),
    /// The output.
    Output,
}

impl std::fmt::Display for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operands => write!(f, "operands"),
            Self::Operand(i) => write!(f, "operand {i}"),
            Self::Output => write!(f, "output"),
        }
    }
}

/// An op's operands or output break its rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op}: {site}: {rule}")]
pub struct ShapeError {
    /// ggml's name of the op.
    pub op: &'static str,
    /// What breaks the rule.
    pub site: Site,
    /// The rule.
    pub rule: String,
}

/// What a rule may look at.
pub(super) struct Call<'a> {
    name: &'static str,
    op: &'a Op,
    inputs: &'a [Desc],
    asked: Option<Desc>,
}

pub(super) type Rule = fn(&Call<'_>) -> Result<Desc, ShapeError>;

/// Whether a tensor of this description can be: no empty axis, whole blocks, a size that 63 bits hold.
pub(super) fn exists(desc: &Desc) -> Result<(), String> {
    let Desc { dtype, shape } = desc;
    if shape.contains(&0) {
        return Err(format!("{shape:?} has an axis of no elements"));
    }
    if !shape[0].is_multiple_of(dtype.block()) {
        return Err(format!(
            "axis 0 of {shape:?} is no multiple of the {} elements of a {dtype:?} block",
            dtype.block()
        ));
    }
    let count = shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(u64::from(n)));
    match count.and_then(|n| n.checked_mul(u64::from(dtype.block_bytes()))) {
        Some(bytes) if bytes <= i64::MAX as u64 => Ok(()),
        _ => Err(format!("{shape:?} has more bytes than 63 bits count")),
    }
}

/// Checks what every op needs, then the op's own rule, then the rule against what the node declares.
pub(super) fn apply(
    name: &'static str,
    operands: RangeInclusive<usize>,
    rule: Rule,
    op: &Op,
    inputs: &[Desc],
    asked: Option<Desc>,
) -> Result<Desc, ShapeError> {
    let call = Call { name, op, inputs, asked };
    if !operands.contains(&inputs.len()) {
        let (min, max) = operands.into_inner();
        let wanted = if min == max { min.to_string() } else { format!("{min} to {max}") };
        return call.refuse(Site::Operands, format!("{} given, {wanted} wanted", inputs.len()));
    }
    let sites = inputs.iter().enumerate().map(|(i, d)| (Site::Operand(i), d));
    for (site, desc) in sites.chain(asked.iter().map(|d| (Site::Output, d))) {
        exists(desc).or_else(|rule| call.refuse(site, rule))?;
    }
    let output = rule(&call)?;
    match asked {
        Some(asked) if asked != output => call.refuse(
            Site::Output,
            format!("is {:?} {:?}, must be {:?} {:?}", asked.dtype, asked.shape, output.dtype, output.shape),
        ),
        _ => Ok(output),
    }
}

impl Call<'_> {
    fn refuse<T>(&self, site: Site, rule: impl Into<String>) -> Result<T, ShapeError> {
        Err(ShapeError { op: self.name, site, rule: rule.into() })
    }

    fn shape(&self, i: usize) -> Shape {
        self.inputs[i].shape
    }

    fn dtype(&self, i: usize, allowed: &[DType]) -> Result<(), ShapeError> {
        let dtype = self.inputs[i].dtype;
        if allowed.contains(&dtype) {
            return Ok(());
        }
        self.refuse(Site::Operand(i), format!("is {dtype:?}, must be one of {allowed:?}"))
    }

    fn floats(&self) -> Result<(), ShapeError> {
        (0..self.inputs.len()).try_for_each(|i| self.dtype(i, &[DType::F32]))
    }

    fn extent(&self, i: usize, axis: usize, wanted: u32, because: &str) -> Result<(), ShapeError> {
        let shape = self.shape(i);
        if shape[axis] == wanted {
            return Ok(());
        }
        self.refuse(Site::Operand(i), format!("axis {axis} of {shape:?} must be {wanted}, {because}"))
    }

    /// Operand `i` repeats a whole number of times to `whole` on the axes given.
    fn repeats(&self, i: usize, axes: RangeInclusive<usize>, whole: Shape) -> Result<(), ShapeError> {
        let shape = self.shape(i);
        match axes.into_iter().find(|&axis| !whole[axis].is_multiple_of(shape[axis])) {
            Some(axis) => {
                self.refuse(Site::Operand(i), format!("axis {axis} of {shape:?} must divide that of {whole:?}"))
            }
            None => Ok(()),
        }
    }

    fn vector(&self, i: usize, dtype: DType) -> Result<u32, ShapeError> {
        self.dtype(i, &[dtype])?;
        (1..4).try_for_each(|axis| self.extent(i, axis, 1, "for it is a vector"))?;
        Ok(self.shape(i)[0])
    }

    fn matrix(&self, i: usize) -> Result<(), ShapeError> {
        (2..4).try_for_each(|axis| self.extent(i, axis, 1, "for it is a matrix"))
    }

    /// An extent of the output: 32 bits count it.
    fn counted(&self, extent: u64) -> Result<u32, ShapeError> {
        match u32::try_from(extent) {
            Ok(extent) => Ok(extent),
            Err(_) => self.refuse(Site::Output, format!("an axis of {extent} elements is beyond 32 bits")),
        }
    }

    fn asked(&self) -> Result<Desc, ShapeError> {
        self.asked.map_or_else(|| self.refuse(Site::Output, "must be declared, for the op takes it from the node"), Ok)
    }
}

/// What is moved as it is.
const PLAIN: &[DType] = &[DType::F32, DType::F16, DType::BF16, DType::I32, DType::I64];

/// Types that kernels decode: what weights are stored in.
const WEIGHTS: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q8_0,
    DType::Q4_1,
    DType::Q4_0,
    DType::Q5_0,
    DType::Q5_1,
    DType::IQ4_NL,
    DType::MXFP4,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::IQ4_XS,
    DType::TQ1_0,
    DType::TQ2_0,
];

/// Types of a right factor: F32, or what matrix units round that to.
const RIGHT: &[DType] = &[DType::F32, DType::F16, DType::BF16];

pub(super) fn mul_mat(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, WEIGHTS)?;
    call.dtype(1, RIGHT)?;
    let (a, b) = (call.shape(0), call.shape(1));
    call.extent(1, 0, a[0], "as axis 0 of operand 0, which it is summed with")?;
    call.repeats(0, 2..=3, b)?;
    Ok(Desc::f32([a[1], b[1], b[2], b[3]]))
}

pub(super) fn out_prod(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, WEIGHTS)?;
    call.dtype(1, RIGHT)?;
    let (a, b) = (call.shape(0), call.shape(1));
    call.extent(1, 1, a[1], "as axis 1 of operand 0, which it is summed with")?;
    call.repeats(0, 2..=3, b)?;
    Ok(Desc::f32([a[0], b[0], b[2], b[3]]))
}

pub(super) fn binary(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.repeats(1, 0..=3, call.shape(0))?;
    Ok(Desc::f32(call.shape(0)))
}

/// All operands F32 of one shape, which the output has too.
pub(super) fn same_shape(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let shape = call.shape(0);
    for i in 1..call.inputs.len() {
        (0..4).try_for_each(|axis| call.extent(i, axis, shape[axis], "as that of operand 0"))?;
    }
    Ok(Desc::f32(shape))
}

pub(super) fn repeat(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.dtype(0, PLAIN)?;
    let output = call.asked()?.shape;
    call.repeats(0, 0..=3, output)?;
    Ok(Desc { dtype: call.inputs[0].dtype, shape: output })
}

pub(super) fn repeat_back(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let (x, output) = (call.shape(0), call.asked()?.shape);
    match (0..4).find(|&axis| !x[axis].is_multiple_of(output[axis])) {
        Some(axis) => call.refuse(Site::Output, format!("axis {axis} of {output:?} must divide that of {x:?}")),
        None => Ok(Desc::f32(output)),
    }
}

/// Types in blocks that numbers are converted to: ggml computes their quants from a row alone.
const ENCODED: &[DType] = &[DType::Q8_0, DType::Q4_0, DType::Q4_1, DType::Q5_0, DType::Q5_1, DType::IQ4_NL];

pub(super) fn copy(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let (x, output) = (call.inputs[0], call.asked()?);
    let allowed: &[DType] = match x.dtype {
        DType::F32 => &[DType::F32, DType::F16, DType::BF16, DType::I32],
        DType::I32 => &[DType::I32, DType::I64, DType::F32],
        DType::I64 => &[DType::I64, DType::I32],
        _ => &[DType::F32, DType::F16, DType::BF16],
    };
    let as_it_is = x.dtype.is_quantized() && x.dtype == output.dtype;
    let is_float = matches!(x.dtype, DType::F32 | DType::F16 | DType::BF16);
    let encoded = is_float && ENCODED.contains(&output.dtype);
    if !as_it_is && !encoded && !allowed.contains(&output.dtype) {
        let rule = format!("is {:?}, must be one of {allowed:?} for a copy of {:?}", output.dtype, x.dtype);
        return call.refuse(Site::Output, rule);
    }
    if super::elements(&x.shape) != super::elements(&output.shape) {
        return call.refuse(Site::Output, format!("{:?} must have as many elements as {:?}", output.shape, x.shape));
    }
    Ok(output)
}

pub(super) fn cross_entropy(call: &Call<'_>) -> Result<Desc, ShapeError> {
    same_shape(call)?;
    Ok(Desc::f32([1; 4]))
}

pub(super) fn cross_entropy_back(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let x = call.shape(1);
    (0..4).try_for_each(|axis| call.extent(0, axis, 1, "for it is a scalar"))?;
    (0..4).try_for_each(|axis| call.extent(2, axis, x[axis], "as that of operand 1"))?;
    Ok(Desc::f32(x))
}

pub(super) fn adamw(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let w = call.shape(0);
    for i in 1..4 {
        (0..4).try_for_each(|axis| call.extent(i, axis, w[axis], "as that of operand 0"))?;
    }
    if call.vector(4, DType::F32)? != 7 {
        return call.refuse(Site::Operand(4), "must have the 7 parameters");
    }
    Ok(Desc::f32(w))
}
