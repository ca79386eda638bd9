//! Parameter words of attention.

use fblayout::graph::{FlashAttn, Op};

use super::Pick;
use crate::abi::MAX_OP_PARAMS;

/// Words: scale, slope bias, cap of the scores, precision, most keys that the mask shows. The last two permit shortcuts and change no
/// result. Sources: queries, keys, values, then a mask and sinks, either of which may be absent.
pub(super) fn flash_attn(params: &[i32; MAX_OP_PARAMS], has: impl Fn(usize) -> bool) -> (Op, Vec<Pick>) {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let (mask, sinks) = (has(3), has(4));
    let attention = FlashAttn { scale: float(0), max_bias: float(1), softcap: float(2), mask, sinks, logs: false };
    let present = [(3, mask), (4, sinks)].into_iter().filter_map(|(source, present)| present.then_some(source));
    (Op::FlashAttn(attention), (0..3).chain(present).map(Pick::All).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_sources_are_operands_where_they_are_present() {
        let mut params = [0; MAX_OP_PARAMS];
        for (word, value) in [(0, 0.125_f32), (1, 8.0), (2, 30.0)] {
            params[word] = value.to_bits() as i32;
        }
        let parsed = FlashAttn { scale: 0.125, max_bias: 8.0, softcap: 30.0, mask: false, sinks: false, logs: false };
        let all = |sources: &[usize]| sources.iter().copied().map(Pick::All).collect::<Vec<_>>();
        assert_eq!(flash_attn(&params, |s| s < 3), (Op::FlashAttn(parsed), all(&[0, 1, 2])));
        let masked = FlashAttn { mask: true, ..parsed };
        assert_eq!(flash_attn(&params, |s| s < 4), (Op::FlashAttn(masked), all(&[0, 1, 2, 3])));
        let sinks = FlashAttn { sinks: true, ..parsed };
        assert_eq!(flash_attn(&params, |s| s != 3), (Op::FlashAttn(sinks), all(&[0, 1, 2, 4])));
    }
}
