//! Convolutions, their transposes, and patches.

use fblayout::graph::{DType, Desc, Op, Operand, Shape, Window};

use crate::{Case, Fill, Setup};

/// Steps, paddings and dilations that differ on every axis.
const UNEVEN: Window = Window { stride: [2, 1, 2], pad: [1, 2, 1], dilation: [1, 2, 1] };

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("plane", Op::Im2Col { window: UNEVEN, plane: true }, [3, 2, 3, 1], [7, 5, 3, 2]),
        // One position of a window that is larger than its input.
        case("window beyond its line", Op::Im2Col { window: UNEVEN, plane: false }, [5, 2, 1, 1], [2, 2, 1, 1]),
        case("lines", Op::Im2Col { window: UNEVEN, plane: false }, [3, 5, 4, 1], [9, 5, 3, 1]),
        case("solid", Op::Im2Col3d { window: UNEVEN, channels: 3 }, [3, 2, 2, 6], [7, 5, 4, 6]),
        case("uneven", Op::Conv2d(UNEVEN), [3, 2, 5, 3], [11, 6, 5, 2]),
        case("pointwise", Op::Conv2d(Window::PLAIN), [1, 1, 9, 7], [5, 3, 9, 1]),
        case("uneven", Op::Conv2dDw(UNEVEN), [3, 3, 1, 5], [9, 7, 5, 2]),
        case("uneven", Op::Conv3d { window: UNEVEN, channels: 2 }, [3, 2, 2, 6], [8, 5, 4, 4]),
        case("overlapping", Op::ConvTranspose1d { stride: 2 }, [5, 3, 4, 1], [7, 4, 1, 1]),
        case("apart", Op::ConvTranspose1d { stride: 3 }, [2, 3, 1, 1], [4, 1, 1, 1]),
        case("overlapping", Op::ConvTranspose2d { stride: 2 }, [3, 4, 5, 3], [4, 3, 3, 2]),
        windows_of_values(),
    ];
    for (name, plane, dy, kernel, image) in [
        ("plane", true, [18, 4, 7, 2], [3, 2, 3, 1], [7, 5, 3, 2]),
        ("lines", false, [15, 5, 3, 1], [3, 5, 4, 1], [9, 5, 3, 1]),
    ] {
        let mut s = Setup::new();
        let inputs = vec![s.f32(dy, Fill::Integers), s.f32(kernel, Fill::Integers)];
        cases.push(s.case_as(name, Op::Im2ColBack { window: UNEVEN, plane }, inputs, Desc::f32(image)));
    }
    for (channels, pad) in [(3, 0), (5, 2)] {
        let mut s = Setup::new();
        let inputs = vec![s.f32([4 * channels, 7, 1, 1], Fill::Floats(2.0))];
        cases.push(s.case(format!("cut by {pad}"), Op::Col2Im1d { stride: 2, channels, pad }, inputs));
    }
    for op in [Op::Conv2d(Window::PLAIN), Op::ConvTranspose2d { stride: 1 }] {
        let mut s = Setup::new();
        let kernel = s.input(DType::F16, [3, 3, 4, 4], Fill::Floats(1.0));
        let image = s.f32([6, 5, 4, 1], Fill::Floats(1.0));
        cases.push(s.case("F16 kernel", op, vec![kernel, image]));
    }
    cases
}

/// Integers, so that the sums are exact.
fn case(name: &str, op: Op, kernel: Shape, image: Shape) -> Case {
    let mut s = Setup::new();
    let inputs = vec![s.f32(kernel, Fill::Integers), s.f32(image, Fill::Integers)];
    s.case(format!("{name} {kernel:?} over {image:?}"), op, inputs)
}

/// Kernel and image with their channels innermost.
fn windows_of_values() -> Case {
    let mut s = Setup::new();
    let turn = |operand: Operand| operand.permute([1, 2, 0, 3]).expect("a permutation of four axes");
    let inputs = vec![turn(s.f32([4, 3, 3, 2], Fill::Integers)), turn(s.f32([4, 7, 6, 2], Fill::Integers))];
    s.case("channels innermost", Op::Conv2d(UNEVEN), inputs)
}
