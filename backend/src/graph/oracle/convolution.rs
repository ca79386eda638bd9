//! Convolutions, their patches, and pools, by their definitions.

use crate::graph::array::indices;
use crate::graph::{Array, Op, Pool, PoolKind, Shape, Window};

/// Elements of the windows at `positions` that lie on the input, as (element of the window, element of the input), for two axes.
fn under<const N: usize>(
    window: &Window,
    positions: [u32; N],
    kernel: Shape,
    input: Shape,
) -> impl Iterator<Item = ([u32; N], [u32; N])> + use<N> {
    let window = *window;
    let extents: Shape = std::array::from_fn(|axis| if axis < N { kernel[axis] } else { 1 });
    indices(&extents).filter_map(move |k| {
        let mut at = [0; N];
        for axis in 0..N {
            at[axis] = window.element(axis, positions[axis], k[axis], input[axis])?;
        }
        Some((std::array::from_fn(|axis| k[axis]), at))
    })
}

/// Number of an element of a window among its patch, innermost axis first.
fn number(element: &[u32], kernel: Shape) -> u32 {
    element.iter().zip(kernel).rev().fold(0, |number, (&k, extent)| number * extent + k)
}

pub(crate) fn im2col(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Im2Col { window, plane } = op else { unreachable!("the row belongs to Im2Col") };
    let (kernel, image) = (inputs[0].shape, &inputs[1]);
    let mut y = Array::zeros(output);
    for [i0, ox, i2, i3] in indices(&output) {
        let at = y.position([i0, ox, i2, i3]);
        y.data[at] = if plane {
            let [kx, ky, c] = [i0 % kernel[0], i0 / kernel[0] % kernel[1], i0 / (kernel[0] * kernel[1])];
            let x = window.element(0, ox, kx, image.shape[0]).zip(window.element(1, i2, ky, image.shape[1]));
            x.map_or(0.0, |(x, y)| image.at([x, y, c, i3]))
        } else {
            let x = window.element(0, ox, i0 % kernel[0], image.shape[0]);
            x.map_or(0.0, |x| image.at([x, i0 / kernel[0], i2, 0]))
        };
    }
    vec![y]
}

/// The transposed map: every element of a patch is added where it came from.
pub(crate) fn im2col_back(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Im2ColBack { window, plane } = op else { unreachable!("the row belongs to Im2ColBack") };
    let (dy, kernel) = (&inputs[0], inputs[1].shape);
    vec![gathered(dy, &window, plane, kernel, output)]
}

pub(crate) fn col2im_1d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Col2Im1d { stride, channels, pad } = op else { unreachable!("the row belongs to Col2Im1d") };
    let window = Window { stride: [stride; 3], pad: [pad; 3], ..Window::PLAIN };
    let kernel = [inputs[0].shape[0] / channels, channels, 1, 1];
    vec![gathered(&inputs[0], &window, false, kernel, output)]
}

fn gathered(patches: &Array, window: &Window, plane: bool, kernel: Shape, output: Shape) -> Array {
    let mut sum = Array::zeros(output);
    for ([i0, ox, i2, i3], x) in indices(&patches.shape).zip(&patches.data) {
        let kx = i0 % kernel[0];
        let to = if plane {
            let [ky, c] = [i0 / kernel[0] % kernel[1], i0 / (kernel[0] * kernel[1])];
            let at = window.element(0, ox, kx, output[0]).zip(window.element(1, i2, ky, output[1]));
            at.map(|(x, y)| [x, y, c, i3])
        } else {
            window.element(0, ox, kx, output[0]).map(|x| [x, i0 / kernel[0], i2, 0])
        };
        if let Some(to) = to {
            let at = sum.position(to);
            sum.data[at] += x;
        }
    }
    sum
}

pub(crate) fn im2col_3d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Im2Col3d { window, channels } = op else { unreachable!("the row belongs to Im2Col3d") };
    let (kernel, images) = (inputs[0].shape, &inputs[1]);
    let depth = output[3] / (images.shape[3] / channels);
    let mut y = Array::zeros(output);
    for [_, ox, oy, i3] in indices(&[1, output[1], output[2], output[3]]) {
        for (element, [x, v, z]) in under(&window, [ox, oy, i3 % depth], kernel, images.shape) {
            for c in 0..channels {
                let i0 = number(&[element[0], element[1], element[2], c], kernel);
                let to = y.position([i0, ox, oy, i3]);
                y.data[to] = images.at([x, v, z, i3 / depth * channels + c]);
            }
        }
    }
    vec![y]
}

/// Operands kernel, image.
pub(crate) fn conv_2d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::Conv2d(window) = op else { unreachable!("the row belongs to Conv2d") };
    let (kernel, image) = (&inputs[0], &inputs[1]);
    let at = |[ox, oy, oc, n]: Shape| {
        let terms = under(window, [ox, oy], kernel.shape, image.shape);
        terms
            .flat_map(|([kx, ky], [x, y])| {
                (0..kernel.shape[2]).map(move |c| kernel.at([kx, ky, c, oc]) * image.at([x, y, c, n]))
            })
            .sum()
    };
    vec![Array::from_fn(output, at)]
}

/// Operands kernel, image.
pub(crate) fn conv_2d_dw(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let Op::Conv2dDw(window) = op else { unreachable!("the row belongs to Conv2dDw") };
    let (kernel, image) = (&inputs[0], &inputs[1]);
    let at = |[ox, oy, c, n]: Shape| {
        let terms = under(window, [ox, oy], kernel.shape, image.shape);
        terms.map(|([kx, ky], [x, y])| kernel.at([kx, ky, 0, c]) * image.at([x, y, c, n])).sum()
    };
    vec![Array::from_fn(output, at)]
}

/// Operands kernel, images.
pub(crate) fn conv_3d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::Conv3d { window, channels } = op else { unreachable!("the row belongs to Conv3d") };
    let (kernel, images) = (&inputs[0], &inputs[1]);
    let outputs = kernel.shape[3] / channels;
    let at = |[ox, oy, oz, i3]: Shape| {
        let (oc, n) = (i3 % outputs, i3 / outputs);
        let terms = under(&window, [ox, oy, oz], kernel.shape, images.shape);
        terms
            .flat_map(|([kx, ky, kz], [x, y, z])| {
                (0..channels)
                    .map(move |c| kernel.at([kx, ky, kz, oc * channels + c]) * images.at([x, y, z, n * channels + c]))
            })
            .sum()
    };
    vec![Array::from_fn(output, at)]
}

/// Operands kernel, input: every element of the input adds the kernel of its channel, times itself.
pub(crate) fn conv_transpose_1d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::ConvTranspose1d { stride } = op else { unreachable!("the row belongs to ConvTranspose1d") };
    let (kernel, x) = (&inputs[0], &inputs[1]);
    let mut sum = Array::zeros(output);
    for [k, oc, c, _] in indices(&kernel.shape) {
        for i in 0..x.shape[0] {
            let to = sum.position([i * stride + k, oc, 0, 0]);
            sum.data[to] += kernel.at([k, oc, c, 0]) * x.at([i, c, 0, 0]);
        }
    }
    vec![sum]
}

/// Operands kernel, image.
pub(crate) fn conv_transpose_2d(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let &Op::ConvTranspose2d { stride } = op else { unreachable!("the row belongs to ConvTranspose2d") };
    let (kernel, image) = (&inputs[0], &inputs[1]);
    let mut sum = Array::zeros(output);
    for [kx, ky, oc, c] in indices(&kernel.shape) {
        for [x, y, _, n] in indices(&[image.shape[0], image.shape[1], 1, image.shape[3]]) {
            let to = sum.position([x * stride + kx, y * stride + ky, oc, n]);
            sum.data[to] += kernel.at([kx, ky, oc, c]) * image.at([x, y, c, n]);
        }
    }
    vec![sum]
}

fn pool_of(op: &Op) -> &Pool {
    match op {
        Op::Pool1d(pool) | Op::Pool2d(pool) | Op::Pool2dBack(pool) => pool,
        _ => unreachable!("the row belongs to a pool"),
    }
}

/// Elements of a plane under the window of a pool at a position.
fn pooled(pool: &Pool, position: [u32; 2], plane: Shape) -> impl Iterator<Item = [u32; 2]> + use<> {
    let [k0, k1] = pool.extent;
    under(&pool.window(), position, [k0, k1, 1, 1], plane).map(|(_, at)| at)
}

pub(crate) fn pool(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (pool, image) = (pool_of(op), &inputs[0]);
    let at = |[ox, oy, i2, i3]: Shape| {
        let elements = pooled(pool, [ox, oy], image.shape).map(|[x, y]| image.at([x, y, i2, i3]));
        let (count, sum, max) =
            elements.fold((0.0, 0.0, f64::from(f32::MIN)), |(n, sum, max), x| (n + 1.0, sum + x, x.max(max)));
        match pool.kind {
            PoolKind::Max => max,
            PoolKind::Average => sum / pool.extent.iter().map(|&n| f64::from(n)).product::<f64>(),
            PoolKind::AverageInside if count > 0.0 => sum / count,
            PoolKind::AverageInside => 0.0,
        }
    };
    vec![Array::from_fn(output, at)]
}

/// Operands dy, x: the gradient of a maximum goes to the first element that has it.
pub(crate) fn pool_2d_back(op: &Op, inputs: &[Array], output: Shape) -> Vec<Array> {
    let (pool, dy, image) = (pool_of(op), &inputs[0], &inputs[1]);
    let mut sum = Array::zeros(output);
    for ([ox, oy, i2, i3], dy) in indices(&dy.shape).zip(&dy.data) {
        let elements = || pooled(pool, [ox, oy], output).map(|[x, y]| [x, y, i2, i3]);
        let mut add = |at: Shape, d: f64| {
            let at = sum.position(at);
            sum.data[at] += d;
        };
        let count = match pool.kind {
            PoolKind::Max => {
                let mut greatest = (f64::from(f32::MIN), None);
                for at in elements() {
                    if image.at(at) > greatest.0 {
                        greatest = (image.at(at), Some(at));
                    }
                }
                greatest.1.into_iter().for_each(|at| add(at, *dy));
                continue;
            }
            PoolKind::Average => pool.extent.iter().map(|&n| f64::from(n)).product(),
            PoolKind::AverageInside => elements().count() as f64,
        };
        elements().for_each(|at| add(at, dy / count));
    }
    vec![sum]
}
