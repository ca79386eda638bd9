//! Ops that move elements, or write into a part of a tensor.

use llama_cpp_sys_2 as sys;

use crate::{Context, Tensor};

builders! {
    /// A copy of `a` in which `b` is written at a byte offset, with these strides of axes 1 to 3 in bytes.
    set(a, b; nb1: usize, nb2: usize, nb3: usize, offset: usize) = ggml_set;
    /// `set`, over `a`.
    set_in_place(a, b; nb1: usize, nb2: usize, nb3: usize, offset: usize) = ggml_set_inplace;
    /// A copy of `a` to which `b` is added at a byte offset, with these strides of axes 1 to 3 in bytes.
    acc(a, b; nb1: usize, nb2: usize, nb3: usize, offset: usize) = ggml_acc;
    /// `acc`, over `a`.
    acc_in_place(a, b; nb1: usize, nb2: usize, nb3: usize, offset: usize) = ggml_acc_inplace;
    /// Rows of `b` written over those rows of `a` that `ids` (I32 or I64) names.
    set_rows(a, b, ids) = ggml_set_rows;
    /// `a` and `b` one behind the other along an axis.
    concat(a, b; axis: i32) = ggml_concat;
    /// A matrix for each row, with the row on its diagonal.
    diag(a) = ggml_diag;
    /// Elements right of diagonal `past` replaced by -infinity.
    diag_mask_inf(a; past: i32) = ggml_diag_mask_inf;
    /// Elements right of diagonal `past` replaced by 0.
    diag_mask_zero(a; past: i32) = ggml_diag_mask_zero;
    /// `diag_mask_zero`, over `a`.
    diag_mask_zero_in_place(a; past: i32) = ggml_diag_mask_zero_inplace;
    /// Zeros behind the elements of each axis.
    pad(a; x: i32, y: i32, z: i32, w: i32) = ggml_pad;
    /// Rows continued on both sides by their mirror image.
    pad_reflect(a; before: i32, after: i32) = ggml_pad_reflect_1d;
    /// Elements moved along each axis, those that leave come in on the other side.
    roll(a; x: i32, y: i32, z: i32, w: i32) = ggml_roll;
    /// `a` repeated to these extents.
    repeat_to(a; x: i64, y: i64, z: i64, w: i64) = ggml_repeat_4d;
}

impl Context {
    /// Stacked products: for token t and slot s, `weights [k, n, experts]` at `ids[s, t]` times `x [k, slots or 1, tokens]`.
    pub fn mul_mat_id<'c>(&'c self, weights: Tensor<'c>, x: Tensor<'c>, ids: Tensor<'c>) -> Tensor<'c> {
        let (weights, x, ids) = (weights.ptr.as_ptr(), x.ptr.as_ptr(), ids.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_mul_mat_id(self.raw(), weights, x, ids)) }
    }
}
