//! The R-Tile home, and the one rule that chooses it.

use super::{Axis, Digit, Illegal, Layout};

/// Largest padding ratio of a tile (C3).
const MAX_PADDING: f64 = 0.10;

/// Tile heights, best first.
const HEIGHTS: [u32; 3] = [4, 2, 1];

/// What the tile rule needs to know of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileTarget {
    /// Invocations that fetch together (a subgroup).
    pub warp: u32,
    /// Texels in a line of the texture cache.
    pub line_texels: u32,
}

/// Chooses the R-Tile `(row_axis, h)` of a plain tensor: one rule for every dtype and shape.
///
/// A tile is `h` rows of one slot each, stored as `h` neighbouring texels; wider tiles are runs of these. The
/// constraints, in the order in which they decide:
///
/// * **C2** the `h` texels that a column-direction reader fetches together lie in one line of the cache: `h` is at most
///   `line_texels`. Of 4, 2, 1 the largest such `h` comes first: it serves both directions equally.
/// * **C3** among the axes 1.. of more than one element, the one whose rounding to `h` pads least, and less than 10 %.
///   When every axis pads more, the next smaller `h` is tried; `h = 1` never pads. (The rounding of axis 0 to whole
///   slots is the same for all.)
/// * **C1** between axes that pad alike, the first one that gives each invocation of a warp its own row, so that a warp
///   loads whole instructions in the column direction too; when none is that long, the innermost.
///
/// So `[64, 9, 128]` (head dim, heads, tokens) is tiled on axis 2: heads would pad a third; `[128, 128, 9]` on axis 1.
/// A tensor with one row gets `(1, 1)`.
pub fn tile_rule(extents: &[u32], target: TileTarget) -> (usize, u32) {
    let padding = |extent: u32, h: u32| f64::from(extent.div_ceil(h)) * f64::from(h) / f64::from(extent) - 1.0;
    let rows = || extents.iter().copied().enumerate().skip(1).filter(|&(_, extent)| extent > 1);
    for h in HEIGHTS.into_iter().filter(|&h| h <= target.line_texels.max(1)) {
        let least = rows().map(|(_, extent)| padding(extent, h)).fold(f64::INFINITY, f64::min);
        if least >= MAX_PADDING {
            continue;
        }
        let mut best = rows().filter(|&(_, extent)| padding(extent, h) == least);
        let innermost = best.clone().next();
        if let Some((axis, _)) = best.find(|&(_, extent)| extent >= target.warp).or(innermost) {
            return (axis, h);
        }
    }
    (1, 1)
}

impl Layout {
    /// The R-Tile home of tile `(row_axis, h)`, in normal form (digits are written axis : stride : radix):
    ///
    /// * Lane = `0 : 1 : lanes`;
    /// * X = `row_axis : 1 : h`, then the rest of axis 0, then the axes between 0 and `row_axis`;
    /// * Y = the rest of `row_axis`, then the axes above it.
    ///
    /// Axis 0 is padded to whole slots, `row_axis` to whole tiles. What exceeds `max_x` or `max_y` slots is folded: the
    /// outermost digits of that place, or the outer part of one, move to the outer end of the other.
    ///
    /// # Errors
    /// An empty or missing axis, or a tensor that does not fit `max_x` by `max_y` slots.
    pub fn rtile(
        extents: &[u32],
        lanes: u32,
        row_axis: usize,
        h: u32,
        max_x: u32,
        max_y: u32,
    ) -> Result<Self, Illegal> {
        let rank = extents.len();
        if row_axis == 0 || row_axis >= rank || rank > usize::from(u8::MAX) {
            return Err(Illegal::NoSuchAxis { axis: row_axis, rank });
        }
        if let Some(axis) = extents.iter().position(|&extent| extent == 0) {
            return Err(Illegal::Empty { axis });
        }
        if lanes == 0 || h == 0 {
            return Err(Illegal::EmptyTile { h, lanes });
        }

        let slots = extents[0].div_ceil(lanes);
        let tiles = extents[row_axis].div_ceil(h);
        let whole = |axis: usize| Digit { axis: axis as u8, stride: 1, radix: extents[axis] };
        let mut x =
            vec![Digit { axis: row_axis as u8, stride: 1, radix: h }, Digit { axis: 0, stride: lanes, radix: slots }];
        x.extend((1..row_axis).map(whole));
        let mut y = vec![Digit { axis: row_axis as u8, stride: h, radix: tiles }];
        y.extend((row_axis + 1..rank).map(whole));

        let mut padded: Vec<u64> = extents.iter().map(|&extent| u64::from(extent)).collect();
        padded[0] = u64::from(slots) * u64::from(lanes);
        padded[row_axis] = u64::from(tiles) * u64::from(h);
        fold(&mut x, &mut y, max_x, &mut padded);
        fold(&mut y, &mut x, max_y, &mut padded);

        let mut axes = Vec::with_capacity(rank);
        for (axis, (&extent, &elements)) in extents.iter().zip(&padded).enumerate() {
            let padded = u32::try_from(elements).map_err(|_| Illegal::TooLong { axis, elements })?;
            axes.push(Axis { extent, padded });
        }
        let layout = Self { axes, lane: vec![Digit { axis: 0, stride: 1, radix: lanes }], x, y };
        layout.verify(lanes, max_x, max_y)?;
        Ok(layout.normalize())
    }
}

/// Divisors of a number, ascending.
pub(super) fn divisors(n: u64) -> Vec<u64> {
    let mut all: Vec<u64> =
        (1..=n.isqrt()).filter(|&low| n.is_multiple_of(low)).flat_map(|low| [low, n / low]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Moves outer digits from one place to the outer end of the other until at most `limit` slots are left.
fn fold(from: &mut Vec<Digit>, to: &mut Vec<Digit>, limit: u32, padded: &mut [u64]) {
    let limit = u64::from(limit.max(1));
    let capacity = |digits: &[Digit]| digits.iter().fold(1u64, |n, digit| n.saturating_mul(u64::from(digit.radix)));
    let mut moved = Vec::new();
    while capacity(from) > limit {
        let Some(outer) = from.pop() else { break };
        let room = limit / capacity(from);
        if room <= 1 {
            moved.push(outer);
            continue;
        }
        let (stride, radix) = (u64::from(outer.stride), u64::from(outer.radix));
        let fewest = radix.div_ceil(room);
        let exact = divisors(radix).into_iter().filter(|&parts| parts >= fewest).min().unwrap_or(radix);
        // An exact split adds no padding and leaves every merge across the axis legal; only the top digit of an axis
        // can pad.
        let is_top = stride * radix >= padded[usize::from(outer.axis)];
        let parts = if is_top && exact > 2 * fewest { fewest } else { exact };
        let kept = radix.div_ceil(parts);
        if is_top {
            padded[usize::from(outer.axis)] = stride * kept * parts;
        }
        from.push(Digit { radix: kept as u32, ..outer });
        moved.push(Digit { axis: outer.axis, stride: (stride * kept) as u32, radix: parts as u32 });
    }
    to.extend(moved.into_iter().rev());
}
