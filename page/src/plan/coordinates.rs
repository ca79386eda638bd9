//! Layouts and maps as formulas over the element's indices `i0 .. i3`.

use fblayout::graph::TILE_SLOTS;
use fblayout::kernels::Addressing;
use fblayout::layout::{Digit, Layout};
use fblayout::plan::{Home, Tile};

/// Where the elements of a home are: lane in a slot, column and row of slots.
pub fn layout(layout: &Layout) -> String {
    let Layout { lane, x, y, .. } = layout.normalize();
    format!("lane = {}; x = {}; y = {}", sum(&lane), sum(&x), sum(&y))
}

/// Where a shader finds the elements of an operand: lane in a slot, column and row of texels, or the number of the element.
pub fn map(at: &Addressing) -> String {
    let lanes = at.dtype.lanes();
    let lane = at.lane_axis.map_or_else(|| "fixed".to_owned(), |axis| digit(axis, 1, lanes, at.extents[axis]));
    let [x, y] = [0, 1].map(|place| {
        let mut terms = match at.origin()[place] {
            0 => Vec::new(),
            n => vec![n.to_string()],
        };
        for axis in 0..4 {
            let mut stride = if at.lane_axis == Some(axis) { lanes } else { 1 };
            for (radix, by) in at.digits(axis) {
                if by[place] > 0 {
                    terms.push(factor(by[place], &digit(axis, stride, radix, at.extents[axis])));
                }
                stride = stride.saturating_mul(radix);
            }
        }
        if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
    });
    if at.flat { format!("element {x}") } else { format!("lane = {lane}; x = {x}; y = {y}") }
}

/// The tile of a home: whose rows lie side by side, and how many.
pub fn tile(home: &Home) -> Tile {
    if home.dtype.quant_texels().is_some() {
        return Tile { row_axis: 1, strip: TILE_SLOTS };
    }
    let Layout { x, y, .. } = home.layout.normalize();
    match x.first().filter(|digit| digit.axis > 0 && digit.stride == 1) {
        Some(first) => Tile { row_axis: first.axis.into(), strip: first.radix.min(TILE_SLOTS) },
        None => Tile { row_axis: y.first().map_or(1, |digit| usize::from(digit.axis).max(1)), strip: 1 },
    }
}

/// A tile in words.
pub fn tile_in_words(tile: Tile) -> String {
    match tile {
        Tile { strip: 1, row_axis } => format!("row-major by axis {row_axis}"),
        Tile { row_axis, strip } => format!("strips of {strip} rows of axis {row_axis}"),
    }
}

fn sum(digits: &[Digit]) -> String {
    let mut step = 1;
    let mut terms = Vec::new();
    for &Digit { axis, stride, radix } in digits {
        terms.push(factor(step, &digit(axis.into(), stride, radix, u32::MAX)));
        step *= radix;
    }
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

fn factor(by: u32, of: &str) -> String {
    match by {
        1 => of.to_owned(),
        _ if of.contains(' ') => format!("{by} ({of})"),
        _ => format!("{by} {of}"),
    }
}

/// A digit of an axis of that extent; the modulus is left out where it changes nothing.
fn digit(axis: usize, stride: u32, radix: u32, extent: u32) -> String {
    let mut text = format!("i{axis}");
    if stride > 1 {
        text += &format!(" / {stride}");
    }
    if u64::from(stride) * u64::from(radix) < u64::from(extent) {
        text += &format!(" % {radix}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_r_tile_reads_as_its_digits() {
        let home = Layout::rtile(&[64, 12, 1, 1], 4, 1, 4, u32::MAX, u32::MAX).unwrap();
        assert_eq!(layout(&home), "lane = i0 % 4; x = i1 % 4 + 4 (i0 / 4 % 16); y = i1 / 4 % 3");
        let rows = Layout::rtile(&[64, 12, 1, 1], 4, 1, 1, u32::MAX, u32::MAX).unwrap();
        assert_eq!(layout(&rows), "lane = i0 % 4; x = i0 / 4 % 16; y = i1 % 12");
    }
}
