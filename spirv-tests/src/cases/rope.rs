//! Rotary embedding and its gradient.

use fblayout::graph::{DType, Op, Rope, RopeMode, Shape};

use super::by_head;
use crate::{Case, Fill, Setup};

pub(crate) const PLAIN: Rope = Rope::plain(RopeMode::Normal, 64, 2048, 100_000.0);

pub fn cases() -> Vec<Case> {
    let neox = Rope { mode: RopeMode::Neox, ..PLAIN };
    let yarn = Rope { freq_scale: 0.25, ext_factor: 1.0, attn_factor: 1.1, ..neox };
    let mut cases = Vec::new();
    for back in [false, true] {
        let with = |rope: Rope| Rope { back, ..rope };
        cases.push(rope("heads of 64", with(PLAIN), [64, 9, 17, 1], None));
        cases.push(rope("halves", with(neox), [64, 3, 33, 1], None));
        cases.push(rope("YaRN", with(yarn), [64, 3, 9, 1], None));
        cases.push(rope("factors", with(neox), [64, 3, 9, 1], Some(32)));
        cases.push(rope("part of a row", with(Rope { n_dims: 12, ..PLAIN }), [20, 2, 5, 3], None));
        cases.push(rope("part of a row, halves", with(Rope { n_dims: 10, ..neox }), [17, 2, 5, 1], None));
        cases.push(rope("a window", with(Rope { n_dims: 12, offset: 6, ..PLAIN }), [23, 2, 5, 1], None));
        cases.push(rope("a window, halves", with(Rope { n_dims: 12, offset: 6, ..neox }), [24, 2, 5, 1], Some(6)));
        for (mode, sections) in
            [(RopeMode::Multi, [3, 2, 4, 1]), (RopeMode::Interleaved, [5, 3, 3, 1]), (RopeMode::Multi, [2, 0, 1, 0])]
        {
            let multi = Rope { n_dims: 24, offset: 4, sections, ..with(Rope { mode, ..yarn }) };
            cases.push(rope(&format!("{mode:?} {sections:?}"), multi, [33, 3, 5, 2], None));
        }
        let vision = Rope { mode: RopeMode::Vision, n_dims: 18, sections: [5, 4, 0, 0], ..PLAIN };
        cases.push(rope("vision", with(vision), [36, 3, 5, 1], Some(18)));
        cases.push(rope(
            "more pairs than constants number",
            with(Rope { n_dims: 4102, ..PLAIN }),
            [4102, 1, 2, 1],
            None,
        ));
        cases.push(rope("a pair", with(Rope { n_dims: 2, ..neox }), [2, 1, 3, 1], None));
        let mut s = Setup::new();
        let heads = by_head(s.f32([64, 5, 3, 1], Fill::Floats(2.0)));
        let positions = s.input(DType::I32, [5, 1, 1, 1], Fill::Ids(2048));
        cases.push(s.case("by head", Op::Rope(with(PLAIN)), vec![heads, positions]));
    }
    cases
}

fn rope(name: &str, rope: Rope, shape: Shape, factors: Option<u32>) -> Case {
    let mut s = Setup::new();
    let positions = if rope.mode.has_sections() { 4 * shape[2] } else { shape[2] };
    let mut inputs =
        vec![s.f32(shape, Fill::Floats(2.0)), s.input(DType::I32, [positions, 1, 1, 1], Fill::Ids(rope.n_ctx_orig))];
    inputs.extend(factors.map(|n| s.f32([n, 1, 1, 1], Fill::Positive)));
    s.case(format!("{name} {shape:?}"), Op::Rope(rope), inputs)
}
