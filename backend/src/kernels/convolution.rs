//! Convolutions, their transposes, and the patches that they multiply: shaders `im2col`, `im2col_back`, `convolve`,
//! `convolve_transpose`.

use super::{Access, Arg, Call, Lowered, Operand, Refusal};
use crate::graph::{Op, Shape, Window};

/// First constant id of `window.glsl`.
const WINDOW: u32 = 16;

/// Which axes of an image the window slides over, as the shaders number them; and a kernel per channel.
const LINE: u32 = 0;
const PLANE: u32 = 1;
const SOLID: u32 = 2;
const DEPTHWISE: u32 = 3;

/// The constants of `window.glsl`.
struct Sliding {
    window: Window,
    kernel: Shape,
    kind: u32,
    /// Channels that an output sums, or that an image of a solid has.
    channels: u32,
    /// Positions on axis 2 of a solid's image.
    depth: u32,
}

pub(super) fn convolution(call: Call<'_>, op: &Op) -> Result<Lowered, Refusal> {
    let shape = |i: usize| call.inputs.get(i).map_or([1; 4], Operand::shape);
    let output = call.output.shape();
    // Patches need only the extents of the kernel.
    let (shader, read, sliding) = match *op {
        Op::Im2Col { window, plane } => ("im2col", 1, patches(window, plane, shape(0))),
        Op::Im2ColBack { window, plane } => ("im2col_back", 0, patches(window, plane, shape(1))),
        Op::Im2Col3d { window, channels } => {
            let depth = output[3] / (shape(1)[3] / channels);
            ("im2col", 1, Sliding { window, kernel: shape(0), kind: SOLID, channels, depth })
        }
        Op::Col2Im1d { stride, channels, pad } => {
            let window = Window { stride: [stride; 3], pad: [pad; 3], ..Window::PLAIN };
            ("im2col_back", 0, patches(window, false, [shape(0)[0] / channels, channels, 1, 1]))
        }
        Op::Conv2d(window) => {
            let kernel = shape(0);
            ("convolve", 2, Sliding { window: window.along(2), kernel, kind: PLANE, channels: kernel[2], depth: 1 })
        }
        Op::Conv2dDw(window) => {
            let kernel = shape(0);
            ("convolve", 2, Sliding { window: window.along(2), kernel, kind: DEPTHWISE, channels: 1, depth: 1 })
        }
        Op::Conv3d { window, channels } => {
            ("convolve", 2, Sliding { window, kernel: shape(0), kind: SOLID, channels, depth: output[2] })
        }
        Op::ConvTranspose1d { stride } => ("convolve_transpose", 2, transposed(stride, LINE, shape(0), 2)),
        Op::ConvTranspose2d { stride } => ("convolve_transpose", 2, transposed(stride, PLANE, shape(0), 3)),
        _ => return Err(Refusal(format!("{} is no convolution", op.row().name))),
    };
    let builder = match call.inputs.get(read) {
        Some(image) => {
            let builder = call.builder(shader)?.operand(Arg::Input(read), image, Access::Read)?;
            call.store(builder, Arg::Output, call.output)?
        }
        None => call.dispatch(shader)?,
    };
    let Sliding { mut window, kernel: [k0, k1, k2, _], kind, channels, depth } = sliding;
    // Axes of the result along which the window slides along an axis of the image.
    let slides: &[(usize, usize)] = match *op {
        Op::Im2Col { plane: false, .. } => &[(1, 0)],
        Op::Im2Col { .. } | Op::Im2Col3d { .. } => &[(1, 0), (2, 1)],
        Op::Conv2d(_) | Op::Conv2dDw(_) => &[(1, 1)],
        Op::Conv3d { .. } => &[(1, 1), (2, 2)],
        _ => &[],
    };
    for &(axis, image) in slides {
        // A piece may begin behind the padding: the shaders count modulo 2^32.
        let moved = call.span.first[axis].wrapping_mul(window.stride[image]);
        window.pad[image] = window.pad[image].wrapping_sub(moved);
    }
    let k2 = if kind == SOLID { k2 } else { 1 };
    let k1 = if kind == LINE { 1 } else { k1 };
    let words = window.words().into_iter().chain([k0, k1, k2, kind, channels, depth]);
    let builder = (WINDOW..).zip(words).fold(builder, |builder, (id, word)| builder.set(id, word));
    Ok(builder.texels(call.output)?.into())
}

/// Patches of a line or of a plane.
fn patches(window: Window, plane: bool, kernel: Shape) -> Sliding {
    match plane {
        true => Sliding { window: window.along(2), kernel, kind: PLANE, channels: kernel[2], depth: 1 },
        false => Sliding { window: window.along(1), kernel, kind: LINE, channels: kernel[1], depth: 1 },
    }
}

/// A transposed convolution, whose kernel has its channels on axis `channels`.
fn transposed(stride: u32, kind: u32, kernel: Shape, channels: usize) -> Sliding {
    let window = Window { stride: [stride; 3], ..Window::PLAIN };
    Sliding { window, kernel, kind, channels: kernel[channels], depth: 1 }
}
