//! Which homes a tensor could have: tiles of `h` rows by `w` elements of axis 0, pruned by the paper's rules as they can be
//! meant, and how each tile lies in the storage.
//!
//! * **C0** the lane digit exists: `w` is whole slots, `h` whole strips.
//! * **C1** a warp loads a tile in whole instructions: at most a quarter of its lanes idle. Soft where nothing is left.
//! * **C2** a tile fits half of the first-level cache, and covers no more lines than its bytes fill.
//! * **C3** whole tiles pad the matrix by less than 10 %, beyond the rounding of axis 0 to whole slots, which all share.
//!
//! A tile lies in strips: `strip` of its rows side by side in each row of the storage, as in an R-Tile home `(row_axis, strip)`; 1 is
//! row-major. Tiles of one strip differ in what a kernel takes at a time, not in where elements live, so the best of them stands for
//! the home.

use crate::device::{Case, Profile};
use crate::graph::{Desc, Form, TILE_SLOTS};
use crate::kernels::StorageKind;
use crate::layout::{Illegal, LineShape};

use super::TEXEL_BYTES;

/// Extents of tiles along axis 0. Short axes (rank 8 of LoRA, one row) need the small ones.
const WIDTHS: [u32; 19] = [4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256];

/// Rows of tiles.
const HEIGHTS: [u32; 21] = [1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256];

/// Rows that lie side by side.
const STRIPS: [u32; 3] = [1, 2, 4];

/// C1: largest share of idle lanes.
const MOST_IDLE: f64 = 0.25;

/// C2: share of the first-level cache for a tile.
const CACHE_SHARE: f64 = 0.5;

/// C3: largest padding.
const MOST_PADDING: f64 = 0.10;

/// Homes that are kept.
const KEPT: usize = 8;

/// A home that a tensor could have, by its best tile.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Candidate {
    /// Axis of the tile's rows.
    pub row_axis: usize,
    /// Rows that lie side by side: the home is the R-Tile `(row_axis, strip)`.
    pub strip: u32,
    /// Rows of the tile.
    pub h: u32,
    /// Elements of axis 0 in the tile.
    pub w: u32,
    /// Padding of the matrix by whole tiles.
    pub padding: f64,
    /// Share of a warp's lanes that idle while it loads the tile.
    pub idle: f64,
    /// Lines under 4 rows of one slot, which is what kernels fetch at once in either direction.
    pub fragment_lines: u64,
    /// Lines under one row of the tile and under one column of slots (`N_row + N_col`).
    pub row_and_column_lines: u64,
}

/// Tiles left after each rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Every choice of rows, extents and strip.
    pub all: usize,
    /// After C0.
    pub c0: usize,
    /// After C1.
    pub c1: usize,
    /// After C2.
    pub c2: usize,
    /// After C3.
    pub c3: usize,
}

/// The homes a tensor could have, best first.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Candidates {
    /// Tiles left after each rule.
    pub counts: Counts,
    /// True when no tile passed every rule, so that C1 and the alignment of C2 only rank.
    pub relaxed: bool,
    /// The homes.
    pub homes: Vec<Candidate>,
}

/// The candidates for a tensor in a storage. Without `pruning` every home that C0 allows is kept.
///
/// # Errors
/// An axis of no elements.
pub fn candidates(desc: Desc, storage: StorageKind, profile: &Profile, pruning: bool) -> Result<Candidates, Illegal> {
    if let Some(axis) = desc.shape.iter().position(|&n| n == 0) {
        return Err(Illegal::Empty { axis });
    }
    let geometry = Geometry::new(desc, storage, profile);
    let all = geometry.all();
    let c0: Vec<Tile> = all.iter().copied().filter(|&tile| geometry.has_lanes(tile)).collect();
    let c1: Vec<Tile> = c0.iter().copied().filter(|&tile| geometry.idle(tile) <= MOST_IDLE).collect();
    let fits = |tile: &Tile| geometry.fits(*tile);
    let c2: Vec<Tile> = c1.iter().copied().filter(|tile| fits(tile) && geometry.is_aligned(*tile)).collect();
    let pads_little = |tile: &Tile| geometry.padding(*tile) < MOST_PADDING;
    let c3: Vec<Tile> = c2.iter().copied().filter(pads_little).collect();
    let counts = Counts { all: all.len(), c0: c0.len(), c1: c1.len(), c2: c2.len(), c3: c3.len() };
    let relaxed = pruning && c3.is_empty();
    let left = match (pruning, relaxed) {
        (false, _) => c0,
        (true, false) => c3,
        (true, true) => c0.into_iter().filter(|tile| fits(tile) && pads_little(tile)).collect(),
    };

    let mut ranked: Vec<Candidate> = left.into_iter().map(|tile| geometry.candidate(tile)).collect();
    ranked.sort_by(|a, b| {
        (a.padding.total_cmp(&b.padding))
            .then(a.idle.total_cmp(&b.idle))
            .then(a.fragment_lines.cmp(&b.fragment_lines))
            .then(a.row_and_column_lines.cmp(&b.row_and_column_lines))
            .then((b.h * b.w).cmp(&(a.h * a.w)))
    });
    let mut homes: Vec<Candidate> = Vec::new();
    for candidate in ranked {
        if !homes.iter().any(|kept| (kept.row_axis, kept.strip) == (candidate.row_axis, candidate.strip)) {
            homes.push(candidate);
        }
    }
    if pruning {
        homes.truncate(KEPT);
    }
    Ok(Candidates { counts, relaxed, homes })
}

/// A tile before it is judged.
#[derive(Clone, Copy)]
struct Tile {
    row_axis: usize,
    strip: u32,
    h: u32,
    w: u32,
}

/// What the rules look at.
struct Geometry {
    desc: Desc,
    warp: u32,
    line: LineShape,
    l1_bytes: f64,
}

impl Geometry {
    fn new(desc: Desc, storage: StorageKind, profile: &Profile) -> Self {
        Self {
            desc,
            warp: profile.subgroups[0],
            line: super::cost::line(profile, storage),
            l1_bytes: Case::Middle.more(profile.l1_bytes),
        }
    }

    /// The grid of tiles. A quantized type has one home, and tiles of whole blocks.
    fn all(&self) -> Vec<Tile> {
        let quantized = self.desc.dtype.is_quantized();
        let long = |&axis: &usize| self.desc.shape[axis] > 1;
        let axes: Vec<usize> = if quantized { vec![1] } else { (1..4).filter(long).collect() };
        let axes = if axes.is_empty() { vec![1] } else { axes };
        let strips: &[u32] = match self.desc.dtype.form() {
            Form::Texel => &STRIPS,
            Form::Tile { .. } => &[TILE_SLOTS],
            Form::Block => &[1],
        };
        let mut tiles = Vec::new();
        for &row_axis in &axes {
            for &strip in strips {
                for h in HEIGHTS {
                    tiles.extend(WIDTHS.map(|w| Tile { row_axis, strip, h, w }));
                }
            }
        }
        tiles
    }

    fn has_lanes(&self, tile: Tile) -> bool {
        tile.w.is_multiple_of(self.desc.dtype.lanes()) && tile.h.is_multiple_of(tile.strip)
    }

    /// Columns and rows of texels.
    fn texels(&self, tile: Tile) -> [u32; 2] {
        let slots = tile.w / self.desc.dtype.lanes();
        [self.desc.dtype.row_texels(slots * tile.strip), tile.h / tile.strip]
    }

    fn count(&self, tile: Tile) -> u32 {
        self.texels(tile).into_iter().product()
    }

    fn idle(&self, tile: Tile) -> f64 {
        let count = self.count(tile);
        1.0 - f64::from(count) / f64::from(count.next_multiple_of(self.warp))
    }

    fn fits(&self, tile: Tile) -> bool {
        f64::from(self.count(tile)) * TEXEL_BYTES as f64 <= CACHE_SHARE * self.l1_bytes
    }

    fn is_aligned(&self, tile: Tile) -> bool {
        let lines = self.line.covered_by_rectangle([0, 0], self.texels(tile));
        // Scales leave a quantized tile unaligned, whatever its extents.
        self.desc.dtype.is_quantized() || lines * u64::from(self.line.texels()) == u64::from(self.count(tile))
    }

    fn padding(&self, tile: Tile) -> f64 {
        let rows = f64::from(self.desc.shape[tile.row_axis]);
        let lanes = self.desc.dtype.lanes();
        let columns = f64::from(self.desc.shape[0].div_ceil(lanes)) * f64::from(lanes);
        let whole = |extent: f64, size: u32| (extent / f64::from(size)).ceil() * f64::from(size);
        whole(rows, tile.h) * whole(columns, tile.w) / (rows * columns) - 1.0
    }

    fn candidate(&self, tile: Tile) -> Candidate {
        let fragment = self.desc.shape[tile.row_axis].min(4);
        Candidate {
            row_axis: tile.row_axis,
            strip: tile.strip,
            h: tile.h,
            w: tile.w,
            padding: self.padding(tile),
            idle: self.idle(tile),
            fragment_lines: self.column(tile, fragment),
            row_and_column_lines: self.row(tile) + self.column(tile, tile.h),
        }
    }

    /// Lines under the first slot of some rows: whole strips, and what is left of one where no whole strip shares its lines.
    fn column(&self, tile: Tile, rows: u32) -> u64 {
        let (strips, left) = (rows / tile.strip, rows % tile.strip);
        let left = if strips.is_multiple_of(self.line.height) { left } else { 0 };
        let lines = |texels| self.line.covered_by_rectangle([0, 0], texels);
        lines([tile.strip, strips]) + lines([left, 1])
    }

    /// Lines under the slots of the first row, which are a strip apart.
    fn row(&self, tile: Tile) -> u64 {
        let slots = tile.w / self.desc.dtype.lanes();
        let last = match self.desc.dtype.form() {
            Form::Block => self.desc.dtype.row_texels(slots) - 1,
            Form::Texel | Form::Tile { .. } => (slots - 1) * tile.strip.min(self.line.width),
        };
        u64::from(last / self.line.width + 1)
    }
}
