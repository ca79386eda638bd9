//! Parameter words of recurrences and of weighted sums over heads and residual streams.

use fblayout::graph::Op;

use super::numbers::*;
use crate::abi::MAX_OP_PARAMS;

/// Our op for a recurrence, a triangular solve, or one of the ops of sparse attention and residual streams.
pub(super) fn map(op: i32, params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let count = |word: usize| {
        u32::try_from(params[word]).map_err(|_| format!("parameter {word} is {}, must not be negative", params[word]))
    };
    Ok(match op {
        SSM_CONV => Op::SsmConv,
        SSM_SCAN => Op::SsmScan { snapshots: count(0)? },
        RWKV_WKV6 => Op::RwkvWkv6,
        RWKV_WKV7 => Op::RwkvWkv7,
        GATED_LINEAR_ATTN => Op::GatedLinearAttn { scale: float(0) },
        GATED_DELTA_NET => Op::GatedDeltaNet { snapshots: count(0)? },
        SOLVE_TRI => Op::SolveTri,
        LIGHTNING_INDEXER => Op::LightningIndexer,
        DSV4_HC_COMB => Op::Dsv4HcComb { eps: float(0), iterations: count(1)? },
        DSV4_HC_PRE => Op::Dsv4HcPre { scale: float(0), gated: params[1] != 0 },
        DSV4_HC_POST => Op::Dsv4HcPost,
        _ => return Err("the op is not supported".into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_and_counts_are_read_from_their_places() {
        let words = |a: i32, b: i32| {
            let mut params = [0; MAX_OP_PARAMS];
            params[..2].copy_from_slice(&[a, b]);
            params
        };
        let half = 0.5_f32.to_bits() as i32;
        assert_eq!(map(DSV4_HC_COMB, &words(half, 3)), Ok(Op::Dsv4HcComb { eps: 0.5, iterations: 3 }));
        assert_eq!(map(DSV4_HC_PRE, &words(half, 1)), Ok(Op::Dsv4HcPre { scale: 0.5, gated: true }));
        assert_eq!(map(GATED_LINEAR_ATTN, &words(half, 0)), Ok(Op::GatedLinearAttn { scale: 0.5 }));
        assert_eq!(map(SSM_SCAN, &words(2, 0)), Ok(Op::SsmScan { snapshots: 2 }));
        assert_eq!(map(GATED_DELTA_NET, &words(-1, 0)).unwrap_err(), "parameter 0 is -1, must not be negative");
    }
}
