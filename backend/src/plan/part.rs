//! Parts of a tensor: bytes of its linear form among the rows of texels that hold them.

use std::ops::Range;

use super::{Home, TEXEL_BYTES};

impl Home {
    /// Rows of texels that hold a range of the linear bytes; none of an empty one. The range lies within the tensor.
    pub fn rows_of(&self, bytes: Range<usize>) -> Range<u32> {
        let row_bytes = self.row_bytes();
        let mut rows: Option<Range<u32>> = None;
        self.for_each_piece_of(bytes, |_, device, _| {
            let row = (device / row_bytes) as u32;
            rows = Some(match &rows {
                None => row..row + 1,
                Some(rows) => rows.start.min(row)..rows.end.max(row + 1),
            });
        });
        rows.unwrap_or(0..0)
    }

    /// Puts linear bytes, from byte `offset` of the tensor on, among the texels of the rows from `first_row` on.
    pub fn put(&self, offset: usize, linear: &[u8], first_row: u32, texels: &mut [u8]) {
        let first = first_row as usize * self.row_bytes();
        self.for_each_piece_of(offset..offset + linear.len(), |host, device, length| {
            texels[device - first..][..length].copy_from_slice(&linear[host - offset..][..length]);
        });
    }

    /// The inverse of [`Home::put`].
    pub fn take(&self, offset: usize, linear: &mut [u8], first_row: u32, texels: &[u8]) {
        let first = first_row as usize * self.row_bytes();
        self.for_each_piece_of(offset..offset + linear.len(), |host, device, length| {
            linear[host - offset..][..length].copy_from_slice(&texels[device - first..][..length]);
        });
    }

    fn row_bytes(&self) -> usize {
        self.width as usize * TEXEL_BYTES as usize
    }

    /// Calls for each run of bytes of a range of the linear form: its offset there, its offset among the texels, and its length.
    fn for_each_piece_of(&self, bytes: Range<usize>, mut f: impl FnMut(usize, usize, usize)) {
        let unit = self.dtype.block_bytes() as usize;
        let [blocks, rows, n2, _] = self.block_box().map(|n| n as usize);
        for number in bytes.start / unit..bytes.end.div_ceil(unit) {
            let (row, block) = (number / blocks, number % blocks);
            let index = [block, row % rows, row / rows % n2, row / rows / n2];
            for (within, device, length) in self.pieces(index.map(|i| i as u32)) {
                let host = number * unit + within;
                let (start, end) = (host.max(bytes.start), (host + length).min(bytes.end));
                if start < end {
                    f(start, device + start - host, end - start);
                }
            }
        }
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
                    let rows = home.rows_of(start..end);
                    let held = rows.start as usize * row_bytes..rows.end as usize * row_bytes;
                    home.put(start, &part, rows.start, &mut texels[held.clone()]);
                    assert_eq!(home.unpack(&texels).unwrap(), linear, "{dtype:?} {shape:?} {start}..{end}");
                    let mut taken = vec![0; end - start];
                    home.take(start, &mut taken, rows.start, &texels[held]);
                    assert_eq!(taken, part, "{dtype:?} {shape:?} {start}..{end}");
                }
            }
        }
    }
}
