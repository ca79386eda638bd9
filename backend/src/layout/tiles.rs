//! Maps of tile numbers.

use super::strided::Linear;
use super::view::{Term, ViewAxis};
use super::{Illegal, Place};

/// One digit of a destination tile number, and what a step of it adds to the source tile number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TileDigit {
    /// Number of values.
    pub radix: u32,
    /// Step of the source tile number; 0 is a broadcast.
    pub stride: u32,
}

/// Which source tile a destination tile is read from (`G` of the paper): source = offset + sum of digit times stride,
/// over the mixed-radix digits of the destination tile number, innermost first. Always in normal form, so equal maps
/// are equal values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TileMap {
    digits: Vec<TileDigit>,
    offset: u32,
}

impl TileMap {
    /// A map from its digits, innermost first, and the source of tile 0.
    pub(super) fn new(digits: &[TileDigit], offset: u32) -> Self {
        let mut merged: Vec<TileDigit> = Vec::with_capacity(digits.len());
        for &digit in digits.iter().filter(|digit| digit.radix != 1) {
            match merged.last_mut() {
                Some(last) if u64::from(last.stride) * u64::from(last.radix) == u64::from(digit.stride) => {
                    last.radix *= digit.radix
                }
                _ => merged.push(digit),
            }
        }
        Self { digits: merged, offset }
    }

    /// The map of `count` tiles onto themselves.
    pub fn identity(count: u32) -> Self {
        Self::new(&[TileDigit { radix: count, stride: 1 }], 0)
    }

    /// Number of destination tiles.
    pub fn count(&self) -> u32 {
        self.digits.iter().map(|digit| digit.radix).product()
    }

    /// The digits, innermost first.
    pub fn digits(&self) -> &[TileDigit] {
        &self.digits
    }

    /// Number of destination tiles that read the same source tile because of broadcasts.
    pub fn fan(&self) -> u32 {
        self.digits.iter().filter(|digit| digit.stride == 0).map(|digit| digit.radix).product()
    }

    /// The source tile of a destination tile; `tile` is below [`TileMap::count`].
    pub fn evaluate(&self, tile: u32) -> u32 {
        let mut rest = tile;
        let mut source = self.offset;
        for digit in &self.digits {
            source += rest % digit.radix * digit.stride;
            rest /= digit.radix;
        }
        source
    }

    /// Composition: the map `tile -> self(first(tile))`.
    ///
    /// # Errors
    /// `first` leaves the tiles of `self`, or the cuts of the two have no common refinement.
    pub fn after(&self, first: &Self) -> Result<Self, Illegal> {
        let terms = self.digits.iter().map(|digit| Term { radix: digit.radix, at: Some((Place::X, digit.stride)) });
        let tiles = ViewAxis { extent: self.count(), padded: self.count(), terms: terms.collect() }.normalize();
        let extents: Vec<u32> = first.digits.iter().map(|digit| digit.radix).collect();
        let strides: Vec<u64> = first.digits.iter().map(|digit| digit.stride.into()).collect();
        let (windows, moved) = Linear::of(&[tiles])?.window(&extents, &strides, first.offset.into())?;

        let mut digits = Vec::new();
        for (axis, window) in windows.iter().enumerate() {
            // A digit of `first` that ends within one of `self` cannot carry into the next digit of `first`.
            if window.padded != window.extent {
                let (cut_a, cut_b) = (window.extent.into(), window.padded.into());
                return Err(Illegal::NonDivisible { axis, cut_a, cut_b });
            }
            digits.extend(window.terms.iter().map(TileDigit::from));
        }
        Ok(Self::new(&digits, self.offset + moved.x))
    }

    /// The map back: the destination tile of a source tile.
    ///
    /// # Errors
    /// The map is not a bijection of the numbers below [`TileMap::count`].
    pub fn inverse(&self) -> Result<Self, Illegal> {
        let mut inner = 1u32;
        let mut digits: Vec<(u32, TileDigit)> = Vec::with_capacity(self.digits.len());
        for digit in &self.digits {
            digits.push((digit.stride, TileDigit { radix: digit.radix, stride: inner }));
            inner *= digit.radix;
        }
        digits.sort_by_key(|&(source, _)| source);
        let mut reached = 1u32;
        for &(source, digit) in &digits {
            if source != reached {
                return Err(Illegal::NotABijection { tiles: self.count() });
            }
            reached *= digit.radix;
        }
        if self.offset != 0 {
            return Err(Illegal::NotABijection { tiles: self.count() });
        }
        let digits: Vec<TileDigit> = digits.into_iter().map(|(_, digit)| digit).collect();
        Ok(Self::new(&digits, 0))
    }
}

impl From<&Term> for TileDigit {
    fn from(term: &Term) -> Self {
        Self { radix: term.radix, stride: term.at.map_or(0, |(_, stride)| stride) }
    }
}
