//! L5 and L6 of composed views.

use proptest::prelude::*;

use super::naive::Naive;
use super::shapes::{self, Draw};
use crate::layout::{Chain, Layout, Transform, View};

/// The draws as a chain that is legal on the linear form, with the array it makes.
fn legal_chain(extents: &[u32], draws: &[Draw]) -> (Chain, Naive, View) {
    let mut naive = Naive::root(extents);
    let mut elements = Layout::linear(extents).unwrap().view();
    let mut steps = Vec::new();
    for draw in draws {
        let step = shapes::transform(&naive.extents, draw);
        let Some(moved) = naive.apply(&step).filter(|moved| moved.ids.len() <= 1000) else { continue };
        if let Ok(next) = elements.apply(&step) {
            naive = moved;
            elements = next;
            steps.push(step);
        }
    }
    (Chain(steps), naive, elements)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn l6_a_composed_chain_shows_the_right_elements(layout in shapes::layout(300), draws in shapes::draws(0..5)) {
        let (_, naive, elements) = legal_chain(&layout.extents(), &draws);
        if let Ok(view) = layout.view().compose(&elements) {
            naive.assert_shown_by(&view, &layout);
        }
    }

    /// Reading a map of numbers through a map of numbers: the order of composing does not matter.
    #[test]
    fn l5_composition_is_associative(
        layout in shapes::layout(200),
        first in shapes::draws(0..4),
        second in shapes::draws(0..4),
    ) {
        let (_, between, a) = legal_chain(&layout.extents(), &first);
        let (chain, _, b) = legal_chain(&between.extents, &second);
        if let Ok(both) = a.compose(&b) {
            let root = layout.view();
            let right = root.compose(&both);
            let left = root.compose(&a).and_then(|seen| seen.compose(&b));
            if let (Ok(left), Ok(right)) = (&left, &right) {
                prop_assert_eq!(left.extents(), right.extents());
                let mut naive = between.clone();
                for step in &chain.0 {
                    naive = naive.apply(step).unwrap();
                }
                naive.assert_shown_by(left, &layout);
                naive.assert_shown_by(right, &layout);
            }
        }
    }
}

#[test]
fn a_cut_that_is_joined_again_is_harmless() {
    let tiled = Layout::rtile(&[24, 4], 8, 1, 4, 64, 64).unwrap().view();
    let chain = Chain(vec![Transform::Split { axis: 0, inner: 3 }, Transform::Merge { inner: 0, outer: 1 }]);
    let broken = chain.apply(&tiled).unwrap_err();
    assert_eq!(broken.at_step, 0);
    let elements = chain.apply(&Layout::linear(&[24, 4]).unwrap().view()).unwrap();
    assert_eq!(tiled.compose(&elements).unwrap(), tiled);
}
