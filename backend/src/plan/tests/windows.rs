//! Windows of any strides: none fails to plan.

use proptest::prelude::*;

use super::{Exact, ONE_BY_ONE, explicit, planned};
use crate::device::Limits;
use crate::graph::{Binary, DType, Desc, Graph, Op, Operand, Shape, ValueId, elements};
use crate::kernels::Addressing;
use crate::plan::{PlanOptions, StorageChoice, plan};

/// Extents, strides and offset of a window, cut to what a value of `shape` holds.
fn window(value: ValueId, shape: Shape, extents: Shape, strides: [u64; 4], offset: u64) -> Operand {
    let count = elements(&shape);
    let mut window = Operand { value, shape: [1; 4], strides, offset: offset % count };
    for axis in 0..4 {
        let left = count - 1 - window.last().expect("small numbers");
        let most = left.checked_div(strides[axis]).map_or(extents[axis].into(), |steps| steps + 1);
        window.shape[axis] = extents[axis].min(most as u32);
    }
    window
}

fn extents(most: u32) -> impl Strategy<Value = Shape> {
    prop::array::uniform4(prop_oneof![Just(1), 1..=most])
}

fn strides() -> impl Strategy<Value = [u64; 4]> {
    prop::array::uniform4(prop_oneof![Just(0_u64), Just(1), 1..9_u64, 1..400_u64])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Copies and sums of windows of external and of computed values, straight and through one more copy.
    #[test]
    fn no_window_fails_to_plan(
        shape in extents(13),
        (first, second) in (extents(9), extents(9)),
        (by_first, by_second) in (strides(), strides()),
        (at_first, at_second) in (0..2000_u64, 0..2000_u64),
        dtype in prop_oneof![Just(DType::F32), Just(DType::F16), Just(DType::I32)],
        (computed, summed) in (any::<bool>(), any::<bool>()),
        storage in prop_oneof![Just(StorageChoice::Buffer), Just(StorageChoice::Image)],
    ) {
        let mut g = Graph::new();
        let mut x = g.external("x", dtype, shape);
        if dtype == DType::F32 && computed {
            x = g.node("scaled", Op::Scale { scale: 2.0, bias: 0.0 }, vec![g.whole(x)]).unwrap();
        }
        let read = window(x, shape, first, by_first, at_first);
        let copied = g.node_as("copied", Op::Copy, vec![read], Desc { dtype, shape: read.shape }).unwrap();
        let again = window(copied, read.shape, second, by_second, at_second);
        let last = match dtype {
            DType::F32 if summed => {
                let other = window(x, shape, again.shape, by_second, at_first);
                let mut pair = [again, other];
                // A sum repeats its second operand to the first.
                for axis in 0..4 {
                    if other.shape[axis] != again.shape[axis] {
                        pair[1].shape[axis] = 1;
                    }
                }
                g.node("sum", Op::Binary(Binary::Add), pair.to_vec())
            }
            _ => g.node_as("again", Op::Copy, vec![again], Desc { dtype, shape: again.shape }),
        };
        g.keep(last.unwrap());
        g.verify().unwrap();
        let options = PlanOptions { storage, ..ONE_BY_ONE };
        let limits = Limits { max_image_2d: 40, ..Limits::for_tests() };
        for limits in [limits, Limits::for_tests()] {
            let planned = plan(&g, &limits, options, &Exact);
            prop_assert!(planned.is_ok(), "{:?}: {}", g, planned.err().unwrap());
        }
    }
}

fn sum_of(g: &mut Graph, window: Operand) {
    let y = g.node("sum", Op::Binary(Binary::Add), vec![window, window]).unwrap();
    g.keep(y);
}

#[test]
fn what_lies_in_order_is_read_where_it_is() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [200, 1, 1, 1]);
    sum_of(&mut g, Operand { value: x, shape: [7, 5, 3, 1], strides: [3, 11, 29, 0], offset: 5 });
    let plan = planned(&g);
    assert_eq!((explicit(&plan).len(), plan.steps.len()), (0, 1));
    let at = Addressing::of(&plan.steps[0].constants, 0).unwrap();
    assert!(at.flat);
    assert_eq!(at.texel([2, 1, 1, 0]), [(5 + 6 + 11 + 29) / 4, 0]);
}

/// Two windows that no home serves share the copy of their value.
#[test]
fn what_does_not_is_copied_to_a_row_once() {
    let mut g = Graph::new();
    let x = g.external("x", DType::F32, [10, 20, 1, 1]);
    for offset in [5, 6] {
        sum_of(&mut g, Operand { value: x, shape: [7, 5, 3, 1], strides: [3, 11, 29, 0], offset });
    }
    let plan = planned(&g);
    assert_eq!((explicit(&plan).len(), plan.steps.len()), (1, 3), "{:#?}", plan.report.transforms);
}

/// A product steps along digits: what it reads by number is copied first, blocks as the floats that they stand for.
#[test]
fn products_get_dense_copies() {
    for (dtype, steps) in [(DType::F32, 2), (DType::Q8_0, 3)] {
        let mut g = Graph::new();
        let w = g.external("w", dtype, [96, 9, 1, 1]);
        let x = g.external("x", DType::F32, [32, 4, 1, 1]);
        let window = Operand { value: w, shape: [32, 5, 1, 1], strides: [1, 160, 0, 0], offset: 32 };
        let operands = vec![window, g.whole(x)];
        let y = g.node("y", Op::MulMat, operands).unwrap();
        g.keep(y);
        let plan = planned(&g);
        assert_eq!(plan.steps.len(), steps, "{dtype:?}: {:?}", plan.report.transforms);
        assert!(!Addressing::of(&plan.steps[steps - 1].constants, 0).unwrap().flat);
    }
}

/// Blocks of a type with tiles that are found one by one only: numbers decoded from them do for a product, not for a copy of blocks.
#[test]
fn blocks_are_not_encoded_anew() {
    let plan_of = |dtype| {
        let mut g = Graph::new();
        let x = g.external("x", DType::Q8_0, [96, 9, 1, 1]);
        let fifths = Operand { shape: [32, 5, 1, 1], strides: [1, 160, 0, 0], offset: 32, ..g.whole(x) };
        let copied = g.node_as("copied", Op::Copy, vec![fifths], Desc { dtype, shape: fifths.shape }).unwrap();
        g.keep(copied);
        plan(&g, &Limits::for_tests(), PlanOptions::default(), &Exact)
    };
    plan_of(DType::F32).unwrap();
    let refused = plan_of(DType::Q8_0).unwrap_err().to_string();
    assert!(refused.contains("encoded anew is no copy"), "{refused}");
}
