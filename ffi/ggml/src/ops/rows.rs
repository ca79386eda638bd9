//! Words of softmax, norms of groups, and sorting.

use fblayout::graph::Op;

use super::Pick;
use crate::abi::MAX_OP_PARAMS;

/// `GGML_SORT_ORDER_*` values.
const ASCENDING: i32 = 0;
const DESCENDING: i32 = 1;

/// Words: scale, greatest bias. Sources: x, mask, sinks, of which the last two may be missing.
pub fn soft_max(params: &[i32; MAX_OP_PARAMS], mask: bool, sinks: bool) -> (Op, Vec<Pick>) {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let given = [Some(0), mask.then_some(1), sinks.then_some(2)];
    let op = Op::SoftMax { scale: float(0), max_bias: float(1), sinks };
    (op, given.into_iter().flatten().map(Pick::All).collect())
}

/// Words: groups, epsilon.
pub fn group_norm(params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    let groups = u32::try_from(params[0]).map_err(|_| format!("{} groups", params[0]))?;
    Ok(Op::GroupNorm { groups, eps: f32::from_bits(params[1] as u32) })
}

/// Word: order.
pub fn arg_sort(params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    match params[0] {
        ASCENDING => Ok(Op::ArgSort { descending: false }),
        DESCENDING => Ok(Op::ArgSort { descending: true }),
        order => Err(format!("sort order {order} is not known")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(first: i32, second: f32) -> [i32; MAX_OP_PARAMS] {
        let mut params = [0; MAX_OP_PARAMS];
        params[..2].copy_from_slice(&[first, second.to_bits() as i32]);
        params
    }

    #[test]
    fn a_softmax_takes_the_sources_it_has() {
        let params = words(0.5_f32.to_bits() as i32, 8.0);
        let op = |sinks| Op::SoftMax { scale: 0.5, max_bias: 8.0, sinks };
        let picks = |sources: &[usize]| sources.iter().copied().map(Pick::All).collect::<Vec<_>>();
        assert_eq!(soft_max(&params, false, false), (op(false), picks(&[0])));
        assert_eq!(soft_max(&params, true, false), (op(false), picks(&[0, 1])));
        assert_eq!(soft_max(&params, false, true), (op(true), picks(&[0, 2])));
        assert_eq!(soft_max(&params, true, true), (op(true), picks(&[0, 1, 2])));
    }

    #[test]
    fn groups_and_orders_are_read() {
        assert_eq!(group_norm(&words(32, 1e-6)), Ok(Op::GroupNorm { groups: 32, eps: 1e-6 }));
        assert!(group_norm(&words(-1, 0.0)).is_err());
        assert_eq!(arg_sort(&words(1, 0.0)), Ok(Op::ArgSort { descending: true }));
        assert!(arg_sort(&words(2, 0.0)).is_err());
    }
}
