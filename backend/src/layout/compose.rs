//! Composition: the elements of one view, read through a map of element numbers.

use super::strided::Linear;
use super::{Digit, Illegal, Layout, Place, Position, View, ViewAxis};

impl Layout {
    /// The host's linear form as a layout: one row of one-element slots, x is the number of the element. A view of it
    /// is a map of element numbers, which [`View::compose`] applies to any home.
    ///
    /// # Errors
    /// An empty axis, or more elements than an index holds.
    pub fn linear(extents: &[u32]) -> Result<Self, Illegal> {
        let axes = extents.iter().map(|&extent| super::Axis { extent, padded: extent }).collect();
        let x = extents.iter().enumerate().map(|(axis, &radix)| Digit { axis: axis as u8, stride: 1, radix }).collect();
        let layout = Self { axes, lane: Vec::new(), x, y: Vec::new() };
        layout.verify(1, u32::MAX, 1)?;
        Ok(layout)
    }
}

impl View {
    /// Whether the elements lie one after the other in their order, axis 0 innermost, from the first slot of a storage on
    /// whose rows are `pitch` slots of `lanes` elements: then their numbers alone tell where they are.
    pub fn is_linear(&self, lanes: u32, pitch: u32) -> bool {
        let mut next = 1;
        // Where the digits of an axis hold padding, the elements of the axes above it are further away.
        let mut ended = false;
        for axis in self.normalize().axes.iter().filter(|axis| axis.extent > 1) {
            let mut inner = 1;
            for term in &axis.terms {
                let step = term.at.map(|(place, stride)| match place {
                    Place::Lane => u64::from(stride),
                    Place::X => u64::from(stride) * u64::from(lanes),
                    Place::Y => (u64::from(stride) * u64::from(lanes)).saturating_mul(pitch.into()),
                });
                if ended || step != Some(next) {
                    return false;
                }
                let Some(end) = next.checked_mul(term.radix.into()) else { return false };
                next = end;
                inner *= u64::from(term.radix);
                if inner >= u64::from(axis.extent) {
                    break;
                }
            }
            ended = inner != u64::from(axis.extent);
        }
        self.origin == Position::default()
    }

    /// The view whose element k is the element of `self` with the number that `elements` (a view of [`Layout::linear`])
    /// puts k at.
    ///
    /// With a whole chain composed at once only the result has to regroup the digits of this view. Step by step, every
    /// cut has to, even one that a later step joins again.
    ///
    /// # Errors
    /// `elements` leaves this view, or does not regroup its digits.
    pub fn compose(&self, elements: &Self) -> Result<Self, Illegal> {
        let terms = || elements.axes.iter().flat_map(|axis| &axis.terms);
        let extents: Vec<u32> = terms().map(|term| term.radix).collect();
        let strides: Vec<u64> = terms().map(|term| term.at.map_or(0, |(_, stride)| u64::from(stride))).collect();
        let (windows, moved) = Linear::of(&self.axes)?.window(&extents, &strides, elements.origin.x.into())?;

        let mut windows = windows.into_iter();
        let mut axes = Vec::with_capacity(elements.axes.len());
        for (axis, map) in elements.axes.iter().enumerate() {
            let mut composed = ViewAxis { extent: map.extent, padded: 1, terms: Vec::new() };
            for (inner, window) in windows.by_ref().take(map.terms.len()).enumerate() {
                let is_outermost = inner + 1 == map.terms.len();
                if window.padded != window.extent && !is_outermost {
                    let (extent, padded) = (window.extent.into(), window.padded.into());
                    return Err(Illegal::CutsPadding { axis, extent, padded });
                }
                composed.terms.extend(window.terms);
            }
            axes.push(composed.normalize());
        }
        let mut origin: Position = self.origin;
        origin.advance(Place::X, moved.x);
        origin.advance(Place::Y, moved.y);
        origin.advance(Place::Lane, moved.lane);
        Ok(Self { axes, origin })
    }
}
