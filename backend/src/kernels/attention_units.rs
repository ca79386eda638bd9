//! Attention and its gradients by matrix units: which unit, how many rows of queries and keys a workgroup has at a time.
//!
//! Factors are rounded to F16, sums are f32. Gradients, often below what F16 ends at, are brought into its range by powers of two that the
//! shaders find tile by tile, so that units of F16 are all that it takes.

use super::dispatch::{Builder, is_processor};
use crate::device::{Limits, MatrixType, MatrixUnit, ProductSchedule};

const SUBGROUPS: u32 = 3;
const MATRICES: u32 = 4;
const LANES: u32 = 5;
const DEPTH: u32 = 6;
// The numbers of a unit's extents are such as products by units have, see `gemm`.
const MATRIX_M: u32 = 10;
const MATRIX_N: u32 = 11;
const COLUMNS: u32 = 12;
const MATRIX_K: u32 = 13;
const LOADS_A: u32 = 14;
const LOADS_B: u32 = 15;
const SHARED: u32 = 21;
const LOCAL_SIZE_Y: u32 = 1;
const LOCAL_SIZE_Z: u32 = 2;

/// Octets of one operand that an invocation has under way, where a tile has invocations enough, and at most: registers hold them.
const FEW_LOADS: u32 = 4;
const MOST_LOADS: u32 = 8;

/// Subgroups of a workgroup and others, keys or queries, of a tile, those that spare most first.
const TILES: [[u32; 2]; 8] = [[4, 64], [4, 32], [2, 64], [2, 32], [4, 16], [2, 16], [1, 32], [1, 16]];

/// Elements of the longest rows: no device has shared memory for a tile of longer ones.
const MOST_ROW: u32 = 1 << 16;

/// Sums that an invocation holds at most, of the 255 registers that the poorest GPU has.
const MOST_SUMS: u32 = 192;

/// Bytes of shared memory beside the pool: two numbers of every row, what is seen of a segment of tiles, and maxima.
fn beside(own: u32, others: u32) -> u32 {
    8 * own.max(others) + 4 * (others + 31) + 64
}

/// Most invocations that share a row of scores: each has a component of a texel to tell the others its own.
const MOST_SHARERS: u32 = 4;

/// What passes by the rows that a workgroup owns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Pass {
    /// Keys and values, of so many elements each.
    Forward([u32; 2]),
    /// Rows of both of what a gradient is made of, of so many elements.
    Back(u32),
}

/// How attention is cut for matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Units {
    unit: MatrixUnit,
    subgroups: u32,
    /// Matrices of a tile's others, along the rows that scores sum over, and along those of a result.
    matrices: u32,
    depth: u32,
    columns: u32,
    /// Octets that an invocation fetches of both operands that pass by.
    loads: [u32; 2],
    /// Texels of shared memory.
    shared: u32,
    /// Sums become factors in the units.
    takes_sums: bool,
}

impl Units {
    /// The largest tile that fits a device; none where it has no units, or is not to use them.
    pub fn choose(pass: Pass, limits: &Limits) -> Option<Self> {
        let processor = is_processor(limits);
        let wanted = match limits.products.schedule {
            None => !processor,
            asked => asked == Some(ProductSchedule::Matrix),
        };
        let sound = |unit: &&MatrixUnit| {
            let octets = [unit.m, unit.n, unit.k].iter().all(|n| n % 8 == 0);
            let sharers = unit.subgroup / unit.m;
            unit.factors == MatrixType::F16
                && octets
                && unit.subgroup.is_multiple_of(unit.m)
                && (1..=MOST_SHARERS).contains(&sharers)
                // Sums become factors of F16, whose extents must be among those listed.
                && (matches!(pass, Pass::Forward(_)) || unit.n == unit.k || unit.m == unit.k)
        };
        let units = limits.matrix_units.iter().filter(|_| wanted).filter(sound);
        let unit = units.max_by_key(|unit| unit.m * unit.n * unit.k)?;
        let all =
            || TILES.into_iter().filter_map(|[subgroups, others]| Self::of(*unit, subgroups, others, pass, limits));
        all().find(|units| units.loads.iter().all(|&loads| loads <= FEW_LOADS)).or_else(|| all().next())
    }

    fn of(unit: MatrixUnit, subgroups: u32, others: u32, pass: Pass, limits: &Limits) -> Option<Self> {
        let MatrixUnit { m, n, k, subgroup, max_invocations, .. } = unit;
        let longest = match pass {
            Pass::Forward([key, value]) => key.max(value),
            Pass::Back(row) => row,
        };
        if longest > MOST_ROW {
            return None;
        }
        let invocations = subgroups * subgroup;
        let [own, sharers] = [subgroups * m, subgroup / m];
        // Quads of a row of scores are shared out two by two, and to the invocations that look at a mask, as others are one by one; behind the
        // weights of a row there is room for a row of a matrix of factors.
        let least = if matches!(pass, Pass::Forward(_)) { 2 * n } else { n };
        let shared_out = others.is_multiple_of(n)
            && others.is_multiple_of(k)
            && others.is_multiple_of(8 * sharers)
            && others >= least
            && invocations.is_multiple_of(others / 4)
            && invocations >= others;
        if !shared_out || invocations > max_invocations.min(limits.largest_group()) {
            return None;
        }
        let (depth, columns) = match pass {
            Pass::Forward([key, value]) => (key.div_ceil(k), value.div_ceil(n)),
            Pass::Back(row) => {
                let wide = row.next_multiple_of(n.max(k));
                (wide / k, wide / n)
            }
        };
        let [octets_a, octets_b] = [depth * k / 8, columns * n / 8];
        let scores = own * (others / 4 + 1);
        let passing = others * (octets_a + 1 + octets_b + 1);
        let owned = match pass {
            Pass::Forward(_) => own * (octets_a + 1),
            Pass::Back(_) => own * (octets_a + 1 + octets_b + 1),
        };
        let shared = scores + passing + owned;
        let fits = 16 * u64::from(shared) + u64::from(beside(own, others)) <= limits.max_shared_memory.into();
        let loads = [octets_a, octets_b].map(|octets| (others * octets).div_ceil(invocations));
        let results = if matches!(pass, Pass::Forward(_)) { 1 } else { 2 };
        let sums = results * columns * m * n / subgroup;
        let held = loads.iter().all(|&loads| loads <= MOST_LOADS) && sums <= MOST_SUMS;
        let takes_sums = limits.matrix_sums && n == k;
        (fits && held).then_some(Self {
            unit,
            subgroups,
            matrices: others / n,
            depth,
            columns,
            loads,
            shared,
            takes_sums,
        })
    }

    /// Rows that a workgroup owns.
    pub fn own(&self) -> u32 {
        self.subgroups * self.unit.m
    }

    /// Others in a tile.
    pub fn others(&self) -> u32 {
        self.matrices * self.unit.n
    }

    /// Invocations of a workgroup.
    pub fn invocations(&self) -> u32 {
        self.subgroups * self.unit.subgroup
    }

    /// The shader of those that compute the same: in units that take sums, or by way of shared memory. Without a mask, as hardly anything is
    /// trained, there is the latter alone.
    pub fn masked(&self, [sums, through_memory]: [&'static str; 2]) -> &'static str {
        if self.takes_sums { sums } else { through_memory }
    }

    /// Tells a shader.
    pub fn set<'a>(&self, builder: Builder<'a>) -> Builder<'a> {
        let Self { unit, subgroups, matrices, depth, columns, loads: [loads_a, loads_b], shared, .. } = *self;
        builder
            .set(LOCAL_SIZE_Y, 1)
            .set(LOCAL_SIZE_Z, 1)
            .set(SUBGROUPS, subgroups)
            .set(MATRICES, matrices)
            .set(LANES, unit.subgroup)
            .set(DEPTH, depth)
            .set(MATRIX_M, unit.m)
            .set(MATRIX_N, unit.n)
            .set(COLUMNS, columns)
            .set(MATRIX_K, unit.k)
            .set(LOADS_A, loads_a)
            .set(LOADS_B, loads_b)
            .set(SHARED, shared)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Products;

    const UNIT: MatrixUnit =
        MatrixUnit { factors: MatrixType::F16, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };

    fn gpu(unit: MatrixUnit, shared: u32) -> Limits {
        Limits { subgroup_size: 32, matrix_units: vec![unit], max_shared_memory: shared, ..Limits::for_tests() }
    }

    /// What the shaders count on, whatever the rows and the device.
    #[test]
    fn tiles_are_shared_out_evenly() {
        let passes = |size: u32| [Pass::Forward([size, size + 24]), Pass::Back(size)];
        let units = [
            UNIT,
            MatrixUnit { m: 8, n: 8, k: 8, subgroup: 8, ..UNIT },
            MatrixUnit { n: 8, k: 8, ..UNIT },
            MatrixUnit { subgroup: 64, ..UNIT },
            MatrixUnit { m: 32, ..UNIT },
        ];
        for unit in units {
            for shared in [32 << 10, 48 << 10, 96 << 10] {
                for (size, pass) in (4..=256).step_by(4).flat_map(|size| passes(size).map(|pass| (size, pass))) {
                    let Some(tile) = Units::choose(pass, &gpu(unit, shared)) else {
                        assert!(size > 96 || unit.m > 16, "{unit:?} {pass:?} of {shared}");
                        continue;
                    };
                    let sharers = unit.subgroup / unit.m;
                    let quads = tile.others() / 4;
                    assert!(quads.is_multiple_of(2 * sharers) && tile.invocations().is_multiple_of(quads), "{tile:?}");
                    assert!(tile.others().is_multiple_of(unit.k) && tile.invocations() >= tile.others(), "{tile:?}");
                    assert!(
                        tile.depth * unit.k >= size && 16 * tile.shared + beside(tile.own(), tile.others()) <= shared,
                        "{tile:?}"
                    );
                    match pass {
                        // Behind the weights there is room for a row of factors.
                        Pass::Forward([_, value]) => {
                            assert!(tile.columns * unit.n >= value && quads - tile.others() / 8 >= unit.n / 4);
                        }
                        Pass::Back(_) => assert_eq!(tile.columns * unit.n, tile.depth * unit.k, "{tile:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn a_large_device_has_large_tiles() {
        let [forward, back] =
            [Pass::Forward([64, 64]), Pass::Back(64)].map(|pass| Units::choose(pass, &gpu(UNIT, 48 << 10)));
        let extents = |units: Option<Units>| units.map(|units| [units.own(), units.others(), units.invocations()]);
        assert_eq!((extents(forward), extents(back)), (Some([64, 64, 128]), Some([64, 32, 128])));
    }

    #[test]
    fn units_are_left_alone_where_they_do_not_fit() {
        let pass = Pass::Back(64);
        for unit in [
            MatrixUnit { factors: MatrixType::Bf16, ..UNIT },
            MatrixUnit { k: 4, ..UNIT },
            MatrixUnit { k: 8, ..UNIT },
            MatrixUnit { subgroup: 8, ..UNIT },
            MatrixUnit { m: 8, n: 8, subgroup: 8, ..UNIT },
            MatrixUnit { max_invocations: 16, ..UNIT },
        ] {
            assert_eq!(Units::choose(pass, &gpu(unit, 48 << 10)), None, "{unit:?}");
        }
        for vast in [Pass::Forward([u32::MAX, 64]), Pass::Forward([64, 1 << 31]), Pass::Back(u32::MAX)] {
            assert_eq!(Units::choose(vast, &gpu(UNIT, u32::MAX)), None);
        }
        let asked = |schedule| Products { schedule: Some(schedule), ..Products::NONE };
        let staged = Limits { products: asked(ProductSchedule::Staged), ..gpu(UNIT, 48 << 10) };
        assert_eq!(Units::choose(pass, &staged), None);
        // A processor has units where it is asked to.
        let processor = Limits { subgroup_size: 8, ..gpu(UNIT, 48 << 10) };
        assert_eq!(Units::choose(pass, &processor), None);
        assert!(Units::choose(pass, &Limits { products: asked(ProductSchedule::Matrix), ..processor }).is_some());
    }
}
