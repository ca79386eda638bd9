//! Op builders: each adds a tensor to the context that holds the result. Extents are innermost first.

use llama_cpp_sys_2 as sys;

use crate::{Context, Tensor};

/// Which lanes a rotary embedding pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeMode {
    /// Neighbours: (0, 1), (2, 3), ...
    Normal,
    /// Halves: (0, n/2), (1, n/2 + 1), ...
    Neox,
}

/// Parameters of a rotary embedding without context extension.
#[derive(Clone, Copy, Debug)]
pub struct Rope {
    /// Number of rotated lanes of a head.
    pub dims: usize,
    /// Which lanes form a pair.
    pub mode: RopeMode,
    /// Base of the frequencies.
    pub freq_base: f32,
    /// Factor on the positions.
    pub freq_scale: f32,
}

impl Rope {
    fn mode(&self) -> i32 {
        match self.mode {
            RopeMode::Normal => sys::LLAMA_ROPE_TYPE_NORM,
            RopeMode::Neox => sys::LLAMA_ROPE_TYPE_NEOX,
        }
    }
}

/// Builders of one result from operands that outlive the context's borrow.
macro_rules! builders {
    ($($(#[$doc:meta])* $name:ident($($arg:ident),+ $(; $($value:ident: $ty:ty),+)?) = $raw:ident;)*) => {
        impl Context {
            $(
                $(#[$doc])*
                pub fn $name<'c>(&'c self, $($arg: Tensor<'c>),+ $(, $($value: $ty),+)?) -> Tensor<'c> {
                    // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
                    unsafe { Tensor::from_raw(sys::$raw(self.raw(), $($arg.ptr.as_ptr()),+ $(, $($value),+)?)) }
                }
            )*
        }
    };
}

mod elementwise;
mod places;
mod rows;
mod spatial;

pub use elementwise::{Glu, Unary};
pub use spatial::{Convolution, Pooling};

builders! {
    /// `a + b`, with `b` repeated to the shape of `a`.
    add(a, b) = ggml_add;
    /// `a - b`, with `b` repeated to the shape of `a`.
    sub(a, b) = ggml_sub;
    /// `a * b`, with `b` repeated to the shape of `a`.
    mul(a, b) = ggml_mul;
    /// `a / b`, with `b` repeated to the shape of `a`.
    div(a, b) = ggml_div;
    /// `a * factor`.
    scale(a; factor: f32) = ggml_scale;
    /// `weights [k, n]` times `x [k, m]`: `[n, m]`. Batches of `weights` repeat over those of `x`.
    mul_mat(weights, x) = ggml_mul_mat;
    /// Sum over k of `a [n, k]` times `b [m, k]`: `[n, m]`. Batches of `a` repeat over those of `b`.
    out_prod(a, b) = ggml_out_prod;
    /// Rows of `x` divided by their root mean square.
    rms_norm(x; eps: f32) = ggml_rms_norm;
    /// Gradient of `rms_norm(x)` from the gradient of its result.
    rms_norm_back(gradient, x; eps: f32) = ggml_rms_norm_back;
    /// `silu(gate) * up`.
    swiglu(gate, up) = ggml_swiglu_split;
    /// `x * sigmoid(x)`.
    silu(x) = ggml_silu;
    /// Gradient of `silu(x)` from the gradient of its result.
    silu_back(gradient, x) = ggml_silu_back;
    /// Rows of `table [n, rows]` picked by `indices` (I32): `[n, number of indices]` in F32.
    get_rows(table, indices) = ggml_get_rows;
    /// Gradient of `get_rows(table, indices)` from the gradient of its result: rows added up per index.
    get_rows_back(gradient, indices, table) = ggml_get_rows_back;
    /// `x` repeated to the shape of `like`.
    repeat(x, like) = ggml_repeat;
    /// Gradient of `repeat`: `x` summed over its copies of the shape of `like`.
    repeat_back(x, like) = ggml_repeat_back;
    /// `a` in dense memory.
    cont(a) = ggml_cont;
    /// `a` written into `b`, converted to its type.
    cpy(a, b) = ggml_cpy;
    /// A copy of `a`.
    dup(a) = ggml_dup;
    /// The first two axes of `a` exchanged, as a view.
    transpose(a) = ggml_transpose;
    /// Index of the largest element of each row: I32 `[rows]`.
    argmax(a) = ggml_argmax;
    /// Mean over rows of `-sum(labels * log_softmax(logits))`: one element. Every row counts, even one of zero labels.
    cross_entropy_loss(logits, labels) = ggml_cross_entropy_loss;
    /// Gradient of `cross_entropy_loss` from that of its result.
    cross_entropy_loss_back(gradient, logits, labels) = ggml_cross_entropy_loss_back;
    /// One AdamW step in place on `weights`, `m` and `v`; `params` holds
    /// `[alpha, beta1, beta2, eps, weight decay, 1/(1 - beta1^t), 1/(1 - beta2^t)]`.
    opt_step_adamw(weights, gradient, m, v, params) = ggml_opt_step_adamw;
}

impl Context {
    /// `softmax(scale * x + mask)` along rows. `mask` is F32 or F16 and repeats over the outer axes.
    pub fn soft_max<'c>(&'c self, x: Tensor<'c>, mask: Option<Tensor<'c>>, scale: f32) -> Tensor<'c> {
        let mask = mask.map_or(std::ptr::null_mut(), |m| m.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_soft_max_ext(self.raw(), x.ptr.as_ptr(), mask, scale, 0.0)) }
    }

    /// Gradient of `soft_max` from the gradient of its result and that result.
    pub fn soft_max_back<'c>(&'c self, gradient: Tensor<'c>, result: Tensor<'c>, scale: f32) -> Tensor<'c> {
        let (gradient, result) = (gradient.ptr.as_ptr(), result.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_soft_max_ext_back(self.raw(), gradient, result, scale, 0.0)) }
    }

    /// Rotary embedding of `x [head size, heads, tokens]` at `positions` (I32, one per token). `factors` divide the
    /// frequencies of the pairs.
    pub fn rope<'c>(
        &'c self,
        x: Tensor<'c>,
        positions: Tensor<'c>,
        factors: Option<Tensor<'c>>,
        rope: &Rope,
    ) -> Tensor<'c> {
        let (x, positions) = (x.ptr.as_ptr(), positions.ptr.as_ptr());
        let factors = factors.map_or(std::ptr::null_mut(), |f| f.ptr.as_ptr());
        let (dims, mode, base, scale) = (rope.dims as i32, rope.mode(), rope.freq_base, rope.freq_scale);
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe {
            let c = self.raw();
            Tensor::from_raw(sys::ggml_rope_ext(
                c, x, positions, factors, dims, mode, 0, base, scale, 0.0, 1.0, 32.0, 1.0,
            ))
        }
    }

    /// Gradient of `rope` from the gradient of its result.
    pub fn rope_back<'c>(
        &'c self,
        gradient: Tensor<'c>,
        positions: Tensor<'c>,
        factors: Option<Tensor<'c>>,
        rope: &Rope,
    ) -> Tensor<'c> {
        let (g, positions) = (gradient.ptr.as_ptr(), positions.ptr.as_ptr());
        let factors = factors.map_or(std::ptr::null_mut(), |f| f.ptr.as_ptr());
        let (dims, mode, base, scale) = (rope.dims as i32, rope.mode(), rope.freq_base, rope.freq_scale);
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe {
            let c = self.raw();
            let g = sys::ggml_rope_ext_back(c, g, positions, factors, dims, mode, 0, base, scale, 0.0, 1.0, 32.0, 1.0);
            Tensor::from_raw(g)
        }
    }

    /// A dense tensor seen with other extents of the same product.
    pub fn reshape<'c>(&'c self, a: Tensor<'c>, extents: [usize; 4]) -> Tensor<'c> {
        let [x, y, z, w] = extents.map(|n| n as i64);
        // SAFETY: the context and the operand are valid for 'c; ggml checks the number of elements.
        unsafe { Tensor::from_raw(sys::ggml_reshape_4d(self.raw(), a.ptr.as_ptr(), x, y, z, w)) }
    }

    /// A view in which axis `i` of `a` becomes axis `axes[i]`.
    pub fn permute<'c>(&'c self, a: Tensor<'c>, axes: [usize; 4]) -> Tensor<'c> {
        let [x, y, z, w] = axes.map(|n| n as i32);
        // SAFETY: the context and the operand are valid for 'c; ggml checks that the axes are a permutation.
        unsafe { Tensor::from_raw(sys::ggml_permute(self.raw(), a.ptr.as_ptr(), x, y, z, w)) }
    }

    /// A view of `extents` elements at a byte offset, with the strides of axes 1 to 3 in bytes. It must lie within `a`.
    pub fn view<'c>(&'c self, a: Tensor<'c>, extents: [usize; 4], strides: [usize; 3], offset: usize) -> Tensor<'c> {
        let [x, y, z, w] = extents.map(|n| n as i64);
        let [sy, sz, sw] = strides;
        let a = a.ptr.as_ptr();
        // SAFETY: the context and the operand are valid for 'c; ggml checks that the view lies within its root.
        unsafe { Tensor::from_raw(sys::ggml_view_4d(self.raw(), a, x, y, z, w, sy, sz, sw, offset)) }
    }
}
