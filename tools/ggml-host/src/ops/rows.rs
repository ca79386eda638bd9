//! Ops along rows, in the forms that training and inference use beside the plain ones.

use llama_cpp_sys_2 as sys;

use crate::{Context, Rope, Tensor};

builders! {
    /// Rows less their mean, divided by their standard deviation.
    norm(x; eps: f32) = ggml_norm;
    /// `rms_norm` over `x`.
    rms_norm_in_place(x; eps: f32) = ggml_rms_norm_inplace;
    /// Rows divided by their length.
    l2_norm(x; eps: f32) = ggml_l2_norm;
    /// `norm` over groups of the channels (axis 2).
    group_norm(x; groups: i32, eps: f32) = ggml_group_norm;
    /// The sum of all elements.
    sum(x) = ggml_sum;
    /// The sum of each row.
    sum_rows(x) = ggml_sum_rows;
    /// The mean of each row.
    mean(x) = ggml_mean;
    /// The sums of the first 1, 2, 3, ... elements of each row.
    cumsum(x) = ggml_cumsum;
    /// The softmax of each row, over `x`.
    soft_max_in_place(x) = ggml_soft_max_inplace;
    /// Gradient of a softmax from that of its result and the result, over the gradient. `bias` is the forward op's.
    soft_max_back_in_place(gradient, result; scale: f32, bias: f32) = ggml_soft_max_ext_back_inplace;
    /// The indices that sort each row ascending: I32.
    argsort(x; descending: u32) = ggml_argsort;
}

impl Context {
    /// [`Context::rope`] over `x`.
    pub fn rope_in_place<'c>(&'c self, x: Tensor<'c>, positions: Tensor<'c>, rope: &Rope) -> Tensor<'c> {
        let (x, positions, none) = (x.ptr.as_ptr(), positions.ptr.as_ptr(), std::ptr::null_mut());
        let (dims, mode, base, scale) = (rope.dims as i32, rope.mode(), rope.freq_base, rope.freq_scale);
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe {
            let c = self.raw();
            Tensor::from_raw(sys::ggml_rope_ext_inplace(
                c, x, positions, none, dims, mode, 0, base, scale, 0.0, 1.0, 32.0, 1.0,
            ))
        }
    }

    /// Attention of `q [hd, tokens, heads]` over `k [hd, kv, kv heads]` and `v [hd v, kv, kv heads]`: `[hd v, heads, tokens]`. `mask`
    /// is F16 `[kv, tokens]`; a `softcap` of 0 is none.
    pub fn flash_attn<'c>(
        &'c self,
        [q, k, v]: [Tensor<'c>; 3],
        mask: Option<Tensor<'c>>,
        scale: f32,
        softcap: f32,
    ) -> Tensor<'c> {
        let mask = mask.map_or(std::ptr::null_mut(), |m| m.ptr.as_ptr());
        let (q, k, v) = (q.ptr.as_ptr(), k.ptr.as_ptr(), v.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_flash_attn_ext(self.raw(), q, k, v, mask, scale, 0.0, softcap)) }
    }
}
