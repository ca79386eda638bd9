//! Parts of a tensor: bytes of its linear form among the rows of texels that hold them.

use std::ops::Range;

use crate::layout::{Illegal, copy_run};

use super::Home;

impl Home {
    /// Rows of texels that hold a range of the linear bytes; none of an empty one.
    ///
    /// # Errors
    /// The range leaves the tensor.
    pub fn rows_of(&self, bytes: Range<usize>) -> Result<Range<u32>, Illegal> {
        let (mut first, mut end) = (usize::MAX, 0);
        self.for_each_run(bytes, |_, device, length| {
            first = first.min(device);
            end = end.max(device + length);
        })?;
        let row_bytes = self.row_bytes();
        Ok(if end == 0 { 0..0 } else { (first / row_bytes) as u32..end.div_ceil(row_bytes) as u32 })
    }

    /// Puts linear bytes, from byte `offset` of the tensor on, among the texels of the rows from `first_row` on.
    ///
    /// # Errors
    /// The bytes leave the tensor.
    pub fn put(&self, offset: usize, linear: &[u8], first_row: u32, texels: &mut [u8]) -> Result<(), Illegal> {
        let first = first_row as usize * self.row_bytes();
        self.for_each_run(offset..offset + linear.len(), |host, device, length| {
            copy_run(&mut texels[device - first..][..length], &linear[host - offset..][..length]);
        })
    }

    /// The inverse of [`Home::put`].
    ///
    /// # Errors
    /// The bytes leave the tensor.
    pub fn take(&self, offset: usize, linear: &mut [u8], first_row: u32, texels: &[u8]) -> Result<(), Illegal> {
        let first = first_row as usize * self.row_bytes();
        self.for_each_run(offset..offset + linear.len(), |host, device, length| {
            copy_run(&mut linear[host - offset..][..length], &texels[device - first..][..length]);
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::device::Limits;
    use crate::graph::{DType, Desc};
    use crate::plan::{Home, PlanOptions, Policy};

    /// Parts that begin and end within rows, blocks and elements are where the whole has them, and nothing else changes.
    #[test]
    fn parts_are_where_the_whole_has_them() {
        let limits = Limits::for_tests();
        for dtype in DType::ALL {
            for (policy, shape) in
                [(Policy::Full, [64, 5, 3, 1]), (Policy::Full, [256, 9, 1, 2]), (Policy::HonestRowmajor, [64, 5, 3, 1])]
            {
                if shape[0] % dtype.block() != 0 {
                    continue;
                }
                let options = PlanOptions { policy, ..PlanOptions::default() };
                let home = Home::of(dtype, &shape, &limits, options).unwrap();
                let n = Desc { dtype, shape }.bytes() as usize;
                let row_bytes = home.row_bytes();
                for (start, end) in [(0, n), (0, 1), (n - 3, n), (n / 3, n / 3 + 37), (n / 2 - 5, n - 7), (5, 5)] {
                    let mut linear: Vec<u8> = (0..n).map(|i| (i % 251) as u8).collect();
                    let mut texels = home.pack(&linear).unwrap();
                    let part: Vec<u8> = (start..end).map(|i| (i % 241) as u8 ^ 0x55).collect();
                    linear[start..end].copy_from_slice(&part);
                    let rows = home.rows_of(start..end).unwrap();
                    let held = rows.start as usize * row_bytes..rows.end as usize * row_bytes;
                    home.put(start, &part, rows.start, &mut texels[held.clone()]).unwrap();
                    assert_eq!(home.unpack(&texels).unwrap(), linear, "{dtype:?} {shape:?} {start}..{end}");
                    let mut taken = vec![0; end - start];
                    home.take(start, &mut taken, rows.start, &texels[held]).unwrap();
                    assert_eq!(taken, part, "{dtype:?} {shape:?} {start}..{end}");
                }
            }
        }
    }
}
