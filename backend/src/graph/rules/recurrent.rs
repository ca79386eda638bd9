//! Rules of recurrences over tokens and of triangular solves. Recurrences give one packed tensor: the results, then the states.

use super::{Call, ShapeError, Site};
use crate::graph::{DType, Desc, Op, Shape, elements};

impl Call<'_> {
    /// That operand `i` has this shape.
    pub(super) fn shaped(&self, i: usize, wanted: Shape, because: &str) -> Result<(), ShapeError> {
        (0..4).try_for_each(|axis| self.extent(i, axis, wanted[axis], because))
    }

    /// A packed output of rows of `width` elements: `results` elements, then `states`.
    fn packed(&self, width: u64, results: u64, states: u64) -> Result<Desc, ShapeError> {
        let rows = results.checked_add(states).map(|elements| elements / width);
        match (u32::try_from(width), rows.and_then(|rows| u32::try_from(rows).ok())) {
            (Ok(width), Some(rows)) => Ok(Desc::f32([width, rows, 1, 1])),
            _ => self.refuse(Site::Output, format!("{results} results and {states} elements of states exceed 32 bits")),
        }
    }

    /// Output of a recurrence with a square state per head: `[s, heads, tokens]` in operands `vectors`, first states
    /// `[s s heads, sequences]` in the last operand.
    fn square_states(&self, vectors: &[usize]) -> Result<Desc, ShapeError> {
        let last = self.inputs.len() - 1;
        let ([size, heads, tokens, _], sequences) = (self.shape(vectors[0]), self.shape(last)[1]);
        for &i in vectors {
            self.shaped(i, [size, heads, tokens, 1], "as operand 0: [size, heads, tokens]")?;
        }
        let state = u64::from(size) * u64::from(size) * u64::from(heads);
        if u64::from(self.shape(last)[0]) != state {
            let rule =
                format!("axis 0 of {:?} must be {state}: {size} x {size} for each of {heads} heads", self.shape(last));
            return self.refuse(Site::Operand(last), rule);
        }
        self.matrix(last)?;
        if !tokens.is_multiple_of(sequences) {
            return self.refuse(Site::Operand(last), format!("{tokens} tokens are not of {sequences} sequences alike"));
        }
        let width = u64::from(size) * u64::from(heads);
        self.packed(width, width * u64::from(tokens), state * u64::from(sequences))
    }
}

/// Operands input `[kernel - 1 + t, channels, sequences]`, kernel `[kernel, channels]`.
pub(crate) fn ssm_conv(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.matrix(1)?;
    let (x, kernel) = (call.shape(0), call.shape(1));
    call.extent(0, 3, 1, "for its axes are token, channel, sequence")?;
    call.extent(1, 1, x[1], "as the channels of operand 0")?;
    match (x[0] + 1).checked_sub(kernel[0]).filter(|&tokens| tokens > 0) {
        Some(tokens) => Ok(Desc::f32([x[1], tokens, x[2], 1])),
        None => call.refuse(Site::Operand(1), format!("{kernel:?} is longer than {x:?}")),
    }
}

/// Operands states `[n, dim, heads, any]`, x `[dim, heads, t, sequences]`, dt `[heads, t, sequences]`, A `[1 or n, heads]`, B and C
/// `[n, groups, t, sequences]`, ids of the first states `[sequences]`.
pub(crate) fn ssm_scan(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::SsmScan { snapshots } = *call.op else { return call.refuse(Site::Operands, "are not those of a scan") };
    (0..6).try_for_each(|i| call.dtype(i, &[DType::F32]))?;
    let (state, [dim, heads, tokens, sequences]) = (call.shape(0), call.shape(1));
    call.extent(0, 1, dim, "as axis 0 of operand 1")?;
    call.extent(0, 2, heads, "as the heads of operand 1")?;
    call.shaped(2, [heads, tokens, sequences, 1], "for it is [heads, tokens, sequences]")?;
    let rates = if call.shape(3)[0] == 1 { 1 } else { state[0] };
    call.shaped(3, [rates, heads, 1, 1], "for it is [1 or elements of a state, heads]")?;
    let groups = call.shape(4)[1];
    for i in 4..6 {
        call.shaped(
            i,
            [state[0], groups, tokens, sequences],
            "for it is [elements of a state, groups, tokens, sequences]",
        )?;
    }
    call.repeats(4, 1..=1, [1, heads, 1, 1])?;
    if call.vector(6, DType::I32)? != sequences {
        return call.refuse(Site::Operand(6), format!("must have one id for each of {sequences} sequences"));
    }
    let states = elements(&[state[0], dim, heads, sequences]);
    let packed = states.checked_mul(snapshots.into()).and_then(|states| states.checked_add(elements(&call.shape(1))));
    match packed.and_then(|packed| u32::try_from(packed).ok()).filter(|_| snapshots > 0) {
        Some(packed) => Ok(Desc::f32([packed, 1, 1, 1])),
        None => call.refuse(Site::Output, format!("{snapshots} states of {states} elements; must be some, in 32 bits")),
    }
}

/// Operands k, v, r `[s, heads, t]`, bonus `[s, heads]`, decay `[s, heads, t]`, states.
pub(crate) fn rwkv_wkv6(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let [size, heads, ..] = call.shape(0);
    call.shaped(3, [size, heads, 1, 1], "for it is [size, heads]")?;
    call.square_states(&[0, 1, 2, 4])
}

/// Operands r, w, k, v, a, b `[s, heads, t]`, states.
pub(crate) fn rwkv_wkv7(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.square_states(&[0, 1, 2, 3, 4, 5])
}

/// Operands k, v, q, g `[s, heads, t]`, states.
pub(crate) fn gated_linear_attn(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    call.square_states(&[0, 1, 2, 3])
}

/// Operands q, k `[s, heads, t, sequences]`, which may be shared by heads and sequences of v `[s, heads, t, sequences]`, g
/// `[1 or s, heads, t, sequences]`, beta `[1, heads, t, sequences]`, states `[s, s, heads, sequences]`.
pub(crate) fn gated_delta_net(call: &Call<'_>) -> Result<Desc, ShapeError> {
    let Op::GatedDeltaNet { snapshots } = *call.op else {
        return call.refuse(Site::Operands, "are not those of a delta net");
    };
    call.floats()?;
    let v @ [size, heads, tokens, sequences] = call.shape(2);
    for i in 0..2 {
        call.extent(i, 0, size, "as axis 0 of operand 2")?;
        call.extent(i, 2, tokens, "as the tokens of operand 2")?;
        call.repeats(i, 1..=1, v)?;
        call.repeats(i, 3..=3, v)?;
    }
    let rates = if call.shape(3)[0] == 1 { 1 } else { size };
    call.shaped(3, [rates, heads, tokens, sequences], "for it is [1 or size, heads, tokens, sequences]")?;
    call.shaped(4, [1, heads, tokens, sequences], "for it is [1, heads, tokens, sequences]")?;
    call.shaped(5, [size, size, heads, sequences], "for it is [size, size, heads, sequences]")?;
    if snapshots == 0 {
        return call.refuse(Site::Output, "must hold one state at least");
    }
    let states = elements(&call.shape(5)).saturating_mul(snapshots.into());
    call.packed(u64::from(size) * u64::from(heads), elements(&v), states)
}

/// Operands lower triangular `[n, n, ..]`, right sides `[k, n, ..]`.
pub(crate) fn solve_tri(call: &Call<'_>) -> Result<Desc, ShapeError> {
    call.floats()?;
    let (a, b) = (call.shape(0), call.shape(1));
    call.extent(0, 1, a[0], "for it is square")?;
    call.extent(1, 1, a[0], "as the rows of operand 0")?;
    (2..4).try_for_each(|axis| call.extent(1, axis, a[axis], "as that of operand 0"))?;
    Ok(Desc::f32(b))
}
