//! Random layouts and random transforms.

use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::layout::{Axis, Digit, Layout, Transform};

/// Extents that hurt: one, primes, powers of two and their neighbours.
pub const NASTY: [u32; 20] = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 29, 32, 33, 40, 48, 64, 80, 96];

/// Extents of up to four axes with at most `most` elements.
pub fn extents(most: u32) -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(select(&NASTY[..]), 2..=4).prop_map(move |mut extents| {
        let mut room = most;
        for extent in &mut extents {
            *extent = (*extent).min(room);
            room /= *extent;
        }
        extents
    })
}

/// R-Tile homes of any tile, folded or not.
pub fn rtile(most: u32) -> impl Strategy<Value = Layout> {
    let limits = select(&[3u32, 5, 16, 40, 16384][..]);
    (extents(most), select(&[1u32, 2, 4, 8, 32][..]), 1usize..4, select(&[1u32, 2, 3, 4][..]), limits).prop_map(
        |(extents, lanes, row_axis, h, max_x)| {
            let row_axis = row_axis.min(extents.len() - 1);
            Layout::rtile(&extents, lanes, row_axis, h, max_x, u32::MAX).expect("only the width is limited")
        },
    )
}

/// Homes of a box with any digits in any places, padded at random.
pub fn scattered_on(extents: &[u32]) -> impl Strategy<Value = Layout> + use<> {
    let extents = extents.to_vec();
    prop::collection::vec((2u32..5, 0usize..3, any::<usize>()), 0..8).prop_map(move |cuts| {
        let mut layout = Layout { axes: Vec::new(), lane: Vec::new(), x: Vec::new(), y: Vec::new() };
        let mut cuts = cuts.into_iter();
        for (axis, &extent) in extents.iter().enumerate() {
            let mut stride = 1;
            while stride < extent {
                let (radix, place, at) = cuts.next().unwrap_or((extent.div_ceil(stride), 1, 0));
                let digits = [&mut layout.lane, &mut layout.x, &mut layout.y].into_iter().nth(place).expect("three");
                digits.insert(at % (digits.len() + 1), Digit { axis: axis as u8, stride, radix });
                stride *= radix;
            }
            layout.axes.push(Axis { extent, padded: stride });
        }
        layout
    })
}

/// Homes with any digits in any places.
pub fn scattered(most: u32) -> impl Strategy<Value = Layout> {
    extents(most).prop_flat_map(|extents| scattered_on(&extents))
}

/// Any home.
pub fn layout(most: u32) -> impl Strategy<Value = Layout> {
    prop_oneof![rtile(most), scattered(most)]
}

/// Raw material of one transform, fitted to extents by [`transform`].
pub type Draw = (usize, [Index; 4], Vec<(Index, Index)>);

pub fn draws(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Draw>> {
    let draw = (0usize..11, any::<[Index; 4]>(), prop::collection::vec(any::<(Index, Index)>(), 4));
    prop::collection::vec(draw, count)
}

fn divisors(n: u32) -> Vec<u32> {
    (1..=n).filter(|&d| n.is_multiple_of(d)).collect()
}

fn pick<T: Copy>(index: &Index, from: &[T]) -> T {
    from[index.index(from.len())]
}

/// A transform that makes sense for these extents, whether or not their digits allow it.
pub fn transform(extents: &[u32], (kind, at, window): &Draw) -> Transform {
    let rank = extents.len();
    let axis = at[0].index(rank);
    match kind {
        0 | 1 => {
            let mut order: Vec<usize> = (0..rank).collect();
            at.iter().enumerate().for_each(|(i, to)| order.swap(i % rank, to.index(rank)));
            Transform::Permute(order)
        }
        2 | 3 => Transform::Split { axis, inner: pick(&at[1], &divisors(extents[axis])) },
        4 if rank > 1 => Transform::Merge { inner: axis, outer: (axis + 1 + at[1].index(rank - 1)) % rank },
        5 => {
            let start = at[1].index(extents[axis] as usize) as u32;
            Transform::Slice { axis, start, len: 1 + at[2].index((extents[axis] - start) as usize) as u32 }
        }
        6 => Transform::RepeatEach { axis, fan: 1 + at[1].index(3) as u32 },
        7 => Transform::RepeatWhole { axis, fan: 1 + at[1].index(3) as u32 },
        8 => match extents.iter().position(|&extent| extent == 1) {
            Some(axis) if rank > 1 => Transform::Squeeze(axis),
            _ => Transform::Unsqueeze(axis),
        },
        9 => {
            let mut rest: u32 = extents.iter().product();
            let mut regrouped: Vec<u32> = Vec::new();
            for index in &at[..3] {
                regrouped.push(pick(index, &divisors(rest)));
                rest /= regrouped[regrouped.len() - 1];
            }
            regrouped.push(rest);
            Transform::Reshape(regrouped)
        }
        _ => strided(extents, at, window),
    }
}

/// A window that stays within the elements: axes of whole, part and skipped rows, sometimes overlapping or shifted.
fn strided(extents: &[u32], at: &[Index; 4], window: &[(Index, Index)]) -> Transform {
    let total: u64 = extents.iter().map(|&extent| u64::from(extent)).product();
    let mut steps = vec![0, 1];
    let mut product = 1u64;
    for &extent in extents {
        steps.extend(divisors(extent).into_iter().map(|d| product * u64::from(d)));
        product *= u64::from(extent);
    }
    let mut strides = Vec::new();
    let mut counts = Vec::new();
    let mut room = total - 1;
    for (step, count) in window {
        let stride = pick(step, &steps);
        let most = room.checked_div(stride).map_or(3, |steps| steps + 1);
        let candidates: Vec<u32> =
            divisors(total as u32).into_iter().chain([3, 5, 6]).filter(|&n| u64::from(n) <= most).collect();
        let extent = pick(count, &candidates);
        room -= u64::from(extent - 1) * stride;
        strides.push(stride);
        counts.push(extent);
    }
    let offsets: Vec<u64> = steps.into_iter().chain([3, 5]).filter(|&offset| offset <= room).collect();
    Transform::Strided { extents: counts, strides, offset: pick(&at[0], &offsets) }
}
