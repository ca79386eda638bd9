//! The decision behind every view: is a strided window of a linear index space a regrouping of its digits?
//!
//! The axes of a view, read one after the other, write a linear index in mixed radix: each digit has a weight and a
//! number of values. A window axis of stride s and extent n covers the digits from weight s up to s n. When no digit
//! ever overflows, whatever the indices, the digits of `offset + k0 s0 + k1 s1 + ..` are the sums of the contributions,
//! so positions are sums too.

use super::view::{Term, ViewAxis, continues};
use super::{Illegal, Place, Position};

/// Most elements of a linear index, broadcasts counted: sums and products of two such numbers by small factors do not
/// overflow.
const MAX_ELEMENTS: u64 = 1 << 60;

/// A digit of the linear index.
#[derive(Clone, Copy, Debug)]
struct LinearDigit {
    /// What one step adds to the linear index.
    weight: u64,
    /// Number of values.
    radix: u64,
    /// What one step does to the position.
    at: Option<(Place, u32)>,
    /// Segment it belongs to.
    segment: usize,
}

/// Neighbouring axes whose digits follow each other without a gap. The last digit may hold more values than the segment
/// has elements: then an axis must not run on into the next segment, whose elements start before the digit is used up.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Weight of its first digit.
    base: u64,
    /// Number of elements.
    extent: u64,
    /// Product of its radices, at least `extent`.
    capacity: u64,
}

/// Top end of an old axis: the padding that a new axis ending there inherits.
#[derive(Clone, Debug)]
struct Tail {
    /// Linear index at which the axis ends.
    end: u64,
    /// Its top digit.
    digit: usize,
    /// Values of its top digit that hold elements.
    used: u64,
    /// All values of its top digit.
    radix: u64,
    /// Digits above it, which hold padding only.
    padding: Vec<Term>,
}

/// The digits of the linear index of a view's elements.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    digits: Vec<LinearDigit>,
    segments: Vec<Segment>,
    tails: Vec<Tail>,
    total: u64,
}

/// How far window axes and offset together move each digit and each segment.
struct Load {
    digit: Vec<u64>,
    segment: Vec<u64>,
    /// Tails whose padding an axis has inherited.
    inherited: Vec<bool>,
}

impl Linear {
    /// Reads the axes as one linear index. Padding does not count: a top digit that holds padding is cut to the
    /// elements where it divides, otherwise its segment ends there.
    pub fn of(axes: &[ViewAxis]) -> Result<Self, Illegal> {
        let mut linear = Self { digits: Vec::new(), segments: Vec::new(), tails: Vec::new(), total: 1 };
        for (number, axis) in axes.iter().enumerate() {
            match axis.extent {
                0 => return Err(Illegal::Empty { axis: number }),
                1 => {}
                _ => linear.append(number, axis)?,
            }
        }
        Ok(linear)
    }

    fn append(&mut self, number: usize, axis: &ViewAxis) -> Result<(), Illegal> {
        let base = self.total;
        let extent = u64::from(axis.extent);
        let too_long = Illegal::TooLong { axis: number, elements: u64::MAX };
        self.total = base.checked_mul(extent).filter(|&total| total <= MAX_ELEMENTS).ok_or(too_long)?;
        match self.segments.last_mut() {
            Some(segment) if segment.extent == segment.capacity => segment.extent *= extent,
            _ => self.segments.push(Segment { base, extent, capacity: 1 }),
        }

        let mut inner = 1u64;
        let mut terms = axis.terms.iter();
        let mut tail = Tail { end: self.total, digit: 0, used: 1, radix: 1, padding: Vec::new() };
        for term in terms.by_ref() {
            tail.radix = u64::from(term.radix);
            tail.used = tail.radix.min(extent.div_ceil(inner));
            self.push(base * inner, tail.used, term.at);
            inner *= tail.radix;
            if inner >= extent {
                break;
            }
        }
        if inner < extent {
            return Err(Illegal::ExceedsPadding { axis: number, extent, padded: inner });
        }
        tail.digit = self.digits.len() - 1;
        tail.padding = terms.copied().collect();
        self.tails.push(tail);
        Ok(())
    }

    /// Adds a digit to the last segment, merged with the digit below when the two are one: then a carry is harmless.
    fn push(&mut self, weight: u64, radix: u64, at: Option<(Place, u32)>) {
        let segment = self.segments.len() - 1;
        self.segments[segment].capacity *= radix;
        match self.digits.last_mut() {
            Some(last) if last.segment == segment && continues(last.at, last.radix, at) => last.radix *= radix,
            _ => self.digits.push(LinearDigit { weight, radix, at, segment }),
        }
    }

    /// The digits as terms when they hold exactly the elements; errors name `axis`.
    pub fn exact_terms(&self, axis: usize) -> Result<Vec<Term>, Illegal> {
        match self.segments.iter().find(|segment| segment.extent != segment.capacity) {
            Some(segment) => Err(segment.cut(axis)),
            None => Ok(self.digits.iter().map(|digit| Term { radix: digit.radix as u32, at: digit.at }).collect()),
        }
    }

    /// The axes of a window, and how far its offset moves the position.
    pub fn window(&self, extents: &[u32], strides: &[u64], offset: u64) -> Result<(Vec<ViewAxis>, Position), Illegal> {
        if offset >= self.total {
            return Err(Illegal::OutOfBounds { axis: 0, element: offset, elements: self.total });
        }
        let (mut load, origin) = self.locate(offset);
        let mut axes = Vec::with_capacity(extents.len());
        for (axis, (&extent, &stride)) in extents.iter().zip(strides).enumerate() {
            let terms = match (extent, stride) {
                (0, _) => return Err(Illegal::Empty { axis }),
                (1, _) => Vec::new(),
                (_, 0) => vec![Term { radix: extent, at: None }],
                _ => self.run(axis, u64::from(extent), stride, &mut load)?,
            };
            let elements = terms.iter().fold(1u64, |product, term| product.saturating_mul(term.radix.into()));
            let padded = u32::try_from(elements).map_err(|_| Illegal::TooLong { axis, elements })?;
            axes.push(ViewAxis { extent, padded, terms }.normalize());
        }
        Ok((axes, origin))
    }

    /// Digits and position of one element.
    fn locate(&self, offset: u64) -> (Load, Position) {
        let segment: Vec<u64> = self.segments.iter().map(|segment| offset / segment.base % segment.extent).collect();
        let mut origin = Position::default();
        let mut digit = Vec::with_capacity(self.digits.len());
        for at in &self.digits {
            let value = segment[at.segment] / (at.weight / self.segments[at.segment].base) % at.radix;
            if let Some((place, stride)) = at.at {
                origin.advance(place, value as u32 * stride);
            }
            digit.push(value);
        }
        (Load { digit, segment, inherited: vec![false; self.tails.len()] }, origin)
    }

    /// The digits that an axis of `extent >= 2` elements, `stride >= 1` apart, runs through.
    fn run(&self, axis: usize, extent: u64, stride: u64, load: &mut Load) -> Result<Vec<Term>, Illegal> {
        let reach = stride.saturating_mul(extent - 1);
        if reach >= self.total {
            return Err(Illegal::OutOfBounds { axis, element: reach, elements: self.total });
        }
        // In bounds with two elements, so there is a digit of weight 1.
        let mut at = self.digits.partition_point(|digit| digit.weight <= stride) - 1;
        let segment = self.digits[at].segment;
        let Segment { base, extent: room, .. } = self.segments[segment];
        load.segment[segment] += reach / base;
        if load.segment[segment] >= room {
            let is_last = segment + 1 == self.segments.len();
            let element = load.segment[segment] * base;
            return Err(if is_last {
                Illegal::OutOfBounds { axis, element, elements: self.total }
            } else {
                self.segments[segment].cut(axis)
            });
        }

        let mut terms = Vec::new();
        let mut step = stride;
        let mut left = extent;
        while left > 1 {
            let digit = self.digits[at];
            let apart = step / digit.weight;
            if !step.is_multiple_of(digit.weight) {
                return Err(Illegal::NonDivisible { axis, cut_a: step, cut_b: digit.weight });
            }
            let here = left.min(digit.radix.div_ceil(apart));
            if here < left && !digit.radix.is_multiple_of(apart) {
                return Err(Illegal::NonDivisible { axis, cut_a: step, cut_b: digit.weight * digit.radix });
            }
            load.digit[at] += (here - 1) * apart;
            if load.digit[at] >= digit.radix {
                return Err(Illegal::OffsetUnaligned { axis, stride: digit.weight, radix: digit.radix });
            }
            let at_place = digit.at.map(|(place, stride)| (place, stride * apart as u32));
            terms.push(Term { radix: here as u32, at: at_place });
            left = left.div_ceil(here);
            step = digit.weight * digit.radix;
            at += 1;
        }
        self.inherit_padding(at - 1, stride * extent, &mut terms, &mut load.inherited);
        Ok(terms)
    }

    /// Lets an axis that ends with an old one, in its top digit, keep the padding that follows. Only the first such axis: where the
    /// digit goes on in the next old axis there may be two, which together would run over that padding.
    fn inherit_padding(&self, digit: usize, end: u64, terms: &mut Vec<Term>, inherited: &mut [bool]) {
        let mut tails = self.tails.iter().zip(inherited);
        let tail = tails.find(|(tail, inherited)| tail.end == end && tail.digit == digit && !**inherited);
        let (Some((tail, inherited)), Some(last)) = (tail, terms.last_mut()) else { return };
        let values = u64::from(last.radix) * tail.radix;
        if let Ok(padded) = u32::try_from(values / tail.used)
            && values.is_multiple_of(tail.used)
        {
            last.radix = padded;
            terms.extend(&tail.padding);
            *inherited = true;
        }
    }
}

impl Segment {
    fn cut(&self, axis: usize) -> Illegal {
        Illegal::CutsPadding { axis, extent: self.extent, padded: self.capacity }
    }
}
