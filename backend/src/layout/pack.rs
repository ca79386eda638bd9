//! Between the host's linear form and the physical order of a home.

use super::{Axis, Digit, Illegal, Layout, Place};

impl Layout {
    /// Elements of the physical form, padding included, as far as they can be counted.
    pub fn packed_len(&self) -> usize {
        (self.slots() as usize).saturating_mul(self.lanes() as usize)
    }

    /// Elements of the host's linear form, as far as they can be counted.
    pub fn linear_len(&self) -> usize {
        self.axes.iter().fold(1, |count: usize, axis| count.saturating_mul(axis.extent as usize))
    }

    /// The same home counted in slots: axis 0 is as many times shorter as a slot has elements. Quantized tensors are
    /// packed by it, a block being one element.
    ///
    /// # Errors
    /// The lane is not the inner end of axis 0, or axis 0 does not fill its last slot.
    pub fn of_slots(&self) -> Result<Self, Illegal> {
        let lanes = self.lanes();
        let normal = self.normalize();
        if normal.lane.iter().any(|digit| (digit.axis, digit.stride, digit.radix) != (0, 1, lanes)) {
            return Err(Illegal::SplitsLane { axis: normal.lane[0].axis.into(), lanes });
        }
        let Axis { extent, padded } = self.axes[0];
        if !extent.is_multiple_of(lanes) {
            return Err(Illegal::NonDivisible { axis: 0, cut_a: lanes.into(), cut_b: extent.into() });
        }
        let mut axes = self.axes.clone();
        axes[0] = Axis { extent: extent / lanes, padded: padded / lanes };
        let in_slots = |digits: Vec<Digit>| {
            let shorten = |digit: Digit| match digit.axis {
                0 => Digit { stride: digit.stride / lanes, ..digit },
                _ => digit,
            };
            digits.into_iter().map(shorten).collect()
        };
        Ok(Self { axes, lane: Vec::new(), x: in_slots(normal.x), y: in_slots(normal.y) })
    }

    /// Puts linear elements at their places: slot (x, y) starts at element `(y width + x) lanes` of the result; padding
    /// is the default.
    ///
    /// # Errors
    /// `linear` does not have one value per element.
    pub fn pack<T: Copy + Default>(&self, linear: &[T]) -> Result<Vec<T>, Illegal> {
        check_length(linear.len(), self.linear_len())?;
        let mut packed = vec![T::default(); self.packed_len()];
        self.pack_range(0, linear, &mut packed)?;
        Ok(packed)
    }

    /// The linear elements of a packed tensor.
    ///
    /// # Errors
    /// `packed` does not have one value per place.
    pub fn unpack<T: Copy + Default>(&self, packed: &[T]) -> Result<Vec<T>, Illegal> {
        let mut linear = vec![T::default(); self.linear_len()];
        self.unpack_range(packed, 0, &mut linear)?;
        Ok(linear)
    }

    /// Puts the linear elements from number `start` on at their places in `packed`, and touches nothing else.
    ///
    /// # Errors
    /// `linear` runs over the end, or `packed` does not have one value per place.
    pub fn pack_range<T: Copy>(&self, start: usize, linear: &[T], packed: &mut [T]) -> Result<(), Illegal> {
        check_length(packed.len(), self.packed_len())?;
        self.for_each_run(start, linear.len(), |from, to, run| {
            copy_run(&mut packed[to..to + run], &linear[from..from + run]);
        })
    }

    /// Fetches the linear elements from number `start` on.
    ///
    /// # Errors
    /// `linear` runs over the end, or `packed` does not have one value per place.
    pub fn unpack_range<T: Copy>(&self, packed: &[T], start: usize, linear: &mut [T]) -> Result<(), Illegal> {
        check_length(packed.len(), self.packed_len())?;
        self.for_each_run(start, linear.len(), |from, to, run| {
            copy_run(&mut linear[from..from + run], &packed[to..to + run]);
        })
    }

    /// Calls `visit(from, to, run)` for elements that are neighbours in both forms: those from number `start + from` on
    /// lie at `to` on. Positions are sums of one summand per axis, read from tables: no division per element.
    pub(crate) fn for_each_run(
        &self,
        start: usize,
        len: usize,
        mut visit: impl FnMut(usize, usize, usize),
    ) -> Result<(), Illegal> {
        let total = self.linear_len();
        if start.checked_add(len).is_none_or(|end| end > total) {
            return Err(Illegal::WrongLength { given: start.saturating_add(len), expected: total });
        }
        if len == 0 {
            return Ok(());
        }
        if self.view().is_linear(self.lanes(), self.width()) {
            visit(0, start, len);
            return Ok(());
        }
        let tables: Vec<Vec<usize>> = (0..self.axes.len()).map(|axis| self.offsets(axis)).collect();
        let Some((columns, rows)) = tables.split_first() else { return Ok(()) };
        // The first index that leaves its neighbours starts a digit, so every multiple of it does.
        let run = columns.iter().enumerate().take_while(|&(i, &at)| i == at).count();

        let mut column = start % columns.len();
        let mut row = start / columns.len();
        let mut index: Vec<usize> = Vec::with_capacity(rows.len());
        for table in rows {
            index.push(row % table.len());
            row /= table.len();
        }
        let mut done = 0;
        while done < len {
            let base: usize = rows.iter().zip(&index).map(|(table, &i)| table[i]).sum();
            let end = columns.len().min(column + len - done);
            let mut whole = run - column % run;
            while column < end {
                let here = whole.min(end - column);
                visit(done, base + columns[column], here);
                done += here;
                column += here;
                whole = run;
            }
            column = 0;
            for (i, table) in index.iter_mut().zip(rows) {
                *i += 1;
                if *i < table.len() {
                    break;
                }
                *i = 0;
            }
        }
        Ok(())
    }

    /// What each index of an axis adds to the physical element number.
    fn offsets(&self, axis: usize) -> Vec<usize> {
        let width = self.width() as usize;
        let lanes = self.lanes() as usize;
        let mut offsets = vec![0usize];
        for term in &self.view().axes[axis].terms {
            let step = match term.at {
                Some((Place::Lane, stride)) => stride as usize,
                Some((Place::X, stride)) => stride as usize * lanes,
                Some((Place::Y, stride)) => stride as usize * lanes * width,
                None => 0,
            };
            let inner = offsets.len();
            for value in 1..term.radix as usize {
                if offsets.len() >= self.axes[axis].extent as usize {
                    break;
                }
                for i in 0..inner {
                    offsets.push(offsets[i] + value * step);
                }
            }
        }
        offsets.truncate(self.axes[axis].extent as usize);
        offsets
    }
}

/// Copies neighbours. Most runs are the elements of a texel, whose number the compiler then knows.
pub(crate) fn copy_run<T: Copy>(to: &mut [T], from: &[T]) {
    fn fixed<T: Copy, const N: usize>(to: &mut [T], from: &[T]) {
        if let (Ok(to), Ok(from)) = (<&mut [T; N]>::try_from(to), <&[T; N]>::try_from(from)) {
            *to = *from;
        }
    }
    match to.len() {
        4 => fixed::<T, 4>(to, from),
        8 => fixed::<T, 8>(to, from),
        16 => fixed::<T, 16>(to, from),
        _ => to.copy_from_slice(from),
    }
}

fn check_length(given: usize, expected: usize) -> Result<(), Illegal> {
    if given == expected { Ok(()) } else { Err(Illegal::WrongLength { given, expected }) }
}
