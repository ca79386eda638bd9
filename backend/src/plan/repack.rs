//! What the device does to bring a tensor's bytes from the host's linear form into its home, or back: a dispatch for each piece that
//! staging holds. [`Home::pack`] and [`Home::unpack`] do the same on the processor.

use std::cmp::Ordering;
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
        let bound = limits.max_storage_buffer_range.min(limits.max_bound_bytes.saturating_sub(room + ROOM_ROUNDED));
        let bind = |texels: &Range<u64>| {
            if self.kind == StorageKind::Image || self.bytes() <= bound {
                return Some(None);
            }
            let found = self.aligned(rows.window(texels), limits.storage_buffer_alignment);
            let size = u64::from(found.end - found.start) * u64::from(self.width) * TEXEL_BYTES;
            (size <= bound).then_some(Some(found))
        };
        let pieces = cut.into_iter().map(|Cut { host, texels }| {
            let bound = bind(&texels)?;
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
            header[11..13].copy_from_slice(&[self.width, bound.as_ref().map_or(0, |rows| rows.start)]);
            let groups = [(count as u32).div_ceil(group), 1, 1];
            let moved = (host.start - bytes.start) as usize..(host.end - bytes.start) as usize;
            Some(Piece { bytes: moved, header, groups, rows: bound })
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

/// What a binding of the bytes has beside them, at most.
const ROOM_ROUNDED: u64 = 1024;

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
        // Texels and bytes of a row are numbered in 32 bits.
        (few && rows.texels() <= u32::MAX.into() && row <= u32::MAX.into()).then_some(rows)
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
            Cut { host: start..end, texels: self.texel(start)..self.texel(end - 1) + u64::from(self.column_texels()) }
        });
        cuts.collect()
    }

    /// Rows of the storage that hold texels, and perhaps others.
    fn window(&self, texels: &Range<u64>) -> Range<u32> {
        let (first, mut last) = (self.index(texels.start), self.index(texels.end - 1));
        last[1] += u64::from(self.strip()) - 1;
        // Indices above the outermost axis that they differ on are fixed, those below go over all.
        let outer = (0..4).rev().find(|&axis| first[axis] != last[axis]).unwrap_or(0);
        let sum = |axis: usize, index: u64| -> u64 {
            self.y.iter().filter(|digit| digit.axis == axis).map(|digit| digit.of(index as u32)).sum()
        };
        let (mut low, mut high) = (0, 0);
        for axis in 0..4 {
            let (least, most) = match axis.cmp(&outer) {
                Ordering::Greater => (sum(axis, first[axis]), sum(axis, first[axis])),
                Ordering::Equal => {
                    let sums = (first[axis]..=last[axis]).map(|index| sum(axis, index));
                    sums.fold((u64::MAX, 0), |(least, most), sum| (least.min(sum), most.max(sum)))
                }
                Ordering::Less => {
                    let digits = self.y.iter().filter(|digit| digit.axis == axis);
                    (0, digits.map(|digit| u64::from(digit.radix - 1) * u64::from(digit.step)).sum())
                }
            };
            low += least;
            high += most;
        }
        low as u32..high as u32 + 1
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
