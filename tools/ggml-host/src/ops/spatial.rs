//! Convolutions and pooling over images `[width, height, channels, batch]`.

use llama_cpp_sys_2 as sys;

use crate::{Context, Tensor, Type};

/// Steps of a kernel over an image, for its two axes.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    /// Distance between places.
    pub stride: [i32; 2],
    /// Zeros around the image.
    pub padding: [i32; 2],
    /// Distance between the kernel's elements.
    pub dilation: [i32; 2],
}

/// What is pooled, and over which windows.
#[derive(Clone, Copy, Debug)]
pub struct Pooling {
    /// The mean of a window instead of its maximum.
    pub mean: bool,
    /// Extents of the window.
    pub kernel: [i32; 2],
    /// Distance between windows.
    pub stride: [i32; 2],
    /// Border around the image.
    pub padding: [i32; 2],
}

impl Pooling {
    fn op(&self) -> sys::ggml_op_pool {
        if self.mean { sys::GGML_OP_POOL_AVG } else { sys::GGML_OP_POOL_MAX }
    }
}

impl Context {
    /// The patches of an image that a kernel meets, as rows of `dtype`.
    pub fn im2col<'c>(&'c self, kernel: Tensor<'c>, image: Tensor<'c>, by: &Convolution, dtype: Type) -> Tensor<'c> {
        let Convolution { stride: [sx, sy], padding: [px, py], dilation: [dx, dy] } = *by;
        let (kernel, image) = (kernel.ptr.as_ptr(), image.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_im2col(self.raw(), kernel, image, sx, sy, px, py, dx, dy, true, dtype.0)) }
    }

    /// Gradient of an image of these extents from that of its patches.
    pub fn im2col_back<'c>(
        &'c self,
        patches: Tensor<'c>,
        kernel: Tensor<'c>,
        extents: [usize; 4],
        by: &Convolution,
    ) -> Tensor<'c> {
        let Convolution { stride: [sx, sy], padding: [px, py], dilation: [dx, dy] } = *by;
        let mut ne = extents.map(|n| n as i64);
        let (patches, kernel) = (patches.ptr.as_ptr(), kernel.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml reads four extents.
        unsafe {
            let c = self.raw();
            let t = sys::ggml_im2col_back(c, patches, kernel, ne.as_mut_ptr(), sx, sy, px, py, dx, dy, true);
            Tensor::from_raw(t)
        }
    }

    /// `kernel [kw, kh, channels, filters]` over an image.
    pub fn conv_2d<'c>(&'c self, kernel: Tensor<'c>, image: Tensor<'c>, by: &Convolution) -> Tensor<'c> {
        let Convolution { stride: [sx, sy], padding: [px, py], dilation: [dx, dy] } = *by;
        let (kernel, image) = (kernel.ptr.as_ptr(), image.ptr.as_ptr());
        // SAFETY: the context and all operands are valid for 'c; ggml checks the shapes.
        unsafe { Tensor::from_raw(sys::ggml_conv_2d_direct(self.raw(), kernel, image, sx, sy, px, py, dx, dy)) }
    }

    /// Windows of an image pooled.
    pub fn pool_2d<'c>(&'c self, image: Tensor<'c>, by: &Pooling) -> Tensor<'c> {
        let Pooling { kernel: [kx, ky], stride: [sx, sy], padding: [px, py], .. } = *by;
        let (image, px, py) = (image.ptr.as_ptr(), px as f32, py as f32);
        // SAFETY: the context and the operand are valid for 'c.
        unsafe { Tensor::from_raw(sys::ggml_pool_2d(self.raw(), image, by.op(), kx, ky, sx, sy, px, py)) }
    }

    /// Gradient of `pool_2d(image)` from that of its result.
    pub fn pool_2d_back<'c>(&'c self, gradient: Tensor<'c>, image: Tensor<'c>, by: &Pooling) -> Tensor<'c> {
        let Pooling { kernel: [kx, ky], stride: [sx, sy], padding: [px, py], .. } = *by;
        let (gradient, image, px, py) = (gradient.ptr.as_ptr(), image.ptr.as_ptr(), px as f32, py as f32);
        // SAFETY: the context and all operands are valid for 'c.
        unsafe {
            let c = self.raw();
            Tensor::from_raw(sys::ggml_pool_2d_back(c, gradient, image, by.op(), kx, ky, sx, sy, px, py))
        }
    }
}
