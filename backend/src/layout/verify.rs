//! What makes a layout well formed.

use super::{Digit, Illegal, Layout};

impl Layout {
    /// Checks the rules that make a layout a bijection from its padded index box to a physical box that fits the
    /// device.
    ///
    /// * W1 the digits of each axis form a chain: strides 1, r0, r0 r1, .., and the radices multiply to the padded
    ///   extent;
    /// * W2 so every digit occurs exactly once, in exactly one place;
    /// * W3 no axis is empty or longer than its padded extent (padding is at the top end by construction);
    /// * W4 at most `max_x` columns and `max_y` rows of slots;
    /// * W5 the lane digits multiply to `lanes`.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn verify(&self, lanes: u32, max_x: u32, max_y: u32) -> Result<(), Illegal> {
        let mut digits: Vec<Digit> = [&self.lane, &self.x, &self.y].into_iter().flatten().copied().collect();
        let rank = self.axes.len();
        if let Some(stray) = digits.iter().find(|digit| usize::from(digit.axis) >= rank) {
            return Err(Illegal::NoSuchAxis { axis: usize::from(stray.axis), rank });
        }
        // A digit of radix 1 shares its stride with the digit above it and has to come first.
        digits.sort_by_key(|digit| (digit.axis, digit.stride, digit.radix));
        for axis in 0..rank {
            self.verify_axis(axis, digits.iter().filter(|digit| usize::from(digit.axis) == axis))?;
        }

        let width = capacity(&self.x);
        let height = capacity(&self.y);
        let found = capacity(&self.lane);
        if width > u64::from(max_x) {
            return Err(Illegal::TooWide { width, max: max_x });
        }
        if height > u64::from(max_y) {
            return Err(Illegal::TooHigh { height, max: max_y });
        }
        if found != u64::from(lanes) {
            return Err(Illegal::Lanes { expected: lanes, found });
        }
        Ok(())
    }

    /// W1, W2 and W3 of one axis; `digits` by increasing stride.
    fn verify_axis<'a>(&self, axis: usize, digits: impl Iterator<Item = &'a Digit>) -> Result<(), Illegal> {
        let extent = u64::from(self.axes[axis].extent);
        let padded = u64::from(self.axes[axis].padded);
        let mut reached = 1u64;
        for digit in digits {
            if u64::from(digit.stride) != reached {
                return Err(Illegal::BrokenChain { axis, reached, found: u64::from(digit.stride) });
            }
            reached = reached.saturating_mul(u64::from(digit.radix));
        }
        if extent == 0 {
            return Err(Illegal::Empty { axis });
        }
        if reached != padded {
            return Err(Illegal::PaddedMismatch { axis, digits: reached, padded });
        }
        if extent > padded {
            return Err(Illegal::ExceedsPadding { axis, extent, padded });
        }
        Ok(())
    }
}

/// Number of values that digits hold together, saturated.
fn capacity(digits: &[Digit]) -> u64 {
    digits.iter().fold(1, |product, digit| product.saturating_mul(u64::from(digit.radix)))
}
