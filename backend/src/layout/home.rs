//! The home of a root tensor.

use super::Illegal;
use super::view::{Term, View, ViewAxis};

/// One mixed-radix digit of a layout axis: `(index / stride) % radix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// Axis of the root tensor.
    pub axis: u8,
    /// Stride of the digit within its axis.
    pub stride: u32,
    /// Number of values.
    pub radix: u32,
}

/// Extent of an axis, true and padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Number of logical elements.
    pub extent: u32,
    /// Product of the radices of the axis's digits, at least `extent`.
    pub padded: u32,
}

/// Physical group of a digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Element within a slot (a texel of a plain type, a block of a quantized one).
    Lane,
    /// Column of slots.
    X,
    /// Row of slots.
    Y,
}

/// Home of a tensor: every digit of every axis in exactly one place, innermost first.
///
/// The methods presume a layout that [`Layout::verify`] accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Axes of the root, axis 0 innermost in the host's linear form.
    pub axes: Vec<Axis>,
    /// Digits of the lane.
    pub lane: Vec<Digit>,
    /// Digits of the column.
    pub x: Vec<Digit>,
    /// Digits of the row.
    pub y: Vec<Digit>,
}

/// A physical position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Column of slots.
    pub x: u32,
    /// Row of slots.
    pub y: u32,
    /// Element within the slot.
    pub lane: u32,
}

impl Position {
    /// Moves along one place.
    pub(super) fn advance(&mut self, place: Place, by: u32) {
        match place {
            Place::Lane => self.lane += by,
            Place::X => self.x += by,
            Place::Y => self.y += by,
        }
    }
}

impl Layout {
    /// Columns of slots.
    pub fn width(&self) -> u32 {
        capacity(&self.x)
    }

    /// Rows of slots.
    pub fn height(&self) -> u32 {
        capacity(&self.y)
    }

    /// Elements of a slot.
    pub fn lanes(&self) -> u32 {
        capacity(&self.lane)
    }

    /// Number of slots, padding included.
    pub fn slots(&self) -> u64 {
        u64::from(self.width()) * u64::from(self.height())
    }

    /// Extents of the axes, axis 0 first.
    pub fn extents(&self) -> Vec<u32> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// Position of an element; `index` has one value per axis, each below the padded extent.
    pub fn address(&self, index: &[u32]) -> Position {
        let coordinate = |digits: &[Digit]| {
            let mut stride = 1;
            let mut sum = 0;
            for digit in digits {
                sum += index[usize::from(digit.axis)] / digit.stride % digit.radix * stride;
                stride *= digit.radix;
            }
            sum
        };
        Position { x: coordinate(&self.x), y: coordinate(&self.y), lane: coordinate(&self.lane) }
    }

    /// The normal form: no digit of radix 1, no two neighbours that are one digit. Two layouts of equal axes have equal
    /// normal forms exactly when they put every element at the same position.
    pub fn normalize(&self) -> Self {
        let merge = |digits: &[Digit]| {
            let mut merged: Vec<Digit> = Vec::with_capacity(digits.len());
            for digit in digits.iter().filter(|digit| digit.radix > 1) {
                match merged.last_mut() {
                    Some(last) if last.axis == digit.axis && last.stride * last.radix == digit.stride => {
                        last.radix *= digit.radix;
                    }
                    _ => merged.push(*digit),
                }
            }
            merged
        };
        Self { axes: self.axes.clone(), lane: merge(&self.lane), x: merge(&self.x), y: merge(&self.y) }
    }

    /// The same positions with the axes in another order: new axis k is old axis `order[k]`.
    ///
    /// # Errors
    /// `order` is not a permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Result<Self, Illegal> {
        let rank = self.axes.len();
        let mut new = vec![u8::MAX; rank];
        order.iter().zip(0..).for_each(|(&old, at)| new.get_mut(old).into_iter().for_each(|new| *new = at));
        if order.len() != rank || new.contains(&u8::MAX) {
            return Err(Illegal::NotAPermutation { given: order.to_vec(), rank });
        }
        let renamed = |digits: &[Digit]| {
            digits.iter().map(|digit| Digit { axis: new[usize::from(digit.axis)], ..*digit }).collect()
        };
        let axes = order.iter().map(|&axis| self.axes[axis]).collect();
        Ok(Self { axes, lane: renamed(&self.lane), x: renamed(&self.x), y: renamed(&self.y) })
    }

    /// The view of the root itself: its own axes, padding included, in normal form.
    pub fn view(&self) -> View {
        let mut terms: Vec<Vec<(u32, Term)>> = vec![Vec::new(); self.axes.len()];
        for (place, digits) in [(Place::Lane, &self.lane), (Place::X, &self.x), (Place::Y, &self.y)] {
            let mut step = 1;
            for digit in digits.iter().filter(|digit| digit.radix > 1) {
                terms[usize::from(digit.axis)]
                    .push((digit.stride, Term { radix: digit.radix, at: Some((place, step)) }));
                step *= digit.radix;
            }
        }
        let axes = self.axes.iter().zip(terms).map(|(axis, mut terms)| {
            terms.sort_by_key(|&(stride, _)| stride);
            let terms = terms.into_iter().map(|(_, term)| term).collect();
            ViewAxis { extent: axis.extent, padded: axis.padded, terms }
        });
        View { axes: axes.collect(), origin: Position::default() }.normalize()
    }
}

fn capacity(digits: &[Digit]) -> u32 {
    digits.iter().map(|digit| digit.radix).product()
}
