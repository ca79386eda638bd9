//! Words of a rotary embedding.

use fblayout::graph::{Rope, RopeMode};

use super::places;
use crate::abi::MAX_OP_PARAMS;

/// `GGML_ROPE_TYPE_*` values.
const NORMAL: i32 = 0;
const NEOX: i32 = 2;
const MROPE: i32 = 8;
const VISION: i32 = 24;
const IMROPE: i32 = 40;

/// Words: n_past, n_dims, mode, n_ctx, n_ctx_orig, six floats, four sections of multi-axis modes, first rotated element.
pub fn rope(params: &[i32; MAX_OP_PARAMS], back: bool) -> Result<Rope, String> {
    let float = |word: usize| f32::from_bits(params[word] as u32);
    let count = |word: usize, name: &str| places::count(params[word], name);
    let mode = match params[2] {
        NORMAL => RopeMode::Normal,
        NEOX => RopeMode::Neox,
        MROPE => RopeMode::Multi,
        VISION => RopeMode::Vision,
        IMROPE => RopeMode::Interleaved,
        other => return Err(format!("rope mode {other} is not known")),
    };
    let mut sections = [0; 4];
    if mode.has_sections() {
        for (word, section) in (11..).zip(&mut sections) {
            *section = count(word, "a section of")?;
        }
    }
    Ok(Rope {
        mode,
        n_dims: count(1, "n_dims")?,
        offset: count(15, "the first rotated element")?,
        sections,
        n_ctx_orig: count(4, "n_ctx_orig")?,
        freq_base: float(5),
        freq_scale: float(6),
        ext_factor: float(7),
        attn_factor: float(8),
        beta_fast: float(9),
        beta_slow: float(10),
        back,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn words_are_read_from_their_places() {
        let float = |word: usize, value: f32| (word, value.to_bits() as i32);
        let floats = [float(5, 1e4), float(6, 0.5), float(7, 0.25), float(8, 1.5), float(9, 32.0), float(10, 1.0)];
        let counts = [(1, 64), (2, MROPE), (4, 4096), (11, 8), (12, 12), (13, 12), (15, 32)];
        let wanted = Rope {
            mode: RopeMode::Multi,
            n_dims: 64,
            offset: 32,
            sections: [8, 12, 12, 0],
            n_ctx_orig: 4096,
            freq_base: 1e4,
            freq_scale: 0.5,
            ext_factor: 0.25,
            attn_factor: 1.5,
            beta_fast: 32.0,
            beta_slow: 1.0,
            back: true,
        };
        assert_eq!(rope(&words(&[&floats[..], &counts].concat()), true), Ok(wanted));
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let reason = |word, value| rope(&words(&[(word, value)]), false).expect_err("not known");
        assert!(reason(2, 1).contains("mode 1"));
        assert!(reason(1, -1).contains("n_dims"));
        assert!(reason(15, -2).contains("first rotated element -2"));
    }
}
