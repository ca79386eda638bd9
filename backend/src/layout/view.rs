//! Other logical axes over the positions of a root.

use super::strided::Linear;
use super::{Illegal, Place, Position};

/// One digit of a view axis: its value times `stride` moves the position at `place`; `None` is a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Number of values.
    pub radix: u32,
    /// Place and physical stride, or nothing.
    pub at: Option<(Place, u32)>,
}

/// One logical axis of a view: terms innermost first; index = sum of digit values times the product of the inner
/// radices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewAxis {
    /// Number of logical elements.
    pub extent: u32,
    /// Product of the radices. Elements from `extent` on stay inside the root; they are its zero padding when the axis
    /// reaches the end of a root axis, and neighbouring elements when it is a slice: readers mask by `extent`.
    pub padded: u32,
    /// Digits, innermost first.
    pub terms: Vec<Term>,
}

/// Logical axes over the positions of a root layout. A view owns no memory.
///
/// Every transform returns the normal form. Transforms see the logical elements only: as one linear index space, axis 0
/// innermost, without the padding.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Axes, axis 0 first.
    pub axes: Vec<ViewAxis>,
    /// Position of element (0, 0, ..).
    pub origin: Position,
}

impl ViewAxis {
    /// An axis of one element.
    pub(super) const ONE: Self = Self { extent: 1, padded: 1, terms: Vec::new() };

    /// The normal form: no term of radix 1, no two neighbours that are one term; `padded` follows the terms.
    pub(super) fn normalize(&self) -> Self {
        let mut merged: Vec<Term> = Vec::with_capacity(self.terms.len());
        for term in self.terms.iter().filter(|term| term.radix > 1) {
            let at = term.at.filter(|&(_, stride)| stride > 0);
            match merged.last_mut() {
                Some(last) if continues(last.at, u64::from(last.radix), at) => last.radix *= term.radix,
                _ => merged.push(Term { radix: term.radix, at }),
            }
        }
        Self { extent: self.extent, padded: merged.iter().map(|term| term.radix).product(), terms: merged }
    }
}

/// Whether a digit at `outer` carries on where a digit of `radix` values at `inner` ends.
pub(super) fn continues(inner: Option<(Place, u32)>, radix: u64, outer: Option<(Place, u32)>) -> bool {
    match (inner, outer) {
        (None, None) => true,
        (Some((a, inner)), Some((b, outer))) => a == b && u64::from(inner) * radix == u64::from(outer),
        _ => false,
    }
}

impl View {
    /// Extents of the axes, axis 0 first.
    pub fn extents(&self) -> Vec<u32> {
        self.axes.iter().map(|axis| axis.extent).collect()
    }

    /// Position of an element; `index` has one value per axis, each below the padded extent.
    pub fn address(&self, index: &[u32]) -> Position {
        let mut position = self.origin;
        for (axis, &index) in self.axes.iter().zip(index) {
            let mut rest = index;
            for term in &axis.terms {
                if let Some((place, stride)) = term.at {
                    position.advance(place, rest % term.radix * stride);
                }
                rest /= term.radix;
            }
        }
        position
    }

    /// The outermost position that an element of the padded box reaches: largest column, largest row, largest lane.
    pub fn reach(&self) -> Position {
        let mut position = self.origin;
        for term in self.axes.iter().flat_map(|axis| &axis.terms) {
            if let Some((place, stride)) = term.at {
                position.advance(place, (term.radix - 1) * stride);
            }
        }
        position
    }

    /// The normal form: no term of radix 1, no two neighbours of an axis that are one term. Two views of equal extents
    /// and padding have equal normal forms exactly when they put every element of the padded box at the same position.
    pub fn normalize(&self) -> Self {
        Self { axes: self.axes.iter().map(ViewAxis::normalize).collect(), origin: self.origin }
    }

    /// The axis that carries the whole lane of a slot as its innermost digit; `None` when no axis moves the lane.
    ///
    /// # Errors
    /// The lane starts within a slot, is split, or is not the innermost digit of its axis.
    pub fn lane_axis(&self, lanes: u32) -> Result<Option<usize>, Illegal> {
        let is_lane = |term: &Term| matches!(term.at, Some((Place::Lane, _)));
        let mut found = None;
        for (axis, ViewAxis { terms, .. }) in self.axes.iter().enumerate() {
            let Some(at) = terms.iter().position(is_lane) else { continue };
            let whole = terms[at].at == Some((Place::Lane, 1)) && (terms[at].radix == lanes || terms.len() == 1);
            if at > 0 || !whole || self.origin.lane > 0 || found.is_some() || terms[1..].iter().any(is_lane) {
                return Err(Illegal::SplitsLane { axis, lanes });
            }
            found = Some(axis);
        }
        Ok(found)
    }

    /// New axis k is old axis `order[k]`.
    ///
    /// # Errors
    /// `order` is not a permutation of the axes.
    pub fn permute(&self, order: &[usize]) -> Result<Self, Illegal> {
        let rank = self.axes.len();
        let mut sorted = order.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..rank) {
            return Err(Illegal::NotAPermutation { given: order.to_vec(), rank });
        }
        let axes = order.iter().map(|&axis| self.axes[axis].clone()).collect();
        Ok(Self { axes, origin: self.origin }.normalize())
    }

    /// Cuts an axis in two: `inner` elements, which keep its number, and the rest on a new axis behind it.
    ///
    /// # Errors
    /// `inner` does not divide the extent, or does not fit the digits.
    pub fn split(&self, axis: usize, inner: u32) -> Result<Self, Illegal> {
        self.check_axis(axis)?;
        let mut extents = self.extents();
        if inner == 0 || !extents[axis].is_multiple_of(inner) {
            return Err(Illegal::NonDivisible { axis, cut_a: inner.into(), cut_b: extents[axis].into() });
        }
        extents.insert(axis + 1, extents[axis] / inner);
        extents[axis] = inner;
        self.reshape(&extents)
    }

    /// Joins two axes; the joined axis takes the place of `inner`, and `outer` is gone.
    ///
    /// # Errors
    /// The inner axis has padding that the joined axis would run over.
    pub fn merge(&self, inner: usize, outer: usize) -> Result<Self, Illegal> {
        self.check_axis(inner)?;
        self.check_axis(outer)?;
        let mut order: Vec<usize> = (0..self.axes.len()).filter(|&axis| axis != outer).collect();
        let Some(at) = order.iter().position(|&axis| axis == inner) else {
            return Err(Illegal::NotAPermutation { given: vec![inner, outer], rank: self.axes.len() });
        };
        order.insert(at + 1, outer);
        let side_by_side = self.permute(&order)?;
        let mut extents = side_by_side.extents();
        let above = extents.remove(at + 1);
        let elements = u64::from(extents[at]) * u64::from(above);
        extents[at] = u32::try_from(elements).map_err(|_| Illegal::TooLong { axis: at, elements })?;
        side_by_side.reshape(&extents)
    }

    /// Keeps elements `start .. start + len` of an axis.
    ///
    /// # Errors
    /// The slice is empty, leaves the axis, or starts within a digit that its indices carry out of.
    pub fn slice(&self, axis: usize, start: u32, len: u32) -> Result<Self, Illegal> {
        self.check_axis(axis)?;
        let mut extents = self.extents();
        let end = u64::from(start) + u64::from(len);
        if end > u64::from(extents[axis]) {
            return Err(Illegal::OutOfBounds { axis, element: end - 1, elements: extents[axis].into() });
        }
        let strides = dense_strides(&extents)?;
        extents[axis] = len;
        // A view of more elements than 64 bits count is refused there.
        self.strided(&extents, &strides, u64::from(start).saturating_mul(strides[axis]))
    }

    /// Broadcast: every element of an axis `fan` times in a row, new index i reads i / fan (query heads over key
    /// heads).
    ///
    /// # Errors
    /// The axis does not exist, or becomes empty or too long.
    pub fn repeat_each(&self, axis: usize, fan: u32) -> Result<Self, Illegal> {
        self.check_axis(axis)?;
        let old = &self.axes[axis];
        let mut terms = vec![Term { radix: fan, at: None }];
        terms.extend(&old.terms);
        self.with_axis(axis, fan, terms, old.padded)
    }

    /// Broadcast: the whole axis `fan` times, new index i reads i % extent.
    ///
    /// # Errors
    /// The axis does not exist, becomes empty or too long, or has padding that the repetition would run over.
    pub fn repeat_whole(&self, axis: usize, fan: u32) -> Result<Self, Illegal> {
        self.check_axis(axis)?;
        // One element has no digit to run out of, whatever its padding.
        let old = if self.axes[axis].extent == 1 { &ViewAxis::ONE } else { &self.axes[axis] };
        let mut terms = Linear::of(std::slice::from_ref(old))?.exact_terms(axis)?;
        terms.push(Term { radix: fan, at: None });
        self.with_axis(axis, fan, terms, old.extent)
    }

    /// Removes an axis of extent 1.
    ///
    /// # Errors
    /// The axis does not exist or has another extent.
    pub fn squeeze(&self, axis: usize) -> Result<Self, Illegal> {
        self.check_axis(axis)?;
        let extent = self.axes[axis].extent;
        if extent != 1 {
            return Err(Illegal::NotSqueezable { axis, extent });
        }
        let mut view = self.normalize();
        view.axes.remove(axis);
        Ok(view)
    }

    /// Inserts an axis of extent 1, so that it becomes number `axis`.
    ///
    /// # Errors
    /// `axis` exceeds the rank.
    pub fn unsqueeze(&self, axis: usize) -> Result<Self, Illegal> {
        let rank = self.axes.len();
        if axis > rank {
            return Err(Illegal::NoSuchAxis { axis, rank });
        }
        let mut view = self.normalize();
        view.axes.insert(axis, ViewAxis::ONE);
        Ok(view)
    }

    /// Other extents over the same linear sequence of elements.
    ///
    /// # Errors
    /// The number of elements differs, or the new extents do not regroup the digits.
    pub fn reshape(&self, extents: &[u32]) -> Result<Self, Illegal> {
        let from = element_count(&self.extents())?;
        let to = element_count(extents)?;
        if from != to {
            return Err(Illegal::ElementCount { from, to });
        }
        self.strided(extents, &dense_strides(extents)?, 0)
    }

    /// A window of the linear index space of this view's elements, as ggml describes one: element `(k0, k1, ..)` of the
    /// result is number `offset + k0 strides[0] + k1 strides[1] + ..`; a stride of 0 is a broadcast, and the stride of
    /// an axis of extent 1 is ignored. Strides and offset count elements.
    ///
    /// The result is right for every index or refused: each new axis has to be a run of digits of the old ones (cut
    /// where needed), and neither the offset nor another axis may ever carry out of such a digit. A new axis that ends
    /// where an old one ends keeps its padding.
    ///
    /// # Errors
    /// The window is empty, leaves the view, or is not a regrouping of digits.
    pub fn strided(&self, extents: &[u32], strides: &[u64], offset: u64) -> Result<Self, Illegal> {
        if extents.len() != strides.len() {
            return Err(Illegal::RankMismatch { given: strides.len(), rank: extents.len() });
        }
        let own = self.extents();
        let whole = offset == 0 && own == extents && is_dense(extents, strides)?;
        if whole {
            return Ok(self.normalize());
        }
        let (axes, moved) = Linear::of(&self.axes)?.window(extents, strides, offset)?;
        let mut origin = self.origin;
        for (place, by) in [(Place::X, moved.x), (Place::Y, moved.y), (Place::Lane, moved.lane)] {
            origin.advance(place, by);
        }
        Ok(Self { axes, origin })
    }

    fn check_axis(&self, axis: usize) -> Result<(), Illegal> {
        let rank = self.axes.len();
        if axis < rank { Ok(()) } else { Err(Illegal::NoSuchAxis { axis, rank }) }
    }

    /// The view with `terms` on an axis that becomes `fan` times as long and `fan * padded` with its padding.
    fn with_axis(&self, axis: usize, fan: u32, terms: Vec<Term>, padded: u32) -> Result<Self, Illegal> {
        if fan == 0 {
            return Err(Illegal::Empty { axis });
        }
        let elements = u64::from(padded) * u64::from(fan);
        let padded = u32::try_from(elements).map_err(|_| Illegal::TooLong { axis, elements })?;
        let mut view = self.normalize();
        view.axes[axis] = ViewAxis { extent: self.axes[axis].extent * fan, padded, terms }.normalize();
        Ok(view)
    }
}

/// Number of elements of a box.
pub(super) fn element_count(extents: &[u32]) -> Result<u64, Illegal> {
    let mut product = 1u64;
    for (axis, &extent) in extents.iter().enumerate() {
        product = product.checked_mul(extent.into()).ok_or(Illegal::TooLong { axis, elements: u64::MAX })?;
    }
    Ok(product)
}

/// Strides of the linear form, axis 0 innermost.
pub(super) fn dense_strides(extents: &[u32]) -> Result<Vec<u64>, Illegal> {
    (0..extents.len()).map(|axis| element_count(&extents[..axis])).collect()
}

/// Whether the strides are those of the linear form, as far as they matter.
fn is_dense(extents: &[u32], strides: &[u64]) -> Result<bool, Illegal> {
    let dense = dense_strides(extents)?;
    Ok(extents.iter().zip(strides.iter().zip(dense)).all(|(&extent, (&given, dense))| extent == 1 || given == dense))
}
