//! Rules of convolutions, of their patches laid out as matrices, and of pools.

use super::{Call, ShapeError, Site};
use crate::graph::{DType, Desc, Op, Shape, Window};

/// Dtypes of a convolution's kernel.
const KERNELS: &[DType] = &[DType::F32, DType::F16];

impl Call<'_> {
    /// Positions of a window of the extents of operand 0's kernel over an input, along the first `axes` axes; 1 on the others.
    fn positions(&self, window: &Window, axes: usize, input: Shape, kernel: Shape) -> Result<[u32; 3], ShapeError> {
        let mut positions = [1; 3];
        for axis in 0..axes {
            positions[axis] = match window.positions(axis, input[axis], kernel[axis]) {
                Some(positions) => positions,
                None => {
                    let rule = format!("{window:?} of {kernel:?} elements has no position on axis {axis} of {input:?}");
                    return self.refuse(Site::Operands, rule);
                }
            };
        }
        Ok(positions)
    }

    /// A product of extents as an extent.
    fn extent_of(&self, factors: &[u32]) -> Result<u32, ShapeError> {
        match factors.iter().try_fold(1_u32, |product, &n| product.checked_mul(n)) {
            Some(extent) => Ok(extent),
            None => self.refuse(Site::Output, format!("an axis of {factors:?} elements is beyond 32 bits")),
        }
    }

    /// Outputs of a transposed convolution on an axis.
    fn spread(&self, input: u32, kernel: u32, stride: u32) -> Result<u32, ShapeError> {
        if stride == 0 {
            return self.refuse(Site::Operands, "are combined at steps of 0 elements, must be at least 1");
        }
        self.counted(u64::from(input - 1) * u64::from(stride) + u64::from(kernel))
    }

    /// That a pool has a window, and moves it.
    fn pool_steps(&self) -> Result<(), ShapeError> {
        match self.op {
            Op::Pool1d(pool) | Op::Pool2d(pool) | Op::Pool2dBack(pool)
                if pool.extent.contains(&0) || pool.stride.contains(&0) =>
            {
                let rule = format!("are pooled by a window of {:?} at steps of {:?}", pool.extent, pool.stride);
                self.refuse(Site::Operands, format!("{rule}; all must be at least 1"))
            }
            _ => Ok(()),
        }
    }

    /// Number of groups of `channels` on axis 3 of operand `i`.
    fn groups(&self, i: usize, channels: u32) -> Result<u32, ShapeError> {
        let shape = self.shape(i);
        if channels == 0 || !shape[3].is_multiple_of(channels) {
            return self
                .refuse(Site::Operand(i), format!("axis 3 of {shape:?} must be a multiple of {channels} channels"));
        }
        Ok(shape[3] / channels)
    }

    /// The matrix of an image's patches.
    fn patches(&self, window: &Window, plane: bool, kernel: Shape, image: Shape) -> Result<Shape, ShapeError> {
        let positions = self.positions(window, if plane { 2 } else { 1 }, image, kernel)?;
        let [w, h, _] = positions;
        Ok(match plane {
            true => [self.extent_of(&kernel[..3])?, w, h, image[3]],
            false => [self.extent_of(&kernel[..2])?, w, image[2], 1],
        })
    }
}

/// Operands kernel, of which only the extents matter, and image.
pub(crate) fn im2col(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Im2Col { window, plane } = call.op else { return call.refuse(Site::Operands, "are not those of patches") };
    call.dtype(1, &[DType::F32])?;
    let (kernel, image) = (call.shape(0), call.shape(1));
    if *plane {
        call.extent(1, 2, kernel[2], "as the channels of operand 0")?;
    } else {
        call.extent(1, 1, kernel[1], "as the channels of operand 0")?;
        call.extent(1, 3, 1, "for its axes are position, channel, image")?;
    }
    call.patches(window, *plane, kernel, image).map(Desc::f32)
}

/// Operands dy, kernel; the output is the image.
pub(crate) fn im2col_back(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Im2ColBack { window, plane } = call.op else {
        return call.refuse(Site::Operands, "are not those of patches");
    };
    call.dtype(0, &[DType::F32])?;
    let (kernel, image) = (call.shape(1), call.asked()?.shape);
    let channels = if *plane { 2 } else { 1 };
    if image[channels] != kernel[channels] || (!plane && image[3] != 1) {
        return call.refuse(Site::Output, format!("{image:?} must have the channels of a kernel of {kernel:?}"));
    }
    let patches = call.patches(window, *plane, kernel, image)?;
    (0..4).try_for_each(|axis| call.extent(0, axis, patches[axis], "as the patches of the output"))?;
    Ok(Desc::f32(image))
}

/// Operands kernel `[kw, kh, kd, oc * channels]`, of which only the extents matter, and images `[w, h, d, n * channels]`.
pub(crate) fn im2col_3d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Im2Col3d { window, channels } = call.op else {
        return call.refuse(Site::Operands, "are not those of patches");
    };
    call.dtype(1, &[DType::F32])?;
    let (kernel, images) = (call.shape(0), call.groups(1, *channels)?);
    let [w, h, d] = call.positions(window, 3, call.shape(1), kernel)?;
    let patch = call.extent_of(&[kernel[0], kernel[1], kernel[2], *channels])?;
    Ok(Desc::f32([patch, w, h, call.extent_of(&[d, images])?]))
}

/// Operand columns `[k * channels, t]`.
pub(crate) fn col2im_1d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::Col2Im1d { stride, channels, pad } = call.op else {
        return call.refuse(Site::Operands, "are not those of columns");
    };
    call.floats()?;
    call.matrix(0)?;
    let [rows, t, ..] = call.shape(0);
    if channels == 0 || !rows.is_multiple_of(channels) {
        return call.refuse(Site::Operand(0), format!("axis 0 of {rows} must be a multiple of {channels} channels"));
    }
    let whole = call.spread(t, rows / channels, stride)?;
    match whole.checked_sub(pad.saturating_mul(2)).filter(|&kept| kept > 0) {
        Some(kept) => Ok(Desc::f32([kept, channels, 1, 1])),
        None => call.refuse(Site::Output, format!("{pad} elements cut from both ends of {whole} leave none")),
    }
}

/// Operands kernel `[kw, kh, ic, oc]`, image `[w, h, ic, n]`.
pub(crate) fn conv_2d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Conv2d(window) = call.op else { return call.refuse(Site::Operands, "are not those of a convolution") };
    call.dtype(0, KERNELS)?;
    call.dtype(1, &[DType::F32])?;
    let (kernel, image) = (call.shape(0), call.shape(1));
    call.extent(1, 2, kernel[2], "as the channels of operand 0")?;
    let [w, h, _] = call.positions(window, 2, image, kernel)?;
    Ok(Desc::f32([w, h, kernel[3], image[3]]))
}

/// Operands kernel `[kw, kh, 1, c]`, image `[w, h, c, n]`.
pub(crate) fn conv_2d_dw(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Conv2dDw(window) = call.op else { return call.refuse(Site::Operands, "are not those of a convolution") };
    call.dtype(0, KERNELS)?;
    call.dtype(1, &[DType::F32])?;
    let (kernel, image) = (call.shape(0), call.shape(1));
    call.extent(0, 2, 1, "for each channel has its own plane")?;
    call.extent(0, 3, image[2], "as the channels of operand 1")?;
    let [w, h, _] = call.positions(window, 2, image, kernel)?;
    Ok(Desc::f32([w, h, image[2], image[3]]))
}

/// Operands kernel `[kw, kh, kd, oc * channels]`, images `[w, h, d, n * channels]`.
pub(crate) fn conv_3d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::Conv3d { window, channels } = call.op else {
        return call.refuse(Site::Operands, "are not those of a convolution");
    };
    call.dtype(0, KERNELS)?;
    call.dtype(1, &[DType::F32])?;
    let (outputs, images) = (call.groups(0, *channels)?, call.groups(1, *channels)?);
    let [w, h, d] = call.positions(window, 3, call.shape(1), call.shape(0))?;
    Ok(Desc::f32([w, h, d, call.extent_of(&[outputs, images])?]))
}

/// Operands kernel `[kw, oc, ic]`, input `[w, ic]`.
pub(crate) fn conv_transpose_1d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::ConvTranspose1d { stride } = call.op else {
        return call.refuse(Site::Operands, "are not those of a transposed convolution");
    };
    call.dtype(0, KERNELS)?;
    call.dtype(1, &[DType::F32])?;
    call.matrix(1)?;
    call.extent(0, 3, 1, "for its axes are position, output, channel")?;
    let (kernel, x) = (call.shape(0), call.shape(1));
    call.extent(1, 1, kernel[2], "as the channels of operand 0")?;
    Ok(Desc::f32([call.spread(x[0], kernel[0], stride)?, kernel[1], 1, 1]))
}

/// Operands kernel `[kw, kh, oc, ic]`, image `[w, h, ic, n]`.
pub(crate) fn conv_transpose_2d(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let &Op::ConvTranspose2d { stride } = call.op else {
        return call.refuse(Site::Operands, "are not those of a transposed convolution");
    };
    call.dtype(0, KERNELS)?;
    call.dtype(1, &[DType::F32])?;
    let (kernel, image) = (call.shape(0), call.shape(1));
    call.extent(1, 2, kernel[3], "as the channels of operand 0")?;
    let [w, h] = [call.spread(image[0], kernel[0], stride)?, call.spread(image[1], kernel[1], stride)?];
    Ok(Desc::f32([w, h, kernel[2], image[3]]))
}

/// The output's extents on axes 0 and 1 are the node's: ggml's paddings may be halves, which its parameters do not tell.
pub(crate) fn pool(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.pool_steps()?;
    let (x, output) = (call.shape(0), call.asked()?.shape);
    let kept = if matches!(call.op, Op::Pool1d(_)) { 1..4 } else { 2..4 };
    match kept.into_iter().find(|&axis| output[axis] != x[axis]) {
        Some(axis) => call.refuse(Site::Output, format!("axis {axis} of {output:?} must be that of {x:?}")),
        None => Ok(Desc::f32(output)),
    }
}

/// Operands dy, x.
pub(crate) fn pool_2d_back(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.pool_steps()?;
    let x = call.shape(1);
    (2..4).try_for_each(|axis| call.extent(0, axis, x[axis], "as that of operand 1"))?;
    Ok(Desc::f32(x))
}
