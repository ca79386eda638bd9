//! What the device does to bring a tensor's bytes from the host's linear form into its home, or back: a dispatch for each piece that
//! staging holds. [`Home::pack`] and [`Home::unpack`] do the same on the processor.

use std::array;
use std::ops::Range;

use crate::device::Limits;
use crate::graph::{Form, TILE_SLOTS};
use crate::kernels::{Constants, DIGIT_WORDS, FIRST_DIGIT, REPACK_HEADER, StorageKind, Way, repacker};
use crate::layout;

use super::{Home, TEXEL_BYTES};

/// Bytes moved by one kernel, piece by piece. Pieces write different bytes and may run in any order.
#[derive(Clone, Debug, PartialEq)]
pub struct Repack {
    /// Which way.
    pub way: Way,
    /// Name of the shader in `fblayout_shaders`.
    pub shader: &'static str,
    /// Its specialization constants.
    pub constants: Constants,
    /// The dispatches.
    pub pieces: Vec<Piece>,
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Bytes of the host, counted from the first one that is moved.
    pub bytes: Range<usize>,
    /// What the kernel reads before the bytes.
    pub header: [u32; REPACK_HEADER],
    /// Workgroup counts.
    pub groups: [u32; 3],
    /// Rows of texels that are bound of the home, if not all.
    pub rows: Option<Range<u32>>,
}

/// A digit of a coordinate: `index[axis] / stride % radix * step`. Index 0 counts columns, the others elements.
#[derive(Clone, Copy)]
struct Digit {
    axis: usize,
    stride: u32,
    radix: u32,
    step: u32,
}

impl Digit {
    fn of(&self, index: u32) -> u64 {
        u64::from(index / self.stride % self.radix) * u64::from(self.step)
    }
}

/// A home by rows of its tensor, and these by columns: texels, or blocks where four rows' slots are a tile.
struct Rows {
    /// Texels of quants of a slot in a tile, else 0.
    quants: u32,
    /// Of a block, where there are tiles.
    block_bytes: u32,
    /// Of a row of the host.
    row_bytes: u64,
    columns: u32,
    /// Of axes 1..3.
    extents: [u32; 3],
    padded: [u32; 3],
    x: Vec<Digit>,
    y: Vec<Digit>,
}

impl Home {
    /// How the device moves `bytes` of the tensor's linear form, in pieces of at most `room` bytes; `None` where it cannot: homes with more digits
    /// than a header has or whose rows of blocks are folded, and to a home parts that do not fill texels, or rows of tiles.
    pub fn repack(&self, way: Way, bytes: Range<u64>, room: u64, limits: &Limits) -> Option<Repack> {
        let rows = Rows::of(self)?;
        let (shader, constants, group) = repacker(way, rows.quants, self.kind, limits);
        let most = u64::from(limits.max_workgroup_count[0]) * u64::from(group);
        let cut = match way {
            Way::In => rows.cut_in(bytes.clone(), room, most)?,
            Way::Out => rows.cut_out(bytes.clone(), room / TEXEL_BYTES * TEXEL_BYTES, most),
        };
        // The bytes take no more than half of what a dispatch binds altogether.
        let bound = limits.max_storage_buffer_range.min(limits.max_bound_bytes / 2);
        let bind = |texels: &Range<u64>| {
            if self.kind == StorageKind::Image || self.bytes() <= bound {
                return Some(None);
            }
            let found = self.aligned(rows.window(texels), limits.storage_buffer_alignment);
            let size = u64::from(found.end - found.start) * u64::from(self.width) * TEXEL_BYTES;
            (size <= bound).then_some(Some(found))
        };
        let pieces = cut.into_iter().map(|Cut { host, texels }| {
            let held = bind(&texels)?;
            let count = match way {
                Way::In => texels.end - texels.start,
                Way::Out => (host.end - host.start).div_ceil(TEXEL_BYTES),
            };
            let mut header = rows.header();
            let (first, shift) = match way {
                // From a byte's number to its place, in 32 bits that wrap.
                Way::In => (texels.start, (4 * REPACK_HEADER as u64).wrapping_sub(host.start)),
                Way::Out => (host.start / rows.row_bytes, host.start % rows.row_bytes),
            };
            let window = [count, first, shift, rows.row_bytes].map(|n| n as u32);
            header[..4].copy_from_slice(&window);
            header[11..13].copy_from_slice(&[self.width, held.as_ref().map_or(0, |rows| rows.start)]);
            let groups = [(count as u32).div_ceil(group), 1, 1];
            let moved = (host.start - bytes.start) as usize..(host.end - bytes.start) as usize;
            Some(Piece { bytes: moved, header, groups, rows: held })
        });
        let pieces = pieces.collect::<Option<Vec<_>>>()?;
        Some(Repack { way, shader, constants, pieces })
    }

    /// The rows of texels from one on that a binding may begin with.
    fn aligned(&self, rows: Range<u32>, alignment: u64) -> Range<u32> {
        let row_bytes = u64::from(self.width) * TEXEL_BYTES;
        let start = (0..=rows.start).rev().find(|&y| (u64::from(y) * row_bytes).is_multiple_of(alignment));
        start.unwrap_or(0)..rows.end
    }
}

/// A piece: bytes of the host, and the texels that hold them, numbered row by row of the padded box.
struct Cut {
    host: Range<u64>,
    texels: Range<u64>,
}

impl Rows {
    fn of(home: &Home) -> Option<Self> {
        let (dtype, physical) = (home.dtype, home.layout.normalize());
        let lanes = dtype.lanes();
        if physical.lane.iter().any(|digit| (digit.axis, digit.stride, digit.radix) != (0, 1, lanes)) {
            return None;
        }
        let axis = |axis: usize| physical.axes.get(axis).map_or((1, 1), |axis| (axis.extent, axis.padded));
        let row = u64::from(axis(0).0 / dtype.block()) * u64::from(dtype.block_bytes());
        let digits = |digits: &[layout::Digit]| {
            let mut step = 1;
            let found = digits.iter().map(|digit| {
                let stride = if digit.axis == 0 { digit.stride / lanes } else { digit.stride };
                let found = Digit { axis: digit.axis.into(), stride, radix: digit.radix, step };
                step *= digit.radix;
                found
            });
            found.collect::<Vec<_>>()
        };
        let (mut x, y) = (digits(&physical.x), digits(&physical.y));
        let mut columns = axis(0).1 / lanes;
        let quants = dtype.quant_texels().unwrap_or(0);
        match dtype.form() {
            Form::Texel => {}
            // A tile is four neighbours of axis 1.
            Form::Tile { .. } => {
                let first = x.first()?;
                if (first.axis, first.stride) != (1, 1) || !first.radix.is_multiple_of(TILE_SLOTS) {
                    return None;
                }
            }
            // A row of the tensor is a row of texels.
            Form::Block => {
                if x.iter().any(|digit| digit.axis != 0) || y.iter().any(|digit| digit.axis == 0) {
                    return None;
                }
                columns = dtype.row_texels(columns);
                x = vec![Digit { axis: 0, stride: 1, radix: columns, step: 1 }];
            }
        }
        let few = FIRST_DIGIT + DIGIT_WORDS * (x.len() + y.len()) <= REPACK_HEADER;
        let [n1, n2, n3] = [1, 2, 3].map(axis);
        let rows = Self {
            quants,
            block_bytes: dtype.block_bytes(),
            row_bytes: row,
            columns,
            extents: [n1.0, n2.0, n3.0],
            padded: [n1.1, n2.1, n3.1],
            x,
            y,
        };
        // Texels are numbered in 32 bits, and so are the bytes of a row and of a piece behind it.
        (few && rows.texels() <= u32::MAX.into() && row <= (u32::MAX / 2).into()).then_some(rows)
    }

    /// Rows that are moved together.
    fn strip(&self) -> u32 {
        if self.quants > 0 { TILE_SLOTS } else { 1 }
    }

    /// Texels of a strip.
    fn strip_texels(&self) -> u64 {
        u64::from(self.columns) * u64::from(self.column_texels())
    }

    fn column_texels(&self) -> u32 {
        if self.quants > 0 { TILE_SLOTS * self.quants + 1 } else { 1 }
    }

    /// Strips along axes 1..3.
    fn strips(&self) -> [u64; 3] {
        let [p1, p2, p3] = self.padded;
        [p1 / self.strip(), p2, p3].map(u64::from)
    }

    fn texels(&self) -> u64 {
        self.strips().iter().product::<u64>() * self.strip_texels()
    }

    fn bytes(&self) -> u64 {
        self.extents.iter().map(|&n| u64::from(n)).product::<u64>() * self.row_bytes
    }

    /// Column and index of the first row of a texel.
    fn index(&self, texel: u64) -> [u64; 4] {
        let [s1, s2, _] = self.strips();
        let (within, strip) = (texel % self.strip_texels(), texel / self.strip_texels());
        let column = within / u64::from(self.column_texels());
        [column, strip % s1 * u64::from(self.strip()), strip / s1 % s2, strip / (s1 * s2)]
    }

    /// Bytes of the host before those of a texel, which is the first of a strip where rows are moved together.
    fn bytes_before(&self, texel: u64) -> u64 {
        let [column, i1, i2, i3] = self.index(texel);
        let [n1, n2, n3] = self.extents.map(u64::from);
        let (rows, inside) = match () {
            () if i3 >= n3 => (n1 * n2 * n3, false),
            () if i2 >= n2 => (n1 * n2 * (i3 + 1), false),
            () if i1 >= n1 => (n1 * (i2 + 1 + n2 * i3), false),
            () => (i1 + n1 * (i2 + n2 * i3), true),
        };
        rows * self.row_bytes + if inside { (TEXEL_BYTES * column).min(self.row_bytes) } else { 0 }
    }

    /// The texel that holds a byte, or the first of its block's tile; of the end, the number of texels.
    fn texel(&self, byte: u64) -> u64 {
        let [n1, n2, n3] = self.extents.map(u64::from);
        let (row, j) = (byte / self.row_bytes, byte % self.row_bytes);
        let (i1, i2, i3) = (row % n1, row / n1 % n2, row / n1 / n2);
        if i3 >= n3 {
            return self.texels();
        }
        let [s1, s2, _] = self.strips();
        let strip = i1 / u64::from(self.strip()) + s1 * (i2 + s2 * i3);
        let column = if self.quants > 0 { j / u64::from(self.block_bytes) } else { j / TEXEL_BYTES };
        strip * self.strip_texels() + column * u64::from(self.column_texels())
    }

    /// Pieces of whole texels, of whole strips where rows are moved together or where they fit.
    fn cut_in(&self, bytes: Range<u64>, room: u64, most: u64) -> Option<Vec<Cut>> {
        let texels = self.texel(bytes.start)..self.texel(bytes.end);
        if [texels.start, texels.end].map(|at| self.bytes_before_end(at)) != [bytes.start, bytes.end] {
            return None;
        }
        let strip = self.strip_texels();
        let held =
            if self.quants > 0 { room / (u64::from(TILE_SLOTS) * self.row_bytes) * strip } else { room / TEXEL_BYTES };
        let held = held.min(most);
        let whole = held / strip * strip;
        if held == 0 || (self.quants > 0 && (whole == 0 || !texels.start.is_multiple_of(strip))) {
            return None;
        }
        let mut cuts = Vec::new();
        let mut at = texels.start;
        while at < texels.end {
            // Up to the end of a strip first, then strips.
            let step = if whole > 0 { whole - at % strip } else { held };
            let end = (at + step).min(texels.end);
            cuts.push(Cut { host: self.bytes_before_end(at)..self.bytes_before_end(end), texels: at..end });
            at = end;
        }
        Some(cuts)
    }

    /// [`Self::bytes_before`], of the number of texels, too.
    fn bytes_before_end(&self, texel: u64) -> u64 {
        if texel >= self.texels() { self.bytes() } else { self.bytes_before(texel) }
    }

    fn cut_out(&self, bytes: Range<u64>, room: u64, most: u64) -> Vec<Cut> {
        let step = room.min(most * TEXEL_BYTES).max(TEXEL_BYTES);
        let cuts = (0..(bytes.end - bytes.start).div_ceil(step)).map(|n| {
            let start = bytes.start + n * step;
            let end = (start + step).min(bytes.end);
            let (first, last) = (self.texel(start), self.texel(end - 1));
            // Bytes of rows that are moved together come row by row: those between lie anywhere in their strips.
            let texels = if self.quants > 0 {
                let strip = self.strip_texels();
                first / strip * strip..(last / strip + 1) * strip
            } else {
                first..last + 1
            };
            Cut { host: start..end, texels }
        });
        cuts.collect()
    }

    /// Rows of the storage that hold texels, from the first to the last.
    fn window(&self, texels: &Range<u64>) -> Range<u32> {
        let (low, high) = self.span(self.index(texels.start), self.index(texels.end - 1));
        low as u32..high as u32 + 1
    }

    /// The least and the greatest row of the indices between two, in the order of texels.
    fn span(&self, first: [u64; 4], last: [u64; 4]) -> (u64, u64) {
        let ends: [u64; 4] = array::from_fn(|axis| match axis {
            0 => self.columns.into(),
            _ => self.padded[axis - 1].into(),
        });
        let outer = (0..4).rev().find(|&axis| first[axis] != last[axis]).unwrap_or(0);
        let all = |axis: usize| first[axis] == 0 && last[axis] + u64::from(self.strip_of(axis)) >= ends[axis];
        let join = |a: (u64, u64), b: (u64, u64)| (a.0.min(b.0), a.1.max(b.1));
        if !(0..outer).all(all) {
            // The rest of the first step along that axis, whole steps, the beginning of the last.
            let end: [u64; 4] = array::from_fn(|axis| if axis < outer { ends[axis] - 1 } else { first[axis] });
            let start: [u64; 4] = array::from_fn(|axis| if axis < outer { 0 } else { last[axis] });
            let mut found = join(self.span(first, end), self.span(start, last));
            let step = u64::from(self.strip_of(outer));
            let (mut after, mut before) = (start, end);
            after[outer] = first[outer] + step;
            before[outer] = last[outer].saturating_sub(step);
            if after[outer] <= before[outer] {
                found = join(found, self.span(after, before));
            }
            return found;
        }
        let sum = |axis: usize, index: u64| -> u64 {
            self.y.iter().filter(|digit| digit.axis == axis).map(|digit| digit.of(index as u32)).sum()
        };
        (0..4).fold((0, 0), |(low, high), axis| {
            let range = if axis < outer { 0..=ends[axis] - 1 } else { first[axis]..=last[axis] };
            let sums = range.map(|index| sum(axis, index));
            let (least, most) = sums.fold((u64::MAX, 0), |(least, most), sum| (least.min(sum), most.max(sum)));
            (low + least, high + most)
        })
    }

    /// Indices of an axis that are moved together.
    fn strip_of(&self, axis: usize) -> u32 {
        if axis == 1 { self.strip() } else { 1 }
    }

    /// The header without what a piece adds: words 0 to 3 and 11, 12.
    fn header(&self) -> [u32; REPACK_HEADER] {
        let mut header = [0; REPACK_HEADER];
        header[4] = self.columns;
        header[5..8].copy_from_slice(&self.extents);
        header[8..11].copy_from_slice(&self.padded);
        header[13..16].copy_from_slice(&[self.x.len() as u32, self.y.len() as u32, self.block_bytes]);
        let digits = self.x.iter().chain(&self.y);
        for (words, digit) in header[FIRST_DIGIT..].chunks_exact_mut(DIGIT_WORDS).zip(digits) {
            words.copy_from_slice(&[digit.axis as u32, digit.stride, digit.radix, digit.step]);
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::DType;
    use crate::plan::PlanOptions;

    fn homes() -> impl Iterator<Item = Home> {
        let tight = Limits { max_image_2d: 24, max_storage_buffer_range: 16, ..Limits::for_tests() };
        let shapes = [[5_u32, 7, 3, 2], [9, 4, 6, 1], [33, 1, 1, 1], [6, 3, 9, 5], [64, 90, 1, 1]];
        let all = [DType::F32, DType::F16, DType::Q8_0, DType::MXFP4].into_iter().flat_map(move |dtype| {
            shapes.map(|[n0, n1, n2, n3]| (dtype, [n0.next_multiple_of(dtype.block()), n1, n2, n3]))
        });
        all.flat_map(move |(dtype, shape)| {
            [&Limits::for_tests(), &tight].map(|limits| Home::of(dtype, &shape, limits, PlanOptions::default()).ok())
        })
        .flatten()
    }

    /// Rows that are bound are those from the first to the last that texels are in.
    #[test]
    fn windows_are_what_texels_span() {
        for home in homes() {
            let Some(rows) = Rows::of(&home) else { continue };
            let y = |texel: u64| -> u64 {
                let index = rows.index(texel);
                rows.y.iter().map(|digit| digit.of(index[digit.axis] as u32)).sum()
            };
            let ys: Vec<u64> = (0..rows.texels()).map(y).collect();
            for (start, length) in [(0, 1), (0, 7), (3, 20), (11, 64), (40, 200), (0, u64::MAX)] {
                let start = start.min(rows.texels() - 1);
                let end = rows.texels().min(start.saturating_add(length));
                let held = &ys[start as usize..end as usize];
                let expected = *held.iter().min().unwrap() as u32..*held.iter().max().unwrap() as u32 + 1;
                assert_eq!(rows.window(&(start..end)), expected, "{start}..{end} of {home:?}");
            }
        }
    }

    /// Whatever part is read, in pieces of any size, the rows that are bound hold all of its bytes.
    #[test]
    fn windows_hold_every_byte_that_is_read() {
        let folded = Limits { max_image_2d: 48, ..Limits::for_tests() };
        let folded = Home::of(DType::Q8_0, &[320, 80, 1, 1], &folded, PlanOptions::default()).unwrap();
        for home in homes().chain([folded]) {
            let Some(rows) = Rows::of(&home) else { continue };
            let y = |byte: u64| -> u64 {
                let index = rows.index(rows.texel(byte));
                rows.y.iter().map(|digit| digit.of(index[digit.axis] as u32)).sum()
            };
            let all = rows.bytes();
            for (start, length) in [(0, all), (all / 3, 68), (all / 2, all / 3), (7, 1)] {
                for room in [48, 1008, 4096] {
                    let part = start..all.min(start + length);
                    for cut in rows.cut_out(part, room, u64::MAX / TEXEL_BYTES) {
                        let window = rows.window(&cut.texels);
                        let mut held = cut.host.map(y);
                        assert!(held.all(|y| window.contains(&(y as u32))), "{start}, {length} of {home:?}");
                    }
                }
            }
        }
    }

    /// Pieces are the bytes one after the other, none too large, and all texels.
    #[test]
    fn pieces_follow_each_other() {
        for (home, room) in homes().flat_map(|home| [48, 500, 4096, 1 << 20].map(|room| (home.clone(), room))) {
            for way in [Way::In, Way::Out] {
                let Some(rows) = Rows::of(&home) else { continue };
                let limits = Limits { max_storage_buffer_range: 1 << 20, ..Limits::for_tests() };
                let Some(repack) = home.repack(way, 0..rows.bytes(), room, &limits) else {
                    assert!(way == Way::In && rows.quants > 0 && room < 4 * rows.row_bytes, "{home:?}");
                    continue;
                };
                let mut next = 0;
                let mut texels = 0;
                for piece in &repack.pieces {
                    assert!(piece.bytes.start == next && piece.bytes.len() as u64 <= room, "{home:?}");
                    next = piece.bytes.end;
                    texels += u64::from(piece.header[0]);
                }
                assert_eq!(next as u64, rows.bytes());
                assert!(way == Way::Out || texels * TEXEL_BYTES == home.bytes(), "{home:?}");
            }
        }
    }

    /// A part goes to its home by the device if it fills texels, or rows of tiles.
    #[test]
    fn parts_begin_and_end_with_texels() {
        let limits = Limits::for_tests();
        let moves = |dtype, shape, bytes| {
            let home = Home::of(dtype, &shape, &limits, PlanOptions::default()).unwrap();
            home.repack(Way::In, bytes, 1 << 16, &limits).is_some()
        };
        assert!(moves(DType::F32, [6, 8, 1, 1], 24..48) && moves(DType::F32, [6, 8, 1, 1], 40..192));
        assert!(!moves(DType::F32, [6, 8, 1, 1], 24..44) && !moves(DType::F32, [6, 8, 1, 1], 4..24));
        assert!(moves(DType::Q8_0, [64, 8, 1, 1], 4 * 68..8 * 68) && !moves(DType::Q8_0, [64, 8, 1, 1], 0..68));
        // The last strip is whole with what it pads.
        assert!(moves(DType::Q8_0, [64, 6, 2, 1], 4 * 68..6 * 68));
    }
}
