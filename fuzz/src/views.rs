//! Chains of views over layouts: none panics, and what is not refused shows the elements that plain arithmetic moves there.
#![no_main]

mod numbers;
mod layout {
    pub use fblayout::layout::*;
}
#[path = "../../backend/src/layout/tests/naive.rs"]
#[allow(dead_code, reason = "the tests that it belongs to use more of it")]
mod naive;

use arbitrary::{Result, Unstructured};
use layout::{Layout, Transform};
use libfuzzer_sys::fuzz_target;
use naive::Naive;
use numbers::{number, wide};

/// Elements that are compared one by one.
const MOST: u64 = 4096;
const LONGEST: usize = 8;

fuzz_target!(|data: &[u8]| {
    // Input that ends early is no finding.
    let _ = run(&mut Unstructured::new(data));
});

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let extents: Vec<u32> = list(u, 4, number)?;
    let (lanes, row_axis, strip) = (number(u)?, u.int_in_range(0..=4)?, number(u)?);
    let (max_x, max_y) = (number(u)?.max(64), number(u)?.max(64));
    let Ok(layout) = Layout::rtile(&extents, lanes, row_axis, strip, max_x, max_y) else { return Ok(()) };
    layout.verify(lanes, max_x, max_y).expect("a layout that was made keeps its rules");
    let mut view = layout.view();
    let mut naive = small(&extents).then(|| Naive::root(&extents));
    for _ in 0..LONGEST {
        let step = transform(u, &view.extents())?;
        let Ok(next) = view.apply(&step) else { continue };
        view = next;
        naive = naive.filter(|_| small(&view.extents())).map(|naive| {
            let moved = naive.apply(&step).unwrap_or_else(|| panic!("{step:?} makes no sense of {:?}", naive.extents));
            moved.assert_shown_by(&view, &layout);
            moved
        });
        let _ = view.lane_axis(lanes);
    }
    Ok(())
}

fn small(extents: &[u32]) -> bool {
    extents.iter().try_fold(1, |all: u64, &n| all.checked_mul(n.into())).is_some_and(|all| all <= MOST)
}

fn list<T>(u: &mut Unstructured<'_>, most: usize, one: fn(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    (0..u.int_in_range(0..=most)?).map(|_| one(u)).collect()
}

/// A transform that fits these extents more often than not.
fn transform(u: &mut Unstructured<'_>, extents: &[u32]) -> Result<Transform> {
    let rank = extents.len();
    let axis = u.int_in_range(0..=rank)?;
    Ok(match u.int_in_range(0..=9)? {
        0 => {
            let mut order: Vec<usize> = (0..rank).collect();
            for i in 0..rank {
                order.swap(i, u.int_in_range(0..=rank - 1)?);
            }
            if u.ratio(1, 16)? {
                order.push(axis);
            }
            Transform::Permute(order)
        }
        1 => Transform::Split { axis, inner: number(u)? },
        2 => Transform::Merge { inner: axis, outer: u.int_in_range(0..=rank)? },
        3 => Transform::Slice { axis, start: number(u)?.wrapping_sub(1), len: number(u)? },
        4 => Transform::RepeatEach { axis, fan: number(u)? },
        5 => Transform::RepeatWhole { axis, fan: number(u)? },
        6 => Transform::Squeeze(axis),
        7 => Transform::Unsqueeze(axis),
        8 => Transform::Reshape(list(u, 5, number)?),
        _ => Transform::Strided {
            extents: list(u, 4, number)?,
            strides: list(u, 4, wide)?,
            offset: wide(u)?.wrapping_sub(1),
        },
    })
}
