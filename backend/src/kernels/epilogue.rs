//! Elementwise ops that a kernel applies to its result before it stores it, so that the result never travels through memory.
//!
//! An epilogue is a straight program over values: the kernel's own result, extra operands, and the results of earlier steps. The
//! last step's result goes to the output; any other may go to an extra operand as well. The other half is
//! `shaders/glsl/epilogue.glsl`.

use super::dispatch::Builder;
use super::rotate::{Rotation, Turn};
use super::{Access, Arg, Operand, Refusal, elementwise};
use crate::graph::{DType, Desc, Family, Op, infer};

/// Extra operands that a fused kernel takes.
pub const MAX_EXTRAS: usize = 3;

/// Steps of an epilogue that a fused kernel takes.
pub const MAX_STEPS: usize = 8;

/// Where a step takes a value from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// 0 is the kernel's own result, `i` the result of step `i - 1`.
    Result(usize),
    /// The result of the twin, where the kernel has one.
    Second,
    /// Extra operand `i`.
    Extra(usize),
}

/// One elementwise op.
#[derive(Clone, Debug, PartialEq)]
pub struct EpilogueStep {
    /// An op of [`Family::Elementwise`].
    pub op: Op,
    /// Its operands, in its order.
    pub inputs: Vec<Source>,
    /// The extra operand that gets this step's result as well.
    pub store: Option<usize>,
}

/// What happens to a kernel's result before it is stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// Steps in order; the last one gives the output, the kernel's own result does where there are none.
    pub steps: Vec<EpilogueStep>,
    /// The extra operand that gets the kernel's own result as well.
    pub store_root: Option<usize>,
    /// Number of extra operands.
    pub extras: usize,
}

/// A second matrix product that is added to the first, times a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SecondProduct {
    /// [`Op::MulMat`] or [`Op::OutProd`], of operands 2 and 3.
    pub op: Op,
    /// Factor on it.
    pub scale: f32,
}

/// How a kernel normalises the right factor of its product on the way: `x / sqrt(mean of x^2 + eps)` over what is summed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norm {
    /// Added to the mean of squares.
    pub eps: f32,
    /// Whether an operand of one value for each element of a sum is multiplied on it.
    pub gain: bool,
}

/// An op with what is done in the same dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Fused {
    /// The op whose kernel does all of it.
    pub op: Op,
    /// Whether there is a second [`Op::MulMat`] of the same right factor, whose result is [`Source::Second`]. Its left factor, of the
    /// kind of the op's, follows the operands of the op.
    pub twin: bool,
    /// What is done to the right factor of [`Op::MulMat`]; the gain follows the operands of the op and of the twin.
    pub norm: Option<Norm>,
    /// A product added to the op's own, which must be one; its operands follow those of the op.
    pub second: Option<SecondProduct>,
    /// What happens to the result.
    pub epilogue: Epilogue,
    /// What happens to the last result of the epilogue before it goes to the output; its operands follow all others.
    pub rotation: Option<Rotation>,
}

impl Fused {
    /// An op with an epilogue.
    pub fn new(op: Op, epilogue: Epilogue) -> Self {
        Self { op, twin: false, norm: None, second: None, epilogue, rotation: None }
    }
}

/// Constant ids of what becomes of each extra operand, of the number of steps, and of the first step.
const EXTRAS: u32 = 36;
const STEPS: u32 = 39;
const STEP: u32 = 40;
const IDS_PER_STEP: u32 = 3;

/// What becomes of an extra operand.
const READ: u32 = 0x100;
const GETS: u32 = 0x200;

/// Number of the twin's result among the values of the program: that of an extra operand which its shader does not have.
const SECOND: u32 = 2;

/// Number of the kernel's own result among the values of the program, after the extra operands.
const RESULT: usize = MAX_EXTRAS;

/// A shader with an epilogue.
struct Variant {
    /// The shader that does the same without one.
    plain: &'static str,
    rotated: bool,
    name: &'static str,
    /// Operands that it binds before the extra ones.
    others: u32,
    /// Extra operands that it binds, whether an epilogue has them or not.
    extras: u32,
}

const fn variant(plain: &'static str, name: &'static str, others: u32) -> Variant {
    Variant { plain, rotated: false, name, others, extras: MAX_EXTRAS as u32 }
}

const fn twin(name: &'static str) -> Variant {
    Variant { plain: name, rotated: false, name, others: 5, extras: SECOND }
}

const fn rotated(plain: &'static str, name: &'static str, others: u32, extras: u32) -> Variant {
    Variant { plain, rotated: true, name, others, extras }
}

const VARIANTS: [Variant; 42] = [
    variant("binary", "binary_fused", 3),
    variant("gemm", "gemm_fused", 3),
    variant("gemm_dots", "gemm_dots_fused", 3),
    variant("gemm_dots_normed", "gemm_dots_normed", 4),
    twin("gemm_dots_twin"),
    variant("gemm_matrix", "gemm_matrix_fused", 3),
    variant("gemm_matrix_bf16", "gemm_matrix_bf16_fused", 3),
    variant("gemm_matrix_bf16_pair", "gemm_matrix_bf16_pair", 5),
    variant("gemm_matrix_pair", "gemm_matrix_pair", 5),
    variant("gemm_matrix_parted", "gemm_matrix_parted_fused", 3),
    variant("gemm_normed", "gemm_normed", 4),
    variant("gemm_pair", "gemm_pair", 5),
    variant("gemm_staged", "gemm_staged_fused", 3),
    variant("gemm_staged_pair", "gemm_staged_pair", 5),
    variant("gemm_subgroup", "gemm_subgroup_fused", 3),
    variant("gemm_subgroup_pair", "gemm_subgroup_pair", 5),
    twin("gemm_twin"),
    variant("layer_norm", "layer_norm_fused", 2),
    variant("repeat_back", "repeat_back_fused", 2),
    variant("rms_norm", "rms_norm_fused", 2),
    variant("rms_norm_back", "rms_norm_back_fused", 3),
    variant("rope", "rope_fused", 3),
    variant("rope_factors", "rope_factors_fused", 4),
    variant("softmax", "softmax_fused", 2),
    variant("softmax_back", "softmax_back_fused", 3),
    variant("softmax_masked", "softmax_masked_fused", 3),
    variant("unary", "unary_fused", 2),
    rotated("gemm", "gemm_rotated", 5, 3),
    rotated("gemm_dots", "gemm_dots_rotated", 5, 3),
    rotated("gemm_dots_normed", "gemm_dots_normed_rotated", 6, 2),
    rotated("gemm_matrix", "gemm_matrix_rotated", 5, 3),
    rotated("gemm_matrix_bf16", "gemm_matrix_bf16_rotated", 5, 3),
    rotated("gemm_matrix_bf16_pair", "gemm_matrix_bf16_pair_rotated", 7, 1),
    rotated("gemm_matrix_pair", "gemm_matrix_pair_rotated", 7, 1),
    rotated("gemm_matrix_parted", "gemm_matrix_parted_rotated", 5, 3),
    rotated("gemm_normed", "gemm_normed_rotated", 6, 2),
    rotated("gemm_pair", "gemm_pair_rotated", 7, 1),
    rotated("gemm_staged", "gemm_staged_rotated", 5, 3),
    rotated("gemm_staged_pair", "gemm_staged_pair_rotated", 7, 1),
    rotated("gemm_subgroup", "gemm_subgroup_rotated", 5, 3),
    rotated("gemm_subgroup_pair", "gemm_subgroup_pair_rotated", 7, 1),
    rotated("rms_norm", "rms_norm_rotated", 4, 3),
];

/// The first extra operand of a shader that has an epilogue.
pub(super) fn first_extra(shader: &str) -> Option<u32> {
    VARIANTS.iter().find(|variant| variant.name == shader).map(|variant| variant.others)
}

fn refuse<T>(what: String) -> Result<T, Refusal> {
    Err(Refusal(format!("epilogue: {what}")))
}

/// An epilogue that keeps its rules, with its operands.
#[derive(Clone, Copy)]
pub(super) struct Tail<'a> {
    epilogue: &'a Epilogue,
    extras: &'a [Operand],
    turn: Option<Turn<'a>>,
    /// Whether the kernel has a second result.
    twin: bool,
}

impl<'a> Tail<'a> {
    /// Of a shader that has an epilogue in any case.
    pub(super) const EMPTY: Self = Self {
        epilogue: &Epilogue { steps: Vec::new(), store_root: None, extras: 0 },
        extras: &[],
        turn: None,
        twin: false,
    };

    /// Checks an epilogue of a kernel that writes `output`; nothing is left of one that does nothing.
    pub(super) fn new(
        fused: &'a Fused,
        extras: &'a [Operand],
        turn: Option<Turn<'a>>,
        output: &Operand,
    ) -> Result<Option<Self>, Refusal> {
        let Fused { ref epilogue, twin, .. } = *fused;
        let tail = Self { epilogue, extras, turn, twin };
        let (named, given) = (epilogue.extras, extras.len());
        if named != given || given > MAX_EXTRAS {
            return refuse(format!("{given} extra operands given, {named} named, a kernel takes {MAX_EXTRAS}"));
        }
        if epilogue.steps.len() > MAX_STEPS {
            return refuse(format!("{} steps, a kernel takes {MAX_STEPS}", epilogue.steps.len()));
        }
        let result = output.desc(Arg::Output)?;
        if result.dtype != DType::F32 {
            return refuse(format!("the output is {:?}, must be F32", result.dtype));
        }
        for (i, extra) in extras.iter().enumerate() {
            let (arg, desc) = (Arg::Extra(i), extra.desc(Arg::Extra(i))?);
            if desc != result {
                let Desc { dtype, shape } = desc;
                return Err(Refusal(format!("{arg}: is {dtype:?} {shape:?}, must be F32 {:?}", result.shape)));
            }
        }
        for (number, step) in epilogue.steps.iter().enumerate() {
            tail.check_step(number, step, result)
                .map_err(|rule| Refusal(format!("epilogue: step {number}: {}: {rule}", step.op.row().name)))?;
        }
        if let Some((_, extra)) = tail.stores().find(|&(_, extra)| extra >= given) {
            return refuse(format!("extra operand {extra} of {given} is stored"));
        }
        (0..given).try_for_each(|i| tail.role(i).map(drop))?;
        Ok((turn.is_some() || *epilogue != Epilogue::default()).then_some(tail))
    }

    /// That step `number` of results of this kind takes what exists by then.
    fn check_step(&self, number: usize, step: &EpilogueStep, result: Desc) -> Result<(), String> {
        if step.op.row().family != Family::Elementwise {
            return Err("is not elementwise".into());
        }
        infer(&step.op, &vec![result; step.inputs.len()], Some(result))
            .map_err(|e| format!("{}: {}", e.site, e.rule))?;
        step.inputs.iter().try_for_each(|source| match *source {
            Source::Result(i) if i > number => Err(format!("takes result {i}, which comes later")),
            Source::Extra(i) if i >= self.extras.len() => {
                Err(format!("takes extra operand {i} of {}", self.extras.len()))
            }
            Source::Second if !self.twin => Err("takes a second result, which the kernel does not have".into()),
            Source::Result(_) | Source::Second | Source::Extra(_) => Ok(()),
        })
    }

    /// Every store: number of the result and extra operand.
    fn stores(&self) -> impl Iterator<Item = (usize, usize)> {
        let stores = std::iter::once(self.epilogue.store_root).chain(self.epilogue.steps.iter().map(|step| step.store));
        stores.enumerate().filter_map(|(result, store)| Some((result, store?)))
    }

    /// What becomes of an extra operand: it is read, or gets one result.
    fn role(&self, extra: usize) -> Result<(Access, u32), Refusal> {
        let read = self.epilogue.steps.iter().any(|step| step.inputs.contains(&Source::Extra(extra)));
        let mut stores = self.stores().filter(|&(_, stored)| stored == extra);
        match (read, stores.next(), stores.next()) {
            (true, None, _) => Ok((Access::Read, READ)),
            (false, Some((result, _)), None) => Ok((Access::Write, GETS + (RESULT + result) as u32)),
            (false, None, _) => Err(Refusal(format!("{}: is neither read nor stored", Arg::Extra(extra)))),
            (false, Some(_), Some(_)) => Err(Refusal(format!("{}: is stored twice", Arg::Extra(extra)))),
            (true, Some(_), _) => Err(Refusal(format!("{}: is read and stored", Arg::Extra(extra)))),
        }
    }

    /// The rotation behind the steps.
    pub(super) fn turn(&self) -> Option<Turn<'a>> {
        self.turn
    }

    /// The shader that stands for a plain one, on a device that binds so many operands.
    pub(super) fn shader(&self, plain: &str, most: u32) -> Result<&'static str, Refusal> {
        let rotated = self.turn.is_some();
        let found = VARIANTS.iter().find(|variant| variant.plain == plain && variant.rotated == rotated);
        let &Variant { name, others, extras, .. } = found.ok_or_else(|| {
            let what = if rotated { "rotation" } else { "epilogue" };
            Refusal(format!("shader {plain} takes no {what}"))
        })?;
        let (given, operands) = (self.extras.len(), others + extras);
        if given > extras as usize {
            return Err(Refusal(format!("shader {name}: {given} extra operands given, it takes {extras}")));
        }
        if operands > most {
            return Err(Refusal(format!("shader {name}: binds {operands} operands, the device takes {most}")));
        }
        Ok(name)
    }

    /// Binds what follows the output, and sets the program. The constants of extra operands that are not bound keep their defaults.
    pub(super) fn bind(&self, mut builder: Builder<'a>) -> Result<Builder<'a>, Refusal> {
        if let Some(turn) = &self.turn {
            builder = turn.bind(builder)?;
        }
        for (i, extra) in self.extras.iter().enumerate() {
            let (access, role) = self.role(i)?;
            builder = builder.operand(Arg::Extra(i), extra, access)?.set(EXTRAS + i as u32, role);
            if access == Access::Write {
                builder = builder.covering(extra);
            }
        }
        builder = builder.set(STEPS, self.epilogue.steps.len() as u32);
        let value = |source: Source| match source {
            Source::Extra(i) => i as u32,
            Source::Second => SECOND,
            Source::Result(i) => (RESULT + i) as u32,
        };
        for number in 0..MAX_STEPS {
            let (code, scale, bias) = match self.epilogue.steps.get(number) {
                None => (0, 1.0, 0.0),
                Some(step) => {
                    let op = elementwise::code(&step.op)
                        .ok_or_else(|| Refusal(format!("epilogue: step {number}: no kernel has {:?}", step.op)))?;
                    let operands = step.inputs.iter().rev().fold(0, |code, &source| code << 8 | value(source));
                    let (scale, bias) = match step.op {
                        Op::Scale { scale, bias } => (scale, bias),
                        _ => (1.0, 0.0),
                    };
                    (op | operands << 8, scale, bias)
                }
            };
            let id = STEP + IDS_PER_STEP * number as u32;
            builder = builder.set(id, code).set_f32(id + 1, scale).set_f32(id + 2, bias);
        }
        Ok(builder)
    }
}
