//! Convolutions and pooling over images, and what brings their gradients back.

use ggml_host::{Convolution, Pooling, Type};

use super::Cases;
use crate::own::bound::Bound;
use crate::own::kit::View;

pub fn add(cases: &mut Cases) {
    let steps = [
        Convolution { stride: [1, 1], padding: [0, 0], dilation: [1, 1] },
        Convolution { stride: [2, 1], padding: [1, 2], dilation: [1, 1] },
        Convolution { stride: [1, 3], padding: [2, 1], dilation: [2, 1] },
    ];
    let (kernel, image) = ([3, 2, 3, 5], [13, 9, 3, 2]);
    for (at, by) in steps.into_iter().enumerate() {
        let places = |axis: usize| {
            let reach = by.dilation[axis] * (kernel[axis] as i32 - 1) + 1;
            ((image[axis] as i32 + 2 * by.padding[axis] - reach) / by.stride[axis] + 1) as usize
        };
        let patches = [kernel[0] * kernel[1] * kernel[2], places(0), places(1), image[3]];
        for dtype in [Type::F32, Type::F16] {
            for view in [View::Dense, View::HEADS, View::Sliced] {
                cases.add(4, format!("IM2COL {dtype} steps {at} {}", view.name()), move |k| {
                    let (w, x) = (k.floats(dtype, &kernel, View::Dense), k.f32(&image, view));
                    k.result(k.ops().im2col(w, x, &by, dtype), Bound::roundings(1));
                });
                cases.add(4, format!("CONV_2D {dtype} steps {at} {}", view.name()), move |k| {
                    let (w, x) = (k.weight(dtype, &kernel, View::Dense), k.f32(&image, view));
                    k.result(k.ops().conv_2d(w, x, &by), Bound::Sum(patches[0]));
                });
            }
        }
        for view in [View::Dense, View::HEADS, View::Sliced, View::TRANSPOSED] {
            cases.add(2, format!("IM2COL_BACK steps {at} {}", view.name()), move |k| {
                let (gradient, w) = (k.f32(&patches, view), k.f32(&kernel, View::Dense));
                // Every element of the image is under each element of the kernel once at most.
                k.result(k.ops().im2col_back(gradient, w, image, &by), Bound::Sum(kernel[0] * kernel[1]));
            });
        }
    }
    for mean in [false, true] {
        for (at, (window, stride, padding)) in
            [([2, 2], [2, 2], [0, 0]), ([3, 2], [1, 2], [1, 1]), ([3, 3], [2, 1], [0, 1])].into_iter().enumerate()
        {
            let by = Pooling { mean, kernel: window, stride, padding };
            let op = if mean { "mean" } else { "max" };
            let bound = if mean { Bound::Sum(9) } else { Bound::Exact };
            for view in [View::Dense, View::HEADS, View::Sliced] {
                cases.add(2, format!("POOL_2D {op} {at} {}", view.name()), move |k| {
                    k.result(k.ops().pool_2d(k.f32(&image, view), &by), bound);
                });
                cases.add(2, format!("POOL_2D_BACK {op} {at} {}", view.name()), move |k| {
                    let places = |axis: usize| {
                        ((image[axis] as i32 + 2 * padding[axis] - window[axis]) / stride[axis] + 1) as usize
                    };
                    let gradient = k.f32(&[places(0), places(1), image[2], image[3]], view);
                    // Which element is the largest must not change with the sign: magnitudes keep the order.
                    let count = image.iter().product();
                    let x = k.input(Type::F32, &image, View::Dense, k.values(count, 0.5, 1.0));
                    k.result(k.ops().pool_2d_back(gradient, x, &by), Bound::Sum(9));
                });
            }
        }
    }
}
