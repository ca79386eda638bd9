//! May a consumer read a tensor tile by tile through a chain of transforms, and which tile is where?
//!
//! The source is numbered by tiles: lane and y are the position in the tile, x is the number of the tile. The chain,
//! composed with that home, shows on each destination axis which digits stay in the tile and which choose it.

use super::rtile::divisors;
use super::strided::Linear;
use super::view::{Term, ViewAxis};
use super::{Axis, Chain, Digit, Illegal, Layout, Place, TileDigit, TileMap, View};

/// The tiles of a tensor: `h` elements of the row axis by `w` elements of the column axis, numbered column axis first,
/// then row axis, then the other axes in order. Tiles at the upper ends may be partial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Extents of the tensor.
    pub extents: Vec<u32>,
    /// Axis with `h` elements in a tile.
    pub row: usize,
    /// Axis with `w` elements in a tile.
    pub col: usize,
    /// Rows of a tile.
    pub h: u32,
    /// Columns of a tile.
    pub w: u32,
}

/// Whose axis a padding concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The tensor that is read.
    Source,
    /// The tensor as the consumer sees it.
    Destination,
}

/// How a consumer may read the tiles of a source through a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Legality {
    /// Destination tile t is source tile G(t), element by element.
    Strict(TileMap),
    /// With w rows by h columns, destination tile t is source tile G(t), rows and columns exchanged: the consumer reads
    /// the same tiles in its other direction. G may broadcast too.
    Transposed(TileMap),
    /// Only smaller tiles `(h, w)`, which divide the ones asked for, are strict: the map is of those.
    SubTile(TileMap, (u32, u32)),
    /// Strict, but this many destination tiles read each source tile.
    Broadcast(TileMap, u32),
    /// Tiles straddle the ends of an axis; with that axis padded to whole tiles before it is joined or after it is
    /// split, they would not.
    NeedsPad {
        /// Whose axis.
        side: Side,
        /// The axis.
        axis: usize,
        /// Its padded extent.
        to: u32,
    },
    /// The elements do not follow digits at all.
    Illegal {
        /// The rule.
        why: Illegal,
        /// The transform that broke it; the length of the chain when the consumer did.
        at_step: usize,
    },
}

impl Tiling {
    /// The home that numbers elements by tile: x is the tile, y and lane are the row and column in it.
    ///
    /// # Errors
    /// Row and column are not two axes of the tensor, an axis or the tile is empty, or the tiles are too many.
    pub fn layout(&self) -> Result<Layout, Illegal> {
        let rank = self.extents.len();
        let (row, col) = self.check_roles(rank)?;
        let tiles = [self.extents[col].div_ceil(self.w), self.extents[row].div_ceil(self.h)];
        let mut x = vec![
            Digit { axis: col as u8, stride: self.w, radix: tiles[0] },
            Digit { axis: row as u8, stride: self.h, radix: tiles[1] },
        ];
        let mut axes = Vec::with_capacity(rank);
        for (axis, &extent) in self.extents.iter().enumerate() {
            let size = self.tile_size(axis);
            let elements = u64::from(extent.div_ceil(size)) * u64::from(size);
            let padded = u32::try_from(elements).map_err(|_| Illegal::TooLong { axis, elements })?;
            axes.push(Axis { extent, padded });
            if axis != row && axis != col {
                x.push(Digit { axis: axis as u8, stride: 1, radix: extent });
            }
        }
        let lane = vec![Digit { axis: col as u8, stride: 1, radix: self.w }];
        let y = vec![Digit { axis: row as u8, stride: 1, radix: self.h }];
        let layout = Layout { axes, lane, x, y };
        layout.verify(self.w, u32::MAX, u32::MAX)?;
        Ok(layout)
    }

    /// Decides how a consumer whose tiles lie on axes `row` and `col` of the chain's result may read this tensor.
    pub fn legality(&self, chain: &Chain, row: usize, col: usize) -> Legality {
        let elements = match self.layout().and_then(|_| Layout::linear(&self.extents)) {
            Ok(linear) => chain.apply(&linear.view()),
            Err(why) => return Legality::Illegal { why, at_step: 0 },
        };
        let elements = match elements {
            Ok(elements) => elements,
            Err(broken) => return Legality::Illegal { why: broken.why, at_step: broken.at_step },
        };
        let consumer = Consumer { elements: &elements, row, col };

        if let Ok(map) = consumer.map(self, Direction::Same) {
            return match map.fan() {
                1 => Legality::Strict(map),
                fan => Legality::Broadcast(map, fan),
            };
        }
        if let Ok(map) = consumer.map(self, Direction::Exchanged) {
            return Legality::Transposed(map);
        }
        let (map, tile) = match self.largest_sub_tile(&consumer) {
            Ok(found) => found,
            Err(why) => return Legality::Illegal { why, at_step: chain.0.len() },
        };
        // A tile that keeps no row, or no column, together is worth a padding.
        let row_lost = self.h > 1 && tile.0 == 1;
        let col_lost = self.w > 1 && tile.1 == 1;
        let padding = (row_lost.then(|| self.padding(&elements, (self.row, row), self.h)).flatten())
            .or_else(|| col_lost.then(|| self.padding(&elements, (self.col, col), self.w)).flatten());
        padding.unwrap_or(Legality::SubTile(map, tile))
    }

    /// The largest strict tile that divides this one; the error is that of single elements.
    fn largest_sub_tile(&self, consumer: &Consumer<'_>) -> Result<(TileMap, (u32, u32)), Illegal> {
        let of = |n: u32| divisors(n.into()).into_iter().map(|divisor| divisor as u32);
        let mut tiles: Vec<(u32, u32)> = of(self.h).flat_map(|h| of(self.w).map(move |w| (h, w))).collect();
        tiles.sort_by_key(|&(h, w)| std::cmp::Reverse((u64::from(h) * u64::from(w), h.min(w))));
        let mut last = Err(Illegal::EmptyTile { h: self.h, lanes: self.w });
        for (h, w) in tiles {
            last = consumer.map(&Self { h, w, ..self.clone() }, Direction::Same).map(|map| (map, (h, w)));
            if last.is_ok() {
                break;
            }
        }
        last
    }

    /// The padding that would keep tiles of `size` whole on an axis: tiles straddle the ends of the shorter of the two
    /// axes.
    fn padding(&self, elements: &View, (source, destination): (usize, usize), size: u32) -> Option<Legality> {
        let ends = [
            (elements.axes[destination].extent, Side::Destination, destination),
            (self.extents[source], Side::Source, source),
        ];
        let (extent, side, axis) =
            ends.into_iter().filter(|&(extent, ..)| !extent.is_multiple_of(size)).min_by_key(|end| end.0)?;
        Some(Legality::NeedsPad { side, axis, to: extent.checked_next_multiple_of(size)? })
    }

    fn check_roles(&self, rank: usize) -> Result<(usize, usize), Illegal> {
        let (row, col) = (self.row, self.col);
        if row >= rank || col >= rank || rank > usize::from(u8::MAX) {
            return Err(Illegal::NoSuchAxis { axis: row.max(col), rank });
        }
        if row == col {
            return Err(Illegal::NotAPermutation { given: vec![row, col], rank });
        }
        if self.h == 0 || self.w == 0 {
            return Err(Illegal::EmptyTile { h: self.h, lanes: self.w });
        }
        Ok((row, col))
    }

    fn tile_size(&self, axis: usize) -> u32 {
        if axis == self.row {
            self.h
        } else if axis == self.col {
            self.w
        } else {
            1
        }
    }
}

/// Which of its axes a consumer expects the rows of a source tile on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Same,
    Exchanged,
}

/// A consumer of elements: where it sees the tiles.
struct Consumer<'a> {
    elements: &'a View,
    row: usize,
    col: usize,
}

impl Consumer<'_> {
    /// The tile map, when every tile the consumer sees is one tile of the source.
    fn map(&self, source: &Tiling, direction: Direction) -> Result<TileMap, Illegal> {
        let rank = self.elements.axes.len();
        if self.row >= rank || self.col >= rank || self.row == self.col {
            return Err(Illegal::NoSuchAxis { axis: self.row.max(self.col), rank });
        }
        let view = source.layout()?.view().compose(self.elements)?;
        let rows = (Place::Y, source.h);
        let columns = (Place::Lane, source.w);
        let (on_row, on_col) = match direction {
            Direction::Same => (rows, columns),
            Direction::Exchanged => (columns, rows),
        };
        for (place, start) in [(Place::Y, view.origin.y), (Place::Lane, view.origin.lane)] {
            if start != 0 {
                let (axis, size) = if on_row.0 == place { (self.row, on_row.1) } else { (self.col, on_col.1) };
                return Err(Illegal::OffsetUnaligned { axis, stride: 1, radix: size.into() });
            }
        }
        let mut digits = tile_digits(self.col, &view.axes[self.col], Some(on_col))?;
        digits.extend(tile_digits(self.row, &view.axes[self.row], Some(on_row))?);
        for (axis, terms) in view.axes.iter().enumerate().filter(|&(axis, _)| axis != self.row && axis != self.col) {
            digits.extend(tile_digits(axis, terms, None)?);
        }
        let elements = digits.iter().fold(1, |count: u64, digit| count.saturating_mul(digit.radix.into()));
        if elements > u64::from(u32::MAX) {
            return Err(Illegal::TooLong { axis: self.row, elements });
        }
        Ok(TileMap::new(&digits, view.origin.x))
    }
}

/// The digits of an axis that choose the tile, after those that stay in it: `in_tile` is the place and the size it must
/// keep.
fn tile_digits(number: usize, axis: &ViewAxis, in_tile: Option<(Place, u32)>) -> Result<Vec<TileDigit>, Illegal> {
    let mut outer = &axis.terms[..];
    let mut tiles = axis.extent;
    if let Some((place, size)) = in_tile {
        tiles = axis.extent.div_ceil(size);
        let kept = match axis.terms.first() {
            Some(term) if term.at == Some((place, 1)) => {
                outer = &axis.terms[1..];
                term.radix
            }
            _ => 1,
        };
        // A shorter digit is the whole axis: one partial tile.
        if kept != size && kept < axis.extent {
            return Err(Illegal::NonDivisible { axis: number, cut_a: kept.into(), cut_b: size.into() });
        }
        if tiles == 1 {
            outer = &[];
        }
    }
    let in_tile_place = |term: &Term| matches!(term.at, Some((Place::Lane | Place::Y, _)));
    if let Some(term) = outer.iter().find(|term| in_tile_place(term)) {
        return Err(Illegal::NonDivisible { axis: number, cut_a: term.radix.into(), cut_b: axis.extent.into() });
    }
    let padded = outer.iter().map(|term| term.radix).product();
    let choice = ViewAxis { extent: tiles, padded, terms: outer.to_vec() };
    let terms = Linear::of(&[choice])?.exact_terms(number)?;
    Ok(terms.iter().map(TileDigit::from).collect())
}
