//! Where element (i0, i1, i2, i3) lives: mixed-radix digits of the axes, assigned to physical places.
//!
//! A layout is a bijection from the padded index box to the physical box by construction; a reshape regroups digits, a permute
//! renames them, an expansion is an axis with no digit. What is not provably so is an `Err` that says which axis and which cut.

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

/// One digit of a view axis: its value times `stride` moves the position at `place`; `None` is a broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Term {
    /// Number of values.
    pub radix: u32,
    /// Place and physical stride, or nothing.
    pub at: Option<(Place, u32)>,
}

/// One logical axis of a view: terms innermost first; index = sum of digit values times the product of the inner radices.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewAxis {
    /// Number of logical elements.
    pub extent: u32,
    /// Product of the radices; elements from `extent` on are padding.
    pub padded: u32,
    /// Digits, innermost first.
    pub terms: Vec<Term>,
}

/// Logical axes over the positions of a root layout. A view owns no memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// Axes, axis 0 first.
    pub axes: Vec<ViewAxis>,
    /// Position of element (0, 0, ..).
    pub origin: Position,
}
