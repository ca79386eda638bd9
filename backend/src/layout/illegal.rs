//! Why a layout or a view is refused.

/// A rule of the layout algebra that does not hold, with the axis and the numbers that break it.
///
/// Axes are those of the layout, or of the view that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    /// An axis number is not below the rank.
    #[error("axis {axis} does not exist, the rank is {rank}")]
    NoSuchAxis {
        /// The axis asked for.
        axis: usize,
        /// Number of axes.
        rank: usize,
    },
    /// A list that needs one value per axis has another length, or names an axis twice.
    #[error("axes {given:?} are not a permutation of {rank} axes")]
    NotAPermutation {
        /// The list.
        given: Vec<usize>,
        /// Number of axes.
        rank: usize,
    },
    /// A list that needs one value per axis has another length.
    #[error("{given} values for {rank} axes")]
    RankMismatch {
        /// Length of the list.
        given: usize,
        /// Number of axes.
        rank: usize,
    },
    /// An axis of extent zero has no layout.
    #[error("axis {axis} is empty")]
    Empty {
        /// The axis.
        axis: usize,
    },
    /// A tile without elements.
    #[error("a tile of {h} rows of {lanes} elements holds nothing")]
    EmptyTile {
        /// Rows of the tile.
        h: u32,
        /// Elements of a slot.
        lanes: u32,
    },
    /// An axis, or the whole tensor, exceeds the integers of the algebra.
    #[error("axis {axis} has {elements} elements, more than an index holds")]
    TooLong {
        /// The axis.
        axis: usize,
        /// Number of elements, saturated.
        elements: u64,
    },
    /// W1, W2: the digits of an axis must have strides 1, r0, r0 r1, .., each once.
    #[error("axis {axis}: its digits reach {reached}, but the next one has stride {found}")]
    BrokenChain {
        /// The axis.
        axis: usize,
        /// Product of the radices so far.
        reached: u64,
        /// Stride of the digit found instead.
        found: u64,
    },
    /// W1: the radices of an axis must multiply to its padded extent.
    #[error("axis {axis}: its digits hold {digits} values, its padded extent is {padded}")]
    PaddedMismatch {
        /// The axis.
        axis: usize,
        /// Product of the radices.
        digits: u64,
        /// Padded extent.
        padded: u64,
    },
    /// W3: an extent must not exceed the padded extent.
    #[error("axis {axis}: extent {extent} exceeds its padded extent {padded}")]
    ExceedsPadding {
        /// The axis.
        axis: usize,
        /// Extent.
        extent: u64,
        /// Padded extent.
        padded: u64,
    },
    /// W4: too many columns.
    #[error("{width} columns of slots exceed the limit of {max}")]
    TooWide {
        /// Columns needed.
        width: u64,
        /// Columns allowed.
        max: u32,
    },
    /// W4: too many rows.
    #[error("{height} rows of slots exceed the limit of {max}")]
    TooHigh {
        /// Rows needed.
        height: u64,
        /// Rows allowed.
        max: u32,
    },
    /// W5: the lane digits must fill the slot.
    #[error("the lane digits hold {found} elements, a slot holds {expected}")]
    Lanes {
        /// Elements of a slot.
        expected: u32,
        /// Product of the lane radices.
        found: u64,
    },
    /// Two cuts of one index range have no common refinement.
    #[error("axis {axis}: cuts {cut_a} and {cut_b} do not divide one another")]
    NonDivisible {
        /// The axis.
        axis: usize,
        /// One cut, in elements.
        cut_a: u64,
        /// The other cut, in elements.
        cut_b: u64,
    },
    /// An axis would run from the elements of one axis across its padding into the next axis.
    #[error("axis {axis}: it runs over the end of {extent} elements that are padded to {padded}")]
    CutsPadding {
        /// The axis asked for.
        axis: usize,
        /// Elements before the padding.
        extent: u64,
        /// Elements with the padding.
        padded: u64,
    },
    /// Offset and index would carry out of a digit.
    #[error("axis {axis}: offset and index carry over the digit of radix {radix} at stride {stride}")]
    OffsetUnaligned {
        /// The axis asked for.
        axis: usize,
        /// Stride of the digit in the linear index, elements.
        stride: u64,
        /// Number of values of the digit.
        radix: u64,
    },
    /// The last element lies behind the end.
    #[error("axis {axis}: element {element} lies behind the end, at {elements}")]
    OutOfBounds {
        /// The axis asked for.
        axis: usize,
        /// Linear index of the last element asked for, saturated.
        element: u64,
        /// Number of elements.
        elements: u64,
    },
    /// A reshape must keep the number of elements.
    #[error("a reshape from {from} to {to} elements")]
    ElementCount {
        /// Elements before.
        from: u64,
        /// Elements after.
        to: u64,
    },
    /// Only an axis of extent one can be removed.
    #[error("axis {axis} has extent {extent}, only an axis of extent 1 can be removed")]
    NotSqueezable {
        /// The axis.
        axis: usize,
        /// Its extent.
        extent: u32,
    },
    /// The lane of a slot is not one whole digit at the inner end of one axis.
    #[error("axis {axis} splits the {lanes} lanes of a slot")]
    SplitsLane {
        /// The axis that carries a lane digit.
        axis: usize,
        /// Elements of a slot.
        lanes: u32,
    },
    /// A map of tiles that has no inverse.
    #[error("the map of {tiles} tiles is not a bijection")]
    NotABijection {
        /// Number of destination tiles.
        tiles: u32,
    },
    /// Host memory of the wrong length.
    #[error("{given} elements given where there are {expected}")]
    WrongLength {
        /// Elements given.
        given: usize,
        /// Elements of the tensor.
        expected: usize,
    },
}
