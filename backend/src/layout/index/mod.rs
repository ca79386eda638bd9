//! Index arithmetic as expressions: what a shader computes to find an element, reduced before it is counted or shown.
//!
//! An expression is a graph of operations on unsigned words whose leaves are indices with known extents, so that every node knows
//! its largest value. [`Expr::reduced`] strips what nested divisions and remainders of a chain of views have in common (rules S1 to
//! S9, in [`reduce`]); [`Expr::machine`] replaces divisions by constants by what a machine does instead (S10, S12, S13, in
//! [`machine`]).

mod machine;
mod reduce;

use std::fmt;
use std::rc::Rc;

use super::{Place, View, ViewAxis};

pub use machine::Ops;

/// An expression over the indices of a box; its value is never negative.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr(Rc<Node>);

#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Node {
    kind: Kind,
    /// The largest value, saturated. The smallest is taken to be 0.
    most: u64,
}

/// An operation. Every constant divisor is at least 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Constant(u64),
    /// Index along an axis.
    Index(usize),
    Add(Expr, Expr),
    /// The second is never the larger one.
    Sub(Expr, Expr),
    Mul(Expr, u64),
    Div(Expr, u64),
    Mod(Expr, u64),
    ShiftLeft(Expr, u32),
    ShiftRight(Expr, u32),
    /// The low bits.
    Low(Expr, u32),
    /// The high part of a product of double width: `x * multiplier >> shift`.
    MulHigh {
        x: Expr,
        multiplier: u64,
        shift: u32,
    },
}

impl Expr {
    fn new(kind: Kind, most: u64) -> Self {
        Self(Rc::new(Node { kind, most }))
    }

    /// A constant.
    pub fn constant(value: u64) -> Self {
        Self::new(Kind::Constant(value), value)
    }

    /// The index along an axis of `extent` elements, at least one.
    pub fn index(axis: usize, extent: u32) -> Self {
        Self::new(Kind::Index(axis), u64::from(extent.saturating_sub(1)))
    }

    /// The sum of two.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        Self::new(Kind::Add(self.clone(), other.clone()), self.most().saturating_add(other.most()))
    }

    /// A multiple.
    #[must_use]
    pub fn mul(&self, by: u64) -> Self {
        Self::new(Kind::Mul(self.clone(), by), self.most().saturating_mul(by))
    }

    /// The whole quotient; a divisor of 0 counts as 1.
    #[must_use]
    pub fn div(&self, by: u64) -> Self {
        let by = by.max(1);
        Self::new(Kind::Div(self.clone(), by), self.most() / by)
    }

    /// The remainder; a divisor of 0 counts as 1.
    #[must_use]
    pub fn modulo(&self, by: u64) -> Self {
        let by = by.max(1);
        Self::new(Kind::Mod(self.clone(), by), self.most().min(by - 1))
    }

    /// The largest value that the indices allow, saturated: an upper bound.
    pub fn most(&self) -> u64 {
        self.0.most
    }

    /// The fewest bits, 16 or 32, of words that hold every intermediate value; nothing where 32 are too few.
    pub fn word_bits(&self) -> Option<u32> {
        [16, 32].into_iter().find(|bits| self.fits(*bits))
    }

    fn fits(&self, bits: u32) -> bool {
        self.most() >> bits == 0 && self.operands().iter().all(|operand| operand.fits(bits))
    }

    /// The value at an index, in words of `bits` (at most 32) that wrap around as a machine's do.
    pub fn evaluate(&self, index: &[u32], bits: u32) -> u32 {
        let wrap = |value: u64| (value & ((1 << bits) - 1)) as u32;
        let at = |x: &Self| u64::from(x.evaluate(index, bits));
        match &self.0.kind {
            &Kind::Constant(value) => wrap(value),
            &Kind::Index(axis) => wrap(index[axis].into()),
            Kind::Add(a, b) => wrap(at(a) + at(b)),
            Kind::Sub(a, b) => wrap(at(a).wrapping_sub(at(b))),
            Kind::Mul(x, by) => wrap(at(x).wrapping_mul(*by)),
            Kind::Div(x, by) => wrap(at(x) / by),
            Kind::Mod(x, by) => wrap(at(x) % by),
            Kind::ShiftLeft(x, by) => wrap(at(x) << by),
            Kind::ShiftRight(x, by) => wrap(at(x) >> by),
            Kind::Low(x, count) => wrap(at(x) & ((1 << count) - 1)),
            Kind::MulHigh { x, multiplier, shift } => {
                wrap(((u128::from(at(x)) * u128::from(*multiplier)) >> shift) as u64)
            }
        }
    }

    fn operands(&self) -> Vec<&Self> {
        match &self.0.kind {
            Kind::Constant(_) | Kind::Index(_) => Vec::new(),
            Kind::Add(a, b) | Kind::Sub(a, b) => vec![a, b],
            Kind::Mul(x, _) | Kind::Div(x, _) | Kind::Mod(x, _) => vec![x],
            Kind::ShiftLeft(x, _) | Kind::ShiftRight(x, _) | Kind::Low(x, _) | Kind::MulHigh { x, .. } => vec![x],
        }
    }
}

impl View {
    /// Column, row and lane of the element at (i0, i1, ..), reduced; indices lie below the extents.
    pub fn coordinates(&self) -> [Expr; 3] {
        let along = |place: Place, origin: u32| {
            let axes = self.axes.iter().enumerate();
            let moved = axes.filter_map(|(number, axis)| axis.along(place, &Expr::index(number, axis.extent)));
            moved.fold(Expr::constant(origin.into()), |sum, moved| sum.add(&moved)).reduced()
        };
        let at = self.origin;
        [along(Place::X, at.x), along(Place::Y, at.y), along(Place::Lane, at.lane)]
    }
}

impl ViewAxis {
    /// How far an index along this axis moves one place, as its digits say; nothing where it does not.
    fn along(&self, place: Place, index: &Expr) -> Option<Expr> {
        let mut inner = 1;
        let mut sum: Option<Expr> = None;
        for term in &self.terms {
            if let Some((at, stride)) = term.at
                && at == place
            {
                let moved = index.div(inner).modulo(term.radix.into()).mul(stride.into());
                sum = Some(sum.map_or(moved.clone(), |sum| sum.add(&moved)));
            }
            inner *= u64::from(term.radix);
        }
        sum
    }
}

/// As GLSL has it, with `i0`, `i1`, .. for the indices.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            Kind::Constant(value) => write!(f, "{value}"),
            Kind::Index(axis) => write!(f, "i{axis}"),
            Kind::Add(a, b) => write!(f, "{a} + {b}"),
            Kind::Sub(a, b) => write!(f, "{a} - {}", Factor(b)),
            Kind::Mul(x, by) => write!(f, "{by} * {}", Factor(x)),
            Kind::Div(x, by) => write!(f, "{} / {by}", Factor(x)),
            Kind::Mod(x, by) => write!(f, "{} % {by}", Factor(x)),
            Kind::ShiftLeft(x, by) => write!(f, "({} << {by})", Factor(x)),
            Kind::ShiftRight(x, by) => write!(f, "({} >> {by})", Factor(x)),
            Kind::Low(x, count) => write!(f, "({} & {})", Factor(x), (1u64 << count) - 1),
            Kind::MulHigh { x, multiplier, shift } => write!(f, "({} * {multiplier} >> {shift})", Factor(x)),
        }
    }
}

/// An operand that binds as tightly as a factor does.
struct Factor<'a>(&'a Expr);

impl fmt::Display for Factor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.0.kind {
            Kind::Add(..) | Kind::Sub(..) | Kind::Mul(..) | Kind::Div(..) | Kind::Mod(..) => write!(f, "({})", self.0),
            _ => write!(f, "{}", self.0),
        }
    }
}
