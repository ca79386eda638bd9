//! `operand.glsl` done in Rust from the constants, against [`View::address`].

use std::collections::HashSet;

use proptest::prelude::*;

use super::super::operand::constants;
use super::super::{Addressing, Arg, Operand, StorageKind, flat};
use crate::graph::{DType, Form};
use crate::layout::{Layout, LineShape, Loads, Position, Spread, View};

/// Texel and lane of an element, as `_texel_of` and `_lane` have them.
fn locate(constants: &[(u32, u32)], index: [u32; 4]) -> (u32, u32, u32) {
    let at = Addressing::of(constants, 0).expect("operand 0 is there");
    let [x, y] = at.texel(index);
    let origin_lane = constants.iter().find(|&&(id, _)| id == 64 + 46).expect("a field of the contract").1;
    (x, y, at.lane_axis.map_or(origin_lane, |axis| index[axis] % at.dtype.lanes()))
}

/// Where the architecture page puts a slot's first texel.
fn texel_of(position: Position, dtype: DType) -> (u32, u32, u32) {
    let s = position.x;
    let x = match dtype.form() {
        Form::Texel => s,
        Form::Tile { quants: q } => s / 4 * (4 * q + 1) + s % 4 * q,
        Form::Block => s * dtype.block_bytes() / 16,
    };
    (x, position.y, position.lane)
}

fn dtypes() -> impl Strategy<Value = DType> {
    prop::sample::select(vec![DType::F32, DType::F16, DType::I64, DType::Q8_0, DType::Q4_1, DType::Q5_0, DType::Q6_K])
}

/// One view transform; those that the algebra refuses leave the view as it is.
#[derive(Clone, Debug)]
enum Step {
    Permute(usize, usize),
    Split(usize, u32),
    Slice(usize, u32, u32),
    RepeatEach(usize, u32),
    RepeatWhole(usize, u32),
}

impl Step {
    fn apply(&self, view: &View) -> View {
        let new = match *self {
            Self::Permute(a, b) => {
                let mut order: Vec<usize> = (0..view.axes.len()).collect();
                order.swap(a % view.axes.len(), b % view.axes.len());
                view.permute(&order)
            }
            Self::Split(axis, inner) => view.split(axis % view.axes.len(), inner),
            Self::Slice(axis, start, len) => view.slice(axis % view.axes.len(), start, len),
            Self::RepeatEach(axis, fan) => view.repeat_each(axis % view.axes.len(), fan),
            Self::RepeatWhole(axis, fan) => view.repeat_whole(axis % view.axes.len(), fan),
        };
        new.ok().filter(|v| v.axes.len() <= 4).unwrap_or_else(|| view.clone())
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..4_usize, 0..4_usize).prop_map(|(a, b)| Step::Permute(a, b)),
        (0..4_usize, 1..40_u32).prop_map(|(a, n)| Step::Split(a, n)),
        (0..4_usize, 0..40_u32, 1..40_u32).prop_map(|(a, s, n)| Step::Slice(a, s, n)),
        (0..4_usize, 1..4_u32).prop_map(|(a, n)| Step::RepeatEach(a, n)),
        (0..4_usize, 1..4_u32).prop_map(|(a, n)| Step::RepeatWhole(a, n)),
    ];
    prop::collection::vec(step, 0..4)
}

proptest! {
    /// Every element of the extents of a view that is not refused is where the algebra says it is, and they lie in as many texels.
    #[test]
    fn constants_locate_what_the_view_addresses(
        dtype in dtypes(),
        slots in 1..5_u32,
        odd in 0..4_u32,
        shape in prop::array::uniform3(1..9_u32),
        (row_axis, h) in (1..4_usize, prop_oneof![Just(1_u32), Just(2), Just(4)]),
        max_x in prop_oneof![Just(12_u32), Just(4096)],
        steps in steps(),
    ) {
        let lanes = dtype.lanes();
        let n0 = if dtype.is_quantized() { slots * lanes } else { slots * lanes - odd % lanes };
        let layout = Layout::rtile(&[n0, shape[0], shape[1], shape[2]], lanes, row_axis, h, max_x, 4096);
        // A root that does not fit the narrow limit has no view.
        let Ok(layout) = layout else { return Ok(()) };
        let view = steps.iter().fold(layout.view(), |view, step| step.apply(&view));
        let operand = Operand { dtype, view: view.clone(), flat: false, storage: StorageKind::Buffer, pitch: 1 };
        let Ok(constants) = constants(0, Arg::Input(0), &operand) else { return Ok(()) };
        let mut extents = [1; 4];
        view.axes.iter().zip(&mut extents).for_each(|(axis, n)| *n = axis.extent);
        let count: u32 = extents.iter().product();
        let mut slots = HashSet::new();
        for number in 0..count {
            let mut rest = number;
            let index = extents.map(|n| { let i = rest % n; rest /= n; i });
            let position = view.address(&index[..view.axes.len()]);
            let wanted = texel_of(position, dtype);
            prop_assert_eq!(locate(&constants, index), wanted, "element {:?} of {:?}", index, view);
            // Blocks share texels.
            slots.insert((if dtype.form() == Form::Block { position.x } else { wanted.0 }, wanted.1));
        }
        let texels = match dtype.form() {
            Form::Texel => slots.len(),
            Form::Tile { quants: q } => {
                let tiles: HashSet<_> = slots.iter().map(|&(x, y)| (x / (4 * q + 1), y)).collect();
                slots.len() * q as usize + tiles.len()
            }
            Form::Block => (slots.len() * dtype.block_bytes() as usize).div_ceil(16),
        };
        let counted = Addressing::of(&constants, 0).expect("operand 0 is there").texels(extents);
        prop_assert_eq!(counted, texels as u64, "texels of {:?}", view);
    }
}

proptest! {
    /// Elements found by number are where the home puts them, folded or not; a quad that is taken as one lies in one texel.
    #[test]
    fn flat_operands_locate_any_window(
        dtype in prop_oneof![Just(DType::F32), Just(DType::F16), Just(DType::I32)],
        count in 1..700_u32,
        (max_x, storage) in (prop_oneof![Just(7_u32), Just(4096)], prop_oneof![Just(StorageKind::Buffer), Just(StorageKind::Image)]),
        extents in prop::array::uniform4(1..6_u32),
        strides in prop::array::uniform4(prop_oneof![Just(0_u64), Just(1), 0..30_u64]),
        offset in prop_oneof![Just(0_u64), 0..60_u64],
    ) {
        let lanes = dtype.lanes();
        let home = Layout::rtile(&[count, 1, 1, 1], lanes, 1, 1, max_x, 4096).unwrap();
        let whole = Operand { dtype, view: home.view(), flat: false, storage, pitch: home.width() };
        let last: u64 = offset + extents.iter().zip(strides).map(|(&n, by)| u64::from(n - 1) * by).sum::<u64>();
        let flat = flat(&whole, &extents, &strides, offset);
        prop_assert_eq!(flat.is_ok(), last < count.into());
        let Ok(flat) = flat else { return Ok(()) };
        let constants = constants(0, Arg::Input(0), &flat).unwrap();
        let at = Addressing::of(&constants, 0).expect("operand 0 is there");
        let places = at.places();
        let mut texels = HashSet::new();
        for number in 0..extents.iter().product() {
            let mut rest = number;
            let index = extents.map(|n| { let i = rest % n; rest /= n; i });
            let element = offset + index.iter().zip(strides).map(|(&i, by)| u64::from(i) * by).sum::<u64>();
            let wanted = home.address(&[element as u32, 0, 0, 0]);
            prop_assert_eq!(at.texel(index), [wanted.x, wanted.y]);
            prop_assert_eq!(places.of(index), Some(at.place(index)));
            if at.by_quads() {
                prop_assert_eq!(wanted.lane % 4, index[0] % 4);
            }
            texels.insert(at.texel(index));
        }
        prop_assert!(texels.len() as u64 <= at.texels(extents));
    }
}

fn spreads() -> impl Strategy<Value = Vec<Spread>> {
    let spread = (0..4_usize, 1..9_u32, 1..9_u32).prop_map(|(axis, count, step)| Spread { axis, count, step });
    prop::collection::vec(spread, 0..3)
}

proptest! {
    /// What is left of an operand where loads reach is covered as the operand itself, in buffers and in images.
    #[test]
    fn operands_cut_to_the_reach_of_loads_are_covered_alike(
        dtype in dtypes(),
        (slots, shape) in (1..40_u32, prop::array::uniform3(1..60_u32)),
        (row_axis, h) in (1..4_usize, prop_oneof![Just(1_u32), Just(2), Just(4)]),
        (storage, max_x) in prop_oneof![Just((StorageKind::Buffer, 4096)), Just((StorageKind::Image, 64))],
        steps in steps(),
        (lanes, instructions, together) in (spreads(), spreads(), 0..9_u32),
        (width, height, capacity) in (1..9_u32, 1..5_u32, 1..40_usize),
    ) {
        let layout = Layout::rtile(&[slots * dtype.lanes(), shape[0], shape[1], shape[2]], dtype.lanes(), row_axis, h, max_x, 8192);
        let Ok(layout) = layout else { return Ok(()) };
        let view = steps.iter().fold(layout.view(), |view, step| step.apply(&view));
        let operand = Operand { dtype, view, flat: false, storage, pitch: dtype.row_texels(layout.width()) };
        let Ok(constants) = constants(0, Arg::Input(0), &operand) else { return Ok(()) };
        let at = Addressing::of(&constants, 0).expect("operand 0 is there");
        let line = LineShape { width, height: if storage == StorageKind::Buffer { 1 } else { height } };
        let loads = Loads { lanes, instructions, together };
        let inside = |index: [u32; 4]| (0..4).all(|axis| index[axis] < at.extents[axis]);
        let whole = loads.coverage(line, capacity, |index| inside(index).then(|| at.place(index)));
        let places = at.within(loads.reach(), line).places();
        prop_assert_eq!(loads.essential().coverage(line, capacity, |index| places.of(index)), whole);
    }
}

/// Where loads do not reach its end, a longer tensor is the same: in the direction of its rows and across, in both storages.
#[test]
fn lengths_beyond_the_reach_of_loads_do_not_matter() {
    let along = |axis, count, step| Spread { axis, count, step };
    let loads = Loads { lanes: vec![along(0, 16, 4), along(1, 4, 1)], instructions: vec![along(1, 8, 4)], together: 4 };
    let line = LineShape { width: 4, height: 2 };
    for (storage, h) in [StorageKind::Buffer, StorageKind::Image].into_iter().flat_map(|s| [1, 2, 4].map(|h| (s, h))) {
        let cut = |tokens: u32, transposed: bool| {
            let shape = if transposed { [tokens, 64, 4, 1] } else { [64, tokens, 4, 1] };
            let root = super::home(DType::F32, shape, h);
            let operand = Operand { storage, pitch: tokens / 4 * h, ..root };
            let constants = constants(0, Arg::Input(0), &operand).unwrap();
            Addressing::of(&constants, 0).expect("operand 0 is there").within(loads.reach(), line)
        };
        for transposed in [false, true] {
            assert_eq!(cut(512, transposed), cut(640, transposed), "{storage:?} {h} {transposed}");
        }
    }
}

/// Roots and the views that the training graph makes of them are not refused.
#[test]
fn usual_views_are_taken() {
    for dtype in [DType::F32, DType::F16, DType::Q8_0, DType::Q4_1] {
        for h in [1, 2, 4] {
            for n0 in [32, 64, 96, 576] {
                let root = super::home(dtype, [n0, 7, 3, 2], h);
                let transposed = root.view.permute(&[1, 0, 2, 3]).unwrap();
                for view in [root.view.clone(), transposed] {
                    let operand = Operand { view, ..root.clone() };
                    constants(0, Arg::Input(0), &operand).unwrap_or_else(|e| panic!("{dtype:?} {n0} h {h}: {e}"));
                }
            }
        }
    }
    let heads = super::home(DType::F32, [576, 33, 1, 1], 4).view.split(0, 64).unwrap().squeeze(4).unwrap();
    for order in [[0, 1, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [1, 2, 0, 3]] {
        let view = heads.permute(&order).unwrap();
        let operand = Operand { dtype: DType::F32, view, flat: false, storage: StorageKind::Image, pitch: 0 };
        constants(3, Arg::Output, &operand).unwrap();
    }
}

#[test]
fn refusals_name_operand_and_axis() {
    let mut root = super::home(DType::F32, [64, 64, 1, 1], 4);
    root.view = root.view.reshape(&[2, 32, 64, 1]).unwrap();
    let split = constants(0, Arg::Input(1), &root).unwrap_err().to_string();
    assert!(split.starts_with("operand 1: axis") && split.contains("splits the 4 lanes"), "{split}");

    let mut root = super::home(DType::F32, [64, 64, 1, 1], 4);
    for _ in 0..2 {
        root.view = root.view.repeat_each(1, 2).unwrap();
    }
    root.view = root.view.repeat_whole(1, 2).unwrap();
    let digits = constants(0, Arg::Output, &root).unwrap_err().to_string();
    assert_eq!(digits, "output: axis 1 needs 4 digits, a kernel takes 3");
}
