//! Attention over caches of every type, with groups of heads and masks.

use ggml_host::Type;

use super::Cases;
use crate::own::bound::Bound;
use crate::own::kit::View;

pub fn add(cases: &mut Cases) {
    for name in ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"] {
        let dtype = Type::by_name(name).expect("a type of the engine");
        for (tokens, cells) in [(1, 33), (3, 64), (17, 35)] {
            for (heads, shared) in [(2, 2), (6, 2), (3, 1)] {
                for masked in [false, true] {
                    for view in [View::Dense, View::HEADS] {
                        let mask = if masked { " masked" } else { "" };
                        let case = format!(
                            "FLASH_ATTN_EXT {name} {tokens} over {cells}, {heads} heads of {shared} {}{mask}",
                            view.name()
                        );
                        cases.add(36, case, move |k| {
                            let c = k.ops();
                            let q = k.f32(&[64, tokens, heads], view);
                            let keys = k.weight(dtype, &[64, cells, shared], view);
                            let values = k.weight(dtype, &[64, cells, shared], view);
                            let mask = masked.then(|| causal(k, tokens, cells));
                            let bound = Bound::Attention { terms: 64, scores: 64.0 * 0.125 };
                            k.result(c.flash_attn([q, keys, values], mask, 0.125, 0.0), bound);
                        });
                    }
                }
            }
        }
    }
}

/// A mask in which the last token sees all cells.
pub fn causal<'c>(k: &crate::own::kit::Kit<'c>, tokens: usize, cells: usize) -> ggml_host::Tensor<'c> {
    let past = cells - tokens;
    let seen = |i: usize| if i % cells <= past + i / cells { 0.0 } else { f32::NEG_INFINITY };
    k.input(Type::F16, &[cells, tokens], View::Dense, (0..cells * tokens).map(seen).collect())
}
