//! Ops that compute every element by itself, and their forms in place: those write over their first operand and are views of it.

use llama_cpp_sys_2 as sys;

use crate::tensor::static_str;
use crate::{Context, Tensor, Type};

/// A function of one element without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unary(sys::ggml_unary_op);

impl Unary {
    /// Every one that the engine knows. XIELU has parameters and is none.
    pub fn all() -> impl Iterator<Item = Unary> {
        (0..sys::GGML_UNARY_OP_COUNT).filter(|&op| op != sys::GGML_UNARY_OP_XIELU).map(Unary)
    }

    /// ggml's name, such as `SILU`.
    pub fn name(self) -> &'static str {
        // SAFETY: ggml returns a static string for every number below the count.
        unsafe { static_str(sys::ggml_unary_op_name(self.0)) }
    }
}

/// A gated unit without parameters: the activation of one half times the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glu(sys::ggml_glu_op);

impl Glu {
    /// Every one that the engine knows. Those that clamp have parameters and are none.
    pub fn all() -> impl Iterator<Item = Glu> {
        let clamps = [sys::GGML_GLU_OP_SWIGLU_OAI, sys::GGML_GLU_OP_SWIGLU_CLAMP];
        (0..sys::GGML_GLU_OP_COUNT).filter(move |op| !clamps.contains(op)).map(Glu)
    }

    /// ggml's name, such as `SWIGLU`.
    pub fn name(self) -> &'static str {
        // SAFETY: ggml returns a static string for every number below the count.
        unsafe { static_str(sys::ggml_glu_op_name(self.0)) }
    }
}

builders! {
    /// `a + b` over `a`.
    add_in_place(a, b) = ggml_add_inplace;
    /// `a - b` over `a`.
    sub_in_place(a, b) = ggml_sub_inplace;
    /// `a * b` over `a`.
    mul_in_place(a, b) = ggml_mul_inplace;
    /// `a / b` over `a`.
    div_in_place(a, b) = ggml_div_inplace;
    /// `a` plus the one element of `b`.
    add1(a, b) = ggml_add1;
    /// `a` plus the one element of `b`, over `a`.
    add1_in_place(a, b) = ggml_add1_inplace;
    /// Rows `a [n, m, tokens]` plus those of `b [n, experts]` that `ids [m, tokens]` (I32) names.
    add_id(a, b, ids) = ggml_add_id;
    /// `a * factor + bias`.
    scale_bias(a; factor: f32, bias: f32) = ggml_scale_bias;
    /// `a * factor` over `a`.
    scale_in_place(a; factor: f32) = ggml_scale_inplace;
    /// The square of `a`.
    sqr(a) = ggml_sqr;
    /// The square of `a`, over `a`.
    sqr_in_place(a) = ggml_sqr_inplace;
    /// The square root of `a`.
    sqrt(a) = ggml_sqrt;
    /// The natural logarithm of `a`.
    log(a) = ggml_log;
    /// The sine of `a`.
    sin(a) = ggml_sin;
    /// The cosine of `a`.
    cos(a) = ggml_cos;
    /// `a` within bounds.
    clamp(a; min: f32, max: f32) = ggml_clamp;
    /// `a`, with negative elements times `slope`; over `a` where `in_place`.
    leaky_relu(a; slope: f32, in_place: bool) = ggml_leaky_relu;
    /// `a` of every element the constant.
    fill(a; value: f32) = ggml_fill;
    /// The number of equal elements of two I32 tensors, as one I64.
    count_equal(a, b) = ggml_count_equal;
    /// One step of SGD in place on `weights`; `params` holds `[alpha, weight decay]`.
    opt_step_sgd(weights, gradient, params) = ggml_opt_step_sgd;
}

impl Context {
    /// A function of every element.
    pub fn unary<'c>(&'c self, op: Unary, a: Tensor<'c>) -> Tensor<'c> {
        // SAFETY: the context and the operand are valid for 'c, and the number is below the count.
        unsafe { Tensor::from_raw(sys::ggml_unary(self.raw(), a.ptr.as_ptr(), op.0)) }
    }

    /// A function of every element, over the operand.
    pub fn unary_in_place<'c>(&'c self, op: Unary, a: Tensor<'c>) -> Tensor<'c> {
        // SAFETY: as for `unary`.
        unsafe { Tensor::from_raw(sys::ggml_unary_inplace(self.raw(), a.ptr.as_ptr(), op.0)) }
    }

    /// A gated unit of the halves of each row; `swapped` takes the second as the gate.
    pub fn glu<'c>(&'c self, op: Glu, a: Tensor<'c>, swapped: bool) -> Tensor<'c> {
        // SAFETY: as for `unary`; ggml checks that rows are contiguous.
        unsafe { Tensor::from_raw(sys::ggml_glu(self.raw(), a.ptr.as_ptr(), op.0, swapped)) }
    }

    /// A gated unit of a gate and what it gates.
    pub fn glu_split<'c>(&'c self, op: Glu, gate: Tensor<'c>, linear: Tensor<'c>) -> Tensor<'c> {
        // SAFETY: as for `glu`.
        unsafe { Tensor::from_raw(sys::ggml_glu_split(self.raw(), gate.ptr.as_ptr(), linear.ptr.as_ptr(), op.0)) }
    }

    /// `a` in another type.
    pub fn cast<'c>(&'c self, a: Tensor<'c>, dtype: Type) -> Tensor<'c> {
        // SAFETY: the context and the operand are valid for 'c.
        unsafe { Tensor::from_raw(sys::ggml_cast(self.raw(), a.ptr.as_ptr(), dtype.0)) }
    }
}
