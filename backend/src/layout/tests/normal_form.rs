//! L1 and L8: layouts are bijections, and their normal forms say which are the same.

use std::collections::HashSet;

use proptest::prelude::*;

use super::naive::indices;
use super::shapes;
use crate::layout::{Axis, Digit, Illegal, Layout, Position};

fn padded(layout: &Layout) -> Vec<u32> {
    layout.axes.iter().map(|axis| axis.padded).collect()
}

fn addresses(layout: &Layout) -> Vec<Position> {
    indices(&padded(layout)).map(|index| layout.address(&index)).collect()
}

/// The same layout with one digit cut in two, so that only its normal form is unchanged.
fn cut_a_digit(layout: &Layout, by: u32) -> Layout {
    let mut cut = layout.clone();
    for digits in [&mut cut.lane, &mut cut.x, &mut cut.y] {
        if let Some(at) = digits.iter().position(|digit| digit.radix.is_multiple_of(by)) {
            let digit = digits[at];
            digits[at].radix = by;
            digits.insert(at + 1, Digit { stride: digit.stride * by, radix: digit.radix / by, ..digit });
            break;
        }
    }
    cut
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn l1_the_padded_box_fills_the_physical_box_once(layout in shapes::layout(600)) {
        layout.verify(layout.lanes(), layout.width(), layout.height()).unwrap();
        let addresses = addresses(&layout);
        let distinct: HashSet<Position> = addresses.iter().copied().collect();
        prop_assert_eq!(distinct.len(), addresses.len());
        prop_assert_eq!(layout.slots() * u64::from(layout.lanes()), addresses.len() as u64);
        for Position { x, y, lane } in addresses {
            prop_assert!(x < layout.width() && y < layout.height() && lane < layout.lanes());
        }
    }

    #[test]
    fn l1_the_view_of_a_root_has_its_addresses(layout in shapes::layout(600)) {
        let view = layout.view();
        for (axis, own) in view.axes.iter().zip(&layout.axes) {
            prop_assert_eq!((axis.extent, axis.padded), (own.extent, own.padded));
        }
        for index in indices(&padded(&layout)) {
            prop_assert_eq!(view.address(&index), layout.address(&index));
        }
    }

    #[test]
    fn l8_normal_form_is_idempotent_and_keeps_every_address(layout in shapes::layout(600), by in 1u32..5) {
        let cut = cut_a_digit(&layout, by);
        let normal = cut.normalize();
        prop_assert_eq!(&normal.normalize(), &normal);
        prop_assert_eq!(&normal, &layout.normalize());
        prop_assert_eq!(addresses(&normal), addresses(&layout));
        prop_assert_eq!(cut.view(), layout.view());
    }

    /// Homes of one small box, so that two of them are often the same function by different digits.
    #[test]
    fn l8_equal_normal_forms_are_equal_address_functions(
        a in shapes::scattered_on(&[4, 2]),
        b in shapes::scattered_on(&[4, 2]),
    ) {
        let equal = a.axes == b.axes && addresses(&a) == addresses(&b);
        prop_assert_eq!(a.normalize() == b.normalize(), equal);
        prop_assert_eq!(a.view() == b.view(), equal);
    }
}

/// Lane = \[0:1:4\], X = \[1:1:2, 0:4:2\], Y = \[1:2:3\], for extents 7 x 6.
fn sound() -> Layout {
    let digit = |axis, stride, radix| Digit { axis, stride, radix };
    Layout {
        axes: vec![Axis { extent: 7, padded: 8 }, Axis { extent: 6, padded: 6 }],
        lane: vec![digit(0, 1, 4)],
        x: vec![digit(1, 1, 2), digit(0, 4, 2)],
        y: vec![digit(1, 2, 3)],
    }
}

#[test]
fn every_rule_of_verify_is_checked() {
    let check = |change: fn(&mut Layout)| {
        let mut layout = sound();
        change(&mut layout);
        layout.verify(4, 4, 3)
    };
    assert_eq!(check(|_| ()), Ok(()));
    // W1, W2: a gap, a digit twice, a missing digit, a digit that repeats another's values.
    assert_eq!(check(|l| l.y[0].stride = 3), Err(Illegal::BrokenChain { axis: 1, reached: 2, found: 3 }));
    assert_eq!(check(|l| l.y.push(l.x[0])), Err(Illegal::BrokenChain { axis: 1, reached: 2, found: 1 }));
    assert_eq!(check(|l| l.y.clear()), Err(Illegal::PaddedMismatch { axis: 1, digits: 2, padded: 6 }));
    assert_eq!(check(|l| l.y[0].radix = 4), Err(Illegal::PaddedMismatch { axis: 1, digits: 8, padded: 6 }));
    assert_eq!(check(|l| l.y[0].radix = 0), Err(Illegal::PaddedMismatch { axis: 1, digits: 0, padded: 6 }));
    assert_eq!(check(|l| l.y[0].axis = 2), Err(Illegal::NoSuchAxis { axis: 2, rank: 2 }));
    // W3.
    assert_eq!(check(|l| l.axes[0].extent = 9), Err(Illegal::ExceedsPadding { axis: 0, extent: 9, padded: 8 }));
    assert_eq!(check(|l| l.axes[0].extent = 0), Err(Illegal::Empty { axis: 0 }));
    // W4, W5.
    assert_eq!(sound().verify(4, 3, 3), Err(Illegal::TooWide { width: 4, max: 3 }));
    assert_eq!(sound().verify(4, 4, 2), Err(Illegal::TooHigh { height: 3, max: 2 }));
    assert_eq!(sound().verify(8, 4, 3), Err(Illegal::Lanes { expected: 8, found: 4 }));
}
